-- Constructors of outcomes: the jsonb that complete takes and that a SQL step returns.

CREATE FUNCTION gen_durable.next_step(
  step text, state jsonb DEFAULT NULL, rate_limit text DEFAULT NULL, weight float8 DEFAULT 1,
  concurrency_key text DEFAULT NULL, release_key boolean DEFAULT false, delay interval DEFAULT NULL,
  inline_execution boolean DEFAULT NULL)
RETURNS jsonb LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'gd_outcome_next';
COMMENT ON FUNCTION gen_durable.next_step IS
  'Outcome: go on with another step. A NULL state keeps the state; a key switches to it, release_key gives it up, neither keeps it.';

CREATE FUNCTION gen_durable.retry(delay interval DEFAULT '0', state jsonb DEFAULT NULL)
RETURNS jsonb LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'gd_outcome_retry';
COMMENT ON FUNCTION gen_durable.retry IS 'Outcome: run the same step again after a delay, with attempt one higher.';

CREATE FUNCTION gen_durable.await_signal(
  names text[], step text, state jsonb DEFAULT NULL, timeout interval DEFAULT NULL)
RETURNS jsonb LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'gd_outcome_await';
COMMENT ON FUNCTION gen_durable.await_signal IS
  'Outcome: park until a signal of one of these names comes, or the timeout; then go on with step.';

CREATE FUNCTION gen_durable.schedule_children(step text, children jsonb, state jsonb DEFAULT NULL)
RETURNS jsonb LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'gd_outcome_children';
COMMENT ON FUNCTION gen_durable.schedule_children IS
  'Outcome: create children (objects keyed as insert''s arguments, with fsm) and park until all have ended; then go on with step.';

CREATE FUNCTION gen_durable.done(result jsonb DEFAULT '{}')
RETURNS jsonb LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'gd_outcome_done';
COMMENT ON FUNCTION gen_durable.done IS 'Outcome: the instance is done, with a result object.';

CREATE FUNCTION gen_durable.stop(reason text)
RETURNS jsonb LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'gd_outcome_stop';
COMMENT ON FUNCTION gen_durable.stop IS 'Outcome: the instance has failed for good, with this reason.';

CREATE FUNCTION gen_durable.fail(error text)
RETURNS jsonb LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'gd_outcome_fail';
COMMENT ON FUNCTION gen_durable.fail IS
  'Outcome: the step raised. The machine''s policy decides: again after a backoff, or failed when its attempts are used up.';
