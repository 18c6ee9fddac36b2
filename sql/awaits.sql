-- Await timeouts: a wake, not a failure. GD-200, GD-201, GD-202, GD-203, GD-204, GD-230, D-13, AC-154, AC-155, AC-157
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();
CREATE FUNCTION pg_temp.parked(name text, timeout interval) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM gen_durable.insert(name, queue => name);
  PERFORM t.picks(name);
  RETURN t.fin(name, gen_durable.await_signal('{go,more}', 'two', timeout => timeout));
END $$;

-- One that is over, one to come, and one that waits for ever.
SELECT pg_temp.parked('soon', '1 ms'), pg_temp.parked('later', '60 s'), pg_temp.parked('never', NULL);
SET gen_durable.clock_offset = 5000;
SELECT fire_timeouts();
SELECT fire_timeouts();
SELECT fsm, status, awaits, attempt, await_deadline IS NULL, eligible_at = updated_at FROM instances ORDER BY id;
-- The step tells a timeout by the empty awaited set.
SELECT step, awaited, signals FROM pick('soon', 'w');
-- A later park without a timeout disarms it, one with a timeout arms it anew.
SELECT fin('soon', await_signal('{go}', 'three'));
SELECT await_deadline FROM instances WHERE fsm = 'soon';

-- A signal before the deadline wins, and what is left of the deadline harms no one.
SELECT signal(id('later'), 'go');
SELECT st('later'), await_deadline IS NOT NULL FROM instances WHERE fsm = 'later';
SET gen_durable.clock_offset = 600000;
SELECT fire_timeouts(), st('later');
SELECT picks('later'), fire_timeouts(), fin('later', await_signal('{more}', 'three'));
SELECT fire_timeouts(), st('later', 'never');

-- A pack that was not complete in time comes as far as it is.
SELECT pg_temp.parked('pack', '10 s');
SELECT signal(id('pack'), 'go');
SELECT picks('pack'), fin('pack', await_signal('{go,more}', 'two', timeout => '10 s'));
SET gen_durable.clock_offset = 620000;
SELECT fire_timeouts();
SELECT jsonb_path_query_array(awaited, '$[*].name'), attempt FROM pick('pack', 'w');

-- In bounded batches, the oldest deadline first.
CALL fresh();
SELECT pg_temp.parked('c', '3 s'), pg_temp.parked('a', '1 s'), pg_temp.parked('b', '2 s');
SET gen_durable.clock_offset = 700000;
SELECT fire_timeouts(2);
SELECT st('a', 'b', 'c');
SELECT timeouts FROM tick();
SELECT st('c');
-- A deadline is over when it has passed, for parked rows only.
SELECT pg_temp.parked('d', '10 s');
SET gen_durable.clock_offset = 705000;
SELECT fire_timeouts();
SELECT cancel(id('d'));
SET gen_durable.clock_offset = 800000;
SELECT fire_timeouts(), st('d');
RESET gen_durable.clock_offset;
SELECT q, err('SELECT ' || q) FROM unnest(ARRAY['fire_timeouts(0)', 'fire_timeouts(-1)', 'fire_timeouts(NULL)']) q;
