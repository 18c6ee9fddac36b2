-- Administration: cancel, revive, pause, resume, the settings of a queue, and one row that says why an instance is not running.

CREATE FUNCTION gen_durable.cancel(
  id bigint, reason text DEFAULT NULL, cascade boolean DEFAULT false, force boolean DEFAULT false)
RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_cancel';
COMMENT ON FUNCTION gen_durable.cancel IS
  'Cancels an instance: cancelled at once, or requested where a worker holds it. cascade takes its children too; force takes a held claim away.';

CREATE FUNCTION gen_durable.revive(id bigint, step text DEFAULT NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_revive';
COMMENT ON FUNCTION gen_durable.revive IS 'Makes a failed or cancelled instance runnable again at its step, or at another, with attempt 0.';

CREATE FUNCTION gen_durable.pause(queue text, until timestamptz DEFAULT NULL, reason text DEFAULT NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_pause';
COMMENT ON FUNCTION gen_durable.pause IS
  'Has a queue hand nothing out until an instant, or until it is resumed. Inserts, signals and outcomes go on.';

CREATE FUNCTION gen_durable.resume(queue text)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_resume';
COMMENT ON FUNCTION gen_durable.resume IS 'Ends the pause of a queue.';

CREATE FUNCTION gen_durable.set_queue(
  name text, executors int DEFAULT NULL, concurrency int DEFAULT NULL, prefetch int DEFAULT NULL, min_demand int DEFAULT NULL,
  lease_ttl interval DEFAULT NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_set_queue';
COMMENT ON FUNCTION gen_durable.set_queue IS
  'Sets the lease of a queue, how far ahead of demand its steps are claimed, and how many processes run its SQL steps. What is left out takes the server''s settings; a pause stays.';

CREATE FUNCTION gen_durable.dispatched(
  OUT id bigint, OUT queue text, OUT worker text, OUT pid int, OUT since timestamptz)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'gd_dispatched';
COMMENT ON FUNCTION gen_durable.dispatched IS
  'Claims of queues that are fed: who took them and when, or, where worker is NULL, since when they wait for a take.';

CREATE FUNCTION gen_durable.why(
  id bigint, OUT status gen_durable.durable_status, OUT waits_for text, OUT since timestamptz, OUT until timestamptz,
  OUT held_by text, OUT ahead bigint)
RETURNS record LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $why$
DECLARE
  i gen_durable.instances;
  paused gen_durable.queues;
  policy gen_durable.bucket_configs;
  lacks float8;
  heaviest float8;
  machine_owner text;
  -- The engine's clock.
  at timestamptz := clock_timestamp()
    + coalesce(nullif(current_setting('gen_durable.clock_offset', true), '')::float8, 0) * interval '1 millisecond';
BEGIN
  IF id IS NULL THEN
    RAISE EXCEPTION 'id must not be NULL' USING ERRCODE = 'null_value_not_allowed';
  END IF;
  SELECT * INTO i FROM gen_durable.instances AS x WHERE x.id = why.id;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'instance % does not exist', why.id USING ERRCODE = 'GD002';
  END IF;
  status := i.status;
  since := i.updated_at;
  SELECT * INTO paused FROM gen_durable.queues AS q
    WHERE q.name = i.queue AND q.paused_at IS NOT NULL AND (q.paused_until > at) IS NOT FALSE;
  CASE
    WHEN i.status = 'runnable' AND i.eligible_at <= at AND paused.name IS NOT NULL THEN
      waits_for := format('queue "%s", which is paused', i.queue) || coalesce(': ' || paused.pause_reason, '');
      since := greatest(i.updated_at, i.eligible_at, paused.paused_at);
      until := paused.paused_until;
    WHEN i.status = 'runnable' AND i.eligible_at <= at AND i.blocked_on IS NULL AND EXISTS (
           SELECT FROM gen_durable.instances AS x
           WHERE x.status = 'executing' AND x.concurrency_key = i.concurrency_key AND x.concurrency_shard IS NULL)
         OR i.status = 'runnable' AND i.blocked_on LIKE 'conc:%' THEN
      SELECT * INTO policy FROM gen_durable.bucket_configs AS c
        WHERE c.kind = 'conc' AND c.name = split_part(i.concurrency_key, ':', 1);
      waits_for := format(CASE WHEN policy.name IS NULL THEN 'concurrency key "%s"' ELSE 'concurrency limit "%s"' END,
                          i.concurrency_key);
      -- Some of those who hold it, and when the first of them may let go.
      SELECT string_agg(DISTINCT x.holder, ', ' ORDER BY x.holder), min(x.until) INTO held_by, until FROM (
        (SELECT x.locked_by AS holder, x.lease_expires_at AS until FROM gen_durable.instances AS x
         WHERE x.status = 'executing' AND x.concurrency_key = i.concurrency_key AND x.concurrency_shard IS NULL LIMIT 1)
        UNION ALL
        (SELECT x.locked_by, x.lease_expires_at FROM gen_durable.instances AS x
         WHERE x.concurrency_shard IS NOT NULL AND x.status = 'executing' AND x.concurrency_key = i.concurrency_key
         LIMIT 10)
        UNION ALL
        (SELECT format('admit, for %s', h.held_for), h.expires_at FROM gen_durable.slot_holders AS h
         WHERE h.key = i.concurrency_key LIMIT 10)) AS x;
      SELECT count(*) INTO ahead FROM (
        SELECT FROM gen_durable.instances AS x
        WHERE x.blocked_on = 'conc:' || i.concurrency_key AND x.queue = i.queue
          AND (x.priority, x.eligible_at, x.id) < (i.priority, i.eligible_at, i.id) LIMIT 10000) AS first;
    WHEN i.status = 'runnable' AND i.blocked_on IS NOT NULL THEN
      SELECT * INTO policy FROM gen_durable.bucket_configs AS c
        WHERE c.kind = 'rate' AND c.name = split_part(i.rate_limit, ':', 1);
      SELECT count(*), coalesce(sum(first.weight), 0) + i.weight, greatest(max(first.weight), i.weight) INTO ahead, lacks, heaviest FROM (
        SELECT x.weight FROM gen_durable.instances AS x
        WHERE x.blocked_on = i.blocked_on AND x.queue = i.queue
          AND (x.priority, x.eligible_at, x.id) < (i.priority, i.eligible_at, i.id) LIMIT 10000) AS first;
      waits_for := format('rate limit "%s"', i.rate_limit) || CASE
        WHEN policy.name IS NULL THEN ', which is not configured'
        WHEN i.weight > policy.capacity THEN format(', whose burst %s is below its weight %s', policy.capacity, i.weight)
        WHEN heaviest > policy.capacity THEN format(', whose burst %s is below the weight %s of one before it', policy.capacity, heaviest)
        ELSE '' END;
      IF current_setting('gen_durable.limiter', true) = 'redis' THEN
        until := i.refill_at;             -- when it is asked for again
      ELSIF policy.name IS NOT NULL AND ahead < 10000 AND heaviest <= policy.capacity THEN
        lacks := lacks - coalesce((
          SELECT sum(least(b.capacity, b.available + greatest(extract(epoch FROM at - b.last_refill), 0) * policy.rate / policy.shards))
          FROM gen_durable.buckets AS b WHERE b.kind = 'rate' AND b.key = i.rate_limit), policy.capacity);
        until := at + least(greatest(lacks, 0) / policy.rate, 1e9) * interval '1 second';
      END IF;
    WHEN i.status = 'runnable' AND i.eligible_at > at THEN
      waits_for := 'its time';
      until := i.eligible_at;
    WHEN i.status = 'runnable' THEN
      SELECT f.owner INTO machine_owner FROM gen_durable.fsms AS f
        WHERE f.name = i.fsm AND f.version = i.fsm_version AND coalesce(f.step_handlers ->> i.step, f.handler) IS NOT NULL;
      waits_for := CASE
        WHEN machine_owner IS NULL THEN format('a worker on queue "%s"', i.queue)
        WHEN NOT EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = machine_owner)
          THEN format('its machine''s owner, role "%s", which does not exist', machine_owner)
        WHEN coalesce((SELECT q.executors FROM gen_durable.queues AS q WHERE q.name = i.queue), current_setting('gen_durable.executors', true)::int) = 0
          THEN format('an executor on queue "%s", which has none', i.queue)
        WHEN current_setting('server_version_num')::int < 170000 AND NOT (SELECT r.rolcanlogin FROM pg_roles AS r WHERE r.rolname = machine_owner)
          THEN format('an executor of role "%s", which may not log in', machine_owner)
        WHEN NOT has_database_privilege(machine_owner, current_database(), 'CONNECT')
          THEN format('an executor of role "%s", which lacks CONNECT on the database', machine_owner)
        ELSE format('an executor of role "%s" on queue "%s"', machine_owner, i.queue) END;
      since := greatest(i.updated_at, i.eligible_at);
      SELECT count(*) INTO ahead FROM (
        SELECT FROM gen_durable.instances AS x
        WHERE x.status = 'runnable' AND x.blocked_on IS NULL AND x.queue = i.queue AND x.eligible_at <= at
          AND (x.priority, x.eligible_at, x.id) < (i.priority, i.eligible_at, i.id) LIMIT 10000) AS first;
    WHEN i.status = 'executing' AND EXISTS (SELECT FROM gen_durable.dispatched() AS d WHERE d.id = i.id AND d.worker IS NULL) THEN
      waits_for := format('a worker on queue "%s"', i.queue);
      since := i.eligible_at;
    WHEN i.status = 'executing' THEN
      waits_for := CASE WHEN i.cancel_requested_at IS NULL THEN 'its worker' ELSE 'its worker, to be cancelled' END;
      until := i.lease_expires_at;
      held_by := coalesce((SELECT d.worker FROM gen_durable.dispatched() AS d WHERE d.id = i.id), i.locked_by);
    WHEN i.status = 'awaiting_signal' THEN
      waits_for := 'a signal: ' || array_to_string(i.awaits, ', ') ||
        CASE WHEN EXISTS (SELECT FROM gen_durable.signals AS s
                           WHERE s.target_id = i.id AND s.name = ANY (i.awaits) AND s.consumed_at IS NULL)
             THEN '; not one that the step had when it parked' ELSE '' END;
      until := i.await_deadline;
    WHEN i.status = 'awaiting_children' THEN
      waits_for := 'its children';
      ahead := i.children_pending;
    ELSE
      waits_for := 'nothing';
      since := i.finished_at;
  END CASE;
END
$why$;
COMMENT ON FUNCTION gen_durable.why IS
  'Why an instance is not running: what it waits for, since and until when, held by whom, how many are ahead (counted to 10,000).';
