WITH due AS (
  SELECT id FROM yardstick.instances
  WHERE queue = 'bench' AND status = 'runnable' AND blocked_on IS NULL AND eligible_at <= now()
  ORDER BY priority, eligible_at, id LIMIT 100 FOR UPDATE SKIP LOCKED
), claimed AS (
  UPDATE yardstick.instances i
  SET status = 'executing', locked_by = 'w', lease_expires_at = now() + interval '60 s', updated_at = now()
  FROM due WHERE i.id = due.id
  RETURNING i.id, i.fsm, i.fsm_version, i.step, i.state, i.attempt
)
SELECT coalesce(array_agg(id), '{}') AS ids FROM claimed \gset
UPDATE yardstick.instances
SET status = 'runnable', step = 'a', attempt = 0, crashes = 0, eligible_at = now(),
    locked_by = NULL, lease_expires_at = NULL, updated_at = now()
WHERE id = ANY ((:ids)::bigint[]) AND locked_by = 'w';
