-- The functions as the contract has them: names, arguments, results, properties (D-1, D-8, D-16, D-17; GD-030..GD-033).
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\set ON_ERROR_STOP true
SET client_min_messages = warning;
BEGIN;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS gen_durable;
SELECT no_plan();

CREATE TEMP TABLE contract (name text, arguments text, result text);
INSERT INTO contract VALUES
  ('insert', 'fsm text, state jsonb DEFAULT ''{}''::jsonb, step text DEFAULT NULL::text, fsm_version integer DEFAULT NULL::integer, queue text DEFAULT NULL::text, priority integer DEFAULT 0, concurrency_key text DEFAULT NULL::text, correlation_key text DEFAULT NULL::text, correlation_scope gen_durable.durable_status[] DEFAULT ''{runnable,executing,awaiting_signal,awaiting_children}''::gen_durable.durable_status[], rate_limit text DEFAULT NULL::text, weight double precision DEFAULT 1, eligible_at timestamp with time zone DEFAULT NULL::timestamp with time zone, schedule_in interval DEFAULT NULL::interval, OUT id bigint, OUT created boolean', 'record'),
  ('insert_all', 'fsm text, entries jsonb, OUT ord integer, OUT id bigint, OUT created boolean', 'SETOF record'),
  ('signal', 'id bigint, name text, payload jsonb DEFAULT ''{}''::jsonb, dedup_key text DEFAULT NULL::text', 'text'),
  ('signal_key', 'key text, name text, payload jsonb DEFAULT ''{}''::jsonb, dedup_key text DEFAULT NULL::text', 'text'),
  ('find', 'key text', 'bigint'),
  ('await', 'id bigint, timeout interval DEFAULT ''00:00:05''::interval, until text DEFAULT ''settled''::text, OUT outcome text, OUT status gen_durable.durable_status, OUT step text, OUT attempt integer, OUT result jsonb, OUT error text', 'record'),
  ('pick', 'queue text, worker text, batch integer DEFAULT 1, lease_ttl interval DEFAULT NULL::interval', 'SETOF gen_durable.job'),
  ('take', 'queue text, worker text, batch integer DEFAULT 1, lease_ttl interval DEFAULT NULL::interval', 'SETOF gen_durable.job'),
  ('complete', 'token uuid, outcome jsonb', 'void'),
  ('complete_many', 'outcomes jsonb, OUT ord integer, OUT id bigint, OUT result text', 'SETOF record'),
  ('complete_and_take', 'outcomes jsonb, queue text, worker text, batch integer DEFAULT 1, lease_ttl interval DEFAULT NULL::interval', 'SETOF gen_durable.job'),
  ('commit_and_take', 'IN outcomes jsonb, IN queue text, IN worker text, IN batch integer DEFAULT 1, IN lease_ttl interval DEFAULT NULL::interval, INOUT results jsonb DEFAULT NULL::jsonb, INOUT jobs jsonb DEFAULT NULL::jsonb', NULL),
  ('wait', 'IN queues text[], IN timeout interval DEFAULT ''00:00:30''::interval', NULL),
  ('channel', 'queue text', 'text'),
  ('heartbeat', 'tokens uuid[], lease_ttl interval DEFAULT NULL::interval, OUT token uuid, OUT held boolean, OUT cancel_requested boolean', 'SETOF record'),
  ('release', 'tokens uuid[]', 'bigint'),
  ('children', 'id bigint, after bigint DEFAULT 0, max_rows integer DEFAULT 1000', 'SETOF gen_durable.child'),
  ('inbox', 'id bigint, after bigint DEFAULT 0, max_rows integer DEFAULT 1000', 'SETOF gen_durable.inbox_signal'),
  ('next_step', 'step text, state jsonb DEFAULT NULL::jsonb, rate_limit text DEFAULT NULL::text, weight double precision DEFAULT 1, concurrency_key text DEFAULT NULL::text, release_key boolean DEFAULT false, delay interval DEFAULT NULL::interval, inline_execution boolean DEFAULT NULL::boolean', 'jsonb'),
  ('retry', 'delay interval DEFAULT ''00:00:00''::interval, state jsonb DEFAULT NULL::jsonb', 'jsonb'),
  ('await_signal', 'names text[], step text, state jsonb DEFAULT NULL::jsonb, timeout interval DEFAULT NULL::interval', 'jsonb'),
  ('schedule_children', 'step text, children jsonb, state jsonb DEFAULT NULL::jsonb', 'jsonb'),
  ('done', 'result jsonb DEFAULT ''{}''::jsonb', 'jsonb'),
  ('stop', 'reason text', 'jsonb'),
  ('fail', 'error text', 'jsonb'),
  ('register_fsm', 'name text, handler regprocedure DEFAULT NULL::regprocedure, version integer DEFAULT 1, step text DEFAULT NULL::text, queue text DEFAULT ''default''::text, initial text DEFAULT ''start''::text, max_attempts integer DEFAULT 20, backoff_base interval DEFAULT ''00:00:01''::interval, backoff_cap interval DEFAULT ''00:05:00''::interval, max_crashes integer DEFAULT 10, on_error regprocedure DEFAULT NULL::regprocedure, statement_timeout interval DEFAULT NULL::interval, inline_execution boolean DEFAULT false', 'void'),
  ('drain', 'queue text DEFAULT NULL::text, with_scheduled boolean DEFAULT true, max_steps integer DEFAULT 1000, OUT steps bigint, OUT next bigint, OUT retry bigint, OUT await bigint, OUT children bigint, OUT done bigint, OUT stop bigint', 'record'),
  ('reap', 'max_rows integer DEFAULT 1000', 'bigint'),
  ('fire_timeouts', 'max_rows integer DEFAULT 1000', 'bigint'),
  ('reclaim', 'queue text, prefix text, margin interval', 'bigint'),
  ('gc', 'retention interval DEFAULT NULL::interval, batch integer DEFAULT NULL::integer', 'bigint'),
  ('tick', 'OUT reaped bigint, OUT timeouts bigint, OUT promoted bigint, OUT collected bigint', 'record'),
  ('cancel', 'id bigint, reason text DEFAULT NULL::text, cascade boolean DEFAULT false, force boolean DEFAULT false', 'text'),
  ('revive', 'id bigint, step text DEFAULT NULL::text', 'void'),
  ('pause', 'queue text, until timestamp with time zone DEFAULT NULL::timestamp with time zone, reason text DEFAULT NULL::text', 'void'),
  ('resume', 'queue text', 'void'),
  ('set_queue', 'name text, executors integer DEFAULT NULL::integer, concurrency integer DEFAULT NULL::integer, prefetch integer DEFAULT NULL::integer, min_demand integer DEFAULT NULL::integer, lease_ttl interval DEFAULT NULL::interval', 'void'),
  ('dispatched', 'OUT id bigint, OUT queue text, OUT worker text, OUT pid integer, OUT since timestamp with time zone', 'SETOF record'),
  ('set_rate_limit', 'name text, allowed integer, period interval, burst double precision DEFAULT NULL::double precision, shards integer DEFAULT 1', 'void'),
  ('set_concurrency_limit', 'name text, capacity integer, shards integer DEFAULT 1', 'void'),
  ('drop_limit', 'kind text, name text', 'void'),
  ('sync_config', 'configs jsonb', 'void'),
  ('admit', 'entries jsonb', 'TABLE(id bigint, admitted boolean, slot jsonb)'),
  ('credit', 'slots jsonb', 'bigint'),
  ('renew', 'slots jsonb', 'bigint'),
  ('reconcile', 'OUT buckets bigint, OUT gates bigint', 'record'),
  ('why', 'id bigint, OUT status gen_durable.durable_status, OUT waits_for text, OUT since timestamp with time zone, OUT until timestamp with time zone, OUT held_by text, OUT ahead bigint', 'record'),
  ('recount', '', 'bigint'),
  ('processes', 'OUT kind text, OUT pid integer, OUT since timestamp with time zone, OUT state text', 'SETOF record'),
  ('waiters', 'OUT pid integer, OUT queues text[], OUT instance bigint, OUT since timestamp with time zone', 'SETOF record'),
  ('queue_heads', 'OUT queue text, OUT oldest_due timestamp with time zone, OUT due_next timestamp with time zone', 'SETOF record'),
  ('run_heads', 'OUT oldest_due timestamp with time zone, OUT due_next timestamp with time zone, OUT oldest_claim timestamp with time zone', 'record'),
  ('run_insert', 'scope text, run_id text, graph_id text, graph_hash text, state bytea, wake_at timestamp with time zone, checkpoint_seq bigint DEFAULT 1, checkpoint_type text DEFAULT ''run_initialized''::text, step integer DEFAULT 0, started_at timestamp with time zone DEFAULT NULL::timestamp with time zone, updated_at timestamp with time zone DEFAULT NULL::timestamp with time zone', 'gen_durable.run'),
  ('run_fetch', 'scope text, run_id text', 'gen_durable.run'),
  ('run_inspect', 'scope text, run_id text', 'gen_durable.run_info'),
  ('run_list', 'scope text, max_rows integer DEFAULT 100, before_started_at timestamp with time zone DEFAULT NULL::timestamp with time zone, before_run_id text DEFAULT NULL::text, graph_id text DEFAULT NULL::text, graph_hash text DEFAULT NULL::text, statuses text[] DEFAULT NULL::text[], OUT run_id text, OUT tenant text, OUT graph_id text, OUT graph_hash text, OUT status text, OUT step integer, OUT checkpoint_seq bigint, OUT started_at timestamp with time zone, OUT updated_at timestamp with time zone, OUT finished_at timestamp with time zone, OUT has_more boolean', 'SETOF record'),
  ('run_claim_due', 'max_rows integer, orphan_ttl interval, max_claim_attempts integer, preference text DEFAULT NULL::text, now timestamp with time zone DEFAULT NULL::timestamp with time zone, OUT kind text, OUT run_id text, OUT scope text, OUT graph_id text, OUT graph_hash text, OUT checkpoint_seq bigint, OUT claim_token uuid, OUT claimed_at timestamp with time zone, OUT claim_attempt integer, OUT orphan_ttl interval, OUT poisoned_at timestamp with time zone, OUT poison_reason text', 'SETOF record'),
  ('run_refresh_claim', 'run_id text, claim_token uuid, now timestamp with time zone DEFAULT NULL::timestamp with time zone', 'void'),
  ('run_release_claim', 'run_id text, claim_token uuid, now timestamp with time zone DEFAULT NULL::timestamp with time zone', 'void'),
  ('run_abandon_claim', 'run_id text, claim_token uuid, expected_checkpoint_seq bigint, retry_at timestamp with time zone, max_claim_abandons integer, non_poisoning boolean DEFAULT false, backoff_base interval DEFAULT NULL::interval, backoff_cap interval DEFAULT NULL::interval, now timestamp with time zone DEFAULT NULL::timestamp with time zone', 'text'),
  ('run_commit', 'scope text, run_id text, claim_token uuid, expected_checkpoint_seq bigint, checkpoint_type text, schedule text, status text, step integer, state bytea, wake_at timestamp with time zone DEFAULT NULL::timestamp with time zone, updated_at timestamp with time zone DEFAULT NULL::timestamp with time zone, finished_at timestamp with time zone DEFAULT NULL::timestamp with time zone, graph_id text DEFAULT NULL::text, graph_hash text DEFAULT NULL::text, started_at timestamp with time zone DEFAULT NULL::timestamp with time zone', 'gen_durable.run'),
  ('run_commit_unclaimed', 'scope text, run_id text, expected_checkpoint_seq bigint, checkpoint_type text, schedule text, status text, step integer, state bytea, wake_at timestamp with time zone DEFAULT NULL::timestamp with time zone, updated_at timestamp with time zone DEFAULT NULL::timestamp with time zone, finished_at timestamp with time zone DEFAULT NULL::timestamp with time zone, graph_id text DEFAULT NULL::text, graph_hash text DEFAULT NULL::text, started_at timestamp with time zone DEFAULT NULL::timestamp with time zone', 'gen_durable.run'),
  ('run_lock', 'scope text, run_id text', 'gen_durable.run'),
  ('run_retry_poisoned', 'scope text, run_id text, now timestamp with time zone DEFAULT NULL::timestamp with time zone', 'gen_durable.run'),
  ('run_mutate', 'scope text, run_id text, decide regprocedure, arg jsonb DEFAULT NULL::jsonb, OUT result text, OUT value jsonb', 'record'),
  ('run_wait', 'IN timeout interval DEFAULT ''00:00:30''::interval', NULL),
  ('grant_tenant', 'role regrole, tenant text', 'void'),
  ('grant_usage', 'role regrole, level text', 'void');
SELECT results_eq(
  $$SELECT c.name, p.arguments, p.result FROM contract c
      LEFT JOIN LATERAL (SELECT pg_get_function_arguments(f.oid) AS arguments, pg_get_function_result(f.oid) AS result
        FROM pg_proc f WHERE f.proname = c.name AND f.pronamespace = 'gen_durable'::regnamespace LIMIT 1) p ON true ORDER BY c.name$$,
  $$SELECT name, arguments, result FROM contract ORDER BY name$$, 'the functions of the contract');
-- Named notation works for every argument: each has a name.
SELECT is_empty($$SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'gen_durable'::regnamespace
    AND p.pronargs > 0 AND (p.proargnames IS NULL OR '' = ANY (p.proargnames))$$, 'every argument has a name');
-- An untyped parameter must not be able to choose the wrong one of two.
SELECT is_empty($$SELECT proname FROM pg_proc WHERE pronamespace = 'gen_durable'::regnamespace GROUP BY 1 HAVING count(*) > 1$$,
  'no two functions share a name');
SELECT is_empty($$SELECT proname FROM pg_proc WHERE pronamespace = 'gen_durable'::regnamespace AND prokind = 'f'
    AND (provolatile = 'i') <> (proname IN ('next_step', 'retry', 'await_signal', 'schedule_children', 'done', 'stop', 'fail', 'channel'))$$,
  'the constructors and channel, and only they, are immutable');
SELECT is_empty($$SELECT proname FROM pg_proc WHERE pronamespace = 'gen_durable'::regnamespace AND prokind = 'f'
    AND (proparallel = 's') <> (provolatile = 'i')$$, 'they, and only they, are safe in parallel workers');

SELECT finish();
ROLLBACK;
