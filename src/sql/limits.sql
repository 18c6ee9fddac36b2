-- Limits: rate limits and concurrency gates, and the limiter for programs that want only that.

CREATE FUNCTION gen_durable.set_rate_limit(
  name text, allowed int, period interval, burst float8 DEFAULT NULL, shards int DEFAULT 1)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_set_rate_limit';
COMMENT ON FUNCTION gen_durable.set_rate_limit IS
  'Makes or changes a rate limit: so many tokens a period, saved up to the burst. It holds for each key "name" and "name:...".';

CREATE FUNCTION gen_durable.set_concurrency_limit(name text, capacity int, shards int DEFAULT 1)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_set_concurrency_limit';
COMMENT ON FUNCTION gen_durable.set_concurrency_limit IS
  'Makes or changes a gate: so many rows execute at once for each concurrency key "name" and "name:...".';

CREATE FUNCTION gen_durable.drop_limit(kind text, name text)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_drop_limit';
COMMENT ON FUNCTION gen_durable.drop_limit IS
  'Drops a limit of kind rate or conc. Work under a dropped rate limit stays blocked; keys under a dropped gate are of size one.';

CREATE FUNCTION gen_durable.sync_config(configs jsonb)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_sync_config';
COMMENT ON FUNCTION gen_durable.sync_config IS
  'Makes or changes limits from an array of {"kind": "rate", "name", "allowed", "period", "burst", "shards"} and {"kind": "conc", "name", "capacity", "shards"}. Others are left alone.';

CREATE FUNCTION gen_durable.admit(entries jsonb)
RETURNS TABLE (id bigint, admitted boolean, slot jsonb)
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'gd_admit_entries';
COMMENT ON FUNCTION gen_durable.admit IS
  'Asks limits directly, for an array of {"id", "rate": {"key", "weight"}, "conc"} in order. A slot of a gate is a lease: credit gives it back, renew keeps it.';

CREATE FUNCTION gen_durable.credit(slots jsonb)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_credit_slots';
COMMENT ON FUNCTION gen_durable.credit IS
  'Gives slots that admit gave back, an array of them; returns how many were still held.';

CREATE FUNCTION gen_durable.renew(slots jsonb)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_renew_slots';
COMMENT ON FUNCTION gen_durable.renew IS
  'Keeps slots that admit gave for gen_durable.lease_ttl from now on, an array of them; returns how many were still held.';

CREATE FUNCTION gen_durable.reconcile(OUT buckets bigint, OUT gates bigint)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_reconcile';
COMMENT ON FUNCTION gen_durable.reconcile IS
  'Compares the counters of limits with what is held, and removes those that say nothing; returns how many rows of rate limits and of gates were changed.';

CREATE FUNCTION gen_durable.limit_counts()
RETURNS TABLE (kind text, name text, admitted bigint, refused bigint)
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'gd_limit_counts';
COMMENT ON FUNCTION gen_durable.limit_counts IS
  'What each limit admitted and refused since the server started, for the view limits; NULL without the preload.';
