-- Views for people who look after the engine.

CREATE VIEW gen_durable.blocked_instances AS
  SELECT id, fsm, step, queue, priority, eligible_at, blocked_on, updated_at AS blocked_since
  FROM gen_durable.instances
  WHERE blocked_on IS NOT NULL;
COMMENT ON VIEW gen_durable.blocked_instances IS 'Runnable instances that wait for a concurrency key or a rate limit.';

CREATE VIEW gen_durable.unkeyed_instances AS
  SELECT id, fsm, step, status, correlation_key
  FROM gen_durable.instances
  WHERE correlation_key IS NOT NULL AND correlation_guard IS NULL AND status = ANY (correlation_scope);
COMMENT ON VIEW gen_durable.unkeyed_instances IS
  'Instances in their correlation scope that do not hold their key, because another had taken it when they entered.';
