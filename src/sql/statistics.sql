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
