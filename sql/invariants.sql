-- Random calls in random transactions, with what must hold after each commit; at the end everything can be brought to its end.
-- GD-001, GD-052, GD-063, GD-151, GD-152, GD-154, GD-170, GD-180, GD-211, GD-215, GD-218, GD-225, GD-261, D-1, D-2, D-3, D-6, D-7, D-8, D-9, D-15, D-26
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();
CREATE FUNCTION pg_temp.one(VARIADIC choices text[]) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT choices[1 + floor(random() * cardinality(choices))::int]
$$;
-- A random row in one of the statuses.
CREATE FUNCTION pg_temp.some(VARIADIC statuses durable_status[]) RETURNS instances LANGUAGE sql VOLATILE AS $$
  SELECT i FROM gen_durable.instances i WHERE status = ANY (statuses) ORDER BY random() LIMIT 1
$$;
CREATE FUNCTION pg_temp.spec() RETURNS jsonb LANGUAGE sql VOLATILE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object('queue', pg_temp.one('p', 'q'), 'priority', floor(random() * 3), 'fsm_version', 1 + floor(random() * 2),
    'concurrency_key', pg_temp.one('a', 'b', 'c', NULL, NULL), 'correlation_key', pg_temp.one('x', 'y', 'z', NULL, NULL, NULL), 'schedule_in', pg_temp.one('5 s', NULL, NULL),
    'correlation_scope', pg_temp.one('["runnable", "executing", "awaiting_signal", "awaiting_children"]', '["runnable"]', '["executing"]', '["awaiting_signal", "done", "cancelled"]')::jsonb))
$$;
CREATE FUNCTION pg_temp.specs(most int) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(jsonb_agg(pg_temp.spec() || '{"fsm": "m"}'), '[]') FROM generate_series(1, floor(random() * (most + 1))::int)
$$;
CREATE FUNCTION pg_temp.outcome() RETURNS jsonb LANGUAGE sql VOLATILE AS $$
  SELECT CASE floor(random() * 10)::int
    WHEN 0 THEN next_step('s', concurrency_key => pg_temp.one('a', 'b', 'c')) WHEN 1 THEN next_step('s', release_key => true) WHEN 2 THEN next_step('s', delay => '3 s')
    WHEN 3 THEN retry(pg_temp.one('0', '3 s')::interval) WHEN 4 THEN await_signal('{go,stop}', 's', timeout => pg_temp.one('5 s', '1 h')::interval)
    WHEN 5 THEN schedule_children('s', pg_temp.specs(3)) WHEN 6 THEN schedule_children('s', pg_temp.specs(3)) WHEN 7 THEN done() WHEN 8 THEN stop('x') ELSE fail('x') END
$$;
CREATE FUNCTION pg_temp.act() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  i gen_durable.instances;
  dice int := floor(random() * 32);
BEGIN
  CASE
    WHEN dice < 4 THEN PERFORM gen_durable.insert_all('m', jsonb_build_array(pg_temp.spec(), pg_temp.spec()));
    WHEN dice < 11 THEN PERFORM gen_durable.pick(pg_temp.one('p', 'q'), pg_temp.one('v', 'w'), 1 + floor(random() * 4)::int, '10 s');
    WHEN dice < 18 THEN
      i := pg_temp.some('executing');
      PERFORM gen_durable.complete(i.token, pg_temp.outcome()) WHERE i.token IS NOT NULL;
    WHEN dice < 21 THEN
      PERFORM gen_durable.complete_many((SELECT coalesce(jsonb_agg(pg_temp.outcome() || jsonb_build_object('token', coalesce(x.token, '00000000-0002-8000-8000-000000000000'))), '[]')
        FROM (SELECT token FROM gen_durable.instances WHERE random() < 0.3 ORDER BY random() LIMIT 5) x));
    WHEN dice < 23 THEN
      i := pg_temp.some('executing', 'awaiting_signal', 'runnable', 'awaiting_children');
      PERFORM gen_durable.signal(i.id, pg_temp.one('go', 'other'), dedup_key => pg_temp.one('1', '2', NULL)) WHERE i.id IS NOT NULL;
    WHEN dice < 24 THEN PERFORM gen_durable.signal_key(pg_temp.one('x', 'y', 'z'), 'go');
    WHEN dice < 25 THEN PERFORM gen_durable.release((SELECT coalesce(array_agg(token), '{}') FROM gen_durable.instances WHERE token IS NOT NULL AND random() < 0.3));
    WHEN dice < 26 THEN PERFORM gen_durable.reclaim(pg_temp.one('p', 'q'), 'v', '5 s'), gen_durable.heartbeat((SELECT coalesce(array_agg(token), '{}') FROM gen_durable.instances WHERE token IS NOT NULL AND random() < 0.5), '10 s');
    WHEN dice < 28 THEN
      i := pg_temp.some('executing', 'awaiting_signal', 'runnable', 'awaiting_children');
      PERFORM gen_durable.cancel(i.id, 'x', random() < 0.3, random() < 0.5) WHERE i.id IS NOT NULL;
    WHEN dice < 29 THEN
      i := pg_temp.some('failed', 'cancelled');
      PERFORM gen_durable.revive(i.id) WHERE i.id IS NOT NULL;
    WHEN dice < 30 THEN PERFORM set_config('gen_durable.clock_offset', (current_setting('gen_durable.clock_offset')::float8 + 4000)::text, false), gen_durable.reap(), gen_durable.fire_timeouts();
    WHEN dice < 31 THEN PERFORM gen_durable.gc('20 s', 3);
    ELSE PERFORM gen_durable.tick();
  END CASE;
END $$;
-- What must hold between transactions; NULL if all does.
CREATE FUNCTION pg_temp.broken() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RETURN (
    WITH i AS MATERIALIZED (SELECT *, status IN ('done', 'failed', 'cancelled') AS ended FROM gen_durable.instances),
      pending AS (SELECT parent_id AS id, joins_barrier, count(*) AS children FROM i WHERE NOT ended GROUP BY 1, 2),
      turn AS (SELECT DISTINCT concurrency_key, CASE WHEN status = 'runnable' THEN queue END AS queue
        FROM i WHERE status = 'executing' OR (status = 'runnable' AND blocked_on IS NULL)),
      signalled AS (SELECT DISTINCT target_id FROM gen_durable.signals)
    SELECT string_agg(what || ': ' || i.id || ' ' || i.status, ', ')
    FROM i
    LEFT JOIN pending ON pending.id = i.id AND pending.joins_barrier = i.barrier
    LEFT JOIN signalled ON signalled.target_id = i.id
    LEFT JOIN i parent ON parent.id = i.parent_id
    LEFT JOIN turn held ON held.concurrency_key = i.concurrency_key AND held.queue IS NULL
    LEFT JOIN turn given ON given.concurrency_key = i.concurrency_key AND given.queue = i.queue
    CROSS JOIN LATERAL (VALUES
      ('claim', (i.status = 'executing') = (i.token IS NOT NULL) AND (i.token IS NULL) = (i.locked_by IS NULL) AND (i.token IS NULL) = (i.lease_expires_at IS NULL)),
      ('cancellation', i.status = 'executing' OR i.cancel_requested_at IS NULL),
      ('end', i.ended = (i.finished_at IS NOT NULL)),
      ('blocked', i.blocked_on IS NULL OR (i.status = 'runnable' AND i.blocked_on = 'conc:' || i.concurrency_key)),
      ('turn', i.blocked_on IS NULL OR held.concurrency_key IS NOT NULL OR given.concurrency_key IS NOT NULL),
      ('correlation', i.correlation_guard IS NULL OR (i.correlation_guard = i.correlation_key AND i.status = ANY (i.correlation_scope))),
      ('pending', i.status <> 'awaiting_children' OR (i.children_pending > 0 AND i.children_pending = pending.children)),
      ('counted', i.joins_barrier = 0 OR NOT i.ended),
      ('signals', NOT i.ended OR signalled.target_id IS NULL),
      ('parent', i.parent_id IS NULL OR parent.id IS NOT NULL)) v (what, holds)
    WHERE holds IS NOT TRUE);
END $$;
CREATE PROCEDURE pg_temp.play(moves int) LANGUAGE plpgsql AS $$
DECLARE
  wrong text;
BEGIN
  FOR n IN 1..moves LOOP
    BEGIN
      PERFORM pg_temp.act();
      IF random() < 0.2 THEN
        BEGIN
          PERFORM pg_temp.act();
          RAISE division_by_zero;
        EXCEPTION WHEN division_by_zero THEN
          PERFORM pg_temp.act();
        END;
      END IF;
      IF random() < 0.1 THEN
        RAISE division_by_zero;
      END IF;
    EXCEPTION WHEN division_by_zero OR SQLSTATE 'GD001' THEN
      NULL;
    END;
    IF random() < 0.05 THEN
      ROLLBACK;
    ELSIF random() < 0.4 THEN
      COMMIT;
      wrong := pg_temp.broken();
      IF wrong IS NOT NULL THEN
        RAISE 'after % moves: %', n, wrong;
      END IF;
    END IF;
  END LOOP;
END $$;
SELECT setseed(0.25);
CALL pg_temp.play(1500);
-- It was worth something: every status, and keys that are waited for.
SELECT count(*) > 50, count(DISTINCT status), (SELECT count(*) > 0 FROM blocked_instances) FROM instances;
-- Everything comes to its end: parents once their children have, parked rows by their timeout, blocked rows in their turn.
CREATE PROCEDURE pg_temp.finish(rounds int) LANGUAGE plpgsql AS $$
BEGIN
  FOR n IN 1..rounds LOOP
    PERFORM set_config('gen_durable.clock_offset', (current_setting('gen_durable.clock_offset')::float8 + 4000000)::text, false);
    PERFORM gen_durable.fire_timeouts(100000), gen_durable.reap(100000);
    PERFORM gen_durable.complete(token, gen_durable.done()) FROM gen_durable.pick('p', 'w', 1000);
    COMMIT;
    PERFORM gen_durable.complete(token, gen_durable.done()) FROM gen_durable.pick('q', 'w', 1000);
    COMMIT;
    EXIT WHEN NOT EXISTS (SELECT FROM gen_durable.instances WHERE status NOT IN ('done', 'failed', 'cancelled'));
  END LOOP;
END $$;
CALL pg_temp.finish(1000);
SELECT fsm, status, queue, concurrency_key, blocked_on FROM instances WHERE status NOT IN ('done', 'failed', 'cancelled') ORDER BY id LIMIT 10;
SELECT pg_temp.broken();
SET gen_durable.clock_offset = 1e13;
SELECT gc('0', 100000) > 0, gc('0', 100000);
SELECT count(*), (SELECT count(*) FROM signals) FROM instances;
