-- The work of the ledger of limits: instances under gates, keys of size one, rate limits, and both; the state of each says
-- what it is under, so that the ledger need not ask the engine.

CREATE PROCEDURE rig.limits() LANGUAGE sql AS $$
  SELECT gen_durable.register_fsm('step', queue => 'picked', max_crashes => NULL);
  SELECT gen_durable.set_concurrency_limit('wide', 24, 4), gen_durable.set_concurrency_limit('small', 3), gen_durable.set_concurrency_limit('one', 1),
    gen_durable.set_rate_limit('fast', 400, '1 s', 60, 3), gen_durable.set_rate_limit('slow', 40, '1 s', 8);
  SELECT count(*) FROM generate_series(1, 40) n, LATERAL (VALUES
      ('picked', 'wide', NULL, 1), ('picked', 'wide', NULL, 1), ('fed', 'wide', NULL, 1), ('picked', 'small:a', NULL, 1), ('fed', 'small:a', NULL, 1),
      ('picked', 'small:b', NULL, 1), ('picked', 'one', NULL, 1), ('fed', 'one', NULL, 1), ('picked', NULL, 'fast:a', 1), ('picked', NULL, 'fast:b', 2.5),
      ('picked', NULL, 'slow', 1), ('picked', 'small:c', 'slow:c', 1.5), ('picked', 'key:' || n % 5, NULL, 1), ('fed', 'key:' || n % 5, NULL, 1),
      ('picked', NULL, NULL, 1)) c (queue, gate, rate, weight),
    LATERAL gen_durable.insert('step', jsonb_build_object('gate', gate, 'rate', rate, 'weight', weight), queue => queue, concurrency_key => gate,
      rate_limit => rate, weight => weight);
$$;

-- Microseconds: of an instant, and of now.
CREATE FUNCTION rig.us(at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT (extract(epoch FROM at) * 1000000)::bigint $$;
CREATE FUNCTION rig.us() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- What is next: the same again, at times under another key of the gate.
CREATE FUNCTION rig.again(state jsonb) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
  SELECT gen_durable.next_step('start', s.state, rate_limit => s.state ->> 'rate', weight => (s.state ->> 'weight')::float8, concurrency_key => s.state ->> 'gate')
  FROM (SELECT CASE WHEN state ->> 'gate' IN ('small:a', 'small:b') AND random() < 0.1
    THEN state || jsonb_build_object('gate', CASE WHEN random() < 0.5 THEN 'small:a' ELSE 'small:b' END) ELSE state END) s (state)
$$;
