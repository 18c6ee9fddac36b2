-- Machines: names, versions, owners and retry policy.

CREATE FUNCTION gen_durable.register_fsm(
  name text, handler regprocedure DEFAULT NULL, version int DEFAULT 1, step text DEFAULT NULL, queue text DEFAULT 'default',
  initial text DEFAULT 'start', max_attempts int DEFAULT 20, backoff_base interval DEFAULT '1s',
  backoff_cap interval DEFAULT '5min', max_crashes int DEFAULT 10, on_error regprocedure DEFAULT NULL,
  statement_timeout interval DEFAULT NULL, inline_execution boolean DEFAULT false)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_register_fsm';
COMMENT ON FUNCTION gen_durable.register_fsm IS
  'Registers a version of a machine or changes its settings: queue, initial step, retry policy. Only its owner or an admin may.';
