-- Concurrency keys without a configured limit: one claim at a time per key, blocked rows, promotion.
-- GD-052, GD-054, GD-055, GD-057, GD-058, GD-060, GD-061, GD-063, GD-065, GD-155, D-2, D-3, D-4,
-- AC-025, AC-026, AC-028, AC-029, AC-032, AC-034, AC-035
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CREATE FUNCTION pg_temp.key(name text, key text, priority int DEFAULT 0, queue text DEFAULT 'q') RETURNS boolean LANGUAGE sql VOLATILE AS $$
  SELECT created FROM gen_durable.insert(name, queue => queue, concurrency_key => key, priority => priority)
$$;
CALL fresh();

-- One of a key in a batch; the others leave the pick index, marked with what they wait for.
SELECT pg_temp.key('k1', 'k'), pg_temp.key('k2', 'k'), pg_temp.key('k3', 'k'), pg_temp.key('other', 'k2');
SELECT picks('q', 10), blocked('q');
-- They stay runnable and untouched otherwise.
SELECT st('k2', 'k3'), bool_and(eligible_at = inserted_at AND token IS NULL AND locked_by IS NULL) FROM instances WHERE fsm IN ('k2', 'k3');
SELECT i.fsm FROM blocked_instances b JOIN instances i ON i.id = b.id ORDER BY i.id;
SELECT picks('q', 10);
-- A newcomer of a held key is refused as well, in any queue.
SELECT pg_temp.key('k4', 'k'), pg_temp.key('k5', 'k', 0, 'r');
SELECT picks('q', 10), picks('r', 10), blocked('q'), blocked('r');
-- The end of the claim promotes the first of each queue.
SELECT fin('k1', done());
SELECT blocked('q'), blocked('r');
SELECT picks('q', 10), picks('r', 10), blocked('r');
SELECT fin('k2', done());
SELECT picks('r', 10), picks('q', 10), blocked('q');

-- A second claim of a key cannot be committed, whoever writes it.
SELECT err($$UPDATE instances SET status = 'executing' WHERE fsm = 'k3'$$, 'instances_key');

-- Blocked rows do not use up the batch: ten of a key first, then five others.
CALL fresh();
SELECT count(*) FILTER (WHERE pg_temp.key('k' || n, 'k')) FROM generate_series(1, 10) n;
SELECT count(*) FROM generate_series(1, 5) n, insert('plain' || n, queue => 'q');
SELECT picks('q', 10);
SELECT count(*) FROM blocked_instances;

-- The marks of one pick are bounded by 100, or four times the batch, and the next goes on from there.
CALL fresh();
SELECT count(*) FILTER (WHERE pg_temp.key('k' || n, 'k')) FROM generate_series(1, 150) n;
SELECT count(*) FROM generate_series(1, 5) n, insert('plain' || n, queue => 'q');
SELECT picks('q', 10);
SELECT count(*) FROM blocked_instances;
SELECT picks('q', 10);
SELECT count(*) FROM blocked_instances;
CALL fresh();
SELECT count(*) FILTER (WHERE pg_temp.key('k' || n, 'k')) FROM generate_series(1, 150) n;
SELECT created FROM insert('plain', queue => 'q');
SELECT picks('q', 50);
SELECT count(*) FROM blocked_instances;

-- More keys than one transaction may lock: the rest comes with the next.
CALL fresh();
SELECT count(*) FILTER (WHERE pg_temp.key('k' || n, 'k' || n)) FROM generate_series(1, 1200) n;
CREATE TEMP TABLE got AS SELECT fsm FROM pick('q', 'w', 1200);
SELECT count(*) BETWEEN 1 AND 1000 FROM got;
INSERT INTO got SELECT fsm FROM pick('q', 'w', 1200);
SELECT count(*), count(DISTINCT fsm), (SELECT count(*) FROM blocked_instances) FROM got;

-- A key is a text like any other: "1" is not row 1, and keys differ by byte.
CALL fresh();
SELECT id FROM insert('plain', queue => 'q');
SELECT pg_temp.key('one', '1');
SELECT pg_temp.key('a', 'K'), pg_temp.key('b', 'k'), pg_temp.key('c', 'k '), pg_temp.key('d', 'k:1');
SELECT picks('q', 10);

-- A rate policy of the same name makes no gate of a key.
CALL fresh();
INSERT INTO bucket_configs (kind, name, rate, capacity) VALUES ('rate', 'stripe', 1, 10);
SELECT pg_temp.key('a', 'stripe:1'), pg_temp.key('b', 'stripe:1'), pg_temp.key('c', 'stripe:2');
SELECT picks('q', 10);

-- A row that executes under a gate since removed does not hold the key.
CALL fresh();
SELECT pg_temp.key('a', 'gate:x');
SELECT picks('q');
UPDATE instances SET concurrency_shard = 0;
SELECT pg_temp.key('b', 'gate:x'), picks('q'), (SELECT count(*) FROM blocked_instances);
SELECT fsm, concurrency_shard FROM instances ORDER BY id;

-- Every way out of executing frees the key at once, and promotes.
CALL fresh();
SELECT pg_temp.key('wait', 'k', 9), pg_temp.key('next', 'k', 0);
SELECT picks('q', 10), fin('next', next_step('two', delay => '1 h')), picks('q', 10);
SELECT fin('wait', retry('10 s')), picks('q', 10), pg_temp.key('retry', 'k');
SELECT picks('q', 10), fin('retry', retry('1 h'));
SET gen_durable.clock_offset = 11000;
SELECT picks('q', 10);
SELECT fin('wait', await_signal('{go}', 'two')), pg_temp.key('held', 'k');
-- a parked row keeps its key for later, and does not hold it
SELECT concurrency_key FROM instances WHERE fsm = 'wait';
SELECT picks('q', 10);
SELECT signal(id('wait'), 'go');
SELECT picks('q', 10), blocked('q');
SELECT fin('held', schedule_children('two', '[{"fsm": "child", "queue": "c"}]'));
SELECT blocked('q'), picks('q', 10);
SELECT pg_temp.key('reap', 'k', 5), picks('q', 10), blocked('q');
SET gen_durable.clock_offset = 100000;
SELECT reap();
SELECT blocked('q');
-- the reaped row is a candidate again, and the other sorts before it
SELECT picks('q', 10), blocked('q');
SELECT release(ARRAY[tok('reap')]);
SELECT blocked('q'), picks('q', 10), blocked('q');
SELECT cancel(id('reap'), force => true);
SELECT blocked('q'), picks('q', 10);
RESET gen_durable.clock_offset;

-- release_key, and switching keys. A new key is asked for at the next claim only.
CALL fresh();
SELECT pg_temp.key('a', 'k'), pg_temp.key('b', 'k', 1), pg_temp.key('c', 'l', 1);
SELECT picks('q', 10), blocked('q');
SELECT fin('a', next_step('two', concurrency_key => 'l'));
SELECT blocked('q'), picks('q', 10), blocked('q');
SELECT fin('c', next_step('two', release_key => true));
SELECT fsm, concurrency_key, blocked_on FROM instances ORDER BY id;
SELECT picks('q', 10);

-- The most urgent blocked row is promoted first, then the earlier due, then the earlier id.
CALL fresh();
SELECT pg_temp.key('h', 'k', -9);
SELECT picks('q', 10);
SELECT pg_temp.key('p2', 'k', 2), pg_temp.key('p1b', 'k', 1), pg_temp.key('p1c', 'k', 1);
UPDATE instances SET eligible_at = '2001-01-01' WHERE fsm = 'p1c';
SELECT picks('q', 10), blocked('q');
SELECT fin('h', done());
SELECT blocked('q'), picks('q', 10), fin('p1c', done());
SELECT blocked('q'), picks('q', 10), fin('p1b', done());
SELECT blocked('q'), picks('q', 10);

-- A newcomer does not pass a blocked or promoted row that sorts before it, and does pass one that sorts after it.
CALL fresh();
SELECT pg_temp.key('h', 'k'), pg_temp.key('waits', 'k', 3);
SELECT picks('q', 10), fin('h', done());
SELECT pg_temp.key('after', 'k', 4), pg_temp.key('before', 'k', 2);
SELECT picks('q', 1), picks('q', 10), blocked('q');
SELECT fin('before', done());
SELECT picks('q', 10);

-- The turn of a promoted row that ends without a claim goes to the next.
CALL fresh();
SELECT pg_temp.key('h', 'k'), pg_temp.key('a', 'k'), pg_temp.key('b', 'k');
SELECT picks('q', 10), fin('h', done());
-- the turn was given, so nobody else gets it meanwhile
SELECT blocked('q'), promoted FROM tick();
SELECT blocked('q'), cancel(id('a'));
SELECT blocked('q'), picks('q', 10);
-- A row that a worker never comes for keeps no other queue from the key.
CALL fresh();
SELECT pg_temp.key('h', 'k'), pg_temp.key('idle', 'k', 0, 'nobody'), pg_temp.key('next', 'k', 5);
SELECT picks('q', 10), picks('nobody', 10), fin('h', done());
SELECT picks('q', 10);

-- A blocked row whose key is free is found again by pick, and by tick, whatever lost its promotion.
CALL fresh();
SELECT pg_temp.key('a', 'k');
UPDATE instances SET blocked_on = 'conc:k';
SELECT picks('q', 10);
SELECT pg_temp.key('b', 'l', queue => 'r');
UPDATE instances SET blocked_on = 'conc:l' WHERE fsm = 'b';
SELECT promoted FROM tick();
SELECT blocked('r');
-- One that waits for a held key stays.
SELECT pg_temp.key('c', 'k');
SELECT picks('q', 10), promoted FROM tick();
SELECT blocked('q');

-- Blocked rows can be cancelled, and stay blocked for no one.
SELECT cancel(id('c')), blocked('q'), st('c');
SELECT fin('a', done());
-- So does a row that is revived: it is no longer blocked on what it once waited for.
SELECT 'revived' FROM revive(id('c'));
SELECT picks('q', 10);

-- A newcomer that finds the key free while an earlier row is still blocked on it lets that one go first, whatever its place among what is rechecked.
CALL fresh();
\c -
SET search_path = gen_durable, t;
INSERT INTO instances (fsm, step, queue, concurrency_key, blocked_on) SELECT 'far', 'start', 'nobody', k, 'conc:' || k FROM (SELECT 'a' || n FROM generate_series(10, 99) n) x (k);
INSERT INTO instances (fsm, step, queue, concurrency_key, blocked_on) VALUES ('old', 'start', 'q', 'z', 'conc:z');
SELECT count(*) FROM unnest('{new,newer}'::text[]) n, insert(n, queue => 'q', concurrency_key => 'z');
SELECT picks('q'), blocked('q');
SELECT picks('q', 5), blocked('q');
-- but one that sorts before it does not wait for it
INSERT INTO instances (fsm, step, queue, concurrency_key, blocked_on) VALUES ('old2', 'start', 'q', 'b', 'conc:b');
SELECT count(*) FROM insert('urgent', queue => 'q', concurrency_key => 'b', priority => -1);
SELECT picks('q'), blocked('q');
