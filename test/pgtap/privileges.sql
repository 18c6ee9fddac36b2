-- Who may do what: nothing for PUBLIC, four levels, no table that anybody but the owner can write.
--
-- The matrix says which level may call which function. It is held against the catalog, and then against what happens
-- when an ordinary role of that level calls the function.
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\set ON_ERROR_STOP true
SET client_min_messages = warning;
BEGIN;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS gen_durable;
SELECT no_plan();
TRUNCATE gen_durable.instances CASCADE;

CREATE ROLE gd_nobody;
CREATE ROLE gd_client;
CREATE ROLE gd_worker;
CREATE ROLE gd_monitor;
CREATE ROLE gd_admin;
CREATE ROLE gd_second_worker;
SELECT gen_durable.grant_usage('gd_client', 'client');
SELECT gen_durable.grant_usage('gd_worker', 'worker');
SELECT gen_durable.grant_usage('gd_second_worker', 'worker');
SELECT gen_durable.grant_usage('gd_monitor', 'monitor');
SELECT gen_durable.grant_usage('gd_admin', 'admin');

-- Every function, and the levels that may call it.
CREATE TABLE may (function text, levels text[]);
INSERT INTO may VALUES
  ('insert', '{client,worker,admin}'), ('insert_all', '{client,worker,admin}'), ('signal', '{client,worker,admin}'),
  ('signal_key', '{client,worker,admin}'), ('find', '{client,worker,admin}'), ('await', '{client,worker,admin}'),
  ('pick', '{worker,admin}'), ('take', '{worker,admin}'), ('complete', '{worker,admin}'), ('complete_many', '{worker,admin}'),
  ('complete_and_take', '{worker,admin}'), ('commit_and_take', '{worker,admin}'), ('wait', '{worker,admin}'), ('channel', '{worker,admin}'), ('heartbeat', '{worker,admin}'),
  ('release', '{worker,admin}'), ('children', '{worker,admin}'), ('inbox', '{worker,admin}'),
  ('next_step', '{worker,admin}'), ('retry', '{worker,admin}'), ('await_signal', '{worker,admin}'),
  ('schedule_children', '{worker,admin}'), ('done', '{worker,admin}'), ('stop', '{worker,admin}'), ('fail', '{worker,admin}'),
  ('why', '{monitor,admin}'), ('limit_counts', '{monitor,admin}'), ('dispatched', '{monitor,admin}'), ('queue_counters', '{monitor,admin}'), ('queue_heads', '{monitor,admin}'), ('processes', '{monitor,admin}'), ('waiters', '{monitor,admin}'),
  ('set_rate_limit', '{admin}'), ('set_concurrency_limit', '{admin}'), ('drop_limit', '{admin}'), ('sync_config', '{admin}'),
  ('admit', '{admin}'), ('credit', '{admin}'), ('renew', '{admin}'), ('reconcile', '{admin}'),
  ('register_fsm', '{admin}'), ('drain', '{admin}'), ('reclaim', '{admin}'), ('reap', '{admin}'), ('fire_timeouts', '{admin}'), ('gc', '{admin}'), ('tick', '{admin}'), ('recount', '{admin}'), ('cancel', '{admin}'), ('revive', '{admin}'), ('pause', '{admin}'), ('resume', '{admin}'), ('set_queue', '{admin}'),
  ('run_insert', '{client,worker,admin}'), ('run_fetch', '{client,worker,admin}'), ('run_inspect', '{client,worker,admin}'), ('run_list', '{client,worker,admin}'),
  ('run_lock', '{client,worker,admin}'), ('run_mutate', '{client,worker,admin}'), ('run_wait', '{worker,admin}'), ('run_commit_unclaimed', '{client,worker,admin}'), ('run_commit', '{worker,admin}'), ('run_claim_due', '{worker,admin}'),
  ('run_refresh_claim', '{worker,admin}'), ('run_release_claim', '{worker,admin}'), ('run_abandon_claim', '{worker,admin}'), ('run_retry_poisoned', '{admin}'),
  ('run_visible', '{monitor,admin}'), ('run_counters', '{monitor,admin}'), ('run_heads', '{monitor,admin}'), ('run_all_tenants', '{client,worker,monitor,admin}'), ('grant_tenant', '{admin}'),
  ('grant_usage', '{admin}');
SELECT set_eq($$SELECT function FROM may$$, $$SELECT proname::text FROM pg_proc WHERE pronamespace = 'gen_durable'::regnamespace AND prorettype <> 'trigger'::regtype$$, 'the matrix has every function');
SELECT is_empty($$SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'gen_durable'::regnamespace AND p.prosecdef AND p.prorettype = 'trigger'::regtype$$,
  'a trigger''s function runs with the rights of whoever fires it');

-- Nothing for PUBLIC.
SELECT is_empty($$SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'gen_durable'::regnamespace
    AND has_function_privilege('gd_nobody', p.oid, 'EXECUTE')$$, 'PUBLIC may call no function');
SELECT ok(NOT has_schema_privilege('gd_nobody', 'gen_durable', 'USAGE'), 'nor look into the schema');
SELECT is_empty($$SELECT c.oid::regclass FROM pg_class c WHERE c.relnamespace = 'gen_durable'::regnamespace AND c.relkind IN ('r', 'v')
    AND has_table_privilege('gd_nobody', c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')$$, 'PUBLIC has nothing on any table');
SELECT is_empty($$SELECT c.oid::regclass FROM pg_class c WHERE c.relnamespace = 'gen_durable'::regnamespace
    AND CASE WHEN c.relkind = 'S' THEN has_sequence_privilege('gd_nobody', c.oid, 'USAGE, SELECT, UPDATE') END$$, 'nor on any sequence');

-- The levels.
SELECT set_eq(
  format($$SELECT p.proname::text FROM pg_proc p WHERE p.pronamespace = 'gen_durable'::regnamespace AND p.prorettype <> 'trigger'::regtype AND has_function_privilege('gd_%s', p.oid, 'EXECUTE')$$, level),
  format($$SELECT function FROM may WHERE %L = ANY (levels)$$, level), level || ' may call exactly its functions')
  FROM unnest(ARRAY['client', 'worker', 'monitor', 'admin']) level;
SELECT is_empty(
  format($$SELECT c.oid::regclass FROM pg_class c WHERE c.relnamespace = 'gen_durable'::regnamespace AND c.relkind IN ('r', 'v')
    AND has_table_privilege('gd_%s', c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')$$, level), level || ' can write no table')
  FROM unnest(ARRAY['client', 'worker', 'monitor', 'admin']) level;
SELECT is_empty(
  format($$SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
   WHERE c.relnamespace = 'gen_durable'::regnamespace AND c.relkind IN ('r', 'v') AND has_column_privilege('gd_%s', c.oid, a.attnum, 'INSERT, UPDATE, REFERENCES')$$, level),
  level || ' can write no column')
  FROM unnest(ARRAY['client', 'worker', 'monitor', 'admin']) level;
SELECT is_empty(
  format($$SELECT c.oid::regclass FROM pg_class c WHERE c.relnamespace = 'gen_durable'::regnamespace
    AND CASE WHEN c.relkind = 'S' THEN has_sequence_privilege('gd_%s', c.oid, 'USAGE, UPDATE') END$$, level), level || ' can move no sequence')
  FROM unnest(ARRAY['client', 'worker', 'monitor', 'admin']) level;
SELECT is_empty(
  format($$SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
   WHERE c.relnamespace = 'gen_durable'::regnamespace AND c.relkind IN ('r', 'v') AND has_column_privilege('gd_%s', c.oid, a.attnum, 'SELECT')$$, level),
  level || ' can read no table')
  FROM unnest(ARRAY['client', 'worker']) level;
-- But the tokens of runs, which nobody but the claimant sees (DK-009).
SELECT ok(NOT has_column_privilege('gd_' || level, 'gen_durable.runs', 'claim_token', 'SELECT'), level || ' reads no token of a run')
  FROM unnest(ARRAY['client', 'worker', 'monitor', 'admin']) level;
SELECT is_empty(format($$SELECT attname FROM pg_attribute WHERE attrelid = 'gen_durable.runs'::regclass AND attnum > 0 AND attname <> 'claim_token'
    AND NOT has_column_privilege('gd_%s', attrelid, attnum, 'SELECT')$$, level), level || ' can read all other columns of runs') FROM unnest(ARRAY['monitor', 'admin']) level;
SELECT ok(has_table_privilege('gd_' || level, c.oid, 'SELECT'), level || ' can read ' || c.relname)
  FROM unnest(ARRAY['monitor', 'admin']) level, pg_class c WHERE c.relnamespace = 'gen_durable'::regnamespace AND c.relkind IN ('r', 'v') AND c.relname <> 'runs';
SELECT ok(NOT has_schema_privilege('gd_' || level, 'gen_durable', 'CREATE'), level || ' can create nothing in the schema')
  FROM unnest(ARRAY['client', 'worker', 'monitor', 'admin']) level;

-- What happens when such a role calls.
CREATE FUNCTION pg_temp.as_role(role text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE answer text;
BEGIN
  EXECUTE format('SET LOCAL ROLE %I', role);
  EXECUTE statement INTO answer;
  RESET ROLE;
  RETURN coalesce(nullif(answer, ''), 'ok');
EXCEPTION WHEN OTHERS THEN
  RETURN SQLSTATE;
END $$;

SELECT is(pg_temp.as_role('gd_client', $$SELECT created FROM gen_durable.insert('job', queue => 'q', concurrency_key => 'k', correlation_key => 'name')$$), 'true', 'client: insert');
SELECT is(pg_temp.as_role('gd_client', $$SELECT count(*) FROM gen_durable.insert_all('job', '[{"queue": "q", "concurrency_key": "k"}]')$$), '1', 'client: insert_all');
SELECT is(pg_temp.as_role('gd_client', $$SELECT gen_durable.signal(gen_durable.find('name'), 'go')$$), 'delivered', 'client: find and signal');
SELECT is(pg_temp.as_role('gd_client', $$SELECT gen_durable.signal_key('name', 'go')$$), 'delivered', 'client: signal_key');
SELECT is(pg_temp.as_role('gd_client', $$SELECT outcome FROM gen_durable.await(gen_durable.find('name'), '0')$$), 'busy', 'client: await');
SELECT is(pg_temp.as_role(role, statement), '42501', role || ' is refused: ' || statement)
  FROM unnest(ARRAY['gd_nobody', 'gd_client', 'gd_monitor']) role, unnest(ARRAY[
    $$SELECT token FROM gen_durable.pick('q', 'w')$$, $$SELECT token FROM gen_durable.take('q', 'w')$$,
    $$SELECT gen_durable.complete('00000000-0000-8000-8000-000000000000', '{"outcome": "done"}')$$,
    $$SELECT gen_durable.complete_many('[]')$$, $$SELECT gen_durable.complete_and_take('[]', 'q', 'w')$$, $$CALL gen_durable.commit_and_take('[]', 'q', 'w')$$, $$CALL gen_durable.wait('{q}', '0')$$,
    $$SELECT gen_durable.heartbeat('{}')$$, $$SELECT gen_durable.release('{}')$$, $$SELECT gen_durable.children(1)$$, $$SELECT gen_durable.inbox(1)$$,
    $$SELECT gen_durable.reclaim('q', 'w', '1 hour')$$, $$SELECT gen_durable.reap()$$, $$SELECT gen_durable.fire_timeouts()$$, $$SELECT gen_durable.gc()$$, $$SELECT gen_durable.tick()$$,
    $$SELECT gen_durable.cancel(1)$$, $$SELECT gen_durable.revive(1)$$, $$SELECT gen_durable.pause('q')$$, $$SELECT gen_durable.resume('q')$$, $$SELECT gen_durable.set_rate_limit('l', 1, '1 s')$$, $$SELECT gen_durable.set_concurrency_limit('l', 1)$$,
    $$SELECT gen_durable.drop_limit('rate', 'l')$$, $$SELECT gen_durable.sync_config('[]')$$, $$SELECT gen_durable.admit('[]')$$, $$SELECT gen_durable.credit('[]')$$, $$SELECT gen_durable.renew('[]')$$, $$SELECT gen_durable.reconcile()$$, $$SELECT gen_durable.set_queue('q')$$, $$SELECT gen_durable.register_fsm('m')$$, $$SELECT gen_durable.drain()$$, $$SELECT gen_durable.grant_usage('gd_nobody', 'admin')$$,
    $$DELETE FROM gen_durable.instances$$, $$UPDATE gen_durable.instances SET status = 'done'$$, $$INSERT INTO gen_durable.instances (fsm, step) VALUES ('a', 'b')$$,
    $$TRUNCATE gen_durable.signals$$, $$INSERT INTO gen_durable.signals (target_id, name) VALUES (1, 'go')$$, $$SELECT nextval('gen_durable.instances_id_seq')$$]) statement;
SELECT is(pg_temp.as_role(role, statement), '42501', role || ' is refused: ' || statement)
  FROM unnest(ARRAY['gd_nobody', 'gd_monitor']) role, unnest(ARRAY[
    $$SELECT gen_durable.insert('job')$$, $$SELECT gen_durable.insert_all('job', '[]')$$, $$SELECT gen_durable.signal(1, 'go')$$, $$SELECT gen_durable.signal_key('name', 'go')$$]) statement;
SELECT is(pg_temp.as_role(role, statement), '42501', role || ' cannot write: ' || statement)
  FROM unnest(ARRAY['gd_worker', 'gd_admin']) role, unnest(ARRAY[
    $$DELETE FROM gen_durable.instances$$, $$UPDATE gen_durable.instances SET status = 'done'$$, $$INSERT INTO gen_durable.instances (fsm, step) VALUES ('a', 'b')$$,
    $$TRUNCATE gen_durable.signals$$, $$UPDATE gen_durable.fsms SET owner = 'gd_worker'$$, $$INSERT INTO gen_durable.queues VALUES ('q')$$,
    $$DELETE FROM gen_durable.bucket_configs$$, $$UPDATE gen_durable.buckets SET available = 1$$, $$DELETE FROM gen_durable.slot_holders$$, $$DELETE FROM gen_durable.slot_credits$$, $$SELECT nextval('gen_durable.signals_id_seq')$$,
    $$SELECT id FROM gen_durable.instances FOR UPDATE$$]) statement;

-- Tokens do not reach a client. A monitor may read them with the rest of a row, and cannot call what takes them.
SELECT is(pg_temp.as_role('gd_client', statement), '42501', 'client reads no token: ' || statement)
  FROM unnest(ARRAY[$$SELECT token FROM gen_durable.instances$$, $$SELECT * FROM gen_durable.blocked_instances$$, $$SELECT * FROM gen_durable.unkeyed_instances$$,
    $$SELECT * FROM gen_durable.signals$$, $$SELECT payload FROM gen_durable.signals$$]) statement;
SELECT is_empty($$SELECT p.oid::regprocedure FROM pg_proc p JOIN may m ON m.function = p.proname
   WHERE p.pronamespace = 'gen_durable'::regnamespace AND 'client' = ANY (m.levels) AND pg_get_function_result(p.oid) || coalesce(array_to_string(p.proargnames, ' '), '') ~ 'token|uuid'$$,
  'no function of a client has a token');
SELECT is(pg_temp.as_role('gd_monitor', 'SELECT count(*) FROM gen_durable.limits'), '0', 'monitor reads limits');
SELECT is(pg_temp.as_role('gd_monitor', 'SELECT count(*) > 0 FROM (SELECT id, fsm, status, state, locked_by FROM gen_durable.instances) x'), 'true', 'monitor reads instances');

-- A worker works, with nothing but its functions.
SELECT is(pg_temp.as_role('gd_worker', $$SELECT count(token) FROM gen_durable.pick('q', 'w', 5)$$), '1', 'worker: pick');
CREATE TABLE tokens AS SELECT id, token FROM gen_durable.instances WHERE status = 'executing';
GRANT SELECT ON tokens TO PUBLIC;
SELECT is(pg_temp.as_role('gd_worker', $$SELECT held FROM gen_durable.heartbeat(ARRAY(SELECT token FROM tokens))$$), 'true', 'worker: heartbeat');
SELECT is(pg_temp.as_role('gd_worker', $$SELECT count(*) FROM gen_durable.inbox((SELECT id FROM tokens))$$), '2', 'worker: inbox');
SELECT is(pg_temp.as_role('gd_worker', $$SELECT gen_durable.complete((SELECT token FROM tokens), gen_durable.schedule_children('joined', '[{"fsm": "kid", "queue": "kids"}]'))$$), 'ok', 'worker: complete, with children');
SELECT is(pg_temp.as_role('gd_worker', $$SELECT count(*) FROM gen_durable.children((SELECT id FROM tokens))$$), '1', 'worker: children');
SELECT is(pg_temp.as_role('gd_worker', $$SELECT count(*) FROM gen_durable.complete_many((SELECT jsonb_agg(gen_durable.done() || jsonb_build_object('token', token)) FROM gen_durable.pick('kids', 'w', 5)))$$), '1', 'worker: complete_many, and a join');
SELECT is(pg_temp.as_role('gd_worker', $$SELECT count(*) FROM gen_durable.take('q', 'w', 5)$$), '1', 'worker: take, of one of the two that want the key');
SELECT is(pg_temp.as_role('gd_worker', statement), '42501', 'worker is refused: ' || statement)
  FROM unnest(ARRAY[$$SELECT gen_durable.reap()$$, $$SELECT gen_durable.gc('0')$$, $$SELECT gen_durable.tick()$$, $$SELECT gen_durable.cancel((SELECT id FROM tokens))$$,
    $$SELECT gen_durable.revive((SELECT id FROM tokens))$$, $$SELECT token FROM gen_durable.instances$$, $$SELECT gen_durable.grant_usage('gd_worker', 'admin')$$]) statement;

-- Admin: the rest.
SELECT is(pg_temp.as_role('gd_admin', $$SELECT gen_durable.cancel((SELECT id FROM tokens), force => true)$$), 'cancelled', 'admin: cancel');
SELECT is(pg_temp.as_role('gd_admin', $$SELECT gen_durable.revive((SELECT id FROM tokens))$$), 'ok', 'admin: revive');
SELECT is(pg_temp.as_role('gd_admin', $$SELECT reaped FROM gen_durable.tick()$$), '0', 'admin: tick');
SELECT is(pg_temp.as_role('gd_admin', $$SELECT gen_durable.gc('0') IS NOT NULL$$), 'true', 'admin: gc');
SELECT is(pg_temp.as_role('gd_monitor', $$SELECT count(*) > 0 FROM gen_durable.stats$$), 'true', 'monitor: stats');
SELECT is(pg_temp.as_role('gd_monitor', $$SELECT count(*) >= 0 FROM gen_durable.workers$$), 'true', 'monitor: workers');
SELECT is(pg_temp.as_role('gd_monitor', $$SELECT status FROM gen_durable.why((SELECT id FROM tokens))$$), 'runnable', 'monitor: why');

-- Machines belong to their owners: roles of any level that have been given register_fsm.
GRANT EXECUTE ON FUNCTION gen_durable.register_fsm TO gd_worker, gd_second_worker;
SELECT is(pg_temp.as_role('gd_worker', $$SELECT gen_durable.register_fsm('mine', queue => 'q')$$), 'ok', 'a worker registers a machine');
SELECT is((SELECT owner FROM gen_durable.fsms WHERE name = 'mine'), 'gd_worker', 'and owns it');
SELECT is(pg_temp.as_role('gd_second_worker', $$SELECT gen_durable.register_fsm('mine', queue => 'stolen')$$), '42501', 'another may not change it');
SELECT is(pg_temp.as_role('gd_second_worker', $$SELECT gen_durable.register_fsm('mine', version => 2)$$), '42501', 'nor add a version');
SELECT is(pg_temp.as_role('gd_admin', $$SELECT gen_durable.register_fsm('mine', queue => 'q2')$$), 'ok', 'an admin may');
SELECT is((SELECT owner FROM gen_durable.fsms WHERE name = 'mine'), 'gd_worker', 'and it stays its owner''s');
SELECT is(pg_temp.as_role('gd_second_worker', $$SELECT created FROM gen_durable.insert('mine')$$), 'true', 'anybody may insert instances of it');

-- The engine's clock is not for ordinary roles, and functions do not run with more rights than the caller's for long.
SELECT is(pg_temp.as_role('gd_admin', 'SET gen_durable.clock_offset = 1'), '42501', 'only a superuser moves the clock');
SELECT is(pg_temp.as_role('gd_client', $$SELECT current_user::text FROM gen_durable.insert('who')$$), 'gd_client', 'the caller is itself again afterwards');
SELECT is(pg_temp.as_role('gd_client', $$SELECT gen_durable.insert('')$$), '22023', 'after an error too');
SELECT is(pg_temp.as_role('gd_client', 'SELECT token FROM gen_durable.instances'), '42501', 'and has no more than before');

-- grant_usage: repeatable, adds up, refuses what is no level.
SELECT lives_ok($$SELECT gen_durable.grant_usage('gd_client', 'client')$$, 'granting again is no error');
SELECT lives_ok($$SELECT gen_durable.grant_usage('gd_client', 'worker')$$, 'levels add up');
SELECT is(pg_temp.as_role('gd_client', $$SELECT count(token) FROM gen_durable.pick('nothing', 'w')$$), '0', 'the client is a worker now');
SELECT throws_ok($$SELECT gen_durable.grant_usage('gd_client', 'owner')$$, '22023', NULL, 'no such level');
SELECT throws_ok($$SELECT gen_durable.grant_usage('gd_client', NULL)$$, '22004', NULL, 'no level');
SELECT throws_ok($$SELECT gen_durable.grant_usage(NULL, 'client')$$, '22004', NULL, 'no role');

SELECT finish();
ROLLBACK;
