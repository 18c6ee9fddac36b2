/*
 * catalog.c
 *		Where the extension's tables, indexes, columns and statuses are.
 *
 * The direct path reads values by their columns' types, scans indexes by their
 * keys and forms rows of the extension's composite types without any further
 * look, so all three are checked here to be what the extension made: an
 * administrator can have altered them.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation_d.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "catalog.h"

#define SCHEMA_NAME "gen_durable"

static const char *const instance_columns[INST_NCOLUMNS] = {
	"id", "fsm", "fsm_version", "step", "status", "state",
	"result", "awaits", "queue", "priority", "concurrency_key",
	"concurrency_shard", "eligible_at", "attempt", "crashes",
	"last_error", "await_deadline", "rate_limit", "weight",
	"locked_by", "lease_expires_at", "token", "handed",
	"handed_awaited", "blocked_on", "promoted_on", "cancel_requested_at",
	"parent_id", "barrier", "joins_barrier", "children_pending",
	"correlation_key", "correlation_scope", "correlation_guard",
	"refill_at", "inserted_at", "updated_at", "finished_at",
};

static const char *const signal_columns[SIG_NCOLUMNS] = {
	"id", "target_id", "name", "payload", "dedup_key",
	"inserted_at", "consumed_at",
};

static const char *const fsm_columns[FSM_NCOLUMNS] = {
	"name", "version", "owner", "queue", "initial", "max_attempts",
	"backoff_base", "backoff_cap", "max_crashes", "inline_execution",
	"handler", "step_handlers", "on_error", "statement_timeout", "registered_at",
};

static const char *const queue_columns[QUEUE_NCOLUMNS] = {
	"name", "executors", "concurrency", "prefetch", "min_demand", "lease_ttl", "paused_at",
	"paused_until", "pause_reason",
};

static const char *const bucket_config_columns[CONF_NCOLUMNS] = {
	"kind", "name", "rate", "capacity", "shards",
};

static const char *const bucket_columns[BUCKET_NCOLUMNS] = {
	"kind", "key", "shard", "capacity", "available", "debt", "last_refill",
};

static const char *const credit_columns[CREDIT_NCOLUMNS] = {
	"key", "shard", "slots",
};

static const char *const holder_columns[HOLDER_NCOLUMNS] = {
	"id", "key", "shard", "held_for", "expires_at",
};

static const char *const run_columns[RUN_NCOLUMNS] = {
	"id", "run_id", "tenant_id", "scope_key", "graph_id", "graph_hash",
	"status", "step", "state", "checkpoint_seq", "latest_checkpoint_type",
	"claim_token", "claimed_at", "wake_at", "due", "claim_attempts",
	"claim_abandons", "poisoned_at", "poison_reason", "inserted_at",
	"started_at", "updated_at", "finished_at",
};

static const char *const listing_columns[LISTING_NCOLUMNS] = {
	"started_at", "status", "run_id", "scope_key", "graph_id", "graph_hash",
};

static const char *const run_tenant_columns[RUN_TENANT_NCOLUMNS] = {
	"role", "tenant",
};

static const struct
{
	const char *name;
	const char *const *columns;
	int			ncolumns;
	const char *sequence;		/* of its id column, or NULL */
}			tables[GD_NTABLES] = {
	[GD_INSTANCES] = {"instances", instance_columns, INST_NCOLUMNS, "instances_id_seq"},
	[GD_SIGNALS] = {"signals", signal_columns, SIG_NCOLUMNS, "signals_id_seq"},
	[GD_FSMS] = {"fsms", fsm_columns, FSM_NCOLUMNS, NULL},
	[GD_QUEUES] = {"queues", queue_columns, QUEUE_NCOLUMNS, NULL},
	[GD_BUCKET_CONFIGS] = {"bucket_configs", bucket_config_columns, CONF_NCOLUMNS, NULL},
	[GD_BUCKETS] = {"buckets", bucket_columns, BUCKET_NCOLUMNS, NULL},
	[GD_CREDITS] = {"slot_credits", credit_columns, CREDIT_NCOLUMNS, NULL},
	[GD_HOLDERS] = {"slot_holders", holder_columns, HOLDER_NCOLUMNS, "slot_holders_id_seq"},
	[GD_RUNS] = {"runs", run_columns, RUN_NCOLUMNS, "runs_id_seq"},
	[GD_RUN_LISTINGS] = {"run_listings", listing_columns, LISTING_NCOLUMNS, NULL},
	[GD_RUN_TENANTS] = {"run_tenants", run_tenant_columns, RUN_TENANT_NCOLUMNS, NULL},
};

static const char *const indexes[GD_NINDEXES] = {
	[GD_INSTANCES_PKEY] = "instances_pkey",
	[GD_INSTANCES_PICK] = "instances_pick",
	[GD_INSTANCES_BLOCKED] = "instances_blocked",
	[GD_INSTANCES_PROMOTED] = "instances_promoted",
	[GD_INSTANCES_REFILL] = "instances_refill",
	[GD_INSTANCES_LEASE] = "instances_lease",
	[GD_INSTANCES_DEADLINE] = "instances_deadline",
	[GD_INSTANCES_KEY] = "instances_key",
	[GD_INSTANCES_CORRELATION] = "instances_correlation",
	[GD_INSTANCES_PARENT] = "instances_parent",
	[GD_INSTANCES_FINISHED] = "instances_finished",
	[GD_SIGNALS_PKEY] = "signals_pkey",
	[GD_SIGNALS_DEDUP] = "signals_dedup_key",
	[GD_SIGNALS_INBOX] = "signals_inbox",
	[GD_SIGNALS_TOMBSTONES] = "signals_tombstones",
	[GD_FSMS_PKEY] = "fsms_pkey",
	[GD_QUEUES_PKEY] = "queues_pkey",
	[GD_BUCKET_CONFIGS_PKEY] = "bucket_configs_pkey",
	[GD_BUCKETS_PKEY] = "buckets_pkey",
	[GD_CREDITS_KEY] = "slot_credits_key",
	[GD_HOLDERS_PKEY] = "slot_holders_pkey",
	[GD_HOLDERS_KEY] = "slot_holders_key",
	[GD_HOLDERS_EXPIRY] = "slot_holders_expiry",
	[GD_RUNS_PKEY] = "runs_pkey",
	[GD_RUNS_READY] = "runs_ready",
	[GD_RUNS_SLEEPING] = "runs_sleeping",
	[GD_RUNS_TENANT_SLEEPING] = "runs_tenant_sleeping",
	[GD_RUNS_CLAIMED] = "runs_claimed",
	[GD_RUNS_TENANT_CLAIMED] = "runs_tenant_claimed",
	[GD_RUNS_FINISHED] = "runs_finished",
	[GD_LISTINGS_ALL] = "run_listings_all",
	[GD_LISTINGS_TENANT] = "run_listings_tenant",
	[GD_RUN_TENANTS_PKEY] = "run_tenants_pkey",
};

/* Stand for the extension's enum type and for arrays of it. */
#define STATUS_TYPE ANYENUMOID
#define STATUS_ARRAY ANYARRAYOID

/* What a column must be for the direct path to read and write it. */
typedef struct ColumnShape
{
	Oid			type;
	bool		not_null;
} ColumnShape;

static const ColumnShape column_shapes[GD_NTABLES][GD_MAX_COLUMNS] = {
	[GD_INSTANCES] = {
		[INST_ID] = {INT8OID, true},
		[INST_FSM] = {TEXTOID, true},
		[INST_FSM_VERSION] = {INT4OID, true},
		[INST_STEP] = {TEXTOID, true},
		[INST_STATUS] = {STATUS_TYPE, true},
		[INST_STATE] = {JSONBOID, true},
		[INST_RESULT] = {JSONBOID},
		[INST_AWAITS] = {TEXTARRAYOID},
		[INST_QUEUE] = {TEXTOID, true},
		[INST_PRIORITY] = {INT2OID, true},
		[INST_CONCURRENCY_KEY] = {TEXTOID},
		[INST_CONCURRENCY_SHARD] = {INT4OID},
		[INST_ELIGIBLE_AT] = {TIMESTAMPTZOID, true},
		[INST_ATTEMPT] = {INT4OID, true},
		[INST_CRASHES] = {INT4OID, true},
		[INST_LAST_ERROR] = {TEXTOID},
		[INST_AWAIT_DEADLINE] = {TIMESTAMPTZOID},
		[INST_RATE_LIMIT] = {TEXTOID},
		[INST_WEIGHT] = {FLOAT8OID, true},
		[INST_LOCKED_BY] = {TEXTOID},
		[INST_LEASE_EXPIRES_AT] = {TIMESTAMPTZOID},
		[INST_TOKEN] = {UUIDOID},
		[INST_HANDED] = {INT8ARRAYOID},
		[INST_HANDED_AWAITED] = {INT8ARRAYOID},
		[INST_BLOCKED_ON] = {TEXTOID},
		[INST_PROMOTED_ON] = {TEXTOID},
		[INST_CANCEL_REQUESTED_AT] = {TIMESTAMPTZOID},
		[INST_PARENT_ID] = {INT8OID},
		[INST_BARRIER] = {INT4OID, true},
		[INST_JOINS_BARRIER] = {INT4OID, true},
		[INST_CHILDREN_PENDING] = {INT4OID, true},
		[INST_CORRELATION_KEY] = {TEXTOID},
		[INST_CORRELATION_SCOPE] = {STATUS_ARRAY, true},
		[INST_CORRELATION_GUARD] = {TEXTOID},
		[INST_REFILL_AT] = {TIMESTAMPTZOID},
		[INST_INSERTED_AT] = {TIMESTAMPTZOID, true},
		[INST_UPDATED_AT] = {TIMESTAMPTZOID, true},
		[INST_FINISHED_AT] = {TIMESTAMPTZOID},
	},
	[GD_SIGNALS] = {
		[SIG_ID] = {INT8OID, true},
		[SIG_TARGET_ID] = {INT8OID, true},
		[SIG_NAME] = {TEXTOID, true},
		[SIG_PAYLOAD] = {JSONBOID, true},
		[SIG_DEDUP_KEY] = {TEXTOID},
		[SIG_INSERTED_AT] = {TIMESTAMPTZOID, true},
		[SIG_CONSUMED_AT] = {TIMESTAMPTZOID},
	},
	[GD_FSMS] = {
		[FSM_NAME] = {TEXTOID, true},
		[FSM_VERSION] = {INT4OID, true},
		[FSM_OWNER] = {TEXTOID, true},
		[FSM_QUEUE] = {TEXTOID, true},
		[FSM_INITIAL] = {TEXTOID, true},
		[FSM_MAX_ATTEMPTS] = {INT4OID, true},
		[FSM_BACKOFF_BASE] = {INTERVALOID, true},
		[FSM_BACKOFF_CAP] = {INTERVALOID, true},
		[FSM_MAX_CRASHES] = {INT4OID},
		[FSM_INLINE_EXECUTION] = {BOOLOID, true},
		[FSM_HANDLER] = {TEXTOID},
		[FSM_STEP_HANDLERS] = {JSONBOID, true},
		[FSM_ON_ERROR] = {TEXTOID},
		[FSM_STATEMENT_TIMEOUT] = {INTERVALOID},
		[FSM_REGISTERED_AT] = {TIMESTAMPTZOID, true},
	},
	[GD_QUEUES] = {
		[QUEUE_NAME] = {TEXTOID, true},
		[QUEUE_EXECUTORS] = {INT4OID},
		[QUEUE_CONCURRENCY] = {INT4OID},
		[QUEUE_PREFETCH] = {INT4OID},
		[QUEUE_MIN_DEMAND] = {INT4OID},
		[QUEUE_LEASE_TTL] = {INTERVALOID},
		[QUEUE_PAUSED_AT] = {TIMESTAMPTZOID},
		[QUEUE_PAUSED_UNTIL] = {TIMESTAMPTZOID},
		[QUEUE_PAUSE_REASON] = {TEXTOID},
	},
	[GD_BUCKET_CONFIGS] = {
		[CONF_KIND] = {TEXTOID, true},
		[CONF_NAME] = {TEXTOID, true},
		[CONF_RATE] = {FLOAT8OID},
		[CONF_CAPACITY] = {FLOAT8OID, true},
		[CONF_SHARDS] = {INT2OID, true},
	},
	[GD_BUCKETS] = {
		[BUCKET_KIND] = {TEXTOID, true},
		[BUCKET_KEY] = {TEXTOID, true},
		[BUCKET_SHARD] = {INT2OID, true},
		[BUCKET_CAPACITY] = {FLOAT8OID, true},
		[BUCKET_AVAILABLE] = {FLOAT8OID, true},
		[BUCKET_DEBT] = {FLOAT8OID, true},
		[BUCKET_LAST_REFILL] = {TIMESTAMPTZOID},
	},
	[GD_CREDITS] = {
		[CREDIT_KEY] = {TEXTOID, true},
		[CREDIT_SHARD] = {INT2OID, true},
		[CREDIT_SLOTS] = {INT4OID, true},
	},
	[GD_HOLDERS] = {
		[HOLDER_ID] = {INT8OID, true},
		[HOLDER_KEY] = {TEXTOID, true},
		[HOLDER_SHARD] = {INT4OID, true},
		[HOLDER_HELD_FOR] = {INT8OID, true},
		[HOLDER_EXPIRES_AT] = {TIMESTAMPTZOID, true},
	},
	[GD_RUNS] = {
		[RUN_ID] = {INT8OID, true},
		[RUN_RUN_ID] = {TEXTOID, true},
		[RUN_TENANT_ID] = {TEXTOID},
		[RUN_SCOPE_KEY] = {TEXTOID, true},
		[RUN_GRAPH_ID] = {TEXTOID, true},
		[RUN_GRAPH_HASH] = {TEXTOID, true},
		[RUN_STATUS] = {TEXTOID, true},
		[RUN_STEP] = {INT4OID, true},
		[RUN_STATE] = {BYTEAOID, true},
		[RUN_CHECKPOINT_SEQ] = {INT8OID, true},
		[RUN_CHECKPOINT_TYPE] = {TEXTOID, true},
		[RUN_CLAIM_TOKEN] = {UUIDOID},
		[RUN_CLAIMED_AT] = {TIMESTAMPTZOID},
		[RUN_WAKE_AT] = {TIMESTAMPTZOID},
		[RUN_DUE] = {BOOLOID, true},
		[RUN_CLAIM_ATTEMPTS] = {INT4OID, true},
		[RUN_CLAIM_ABANDONS] = {INT4OID, true},
		[RUN_POISONED_AT] = {TIMESTAMPTZOID},
		[RUN_POISON_REASON] = {TEXTOID},
		[RUN_INSERTED_AT] = {TIMESTAMPTZOID, true},
		[RUN_STARTED_AT] = {TIMESTAMPTZOID, true},
		[RUN_UPDATED_AT] = {TIMESTAMPTZOID, true},
		[RUN_FINISHED_AT] = {TIMESTAMPTZOID},
	},
	[GD_RUN_LISTINGS] = {
		[LISTING_STARTED_AT] = {TIMESTAMPTZOID, true},
		[LISTING_STATUS] = {TEXTOID, true},
		[LISTING_RUN_ID] = {TEXTOID, true},
		[LISTING_SCOPE_KEY] = {TEXTOID, true},
		[LISTING_GRAPH_ID] = {TEXTOID, true},
		[LISTING_GRAPH_HASH] = {TEXTOID, true},
	},
	[GD_RUN_TENANTS] = {
		[RUN_TENANT_ROLE] = {TEXTOID, true},
		[RUN_TENANT_TENANT] = {TEXTOID, true},
	},
};

#define INDEX_COLUMNS 5

/* What an index must be: its first key columns, ascending but for the last. */
typedef struct IndexShape
{
	GdTableId	table;
	bool		unique;
	bool		partial;
	int			ncolumns;
	int			columns[INDEX_COLUMNS];
	int			descending;		/* so many of the last ones */
} IndexShape;

static const IndexShape index_shapes[GD_NINDEXES] = {
	[GD_INSTANCES_PKEY] = {GD_INSTANCES, true, false, 1, {INST_ID}},
	[GD_INSTANCES_PICK] = {GD_INSTANCES, false, true, 4,
	{INST_QUEUE, INST_PRIORITY, INST_ELIGIBLE_AT, INST_ID}},
	[GD_INSTANCES_BLOCKED] = {GD_INSTANCES, false, true, 5,
	{INST_BLOCKED_ON, INST_QUEUE, INST_PRIORITY, INST_ELIGIBLE_AT, INST_ID}},
	[GD_INSTANCES_PROMOTED] = {GD_INSTANCES, false, true, 5,
	{INST_PROMOTED_ON, INST_QUEUE, INST_PRIORITY, INST_ELIGIBLE_AT, INST_ID}},
	[GD_INSTANCES_REFILL] = {GD_INSTANCES, false, true, 1, {INST_REFILL_AT}},
	[GD_INSTANCES_LEASE] = {GD_INSTANCES, false, true, 1, {INST_LEASE_EXPIRES_AT}},
	[GD_INSTANCES_DEADLINE] = {GD_INSTANCES, false, true, 1, {INST_AWAIT_DEADLINE}},
	[GD_INSTANCES_KEY] = {GD_INSTANCES, true, true, 1, {INST_CONCURRENCY_KEY}},
	[GD_INSTANCES_CORRELATION] = {GD_INSTANCES, true, true, 1, {INST_CORRELATION_GUARD}},
	[GD_INSTANCES_PARENT] = {GD_INSTANCES, false, true, 2, {INST_PARENT_ID, INST_ID}},
	[GD_INSTANCES_FINISHED] = {GD_INSTANCES, false, true, 1, {INST_FINISHED_AT}},
	[GD_SIGNALS_PKEY] = {GD_SIGNALS, true, false, 1, {SIG_ID}},
	[GD_SIGNALS_DEDUP] = {GD_SIGNALS, true, false, 2, {SIG_TARGET_ID, SIG_DEDUP_KEY}},
	[GD_SIGNALS_INBOX] = {GD_SIGNALS, false, true, 2, {SIG_TARGET_ID, SIG_ID}},
	[GD_SIGNALS_TOMBSTONES] = {GD_SIGNALS, false, true, 1, {SIG_CONSUMED_AT}},
	[GD_FSMS_PKEY] = {GD_FSMS, true, false, 2, {FSM_NAME, FSM_VERSION}},
	[GD_QUEUES_PKEY] = {GD_QUEUES, true, false, 1, {QUEUE_NAME}},
	[GD_BUCKET_CONFIGS_PKEY] = {GD_BUCKET_CONFIGS, true, false, 2, {CONF_KIND, CONF_NAME}},
	[GD_BUCKETS_PKEY] = {GD_BUCKETS, true, false, 3, {BUCKET_KIND, BUCKET_KEY, BUCKET_SHARD}},
	[GD_CREDITS_KEY] = {GD_CREDITS, false, false, 2, {CREDIT_KEY, CREDIT_SHARD}},
	[GD_HOLDERS_PKEY] = {GD_HOLDERS, true, false, 1, {HOLDER_ID}},
	[GD_HOLDERS_KEY] = {GD_HOLDERS, false, false, 1, {HOLDER_KEY}},
	[GD_HOLDERS_EXPIRY] = {GD_HOLDERS, false, false, 1, {HOLDER_EXPIRES_AT}},
	[GD_RUNS_PKEY] = {GD_RUNS, true, false, 1, {RUN_RUN_ID}},
	[GD_RUNS_READY] = {GD_RUNS, false, true, 3, {RUN_SCOPE_KEY, RUN_WAKE_AT, RUN_ID}},
	[GD_RUNS_SLEEPING] = {GD_RUNS, false, true, 2, {RUN_WAKE_AT, RUN_ID}},
	[GD_RUNS_TENANT_SLEEPING] = {GD_RUNS, false, true, 3, {RUN_SCOPE_KEY, RUN_WAKE_AT, RUN_ID}},
	[GD_RUNS_CLAIMED] = {GD_RUNS, false, true, 2, {RUN_CLAIMED_AT, RUN_ID}},
	[GD_RUNS_TENANT_CLAIMED] = {GD_RUNS, false, true, 3, {RUN_SCOPE_KEY, RUN_CLAIMED_AT, RUN_ID}},
	[GD_RUNS_FINISHED] = {GD_RUNS, false, true, 1, {RUN_FINISHED_AT}},
	[GD_LISTINGS_ALL] = {GD_RUN_LISTINGS, false, false, 3,
	{LISTING_STATUS, LISTING_STARTED_AT, LISTING_RUN_ID}, 2},
	[GD_LISTINGS_TENANT] = {GD_RUN_LISTINGS, false, false, 4,
	{LISTING_SCOPE_KEY, LISTING_STATUS, LISTING_STARTED_AT, LISTING_RUN_ID}, 2},
	[GD_RUN_TENANTS_PKEY] = {GD_RUN_TENANTS, true, false, 2, {RUN_TENANT_ROLE, RUN_TENANT_TENANT}},
};

static const char *const statuses[GD_NSTATUSES] = {
	"runnable", "executing", "awaiting_signal", "awaiting_children",
	"done", "failed", "cancelled",
};

/*
 * The composite types that rows are returned as and handlers called with; they
 * are built from arrays of values as long as this, and taken apart likewise.
 */
#define RUN_TYPE ANYELEMENTOID
#define MAX_TYPE_COLUMNS 17

typedef struct RowType
{
	const char *name;
	int			ncolumns;
	Oid			types[MAX_TYPE_COLUMNS];
} RowType;

enum
{
	ROW_TYPE_RUN,
	NROW_TYPES = 6
};

static const RowType row_types[NROW_TYPES] = {
	[ROW_TYPE_RUN] = {"run", 10,
		{TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT4OID, INT8OID, BYTEAOID, TIMESTAMPTZOID, TIMESTAMPTZOID,
	TIMESTAMPTZOID}},
	{"run_info", 17,
		{TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT4OID, INT8OID, BYTEAOID, TIMESTAMPTZOID, TIMESTAMPTZOID,
			TIMESTAMPTZOID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT4OID, INT4OID, TIMESTAMPTZOID,
	TEXTOID}},
	{"run_decision", 6, {TEXTOID, RUN_TYPE, TEXTOID, TEXTOID, TIMESTAMPTZOID, JSONBOID}},
	{"job", 13,
		{UUIDOID, INT8OID, TEXTOID, INT4OID, TEXTOID, JSONBOID, INT4OID, JSONBOID, JSONBOID, JSONBOID, TEXTOID,
	TEXTOID, TIMESTAMPTZOID}},
	{"child", 6, {INT8OID, TEXTOID, STATUS_TYPE, JSONBOID, JSONBOID, TEXTOID}},
	{"inbox_signal", 4, {INT8OID, TEXTOID, JSONBOID, TIMESTAMPTZOID}},
};

static Oid	row_type_relations[NROW_TYPES];

/* How often the catalog is read for one call at most. */
#define CATALOG_TRIES 3

static GdCatalog catalog;
static bool catalog_valid = false;

/*
 * Relcache callback: may only flip the flag.  InvalidOid stands for all.
 */
static void
catalog_forget(Datum arg, Oid relid)
{
	if (!catalog_valid)
		return;
	for (int t = 0; t < GD_NTABLES && catalog_valid; t++)
		if (relid == InvalidOid || relid == catalog.table[t])
			catalog_valid = false;
	for (int r = 0; r < NROW_TYPES && catalog_valid; r++)
		if (relid == row_type_relations[r])
			catalog_valid = false;
}

void
gd_catalog_init(void)
{
	CacheRegisterRelcacheCallback(catalog_forget, (Datum) 0);
}

static Oid
catalog_relation(Oid schema, const char *name)
{
	Oid			relid = get_relname_relid(name, schema);

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"%s.%s\" does not exist", SCHEMA_NAME, name),
				 errhint("Was the extension gen_durable dropped, or is ALTER EXTENSION gen_durable UPDATE due?")));
	return relid;
}

/* Is a relation of a kind and an access method? */
static bool
relation_is(Oid relid, char kind, Oid access_method)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class rel;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	rel = (Form_pg_class) GETSTRUCT(tuple);
	result = rel->relkind == kind && rel->relam == access_method;
	ReleaseSysCache(tuple);
	return result;
}

/*
 * catalog_table: a table of the kind that the direct path knows.
 */
static Oid
catalog_table(Oid schema, const char *name)
{
	Oid			relid = catalog_relation(schema, name);

	if (!relation_is(relid, RELKIND_RELATION, HEAP_TABLE_AM_OID))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation \"%s.%s\" is not a plain table", SCHEMA_NAME, name),
				 errhint("Undo what was changed of it.")));
	return relid;
}

/*
 * catalog_column: a column of the type that the direct path takes it to be.
 */
static AttrNumber
catalog_column(GdTableId table, int column)
{
	const char *name = tables[table].columns[column];
	const ColumnShape *shape = &column_shapes[table][column];
	Oid			type = shape->type;
	HeapTuple	tuple = SearchSysCacheAttName(catalog.table[table], name);
	Form_pg_attribute attr;
	AttrNumber	attno;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of \"%s.%s\" does not exist",
						name, SCHEMA_NAME, tables[table].name),
				 errhint("Run ALTER EXTENSION gen_durable UPDATE.")));
	if (type == STATUS_TYPE)
		type = catalog.status_type;
	else if (type == STATUS_ARRAY)
		type = get_array_type(catalog.status_type);
	attr = (Form_pg_attribute) GETSTRUCT(tuple);
	if (attr->atttypid != type)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of \"%s.%s\" has the type %s, not %s",
						name, SCHEMA_NAME, tables[table].name,
						format_type_be(attr->atttypid), format_type_be(type)),
				 errhint("Change its type back.")));
	if (shape->not_null && !attr->attnotnull)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("column \"%s\" of \"%s.%s\" lost its NOT NULL",
						name, SCHEMA_NAME, tables[table].name),
				 errhint("Run ALTER TABLE %s.%s ALTER COLUMN %s SET NOT NULL.",
						 SCHEMA_NAME, tables[table].name, name)));
	attno = attr->attnum;
	ReleaseSysCache(tuple);
	return attno;
}

/*
 * index_columns_fit: are an index's first key columns those of its shape, in
 * its order, and text in the order of its bytes?
 */
static bool
index_columns_fit(HeapTuple tuple, const IndexShape *shape)
{
	Form_pg_index form = (Form_pg_index) GETSTRUCT(tuple);
	bool		isnull;
	oidvector  *collations = (oidvector *)
	DatumGetPointer(SysCacheGetAttr(INDEXRELID, tuple, Anum_pg_index_indcollation, &isnull));
	int2vector *options = (int2vector *)
	DatumGetPointer(SysCacheGetAttr(INDEXRELID, tuple, Anum_pg_index_indoption, &isnull));

	if (form->indnkeyatts < shape->ncolumns)
		return false;
	for (int i = 0; i < shape->ncolumns; i++)
	{
		int			column = shape->columns[i];
		int			order = i < shape->ncolumns - shape->descending ? 0 :
		INDOPTION_DESC | INDOPTION_NULLS_FIRST;

		if (form->indkey.values[i] != catalog.attno[shape->table][column] ||
			options->values[i] != order ||
			(column_shapes[shape->table][column].type == TEXTOID &&
			 collations->values[i] != C_COLLATION_OID))
			return false;
	}
	return true;
}

/*
 * catalog_index: an index that can be relied on.  The one of claims by tenant
 * is there only where a role is confined to one.
 */
static Oid
catalog_index(Oid schema, GdIndexId index)
{
	const char *name = indexes[index];
	const IndexShape *shape = &index_shapes[index];
	Oid			indexid;
	HeapTuple	tuple;
	bool		fits = false;
	bool		valid = false;

	if (index == GD_RUNS_TENANT_CLAIMED && !OidIsValid(get_relname_relid(name, schema)))
		return InvalidOid;
	indexid = catalog_relation(schema, name);
	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexid));
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_index form = (Form_pg_index) GETSTRUCT(tuple);
		bool		whole;

		(void) SysCacheGetAttr(INDEXRELID, tuple, Anum_pg_index_indpred, &whole);
		fits = form->indrelid == catalog.table[shape->table] &&
			form->indisunique == shape->unique && whole == !shape->partial &&
			relation_is(indexid, RELKIND_INDEX, BTREE_AM_OID) && index_columns_fit(tuple, shape);
		valid = form->indisvalid;
		ReleaseSysCache(tuple);
	}
	if (!fits)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s.%s\" is not the one that the extension made",
						SCHEMA_NAME, name),
				 errhint("Create it anew with the definition that the extension's SQL script has.")));
	if (!valid)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s.%s\" is not valid", SCHEMA_NAME, name),
				 errhint("Run REINDEX INDEX %s.%s.", SCHEMA_NAME, name)));
	return indexid;
}

static Oid
catalog_status(Oid type, const char *label)
{
	Oid			oid = GetSysCacheOid2(ENUMTYPOIDNAME, Anum_pg_enum_oid,
									  ObjectIdGetDatum(type), CStringGetDatum(label));

	if (!OidIsValid(oid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("status \"%s\" does not exist", label),
				 errhint("Give the value of %s.durable_status its name back.", SCHEMA_NAME)));
	return oid;
}

/*
 * row_type_column: is a column of a composite type as it was made?
 */
static bool
row_type_column(Oid relation, AttrNumber attno, Oid type)
{
	HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(relation), Int16GetDatum(attno));
	Form_pg_attribute attr;
	bool		right;

	if (!HeapTupleIsValid(tuple))
		return false;
	if (type == STATUS_TYPE)
		type = catalog.status_type;
	else if (type == RUN_TYPE)
		type = get_rel_type_id(row_type_relations[ROW_TYPE_RUN]);
	attr = (Form_pg_attribute) GETSTRUCT(tuple);
	right = !attr->attisdropped && attr->atttypid == type;
	ReleaseSysCache(tuple);
	return right;
}

/*
 * catalog_row_type: note the relation of a composite type, which must have the
 * columns that it was made with and no more.
 */
static void
catalog_row_type(Oid schema, int r)
{
	const RowType *shape = &row_types[r];
	Oid			relation = get_relname_relid(shape->name, schema);
	bool		right;

	if (!OidIsValid(relation))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("type \"%s.%s\" does not exist", SCHEMA_NAME, shape->name),
				 errhint("Was it renamed, or is ALTER EXTENSION gen_durable UPDATE due?")));
	row_type_relations[r] = relation;
	right = !SearchSysCacheExists2(ATTNUM, ObjectIdGetDatum(relation),
								   Int16GetDatum(shape->ncolumns + 1));
	for (int c = 0; c < shape->ncolumns && right; c++)
		right = row_type_column(relation, c + 1, shape->types[c]);
	if (!right)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("type \"%s.%s\" has not the attributes that the extension made it with",
						SCHEMA_NAME, shape->name),
				 errhint("Its functions return it as it was; change its attributes back.")));
}

static void
catalog_read(void)
{
	Oid			schema = get_namespace_oid(SCHEMA_NAME, false);
	uint64		generation = catalog.generation + 1;
	int			tries = 0;

	/*
	 * Lookups can deliver invalidations, which then void what was just read:
	 * so the flag is set first and the loop runs until it survives.  Where
	 * something changes all the time - with debug_discard_caches it always
	 * does - what was read serves this call, and the next one reads anew, as
	 * who opens a table does once it is locked.
	 */
	do
	{
		catalog_valid = true;
		memset(&catalog, 0, sizeof(catalog));
		catalog.generation = generation++;
		catalog.status_type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid,
											  CStringGetDatum("durable_status"),
											  ObjectIdGetDatum(schema));
		for (int t = 0; t < GD_NTABLES; t++)
		{
			catalog.table[t] = catalog_table(schema, tables[t].name);
			for (int c = 0; c < tables[t].ncolumns; c++)
				catalog.attno[t][c] = catalog_column(t, c);
			if (tables[t].sequence)
				catalog.sequence[t] = catalog_relation(schema, tables[t].sequence);
		}
		for (int i = 0; i < GD_NINDEXES; i++)
			catalog.index[i] = catalog_index(schema, i);
		for (int s = 0; s < GD_NSTATUSES; s++)
			catalog.status[s] = catalog_status(catalog.status_type, statuses[s]);
		for (int r = 0; r < NROW_TYPES; r++)
			catalog_row_type(schema, r);
	} while (!catalog_valid && ++tries < CATALOG_TRIES);
}

/*
 * gd_catalog: the current catalog, read anew if a table changed.
 */
const GdCatalog *
gd_catalog(void)
{
	if (!catalog_valid)
	{
		/* An error in between must not leave half of it marked valid. */
		PG_TRY();
		{
			catalog_read();
		}
		PG_CATCH();
		{
			catalog_valid = false;
			PG_RE_THROW();
		}
		PG_END_TRY();
	}
	return &catalog;
}

/*
 * gd_catalog_has_column: is a column one of the extension's own?
 */
bool
gd_catalog_has_column(GdTableId table, AttrNumber attno)
{
	const GdCatalog *cat = gd_catalog();

	for (int c = 0; c < tables[table].ncolumns; c++)
		if (cat->attno[table][c] == attno)
			return true;
	return false;
}

/*
 * gd_status_of: which status a label's OID stands for.
 */
GdStatus
gd_status_of(Oid label)
{
	const GdCatalog *cat = gd_catalog();

	for (int s = 0; s < GD_NSTATUSES; s++)
		if (cat->status[s] == label)
			return (GdStatus) s;
	elog(ERROR, "unknown status %u", label);
}

const char *
gd_status_name(GdStatus status)
{
	return statuses[status];
}
