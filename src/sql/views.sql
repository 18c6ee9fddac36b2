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

-- Counters of rate limits stand as of their last use; what has come since is added here.
CREATE VIEW gen_durable.limit_keys AS
  WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() + coalesce(nullif(current_setting('gen_durable.clock_offset', true), '')::float8, 0) * interval '1 millisecond' AS at),
  counters AS (
    SELECT b.kind, b.key, sum(b.debt) AS debt,
      sum(CASE b.kind WHEN 'conc' THEN b.available ELSE
            least(c.capacity / c.shards,
                  b.available + greatest(extract(epoch FROM clock.at - b.last_refill)::float8, 0) * c.rate / c.shards) END) AS available
    FROM gen_durable.buckets AS b
    JOIN gen_durable.bucket_configs AS c ON c.kind = b.kind AND c.name = split_part(b.key, ':', 1)
    CROSS JOIN clock
    GROUP BY b.kind, b.key),
  returned AS (SELECT key, sum(slots) AS slots FROM gen_durable.slot_credits GROUP BY key),
  waiting AS (
    SELECT split_part(blocked_on, ':', 1) AS kind, substr(blocked_on, 6) AS key, count(*) AS blocked
    FROM gen_durable.instances WHERE blocked_on IS NOT NULL GROUP BY blocked_on)
  SELECT k.kind, k.key, c.name, c.rate, c.capacity, c.shards,
    CASE WHEN current_setting('gen_durable.limiter', true) IS DISTINCT FROM 'redis'
      THEN coalesce(n.available + coalesce(r.slots, 0) - n.debt, c.capacity) END AS available,
    coalesce(w.blocked, 0) AS blocked
  FROM (SELECT kind, key FROM counters UNION SELECT kind, key FROM waiting) AS k
  LEFT JOIN gen_durable.bucket_configs AS c ON c.kind = k.kind AND c.name = split_part(k.key, ':', 1)
  LEFT JOIN counters AS n ON n.kind = k.kind AND n.key = k.key
  LEFT JOIN returned AS r ON k.kind = 'conc' AND r.key = k.key
  LEFT JOIN waiting AS w ON w.kind = k.kind AND w.key = k.key;
COMMENT ON VIEW gen_durable.limit_keys IS
  'Keys that are or were of late in use under a limit, or that instances wait for. A concurrency key of size one has no limit. What is available in Redis is not known here.';

CREATE VIEW gen_durable.limits AS
  SELECT c.kind, c.name, c.rate, c.capacity, c.shards, count(k.key) AS keys,
    CASE WHEN current_setting('gen_durable.limiter', true) IS DISTINCT FROM 'redis'
      THEN coalesce(min(k.available), c.capacity) END AS available,
    coalesce(sum(k.blocked), 0)::bigint AS blocked,
    n.admitted, n.refused
  FROM gen_durable.bucket_configs AS c
  LEFT JOIN gen_durable.limit_keys AS k ON k.kind = c.kind AND k.name = c.name
  LEFT JOIN gen_durable.limit_counts() AS n ON n.kind = c.kind AND n.name = c.name
  GROUP BY c.kind, c.name, c.rate, c.capacity, c.shards, n.admitted, n.refused;
COMMENT ON VIEW gen_durable.limits IS 'Rate limits and gates: their size, what is free, who waits, and what was admitted and refused since the server started.';
