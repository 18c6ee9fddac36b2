/*
 * The floor of the step benchmark: the writes of a claim and of a "next" outcome, and nothing else.
 *
 * Both functions work on floor.instances, a table with the columns and indexes of gen_durable.instances.  They make
 * the same new row versions and the same index entries as the engine does for a plain row, straight through the table
 * and index AM: no fence, no job row, no JSON, no signals, no keys, no other row touched.  What the engine takes beyond
 * this is the price of its rules.
 *
 * Only plain rows may be in the table (no key, no parent, no deadline), because just the three indexes that such a
 * row enters are maintained.
 *
 * Locks: RowExclusiveLock on the table.  A row that another transaction holds is skipped, never waited for.
 */
#include "postgres.h"

#include "compat.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "nodes/execnodes.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(floor_claim);
PG_FUNCTION_INFO_V1(floor_next);

/* The columns that a claim or an outcome changes. */
typedef struct Columns
{
	AttrNumber	id,
				step,
				status,
				attempt,
				crashes,
				eligible_at,
				locked_by,
				lease_expires_at,
				token,
				updated_at;
} Columns;

/* The table and the indexes that a plain row can be in. */
typedef struct Target
{
	Relation	rel;
	Relation	pkey;
	Relation	pick;
	Relation	lease;
	IndexInfo  *pkey_info;
	IndexInfo  *pick_info;
	IndexInfo  *lease_info;
	Columns		col;
	Oid			runnable;
	Oid			executing;
	TupleTableSlot *old;
	TupleTableSlot *new;
} Target;

static AttrNumber
column(Relation rel, const char *name)
{
	AttrNumber	attno = get_attnum(RelationGetRelid(rel), name);

	if (attno == InvalidAttrNumber)
		elog(ERROR, "floor.instances has no column \"%s\"", name);
	return attno;
}

static Oid
status_label(Relation rel, AttrNumber status, const char *label)
{
	Oid			type = TupleDescAttr(RelationGetDescr(rel), status - 1)->atttypid;

	return GetSysCacheOid2(ENUMTYPOIDNAME, Anum_pg_enum_oid, ObjectIdGetDatum(type), CStringGetDatum(label));
}

static Relation
open_index(Oid namespace, const char *name, IndexInfo **info)
{
	Relation	index = index_open(get_relname_relid(name, namespace), RowExclusiveLock);

	*info = BuildIndexInfo(index);
	return index;
}

static void
open_target(Target *t)
{
	Oid			namespace = get_namespace_oid("floor", false);

	t->rel = table_open(get_relname_relid("instances", namespace), RowExclusiveLock);
	t->pkey = open_index(namespace, "instances_pkey", &t->pkey_info);
	t->pick = open_index(namespace, "instances_pick", &t->pick_info);
	t->lease = open_index(namespace, "instances_lease", &t->lease_info);

	t->col.id = column(t->rel, "id");
	t->col.step = column(t->rel, "step");
	t->col.status = column(t->rel, "status");
	t->col.attempt = column(t->rel, "attempt");
	t->col.crashes = column(t->rel, "crashes");
	t->col.eligible_at = column(t->rel, "eligible_at");
	t->col.locked_by = column(t->rel, "locked_by");
	t->col.lease_expires_at = column(t->rel, "lease_expires_at");
	t->col.token = column(t->rel, "token");
	t->col.updated_at = column(t->rel, "updated_at");
	t->runnable = status_label(t->rel, t->col.status, "runnable");
	t->executing = status_label(t->rel, t->col.status, "executing");

	t->old = table_slot_create(t->rel, NULL);
	t->new = MakeSingleTupleTableSlot(RelationGetDescr(t->rel), &TTSOpsVirtual);
}

static void
close_target(Target *t)
{
	ExecDropSingleTupleTableSlot(t->new);
	ExecDropSingleTupleTableSlot(t->old);
	index_close(t->lease, NoLock);
	index_close(t->pick, NoLock);
	index_close(t->pkey, NoLock);
	table_close(t->rel, NoLock);
}

static void
set(Target *t, AttrNumber attno, Datum value)
{
	t->new->tts_values[attno - 1] = value;
	t->new->tts_isnull[attno - 1] = false;
}

static void
clear(Target *t, AttrNumber attno)
{
	t->new->tts_isnull[attno - 1] = true;
}

/* Begins the new version as a copy of the old row; its by-reference values stay in the old row's page. */
static void
begin_version(Target *t)
{
	int			natts = RelationGetDescr(t->rel)->natts;

	slot_getallattrs(t->old);
	ExecClearTuple(t->new);
	memcpy(t->new->tts_values, t->old->tts_values, natts * sizeof(Datum));
	memcpy(t->new->tts_isnull, t->old->tts_isnull, natts * sizeof(bool));
}

/* The index entry of the new version, if it has one; "same" tells the index that its key is the old version's. */
static void
index_version(Target *t, Relation index, IndexInfo *info, bool same)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	FormIndexDatum(info, t->new, NULL, values, isnull);
	index_insert(index, values, isnull, &t->new->tts_tid, t->rel,
				 info->ii_Unique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO, same, info);
}

/* Writes the new version; false when another transaction has the row.  status_index is the index it moves into. */
static bool
write_version(Target *t, Snapshot snapshot, Relation status_index, IndexInfo *status_info)
{
	TM_FailureData failure;
	LockTupleMode lockmode;
	GdUpdateIndexes update_indexes;
	TM_Result	result;

	ExecStoreVirtualTuple(t->new);
	result = table_tuple_update(t->rel, &t->old->tts_tid, t->new, GetCurrentCommandId(true), snapshot,
								InvalidSnapshot, false, &failure, &lockmode, &update_indexes);
	if (result == TM_Ok)
	{
		index_version(t, t->pkey, t->pkey_info, true);
		index_version(t, status_index, status_info, false);
	}
	return result == TM_Ok;
}

/* floor.claim(queue text, worker text, batch int) returns bigint[]: NULL when nothing is due */
Datum
floor_claim(PG_FUNCTION_ARGS)
{
	Datum		queue = PG_GETARG_DATUM(0);
	Datum		worker = PG_GETARG_DATUM(1);
	int			batch = PG_GETARG_INT32(2);
	TimestampTz now = GetCurrentTimestamp();
	Datum	   *ids = palloc(sizeof(Datum) * Max(batch, 1));
	int			n = 0;
	Target		t;
	Snapshot	snapshot;
	IndexScanDesc scan;
	ScanKeyData key[1];

	open_target(&t);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	ScanKeyEntryInitialize(&key[0], 0, 1, BTEqualStrategyNumber, TEXTOID, C_COLLATION_OID, F_TEXTEQ, queue);
	scan = gd_index_beginscan(t.rel, t.pick, snapshot, 1);
	index_rescan(scan, key, 1, NULL, 0);
	while (n < batch && index_getnext_slot(scan, ForwardScanDirection, t.old))
	{
		pg_uuid_t	token;

		((uint64 *) token.data)[0] = pg_prng_uint64(&pg_global_prng_state);
		((uint64 *) token.data)[1] = pg_prng_uint64(&pg_global_prng_state);
		begin_version(&t);
		set(&t, t.col.status, ObjectIdGetDatum(t.executing));
		set(&t, t.col.locked_by, worker);
		set(&t, t.col.lease_expires_at, TimestampTzGetDatum(now + 60 * USECS_PER_SEC));
		set(&t, t.col.token, UUIDPGetDatum(&token));
		set(&t, t.col.updated_at, TimestampTzGetDatum(now));
		if (write_version(&t, snapshot, t.lease, t.lease_info))
			ids[n++] = t.old->tts_values[t.col.id - 1];
	}
	index_endscan(scan);
	UnregisterSnapshot(snapshot);
	close_target(&t);
	if (n == 0)
		PG_RETURN_NULL();
	PG_RETURN_ARRAYTYPE_P(construct_array(ids, n, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

/* floor.next(ids bigint[], step text) returns int: how many went on to the step */
Datum
floor_next(PG_FUNCTION_ARGS)
{
	ArrayType  *ids = PG_GETARG_ARRAYTYPE_P(0);
	Datum		step = PG_GETARG_DATUM(1);
	TimestampTz now = GetCurrentTimestamp();
	Datum	   *id;
	int			n;
	int			done = 0;
	Target		t;
	Snapshot	snapshot;
	IndexScanDesc scan;
	ScanKeyData key[1];

	deconstruct_array(ids, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &id, NULL, &n);
	open_target(&t);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	scan = gd_index_beginscan(t.rel, t.pkey, snapshot, 1);
	for (int i = 0; i < n; i++)
	{
		ScanKeyInit(&key[0], 1, BTEqualStrategyNumber, F_INT8EQ, id[i]);
		index_rescan(scan, key, 1, NULL, 0);
		if (!index_getnext_slot(scan, ForwardScanDirection, t.old))
			continue;
		begin_version(&t);
		set(&t, t.col.status, ObjectIdGetDatum(t.runnable));
		set(&t, t.col.step, step);
		set(&t, t.col.attempt, Int32GetDatum(0));
		set(&t, t.col.crashes, Int32GetDatum(0));
		set(&t, t.col.eligible_at, TimestampTzGetDatum(now));
		set(&t, t.col.updated_at, TimestampTzGetDatum(now));
		clear(&t, t.col.locked_by);
		clear(&t, t.col.lease_expires_at);
		clear(&t, t.col.token);
		if (write_version(&t, snapshot, t.pick, t.pick_info))
			done++;
	}
	index_endscan(scan);
	UnregisterSnapshot(snapshot);
	close_target(&t);
	PG_RETURN_INT32(done);
}
