-- The schema as the documents promise it (GD-003, GD-005..GD-009; D-1, D-3, D-7, D-9, D-10, D-11, D-15).
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\set ON_ERROR_STOP true
SET client_min_messages = warning;
BEGIN;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS gen_durable;
SELECT no_plan();

SELECT has_schema('gen_durable');
SELECT tables_are('gen_durable', ARRAY['instances', 'signals', 'fsms', 'queues', 'bucket_configs', 'buckets', 'slot_credits', 'slot_holders', 'runs', 'run_listings', 'run_tenants']);
SELECT views_are('gen_durable', ARRAY['blocked_instances', 'stats', 'run_stats', 'unkeyed_instances', 'limits', 'limit_keys', 'workers']);
SELECT enums_are('gen_durable', ARRAY['durable_status']);
SELECT enum_has_labels('gen_durable', 'durable_status',
  ARRAY['runnable', 'executing', 'awaiting_signal', 'awaiting_children', 'done', 'failed', 'cancelled'], 'the statuses, in order');

-- Columns: name, type, may be NULL, default.
CREATE FUNCTION pg_temp.columns_of(rel regclass) RETURNS TABLE (name text, type text, nullable boolean, filled text)
LANGUAGE sql STABLE AS $$
  SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull,
         coalesce(pg_get_expr(d.adbin, d.adrelid), CASE WHEN a.attidentity <> '' THEN 'identity' END)
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
   WHERE a.attrelid = rel AND a.attnum > 0 AND NOT a.attisdropped;
$$;
SET LOCAL search_path = pg_catalog, public;

SELECT set_eq($$SELECT * FROM pg_temp.columns_of('gen_durable.instances')$$, $$VALUES
  ('id', 'bigint', false, 'identity'),
  ('fsm', 'text', false, NULL),
  ('fsm_version', 'integer', false, '1'),
  ('step', 'text', false, NULL),
  ('status', 'gen_durable.durable_status', false, '''runnable''::gen_durable.durable_status'),
  ('state', 'jsonb', false, '''{}''::jsonb'),
  ('result', 'jsonb', true, NULL),
  ('awaits', 'text[]', true, NULL),
  ('queue', 'text', false, '''default''::text'),
  ('priority', 'smallint', false, '0'),
  ('concurrency_key', 'text', true, NULL),
  ('concurrency_shard', 'integer', true, NULL),
  ('eligible_at', 'timestamp with time zone', false, 'clock_timestamp()'),
  ('attempt', 'integer', false, '0'),
  ('crashes', 'integer', false, '0'),
  ('last_error', 'text', true, NULL),
  ('await_deadline', 'timestamp with time zone', true, NULL),
  ('rate_limit', 'text', true, NULL),
  ('weight', 'double precision', false, '1'),
  ('locked_by', 'text', true, NULL),
  ('lease_expires_at', 'timestamp with time zone', true, NULL),
  ('token', 'uuid', true, NULL),
  ('handed', 'bigint[]', true, NULL),
  ('handed_awaited', 'bigint[]', true, NULL),
  ('blocked_on', 'text', true, NULL),
  ('promoted_on', 'text', true, NULL),
  ('cancel_requested_at', 'timestamp with time zone', true, NULL),
  ('parent_id', 'bigint', true, NULL),
  ('barrier', 'integer', false, '0'),
  ('joins_barrier', 'integer', false, '0'),
  ('children_pending', 'integer', false, '0'),
  ('correlation_key', 'text', true, NULL),
  ('correlation_scope', 'gen_durable.durable_status[]', false, '''{}''::gen_durable.durable_status[]'),
  ('correlation_guard', 'text', true, NULL),
  ('refill_at', 'timestamp with time zone', true, NULL),
  ('inserted_at', 'timestamp with time zone', false, 'clock_timestamp()'),
  ('updated_at', 'timestamp with time zone', false, 'clock_timestamp()'),
  ('finished_at', 'timestamp with time zone', true, NULL)$$, 'instances has its columns');
SELECT set_eq($$SELECT * FROM pg_temp.columns_of('gen_durable.signals')$$, $$VALUES
  ('id', 'bigint', false, 'identity'),
  ('target_id', 'bigint', false, NULL),
  ('name', 'text', false, NULL),
  ('payload', 'jsonb', false, '''{}''::jsonb'),
  ('dedup_key', 'text', true, NULL),
  ('inserted_at', 'timestamp with time zone', false, 'clock_timestamp()'),
  ('consumed_at', 'timestamp with time zone', true, NULL)$$, 'signals has its columns');
SELECT set_eq($$SELECT * FROM pg_temp.columns_of('gen_durable.fsms')$$, $$VALUES
  ('name', 'text', false, NULL),
  ('version', 'integer', false, NULL),
  ('owner', 'text', false, NULL),
  ('queue', 'text', false, '''default''::text'),
  ('initial', 'text', false, '''start''::text'),
  ('max_attempts', 'integer', false, '20'),
  ('backoff_base', 'interval', false, '''00:00:01''::interval'),
  ('backoff_cap', 'interval', false, '''00:05:00''::interval'),
  ('max_crashes', 'integer', true, '10'),
  ('inline_execution', 'boolean', false, 'false'),
  ('handler', 'text', true, NULL),
  ('step_handlers', 'jsonb', false, '''{}''::jsonb'),
  ('on_error', 'text', true, NULL),
  ('statement_timeout', 'interval', true, NULL),
  ('registered_at', 'timestamp with time zone', false, 'clock_timestamp()')$$, 'fsms has its columns');
SELECT set_eq($$SELECT * FROM pg_temp.columns_of('gen_durable.queues')$$, $$VALUES
  ('name', 'text', false, NULL),
  ('executors', 'integer', true, NULL),
  ('concurrency', 'integer', true, NULL),
  ('prefetch', 'integer', true, NULL),
  ('min_demand', 'integer', true, NULL),
  ('lease_ttl', 'interval', true, NULL),
  ('paused_at', 'timestamp with time zone', true, NULL),
  ('paused_until', 'timestamp with time zone', true, NULL),
  ('pause_reason', 'text', true, NULL)$$, 'queues has its columns');
SELECT set_eq($$SELECT * FROM pg_temp.columns_of('gen_durable.bucket_configs')$$, $$VALUES
  ('kind', 'text', false, NULL),
  ('name', 'text', false, NULL),
  ('rate', 'double precision', true, NULL),
  ('capacity', 'double precision', false, NULL),
  ('shards', 'smallint', false, '1')$$, 'bucket_configs has its columns');
SELECT set_eq($$SELECT * FROM pg_temp.columns_of('gen_durable.buckets')$$, $$VALUES
  ('kind', 'text', false, NULL),
  ('key', 'text', false, NULL),
  ('shard', 'smallint', false, NULL),
  ('capacity', 'double precision', false, NULL),
  ('available', 'double precision', false, NULL),
  ('debt', 'double precision', false, '0'),
  ('last_refill', 'timestamp with time zone', true, NULL)$$, 'buckets has its columns');
SELECT set_eq($$SELECT * FROM pg_temp.columns_of('gen_durable.slot_credits')$$, $$VALUES
  ('key', 'text', false, NULL),
  ('shard', 'smallint', false, NULL),
  ('slots', 'integer', false, NULL)$$, 'slot_credits has its columns');
SELECT set_eq($$SELECT * FROM pg_temp.columns_of('gen_durable.slot_holders')$$, $$VALUES
  ('id', 'bigint', false, 'identity'),
  ('key', 'text', false, NULL),
  ('shard', 'integer', false, NULL),
  ('held_for', 'bigint', false, NULL),
  ('expires_at', 'timestamp with time zone', false, NULL)$$, 'slot_holders has its columns');
SELECT set_eq($$SELECT * FROM pg_temp.columns_of('gen_durable.runs')$$, $$VALUES
  ('id', 'bigint', false, 'identity'),
  ('started_at', 'timestamp with time zone', false, NULL),
  ('updated_at', 'timestamp with time zone', false, NULL),
  ('inserted_at', 'timestamp with time zone', false, 'clock_timestamp()'),
  ('checkpoint_seq', 'bigint', false, '1'),
  ('step', 'integer', false, '0'),
  ('claim_attempts', 'integer', false, '0'),
  ('claim_abandons', 'integer', false, '0'),
  ('due', 'boolean', false, 'true'),
  ('status', 'text', false, '''running''::text'),
  ('run_id', 'text', false, NULL),
  ('scope_key', 'text', false, 'COALESCE(tenant_id, ''''::text)'),
  ('wake_at', 'timestamp with time zone', true, NULL),
  ('claimed_at', 'timestamp with time zone', true, NULL),
  ('claim_token', 'uuid', true, NULL),
  ('poisoned_at', 'timestamp with time zone', true, NULL),
  ('finished_at', 'timestamp with time zone', true, NULL),
  ('tenant_id', 'text', true, NULL),
  ('graph_id', 'text', false, NULL),
  ('graph_hash', 'text', false, NULL),
  ('latest_checkpoint_type', 'text', false, '''run_initialized''::text'),
  ('poison_reason', 'text', true, NULL),
  ('state', 'bytea', false, NULL)$$, 'runs has its columns (DK-005)');
SELECT set_eq($$SELECT * FROM pg_temp.columns_of('gen_durable.run_listings')$$, $$VALUES
  ('started_at', 'timestamp with time zone', false, NULL),
  ('status', 'text', false, NULL),
  ('run_id', 'text', false, NULL),
  ('scope_key', 'text', false, NULL),
  ('graph_id', 'text', false, NULL),
  ('graph_hash', 'text', false, NULL)$$, 'run_listings has its columns (DK-041)');
SELECT set_eq($$SELECT * FROM pg_temp.columns_of('gen_durable.run_tenants')$$, $$VALUES
  ('role', 'text', false, NULL),
  ('tenant', 'text', false, NULL)$$, 'run_tenants has its columns');
SELECT set_eq($$SELECT t.typname::text, a.attname::text, format_type(a.atttypid, a.atttypmod) FROM pg_type t JOIN pg_class c ON c.oid = t.typrelid
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 WHERE t.typnamespace = 'gen_durable'::regnamespace AND c.relkind = 'c'$$, $$VALUES
  ('job', 'token', 'uuid'), ('job', 'id', 'bigint'), ('job', 'fsm', 'text'), ('job', 'fsm_version', 'integer'), ('job', 'step', 'text'),
  ('job', 'state', 'jsonb'), ('job', 'attempt', 'integer'), ('job', 'awaited', 'jsonb'), ('job', 'signals', 'jsonb'), ('job', 'children', 'jsonb'),
  ('job', 'queue', 'text'), ('job', 'concurrency_key', 'text'), ('job', 'lease_expires_at', 'timestamp with time zone'),
  ('child', 'id', 'bigint'), ('child', 'fsm', 'text'), ('child', 'status', 'gen_durable.durable_status'), ('child', 'state', 'jsonb'),
  ('child', 'result', 'jsonb'), ('child', 'error', 'text'),
  ('inbox_signal', 'id', 'bigint'), ('inbox_signal', 'name', 'text'), ('inbox_signal', 'payload', 'jsonb'), ('inbox_signal', 'at', 'timestamp with time zone'),
  ('run', 'run_id', 'text'), ('run', 'graph_id', 'text'), ('run', 'graph_hash', 'text'), ('run', 'status', 'text'), ('run', 'step', 'integer'),
  ('run', 'checkpoint_seq', 'bigint'), ('run', 'state', 'bytea'), ('run', 'started_at', 'timestamp with time zone'), ('run', 'updated_at', 'timestamp with time zone'),
  ('run', 'finished_at', 'timestamp with time zone'),
  ('run_info', 'run_id', 'text'), ('run_info', 'graph_id', 'text'), ('run_info', 'graph_hash', 'text'), ('run_info', 'status', 'text'), ('run_info', 'step', 'integer'),
  ('run_info', 'checkpoint_seq', 'bigint'), ('run_info', 'state', 'bytea'), ('run_info', 'started_at', 'timestamp with time zone'), ('run_info', 'updated_at', 'timestamp with time zone'),
  ('run_info', 'finished_at', 'timestamp with time zone'), ('run_info', 'checkpoint_type', 'text'), ('run_info', 'wake_at', 'timestamp with time zone'),
  ('run_info', 'claimed_at', 'timestamp with time zone'), ('run_info', 'claim_attempts', 'integer'), ('run_info', 'claim_abandons', 'integer'),
  ('run_info', 'poisoned_at', 'timestamp with time zone'), ('run_info', 'poison_reason', 'text'),
  ('run_decision', 'action', 'text'), ('run_decision', 'run', 'gen_durable.run'), ('run_decision', 'checkpoint_type', 'text'), ('run_decision', 'schedule', 'text'),
  ('run_decision', 'wake_at', 'timestamp with time zone'), ('run_decision', 'value', 'jsonb')$$,
  'the composite types have their fields');

-- Text in indexes compares by bytes, the same on every server.
SELECT is_empty($$SELECT a.attrelid::regclass, a.attname FROM pg_index x JOIN pg_class c ON c.oid = x.indrelid
    JOIN pg_attribute a ON a.attrelid = x.indexrelid AND a.atttypid = 'text'::regtype
   WHERE c.relnamespace = 'gen_durable'::regnamespace AND a.attcollation <> '"C"'::regcollation$$, 'indexed text has the collation C');

-- Indexes, by what they are for.
SELECT set_eq($$SELECT regexp_replace(pg_get_indexdef(x.indexrelid), '^CREATE (.*)INDEX (\S+) ON gen_durable.(\S+) USING btree ', '\2: \1\3 ')
    FROM pg_index x JOIN pg_class c ON c.oid = x.indrelid WHERE c.relnamespace = 'gen_durable'::regnamespace$$, $$VALUES
  ('instances_pkey: UNIQUE instances (id)'),
  ('instances_pick: instances (queue, priority, eligible_at, id) WITH (deduplicate_items=off) WHERE ((status = ''runnable''::gen_durable.durable_status) AND (blocked_on IS NULL))'),
  ('instances_blocked: instances (blocked_on, queue, priority, eligible_at, id) WITH (deduplicate_items=off) WHERE (blocked_on IS NOT NULL)'),
  ('instances_promoted: instances (promoted_on, queue, priority, eligible_at, id) WITH (deduplicate_items=off) WHERE (promoted_on IS NOT NULL)'),
  ('instances_lease: instances (lease_expires_at) WHERE (status = ''executing''::gen_durable.durable_status)'),
  ('instances_deadline: instances (await_deadline) WHERE ((status = ''awaiting_signal''::gen_durable.durable_status) AND (await_deadline IS NOT NULL))'),
  ('instances_key: UNIQUE instances (concurrency_key) WHERE ((status = ''executing''::gen_durable.durable_status) AND (concurrency_key IS NOT NULL) AND (concurrency_shard IS NULL))'),
  ('instances_correlation: UNIQUE instances (correlation_guard) WHERE (correlation_guard IS NOT NULL)'),
  ('instances_parent: instances (parent_id, id) WITH (deduplicate_items=off) WHERE (parent_id IS NOT NULL)'),
  ('instances_finished: instances (finished_at) WHERE (finished_at IS NOT NULL)'),
  ('signals_pkey: UNIQUE signals (id)'),
  ('signals_dedup_key: UNIQUE signals (target_id, dedup_key)'),
  ('signals_inbox: signals (target_id, id) WHERE (consumed_at IS NULL)'),
  ('signals_tombstones: signals (consumed_at) WHERE (consumed_at IS NOT NULL)'),
  ('fsms_pkey: UNIQUE fsms (name, version)'),
  ('queues_pkey: UNIQUE queues (name)'),
  ('bucket_configs_pkey: UNIQUE bucket_configs (kind, name)'),
  ('runs_pkey: UNIQUE runs (run_id)'),
  ('runs_ready: runs (scope_key, wake_at, id) WITH (deduplicate_items=off) WHERE ((wake_at IS NOT NULL) AND due)'),
  ('runs_sleeping: runs (wake_at, id) WITH (deduplicate_items=off) WHERE ((wake_at IS NOT NULL) AND (NOT due))'),
  ('runs_tenant_sleeping: runs (scope_key, wake_at, id) WITH (deduplicate_items=off) WHERE ((wake_at IS NOT NULL) AND (NOT due))'),
  ('runs_claimed: runs (claimed_at, id) WITH (deduplicate_items=off) WHERE (claimed_at IS NOT NULL)'),
  ('runs_poisoned: runs (poisoned_at) WHERE (poisoned_at IS NOT NULL)'),
  ('runs_finished: runs (finished_at) WHERE (finished_at IS NOT NULL)'),
  ('run_listings_all: run_listings (status, started_at DESC, run_id DESC) WITH (deduplicate_items=off)'),
  ('run_listings_tenant: run_listings (scope_key, status, started_at DESC, run_id DESC) WITH (deduplicate_items=off)'),
  ('run_tenants_pkey: UNIQUE run_tenants (role, tenant)'),
  ('buckets_pkey: UNIQUE buckets (kind, key, shard)'),
  ('slot_credits_key: slot_credits (key, shard)'),
  ('slot_holders_pkey: UNIQUE slot_holders (id)'),
  ('slot_holders_key: slot_holders (key)'),
  ('slot_holders_expiry: slot_holders (expires_at)'),
  ('instances_refill: instances (refill_at) WHERE (refill_at IS NOT NULL)')$$, 'the indexes, with their predicates');
-- GD-006: claims take a weak lock only because no full unique index covers a column that changes.
SELECT is_empty($$SELECT x.indexrelid::regclass FROM pg_index x
   WHERE x.indrelid = 'gen_durable.instances'::regclass AND x.indisunique AND x.indpred IS NULL AND NOT x.indisprimary$$,
  'no full unique index on instances but the primary key');

-- Constraints.
SELECT set_eq($$SELECT conname::text, pg_get_constraintdef(oid) FROM pg_constraint
   WHERE connamespace = 'gen_durable'::regnamespace AND contype IN ('f', 'c') AND conrelid NOT IN ('gen_durable.runs'::regclass, 'gen_durable.run_tenants'::regclass)$$, $$VALUES
  ('instances_parent_fkey', 'FOREIGN KEY (parent_id) REFERENCES gen_durable.instances(id) ON DELETE SET NULL'),
  ('instances_id_check', 'CHECK (((id >= 1) AND (id <= ''1152921504606846975''::bigint)))'),
  ('instances_weight_check', 'CHECK (((weight > (0)::double precision) AND (weight < ''Infinity''::double precision)))'),
  ('instances_counts_check', 'CHECK (((attempt >= 0) AND (crashes >= 0) AND (children_pending >= 0)))'),
  ('instances_guard_check', 'CHECK (((correlation_guard IS NULL) OR (correlation_guard = correlation_key)))'),
  ('queues_feed_check', 'CHECK (((executors >= 0) AND (concurrency >= 0) AND (prefetch >= 0) AND (min_demand >= 1)))'),
  ('bucket_configs_kind_check', 'CHECK ((kind = ANY (ARRAY[''rate''::text, ''conc''::text])))'),
  ('bucket_configs_rate_check', 'CHECK (((kind = ''rate''::text) = (rate IS NOT NULL)))'),
  ('bucket_configs_shards_check', 'CHECK ((shards >= 1))'),
  ('bucket_configs_bounds_check', 'CHECK (((capacity > (0)::double precision) AND (capacity < ''Infinity''::double precision) AND ((rate IS NULL) OR ((rate > (0)::double precision) AND (rate < ''Infinity''::double precision)))))'),
  ('buckets_debt_check', 'CHECK ((debt >= (0)::double precision))'),
  ('slot_credits_slots_check', 'CHECK ((slots > 0))'),
  ('buckets_available_check', 'CHECK (((available >= (0)::double precision) AND (available <= capacity)))')$$,
  'the foreign keys and checks');

-- The arbiters hold even against rows written by hand (GD-063, AC-028; GD-034).
SELECT lives_ok($$INSERT INTO gen_durable.instances (fsm, step, status, concurrency_key) VALUES ('a', 's', 'executing', 'key')$$, 'one holder of a key');
SELECT throws_ok($$INSERT INTO gen_durable.instances (fsm, step, status, concurrency_key) VALUES ('b', 's', 'executing', 'key')$$, '23505', NULL, 'no second holder');
SELECT lives_ok($$INSERT INTO gen_durable.instances (fsm, step, status, concurrency_key, concurrency_shard) VALUES ('c', 's', 'executing', 'key', 0)$$, 'a gated holder is no rival (GD-065)');
SELECT lives_ok($$INSERT INTO gen_durable.instances (fsm, step, status, concurrency_key) VALUES ('d', 's', 'runnable', 'key')$$, 'nor one that waits');
SELECT lives_ok($$INSERT INTO gen_durable.instances (fsm, step, correlation_key, correlation_guard) VALUES ('e', 's', 'name', 'name')$$, 'one occupant of a name');
SELECT throws_ok($$INSERT INTO gen_durable.instances (fsm, step, correlation_key, correlation_guard) VALUES ('f', 's', 'name', 'name')$$, '23505', NULL, 'no second occupant');
SELECT lives_ok($$INSERT INTO gen_durable.instances (fsm, step, correlation_key) VALUES ('g', 's', 'name')$$, 'one without the guard goes on (D-7)');
SELECT throws_ok($$INSERT INTO gen_durable.instances (id, fsm, step) VALUES (0, 'h', 's')$$, '23514', NULL, 'an id that no token can carry is refused');
SELECT throws_ok($$INSERT INTO gen_durable.instances (fsm, step, weight) VALUES ('h', 's', 0)$$, '23514', NULL, 'a weight of 0 is refused');
SELECT throws_ok($$INSERT INTO gen_durable.instances (fsm, step, weight) VALUES ('h', 's', 'NaN')$$, '23514', NULL, 'a weight of NaN is refused');

-- Signals go with their instance, also when SQL deletes it (GD-007, GD-263).
SELECT set_eq($$SELECT tgname::text, pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid IN ('gen_durable.instances'::regclass, 'gen_durable.signals'::regclass) AND NOT tgisinternal$$, $$VALUES
  ('signals_follow_delete', 'CREATE TRIGGER signals_follow_delete AFTER DELETE ON gen_durable.instances REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION gen_durable.signals_follow_delete()'),
  ('signals_follow_truncate', 'CREATE TRIGGER signals_follow_truncate AFTER TRUNCATE ON gen_durable.instances FOR EACH STATEMENT EXECUTE FUNCTION gen_durable.signals_follow_truncate()')$$, 'the triggers');
INSERT INTO gen_durable.signals (target_id, name) SELECT id, 'go' FROM gen_durable.instances;
SELECT ok((SELECT count(*) > 1 FROM gen_durable.signals), 'signals are there');
DELETE FROM gen_durable.instances WHERE fsm = 'a';
SELECT is_empty($$SELECT s.target_id FROM gen_durable.signals s WHERE NOT EXISTS (SELECT 1 FROM gen_durable.instances i WHERE i.id = s.target_id)$$, 'those of a deleted instance are gone');
SELECT ok((SELECT count(*) > 0 FROM gen_durable.signals), 'and no others');
TRUNCATE gen_durable.instances;
SELECT is_empty('SELECT id FROM gen_durable.signals', 'TRUNCATE takes all of them');

-- Tables and sequences are dumped with the database; but not the listing, which a trigger makes anew from the runs.
SELECT set_eq($$SELECT c.relname::text FROM pg_extension e, unnest(e.extconfig) k JOIN pg_class c ON c.oid = k WHERE e.extname = 'gen_durable'$$,
  $$SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'gen_durable'::regnamespace AND c.relkind IN ('r', 'S') AND c.relname <> 'run_listings'$$,
  'every table and sequence is registered for pg_dump');
-- No column's type would stop pg_upgrade.
SELECT is_empty($$SELECT a.attrelid::regclass, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid
   WHERE c.relnamespace = 'gen_durable'::regnamespace AND c.relkind IN ('r', 'v') AND t.typname LIKE 'reg%'$$, 'no reg* column');
SELECT ok((SELECT NOT extrelocatable AND extnamespace = 'gen_durable'::regnamespace FROM pg_extension WHERE extname = 'gen_durable'), 'the schema is fixed');
SELECT ok((SELECT reloptions @> ARRAY['autovacuum_vacuum_scale_factor=0.02'] FROM pg_class WHERE oid = ('gen_durable.' || t)::regclass), t || ' has autovacuum settings for churn')
  FROM unnest(ARRAY['instances', 'signals']) t;

SELECT finish();
ROLLBACK;
