-- The run store: a claim-fenced store for opaque documents of graph runs.
-- A scope is 'system', 'tenantless' or 'tenant:<id>'.

CREATE FUNCTION gen_durable.run_insert(
  scope text, run_id text, graph_id text, graph_hash text, state bytea, wake_at timestamptz, checkpoint_seq bigint DEFAULT 1,
  checkpoint_type text DEFAULT 'run_initialized', step int DEFAULT 0, started_at timestamptz DEFAULT NULL,
  updated_at timestamptz DEFAULT NULL)
RETURNS gen_durable.run LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_run_insert';
COMMENT ON FUNCTION gen_durable.run_insert IS
  'Creates a run, running and due at wake_at, owned by a tenant or by none. A run_id that is taken raises 23505.';

CREATE FUNCTION gen_durable.run_fetch(scope text, run_id text)
RETURNS gen_durable.run LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_run_fetch';
COMMENT ON FUNCTION gen_durable.run_fetch IS 'The run as it was last committed; GD002 when the scope has none of this name.';

CREATE FUNCTION gen_durable.run_inspect(scope text, run_id text)
RETURNS gen_durable.run_info LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_run_inspect';
COMMENT ON FUNCTION gen_durable.run_inspect IS 'The run with its schedule, its claim but for the token, its counters and its poison.';

CREATE FUNCTION gen_durable.run_list(
  scope text, max_rows int DEFAULT 100, before_started_at timestamptz DEFAULT NULL, before_run_id text DEFAULT NULL,
  graph_id text DEFAULT NULL, graph_hash text DEFAULT NULL, statuses text[] DEFAULT NULL,
  OUT run_id text, OUT tenant text, OUT graph_id text, OUT graph_hash text, OUT status text, OUT step int,
  OUT checkpoint_seq bigint, OUT started_at timestamptz, OUT updated_at timestamptz, OUT finished_at timestamptz,
  OUT has_more boolean)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'gd_run_list';
COMMENT ON FUNCTION gen_durable.run_list IS
  'A page of runs without their documents, the youngest first; the next page is before the last row''s started_at and run_id.';

CREATE FUNCTION gen_durable.run_commit(
  scope text, run_id text, claim_token uuid, expected_checkpoint_seq bigint, checkpoint_type text, schedule text, status text,
  step int, state bytea, wake_at timestamptz DEFAULT NULL, updated_at timestamptz DEFAULT NULL,
  finished_at timestamptz DEFAULT NULL, graph_id text DEFAULT NULL, graph_hash text DEFAULT NULL,
  started_at timestamptz DEFAULT NULL)
RETURNS gen_durable.run LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_run_commit';
COMMENT ON FUNCTION gen_durable.run_commit IS
  'Commits the next checkpoint of a claimed run with the caller''s transaction; schedule is retain, immediate, at, external or terminal. A lost claim or another sequence raises GD006.';

CREATE FUNCTION gen_durable.run_commit_unclaimed(
  scope text, run_id text, expected_checkpoint_seq bigint, checkpoint_type text, schedule text, status text,
  step int, state bytea, wake_at timestamptz DEFAULT NULL, updated_at timestamptz DEFAULT NULL,
  finished_at timestamptz DEFAULT NULL, graph_id text DEFAULT NULL, graph_hash text DEFAULT NULL,
  started_at timestamptz DEFAULT NULL)
RETURNS gen_durable.run LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_run_commit_unclaimed';
COMMENT ON FUNCTION gen_durable.run_commit_unclaimed IS
  'Commits the next checkpoint of a run that the caller has not claimed: it revokes a claim and heals poison. Another sequence raises GD006.';

CREATE FUNCTION gen_durable.run_lock(scope text, run_id text)
RETURNS gen_durable.run LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_run_lock_sql';
COMMENT ON FUNCTION gen_durable.run_lock IS
  'Locks a run in the caller''s transaction and returns it as it is then, for a caller that decides itself and commits with run_commit_unclaimed.';

CREATE FUNCTION gen_durable.run_claim_due(
  max_rows int, orphan_ttl interval, max_claim_attempts int, preference text DEFAULT NULL, now timestamptz DEFAULT NULL,
  OUT kind text, OUT run_id text, OUT scope text, OUT graph_id text, OUT graph_hash text, OUT checkpoint_seq bigint,
  OUT claim_token uuid, OUT claimed_at timestamptz, OUT claim_attempt int, OUT orphan_ttl interval,
  OUT poisoned_at timestamptz, OUT poison_reason text)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'gd_run_claim_due';
COMMENT ON FUNCTION gen_durable.run_claim_due IS
  'Claims up to max_rows runs that are ready, breadth-first over tenants, or whose claim is older than orphan_ttl; one that was claimed max_claim_attempts times without a commit is poisoned instead. Never waits for a lock.';

CREATE FUNCTION gen_durable.run_refresh_claim(run_id text, claim_token uuid, now timestamptz DEFAULT NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_run_refresh_claim';
COMMENT ON FUNCTION gen_durable.run_refresh_claim IS 'Makes a claim young again; a lost one raises GD007.';

CREATE FUNCTION gen_durable.run_release_claim(run_id text, claim_token uuid, now timestamptz DEFAULT NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_run_release_claim';
COMMENT ON FUNCTION gen_durable.run_release_claim IS
  'Hands a claimed run back, ready at now; the attempt stays counted. A claim that is not current is no error.';

CREATE FUNCTION gen_durable.run_abandon_claim(
  run_id text, claim_token uuid, expected_checkpoint_seq bigint, retry_at timestamptz, max_claim_abandons int,
  non_poisoning boolean DEFAULT false, backoff_base interval DEFAULT NULL, backoff_cap interval DEFAULT NULL,
  now timestamptz DEFAULT NULL)
RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_run_abandon_claim';
COMMENT ON FUNCTION gen_durable.run_abandon_claim IS
  'Hands back a run that could not be begun, ready at retry_at, and does not count the attempt: rescheduled, or poisoned after max_claim_abandons, or stale.';

CREATE FUNCTION gen_durable.run_retry_poisoned(scope text, run_id text, now timestamptz DEFAULT NULL)
RETURNS gen_durable.run LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_run_retry_poisoned';
COMMENT ON FUNCTION gen_durable.run_retry_poisoned IS 'Makes a poisoned run ready at now, its counters zero; a healthy one stays as it is.';

CREATE FUNCTION gen_durable.run_mutate(
  scope text, run_id text, decide regprocedure, arg jsonb DEFAULT NULL, OUT result text, OUT value jsonb)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_run_mutate';
COMMENT ON FUNCTION gen_durable.run_mutate IS
  'Locks a run, has decide(run, arg) say what to do with it, as the caller, and commits that: result is committed or unchanged. Its error is raised as P0001.';

CREATE PROCEDURE gen_durable.run_wait(timeout interval DEFAULT '30s')
LANGUAGE c AS 'MODULE_PATHNAME', 'gd_run_wait';
COMMENT ON PROCEDURE gen_durable.run_wait IS
  'Returns when a run may be ready, or at the timeout. Holds no snapshot while it waits; not inside a transaction block.';
