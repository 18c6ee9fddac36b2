-- No caller can make a function of the extension run something else, whatever stands first in its search_path.
--
-- A hostile schema has tables of the engine's names, and functions, operators and casts of the system's, each of which
-- raises "hijacked"; a temporary table and type shadow more. Every function is called with that schema before pg_catalog,
-- as an ordinary role, and must do what it does without.
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\set ON_ERROR_STOP true
SET client_min_messages = warning;
BEGIN;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS gen_durable;
SELECT no_plan();

-- What is written in SQL or PL/pgSQL, or runs with its owner's rights, carries its own search_path, pg_temp last.
SELECT is_empty($$SELECT p.oid::regprocedure, p.proconfig FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
   WHERE p.pronamespace = 'gen_durable'::regnamespace AND (l.lanname NOT IN ('c', 'internal') OR p.prosecdef)
     AND NOT coalesce(p.proconfig && ARRAY['search_path=pg_catalog, pg_temp', 'search_path="pg_catalog", "pg_temp"'], false)$$,
  'functions that resolve names are pinned');
-- A SET clause on a procedure would make every CALL of it atomic.
SELECT is_empty($$SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'gen_durable'::regnamespace AND p.prokind = 'p' AND p.proconfig IS NOT NULL$$,
  'procedures are not');
SELECT is_empty($$SELECT r.ev_class::regclass FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
   WHERE c.relnamespace = 'gen_durable'::regnamespace AND c.relkind = 'v' AND NOT EXISTS
     (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')$$, 'every view is the extension''s own');

-- The hostile schema.
CREATE SCHEMA evil;
CREATE FUNCTION evil.hijack() RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hijacked'; END $$;
CREATE TABLE evil.instances AS SELECT * FROM gen_durable.instances;
CREATE TABLE evil.signals AS SELECT * FROM gen_durable.signals;
CREATE TABLE evil.fsms (name int);
CREATE TABLE evil.runs (run_id int);
CREATE TABLE evil.run_tenants (role int);
CREATE TABLE evil.queues (name int);
CREATE TABLE evil.pg_class (relname int);
CREATE TABLE evil.pg_proc (proname int);
CREATE TABLE evil.pg_roles (rolname int);
CREATE TABLE evil.pg_namespace (nspname int);
CREATE TYPE evil.durable_status AS ENUM ('hijacked');
CREATE TYPE evil.job AS (hijacked int);
DO $$
DECLARE
  f text;
  l text;
  r text;
  o text;
BEGIN
  -- Functions without arguments, and with the arguments that the engine has at hand.
  FOREACH f IN ARRAY ARRAY['now()', 'clock_timestamp()', 'statement_timestamp()', 'transaction_timestamp()', 'gen_random_uuid()', 'random()', 'pg_backend_pid()',
    'hashtext(text)', 'hashtextextended(text, bigint)', 'pg_try_advisory_xact_lock(bigint)', 'pg_try_advisory_xact_lock(int, int)', 'nextval(regclass)',
    'length(text)', 'octet_length(text)', 'left(text, int)', 'starts_with(text, text)', 'upper(text)', 'lower(text)', 'quote_ident(text)', 'md5(text)',
    'current_setting(text)', 'current_setting(text, boolean)', 'set_config(text, text, boolean)', 'jsonb_typeof(jsonb)', 'jsonb_array_length(jsonb)',
    'jsonb_object_keys(jsonb)', 'array_length(anyarray, int)', 'cardinality(anyarray)', 'array_position(anycompatiblearray, anycompatible)', 'string_to_array(text, text)',
    'replace(text, text, text)', 'abs(int)', 'abs(bigint)', 'isfinite(timestamptz)', 'isfinite(interval)', 'date_part(text, interval)',
    'pg_has_role(name, text)', 'pg_has_role(text, text)', 'to_regrole(text)', 'unnest(anyarray)', 'generate_series(int, int)'] LOOP
    EXECUTE format('CREATE FUNCTION evil.%s RETURNS int LANGUAGE plpgsql AS $f$ BEGIN RAISE EXCEPTION ''hijacked''; END $f$', f);
  END LOOP;
  FOREACH f IN ARRAY ARRAY['jsonb_build_object', 'jsonb_build_array', 'format', 'concat'] LOOP
    EXECUTE format('CREATE FUNCTION evil.%I(VARIADIC "any") RETURNS int LANGUAGE internal AS ''pg_num_nulls''', f);
  END LOOP;
  -- Operators on the types of the engine's columns.
  FOREACH l IN ARRAY ARRAY['text', 'bigint', 'int', 'smallint', 'uuid', 'timestamptz', 'float8', 'boolean', 'gen_durable.durable_status', 'jsonb', 'text[]', 'bigint[]', 'name', 'oid', 'interval'] LOOP
    EXECUTE format('CREATE FUNCTION evil.compare(a %1$s, b %1$s) RETURNS boolean LANGUAGE plpgsql AS $f$ BEGIN RAISE EXCEPTION ''hijacked''; END $f$', l);
    FOREACH o IN ARRAY ARRAY['=', '<>', '<', '>', '<=', '>=', '@>', '&&'] LOOP
      EXECUTE format('CREATE OPERATOR evil.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = evil.compare)', o, l, l);
    END LOOP;
  END LOOP;
  FOREACH r IN ARRAY ARRAY['timestamptz, interval', 'interval, float8', 'text, text', 'int, int', 'bigint, bigint', 'bigint, int', 'jsonb, text', 'jsonb, jsonb', 'jsonb, int', 'name, text'] LOOP
    EXECUTE format('CREATE FUNCTION evil.combine(%s) RETURNS int LANGUAGE plpgsql AS $f$ BEGIN RAISE EXCEPTION ''hijacked''; END $f$', r);
    FOREACH o IN ARRAY ARRAY['+', '-', '*', '||', '->', '->>', '%', '~', '~~'] LOOP
      EXECUTE format('CREATE OPERATOR evil.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = evil.combine)', o, split_part(r, ', ', 1), split_part(r, ', ', 2));
    END LOOP;
  END LOOP;
END $$;
GRANT USAGE ON SCHEMA evil TO PUBLIC;
GRANT ALL ON ALL TABLES IN SCHEMA evil TO PUBLIC;

CREATE ROLE gd_path_admin;
CREATE ROLE gd_path_tenant;
SELECT gen_durable.grant_usage('gd_path_admin', 'admin');
CREATE SCHEMA calls;
GRANT USAGE ON SCHEMA calls TO gd_path_admin;
CREATE TABLE calls.answers (path text, n int, call text, answer text);

-- Calls with everything qualified, so that what they answer depends on the functions alone. $1 is a name; each
-- pass starts with empty tables, so that it answers the same.
CREATE FUNCTION calls.id(name text) RETURNS bigint LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
  'SELECT i.id FROM gen_durable.instances i WHERE i.fsm = $1 ORDER BY i.id DESC LIMIT 1';
CREATE FUNCTION calls.token(name text) RETURNS uuid LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
  'SELECT i.token FROM gen_durable.instances i WHERE i.fsm = $1 ORDER BY i.id DESC LIMIT 1';
CREATE FUNCTION calls.decide(run gen_durable.run, arg jsonb) RETURNS gen_durable.run_decision LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
  'SELECT ROW(''no_change'', NULL, NULL, NULL, NULL, NULL)::gen_durable.run_decision';
CREATE FUNCTION calls.claim(name text) RETURNS uuid LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
  'SELECT r.claim_token FROM gen_durable.runs r WHERE r.run_id = $1';
CREATE FUNCTION calls.entry(name text, outcome jsonb) RETURNS jsonb LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
  'SELECT jsonb_build_array($2 || jsonb_build_object(''token'', calls.token($1)))';
CREATE PROCEDURE calls.pass(name text, path text) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $pass$
DECLARE
  call text;
  answer text;
  n int := 0;
BEGIN
  FOREACH call IN ARRAY ARRAY[
    $c$SELECT created::text FROM gen_durable.insert($1, queue => $1, concurrency_key => $1, correlation_key => $1)$c$,
    $c$SELECT created::text FROM gen_durable.insert($1, queue => $1, correlation_key => $1)$c$,
    $c$SELECT pg_catalog.string_agg(created::text, ',') FROM gen_durable.insert_all(pg_catalog.concat($1, 'x'), '[{"queue": "x"}, {"queue": "x", "correlation_key": "twice"}, {"correlation_key": "twice"}]')$c$,
    $c$SELECT (gen_durable.find($1) OPERATOR(pg_catalog.=) calls.id($1))::text$c$,
    $c$SELECT gen_durable.register_fsm(pg_catalog.concat($1, 'm'), queue => $1)::text$c$,
    $c$SELECT steps::text FROM gen_durable.drain($1)$c$,
    $c$SELECT created::text FROM gen_durable.insert(pg_catalog.concat($1, 'm'))$c$,
    $c$SELECT pg_catalog.string_agg(step, ',' ORDER BY id) FROM gen_durable.pick($1, 'w', 10)$c$,
    $c$SELECT pg_catalog.string_agg(step, ',') FROM gen_durable.take($1, 'w', 10)$c$,
    $c$SELECT pg_catalog.string_agg(held::text, ',') FROM gen_durable.heartbeat(ARRAY[calls.token($1)], '1 hour')$c$,
    $c$SELECT gen_durable.signal(calls.id($1), 'go', dedup_key => 'd')$c$,
    $c$SELECT gen_durable.signal(calls.id($1), 'go', dedup_key => 'd')$c$,
    $c$SELECT gen_durable.signal_key($1, 'other', '{"a": 1}')$c$,
    $c$SELECT pg_catalog.string_agg(name, ',') FROM gen_durable.inbox(calls.id($1))$c$,
    $c$SELECT outcome FROM gen_durable.await(calls.id($1), '0')$c$,
    $c$SELECT waits_for FROM gen_durable.why(calls.id($1))$c$,
    $c$SELECT gen_durable.complete(calls.token($1), gen_durable.await_signal(ARRAY['go'], 'woke', timeout => '1 hour'))::text$c$,
    $c$SELECT pg_catalog.string_agg(pg_catalog.jsonb_array_length(awaited)::text, ',') FROM gen_durable.pick($1, 'w', 10)$c$,
    $c$SELECT gen_durable.complete(calls.token($1), gen_durable.schedule_children('joined', '[{"fsm": "kid", "queue": "kids", "correlation_key": "kid"}, {"fsm": "kid", "queue": "kids"}]'))::text$c$,
    $c$SELECT pg_catalog.count(*)::text FROM gen_durable.children(calls.id($1))$c$,
    $c$SELECT pg_catalog.string_agg(result, ',') FROM gen_durable.complete_many((SELECT pg_catalog.jsonb_agg(gen_durable.done() OPERATOR(pg_catalog.||) pg_catalog.jsonb_build_object('token', token)) FROM gen_durable.pick('kids', 'w', 10)))$c$,
    $c$SELECT pg_catalog.string_agg(step, ',') FROM gen_durable.complete_and_take('[]', $1, 'w', 10)$c$,
    $c$SELECT gen_durable.release(ARRAY[calls.token($1)])::text$c$,
    $c$SELECT pg_catalog.string_agg(step, ',') FROM gen_durable.pick($1, 'w:1', 10, '0')$c$,
    $c$SELECT gen_durable.reclaim($1, 'w:', '1 minute')::text$c$,
    $c$SELECT pg_catalog.string_agg(step, ',') FROM gen_durable.pick($1, 'w:1', 10, '0')$c$,
    $c$SELECT gen_durable.reap()::text$c$,
    $c$SELECT gen_durable.fire_timeouts()::text$c$,
    $c$SELECT gen_durable.cancel(calls.id($1), 'unwanted', cascade => true)$c$,
    $c$SELECT gen_durable.revive(calls.id($1), 'again')::text$c$,
    $c$SELECT pg_catalog.string_agg(step, ',') FROM gen_durable.pick($1, 'w', 10)$c$,
    $c$SELECT gen_durable.complete(calls.token($1), gen_durable.next_step('n', '{}', concurrency_key => 'k', delay => '1 second'))::text$c$,
    $c$SELECT gen_durable.cancel(calls.id($1), force => true)$c$,
    $c$SELECT pg_catalog.concat(gen_durable.retry('1 second'), gen_durable.stop('s'), gen_durable.fail('s'))$c$,
    $c$CALL gen_durable.commit_and_take('[]', $1, 'w', 10)$c$,
    $c$SELECT gen_durable.channel($1)$c$,
    $c$SELECT gen_durable.pause($1, reason => 'r')::text$c$,
    $c$SELECT gen_durable.resume($1)::text$c$,
    $c$SELECT pg_catalog.count(*)::text FROM gen_durable.dispatched()$c$,
    $c$SELECT gen_durable.set_queue($1, concurrency => 2, prefetch => 1, min_demand => 1, lease_ttl => '1 minute')::text$c$,
    $c$SELECT gen_durable.set_rate_limit(pg_catalog.concat($1, 'l'), 3, '1000 years')::text$c$,
    $c$SELECT gen_durable.set_concurrency_limit(pg_catalog.concat($1, 'l'), 20, 2)::text$c$,
    $c$SELECT gen_durable.sync_config('[{"kind": "conc", "name": "other", "capacity": 1}]')::text$c$,
    $c$SELECT pg_catalog.count(*)::text FROM gen_durable.admit(pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_object('id', 1, 'conc', pg_catalog.concat($1, 'l'), 'rate', pg_catalog.jsonb_build_object('key', pg_catalog.concat($1, 'l'))))) WHERE admitted$c$,
    $c$SELECT pg_catalog.concat(gen_durable.credit('[{"key": "x", "shard": 0, "holder": 0}]'), gen_durable.renew('[]'))$c$,
    $c$SELECT pg_catalog.count(*)::text FROM gen_durable.insert(pg_catalog.concat($1, 'l'), queue => pg_catalog.concat($1, 'l'), rate_limit => pg_catalog.concat($1, 'l'), concurrency_key => pg_catalog.concat($1, 'l'))$c$,
    $c$SELECT pg_catalog.string_agg(step, ',') FROM gen_durable.pick(pg_catalog.concat($1, 'l'), 'w', 10)$c$,
    $c$SELECT pg_catalog.concat(kind, capacity, keys) FROM gen_durable.limits WHERE name OPERATOR(pg_catalog.=) pg_catalog.concat($1, 'l') ORDER BY kind USING OPERATOR(pg_catalog.<) LIMIT 1$c$,
    $c$SELECT pg_catalog.count(*)::text FROM gen_durable.limit_keys$c$,
    $c$SELECT pg_catalog.count(*)::text FROM gen_durable.limit_counts()$c$,
    $c$SELECT buckets::text FROM gen_durable.reconcile()$c$,
    $c$SELECT gen_durable.drop_limit('rate', pg_catalog.concat($1, 'l'))::text$c$,
    $c$SELECT gen_durable.drop_limit('conc', pg_catalog.concat($1, 'l'))::text$c$,
    $c$SELECT gen_durable.gc('0')::text$c$,
    $c$SELECT reaped::text FROM gen_durable.tick()$c$,
    $c$SELECT gen_durable.grant_usage('gd_path_admin', 'client')::text$c$,
    $c$SELECT status FROM gen_durable.run_insert('tenant:t', $1, 'g', 'h', 'x', '2020-01-01')$c$,
    $c$SELECT kind FROM gen_durable.run_claim_due(1, '1 h', 5)$c$,
    $c$SELECT gen_durable.run_refresh_claim($1, calls.claim($1))::text$c$,
    $c$SELECT status FROM gen_durable.run_commit('tenant:t', $1, calls.claim($1), 1, 'c', 'retain', 'running', 1, 'x')$c$,
    $c$SELECT gen_durable.run_abandon_claim($1, calls.claim($1), 2, '2999-01-01', 1)$c$,
    $c$SELECT status FROM gen_durable.run_commit_unclaimed('system', $1, 2, 'c', 'immediate', 'running', 1, 'x')$c$,
    $c$SELECT kind FROM gen_durable.run_claim_due(1, '1 h', 5)$c$,
    $c$SELECT gen_durable.run_release_claim($1, calls.claim($1))::text$c$,
    $c$SELECT checkpoint_seq::text FROM gen_durable.run_lock('system', $1)$c$,
    $c$SELECT checkpoint_seq::text FROM gen_durable.run_fetch('system', $1)$c$,
    $c$SELECT claim_attempts::text FROM gen_durable.run_inspect('system', $1)$c$,
    $c$SELECT pg_catalog.string_agg(run_id, ',') FROM gen_durable.run_list('tenant:t', statuses => '{running}')$c$,
    $c$SELECT checkpoint_seq::text FROM gen_durable.run_retry_poisoned('system', $1)$c$,
    $c$SELECT result FROM gen_durable.run_mutate('system', $1, 'calls.decide(gen_durable.run, jsonb)'::pg_catalog.regprocedure)$c$,
    $c$SELECT gen_durable.run_visible('t')::text$c$,
    $c$SELECT gen_durable.run_all_tenants()::text$c$,
    $c$SELECT gen_durable.grant_tenant('gd_path_tenant', 't')::text$c$,
    $c$SELECT pg_catalog.count(run_id)::text FROM gen_durable.runs$c$,
    $c$SELECT pg_catalog.count(*)::text FROM gen_durable.blocked_instances$c$,
    $c$SELECT pg_catalog.count(*)::text FROM gen_durable.unkeyed_instances$c$,
    $c$SELECT (pg_catalog.count(inserted) OPERATOR(pg_catalog.>=) 0)::text FROM gen_durable.queue_counters()$c$,
    $c$SELECT pg_catalog.count(due_next)::text FROM gen_durable.queue_heads()$c$,
    $c$SELECT (pg_catalog.count(*) OPERATOR(pg_catalog.>) 0)::text FROM gen_durable.stats$c$,
    $c$SELECT pg_catalog.num_nulls(inserted, since)::text FROM gen_durable.run_counters()$c$,
    $c$SELECT pg_catalog.num_nulls(due_next)::text FROM gen_durable.run_heads()$c$,
    $c$SELECT pg_catalog.count(*)::text FROM gen_durable.run_stats$c$,
    $c$SELECT pg_catalog.count(since)::text FROM gen_durable.processes()$c$,
    $c$SELECT pg_catalog.count(since)::text FROM gen_durable.waiters()$c$,
    $c$SELECT pg_catalog.count(*)::text FROM gen_durable.workers$c$]
  LOOP
    n := n + 1;
    BEGIN
      PERFORM set_config('search_path', path, true);
      EXECUTE pg_catalog.replace(call, '$1', pg_catalog.quote_literal(name)) INTO answer;
      PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    EXCEPTION WHEN OTHERS THEN
      PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
      answer := 'error: ' || SQLERRM;
    END;
    INSERT INTO calls.answers VALUES (path, n, call, answer);
  END LOOP;
END $pass$;
GRANT ALL ON ALL TABLES IN SCHEMA calls TO gd_path_admin;

TRUNCATE gen_durable.instances, gen_durable.runs CASCADE;
SET ROLE gd_path_admin;
CREATE TEMP TABLE instances (hijacked int);
CREATE TEMP TABLE signals (hijacked int);
CREATE TEMP TABLE pg_authid (hijacked int);
CREATE TYPE pg_temp.durable_status AS ENUM ('hijacked');
CREATE TYPE pg_temp.job AS (hijacked int);
CALL calls.pass('one', 'pg_catalog, pg_temp');
RESET ROLE;
TRUNCATE gen_durable.instances, gen_durable.runs CASCADE;
SET ROLE gd_path_admin;
CALL calls.pass('one', 'evil, public, pg_catalog');
RESET ROLE;
TRUNCATE gen_durable.instances, gen_durable.runs CASCADE;
SET ROLE gd_path_admin;
CALL calls.pass('one', 'pg_temp, evil, pg_catalog');
RESET ROLE;

-- The trap works: the names do reach the hostile schema when nothing is pinned.
SELECT throws_ok($$SET LOCAL search_path = evil, public, pg_catalog; SELECT now()$$, 'P0001', 'hijacked', 'the trap is set: a function');
SELECT throws_ok($$SET LOCAL search_path = evil, public, pg_catalog; SELECT 'a'::text = 'b'::text$$, 'P0001', 'hijacked', 'the trap is set: an operator');
SET LOCAL search_path = public, pg_catalog;

SELECT is_empty($$SELECT call, answer FROM calls.answers WHERE path = 'pg_catalog, pg_temp' AND answer LIKE 'error:%'$$, 'every call works to begin with');
SELECT is(e.answer, g.answer, 'hostile schema first: ' || g.call)
  FROM calls.answers g JOIN calls.answers e ON e.n = g.n AND e.path = 'evil, public, pg_catalog' WHERE g.path = 'pg_catalog, pg_temp' ORDER BY g.n;
SELECT is(e.answer, g.answer, 'pg_temp first: ' || g.call)
  FROM calls.answers g JOIN calls.answers e ON e.n = g.n AND e.path = 'pg_temp, evil, pg_catalog' WHERE g.path = 'pg_catalog, pg_temp' ORDER BY g.n;
-- Each function of the contract was called, but for wait and run_wait, which refuse to run inside a function, and recount, in a transaction that has written.
SELECT is_empty($$SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'gen_durable'::regnamespace AND p.prorettype <> 'trigger'::regtype AND p.proname NOT IN ('wait', 'run_wait', 'recount')
    AND NOT EXISTS (SELECT 1 FROM calls.answers a WHERE a.call ~ ('gen_durable\.' || p.proname || '\('))$$, 'no function was left out');

SELECT finish();
ROLLBACK;
