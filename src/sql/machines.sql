-- Machines: names, versions, owners and retry policy.

CREATE FUNCTION gen_durable.register_fsm(
  name text, handler regprocedure DEFAULT NULL, version int DEFAULT 1, step text DEFAULT NULL, queue text DEFAULT 'default',
  initial text DEFAULT 'start', max_attempts int DEFAULT 20, backoff_base interval DEFAULT '1s',
  backoff_cap interval DEFAULT '5min', max_crashes int DEFAULT 10, on_error regprocedure DEFAULT NULL,
  statement_timeout interval DEFAULT NULL, inline_execution boolean DEFAULT false)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_register_fsm';
COMMENT ON FUNCTION gen_durable.register_fsm IS
  'Registers a version of a machine or changes its settings: queue, initial step, retry policy, and the handler that the server runs all its steps, or one, with. Only its owner or an admin may.';

CREATE FUNCTION gen_durable.drain(
  queue text DEFAULT NULL, with_scheduled boolean DEFAULT true, max_steps int DEFAULT 1000, OUT steps bigint, OUT next bigint,
  OUT retry bigint, OUT await bigint, OUT children bigint, OUT done bigint, OUT stop bigint)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_drain';
COMMENT ON FUNCTION gen_durable.drain IS
  'Runs the steps that have a handler in the caller''s transaction until none is left, for tests; counts their outcomes. Only machines whose owner the caller may act as.';
