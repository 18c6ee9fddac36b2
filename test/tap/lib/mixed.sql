-- What the mixed load does: each function makes one call of the engine on rows chosen at random among few.

CREATE SCHEMA mixed;
CREATE TABLE mixed.trouble (what text);
CREATE UNLOGGED TABLE mixed.counts (kind text, n bigint);

CREATE FUNCTION mixed.one(VARIADIC choices text[]) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT choices[1 + floor(random() * array_length(choices, 1))::int];
$$;

-- An instance in one of these states, or NULL.
CREATE FUNCTION mixed.some(VARIADIC states gen_durable.durable_status[]) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT i.id FROM gen_durable.instances i WHERE i.status = ANY (states) ORDER BY random() LIMIT 1;
$$;

CREATE FUNCTION mixed.insert() RETURNS boolean LANGUAGE sql VOLATILE AS $$
  SELECT created FROM gen_durable.insert('m', queue => 'load', priority => floor(random() * 3)::int,
    concurrency_key => mixed.one('a', 'b', 'c', NULL, NULL), correlation_key => mixed.one('k1', 'k2', 'k3', 'k4', NULL, NULL, NULL));
$$;

CREATE FUNCTION mixed.insert_all() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT count(*) FROM gen_durable.insert_all('m', (SELECT jsonb_agg(jsonb_build_object('queue', 'load', 'correlation_key', 'k' || n) ORDER BY random())
    FROM generate_series(1, 6) n));
$$;

-- Any outcome; with keyed, children may bring correlation keys of their own.
CREATE FUNCTION mixed.outcome(keyed boolean) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
  SELECT CASE floor(random() * 12)::int
    WHEN 0 THEN gen_durable.next_step('two')
    WHEN 1 THEN gen_durable.next_step('three', concurrency_key => mixed.one('a', 'b', 'c', 'd'))
    WHEN 2 THEN gen_durable.next_step('four', release_key => true)
    WHEN 3 THEN gen_durable.retry('10 ms')
    WHEN 4 THEN gen_durable.await_signal(ARRAY['go'], 'woke')
    WHEN 5 THEN gen_durable.await_signal(ARRAY['go', 'stop'], 'woke', timeout => '50 ms')
    WHEN 6 THEN gen_durable.schedule_children('joined', (SELECT jsonb_agg(jsonb_build_object('fsm', 'kid', 'queue', 'load',
                  'correlation_key', CASE WHEN keyed AND n = 1 THEN mixed.one('k1', 'k2') END)) FROM generate_series(1, 3) n))
    WHEN 7 THEN gen_durable.stop('no')
    WHEN 8 THEN gen_durable.fail('no')
    ELSE gen_durable.done()
  END;
$$;

CREATE FUNCTION mixed.claim(worker text, size int) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT count(*) FROM gen_durable.pick('load', worker, size, '200 ms');
$$;

-- Outcomes for everything that a worker holds. What each claim was handed is noted, for rig.broken().
CREATE FUNCTION mixed.commit(worker text, keyed boolean DEFAULT true) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  INSERT INTO rig.handed SELECT i.id, i.handed FROM gen_durable.instances i WHERE i.locked_by = worker AND i.handed IS NOT NULL;
  SELECT count(*) FROM gen_durable.complete_many(coalesce((SELECT jsonb_agg(mixed.outcome(keyed) || jsonb_build_object('token', i.token))
    FROM gen_durable.instances i WHERE i.locked_by = worker), '[]'));
$$;

CREATE FUNCTION mixed.signal() RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT gen_durable.signal(mixed.some('runnable', 'awaiting_signal', 'executing'), mixed.one('go', 'stop'), dedup_key => mixed.one('d1', 'd2', NULL))
    WHERE mixed.some('awaiting_signal') IS NOT NULL;
$$;

CREATE FUNCTION mixed.heartbeat() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT count(*) FROM gen_durable.heartbeat(ARRAY(SELECT i.token FROM gen_durable.instances i WHERE i.status = 'executing' ORDER BY random() LIMIT 10), '300 ms');
$$;

CREATE FUNCTION mixed.release() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT gen_durable.release(ARRAY(SELECT i.token FROM gen_durable.instances i WHERE i.status = 'executing' ORDER BY random() LIMIT 3));
$$;

-- A target may be gone or ended by the time the call meets it.
CREATE FUNCTION mixed.cancel() RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN gen_durable.cancel(mixed.some('runnable', 'executing', 'awaiting_signal', 'awaiting_children'),
    cascade => random() < 0.5, force => random() < 0.5);
EXCEPTION WHEN SQLSTATE 'GD002' OR SQLSTATE 'GD003' OR null_value_not_allowed THEN
  RETURN SQLSTATE;
END $$;

CREATE FUNCTION mixed.revive() RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM gen_durable.revive(mixed.some('failed', 'cancelled'));
  RETURN 'ok';
EXCEPTION WHEN SQLSTATE 'GD002' OR SQLSTATE 'GD003' OR object_not_in_prerequisite_state OR null_value_not_allowed THEN
  RETURN SQLSTATE;
END $$;

CREATE FUNCTION mixed.watch() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  INSERT INTO mixed.counts SELECT status::text, count(*) FROM gen_durable.instances GROUP BY 1;
  INSERT INTO mixed.trouble SELECT what || ' ' || id FROM rig.broken();
  SELECT count(*) FROM mixed.trouble;
$$;
