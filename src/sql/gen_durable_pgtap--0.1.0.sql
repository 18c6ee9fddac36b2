\echo Use "CREATE EXTENSION gen_durable_pgtap" to load this file. \quit

-- Assertions about instances, for tests that run machines with drain() in a transaction of their own. They read the
-- engine's tables, so the tests are run by a superuser or at the level monitor or admin.

CREATE FUNCTION durable_status_is(id bigint, status gen_durable.durable_status, description text DEFAULT NULL)
RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT is((SELECT i.status::text FROM gen_durable.instances AS i WHERE i.id = durable_status_is.id), $2::text,
            coalesce($3, format('instance %s is %s', $1, $2)))
$$;
COMMENT ON FUNCTION durable_status_is IS 'Tests the status of an instance.';

CREATE FUNCTION durable_done(id bigint, result jsonb DEFAULT NULL, description text DEFAULT NULL)
RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT is((SELECT i.status::text || CASE WHEN $2 IS NULL THEN '' ELSE ' ' || coalesce(i.result::text, '') END
             FROM gen_durable.instances AS i WHERE i.id = durable_done.id),
            'done' || coalesce(' ' || $2::text, ''), coalesce($3, format('instance %s is done', $1)))
$$;
COMMENT ON FUNCTION durable_done IS 'Tests that an instance is done, and with which result if one is given.';

CREATE FUNCTION durable_failed(id bigint, pattern text DEFAULT NULL, description text DEFAULT NULL)
RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT ok(coalesce((SELECT i.status = 'failed' AND ($2 IS NULL OR i.last_error ~ $2)
                      FROM gen_durable.instances AS i WHERE i.id = durable_failed.id), false),
            coalesce($3, format('instance %s has failed', $1) || CASE WHEN $2 IS NULL THEN '' ELSE format(' with %L', $2) END))
$$;
COMMENT ON FUNCTION durable_failed IS 'Tests that an instance has failed, with an error that the pattern matches if one is given.';

CREATE FUNCTION durable_awaiting(id bigint, names text[] DEFAULT NULL, description text DEFAULT NULL)
RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT ok(coalesce((SELECT i.status = 'awaiting_signal' AND ($2 IS NULL OR (i.awaits @> $2 AND i.awaits <@ $2))
                      FROM gen_durable.instances AS i WHERE i.id = durable_awaiting.id), false),
            coalesce($3, format('instance %s awaits ', $1) || coalesce(array_to_string($2, ', '), 'a signal')))
$$;
COMMENT ON FUNCTION durable_awaiting IS 'Tests that an instance is parked for a signal, for just these names if some are given.';

-- All armed deadlines, however much time they have left: the clock is set forward for the call.
CREATE FUNCTION durable_fire_timeouts()
RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  was text := current_setting('gen_durable.clock_offset', true);
  fired bigint;
BEGIN
  PERFORM set_config('gen_durable.clock_offset', (1000 + coalesce((SELECT extract(epoch FROM max(await_deadline) - clock_timestamp())
    FROM gen_durable.instances WHERE status = 'awaiting_signal'), 0) * 1000)::text, true);
  fired := gen_durable.fire_timeouts(1000000);
  PERFORM set_config('gen_durable.clock_offset', coalesce(was, '0'), true);
  RETURN fired;
END $$;
COMMENT ON FUNCTION durable_fire_timeouts IS 'Wakes all instances that are parked with a timeout, however much of it is left (GD-401); returns how many. For a superuser.';

-- pgTAP's functions call each other without a schema.
DO $paths$
DECLARE
  pgtap name := (SELECT n.nspname FROM pg_catalog.pg_extension AS e JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'pgtap');
  function text;
BEGIN
  FOREACH function IN ARRAY ARRAY['durable_status_is', 'durable_done', 'durable_failed', 'durable_awaiting', 'durable_fire_timeouts'] LOOP
    EXECUTE pg_catalog.format('ALTER FUNCTION @extschema@.%I SET search_path = pg_catalog, %I, pg_temp', function, pgtap);
  END LOOP;
END
$paths$;
