-- Decisions under a run's lock, waiting for runs, and the deletion of those that have ended.
-- DK-140..144, DK-147, DK-158, DK-211, D-10, D-13
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
SET timezone = 'UTC';
CALL fresh_runs();

-- The decision is made of what the caller's argument says; each field can be set.
CREATE FUNCTION t.decide(run gen_durable.run, arg jsonb) RETURNS gen_durable.run_decision LANGUAGE plpgsql AS $$
DECLARE
  d gen_durable.run_decision;
BEGIN
  d.action := coalesce(arg ->> 'action', 'commit');
  run.checkpoint_seq := run.checkpoint_seq + coalesce((arg ->> 'add')::int, 1);
  run.status := coalesce(arg ->> 'status', 'running');
  run.state := coalesce(arg ->> 'state', convert_from(run.state, 'UTF8') || '+')::bytea;
  run.graph_id := coalesce(arg ->> 'graph_id', run.graph_id);
  run.run_id := coalesce(arg ->> 'run_id', run.run_id);
  run.started_at := coalesce((arg ->> 'started_at')::timestamptz, run.started_at);
  IF arg ? 'null' THEN run.step := NULL; END IF;
  d.run := run;
  d.checkpoint_type := CASE WHEN NOT arg ? 'no_type' THEN 'mutated' END;
  d.schedule := coalesce(arg ->> 'schedule', 'immediate');
  d.wake_at := (arg ->> 'wake_at')::timestamptz;
  d.value := jsonb_build_object('was', run.checkpoint_seq - 1, 'user', current_user, 'arg', arg -> 'echo');
  IF arg ? 'reason' THEN d.value := arg -> 'reason'; END IF;
  IF arg ? 'nothing' THEN RETURN NULL; END IF;
  IF arg ? 'raise' THEN RAISE EXCEPTION 'raised' USING ERRCODE = 'XX001'; END IF;
  RETURN d;
END $$;
CREATE FUNCTION t.mutate(arg jsonb DEFAULT '{}', name text DEFAULT 'a', scope text DEFAULT 'tenantless') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RETURN (SELECT result || ' ' || coalesce(value::text, '-') FROM gen_durable.run_mutate(scope, name, 't.decide(gen_durable.run, jsonb)', arg));
EXCEPTION WHEN OTHERS THEN
  RETURN SQLSTATE || CASE SQLSTATE WHEN 'P0001' THEN ' ' || SQLERRM ELSE '' END;
END $$;
SELECT run('a');
SELECT mutate('{"echo": [1]}'), mutate('{"action": "no_change", "echo": 2}'), mutate('{"action": "error", "reason": "because"}'), mutate('{"action": "error", "reason": {"a": 1}}'), mutate('{"action": "error", "reason": null}');
SELECT checkpoint_seq, convert_from(state, 'UTF8'), latest_checkpoint_type, op('a') FROM runs;
-- What is no decision, or none that can be committed, changes nothing.
SELECT a, mutate(a::jsonb) FROM unnest(ARRAY['{"action": "other"}', '{"nothing": 1}', '{"add": 0}', '{"add": 2}', '{"graph_id": "x"}', '{"run_id": "b"}', '{"started_at": "2021-01-01"}', '{"null": 1}', '{"no_type": 1}',
  '{"schedule": "retain"}', '{"schedule": "external"}', '{"status": "done"}', '{"schedule": "at"}', '{"wake_at": "2030-01-01"}', '{"raise": 1}']) a;
SELECT checkpoint_seq, convert_from(state, 'UTF8') FROM runs;
-- The scope is asked before the function is.
SELECT mutate(scope => 'tenant:x'), mutate('{"raise": 1}', 'b'), mutate('{"raise": 1}', scope => 'everything');
SELECT err($$SELECT run_mutate('system', 'a', NULL)$$), err($$SELECT run_mutate('system', NULL, 't.decide(gen_durable.run, jsonb)')$$), err($$SELECT run_mutate('system', 'a', 'pg_catalog.now()')$$, 'now'),
  err($$SELECT run_mutate('system', 'a', 'pg_catalog.jsonb_agg(anyelement)')$$), err($$SELECT run_mutate('system', 'a', 1::regprocedure)$$);
-- It takes a claim away and heals poison; a waiting run goes on; a terminal one does not.
SELECT due(at => '2040-01-01'), claim_of('a') IS NOT NULL, mutate('{"schedule": "external", "status": "waiting"}'), op('a');
SELECT mutate('{"schedule": "at", "wake_at": "2019-01-01"}'), op('a');
UPDATE runs SET wake_at = NULL, poisoned_at = now(), poison_reason = 'x';
SELECT mutate('{"schedule": "terminal", "status": "cancelled"}'), op('a'), mutate('{}'), mutate('{"action": "no_change"}');
-- The function runs as the caller, who must be allowed to; and is the caller afterwards, whatever happened.
CREATE ROLE gd_mutator;
SELECT grant_usage('gd_mutator', 'client'), run('m');
REVOKE EXECUTE ON FUNCTION t.decide FROM PUBLIC;
SET ROLE gd_mutator;
SELECT mutate(name => 'm'), current_user;
RESET ROLE;
GRANT EXECUTE ON FUNCTION t.decide, t.mutate TO gd_mutator;
SET ROLE gd_mutator;
SELECT mutate(name => 'm'), current_user;
SELECT mutate('{"raise": 1}', 'm'), current_user;
RESET ROLE;
-- The role and the settings that the function sets end with it, whatever it decides.
CREATE FUNCTION t.become(run gen_durable.run, arg jsonb) RETURNS gen_durable.run_decision LANGUAGE plpgsql AS $$
BEGIN
  SET ROLE gd_mutator;
  SET application_name = 'left behind';
  PERFORM set_config('t.left', 'behind', false);
  SET LOCAL work_mem = '1MB';
  IF arg ->> 0 = 'raise' THEN RAISE 'no'; END IF;
  run.checkpoint_seq := run.checkpoint_seq + 1;
  RETURN ROW(arg ->> 0, run, 'c', 'immediate', NULL, to_jsonb(current_user))::gen_durable.run_decision;
END $$;
SELECT set_config('application_name', 'mine', false);
BEGIN;
SELECT a, (SELECT result || value FROM run_mutate('system', 'm', 't.become(gen_durable.run, jsonb)', to_jsonb(ARRAY[a]))), current_user = session_user, current_setting('application_name'),
  current_setting('work_mem') <> '1MB', coalesce(current_setting('t.left', true), '') FROM unnest(ARRAY['commit', 'no_change']) a;
SELECT err($$SELECT run_mutate('system', 'm', 't.become(gen_durable.run, jsonb)', '["raise"]')$$, 'no'), current_user = session_user, current_setting('application_name');
COMMIT;
SELECT current_user = session_user, current_setting('role'), current_setting('application_name');
RESET application_name;
-- So it is the caller's tenants that the commit is made for, not those of a role that the function took.
CREATE ROLE gd_mutator_x;
SELECT grant_tenant('gd_mutator_x', 'x'), run('of x', scope => 'tenant:x');
GRANT gd_mutator TO gd_mutator_x;
GRANT EXECUTE ON FUNCTION t.become TO gd_mutator_x;
SET ROLE gd_mutator_x;
SELECT result, value, current_user FROM run_mutate('system', 'of x', 't.become(gen_durable.run, jsonb)', '["commit"]');
SELECT err($$SELECT run_mutate('system', 'm', 't.become(gen_durable.run, jsonb)', '["commit"]')$$), current_user;
RESET ROLE;
DROP OWNED BY gd_mutator, gd_mutator_x;
DROP ROLE gd_mutator, gd_mutator_x;
TRUNCATE run_tenants;
-- A function that commits the run itself has made its own decision stale.
CREATE FUNCTION t.meddle(run gen_durable.run, arg jsonb) RETURNS gen_durable.run_decision LANGUAGE plpgsql AS $$
BEGIN
  PERFORM gen_durable.run_commit_unclaimed('system', run.run_id, run.checkpoint_seq, 'c', 'immediate', 'running', 1, 'x');
  run.checkpoint_seq := run.checkpoint_seq + 1;
  RETURN ROW('commit', run, 'c', 'immediate', NULL, NULL)::gen_durable.run_decision;
END $$;
SELECT err($$SELECT run_mutate('system', 'm', 't.meddle(gen_durable.run, jsonb)')$$, 'checkpoint_seq');

-- Waiting: at once when a run is ready, else until its time, or the timeout.
CALL fresh_runs();
CALL run_wait('0');
SELECT run('w');
SELECT clock_timestamp() AS before \gset
CALL run_wait('1 min');
SELECT due();
SELECT run('later', clock_timestamp() + interval '300 ms');
CALL run_wait('1 min');
SELECT clock_timestamp() BETWEEN timestamptz :'before' + interval '250 ms' AND timestamptz :'before' + interval '50 s', due(at => clock_timestamp());
CALL run_wait('10 ms');
\set VERBOSITY sqlstate
CALL run_wait(NULL);
CALL run_wait('-1 s');
BEGIN;
CALL run_wait('0');
ROLLBACK;
\set VERBOSITY default

-- gc: strictly older, the oldest first, at most so many; the young, the waiting and the running stay.
CALL fresh();
CALL fresh_runs();
SELECT run(n) FROM unnest(ARRAY['old1', 'old2', 'old3', 'young', 'waits', 'runs']) n \g /dev/null
SELECT (run_commit_unclaimed('system', n, 1, 'c', 'terminal', s, 1, '', finished_at => clock_timestamp() - a::interval)).status
  FROM (VALUES ('old1', 'done', '4 days'), ('old2', 'failed', '6 days'), ('old3', 'cancelled', '5 days'), ('young', 'done', '1 h')) x (n, s, a);
SELECT (run_commit_unclaimed('system', 'waits', 1, 'c', 'external', 'waiting', 1, '', updated_at => '2000-01-01')).status;
SELECT gc('4 days', 1), (SELECT string_agg(run_id, ' ' ORDER BY id) FROM runs);
SELECT gc('4 days'), (SELECT string_agg(run_id, ' ' ORDER BY id) FROM runs);
SELECT collected FROM tick();
-- Rows of others that refer to a run go with it, as their foreign key says.
CREATE TABLE t.run_events (run_id text REFERENCES gen_durable.runs ON DELETE CASCADE, seq bigint, PRIMARY KEY (run_id, seq));
INSERT INTO t.run_events VALUES ('young', 1), ('young', 2), ('runs', 1);
CREATE ROLE gd_collector;
SELECT grant_usage('gd_collector', 'admin');
-- Triggers run with the rights of the table's owner, so not by the caller's search_path.
CREATE TABLE t.noted (what text);
CREATE FUNCTION t.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t.noted VALUES (lower('NOTED')); RETURN NULL; END $$;
CREATE TRIGGER note AFTER DELETE ON runs FOR EACH ROW EXECUTE FUNCTION t.note();
CREATE SCHEMA gd_collector AUTHORIZATION gd_collector;
SET ROLE gd_collector;
CREATE FUNCTION gd_collector.lower(text) RETURNS text LANGUAGE sql AS 'SELECT ''ran as '' || current_user';
SET search_path = gd_collector, pg_catalog;
SELECT gen_durable.gc('0'), current_user, current_setting('search_path');
RESET ROLE;
SET search_path = gen_durable, t;
SET client_min_messages = warning;
DROP OWNED BY gd_collector CASCADE;
RESET client_min_messages;
DROP ROLE gd_collector;
DROP TRIGGER note ON runs;
SELECT * FROM t.noted;
DROP TABLE t.noted;
SELECT * FROM t.run_events;
DROP TABLE t.run_events;
-- A foreign key that does not take its rows along keeps the run, and nothing else: the rest is collected, and tick goes on.
CREATE TABLE t.run_refs (run_id text REFERENCES gen_durable.runs ON DELETE RESTRICT);
SELECT run(n) FROM unnest(ARRAY['kept', 'free']) n \g /dev/null
SELECT (run_commit_unclaimed('system', n, 1, 'c', 'terminal', 'done', 1, '', finished_at => clock_timestamp() - a::interval)).status
  FROM (VALUES ('kept', '4 days'), ('free', '3 days')) x (n, a);
INSERT INTO t.run_refs VALUES ('kept');
SELECT insert('m', queue => 'reaped') \g /dev/null
SELECT count(*) FROM pick('reaped', 'w', 1, '0 s');
SELECT reaped, collected FROM tick();
SELECT gc('1 day'), (SELECT string_agg(run_id, ' ' ORDER BY id) FROM runs);
DROP TABLE t.run_refs;
SELECT gc('1 day'), (SELECT string_agg(run_id, ' ' ORDER BY id) FROM runs);
