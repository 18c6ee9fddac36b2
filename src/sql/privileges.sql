-- Who may do what: nothing for PUBLIC, four levels by grant_usage.

CREATE FUNCTION gen_durable.grant_usage(role regrole, level text)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $grant$
DECLARE
  client CONSTANT text[] := ARRAY['insert', 'insert_all', 'signal', 'signal_key', 'find', 'await',
    'run_insert', 'run_fetch', 'run_inspect', 'run_list', 'run_lock', 'run_mutate', 'run_commit_unclaimed', 'run_all_tenants'];
  worker CONSTANT text[] := client || ARRAY['pick', 'take', 'wait', 'channel', 'complete', 'complete_many', 'complete_and_take',
    'commit_and_take', 'heartbeat', 'release', 'children', 'inbox',
    'next_step', 'retry', 'await_signal', 'schedule_children', 'done', 'stop', 'fail',
    'run_claim_due', 'run_refresh_claim', 'run_release_claim', 'run_abandon_claim', 'run_commit', 'run_wait'];
  routines text[];
  reads boolean := level IN ('monitor', 'admin');
  object text;
BEGIN
  IF role IS NULL OR level IS NULL THEN
    RAISE EXCEPTION 'role and level must not be NULL' USING ERRCODE = 'null_value_not_allowed';
  END IF;
  IF NOT EXISTS (SELECT FROM pg_roles AS r WHERE r.oid = role) THEN
    RAISE EXCEPTION 'role % does not exist', role::oid USING ERRCODE = 'undefined_object';
  END IF;
  routines := CASE level
    WHEN 'client' THEN client
    WHEN 'worker' THEN worker
    WHEN 'monitor' THEN ARRAY['why', 'limit_counts', 'dispatched', 'queue_counters', 'queue_heads', 'processes', 'waiters', 'run_visible', 'run_all_tenants',
                            'run_counters', 'run_heads']
    WHEN 'admin' THEN (SELECT array_agg(p.proname::text) FROM pg_proc AS p
                       WHERE p.pronamespace = 'gen_durable'::regnamespace AND p.prorettype <> 'trigger'::regtype)
  END;
  IF routines IS NULL THEN
    RAISE EXCEPTION 'level "%" must be client, worker, monitor or admin', left(level, 63)
      USING ERRCODE = 'invalid_parameter_value';
  END IF;

  -- Two who grant at once would meet on the same rows of the catalogs, which raises: one waits for the other.
  LOCK TABLE gen_durable.run_tenants IN SHARE ROW EXCLUSIVE MODE;
  -- Only what belongs to the extension: the schema may hold more.
  EXECUTE format('GRANT USAGE ON SCHEMA gen_durable TO %s', role);
  FOR object IN
    SELECT format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid))
    FROM pg_depend AS d
    JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'gen_durable'
    JOIN pg_proc AS p ON p.oid = d.objid
    JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
      AND p.proname = ANY (routines)
  LOOP
    EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO %s', object, role);
  END LOOP;
  FOR object IN
    SELECT format('%I.%I', n.nspname, c.relname)
    FROM pg_depend AS d
    JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'gen_durable'
    JOIN pg_class AS c ON c.oid = d.objid AND c.relkind IN ('r', 'v')
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE reads AND d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
  LOOP
    EXECUTE format('GRANT SELECT %s ON TABLE %s TO %s',
      -- The tokens of runs are nobody's but the claimants'.
      CASE object WHEN 'gen_durable.runs' THEN (
        SELECT format('(%s)', string_agg(quote_ident(a.attname), ', ')) FROM pg_attribute AS a
        WHERE a.attrelid = 'gen_durable.runs'::regclass AND a.attnum > 0 AND NOT a.attisdropped
          AND a.attname <> 'claim_token') END,
      object, role);
  END LOOP;
END
$grant$;
COMMENT ON FUNCTION gen_durable.grant_usage IS
  'Grants a role one level: client (insert to await), worker (the client''s, and what workers call), monitor (SELECT and why) or admin (all). No level can write a table directly.';

REVOKE ALL ON ALL ROUTINES IN SCHEMA gen_durable FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA gen_durable FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA gen_durable FROM PUBLIC;

-- Dumped with the database.
SELECT pg_catalog.pg_extension_config_dump('gen_durable.instances', '');
SELECT pg_catalog.pg_extension_config_dump('gen_durable.instances_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('gen_durable.signals', '');
SELECT pg_catalog.pg_extension_config_dump('gen_durable.signals_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('gen_durable.fsms', '');
SELECT pg_catalog.pg_extension_config_dump('gen_durable.queues', '');
SELECT pg_catalog.pg_extension_config_dump('gen_durable.bucket_configs', '');
SELECT pg_catalog.pg_extension_config_dump('gen_durable.buckets', '');
SELECT pg_catalog.pg_extension_config_dump('gen_durable.slot_credits', '');
SELECT pg_catalog.pg_extension_config_dump('gen_durable.slot_holders', '');
SELECT pg_catalog.pg_extension_config_dump('gen_durable.slot_holders_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('gen_durable.runs', '');
SELECT pg_catalog.pg_extension_config_dump('gen_durable.runs_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('gen_durable.run_tenants', '');
