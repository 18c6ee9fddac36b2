-- Signals: where they go, dedup, what wakes, what a step is handed, what it consumes.
-- GD-007, GD-056, GD-156, GD-157, GD-158, GD-180, GD-181, GD-182, GD-184, GD-185, GD-186, GD-187, GD-188, GD-190, GD-192, GD-193, GD-194, GD-195, GD-196,
-- D-6, D-11, D-28, AC-115, AC-140, AC-142, AC-143, AC-145, AC-146, AC-149, AC-151, AC-152, AC-158
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();
-- A row parked at step two.
CREATE FUNCTION pg_temp.parked(name text, names text[]) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM gen_durable.insert(name, queue => name, correlation_key => name);
  PERFORM t.picks(name);
  RETURN t.fin(name, gen_durable.await_signal(names, 'two'));
END $$;

-- A signal that is awaited wakes; what was awaited stays known until the woken step goes on.
SELECT pg_temp.parked('a', '{go,stop}');
SELECT signal(id('a'), 'go', '{"n": 7}');
SELECT st('a'), awaits, eligible_at = updated_at, eligible_at > inserted_at, await_deadline, sigs('a') FROM instances;
SELECT name, payload, dedup_key, inserted_at <= clock_timestamp(), consumed_at FROM signals;
SELECT jsonb_path_query_array(awaited, '$[*].name'), awaited = signals, signals->0->'payload' FROM pick('a', 'w');
-- The default payload is an empty object; a payload may be any JSON value.
SELECT signal(id('a'), 'default'), signal(id('a'), 'array', '[1]'), signal(id('a'), 'null', 'null');
SELECT name, payload FROM signals WHERE name <> 'go' ORDER BY id;

-- One that is not awaited stays in the inbox and wakes nobody, until a later park waits for it.
SELECT pg_temp.parked('b', '{go}');
SELECT updated_at AS before FROM instances WHERE fsm = 'b' \gset
SELECT signal(id('b'), 'other');
-- and does not even rewrite the row
SELECT st('b'), sigs('b'), updated_at = :'before' FROM instances WHERE fsm = 'b';
SELECT signal(id('b'), 'go');
SELECT picks('b'), fin('b', next_step('three'));
SELECT picks('b'), sigs('b');
-- it is in the job's signals, and was not awaited
SELECT awaits FROM instances WHERE fsm = 'b';
SELECT fin('b', await_signal('{other}', 'four'));
-- handed already, so it does not wake by itself; another of its name does
SELECT signal(id('b'), 'other');
SELECT st('b'), sigs('b');

-- Names are compared whole and by bytes.
SELECT pg_temp.parked('c', '{go}');
SELECT signal(id('c'), 'Go'), signal(id('c'), 'go '), signal(id('c'), 'g'), signal(id('c'), '%');
SELECT st('c');

-- A signal to a runnable or executing row, or to one whose children are out, waits in the inbox.
SELECT count(*) FROM insert('d', queue => 'd');
SELECT signal(id('d'), 's1'), picks('d'), signal(id('d'), 's2'), fin('d', schedule_children('two', '[{"fsm": "kid", "queue": "kid"}]'));
SELECT signal(id('d'), 's3');
SELECT st('d'), sigs('d');

-- The race of park and delivery, one after the other: delivered first, the park finds it.
CALL fresh();
SELECT count(*) FROM insert('a', queue => 'a');
SELECT picks('a'), signal(id('a'), 'go'), fin('a', await_signal('{go,stop}', 'woke'));
SELECT jsonb_path_query_array(awaited, '$[*].name') FROM pick('a', 'w');
-- A signal that the step was handed does not wake its next park: packs can be collected.
SELECT fin('a', await_signal('{go,more}', 'again'));
SELECT signal(id('a'), 'more');
SELECT st('a'), jsonb_path_query_array(awaited, '$[*].name') FROM pick('a', 'w');
SELECT fin('a', await_signal('{go,more,last}', 'again')), sigs('a');
SELECT signal(id('a'), 'last');
-- The pack is consumed when the step goes on.
SELECT picks('a'), fin('a', next_step('end')), sigs('a');

-- Which ones were handed goes by id, not by the greatest id seen: an earlier id that appears later does wake.
CALL fresh();
SELECT count(*) FROM insert('a', queue => 'a');
INSERT INTO signals (id, target_id, name) VALUES (11, 1, 'go');
SELECT picks('a');
INSERT INTO signals (id, target_id, name) VALUES (10, 1, 'go');
SELECT fin('a', await_signal('{go}', 'two'));
-- and the one handed does not
SELECT picks('a'), fin('a', await_signal('{go}', 'three'));
ALTER SEQUENCE signals_id_seq RESTART WITH 100;

-- More signals than a job carries: the rest can be paged through, so it counts as handed too; what is consumed are the listed ones.
SET gen_durable.job_rows = 2;
SELECT count(*) FROM insert('p', queue => 'p');
SELECT signal(id('p'), 'go', to_jsonb(n)) FROM generate_series(1, 5) n;
SELECT picks('p'), fin('p', await_signal('{go}', 'two'));
SELECT signal(id('p'), 'go', '6');
SELECT jsonb_path_query_array(awaited, '$[*].payload'), jsonb_path_query_array(signals, '$[*].payload') FROM pick('p', 'w');
SELECT array_agg(payload ORDER BY i.id) FROM inbox(id('p'), after => 101) i;
SELECT fin('p', next_step('three')), sigs('p');
RESET gen_durable.job_rows;

-- Consumption: exactly the awaited ones that the step was handed.
CALL fresh();
SELECT pg_temp.parked('a', '{go}');
SELECT signal(id('a'), 'other'), signal(id('a'), 'go', '1'), signal(id('a'), 'go', '2');
SELECT picks('a'), signal(id('a'), 'go', '3'), signal(id('a'), 'late');
SELECT fin('a', next_step('three'));
SELECT name, payload FROM signals ORDER BY id;
-- A step that was not reached through a park consumes none.
SELECT picks('a'), fin('a', next_step('four')), sigs('a');
-- A selector sees which of its names came.
SELECT pg_temp.parked('b', '{approve,reject}');
SELECT signal(id('b'), 'reject', '{"why": "late"}');
SELECT awaited->0->>'name', jsonb_array_length(awaited) FROM pick('b', 'w');

-- Targets: by id, by correlation key; never a row that has ended, and none that is not there.
CALL fresh();
SELECT pg_temp.parked('a', '{go}');
SELECT signal_key('a', 'go', '{"by": "key"}');
SELECT st('a'), signal_key('nobody', 'go'), signal(999, 'go'), signal(0, 'go'), signal(-1, 'go');
SELECT count(*) FROM unnest('{d,f,c}'::text[]) n, insert(n, queue => 'q', correlation_key => n, correlation_scope => '{runnable,executing,done,failed,cancelled}');
SELECT picks('q', 3), fin('d', done()), fin('f', stop('x')), cancel(id('c'), force => true);
SELECT signal(id('d'), 'go'), signal(id('f'), 'go'), signal(id('c'), 'go'), signal_key('d', 'go'), signal_key('f', 'go'), signal_key('c', 'go');
-- Out of its scope a row has no address, though it lives.
SELECT count(*) FROM insert('o', queue => 'o', correlation_key => 'o', correlation_scope => '{runnable}');
SELECT picks('o'), signal_key('o', 'go'), signal(id('o'), 'go');
SELECT count(*) FROM signals;

-- Dedup: one of a key for each target; NULL is no key.
CALL fresh();
SELECT pg_temp.parked('a', '{go}'), pg_temp.parked('b', '{go}');
SELECT signal(id('a'), 'other', dedup_key => 'k1'), signal(id('a'), 'other', dedup_key => 'k1'), signal(id('b'), 'other', dedup_key => 'k1');
SELECT signal(id('a'), 'other'), signal(id('a'), 'other'), sigs('a');
-- A duplicate never wakes, not even with an awaited name.
SELECT signal(id('a'), 'go', dedup_key => 'k1'), signal_key('a', 'go', dedup_key => 'k1');
SELECT st('a'), sigs('a');
-- Consumed, the key is remembered; the tombstone is in no inbox and no recheck.
SELECT signal(id('a'), 'go', dedup_key => 'k2');
SELECT picks('a'), fin('a', next_step('three')), sigs('a');
SELECT signal(id('a'), 'go', dedup_key => 'k2'), sigs('a'), (SELECT count(*) FROM inbox(id('a')));
SELECT jsonb_path_query_array(signals, '$[*].name') FROM pick('a', 'w');
SELECT fin('a', await_signal('{go}', 'four'));
SELECT signal(id('a'), 'go', dedup_key => 'k2');
SELECT st('a');
-- handed, kept and parked again: the redelivery is a duplicate and does not wake either
SELECT signal(id('a'), 'go', dedup_key => 'k3');
SELECT picks('a'), fin('a', await_signal('{go}', 'five')), signal(id('a'), 'go', dedup_key => 'k3');
SELECT st('a');
-- A tombstone keeps no payload for longer than it must.
SELECT count(*) FILTER (WHERE consumed_at IS NOT NULL), count(*) FILTER (WHERE dedup_key IS NULL AND consumed_at IS NOT NULL) FROM signals WHERE target_id = id('a');
-- It is forgotten after dedup_retention, by gc.
SELECT gc();
SELECT signal(id('a'), 'again', dedup_key => 'k2');
SET gen_durable.clock_offset = 700000000;
SELECT gc();
SELECT signal(id('a'), 'again', dedup_key => 'k2');
RESET gen_durable.clock_offset;
-- or when the instance ends, with its whole inbox
SELECT cancel(id('a'));
SELECT count(*) FROM signals WHERE target_id = id('a');

-- A signal rolls back with its caller's transaction, and its wake too.
SELECT st('b');
BEGIN;
SELECT signal(id('b'), 'go');
ROLLBACK;
SELECT st('b'), sigs('b');
-- Delivered and claimed in one transaction.
BEGIN;
SELECT signal(id('b'), 'go'), picks('b');
COMMIT;
SELECT st('b');
