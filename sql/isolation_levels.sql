-- Every function under every isolation level; writing functions refuse a read-only transaction. D-27
-- What they see of other sessions' commits is for the isolation tests.
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CREATE FUNCTION pg_temp.life() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  tokens uuid[];
  r text;
BEGIN
  PERFORM gen_durable.register_fsm('m', queue => 'q');
  PERFORM gen_durable.insert('m', correlation_key => 'm', concurrency_key => 'k');
  PERFORM gen_durable.insert_all('n', '[{"queue": "q", "concurrency_key": "k"}, {"queue": "q"}, {"queue": "q"}]');
  SELECT array_agg(token) INTO tokens FROM gen_durable.pick('q', 'w', 10);
  ASSERT cardinality(tokens) = 3;
  ASSERT (SELECT bool_and(held) FROM gen_durable.heartbeat(tokens));
  PERFORM gen_durable.complete(tokens[1], gen_durable.await_signal('{go}', 'two', timeout => '1 s'));
  ASSERT gen_durable.signal_key('m', 'go', dedup_key => 'd') = 'delivered';
  ASSERT gen_durable.signal(gen_durable.find('m'), 'go', dedup_key => 'd') = 'duplicate';
  ASSERT (SELECT result FROM gen_durable.complete_many(jsonb_build_array(
    gen_durable.schedule_children('two', '[{"fsm": "kid", "queue": "kid"}]') || jsonb_build_object('token', tokens[2])))) = 'committed';
  ASSERT gen_durable.release(tokens) = 1;
  ASSERT (SELECT count(*) FROM gen_durable.complete_and_take('[]', 'q', 'w', 10)) = 2;
  SELECT array_agg(token) INTO tokens FROM gen_durable.take('kid', 'w');
  PERFORM gen_durable.complete(tokens[1], gen_durable.done('{"ok": 1}'));
  ASSERT (SELECT outcome FROM gen_durable.await((SELECT id FROM gen_durable.instances WHERE fsm = 'kid'))) = 'done';
  ASSERT (SELECT count(*) FROM gen_durable.take('q', 'w', 10)) = 1;
  ASSERT (SELECT count(*) FROM gen_durable.instances i, gen_durable.children(i.id)) = 1;
  PERFORM gen_durable.reap(), gen_durable.fire_timeouts(), gen_durable.reclaim('q', 'w', '0'), gen_durable.tick(), gen_durable.gc('0');
  ASSERT gen_durable.cancel((SELECT min(id) FROM gen_durable.instances), force => true, cascade => true) = 'cancelled';
  PERFORM gen_durable.revive((SELECT min(id) FROM gen_durable.instances));
  SELECT string_agg(fsm || ' ' || status, ', ' ORDER BY id) INTO r FROM gen_durable.instances;
  RETURN r;
END $$;

CALL fresh();
SELECT pg_temp.life();
CALL fresh();
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM instances;
SELECT pg_temp.life();
COMMIT;
CALL fresh();
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM instances;
SELECT pg_temp.life();
COMMIT;

-- Read-only: functions that write say so, with any arguments; those that read answer.
CALL fresh();
SELECT count(*) FROM insert('a', queue => 'a', correlation_key => 'a');
SELECT picks('a');
BEGIN READ ONLY;
SELECT q, err(q) FROM unnest(ARRAY[
  $$SELECT insert('x')$$, $$SELECT insert_all('x', '[{}]')$$, $$SELECT signal(1, 'x')$$, $$SELECT signal_key('a', 'x')$$, $$SELECT pick('q', 'w')$$, $$SELECT take('q', 'w')$$,
  $$SELECT complete(tok('a'), done())$$, $$SELECT complete_many(jsonb_build_array(done() || jsonb_build_object('token', tok('a'))))$$,
  $$SELECT complete_and_take('[]', 'q', 'w')$$, $$CALL commit_and_take('[]', 'q', 'w')$$, $$SELECT heartbeat(ARRAY[tok('a')])$$, $$SELECT release(ARRAY[tok('a')])$$,
  $$SELECT reap()$$, $$SELECT fire_timeouts()$$, $$SELECT reclaim('q', 'w', '1 s')$$, $$SELECT gc()$$, $$SELECT tick()$$, $$SELECT cancel(1)$$, $$SELECT revive(1)$$, $$SELECT register_fsm('x')$$]) q;
SELECT find('a'), (SELECT outcome FROM await(1, '0')), (SELECT count(*) FROM children(1)), (SELECT count(*) FROM inbox(1)), done();
ROLLBACK;
SELECT st('a');
