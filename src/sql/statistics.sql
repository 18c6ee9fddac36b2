-- Statistics of the queues, and who works.

CREATE FUNCTION gen_durable.queue_counters(
  OUT queue text, OUT ready bigint, OUT scheduled bigint, OUT blocked bigint, OUT executing bigint,
  OUT awaiting_signal bigint, OUT awaiting_children bigint,
  OUT inserted bigint, OUT duplicates bigint, OUT picks bigint, OUT wanted bigint, OUT claims bigint,
  OUT outcome_next bigint, OUT outcome_retry bigint, OUT outcome_await bigint, OUT outcome_children bigint,
  OUT outcome_done bigint, OUT outcome_stop bigint, OUT outcome_fail bigint, OUT step_time interval,
  OUT stale_outcomes bigint, OUT invalid_outcomes bigint, OUT cancelled bigint, OUT released bigint, OUT reaped bigint,
  OUT reclaimed bigint, OUT timeouts bigint, OUT collected bigint, OUT key_refusals bigint, OUT rate_refusals bigint,
  OUT rate_unknown bigint, OUT contended bigint, OUT inline_steps bigint, OUT inline_yields bigint,
  OUT reconciled_buckets bigint, OUT reconciled_gates bigint, OUT since timestamptz, OUT counted_at timestamptz)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'gd_queue_counters';
COMMENT ON FUNCTION gen_durable.queue_counters IS
  'The counters of this database''s queues in shared memory, for the view stats; no rows without the preload.';

CREATE FUNCTION gen_durable.queue_heads(OUT queue text, OUT oldest_due timestamptz, OUT due_next timestamptz)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'gd_queue_heads';
COMMENT ON FUNCTION gen_durable.queue_heads IS
  'Each queue that has a runnable row: since when its oldest is due, and when the next falls due, for the view stats.';

CREATE FUNCTION gen_durable.recount()
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_recount';
COMMENT ON FUNCTION gen_durable.recount IS
  'Counts all live instances and sets the statistics right, as the maintainer does by itself now and then; returns how many there are. Reads the whole table.';

CREATE VIEW gen_durable.stats AS
  SELECT coalesce(c.queue, h.queue, q.name) AS queue, c.ready, c.scheduled, c.blocked, c.executing, c.awaiting_signal,
         c.awaiting_children, h.due_next, pg_catalog.clock_timestamp() - h.oldest_due AS oldest_ready_age,
         q.paused_at IS NOT NULL AND (q.paused_until > pg_catalog.clock_timestamp()) IS NOT FALSE AS paused,
         c.inserted, c.duplicates, c.picks, c.wanted, c.claims, c.outcome_next, c.outcome_retry, c.outcome_await,
         c.outcome_children, c.outcome_done, c.outcome_stop, c.outcome_fail, c.step_time, c.stale_outcomes, c.invalid_outcomes,
         c.cancelled, c.released, c.reaped, c.reclaimed, c.timeouts, c.collected, c.key_refusals, c.rate_refusals,
         c.rate_unknown, c.contended, c.inline_steps, c.inline_yields, c.reconciled_buckets, c.reconciled_gates, c.since,
         c.counted_at
  FROM gen_durable.queue_counters() AS c
  FULL JOIN gen_durable.queue_heads() AS h ON h.queue = c.queue
  FULL JOIN gen_durable.queues AS q ON q.name = coalesce(c.queue, h.queue);
COMMENT ON VIEW gen_durable.stats IS
  'Each queue: how many rows are in which state, what is due, and what has happened since the server''s start. The row without a queue has what belongs to none. NULL where it is not known: without the preload, and before the first count.';

-- With the rights of the extension's owner, since pg_stat_activity hides other roles' processes.
CREATE FUNCTION gen_durable.processes(OUT kind text, OUT pid int, OUT since timestamptz, OUT state text)
RETURNS SETOF record LANGUAGE sql STABLE PARALLEL UNSAFE ROWS 10 SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $processes$
  SELECT substr(a.backend_type, length('gen_durable ') + 1), a.pid, a.backend_start,
         coalesce(a.wait_event_type || ': ' || a.wait_event, a.state)
  FROM pg_stat_activity AS a
  WHERE starts_with(a.backend_type, 'gen_durable ') AND (a.datid IS NULL OR a.datname = current_database())
$processes$;
COMMENT ON FUNCTION gen_durable.processes IS
  'The extension''s processes that work for this database, for the view workers.';

CREATE FUNCTION gen_durable.waiters(OUT pid int, OUT queues text[], OUT instance bigint, OUT since timestamptz)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'gd_waiters';
COMMENT ON FUNCTION gen_durable.waiters IS
  'The sessions of this database that wait for queues or for an instance, for the view workers; no rows without the preload.';

CREATE VIEW gen_durable.workers AS
  SELECT p.kind, p.pid, NULL::text AS name, NULL::text[] AS queues, NULL::bigint AS instance, p.since, p.state,
         NULL::bigint AS claims, NULL::bigint AS overdue, NULL::timestamptz AS lease_expires_at
  FROM gen_durable.processes() AS p
  UNION ALL
  SELECT 'waiter', w.pid, NULL, w.queues, w.instance, w.since, NULL, NULL, NULL, NULL
  FROM gen_durable.waiters() AS w
  UNION ALL
  SELECT 'holder', CASE WHEN count(DISTINCT d.pid) = 1 THEN min(d.pid) END, coalesce(d.worker, i.locked_by), array_agg(DISTINCT i.queue), NULL, min(i.updated_at), NULL, count(*),
         count(*) FILTER (WHERE i.lease_expires_at < pg_catalog.clock_timestamp()), min(i.lease_expires_at)
  FROM gen_durable.instances AS i
  LEFT JOIN (SELECT DISTINCT ON (x.id) x.id, x.worker, x.pid FROM gen_durable.dispatched() AS x ORDER BY x.id, x.since DESC) AS d
    ON d.id = i.id
  WHERE i.status = 'executing'
  GROUP BY coalesce(d.worker, i.locked_by);
COMMENT ON VIEW gen_durable.workers IS
  'Who works: the processes of the extension, the sessions that wait, and the holders of claims by the name that they gave. Reads all claimed rows.';
