-- A role that is confined to one tenant attacks every function and view of the run store with the names, tokens and
-- cursors of others' runs: what it is told, and what becomes of the runs, is what it would be if there were none of them.
-- DK-009, DK-015..021, DK-037, DK-096, DK-101, DK-111
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
SET timezone = 'UTC';
CALL fresh_runs();
CREATE ROLE gd_apart;
CREATE ROLE gd_apart_monitor;
SELECT grant_tenant('gd_apart', 'mine'), grant_usage('gd_apart_monitor', 'monitor'), grant_tenant('gd_apart_monitor', 'mine');
-- Of the others: ready, claimed and expired, poisoned, waiting and ended runs, of a tenant and of none.
SELECT run(n || CASE s WHEN 'tenantless' THEN ' none' ELSE ' other' END, scope => s)
  FROM unnest(ARRAY['claimed', 'poisoned', 'waiting', 'ended']) n, unnest(ARRAY['tenantless', 'tenant:other']) s \g /dev/null
SELECT count(*) FROM run_claim_due(10, '1 h', 5, now => '2020-01-02');
SELECT run_release_claim(run_id, claim_token, '2020-01-02') FROM runs WHERE run_id !~ 'claimed' \g /dev/null
UPDATE runs SET wake_at = NULL, poisoned_at = '2020-01-02', poison_reason = 'why' WHERE run_id ~ 'poisoned';
SELECT run_commit_unclaimed('system', run_id, 1, 'c', CASE WHEN run_id ~ 'waiting' THEN 'external' ELSE 'terminal' END, CASE WHEN run_id ~ 'waiting' THEN 'waiting' ELSE 'done' END, 1, 'state', updated_at => '2020-01-02')
  FROM runs WHERE run_id ~ 'waiting|ended' \g /dev/null
SELECT run('ready' || CASE s WHEN 'tenantless' THEN ' none' ELSE ' other' END, scope => s) FROM unnest(ARRAY['tenantless', 'tenant:other']) s \g /dev/null
SELECT run('of mine', '2999-01-01', 'tenant:mine');
CREATE TABLE t.before AS SELECT * FROM runs WHERE tenant_id IS DISTINCT FROM 'mine';
CREATE TABLE t.secret AS SELECT run_id, claim_token FROM runs WHERE claim_token IS NOT NULL UNION ALL SELECT 'nothing', gen_random_uuid();
GRANT SELECT ON t.secret TO gd_apart;

-- The calls; $N is a run's name, $S a scope, $T the token of its claim.
CREATE TABLE t.attack (n serial, call text);
INSERT INTO t.attack (call) VALUES
  ($$run_fetch($S, $N)$$), ($$run_inspect($S, $N)$$), ($$run_lock($S, $N)$$), ($$run_retry_poisoned($S, $N)$$),
  ($$run_commit($S, $N, $T, 1, 'c', 'retain', 'running', 1, '')$$), ($$run_commit($S, $N, $T, 1, 'c', 'retain', 'running', 1, '', graph_id => 'x')$$), ($$run_commit($S, $N, $T, 1, 'c', 'external', 'running', 1, '')$$),
  ($$run_commit_unclaimed($S, $N, 1, 'c', 'terminal', 'cancelled', 1, '')$$), ($$run_commit_unclaimed($S, $N, 99, 'c', 'terminal', 'cancelled', 1, '', graph_hash => 'x')$$),
  ($$run_mutate($S, $N, 't.decide(gen_durable.run, jsonb)', '{}')$$),
  ($$run_refresh_claim($N, $T)$$), ($$run_release_claim($N, $T)$$), ($$run_abandon_claim($N, $T, 1, '2999-01-01', 1)$$),
  ($$run_list($S, 100, '2999-01-01', $N)$$), ($$run_list($S, 100, '2020-01-01', $N)$$), ($$run_list($S, 1, graph_id => 'g', statuses => '{running,waiting,done,failed,cancelled}')$$),
  ($$run_claim_due(100, '0', 1, 'expired', '2900-01-01')$$), ($$run_claim_due(1, '0', 1, 'ready', '2900-01-01')$$),
  ($$run_heads()$$), ($$run_visible($N)$$), ($$run_visible(substr($S, 8))$$);
-- Every function that the role may call is there, but for run_insert, whose names are one name space.
SELECT proname FROM pg_proc p WHERE pronamespace = 'gen_durable'::regnamespace AND has_function_privilege('gd_apart', oid, 'EXECUTE') AND proname NOT IN ('run_insert', 'run_wait')
  AND NOT EXISTS (SELECT FROM t.attack WHERE starts_with(call, p.proname || '('));
SELECT count(*) FROM pg_class WHERE relnamespace = 'gen_durable'::regnamespace AND relkind IN ('r', 'v', 'S') AND CASE relkind WHEN 'S' THEN has_sequence_privilege('gd_apart', oid, 'USAGE, SELECT') ELSE has_any_column_privilege('gd_apart', oid, 'SELECT') END;

-- What a call says: its rows, or its SQLSTATE, message, detail and hint, the name left out.
CREATE FUNCTION t.told(call text, name text, scope text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  answer text;
  detail text;
  hint text;
BEGIN
  call := replace(replace(replace(call, '$N', quote_literal(name)), '$S', quote_literal(scope)),
    '$T', quote_literal(coalesce((SELECT claim_token FROM t.secret WHERE run_id = name), (SELECT claim_token FROM t.secret WHERE run_id = 'nothing'))));
  BEGIN
    EXECUTE format('SELECT string_agg(x::text, %L) FROM gen_durable.%s x', E'\n', call) INTO answer;
  EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS answer = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    answer := concat_ws('|', SQLSTATE, answer, detail, hint);
  END;
  RETURN replace(coalesce(answer, '-'), name, '$N');
END $$;
GRANT EXECUTE ON FUNCTION t.decide, t.told TO gd_apart;
GRANT SELECT ON t.attack TO gd_apart;
SET ROLE gd_apart;
-- Each call on another's run against the same on none, whose name is the next in the order.
SELECT call, name, scope, told(call, name, scope), told(call, name || '!', scope)
  FROM t.attack, unnest(ARRAY['claimed other', 'claimed none', 'poisoned other', 'waiting other', 'ended other', 'ended none', 'ready other', 'ready none']) name, unnest(ARRAY['system', 'tenant:other', 'tenantless', 'tenant:mine']) scope
  WHERE told(call, name, scope) <> told(call, name || '!', scope);
-- What is told then.
SELECT call, told(call, 'claimed other', 'system') FROM t.attack WHERE call !~ 'run_list' ORDER BY n;
-- And nothing that is told has any of them in it.
SELECT call FROM t.attack, unnest(ARRAY['system', 'tenant:other', 'tenantless', 'tenant:mine']) scope WHERE told(call, 'x', scope) ~ ' (other|none)';
-- Names are one name space: an insert tells that one is taken, and no more, whoever's it is.
SELECT told($$run_insert('tenant:mine', $N, 'g', 'h', '', now())$$, n, '') FROM unnest(ARRAY['ready other', 'ready none', 'of mine']) n;
SELECT told($$run_insert('tenant:other', $N, 'g', 'h', '', now())$$, n, '') FROM unnest(ARRAY['ready other', 'free']) n;
RESET ROLE;
SELECT count(*) FROM (SELECT * FROM t.before EXCEPT SELECT * FROM runs) x;
-- A function of the role's own that tells its argument sees nothing either: it is asked after the policy is.
SET ROLE gd_apart_monitor;
CREATE FUNCTION pg_temp.tell(run_id text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS $$ BEGIN RAISE NOTICE 'told %', run_id; RETURN true; END $$;
SELECT run_id FROM runs WHERE pg_temp.tell(run_id);
SELECT count(*) FROM runs WHERE 1 / (CASE tenant_id WHEN 'mine' THEN 1 ELSE 0 END) = 1;
SELECT run_id FROM run_tenants JOIN runs ON pg_temp.tell(run_id) AND tenant = tenant_id;
SELECT oldest_ready_age, due_next, oldest_claim_age, num_nonnulls(inserted, wanted, ready_candidates, since) FROM run_stats;
SELECT count(*) FROM pg_stats WHERE schemaname = 'gen_durable' AND tablename IN ('runs', 'run_tenants');
-- No path around it by settings, cursors, a copy or a lock.
SELECT err('SET row_security = off; SELECT run_id FROM runs'), err('LOCK TABLE runs'), err($$COPY runs (run_id, claim_token) TO STDOUT$$), err('SELECT last_value FROM runs_id_seq');
COPY (SELECT run_id FROM runs) TO STDOUT;
SELECT err($$SELECT run_id FROM runs FOR UPDATE$$), err($$UPDATE runs SET step = 1$$), err($$DELETE FROM run_tenants$$), err($$ALTER TABLE runs DISABLE ROW LEVEL SECURITY$$);
-- Whatever table has runs of all tenants has a policy.
SELECT relname FROM pg_class WHERE relnamespace = 'gen_durable'::regnamespace AND relkind = 'r' AND relname ~ '^run' AND NOT relrowsecurity;
RESET ROLE;
SELECT count(*) FROM (SELECT * FROM t.before EXCEPT SELECT * FROM runs) x;
DROP TABLE t.before, t.secret, t.attack;
DROP OWNED BY gd_apart, gd_apart_monitor;
DROP ROLE gd_apart, gd_apart_monitor;
TRUNCATE run_tenants;
