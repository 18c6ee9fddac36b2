-- The view run_stats: what is due and the oldest claim, of the runs that one may see; the counters where they are kept.
-- DK-220, DK-221, DK-019
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
SET timezone = 'UTC';
CALL fresh_runs();
CREATE FUNCTION t.heads() RETURNS text LANGUAGE sql AS $$
  SELECT format('due %s, next %s, claim %s', coalesce(oldest_due::text, '-'), coalesce(due_next::text, '-'), coalesce(oldest_claim::text, '-')) FROM gen_durable.run_heads()
$$;
SELECT heads();
SELECT oldest_ready_age, due_next, oldest_claim_age FROM run_stats;
-- Ready runs of several tenants, sleeping ones, one whose time came since it was written, and one written as due that is not.
SELECT run('a', '2020-03-01'), run('b', '2020-02-01', 'tenant:x'), run('c', '2020-04-01', 'tenant:y'), run('d', '2999-02-01'), run('e', '2999-01-01', 'tenant:y');
SELECT heads();
UPDATE runs SET wake_at = '2020-01-15' WHERE run_id = 'd';
SELECT heads();
UPDATE runs SET wake_at = '2998-01-01' WHERE run_id = 'a';
SELECT heads();
-- What is claimed is not due; the oldest claim counts, whatever its TTL.
SELECT due(5, '1 year', at => '2020-01-20'), due(5, '1 year', at => '2020-02-10'), heads();
SELECT oldest_ready_age > '1 year', due_next, oldest_claim_age > '1 year' FROM run_stats;
-- A monitor sees all of it; one who is confined sees the heads of its tenants' runs, and no counters, which are of all.
CREATE ROLE gd_stats_all;
CREATE ROLE gd_stats_y;
SELECT grant_usage('gd_stats_all', 'monitor'), grant_usage('gd_stats_y', 'monitor'), grant_tenant('gd_stats_y', 'y');
GRANT EXECUTE ON FUNCTION t.heads() TO gd_stats_all, gd_stats_y;
SELECT run('y1', '2020-06-01', 'tenant:y'), run('y2', '2999-06-01', 'tenant:y');
SET ROLE gd_stats_all;
SELECT heads(), (inserted IS NULL) = (since IS NULL) FROM run_stats;
SET ROLE gd_stats_y;
SELECT heads(), num_nonnulls(inserted, claim_calls, claim_time, wanted, poisoned_attempts, commit_immediate, since) FROM run_stats;
RESET ROLE;
DROP OWNED BY gd_stats_all, gd_stats_y;
DROP ROLE gd_stats_all, gd_stats_y;
-- A role with a tenant and no level has neither.
CREATE ROLE gd_stats_z;
SELECT grant_tenant('gd_stats_z', 'z');
SET ROLE gd_stats_z;
SELECT err('SELECT * FROM run_stats');
RESET ROLE;
SELECT has_function_privilege('gd_stats_z', 'run_counters()', 'EXECUTE');
DROP OWNED BY gd_stats_z;
DROP ROLE gd_stats_z;
TRUNCATE run_tenants;
