-- Statistics of the run store.

CREATE FUNCTION gen_durable.run_counters(
  OUT inserted bigint, OUT claim_calls bigint, OUT claim_time interval, OUT wanted bigint, OUT ready_candidates bigint,
  OUT expired_candidates bigint, OUT ready_outcomes bigint, OUT expired_outcomes bigint, OUT fallbacks bigint,
  OUT acquired bigint, OUT reacquired bigint, OUT steals bigint, OUT attempts bigint, OUT poisoned_attempts bigint,
  OUT poisoned_abandons bigint, OUT refreshed bigint, OUT refresh_lost bigint, OUT refresh_time interval,
  OUT released bigint, OUT release_missed bigint, OUT release_time interval, OUT rescheduled bigint,
  OUT abandon_stale bigint, OUT abandon_time interval, OUT recovered bigint, OUT recovery_healthy bigint,
  OUT recovery_inactive bigint, OUT recovery_time interval, OUT commit_retain bigint, OUT commit_immediate bigint,
  OUT commit_at bigint, OUT commit_external bigint, OUT commit_terminal bigint, OUT commit_unclaimed bigint,
  OUT stale_commits bigint, OUT collected bigint, OUT since timestamptz)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_run_counters';
COMMENT ON FUNCTION gen_durable.run_counters IS
  'The counters of this database''s run store in shared memory, for the view run_stats; all NULL without the preload, and for roles that are confined to tenants.';

CREATE FUNCTION gen_durable.run_heads(OUT oldest_due timestamptz, OUT due_next timestamptz, OUT oldest_claim timestamptz)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_run_heads';
COMMENT ON FUNCTION gen_durable.run_heads IS
  'Since when the oldest ready run is due, when the next falls due, and how old the oldest claim is, for the view run_stats.';

CREATE VIEW gen_durable.run_stats AS
  SELECT pg_catalog.clock_timestamp() - h.oldest_due AS oldest_ready_age, h.due_next,
         pg_catalog.clock_timestamp() - h.oldest_claim AS oldest_claim_age, c.*
  FROM gen_durable.run_heads() AS h CROSS JOIN gen_durable.run_counters() AS c;
COMMENT ON VIEW gen_durable.run_stats IS
  'The run store: what is due, and what has happened since the server''s start. The counters are NULL without the preload, and for roles that are confined to tenants.';

COMMENT ON COLUMN gen_durable.run_stats.oldest_ready_age IS 'For how long the oldest ready run has been due; of the runs that the role may see, read from the table.';
COMMENT ON COLUMN gen_durable.run_stats.due_next IS 'When the next run falls due; likewise.';
COMMENT ON COLUMN gen_durable.run_stats.oldest_claim_age IS 'How old the oldest claim is, whoever''s TTL it may have outlived; likewise.';
COMMENT ON COLUMN gen_durable.run_stats.inserted IS 'Runs created.';
COMMENT ON COLUMN gen_durable.run_stats.claim_calls IS 'Calls of run_claim_due.';
COMMENT ON COLUMN gen_durable.run_stats.claim_time IS 'Time that they took, in all.';
COMMENT ON COLUMN gen_durable.run_stats.wanted IS 'Runs that they asked for.';
COMMENT ON COLUMN gen_durable.run_stats.ready_candidates IS 'Ready runs that they looked at.';
COMMENT ON COLUMN gen_durable.run_stats.expired_candidates IS 'Expired claims that they looked at.';
COMMENT ON COLUMN gen_durable.run_stats.ready_outcomes IS 'Ready runs that they leased or poisoned.';
COMMENT ON COLUMN gen_durable.run_stats.expired_outcomes IS 'Expired claims that they stole, or whose runs they poisoned.';
COMMENT ON COLUMN gen_durable.run_stats.fallbacks IS 'Calls for one run that got it from the class that was not preferred.';
COMMENT ON COLUMN gen_durable.run_stats.acquired IS 'Leases that were the first attempt since the last commit.';
COMMENT ON COLUMN gen_durable.run_stats.reacquired IS 'Leases that were a later attempt.';
COMMENT ON COLUMN gen_durable.run_stats.steals IS 'Leases of runs whose claim had expired.';
COMMENT ON COLUMN gen_durable.run_stats.attempts IS 'Sum of the attempts of all leases.';
COMMENT ON COLUMN gen_durable.run_stats.poisoned_attempts IS 'Runs poisoned as max_claim_attempts_exceeded.';
COMMENT ON COLUMN gen_durable.run_stats.poisoned_abandons IS 'Runs poisoned as max_claim_abandons_exceeded.';
COMMENT ON COLUMN gen_durable.run_stats.refreshed IS 'Claims refreshed.';
COMMENT ON COLUMN gen_durable.run_stats.refresh_lost IS 'Refreshes of a claim that was lost; counted whatever becomes of the transaction.';
COMMENT ON COLUMN gen_durable.run_stats.refresh_time IS 'Time that the refreshes took, but for those of a lost claim.';
COMMENT ON COLUMN gen_durable.run_stats.released IS 'Claims released.';
COMMENT ON COLUMN gen_durable.run_stats.release_missed IS 'Releases of a claim that was not current.';
COMMENT ON COLUMN gen_durable.run_stats.release_time IS 'Time that all releases took.';
COMMENT ON COLUMN gen_durable.run_stats.rescheduled IS 'Claims abandoned for a later time.';
COMMENT ON COLUMN gen_durable.run_stats.abandon_stale IS 'Abandons of a claim that was not current.';
COMMENT ON COLUMN gen_durable.run_stats.abandon_time IS 'Time that all abandons took.';
COMMENT ON COLUMN gen_durable.run_stats.recovered IS 'Poisoned runs made ready again by run_retry_poisoned.';
COMMENT ON COLUMN gen_durable.run_stats.recovery_healthy IS 'Its calls for runs that were healthy.';
COMMENT ON COLUMN gen_durable.run_stats.recovery_inactive IS 'Its calls for runs that had ended; counted whatever becomes of the transaction.';
COMMENT ON COLUMN gen_durable.run_stats.recovery_time IS 'Time that its calls took, but for those of ended runs.';
COMMENT ON COLUMN gen_durable.run_stats.commit_retain IS 'Commits that kept the claim.';
COMMENT ON COLUMN gen_durable.run_stats.commit_immediate IS 'Commits to ready at once.';
COMMENT ON COLUMN gen_durable.run_stats.commit_at IS 'Commits to ready at a time.';
COMMENT ON COLUMN gen_durable.run_stats.commit_external IS 'Commits to waiting.';
COMMENT ON COLUMN gen_durable.run_stats.commit_terminal IS 'Commits to an end.';
COMMENT ON COLUMN gen_durable.run_stats.commit_unclaimed IS 'Those of the commits that had no claim, run_mutate''s too.';
COMMENT ON COLUMN gen_durable.run_stats.stale_commits IS 'Commits behind a lost fence; counted whatever becomes of the transaction.';
COMMENT ON COLUMN gen_durable.run_stats.collected IS 'Ended runs that gc deleted.';
COMMENT ON COLUMN gen_durable.run_stats.since IS 'From when on they were counted.';
