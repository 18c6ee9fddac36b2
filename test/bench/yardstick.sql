-- The yardstick: the queue that a user would write, on a table of the same shape, indexes and settings as the engine's.
-- A CTE claims with FOR UPDATE SKIP LOCKED, an UPDATE by id completes; the statements are in the pgbench scripts.
-- floor.instances is a third table of that shape, for the program in floor/.

CREATE PROCEDURE pg_temp.same_shape(name text) LANGUAGE plpgsql AS $$
DECLARE
  options text;
BEGIN
  EXECUTE format('CREATE SCHEMA %I', name);
  EXECUTE format('CREATE TABLE %I.instances (LIKE gen_durable.instances INCLUDING ALL)', name);
  EXECUTE format('ALTER TABLE %1$I.instances ADD FOREIGN KEY (parent_id) REFERENCES %1$I.instances (id) ON DELETE SET NULL', name);
  SELECT string_agg(o, ', ') INTO options
    FROM pg_class c, unnest(c.reloptions) o WHERE c.oid = 'gen_durable.instances'::regclass;
  IF options IS NOT NULL THEN
    EXECUTE format('ALTER TABLE %I.instances SET (%s)', name, options);
  END IF;
END $$;

CALL pg_temp.same_shape('yardstick');
CALL pg_temp.same_shape('floor');

-- LIKE names the indexes anew; the floor program finds its three by the engine's names.
ALTER INDEX floor.instances_queue_priority_eligible_at_id_idx RENAME TO instances_pick;
ALTER INDEX floor.instances_lease_expires_at_idx RENAME TO instances_lease;

CREATE FUNCTION floor.claim(queue text, worker text, batch int) RETURNS bigint[]
  LANGUAGE c VOLATILE STRICT AS 'gen_durable_floor', 'floor_claim';
CREATE FUNCTION floor.next(ids bigint[], step text) RETURNS int
  LANGUAGE c VOLATILE STRICT AS 'gen_durable_floor', 'floor_next';
