-- What a worker calls: claim steps, commit their outcomes, keep or give back its claims.

CREATE FUNCTION gen_durable.pick(queue text, worker text, batch int DEFAULT 1, lease_ttl interval DEFAULT NULL)
RETURNS SETOF gen_durable.job LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'gd_pick';
COMMENT ON FUNCTION gen_durable.pick IS
  'Claims up to batch due steps of one queue in the caller''s transaction, most urgent first. Never waits for a lock.';

CREATE FUNCTION gen_durable.take(queue text, worker text, batch int DEFAULT 1, lease_ttl interval DEFAULT NULL)
RETURNS SETOF gen_durable.job LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'gd_take';
COMMENT ON FUNCTION gen_durable.take IS
  'As pick, served from the scheduler''s buffer where one feeds the queue.';

CREATE PROCEDURE gen_durable.wait(queues text[], timeout interval DEFAULT '30s')
LANGUAGE c AS 'MODULE_PATHNAME', 'gd_wait';
COMMENT ON PROCEDURE gen_durable.wait IS
  'Returns when one of the queues may have work, or at the timeout. Holds no snapshot while it waits; not inside a transaction block.';

CREATE FUNCTION gen_durable.channel(queue text)
RETURNS text LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'gd_channel';
COMMENT ON FUNCTION gen_durable.channel IS
  'The channel to LISTEN on for a queue, where gen_durable.notify is on: "gen_durable." and the queue''s name, or of a name longer than 51 bytes a hash.';

CREATE FUNCTION gen_durable.complete(token uuid, outcome jsonb)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_complete';
COMMENT ON FUNCTION gen_durable.complete IS
  'Commits the outcome of a step with the caller''s transaction. A stale token raises GD001, so the caller''s writes roll back.';

CREATE FUNCTION gen_durable.complete_many(outcomes jsonb, OUT ord int, OUT id bigint, OUT result text)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'gd_complete_many';
COMMENT ON FUNCTION gen_durable.complete_many IS
  'Commits many outcomes, each an object with its token, row by row: result is committed, stale, or invalid: and why.';

CREATE FUNCTION gen_durable.complete_and_take(
  outcomes jsonb, queue text, worker text, batch int DEFAULT 1, lease_ttl interval DEFAULT NULL)
RETURNS SETOF gen_durable.job LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'gd_complete_and_take';
COMMENT ON FUNCTION gen_durable.complete_and_take IS
  'Commits outcomes and takes the next steps in one call. As complete, a stale or invalid outcome raises, so the caller''s writes roll back.';

CREATE PROCEDURE gen_durable.commit_and_take(
  outcomes jsonb, queue text, worker text, batch int DEFAULT 1, lease_ttl interval DEFAULT NULL,
  INOUT results jsonb DEFAULT NULL, INOUT jobs jsonb DEFAULT NULL)
LANGUAGE c AS 'MODULE_PATHNAME', 'gd_commit_and_take';
COMMENT ON PROCEDURE gen_durable.commit_and_take IS
  'Commits outcomes and takes the next steps as one whole statement; results reports each outcome as complete_many does, jobs is an array of job objects.';

CREATE FUNCTION gen_durable.heartbeat(
  tokens uuid[], lease_ttl interval DEFAULT NULL, OUT token uuid, OUT held boolean, OUT cancel_requested boolean)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'gd_heartbeat';
COMMENT ON FUNCTION gen_durable.heartbeat IS
  'Extends the leases of the claims still held and tells of each whether it is held and whether its cancellation was asked for.';

CREATE FUNCTION gen_durable.release(tokens uuid[])
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_release';
COMMENT ON FUNCTION gen_durable.release IS 'Gives claimed steps back untouched; returns how many were held.';

CREATE FUNCTION gen_durable.children(id bigint, after bigint DEFAULT 0, max_rows int DEFAULT 1000)
RETURNS SETOF gen_durable.child LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1000 AS 'MODULE_PATHNAME', 'gd_children';
COMMENT ON FUNCTION gen_durable.children IS 'Pages through the children of an instance: those with an id above after, by id.';

CREATE FUNCTION gen_durable.inbox(id bigint, after bigint DEFAULT 0, max_rows int DEFAULT 1000)
RETURNS SETOF gen_durable.inbox_signal LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1000 AS 'MODULE_PATHNAME', 'gd_inbox';
COMMENT ON FUNCTION gen_durable.inbox IS 'Pages through the inbox of an instance: signals with an id above after, by id.';
