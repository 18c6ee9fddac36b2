-- Roles that are confined to tenants: through every function, every view and the table, foreign runs are not there.
-- DK-009, DK-015..021, DK-037
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
SET timezone = 'UTC';
CALL fresh_runs();
CREATE ROLE gd_tenant_one;
CREATE ROLE gd_tenant_two;
CREATE ROLE gd_tenant_member;
CREATE ROLE gd_tenant_monitor;
CREATE ROLE gd_tenant_worker;
CREATE ROLE gd_tenant_admin;
GRANT USAGE ON SCHEMA t TO PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA t TO PUBLIC;
SELECT grant_tenant('gd_tenant_one', 'one'), grant_tenant('gd_tenant_two', 'two'), grant_tenant('gd_tenant_two', 'two'), grant_tenant('gd_tenant_two', 'zwei');
GRANT gd_tenant_one TO gd_tenant_member;
SELECT grant_usage('gd_tenant_monitor', 'monitor'), grant_usage('gd_tenant_worker', 'worker'), grant_usage('gd_tenant_admin', 'admin');
SELECT grant_tenant('gd_tenant_monitor', 'one'), grant_tenant('gd_tenant_admin', 'one');
TABLE run_tenants;
SELECT err($$SELECT grant_tenant(NULL, 'x')$$), err($$SELECT grant_tenant('gd_tenant_one', NULL)$$), err($$SELECT grant_tenant('gd_tenant_one', '')$$), err(format($$SELECT grant_tenant('gd_tenant_one', %L)$$, repeat('x', 256)), '256'),
  err($$SELECT grant_tenant(1::oid::regrole, 'x')$$);

SELECT run('one1', scope => 'tenant:one'), run('one2', scope => 'tenant:one'), run('two1', scope => 'tenant:two'), run('two2', scope => 'tenant:zwei'), run('none1');
SELECT run('one3', '2020-06-01', 'tenant:one'), run('two3', '2020-06-01', 'tenant:two');
UPDATE runs SET due = false WHERE run_id IN ('one3', 'two3');

-- What a role gets to see of each run, by each function that reads or writes one.
CREATE FUNCTION t.sees(scope text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  name text;
BEGIN
  RETURN NEXT scope || ' lists ' || coalesce((SELECT string_agg(run_id, ' ') FROM gen_durable.run_list(scope)), 'nothing');
  FOREACH name IN ARRAY ARRAY['one1', 'two1', 'none1'] LOOP
    RETURN NEXT format('%s: %s %s %s %s %s %s', name, t.err(format('SELECT gen_durable.run_fetch(%L, %L)', scope, name)), t.err(format('SELECT gen_durable.run_inspect(%L, %L)', scope, name)),
      t.err(format('SELECT gen_durable.run_lock(%L, %L)', scope, name)),
      t.err(format('SELECT gen_durable.run_commit(%L, %L, gen_random_uuid(), 1, ''c'', ''external'', ''waiting'', 1, '''')', scope, name)),
      t.err(format('SELECT gen_durable.run_commit_unclaimed(%L, %L, 2, ''c'', ''external'', ''waiting'', 1, '''')', scope, name)),
      t.err(format('SELECT gen_durable.run_retry_poisoned(%L, %L)', scope, name)));
  END LOOP;
END $$;
GRANT EXECUTE ON FUNCTION t.sees TO PUBLIC;
SET ROLE gd_tenant_one;
SELECT sees(s) FROM unnest(ARRAY['system', 'tenant:one', 'tenant:two', 'tenantless']) s;
SELECT run_visible('one'), run_visible('two'), run_visible(NULL);
-- It creates for its tenant, and takes no other's name, of which it learns no more.
SELECT status FROM run_insert('tenant:one', 'one4', 'g', 'h', '', '2030-01-01');
SELECT err($$SELECT run_insert('tenant:two', 'x', 'g', 'h', '', now())$$, 'tenant:two'), err($$SELECT run_insert('tenantless', 'x', 'g', 'h', '', now())$$), err($$SELECT run_insert('tenant:one', 'two1', 'g', 'h', '', now())$$);
-- It reads no table, grants nothing, and no setting opens anything.
SELECT err('SELECT count(run_id) FROM runs'), err('SELECT count(*) FROM run_tenants'), err($$SELECT grant_tenant('gd_tenant_one', 'two')$$), err($$SET row_security = off; SELECT run_fetch('system', 'two1')$$);
-- It claims its own only, ready, sleeping and expired.
SELECT due(10), due(10, at => '2021-01-01'), due(10, at => '2020-01-01');
RESET ROLE;
SELECT run_id, claim_attempts FROM runs WHERE claim_token IS NOT NULL ORDER BY run_id;
SELECT claim_of('one1') AS claim1 \gset
-- A token does not open another's run either.
SET ROLE gd_tenant_two;
SELECT sees(s) FROM unnest(ARRAY['system', 'tenant:zwei']) s;
SELECT err(format($$SELECT run_refresh_claim('one1', %L)$$, :'claim1')), run_release_claim('one1', :'claim1'), run_abandon_claim('one1', :'claim1', 1, '2999-01-01', 5),
  err(format($$SELECT run_commit('system', 'one1', %L, 1, 'c', 'external', 'waiting', 1, '')$$, :'claim1'));
SELECT due(1), due(10, at => '2022-01-01');
-- A member of a confined role is confined too, as is one with a level of its own; an admin is not.
SET ROLE gd_tenant_member;
SELECT sees('system');
SET ROLE gd_tenant_monitor;
SELECT string_agg(run_id, ' ' ORDER BY run_id) FROM runs;
SELECT * FROM run_tenants;
SELECT err('SELECT claim_token FROM runs'), err('SELECT * FROM runs');
SET ROLE gd_tenant_admin;
SELECT (SELECT string_agg(run_id, ' ' ORDER BY run_id) FROM runs) = (SELECT string_agg(run_id, ' ' ORDER BY run_id) FROM run_list('system')), count(*) FROM run_list('system');
SET ROLE gd_tenant_worker;
SELECT count(*) FROM run_list('system');
RESET ROLE;
-- Grants and memberships count from their commit on, in a session that knows another answer.
SELECT grant_tenant('gd_tenant_worker', 'zwei');
SET ROLE gd_tenant_worker;
SELECT string_agg(run_id, ' ') FROM run_list('system');
RESET ROLE;
DELETE FROM run_tenants WHERE role = 'gd_tenant_worker';
GRANT gd_tenant_two TO gd_tenant_worker;
SET ROLE gd_tenant_worker;
SELECT string_agg(run_id, ' ') FROM run_list('system');
RESET ROLE;
REVOKE gd_tenant_two FROM gd_tenant_worker;
SET ROLE gd_tenant_worker;
SELECT count(*) FROM run_list('system');
RESET ROLE;
-- A role that is renamed sees nothing until it is granted its tenant anew; one that is dropped breaks nothing.
ALTER ROLE gd_tenant_two RENAME TO gd_tenant_second;
SET ROLE gd_tenant_second;
SELECT count(*) FROM run_list('system');
RESET ROLE;
SELECT grant_tenant('gd_tenant_second', 'zwei');
SET ROLE gd_tenant_second;
SELECT string_agg(run_id, ' ') FROM run_list('system');
RESET ROLE;
SELECT run_all_tenants();
DROP OWNED BY gd_tenant_monitor;
DROP ROLE gd_tenant_monitor;
SELECT count(*) FROM run_list('system');
DROP OWNED BY gd_tenant_one, gd_tenant_second, gd_tenant_member, gd_tenant_worker, gd_tenant_admin;
DROP ROLE gd_tenant_one, gd_tenant_second, gd_tenant_member, gd_tenant_worker, gd_tenant_admin;
TRUNCATE run_tenants;
