-- Steps in SQL: handlers, whose steps they are, and drain, which runs them in the caller's transaction.
-- GD-159, GD-161, GD-345, GD-346, GD-347, GD-348, GD-400, GD-401, GD-402, GD-403, D-9, D-15, AC-160, AC-161
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();
CREATE SCHEMA h;

-- A whole machine: each step by its outcome.
CREATE TABLE h.log (line text);
CREATE FUNCTION h.order(ctx gen_durable.job) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO h.log VALUES (format('%s %s %s awaited %s children %s', ctx.step, ctx.attempt, ctx.state,
    jsonb_path_query_array(ctx.awaited, '$[*].name'), jsonb_path_query_array(ctx.children, '$[*].status')));
  CASE ctx.step
    WHEN 'start' THEN RETURN gen_durable.next_step('charge', '{"total": 3}');
    WHEN 'charge' THEN
      IF ctx.attempt = 0 THEN RETURN gen_durable.retry('1 hour'); END IF;
      RETURN gen_durable.await_signal('{paid}', 'ship', timeout => '1 day');
    WHEN 'ship' THEN RETURN gen_durable.schedule_children('bill', '[{"fsm": "parcel"}, {"fsm": "parcel"}]');
    WHEN 'bill' THEN RETURN gen_durable.next_step('end', delay => '30 days');
    ELSE RETURN gen_durable.done('{"billed": true}');
  END CASE;
END $$;
CREATE FUNCTION h.parcel(ctx gen_durable.job) RETURNS jsonb LANGUAGE sql AS $$ SELECT gen_durable.done() $$;
SELECT 'ok' FROM register_fsm('order', 'h.order(gen_durable.job)') AS a, register_fsm('parcel', 'h.parcel(gen_durable.job)') AS b;
SELECT handler, step_handlers, on_error, statement_timeout FROM fsms WHERE name = 'order';
SELECT id FROM insert('order');
SELECT * FROM drain();
SELECT signal(1, 'paid');
SELECT * FROM drain();
SELECT * FROM h.log;
SELECT st('order', 'parcel'), (SELECT result FROM instances WHERE id = 1);
-- Nothing is left, and nothing is done.
SELECT * FROM drain();

-- drain is part of its transaction.
CALL fresh();
SELECT 'ok' FROM register_fsm('parcel', 'h.parcel(gen_durable.job)', queue => 'p');
BEGIN;
SELECT count(*) FROM insert('parcel');
SELECT steps, done FROM drain();
SELECT st('parcel');
ROLLBACK;
SELECT count(*) FROM instances;
-- One queue, and only what is due.
SELECT count(*) FROM insert('parcel') AS a, insert('parcel', queue => 'other') AS b, insert('parcel', schedule_in => '1 day') AS c;
SELECT steps FROM drain('other');
SELECT steps FROM drain(with_scheduled => false);
SELECT steps FROM drain('p');
-- Priority and time decide the order; a paused queue hands out nothing.
SELECT 'ok' FROM pause('p'), insert('parcel');
SELECT steps FROM drain();
SELECT 'ok' FROM resume('p');
SELECT steps FROM drain();

-- What a step may not do for ever.
CREATE FUNCTION h.circle(ctx gen_durable.job) RETURNS jsonb LANGUAGE sql AS $$ SELECT gen_durable.next_step('again') $$;
SELECT 'ok' FROM register_fsm('circle', 'h.circle(gen_durable.job)');
SELECT count(*) FROM insert('circle');
SELECT err('SELECT drain(max_steps => 10)', '10 steps');
SELECT err('SELECT drain(max_steps => 0)'), err('SELECT drain(max_steps => NULL)'), err('SELECT drain(with_scheduled => NULL)'), err($$SELECT drain('')$$);
SELECT st('circle');

-- Whose steps they are: the server's are handed to no client, the clients' are run by no drain.
CALL fresh();
CREATE FUNCTION h.ship(ctx gen_durable.job) RETURNS jsonb LANGUAGE sql AS $$ SELECT gen_durable.next_step('mail') $$;
SELECT 'ok' FROM register_fsm('mixed', 'h.ship(gen_durable.job)', step => 'ship', queue => 'q', initial => 'pack');
SELECT handler, step_handlers FROM fsms;
SELECT count(*) FROM insert('mixed') AS a, insert('plain', queue => 'q') AS b;
SELECT steps FROM drain();
SELECT picks('q', 10);
SELECT fin('mixed', next_step('ship'));
SELECT picks('q', 10);
CALL wait('{q}', '0');
SELECT * FROM drain();
SELECT picks('q', 10), st('mixed');
-- A handler taken away: the step is a client's again.
SELECT fin('mixed', next_step('ship'));
SELECT 'ok' FROM register_fsm('mixed', step => 'ship');
SELECT step_handlers, queue, initial FROM fsms;
SELECT picks('q', 10);
-- A call for a step repeats settings but does not change them.
SELECT 'ok' FROM register_fsm('mixed', 'h.ship(gen_durable.job)', step => 'ship', queue => 'q');
SELECT err($$SELECT register_fsm('mixed', 'h.ship(gen_durable.job)', step => 'ship', queue => 'r')$$, 'queue', 'mixed', 'ship'),
  err($$SELECT register_fsm('mixed', 'h.ship(gen_durable.job)', step => 'ship', max_attempts => 3)$$, 'max_attempts'),
  err($$SELECT register_fsm('mixed', step => 'none')$$, 'none');
-- Without step the settings change, and the steps keep their handlers.
SELECT 'ok' FROM register_fsm('mixed', 'h.circle(gen_durable.job)', queue => 'q', statement_timeout => '5 s');
SELECT handler, step_handlers, statement_timeout FROM fsms;
-- Versions side by side: an instance ends on the one that it began with.
CALL fresh();
CREATE FUNCTION h.one(ctx gen_durable.job) RETURNS jsonb LANGUAGE sql AS $$ SELECT gen_durable.done('{"by": 1}') $$;
CREATE FUNCTION h.two(ctx gen_durable.job) RETURNS jsonb LANGUAGE sql AS $$ SELECT gen_durable.done('{"by": 2}') $$;
SELECT 'ok' FROM register_fsm('v', 'h.one(gen_durable.job)');
SELECT count(*) FROM insert('v');
SELECT 'ok' FROM register_fsm('v', 'h.two(gen_durable.job)', version => 2);
SELECT count(*) FROM insert('v');
SELECT steps FROM drain();
SELECT fsm_version, result FROM instances ORDER BY id;

-- Handlers that go wrong. Each is tried twice, then its instance has failed; what it wrote is gone.
CALL fresh();
CREATE FUNCTION h.bad(ctx gen_durable.job) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  r jsonb;
  c CURSOR FOR SELECT 1;
BEGIN
  INSERT INTO h.log VALUES ('bad ' || ctx.step);
  CASE ctx.step
    WHEN 'nothing' THEN RETURN NULL;
    WHEN 'array' THEN RETURN '[]';
    WHEN 'string' THEN RETURN '"done"';
    WHEN 'unknown' THEN RETURN '{"outcome": "finish"}';
    WHEN 'key' THEN RETURN '{"outcome": "done", "results": {}}';
    WHEN 'result' THEN RETURN '{"outcome": "done", "result": 1}';
    WHEN 'child' THEN RETURN gen_durable.schedule_children('x', '[{"fsm": ""}]');
    WHEN 'division' THEN RETURN to_jsonb(1 / ctx.attempt::numeric * 0 + 1 / 0);
    WHEN 'raise' THEN RAISE EXCEPTION 'no stock' USING DETAIL = 'shelf 7', HINT = 'buy some', ERRCODE = 'XX123';
    WHEN 'assert' THEN ASSERT false, 'asserted';
    WHEN 'commit' THEN COMMIT;
    WHEN 'rollback' THEN ROLLBACK;
    WHEN 'drain' THEN PERFORM gen_durable.drain();
    WHEN 'complete' THEN PERFORM gen_durable.complete(ctx.token, gen_durable.done()); RETURN gen_durable.done();
    WHEN 'release' THEN PERFORM gen_durable.release(ARRAY[ctx.token]); RETURN gen_durable.done();
    WHEN 'cancel' THEN PERFORM gen_durable.cancel(ctx.id); RETURN gen_durable.done();
    WHEN 'force' THEN PERFORM gen_durable.cancel(ctx.id, force => true); RETURN gen_durable.done();
    WHEN 'timeout' THEN PERFORM pg_sleep(30);
    WHEN 'stack' THEN RETURN h.bad(ctx);
    WHEN 'memory' THEN RETURN to_jsonb(repeat('x', 1100000000));
    WHEN 'nul' THEN RETURN '{"outcome": "stop", "reason": "\u0000"}'::jsonb;
  END CASE;
  RETURN gen_durable.done();
END $$;
SELECT 'ok' FROM register_fsm('bad', 'h.bad(gen_durable.job)', max_attempts => 2, statement_timeout => '20 ms');
TRUNCATE h.log;
SET max_stack_depth = '200kB';
SELECT count(*) FROM unnest('{nothing,array,string,unknown,key,result,child,division,raise,assert,commit,rollback,drain,complete,release,cancel,force,timeout,stack,memory,nul}'::text[]) s, insert('bad', step => s);
SELECT * FROM drain();
RESET max_stack_depth;
SELECT count(*) FROM h.log;
-- The error is kept whole: message, SQLSTATE, detail, hint and context.
SELECT step, status, attempt, split_part(regexp_replace(last_error, '[0-9a-f]{8}-[0-9a-f-]{27}', 'uuid'), E'\n', 1), split_part(last_error, E'\n', 2) FROM instances ORDER BY id;
SELECT last_error FROM instances WHERE step = 'raise';

-- Every class of errors is the step's, those of the engine and of a cancelled query among them.
CALL fresh();
CREATE FUNCTION h.raise(ctx gen_durable.job) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN RAISE 'raised' USING ERRCODE = ctx.step; END $$;
SELECT 'ok' FROM register_fsm('raise', 'h.raise(gen_durable.job)', max_attempts => 1);
SELECT count(*) FROM unnest('{01,02,03,08,09,0A,0B,0F,0L,0P,0Z,20,21,22,23,24,25,26,27,28,2B,2D,2F,34,38,39,3B,3D,3F,40,42,44,53,54,55,57,58,72,F0,HV,P0,XX}'::text[]) c, insert('raise', step => c || '000');
SELECT count(*) FROM unnest('{57014,57P01,57P02,57P03,40001,40P01,25P02,25006,54001,P0004,XX001,XX002,GD001,GD002,GD003,GD004,GD005,GD006,GD007}'::text[]) c, insert('raise', step => c);
SELECT steps, stop FROM drain();
SELECT step, status, last_error FROM instances WHERE status <> 'failed' OR NOT last_error ^@ (E'raised\nSQLSTATE: ' || step) ORDER BY id;

-- What a step may do: talk to the engine, others and itself; large states; locks; it is one transaction with its outcome.
CALL fresh();
CREATE FUNCTION h.good(ctx gen_durable.job) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  CASE ctx.step
    WHEN 'insert' THEN PERFORM gen_durable.insert('parcel', correlation_key => 'k');
    WHEN 'signal' THEN PERFORM gen_durable.signal(ctx.id, 'self'); RETURN gen_durable.await_signal('{self}', 'woken');
    WHEN 'woken' THEN RETURN gen_durable.done(jsonb_build_object('awaited', jsonb_array_length(ctx.awaited)));
    WHEN 'big' THEN RETURN gen_durable.next_step('bigger', jsonb_build_object('x', repeat('x', 50000000)));
    WHEN 'bigger' THEN RETURN gen_durable.done(jsonb_build_object('length', length(ctx.state->>'x')));
    WHEN 'lock' THEN LOCK TABLE h.log IN ACCESS EXCLUSIVE MODE; TRUNCATE h.log;
    WHEN 'catch' THEN BEGIN PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN INSERT INTO h.log VALUES ('caught'); END;
    WHEN 'settings' THEN SET search_path = h; SET LOCAL work_mem = '77MB'; PERFORM set_config('role', 'none', false);
    WHEN 'pick' THEN RETURN gen_durable.done(jsonb_build_object('picked', (SELECT count(*) FROM gen_durable.pick('default', 'w'))));
    WHEN 'stop' THEN RETURN gen_durable.stop('no more');
    WHEN 'fail' THEN INSERT INTO h.log VALUES ('failing'); RETURN gen_durable.fail('by hand');
  END CASE;
  RETURN gen_durable.done();
END $$;
SELECT 'ok' FROM register_fsm('good', 'h.good(gen_durable.job)', max_attempts => 1) AS a, register_fsm('parcel', 'h.parcel(gen_durable.job)') AS b;
SELECT count(*) FROM unnest('{insert,signal,big,lock,catch,settings,pick,stop,fail}'::text[]) s, insert('good', step => s);
SELECT * FROM drain();
SELECT step, status, result, last_error FROM instances ORDER BY id;
SELECT * FROM h.log;
SELECT current_setting('search_path'), current_setting('work_mem') <> '77MB';

-- on_error decides before the policy; NULL leaves it to the policy; its own error ends the instance.
CALL fresh();
CREATE FUNCTION h.raises(ctx gen_durable.job) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  IF ctx.step = 'after' THEN RETURN gen_durable.done(jsonb_build_object('signals', jsonb_array_length(ctx.signals))); END IF;
  IF ctx.step = 'start' AND ctx.awaited = '[]' THEN RETURN gen_durable.await_signal('{go}', 'start'); END IF;
  RAISE EXCEPTION 'broken %', ctx.step;
END $$;
CREATE FUNCTION h.decides(ctx gen_durable.job, error jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  CASE ctx.step
    WHEN 'start' THEN
      RETURN gen_durable.next_step('after', jsonb_build_object('message', error->>'message', 'sqlstate', error->>'sqlstate', 'inputs', ctx.signals || ctx.awaited));
    WHEN 'policy' THEN RETURN NULL;
    WHEN 'invalid' THEN RETURN '1';
    ELSE RAISE EXCEPTION 'and on_error too';
  END CASE;
END $$;
SELECT 'ok' FROM register_fsm('e', 'h.raises(gen_durable.job)', max_attempts => 2, on_error => 'h.decides(gen_durable.job,jsonb)');
SELECT count(*) FROM unnest('{start,policy,invalid,raise}'::text[]) s, insert('e', step => s);
SELECT steps, await FROM drain();
SELECT signal(1, 'go');
SELECT * FROM drain();
-- An outcome of on_error consumes nothing.
SELECT step, status, attempt, state, result FROM instances ORDER BY id;
SELECT step, regexp_replace(last_error, 'CONTEXT: [^\n]*(\nSQL[^\n]*)?', 'CONTEXT: ...', 'g') FROM instances WHERE status = 'failed' ORDER BY id;

-- It cannot end its step itself either, nor cancel its caller's drain.
CALL fresh();
CREATE FUNCTION h.ends(ctx gen_durable.job, error jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  IF ctx.step = 'ends' THEN PERFORM gen_durable.complete(ctx.token, gen_durable.done()); END IF;
  IF ctx.step = 'cancels' THEN RAISE query_canceled; END IF;
  RETURN gen_durable.done(error - 'context');
END $$;
SELECT 'ok' FROM register_fsm('e', 'h.raise(gen_durable.job)', on_error => 'h.ends(gen_durable.job,jsonb)');
SELECT count(*) FROM unnest('{ends,cancels,57014}'::text[]) s, insert('e', step => s);
SELECT steps, done, stop FROM drain();
SELECT step, status, result, regexp_replace(substring(last_error FROM 'on_error: [^\n]*'), '[0-9a-f]{8}-[0-9a-f-]{27}', 'uuid') FROM instances ORDER BY id;

-- Dropped, renamed, replaced, or of another shape: the row says so, and goes on when it is back.
CALL fresh();
CREATE FUNCTION h.gone(ctx gen_durable.job) RETURNS jsonb LANGUAGE sql AS $$ SELECT gen_durable.next_step('again') $$;
SELECT 'ok' FROM register_fsm('g', 'h.gone(gen_durable.job)', backoff_base => '0');
SELECT count(*) FROM insert('g');
SELECT err('SELECT drain(max_steps => 1)');
DROP FUNCTION h.gone;
SELECT err('SELECT drain(max_steps => 19)'), st('g');
SELECT steps, stop FROM drain();
SELECT split_part(last_error, E'\n', 1) FROM instances;
CREATE FUNCTION h.gone(ctx gen_durable.job) RETURNS text LANGUAGE sql AS $$ SELECT 'x' $$;
SELECT 'ok' FROM revive(1);
SELECT steps, stop FROM drain();
SELECT split_part(last_error, E'\n', 1) FROM instances;
DROP FUNCTION h.gone;
CREATE FUNCTION h.gone(ctx gen_durable.job) RETURNS jsonb LANGUAGE sql AS $$ SELECT gen_durable.done() $$;
SELECT 'ok' FROM revive(1);
SELECT steps, done FROM drain();

-- What cannot be a handler.
CREATE FUNCTION h.none() RETURNS jsonb LANGUAGE sql AS $$ SELECT '{}'::jsonb $$;
CREATE FUNCTION h.set(ctx gen_durable.job) RETURNS SETOF jsonb LANGUAGE sql AS $$ SELECT '{}'::jsonb $$;
CREATE PROCEDURE h.proc(ctx gen_durable.job) LANGUAGE sql AS $$ SELECT 1 $$;
CREATE FUNCTION pg_temp.temporary(ctx gen_durable.job) RETURNS jsonb LANGUAGE sql AS $$ SELECT '{}'::jsonb $$;
SELECT q, err('SELECT ' || q) FROM unnest(ARRAY[
  $$register_fsm('x', 'pg_catalog.now()')$$, $$register_fsm('x', 'h.none()')$$, $$register_fsm('x', 'h.set(gen_durable.job)')$$, $$register_fsm('x', 'h.proc(gen_durable.job)')$$,
  $$register_fsm('x', 'pg_temp.temporary(gen_durable.job)')$$, $$register_fsm('x', 'h.decides(gen_durable.job,jsonb)')$$, $$register_fsm('x', on_error => 'h.one(gen_durable.job)')$$,
  $$register_fsm('x', 0::oid::regprocedure)$$, $$register_fsm('x', 4000000000::oid::regprocedure)$$, $$register_fsm('x', step => '')$$, $$register_fsm('x', step => 'one')$$,
  $$register_fsm('x', 'h.one(gen_durable.job)', statement_timeout => '0')$$, $$register_fsm('x', 'h.one(gen_durable.job)', statement_timeout => '-1 s')$$,
  $$register_fsm('x', 'h.one(gen_durable.job)', statement_timeout => '30 days')$$]) q;
SELECT count(*) FROM fsms WHERE name = 'x';
-- Names that must be quoted come back as they are.
CREATE SCHEMA "H (x)";
CREATE FUNCTION "H (x)"."Do it""(("(ctx gen_durable.job) RETURNS jsonb LANGUAGE sql AS $$ SELECT gen_durable.done() $$;
SELECT 'ok' FROM register_fsm('quoted', '"H (x)"."Do it""(("(gen_durable.job)');
SELECT handler FROM fsms WHERE name = 'quoted';
SELECT count(*) FROM insert('quoted');
SELECT done FROM drain();
DROP SCHEMA "H (x)" CASCADE;

-- Owners: a step may do what its machine's owner may, and nothing else, whoever drains.
CALL fresh();
CREATE ROLE regress_gd_a LOGIN;
CREATE ROLE regress_gd_b LOGIN;
CREATE ROLE regress_gd_nologin;
SELECT grant_usage('regress_gd_a', 'worker'), grant_usage('regress_gd_b', 'worker'), grant_usage('regress_gd_nologin', 'worker');
GRANT USAGE ON SCHEMA t, h TO regress_gd_a, regress_gd_b, regress_gd_nologin;
GRANT EXECUTE ON FUNCTION register_fsm, drain TO regress_gd_a, regress_gd_b, regress_gd_nologin;
CREATE SCHEMA a AUTHORIZATION regress_gd_a;
CREATE SCHEMA b AUTHORIZATION regress_gd_b;
SET ROLE regress_gd_b;
CREATE TABLE b.secret AS SELECT 'b''s secret' AS it;
CREATE FUNCTION b.only(ctx gen_durable.job) RETURNS jsonb LANGUAGE sql AS $$ SELECT gen_durable.done() $$;
REVOKE EXECUTE ON FUNCTION b.only FROM PUBLIC;
RESET ROLE;
GRANT USAGE ON SCHEMA b TO regress_gd_a;
SET ROLE regress_gd_a;
SET check_function_bodies = off;
CREATE FUNCTION a.tries(ctx gen_durable.job) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  got text;
BEGIN
  EXECUTE ctx.state->>'q' INTO got;
  RETURN gen_durable.done(jsonb_build_object('got', got));
END $$;
CREATE FUNCTION a.definer() RETURNS text LANGUAGE sql SECURITY DEFINER AS $$ SELECT it FROM b.secret $$;
CREATE FUNCTION a.late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'ran as %', current_user; END $$;
CREATE TABLE a.deferred (x int);
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON a.deferred DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION a.late();
RESET check_function_bodies;
SELECT 'ok' FROM register_fsm('tries', 'a.tries(gen_durable.job)', queue => 'a', max_attempts => 1);
RESET ROLE;
SELECT count(*) FROM unnest(ARRAY['SELECT current_user', 'SELECT session_user::text = current_user', 'SELECT it FROM b.secret', 'SET ROLE regress_gd_b', 'SET SESSION AUTHORIZATION regress_gd_b',
  'RESET ROLE', 'RESET SESSION AUTHORIZATION', 'SELECT set_config(''role'', ''regress_gd_b'', false)', 'SELECT a.definer()', 'ALTER ROLE regress_gd_b SET work_mem = ''1MB''', 'CREATE TEMP TABLE mine (x int)',
  'DECLARE c CURSOR WITH HOLD FOR SELECT 1', 'LISTEN x', 'PREPARE p AS SELECT 1', 'DEALLOCATE ALL', 'INSERT INTO a.deferred VALUES (1)', 'DO $x$ BEGIN SET LOCAL ROLE regress_gd_b; END $x$',
  'SELECT it FROM callers', 'SELECT it FROM pg_temp.callers', 'DROP TABLE callers', 'SELECT count(*) FROM gen_durable.instances', 'SELECT current_setting(''is_superuser'')']) q, insert('tries', jsonb_build_object('q', q));
-- A superuser drains, and A's steps are A's.
CREATE TEMP TABLE callers AS SELECT 'the caller''s' AS it;
SELECT steps FROM drain();
-- From 16 on PostgreSQL says more of a role that may not be altered.
SELECT state->>'q', status, result->>'got', replace(split_part(last_error, E'\n', 1), ' to alter role', '') FROM instances ORDER BY id;
SELECT current_user = session_user, to_regclass('pg_temp.mine');
-- B drains, and an admin, and A's steps are not among what they may run. A runs them itself.
SELECT count(*) FROM insert('tries', '{"q": "SELECT current_user"}');
CREATE ROLE regress_gd_admin;
SELECT grant_usage('regress_gd_admin', 'admin');
GRANT USAGE ON SCHEMA t, h, a TO regress_gd_admin;
SET ROLE regress_gd_b;
SELECT steps FROM drain();
RESET ROLE;
SET ROLE regress_gd_admin;
SELECT steps FROM drain();
RESET ROLE;
SET ROLE regress_gd_a;
SELECT steps, done FROM drain();
-- Registering: the owner needs EXECUTE and the schema; only who may act as the owner adds a handler.
SELECT err($$SELECT register_fsm('steals', 'b.only(gen_durable.job)')$$, 'regress_gd_a', 'EXECUTE');
RESET ROLE;
SET ROLE regress_gd_b;
SELECT err($$SELECT register_fsm('tries', 'b.only(gen_durable.job)')$$, 'regress_gd_a'),
  err($$SELECT register_fsm('tries', 'b.only(gen_durable.job)', step => 'x')$$, 'regress_gd_a'), err($$SELECT register_fsm('tries', 'b.only(gen_durable.job)', version => 2)$$, 'regress_gd_a');
RESET ROLE;
-- An admin who may not act as A changes the settings of A's machine and takes handlers away, but does not choose what runs as A.
SET ROLE regress_gd_admin;
SELECT err($$SELECT register_fsm('tries', 'h.one(gen_durable.job)')$$, 'regress_gd_a'), err($$SELECT register_fsm('tries', 'h.one(gen_durable.job)', step => 'x')$$, 'regress_gd_a'),
  err($$SELECT register_fsm('tries', 'h.one(gen_durable.job)', version => 2)$$, 'regress_gd_a'), err($$SELECT register_fsm('tries', on_error => 'h.decides(gen_durable.job, jsonb)')$$, 'regress_gd_a');
BEGIN;
SELECT 'ok' FROM register_fsm('tries', 'a.tries(gen_durable.job)', max_attempts => 3);
SELECT 'ok' FROM register_fsm('tries', max_attempts => 4);
SELECT owner, handler, max_attempts FROM fsms WHERE name = 'tries';
ROLLBACK;
RESET ROLE;
-- A superuser adds a handler: it must be one that A may call.
SELECT err($$SELECT register_fsm('tries', 'b.only(gen_durable.job)', step => 'x')$$, 'regress_gd_a', 'EXECUTE');
-- EXECUTE taken away later is the step's error.
SET ROLE regress_gd_b;
GRANT EXECUTE ON FUNCTION b.only TO regress_gd_a;
RESET ROLE;
SELECT 'ok' FROM register_fsm('tries', 'b.only(gen_durable.job)', step => 'x');
SET ROLE regress_gd_b;
REVOKE EXECUTE ON FUNCTION b.only FROM regress_gd_a;
RESET ROLE;
SELECT count(*) FROM insert('tries', step => 'x');
SELECT steps FROM drain();
SELECT split_part(last_error, E'\n', 1) FROM instances WHERE step = 'x';
-- A role that may not log in: refused where the server needs it to, which is before 17.
SET ROLE regress_gd_nologin;
SELECT err($$SELECT register_fsm('nologin', 'h.one(gen_durable.job)')$$) = CASE WHEN current_setting('server_version_num')::int < 170000 THEN '28000' ELSE 'no error' END;
RESET ROLE;
-- The owner is dropped: its steps wait, for nobody else may run them; an admin takes the machine over.
SELECT id FROM insert('tries', '{"q": "SELECT current_user = session_user"}') \gset
SELECT waits_for FROM why(:id);
-- What keeps an executor from running it is said.
SELECT 'ok' FROM set_queue('a', executors => 0);
SELECT waits_for FROM why(:id);
SELECT 'ok' FROM set_queue('a', executors => 1);
ALTER ROLE regress_gd_a NOLOGIN;
SELECT waits_for = 'an executor of role "regress_gd_a"' || CASE WHEN current_setting('server_version_num')::int < 170000 THEN ', which may not log in' ELSE ' on queue "a"' END FROM why(:id);
ALTER ROLE regress_gd_a LOGIN;
BEGIN;
DO $$ BEGIN EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM PUBLIC', current_database()); END $$;
SELECT waits_for FROM why(:id);
ROLLBACK;
DROP OWNED BY regress_gd_a, regress_gd_b, regress_gd_nologin, regress_gd_admin;
DROP SCHEMA IF EXISTS a, b CASCADE;
DROP ROLE regress_gd_a, regress_gd_b, regress_gd_nologin, regress_gd_admin;
SELECT steps FROM drain();
SELECT picks('a');
SELECT waits_for FROM why(:id);
CREATE SCHEMA a;
CREATE FUNCTION a.tries(ctx gen_durable.job) RETURNS jsonb LANGUAGE sql AS $$ SELECT gen_durable.done() $$;
SELECT 'ok' FROM register_fsm('tries', 'a.tries(gen_durable.job)', queue => 'a');
SELECT owner = current_user FROM fsms WHERE name = 'tries';
SELECT steps FROM drain();

-- Another language; its function is dropped before its first step.
CALL fresh();
CREATE FUNCTION h.c(ctx gen_durable.job) RETURNS jsonb LANGUAGE internal AS 'int4pl';
SELECT 'ok' FROM register_fsm('c', 'h.c(gen_durable.job)', max_attempts => 1);
DROP FUNCTION h.c;
SELECT count(*) FROM insert('c');
SELECT stop FROM drain();
-- A language that is dropped, as its extension would be, and its handlers with it.
CREATE LANGUAGE regress_gd_language HANDLER plpgsql_call_handler INLINE plpgsql_inline_handler VALIDATOR plpgsql_validator;
CREATE FUNCTION h.other(ctx gen_durable.job) RETURNS jsonb LANGUAGE regress_gd_language AS $$ BEGIN RETURN gen_durable.done(); END $$;
SELECT 'ok' FROM register_fsm('l', 'h.other(gen_durable.job)', max_attempts => 1);
SELECT count(*) FROM insert('l') AS a, insert('l', priority => 1) AS b;
SELECT done FROM drain();
SELECT count(*) FROM insert('l');
SET client_min_messages = warning;
DROP LANGUAGE regress_gd_language CASCADE;
RESET client_min_messages;
SELECT stop FROM drain();
SELECT split_part(last_error, E'\n', 1) FROM instances WHERE fsm = 'l' AND status = 'failed';

-- The key of a step is held by its claim, also in one transaction.
CALL fresh();
SELECT 'ok' FROM register_fsm('parcel', 'h.parcel(gen_durable.job)');
SELECT count(*) FROM generate_series(1, 5) s, insert('parcel', to_jsonb(s), concurrency_key => 'k');
SELECT steps FROM drain();
BEGIN TRANSACTION READ ONLY;
SELECT err('SELECT drain()');
ROLLBACK;
DROP SCHEMA h, a CASCADE;
