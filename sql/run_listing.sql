-- The listing of the runs: what lists are ordered and filtered by is in step with the runs, whoever writes them. DK-041, DK-042
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
SET timezone = 'UTC';

-- What the lists show of each status, and whether the listing is that of the runs, row by row.
CREATE FUNCTION t.listed() RETURNS text LANGUAGE sql AS $$
  SELECT concat_ws(' ',
    (SELECT string_agg(status || ' ' || names, ', ' ORDER BY status) FROM (
      SELECT status, string_agg(run_id, ' ' ORDER BY run_id) FROM run_list('system') GROUP BY status) AS s (status, names)),
    (SELECT '- ' || count(*) || ' out of step' FROM (
      (SELECT run_id, scope_key, status, started_at, graph_id, graph_hash FROM runs
       EXCEPT ALL SELECT run_id, scope_key, status, started_at, graph_id, graph_hash FROM run_listings)
      UNION ALL
      (SELECT run_id, scope_key, status, started_at, graph_id, graph_hash FROM run_listings
       EXCEPT ALL SELECT run_id, scope_key, status, started_at, graph_id, graph_hash FROM runs)) AS d HAVING count(*) > 0))
$$;

-- The functions: an insert, commits that leave the status and that change it, a mutation, a claim, an abandon, gc.
CALL fresh_runs();
SELECT run('a'), run('b', scope => 'tenant:t1'), run('c', scope => 'tenant:t2'), run('d');
SELECT listed();
SELECT due(9), listed();
SELECT (run_commit_unclaimed('system', 'a', 1, 'c', 'immediate', 'running', 1, '')).status, (run_commit_unclaimed('system', 'b', 1, 'c', 'external', 'waiting', 1, '')).status;
SELECT listed();
SELECT (run_commit_unclaimed('system', 'b', 2, 'c', 'immediate', 'running', 1, '')).status, (run_commit_unclaimed('system', 'b', 3, 'c', 'external', 'waiting', 1, '')).status,
  (run_commit_unclaimed('system', 'c', 1, 'c', 'terminal', 'done', 1, '', finished_at => '2020-01-01')).status;
SELECT listed();
SELECT run_id, has_more FROM run_list('tenant:t1', statuses => '{waiting,done}');
SELECT gc('1 h', 10), listed();
-- What rolls back is not listed; an insert and the end in one transaction is once.
BEGIN;
SELECT run('x'), (run_commit_unclaimed('system', 'd', 1, 'c', 'terminal', 'failed', 1, '')).status, listed();
ROLLBACK;
SELECT listed();
BEGIN;
SELECT run('x');
SELECT (run_commit_unclaimed('system', 'x', 1, 'c', 'external', 'waiting', 1, '')).status, (run_commit_unclaimed('system', 'x', 2, 'c', 'terminal', 'cancelled', 1, '')).status;
SAVEPOINT s;
SELECT run('y');
ROLLBACK TO s;
COMMIT;
SELECT listed();

-- SQL: inserts, changes of the status and of other columns, deletions, and all at once.
INSERT INTO runs (run_id, tenant_id, graph_id, graph_hash, state, started_at, updated_at, wake_at)
  SELECT 's' || n, nullif('t' || n % 2, 't0'), 'g', 'h', 'x', '2020-01-01', '2020-01-01', now() FROM generate_series(1, 3) n;
SELECT listed();
UPDATE runs SET status = 'done', wake_at = NULL, finished_at = now() WHERE run_id IN ('s1', 's2');
UPDATE runs SET step = 7, status = status;
SELECT listed();
DELETE FROM runs WHERE run_id IN ('s1', 's3', 'x');
SELECT listed();
-- Also where somebody's foreign key has gc delete by SQL.
CREATE TABLE t.run_notes (run_id text REFERENCES gen_durable.runs ON DELETE CASCADE);
INSERT INTO t.run_notes VALUES ('s2'), ('a');
SELECT pg_sleep(0.01), gc('0', 10), listed(), (SELECT string_agg(run_id, ' ') FROM t.run_notes);
DROP TABLE t.run_notes;
-- The direct path does without the trigger, so gc needs it for nothing.
ALTER TABLE runs DISABLE TRIGGER run_listed;
SELECT (run_commit_unclaimed('system', 'a', 2, 'c', 'terminal', 'done', 1, '', finished_at => '2020-01-01')).status, listed();
SELECT gc('1 h', 10), listed();
-- A row that the listing has lost is not shown, and the next change of its status brings it back; nor is one of no run.
INSERT INTO runs (run_id, graph_id, graph_hash, state, started_at, updated_at, wake_at) VALUES ('lost', 'g', 'h', 'x', '2020-01-01', '2020-01-01', now());
DELETE FROM runs WHERE run_id = 'd';
SELECT listed();
SELECT run_id FROM run_list('system');
ALTER TABLE runs ENABLE TRIGGER run_listed;
SELECT (run_commit_unclaimed('system', 'lost', 1, 'c', 'terminal', 'done', 1, '', finished_at => '2020-01-01')).status, listed();
SELECT gc('1 h', 10);
DELETE FROM runs;
SELECT listed();
TRUNCATE runs;
SELECT count(*) FROM run_listings;
-- The trigger's function is for that trigger.
SELECT err('SELECT run_listed()');
CREATE TABLE t.other (run_id text);
CREATE TRIGGER listed AFTER INSERT ON t.other FOR EACH ROW EXECUTE FUNCTION run_listed();
SELECT err('INSERT INTO t.other VALUES (1)');
DROP TABLE t.other;
