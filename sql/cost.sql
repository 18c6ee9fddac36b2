-- What a claim costs, counted in pages, does not grow with rows that are not for it. GD-051, GD-055, GD-073, GD-074, D-3, D-5, AC-043, AC-044
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();
-- The pages that a pick touches, once the session knows the tables. It is rolled back, so that each begins alike.
CREATE FUNCTION pg_temp.once(queue text, batch int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  plan json;
  n bigint;
BEGIN
  BEGIN
    EXECUTE format('EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT FROM gen_durable.pick(%L, %L, %s)', queue, 'w', batch) INTO plan;
    n := (plan->0->'Plan'->>'Shared Hit Blocks')::bigint + (plan->0->'Plan'->>'Shared Read Blocks')::bigint;
    ASSERT (plan->0->'Plan'->>'Actual Rows')::numeric = batch, plan->0->'Plan'->>'Actual Rows';
    RAISE 'rollback';
  EXCEPTION WHEN raise_exception THEN
    RETURN n;
  END;
END $$;
CREATE FUNCTION pg_temp.pages(queue text, batch int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_temp.once(queue, batch);
  RETURN pg_temp.once(queue, batch);
END $$;
INSERT INTO instances (fsm, step, queue, concurrency_key) SELECT 'due', 'start', 'q', 'due' || n FROM generate_series(1, 10) n;
VACUUM (ANALYZE) instances;
CREATE TEMP TABLE base AS SELECT pg_temp.pages('q', 1) AS one, pg_temp.pages('q', 5) AS five;

-- 2,000 rows executing, each with a key
INSERT INTO instances (fsm, step, queue, concurrency_key) SELECT 'busy', 'start', 'busy', 'busy' || n FROM generate_series(1, 2000) n;
SELECT count(*) FROM pick('busy', 'w', 1000);
SELECT count(*) FROM pick('busy', 'w', 1000);
VACUUM (ANALYZE) instances;
SELECT pg_temp.pages('q', 1) <= one + 10, pg_temp.pages('q', 5) <= five + 30 FROM base;
-- 10,000 future rows of more urgent and of the same priority, and 5,000 in other queues
INSERT INTO instances (fsm, step, queue, priority, eligible_at) SELECT 'future', 'start', 'q', -(n % 2), now() + interval '1 day' FROM generate_series(1, 10000) n;
INSERT INTO instances (fsm, step, queue) SELECT 'other', 'start', 'q' || n FROM generate_series(1, 5000) n;
VACUUM (ANALYZE) instances;
SELECT pg_temp.pages('q', 1) <= one + 20, pg_temp.pages('q', 5) <= five + 40 FROM base;
-- 3,000 rows blocked on one key, more urgent
INSERT INTO instances (fsm, step, queue, concurrency_key, priority) SELECT 'same', 'start', 'q', 'same', -5 FROM generate_series(1, 3001) n;
SELECT fsm FROM pick('q', 'w', 750);
SELECT count(*) BETWEEN 2000 AND 3000 FROM blocked_instances;
SELECT count(*) FROM pick('q', 'w', 1);
SELECT count(*) FROM blocked_instances;
VACUUM (ANALYZE) instances;
SELECT pg_temp.pages('q', 1) <= one + 30, pg_temp.pages('q', 5) <= five + 50 FROM base;
