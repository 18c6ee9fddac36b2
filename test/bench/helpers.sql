-- What the benchmarks share inside a database.

CREATE SCHEMA bench;

-- Rows as an insert leaves them, in bulk: straight into the table, in the order of their id.
CREATE PROCEDURE bench.load(
  tbl regclass, n int, queue text DEFAULT 'bench', priority int DEFAULT 0, due_in interval DEFAULT '0',
  concurrency_key text DEFAULT NULL, blocked_on text DEFAULT NULL)
LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format($sql$
    INSERT INTO %s (fsm, step, queue, priority, state, eligible_at, concurrency_key, blocked_on)
    SELECT 'bench', 'a', $2, $3,
           jsonb_build_object('order', g, 'customer', 'customer ' || g %% 1000, 'total', g %% 100 + 0.5),
           clock_timestamp() + $4, $5, $6
    FROM generate_series(1, $1) g $sql$, tbl)
  USING n, queue, priority, due_in, concurrency_key, blocked_on;
END $$;

-- Row versions made by updates so far, once all other clients have gone (their counts arrive when they end).
CREATE FUNCTION bench.updates(tbl regclass) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  deadline timestamptz := clock_timestamp() + interval '30 s';
BEGIN
  LOOP
    PERFORM pg_stat_clear_snapshot();
    EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity
                          WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid());
    IF clock_timestamp() > deadline THEN
      RAISE EXCEPTION 'other clients are still connected';
    END IF;
    PERFORM pg_sleep(0.01);
  END LOOP;
  RETURN pg_stat_get_tuples_updated(tbl);
END $$;

-- Processor time of this session in microseconds: unlike the wall's, it is not stretched by what else the machine does.
CREATE FUNCTION bench.cpu_clock() RETURNS float8 LANGUAGE c VOLATILE AS 'gen_durable_cpu_clock', 'cpu_clock';

-- Microseconds a row of claims by a function, each in a transaction of its own, whose steps go on to the end of the queue.
CREATE PROCEDURE bench.claim_cost_by(function text, batch int, rounds int, INOUT us float8 DEFAULT NULL) LANGUAGE plpgsql AS $$
DECLARE
  costs float8[] := '{}';
  tokens uuid[];
  since float8;
BEGIN
  FOR i IN -4 .. rounds LOOP
    since := bench.cpu_clock();
    EXECUTE format('SELECT array_agg(token) FROM gen_durable.%I(''bench'', ''w'', %s)', function, batch) INTO tokens;
    COMMIT;
    IF i > 0 THEN                       -- the first rounds only warm the caches
      costs := costs || (bench.cpu_clock() - since) / cardinality(tokens);
    END IF;
    PERFORM gen_durable.complete(t, '{"outcome": "next", "step": "a"}') FROM unnest(tokens) t;
    COMMIT;
  END LOOP;
  SELECT avg(c) INTO us FROM unnest(costs) c;
END $$;

-- Microseconds a row of picks that are taken back, so that each finds the same state.
CREATE PROCEDURE bench.claim_cost(batch int, rounds int, INOUT us float8 DEFAULT NULL) LANGUAGE plpgsql AS $$
DECLARE
  costs float8[] := '{}';
  since float8;
  n int;
BEGIN
  FOR i IN -4 .. rounds LOOP
    since := bench.cpu_clock();
    SELECT count(*) INTO n FROM gen_durable.pick('bench', 'w', batch);
    IF n <> batch THEN
      RAISE EXCEPTION 'pick gave % rows of %', n, batch;
    END IF;
    IF i > 0 THEN                       -- the first rounds only warm the caches
      costs := costs || (bench.cpu_clock() - since) / n;
    END IF;
    ROLLBACK;
  END LOOP;
  SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY c) INTO us FROM unnest(costs) c;
END $$;

-- The same of picks that stay, each a transaction: the median, and the mean, which has what is done once in it.
CREATE PROCEDURE bench.claim_cost_kept(batch int, rounds int, INOUT us float8 DEFAULT NULL, INOUT mean_us float8 DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
  costs float8[] := '{}';
  since float8;
  spent float8;
  total float8 := 0;
  claimed int := 0;
  n int;
BEGIN
  FOR i IN 1 .. rounds LOOP
    since := bench.cpu_clock();
    SELECT count(*) INTO n FROM gen_durable.pick('bench', 'w', batch, '1 h');
    spent := bench.cpu_clock() - since;
    total := total + spent;
    claimed := claimed + n;
    costs := costs || spent / greatest(n, 1);
    COMMIT;
  END LOOP;
  SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY c) INTO us FROM unnest(costs) c;
  mean_us := total / claimed;
END $$;

-- Milliseconds of one statement with its commit.
CREATE PROCEDURE bench.timed(statement text, INOUT ms float8 DEFAULT NULL) LANGUAGE plpgsql AS $$
DECLARE
  since timestamptz := clock_timestamp();
BEGIN
  EXECUTE statement;
  COMMIT;
  ms := extract(epoch FROM clock_timestamp() - since) * 1e3;
END $$;

-- A worker that ends every instance, until it finds none.  A row that a commit makes runnable is found by
-- the worker that committed, so none is left behind when all have ended.
CREATE PROCEDURE bench.work(batch int) LANGUAGE plpgsql AS $$
DECLARE
  outcomes jsonb;
BEGIN
  LOOP
    SELECT jsonb_agg(jsonb_build_object('token', j.token) ||
             gen_durable.done())
      INTO outcomes FROM gen_durable.pick('bench', 'w', batch) j;
    EXIT WHEN outcomes IS NULL;
    COMMIT;
    PERFORM FROM gen_durable.complete_many(outcomes);
    COMMIT;
  END LOOP;
END $$;

CREATE TABLE bench.children (children jsonb);
CREATE TABLE bench.entries (entries text);

-- The first step of the parent: the fan-out.
CREATE PROCEDURE bench.fan_out() LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM gen_durable.pick('bench', 'w', 1) j,
    gen_durable.complete_many(jsonb_build_array(jsonb_build_object('token', j.token) ||
      gen_durable.schedule_children('join', (SELECT children FROM bench.children))));
END $$;

-- Claims all that can be claimed, for longer than any run takes.
CREATE PROCEDURE bench.pick_all() LANGUAGE plpgsql AS $$
DECLARE
  deadline timestamptz := clock_timestamp() + interval '60 s';
BEGIN
  WHILE EXISTS (SELECT FROM gen_durable.instances WHERE status = 'runnable' AND blocked_on IS NULL) LOOP
    IF clock_timestamp() > deadline THEN
      RAISE EXCEPTION 'runnable rows are left that no pick claims or blocks';
    END IF;
    PERFORM FROM gen_durable.pick('bench', 'w', 100, '1 day');
    COMMIT;
  END LOOP;
END $$;
