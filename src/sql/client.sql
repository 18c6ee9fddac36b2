-- What a client calls: enqueue instances and talk to them.
-- The C functions run no SQL and look everything up in the extension's schema, so they need no SET search_path.

CREATE FUNCTION gen_durable.insert(
  fsm text, state jsonb DEFAULT '{}', step text DEFAULT NULL, fsm_version int DEFAULT NULL, queue text DEFAULT NULL,
  priority int DEFAULT 0, concurrency_key text DEFAULT NULL, correlation_key text DEFAULT NULL,
  correlation_scope gen_durable.durable_status[] DEFAULT '{runnable,executing,awaiting_signal,awaiting_children}',
  rate_limit text DEFAULT NULL, weight float8 DEFAULT 1, eligible_at timestamptz DEFAULT NULL,
  schedule_in interval DEFAULT NULL, OUT id bigint, OUT created boolean)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_insert';
COMMENT ON FUNCTION gen_durable.insert IS
  'Creates an instance of a machine. A live occupant of the correlation key is returned with created = false.';

CREATE FUNCTION gen_durable.insert_all(fsm text, entries jsonb, OUT ord int, OUT id bigint, OUT created boolean)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'gd_insert_all';
COMMENT ON FUNCTION gen_durable.insert_all IS
  'Creates many instances of one machine; entries is an array of objects keyed as insert''s arguments. One row an entry, by ordinal.';

CREATE FUNCTION gen_durable.signal(id bigint, name text, payload jsonb DEFAULT '{}', dedup_key text DEFAULT NULL)
RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_signal';
COMMENT ON FUNCTION gen_durable.signal IS
  'Sends a signal to an instance: delivered, duplicate (the dedup key was used before) or no_target (unknown or terminal).';

CREATE FUNCTION gen_durable.signal_key(key text, name text, payload jsonb DEFAULT '{}', dedup_key text DEFAULT NULL)
RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_signal_key';
COMMENT ON FUNCTION gen_durable.signal_key IS 'Sends a signal to the live occupant of a correlation key; results as signal''s.';

CREATE FUNCTION gen_durable.find(key text)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_find';
COMMENT ON FUNCTION gen_durable.find IS 'The live occupant of a correlation key, or NULL.';

CREATE FUNCTION gen_durable.await(
  id bigint, timeout interval DEFAULT '5s', until text DEFAULT 'settled',
  OUT outcome text, OUT status gen_durable.durable_status, OUT step text, OUT attempt int, OUT result jsonb, OUT error text)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_await';
COMMENT ON FUNCTION gen_durable.await IS
  'Waits until an instance is settled (terminal or parked) or terminal, or the timeout: outcome is done, failed, cancelled, awaiting, busy or not_found.';
