-- wait(): what it refuses, what it returns for at once, and its timeout. D-25, D-27
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();
-- Did it end long before its timeout of an hour? The bound is wide, for a busy machine.
CREATE FUNCTION t.at_once(since timestamptz) RETURNS boolean LANGUAGE sql AS $$ SELECT clock_timestamp() - since < '30 s' $$;

-- Zero is one look; unknown queues are waited for; the timeout ends a wait without an error.
SELECT clock_timestamp() AS began \gset
CALL wait('{q}', '0');
SELECT t.at_once(:'began');
SELECT clock_timestamp() AS began \gset
CALL wait('{nobody,knows}', '300 ms');
SELECT clock_timestamp() - :'began' >= '300 ms';
-- More queues than a waiter has nodes; the same one twice.
SELECT array_agg('queue ' || n) AS many FROM generate_series(1, 200) n \gset
CALL wait(:'many', '10 ms');
CALL wait('{q,q}', timeout => '10 ms');

-- Work that is there ends it at once, in whichever queue and at whatever priority.
SELECT created FROM insert('a', queue => 'it''s "odd", {queue}', priority => 7);
SELECT clock_timestamp() AS began \gset
CALL wait(ARRAY['q', 'it''s "odd", {queue}'], '1 h');
SELECT t.at_once(:'began');
CALL wait(:'many' || ARRAY['it''s "odd", {queue}'], '1 h');
SELECT t.at_once(:'began');
-- What is executing, blocked or due much later is no work; what is due soon ends it when it is due.
SELECT fsm FROM pick('it''s "odd", {queue}', 'w');
SELECT count(*) FROM unnest('{held,blocked}'::text[]) n, insert(n, queue => 'keyed', concurrency_key => 'k');
SELECT fsm FROM pick('keyed', 'w', 5);
SELECT created FROM insert('late', queue => 'later', schedule_in => '1 h');
SELECT clock_timestamp() AS began \gset
CALL wait(ARRAY['keyed', 'later', 'it''s "odd", {queue}'], '300 ms');
SELECT clock_timestamp() - :'began' >= '300 ms';
SELECT created FROM insert('soon', queue => 'later', priority => 3, schedule_in => '400 ms');
CALL wait('{later}', '1 h');
SELECT fsm, t.at_once(:'began') FROM pick('later', 'w');

-- Refused: inside a transaction, in a function, after a write in the same one, and where its looks would all see the same.
\set VERBOSITY sqlstate
BEGIN;
CALL wait('{q}', '0');
ROLLBACK;
SELECT err('CALL gen_durable.wait(''{q}'', ''0'')', 'transaction block');
DO $$ BEGIN INSERT INTO gen_durable.queues (name) VALUES ('written'); CALL gen_durable.wait('{q}', '0'); END $$;
SET default_transaction_isolation = 'repeatable read';
CALL wait('{q}', '0');
SET default_transaction_isolation = 'serializable';
CALL wait('{q}', '0');
RESET default_transaction_isolation;
-- A procedure or a block that has not written may wait, and goes on after it.
DO $$ BEGIN CALL gen_durable.wait('{q}', '10 ms'); PERFORM gen_durable.find('x'); CALL gen_durable.wait('{q}', '10 ms'); END $$;
-- It reads only.
SET default_transaction_read_only = on;
CALL wait('{q}', '10 ms');
RESET default_transaction_read_only;

-- Arguments: each with its SQLSTATE.
CALL wait(NULL);
CALL wait('{}');
CALL wait('{q,NULL}');
CALL wait('{{q},{r}}');
CALL wait('{""}');
CALL wait(ARRAY[repeat('q', 256)]);
CALL wait('{q}', NULL);
CALL wait('{q}', '-1 s');
CALL wait('{q}', '1001 years');
CALL wait(ARRAY[repeat('q', 255)], '0');

-- A statement that is cancelled while it waits is cancelled.
SET statement_timeout = '200 ms';
CALL wait('{q}', '1 h');
RESET statement_timeout;
-- Bounds of the settings.
SET gen_durable.poll_interval = 0;
SET gen_durable.max_poll_interval = '-1 s';
