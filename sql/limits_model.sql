-- Random batches against a small model of what limits are: what is granted, what is left, what comes back.
-- GD-092, GD-110, GD-112, GD-115, GD-116, GD-118, GD-119, GD-120, GD-121, GD-124, GD-128, GD-135, GD-142, D-3, D-14
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();

-- One run: keys of two gates and two rate limits of random sizes and shards, batches of random entries, slots given back
-- at random. The model knows a total for each key and nothing of shards. Returns what went wrong first, or how much was
-- tried when all was well.
CREATE FUNCTION pg_temp.run(seed float8, batches int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  left_of jsonb := '{}';              -- slots or tokens by "kind key"
  size jsonb := '{}';
  entries jsonb;
  entry jsonb;
  stopped jsonb;
  expected boolean[];
  got boolean[];
  gate text;
  rate text;
  weight numeric;
  fits boolean;
  held bigint[] := '{}';
  back bigint[];
  granted int := 0;
  refused int := 0;
  wrong text;
BEGIN
  PERFORM setseed(seed);
  CALL t.fresh();
  FOR i IN 1 .. 2 LOOP
    size := size || jsonb_build_object('g' || i, 1 + floor(random() * 12), 'r' || i, 1 + floor(random() * 40) / 2);
    PERFORM gen_durable.set_concurrency_limit('g' || i, (size->>('g' || i))::int, 1 + floor(random() * (size->>('g' || i))::int)::int);
    PERFORM gen_durable.set_rate_limit('r' || i, 1, '1000 years', (size->>('r' || i))::float8, 1 + floor(random() * 5)::int);
  END LOOP;
  FOR batch IN 1 .. batches LOOP
    entries := '[]';
    expected := '{}';
    stopped := '{}';
    FOR n IN 1 .. 1 + floor(random() * 10)::int LOOP
      gate := CASE WHEN random() < 0.6 THEN 'g' || 1 + floor(random() * 2) || ':' || floor(random() * 2) END;
      rate := CASE WHEN random() < 0.5 THEN 'r' || 1 + floor(random() * 2) || ':' || floor(random() * 3) END;
      weight := least(1 + floor(random() * 6), floor((size->>split_part(rate, ':', 1))::float8 * 2)) / 2;
      entry := jsonb_build_object('id', n);
      IF gate IS NOT NULL THEN
        entry := entry || jsonb_build_object('conc', gate);
        IF NOT left_of ? gate THEN left_of := left_of || jsonb_build_object(gate, size->split_part(gate, ':', 1)); END IF;
      END IF;
      IF rate IS NOT NULL THEN
        entry := entry || jsonb_build_object('rate', jsonb_build_object('key', rate, 'weight', weight));
        IF NOT left_of ? rate THEN left_of := left_of || jsonb_build_object(rate, size->split_part(rate, ':', 1)); END IF;
      END IF;
      entries := entries || entry;

      fits := true;
      IF gate IS NOT NULL AND (left_of->>gate)::numeric < 1 THEN
        fits := false;
      ELSIF rate IS NOT NULL AND (stopped ? rate OR (left_of->>rate)::numeric < weight) THEN
        fits := false;
        stopped := stopped || jsonb_build_object(rate, true);
      END IF;
      expected := expected || fits;
      IF fits AND gate IS NOT NULL THEN
        left_of := left_of || jsonb_build_object(gate, (left_of->>gate)::numeric - 1);
      END IF;
      IF fits AND rate IS NOT NULL THEN
        left_of := left_of || jsonb_build_object(rate, (left_of->>rate)::numeric - weight);
      END IF;
    END LOOP;

    SELECT array_agg(a.admitted ORDER BY a.id), held || coalesce(array_agg((a.slot->>'holder')::bigint) FILTER (WHERE a.slot IS NOT NULL), '{}')
      INTO got, held FROM gen_durable.admit(entries) a;
    IF got <> expected THEN
      RETURN format('batch %s: %s, expected %s, got %s', batch, entries, expected, got);
    END IF;
    granted := granted + cardinality(array_positions(got, true));
    refused := refused + cardinality(array_positions(got, false));

    SELECT coalesce(array_agg(h), '{}') INTO back FROM unnest(held) h WHERE random() < 0.3;
    SELECT left_of || coalesce(jsonb_object_agg(s.key, (left_of->>s.key)::numeric + s.n), '{}') INTO left_of
      FROM (SELECT key, count(*) AS n FROM gen_durable.slot_holders WHERE id = ANY (back) GROUP BY key) s;
    PERFORM gen_durable.credit((SELECT coalesce(jsonb_agg(jsonb_build_object('key', s.key, 'shard', s.shard, 'holder', s.id)), '[]')
                                FROM gen_durable.slot_holders s WHERE s.id = ANY (back)));
    SELECT coalesce(array_agg(h), '{}') INTO held FROM unnest(held) h WHERE h <> ALL (back);
    IF batch % 10 = 0 THEN
      PERFORM gen_durable.reconcile();
    END IF;

    SELECT string_agg(format('%s has %s, expected %s', k.key, k.available, m.value), '; ') INTO wrong
      FROM jsonb_each_text(left_of) m JOIN gen_durable.limit_keys k ON k.key = m.key WHERE abs(k.available - m.value::float8) > 1e-6;
    SELECT concat_ws('; ', wrong, string_agg(format('shard %s of %s has %s of %s', shard, key, available, capacity), '; ')) INTO wrong
      FROM gen_durable.buckets WHERE available < 0 OR available > capacity OR debt <> 0 OR kind = 'conc' AND available <> floor(available);
    IF wrong <> '' THEN
      RETURN format('after batch %s, %s: %s', batch, entries, wrong);
    END IF;
  END LOOP;
  RETURN CASE WHEN granted > batches / 4 AND refused > batches / 4 THEN 'well' ELSE format('%s granted, %s refused', granted, refused) END;
END $$;
-- credits take effect at once here, since a run is one transaction
SET gen_durable.defer_effects = off;
SELECT seed, pg_temp.run(seed / 20.0, 40) FROM generate_series(0, 11) seed;
CALL fresh();
