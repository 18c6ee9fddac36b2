-- Maintenance: what the passing of time asks for. Each pass is bounded, oldest first, and skips what others hold.

CREATE FUNCTION gen_durable.reap(max_rows int DEFAULT 1000)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_reap';
COMMENT ON FUNCTION gen_durable.reap IS
  'Takes back the claims whose lease has run out: the step runs again, or the instance fails after its machine''s max_crashes.';

CREATE FUNCTION gen_durable.fire_timeouts(max_rows int DEFAULT 1000)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_fire_timeouts';
COMMENT ON FUNCTION gen_durable.fire_timeouts IS 'Wakes the instances whose await deadline has passed; returns how many.';

CREATE FUNCTION gen_durable.reclaim(queue text, prefix text, margin interval)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_reclaim';
COMMENT ON FUNCTION gen_durable.reclaim IS
  'Takes back, at a worker''s start, the claims of its dead predecessors: of this queue, by workers whose name starts with prefix, with less than margin of lease left.';

CREATE FUNCTION gen_durable.gc(retention interval DEFAULT NULL, batch int DEFAULT NULL)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_gc';
COMMENT ON FUNCTION gen_durable.gc IS
  'Deletes instances and runs that ended longer than retention ago, at most batch of each; children of a live parent stay. Returns how many.';

CREATE FUNCTION gen_durable.tick(OUT reaped bigint, OUT timeouts bigint, OUT promoted bigint, OUT collected bigint)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_tick';
COMMENT ON FUNCTION gen_durable.tick IS
  'Every kind of maintenance once, for servers without the background processes: call it every few seconds.';
