-- Roles that see the runs of one tenant.

CREATE FUNCTION gen_durable.run_visible(tenant text)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_run_visible';
COMMENT ON FUNCTION gen_durable.run_visible IS
  'May the current role see the runs of this tenant, or with NULL those of none? For row-level security.';

CREATE FUNCTION gen_durable.run_all_tenants()
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_run_all_tenants';
COMMENT ON FUNCTION gen_durable.run_all_tenants IS
  'Does the current role see the runs of all tenants? It needs the right to execute this for that, which every level gives and grant_tenant does not.';

CREATE FUNCTION gen_durable.run_tenants_changed()
RETURNS trigger LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'gd_run_tenants_changed';
COMMENT ON FUNCTION gen_durable.run_tenants_changed IS 'Has every session look anew at which roles are confined to which tenants.';

CREATE TRIGGER run_tenants_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON gen_durable.run_tenants
  FOR EACH STATEMENT EXECUTE FUNCTION gen_durable.run_tenants_changed();
COMMENT ON TRIGGER run_tenants_changed ON gen_durable.run_tenants IS 'Sessions keep the answer until the table changes.';

-- Every claim would write an entry of this index, which is a seventh of its work, so it is there only where a role is
-- confined to a tenant, and has no runs without one. A trigger makes it, since a restored dump brings the grants and not it.
CREATE FUNCTION gen_durable.run_tenants_index()
RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $index$
BEGIN
  IF to_regclass('gen_durable.runs_tenant_claimed') IS NULL THEN
    CREATE INDEX runs_tenant_claimed ON gen_durable.runs (scope_key, claimed_at, id) WITH (deduplicate_items = off)
      WHERE claimed_at IS NOT NULL AND tenant_id IS NOT NULL;
    COMMENT ON INDEX gen_durable.runs_tenant_claimed IS 'Claims of each tenant by age, for claims of roles that are confined to some.';
  END IF;
  RETURN NULL;
END
$index$;
COMMENT ON FUNCTION gen_durable.run_tenants_index IS 'Makes the index that claims of confined roles go by, with the first grant of a tenant.';

CREATE TRIGGER run_tenants_index AFTER INSERT ON gen_durable.run_tenants
  FOR EACH STATEMENT EXECUTE FUNCTION gen_durable.run_tenants_index();
COMMENT ON TRIGGER run_tenants_index ON gen_durable.run_tenants IS 'What others have claimed must not slow a confined role down.';

-- For monitors: the functions do not ask it, since they see to the same by themselves.
ALTER TABLE gen_durable.runs ENABLE ROW LEVEL SECURITY;
CREATE POLICY runs_tenant ON gen_durable.runs FOR SELECT USING (gen_durable.run_visible(tenant_id));
COMMENT ON POLICY runs_tenant ON gen_durable.runs IS 'A role that is confined to tenants sees their runs only.';
ALTER TABLE gen_durable.run_listings ENABLE ROW LEVEL SECURITY;
CREATE POLICY run_listings_tenant ON gen_durable.run_listings FOR SELECT USING (gen_durable.run_visible(nullif(scope_key, '')));
COMMENT ON POLICY run_listings_tenant ON gen_durable.run_listings IS 'As that of the runs.';
ALTER TABLE gen_durable.run_tenants ENABLE ROW LEVEL SECURITY;
CREATE POLICY run_tenants_role ON gen_durable.run_tenants FOR SELECT USING (gen_durable.run_visible(tenant));
COMMENT ON POLICY run_tenants_role ON gen_durable.run_tenants IS 'A role that is confined to tenants learns of no others.';

CREATE FUNCTION gen_durable.grant_tenant(role regrole, tenant text)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $grant$
DECLARE
  routine text;
BEGIN
  IF role IS NULL OR tenant IS NULL THEN
    RAISE EXCEPTION 'role and tenant must not be NULL' USING ERRCODE = 'null_value_not_allowed';
  END IF;
  IF octet_length(tenant) NOT BETWEEN 1 AND 255 THEN
    RAISE EXCEPTION 'tenant "%" is % bytes long, 1 to 255 are allowed', left(tenant, 63), octet_length(tenant)
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF NOT EXISTS (SELECT FROM pg_roles AS r WHERE r.oid = role) THEN
    RAISE EXCEPTION 'role % does not exist', role::oid USING ERRCODE = 'undefined_object';
  END IF;
  -- Two who grant at once would meet on the same rows of the catalogs, which raises: one waits for the other.
  LOCK TABLE gen_durable.run_tenants IN SHARE ROW EXCLUSIVE MODE;
  INSERT INTO gen_durable.run_tenants AS t (role, tenant)
    SELECT r.rolname, grant_tenant.tenant FROM pg_roles AS r WHERE r.oid = grant_tenant.role
    ON CONFLICT DO NOTHING;
  EXECUTE format('GRANT USAGE ON SCHEMA gen_durable TO %s', role);
  FOR routine IN
    SELECT format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid))
    FROM pg_depend AS d
    JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'gen_durable'
    JOIN pg_proc AS p ON p.oid = d.objid
    JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
      AND starts_with(p.proname, 'run_') AND p.proname NOT IN ('run_all_tenants', 'run_counters') AND p.prorettype <> 'trigger'::regtype
  LOOP
    EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO %s', routine, role);
  END LOOP;
END
$grant$;
COMMENT ON FUNCTION gen_durable.grant_tenant IS
  'Gives a role the run store''s functions and confines it, and its members, to the runs of a tenant; several grants add up.';
