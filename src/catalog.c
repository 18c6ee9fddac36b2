/*
 * catalog.c
 *		Where the extension's tables, indexes, columns and statuses are.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_type.h"
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
	"inserted_at", "updated_at", "finished_at",
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
	"name", "concurrency", "prefetch", "min_demand", "lease_ttl", "paused_at",
	"paused_until", "pause_reason",
};

static const char *const bucket_config_columns[CONF_NCOLUMNS] = {
	"kind", "name", "rate", "capacity", "shards",
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
};

static const char *const indexes[GD_NINDEXES] = {
	[GD_INSTANCES_PKEY] = "instances_pkey",
	[GD_INSTANCES_PICK] = "instances_pick",
	[GD_INSTANCES_BLOCKED] = "instances_blocked",
	[GD_INSTANCES_PROMOTED] = "instances_promoted",
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
};

static const char *const statuses[GD_NSTATUSES] = {
	"runnable", "executing", "awaiting_signal", "awaiting_children",
	"done", "failed", "cancelled",
};

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

/*
 * catalog_index: an index that can be relied on.
 */
static Oid
catalog_index(Oid schema, const char *name)
{
	Oid			indexid = catalog_relation(schema, name);

	if (!get_index_isvalid(indexid))
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
		elog(ERROR, "status \"%s\" does not exist", label);
	return oid;
}

static void
catalog_read(void)
{
	Oid			schema = get_namespace_oid(SCHEMA_NAME, false);
	uint64		generation = catalog.generation + 1;

	/*
	 * Lookups can deliver invalidations, which then void what was just read:
	 * so the flag is set first and the loop runs until it survives.
	 */
	do
	{
		catalog_valid = true;
		memset(&catalog, 0, sizeof(catalog));
		catalog.generation = generation++;
		for (int t = 0; t < GD_NTABLES; t++)
		{
			catalog.table[t] = catalog_relation(schema, tables[t].name);
			for (int c = 0; c < tables[t].ncolumns; c++)
			{
				catalog.attno[t][c] = get_attnum(catalog.table[t], tables[t].columns[c]);
				if (catalog.attno[t][c] == InvalidAttrNumber)
					ereport(ERROR,
							(errcode(ERRCODE_UNDEFINED_COLUMN),
							 errmsg("column \"%s\" of \"%s.%s\" does not exist",
									tables[t].columns[c], SCHEMA_NAME, tables[t].name),
							 errhint("Run ALTER EXTENSION gen_durable UPDATE.")));
			}
			if (tables[t].sequence)
				catalog.sequence[t] = catalog_relation(schema, tables[t].sequence);
		}
		for (int i = 0; i < GD_NINDEXES; i++)
			catalog.index[i] = catalog_index(schema, indexes[i]);
		catalog.status_type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid,
											  CStringGetDatum("durable_status"),
											  ObjectIdGetDatum(schema));
		for (int s = 0; s < GD_NSTATUSES; s++)
			catalog.status[s] = catalog_status(catalog.status_type, statuses[s]);
	} while (!catalog_valid);
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
