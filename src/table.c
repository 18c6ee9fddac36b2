/*
 * table.c
 *		The direct path to the extension's tables: opening them, and their rows.
 *
 * What a statement's executor builds at every start and throws away at its
 * end - index descriptions, compiled index predicates, tuple slots - is kept
 * per session and table (GdTableState) and used again by the next call.  It
 * holds no relation, lock, pin or snapshot between calls, and is thrown away
 * when the table changes (catalog.c's generation) and when an error cut its
 * use short.
 *
 * Locks: RowExclusiveLock on the table and its indexes, kept to the end of
 * the transaction for the table.  Row locks are no-key-exclusive, so that the
 * key-share lock of a foreign key's check never hinders a claim (GD-056).
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_am_d.h"
#include "commands/sequence.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "table.h"
#include "token.h"

typedef struct GdTableState
{
	MemoryContext context;		/* holds all below; of the session once in
								 * states[] */
	GdTableId	id;
	uint64		generation;		/* of the catalog that it was built from */
	bool		in_use;
	bool		kept;			/* for the next call */
	bool		plain;			/* only btree indexes on columns */
	AttrNumber *not_null;		/* column that each index's predicate wants,
								 * or 0 */
	Oid		   *index_oids;		/* of rri's indexes */
	bool	   *moving;			/* does each index's entry move with an
								 * update? */
	int			nest_level;		/* of the transaction that uses it */
	TupleDesc	desc;			/* a copy that belongs to no relation */
	EState	   *estate;
	ResultRelInfo *rri;
	TupleTableSlot *write_slot;
	List	   *free_slots;		/* slots not in any row's or scan's hands */
} GdTableState;

static GdTableState *states[GD_NTABLES];
static bool callbacks_registered = false;

/*
 * state_drop: forget a state.  Its slots may name pins that the aborting
 * transaction has released already, so they are not cleared, only freed.
 */
static void
state_drop(GdTableState *state)
{
	if (states[state->id] == state)
		states[state->id] = NULL;
	MemoryContextDelete(state->context);
}

/*
 * states_abort: an error threw past gd_table_close in a transaction of at
 * least this nesting level.
 */
static void
states_abort(int nest_level)
{
	for (int t = 0; t < GD_NTABLES; t++)
		if (states[t] && states[t]->in_use && states[t]->nest_level >= nest_level)
			state_drop(states[t]);
}

static void
table_xact_callback(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_ABORT)
		states_abort(1);
}

static void
table_subxact_callback(SubXactEvent event, SubTransactionId mine,
					   SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		states_abort(GetCurrentTransactionNestLevel());
}

/*
 * state_check_columns: the direct path fills the extension's columns only, so
 * one that was added must be content with NULL.
 */
static void
state_check_columns(GdTableId id, TupleDesc desc)
{
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attr = TupleDescAttr(desc, i);

		if (!attr->attisdropped && (attr->attnotnull || attr->atthasdef) &&
			!gd_catalog_has_column(id, attr->attnum))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("column \"%s\" was added to a table of gen_durable with NOT NULL, a default or a generated value",
							NameStr(attr->attname)),
					 errhint("Drop the column, or make it nullable and without a default.")));
	}
}

/*
 * state_column_moves: does an update move the column on?
 *
 * In an index of such columns new entries go to the end.  In the others a new
 * entry stands for a mere new version of its row, and the index is told so: a
 * full page is then searched for dead entries before it is split.
 */
static bool
state_column_moves(GdTableId id, AttrNumber attno)
{
	const AttrNumber *attnos = gd_catalog()->attno[id];

	switch (id)
	{
		case GD_INSTANCES:
			return attno == attnos[INST_ELIGIBLE_AT] || attno == attnos[INST_LEASE_EXPIRES_AT];
		case GD_RUNS:
			return attno == attnos[RUN_WAKE_AT] || attno == attnos[RUN_CLAIMED_AT];
		default:
			return false;
	}
}

/*
 * state_wanted_column: a column that an index's predicate wants to be not
 * NULL, or InvalidAttrNumber.
 *
 * Most of the partial indexes want one that is NULL in most rows; a look at it
 * saves the evaluation of the predicate.
 */
static AttrNumber
state_wanted_column(const IndexInfo *info)
{
	ListCell   *cell;

	foreach(cell, info->ii_Predicate)
	{
		NullTest   *test = lfirst(cell);

		if (IsA(test, NullTest) && test->nulltesttype == IS_NOT_NULL && IsA(test->arg, Var) &&
			((Var *) test->arg)->varattno > 0)
			return ((Var *) test->arg)->varattno;
	}
	return InvalidAttrNumber;
}

/*
 * state_build: what a table's writes need, in a context of its own.
 */
static GdTableState *
state_build(GdTableId id, Relation rel, uint64 generation)
{
	MemoryContext context;
	MemoryContext old;
	GdTableState *state;

	state_check_columns(id, RelationGetDescr(rel));
	context = AllocSetContextCreate(CurrentMemoryContext, "gen_durable table",
									ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	state = palloc0(sizeof(GdTableState));
	state->context = context;
	state->id = id;
	state->generation = generation;
	state->desc = CreateTupleDescCopyConstr(RelationGetDescr(rel));
	state->estate = CreateExecutorState();
	state->write_slot = MakeSingleTupleTableSlot(state->desc, &TTSOpsVirtual);

	MemoryContextSwitchTo(state->estate->es_query_cxt);
	state->rri = makeNode(ResultRelInfo);
	InitResultRelInfo(state->rri, rel, 0, NULL, 0);
	ExecOpenIndices(state->rri, true);

	state->plain = true;
	state->moving = palloc0(sizeof(bool) * Max(state->rri->ri_NumIndices, 1));
	state->not_null = palloc0(sizeof(AttrNumber) * Max(state->rri->ri_NumIndices, 1));
	state->index_oids = palloc(sizeof(Oid) * Max(state->rri->ri_NumIndices, 1));
	for (int i = 0; i < state->rri->ri_NumIndices; i++)
	{
		Relation	index = state->rri->ri_IndexRelationDescs[i];
		IndexInfo  *info = state->rri->ri_IndexRelationInfo[i];

		if (!index->rd_index->indimmediate)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("deferrable constraint \"%s\" was added to a table of gen_durable",
							RelationGetRelationName(index)),
					 errhint("Drop it, or make it not deferrable.")));
		if (index->rd_rel->relam != BTREE_AM_OID || info->ii_Expressions != NIL ||
			info->ii_ExclusionOps != NULL)
			state->plain = false;
		state->index_oids[i] = RelationGetRelid(index);
		state->not_null[i] = state_wanted_column(info);
		for (int k = 0; k < info->ii_NumIndexKeyAttrs; k++)
			state->moving[i] |= state_column_moves(id, info->ii_IndexAttrNumbers[k]);
	}
	state->kept = state->plain;
	MemoryContextSwitchTo(old);
	return state;
}

/*
 * table_open_current: lock and open a table.
 *
 * It can be dropped while its lock is waited for, and made anew with the
 * extension; the catalog then tells, or raises that there is none.
 */
static Relation
table_open_current(GdTableId id, LOCKMODE mode)
{
	for (;;)
	{
		Oid			relid = gd_catalog()->table[id];
		Relation	rel = try_table_open(relid, mode);

		if (rel && gd_catalog()->table[id] == relid)
			return rel;
		if (rel)
			table_close(rel, mode);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * gd_table_open_read: open a table for reading only, which a standby can do
 * too.  Rows loaded from it cannot be locked or written.
 */
GdTable *
gd_table_open_read(GdTableId id)
{
	GdTable    *table = palloc0(sizeof(GdTable));

	PreventCommandIfParallelMode("gen_durable");	/* the latest snapshot is
													 * to be had */
	table->id = id;
	table->rel = table_open_current(id, AccessShareLock);
	table->attno = gd_catalog()->attno[id];
	table->natts = RelationGetDescr(table->rel)->natts;
	return table;
}

/*
 * gd_table_open: open a table for reading and writing.
 */
GdTable *
gd_table_open(GdTableId id)
{
	GdTable    *table = palloc0(sizeof(GdTable));
	GdTableState *state;
	const GdCatalog *cat;

	if (!callbacks_registered)
	{
		RegisterXactCallback(table_xact_callback, NULL);
		RegisterSubXactCallback(table_subxact_callback, NULL);
		callbacks_registered = true;
	}

	table->id = id;
	table->rel = table_open_current(id, RowExclusiveLock);
	cat = gd_catalog();

	state = states[id];
	if (state && !state->in_use && state->generation != cat->generation)
	{
		state_drop(state);
		state = NULL;
	}
	if (state && !state->in_use)
	{
		ResultRelInfo *rri = state->rri;

		rri->ri_RelationDesc = table->rel;
		for (int i = 0; i < rri->ri_NumIndices; i++)
			rri->ri_IndexRelationDescs[i] = index_open(state->index_oids[i], RowExclusiveLock);
	}
	else
	{
		bool		nested = state != NULL;

		state = state_build(id, table->rel, cat->generation);
		if (nested)
			state->kept = false;
		else
		{
			MemoryContextSetParent(state->context, TopMemoryContext);
			states[id] = state;
		}
	}
	state->in_use = true;
	state->nest_level = GetCurrentTransactionNestLevel();

	table->state = state;
	table->attno = cat->attno[id];
	table->natts = state->desc->natts;
	table->rri = state->rri;
	table->estate = state->estate;
	table->write_slot = state->write_slot;
	return table;
}

/*
 * gd_table_close: close it.  The table's lock stays until the transaction
 * ends.  Its rows and scans must be freed before.
 */
void
gd_table_close(GdTable *table)
{
	GdTableState *state = table->state;

	if (state == NULL)
	{
		table_close(table->rel, NoLock);
		pfree(table);
		return;
	}
	ExecClearTuple(state->write_slot);
	ExecCloseIndices(state->rri);
	table_close(table->rel, NoLock);
	state->in_use = false;
	if (!state->kept)
		state_drop(state);
	pfree(table);
}

/*
 * gd_table_flush: make what was written visible to what is read next.
 */
void
gd_table_flush(void)
{
	CommandCounterIncrement();
}

/*
 * gd_table_next_id: draw from the table's id sequence.
 */
int64
gd_table_next_id(GdTable *table)
{
	int64		id = nextval_internal(gd_catalog()->sequence[table->id], false);

	if (id < 1 || id > GD_ID_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
				 errmsg("id %lld of table \"%s\" must be from 1 to %lld", (long long) id,
						RelationGetRelationName(table->rel), (long long) GD_ID_MAX)));
	return id;
}

/*
 * gd_slot_get: a slot for a row of the table, to be given back by
 * gd_slot_put before the table is closed.
 */
TupleTableSlot *
gd_slot_get(GdTable *table)
{
	GdTableState *state = table->state;
	MemoryContext old;
	TupleTableSlot *slot;

	if (state == NULL)
		return table_slot_create(table->rel, NULL);
	if (state->free_slots != NIL)
	{
		slot = llast(state->free_slots);
		state->free_slots = list_delete_last(state->free_slots);
		return slot;
	}
	old = MemoryContextSwitchTo(state->context);
	slot = MakeSingleTupleTableSlot(state->desc, table_slot_callbacks(table->rel));
	MemoryContextSwitchTo(old);
	return slot;
}

void
gd_slot_put(GdTable *table, TupleTableSlot *slot)
{
	MemoryContext old;

	if (table->state == NULL)
	{
		ExecDropSingleTupleTableSlot(slot);
		return;
	}
	old = MemoryContextSwitchTo(table->state->context);
	ExecClearTuple(slot);
	table->state->free_slots = lappend(table->state->free_slots, slot);
	MemoryContextSwitchTo(old);
}

/*
 * gd_row_create: an empty row, all NULL.
 */
GdRow *
gd_row_create(GdTable *table)
{
	GdRow	   *row = palloc0(sizeof(GdRow));

	row->table = table;
	row->values = palloc0(sizeof(Datum) * table->natts);
	row->isnull = palloc(sizeof(bool) * table->natts);
	memset(row->isnull, true, sizeof(bool) * table->natts);
	return row;
}

void
gd_row_free(GdRow *row)
{
	if (row->slot)
		gd_slot_put(row->table, row->slot);
	pfree(row->values);
	pfree(row->isnull);
	pfree(row);
}

static void
row_take_values(GdRow *row)
{
	slot_getallattrs(row->slot);
	memcpy(row->values, row->slot->tts_values, sizeof(Datum) * row->table->natts);
	memcpy(row->isnull, row->slot->tts_isnull, sizeof(bool) * row->table->natts);
	row->tid = row->slot->tts_tid;
}

/*
 * gd_row_load: take the tuple that a scan stands on, unlocked.
 */
void
gd_row_load(GdRow *row, TupleTableSlot *slot)
{
	if (row->slot == NULL)
		row->slot = gd_slot_get(row->table);
	ExecCopySlot(row->slot, slot);
	row->slot->tts_tid = slot->tts_tid;
	row_take_values(row);
}

/*
 * gd_row_clear: make it all NULL again.
 */
void
gd_row_clear(GdRow *row)
{
	if (row->slot)
		ExecClearTuple(row->slot);
	memset(row->values, 0, sizeof(Datum) * row->table->natts);
	memset(row->isnull, true, sizeof(bool) * row->table->natts);
}

/*
 * gd_slot_hold: who holds the row that a scan stands on?
 *
 * A glance at the tuple's header, which another transaction may be changing:
 * good enough to pass over a row that is taken, at a tenth of the price of
 * trying to lock it.
 */
GdHold
gd_slot_hold(TupleTableSlot *slot)
{
	HeapTuple	tuple = ExecFetchSlotHeapTuple(slot, false, NULL);
	uint16		infomask = tuple->t_data->t_infomask;
	TransactionId xmax = HeapTupleHeaderGetRawXmax(tuple->t_data);

	if (infomask & HEAP_XMAX_INVALID)
		return GD_HOLD_NONE;
	if ((infomask & HEAP_XMAX_IS_MULTI) || HEAP_XMAX_IS_KEYSHR_LOCKED(infomask) ||
		TransactionIdIsCurrentTransactionId(xmax))
		return GD_HOLD_UNSURE;
	if (TransactionIdIsInProgress(xmax))
		return GD_HOLD_OTHER;

	/*
	 * A change that the scan's snapshot does not see is a recent one; an
	 * older id is one that was read while the header changed.
	 */
	if (!HEAP_XMAX_IS_LOCKED_ONLY(infomask) &&
		TransactionIdFollowsOrEquals(xmax, TransactionXmin) &&
		TransactionIdPrecedes(xmax, ReadNextTransactionId()) && TransactionIdDidCommit(xmax))
		return GD_HOLD_OTHER;
	return GD_HOLD_UNSURE;
}

static GdLockResult
row_lock(GdRow *row, ItemPointer tid, LockTupleMode mode, bool wait)
{
	TM_FailureData tmfd;
	TM_Result	result;
	ItemPointerData at = *tid;

	if (row->slot == NULL)
		row->slot = gd_slot_get(row->table);
	result = table_tuple_lock(row->table->rel, &at, GetActiveSnapshot(), row->slot,
							  GetCurrentCommandId(true), mode,
							  wait ? LockWaitBlock : LockWaitSkip,
							  wait ? TUPLE_LOCK_FLAG_FIND_LAST_VERSION : 0, &tmfd);
	switch (result)
	{
		case TM_Ok:
			row_take_values(row);
			return GD_LOCKED;
		case TM_Deleted:
			return GD_LOCK_GONE;
		case TM_Updated:
		case TM_WouldBlock:
		case TM_SelfModified:
		case TM_Invisible:
		case TM_BeingModified:
			return GD_LOCK_BUSY;
	}
	elog(ERROR, "unexpected result %d of locking a row", result);
}

/*
 * gd_row_lock: lock a row that a scan has found, and load the version locked.
 *
 * With wait, waits for other transactions and follows the row to its newest
 * version, which the caller must check again; only a row written by the
 * running command is busy then.  Without, one that another transaction has
 * locked or changed since the scan's snapshot is busy.
 */
GdLockResult
gd_row_lock(GdRow *row, ItemPointer tid, bool wait)
{
	return row_lock(row, tid, LockTupleNoKeyExclusive, wait);
}

/*
 * gd_row_lock_delete: likewise, without waiting, for a row to be deleted: one
 * that a foreign key's check holds is busy too.
 */
GdLockResult
gd_row_lock_delete(GdRow *row, ItemPointer tid)
{
	return row_lock(row, tid, LockTupleExclusive, false);
}

/*
 * gd_row_lock_same: lock the very version that the row was loaded from, and
 * keep the row's values; false if another transaction has locked or changed
 * it.
 */
bool
gd_row_lock_same(GdRow *row)
{
	TM_FailureData tmfd;
	ItemPointerData at = row->tid;
	TupleTableSlot *slot = gd_slot_get(row->table);
	TM_Result	result;

	result = table_tuple_lock(row->table->rel, &at, GetActiveSnapshot(), slot,
							  GetCurrentCommandId(true), LockTupleNoKeyExclusive,
							  LockWaitSkip, 0, &tmfd);
	gd_slot_put(row->table, slot);
	return result == TM_Ok;
}

static void
write_slot_fill(GdRow *row)
{
	TupleTableSlot *slot = row->table->write_slot;

	ExecClearTuple(slot);
	memcpy(slot->tts_values, row->values, sizeof(Datum) * row->table->natts);
	memcpy(slot->tts_isnull, row->isnull, sizeof(bool) * row->table->natts);
	ExecStoreVirtualTuple(slot);
}

/*
 * index_new_version: make the index entries of an updated row.
 *
 * The executor would have the primary key look for another row with the same
 * id, which means reading the row's dead versions; but ids never change.
 * Tables with indexes of other kinds are left to the executor.
 */
static void
index_new_version(GdTable *table, GdUpdateIndexes which)
{
	GdTableState *state = table->state;
	ExprContext *econtext = GetPerTupleExprContext(table->estate);
	TupleTableSlot *slot = table->write_slot;

	if (!state->plain)
	{
		gd_exec_insert_index_tuples(table->rri, slot, table->estate, true, false,
									NULL, NIL, which);
		ResetPerTupleExprContext(table->estate);
		return;
	}

	econtext->ecxt_scantuple = slot;
	for (int i = 0; i < table->rri->ri_NumIndices; i++)
	{
		Relation	index = table->rri->ri_IndexRelationDescs[i];
		IndexInfo  *info = table->rri->ri_IndexRelationInfo[i];
		Datum		values[INDEX_MAX_KEYS];
		bool		isnull[INDEX_MAX_KEYS];

		if (!info->ii_ReadyForInserts)
			continue;
		if (state->not_null[i] != InvalidAttrNumber &&
			slot->tts_isnull[state->not_null[i] - 1])
			continue;
		if (info->ii_Predicate != NIL)
		{
			if (info->ii_PredicateState == NULL)
				info->ii_PredicateState = ExecPrepareQual(info->ii_Predicate, table->estate);
			if (!ExecQual(info->ii_PredicateState, econtext))
				continue;
		}
		FormIndexDatum(info, slot, table->estate, values, isnull);
		index_insert(index, values, isnull, &slot->tts_tid, table->rel,
					 index->rd_index->indisunique && !index->rd_index->indisprimary ?
					 UNIQUE_CHECK_YES : UNIQUE_CHECK_NO,
					 !state->moving[i], info);
	}
	ResetPerTupleExprContext(table->estate);
}

static TM_Result
row_update(GdRow *row, bool wait)
{
	GdTable    *table = row->table;
	TM_FailureData tmfd;
	LockTupleMode lockmode;
	GdUpdateIndexes which;
	TM_Result	result;

	write_slot_fill(row);
	result = table_tuple_update(table->rel, &row->tid, table->write_slot,
								GetCurrentCommandId(true), GetActiveSnapshot(),
								InvalidSnapshot, wait, &tmfd, &lockmode, &which);
	if (result == TM_Ok)
	{
		if (which != GD_UPDATE_NO_INDEX)
			index_new_version(table, which);
		row->tid = table->write_slot->tts_tid;
	}
	return result;
}

/*
 * gd_row_update: write the row's values as its new version.  The row must be
 * locked, and its version not written by the current command.
 */
void
gd_row_update(GdRow *row)
{
	TM_Result	result = row_update(row, true);

	if (result != TM_Ok)
		elog(ERROR, "unexpected result %d of updating a locked row", result);
}

/*
 * gd_row_try_update: likewise for a row that was loaded and not locked; false,
 * and nothing done, if any other transaction has locked or changed it since.
 * It saves the lock's own visit to the page and its WAL record.
 */
bool
gd_row_try_update(GdRow *row)
{
#ifdef USE_ASSERT_CHECKING
	/* heap_update asserts that it is never asked not to wait. */
	return gd_row_lock_same(row) && row_update(row, true) == TM_Ok;
#else
	return row_update(row, false) == TM_Ok;
#endif
}

/*
 * gd_row_delete: delete a locked row.
 */
void
gd_row_delete(GdRow *row)
{
	TM_FailureData tmfd;
	TM_Result	result;

	result = table_tuple_delete(row->table->rel, &row->tid, GetCurrentCommandId(true),
								GetActiveSnapshot(), InvalidSnapshot, true,
								&tmfd, false);
	if (result != TM_Ok)
		elog(ERROR, "unexpected result %d of deleting a locked row", result);
}

/*
 * gd_row_insert: insert the row's values; a violated unique index raises.
 */
void
gd_row_insert(GdRow *row)
{
	GdTable    *table = row->table;

	write_slot_fill(row);
	table_tuple_insert(table->rel, table->write_slot, GetCurrentCommandId(true), 0, NULL);
	gd_exec_insert_index_tuples(table->rri, table->write_slot, table->estate, false,
								false, NULL, NIL, GD_UPDATE_ALL_INDEXES);
	ResetPerTupleExprContext(table->estate);
	row->tid = table->write_slot->tts_tid;
}

/*
 * gd_row_insert_unless: insert unless the arbiter, a unique index, has a row
 * with the same key; then tell where that one is and return false.
 *
 * As INSERT ... ON CONFLICT DO NOTHING: waits for a rival transaction that
 * has inserted or removed such a row and not ended.
 */
bool
gd_row_insert_unless(GdRow *row, GdIndexId arbiter, ItemPointer conflict)
{
	GdTable    *table = row->table;
	List	   *arbiters = list_make1_oid(gd_catalog()->index[arbiter]);

	for (;;)
	{
		bool		lost = false;
		uint32		token;

		CHECK_FOR_INTERRUPTS();
		write_slot_fill(row);
		if (!gd_check_index_constraints(table->rri, table->write_slot,
										table->estate, conflict, arbiters))
		{
			ResetPerTupleExprContext(table->estate);
			return false;
		}
		token = SpeculativeInsertionLockAcquire(GetCurrentTransactionId());
		table_tuple_insert_speculative(table->rel, table->write_slot,
									   GetCurrentCommandId(true), 0, NULL, token);
		gd_exec_insert_index_tuples(table->rri, table->write_slot, table->estate,
									false, true, &lost, arbiters,
									GD_UPDATE_ALL_INDEXES);
		table_tuple_complete_speculative(table->rel, table->write_slot, token, !lost);
		SpeculativeInsertionLockRelease(GetCurrentTransactionId());
		ResetPerTupleExprContext(table->estate);
		if (!lost)
		{
			row->tid = table->write_slot->tts_tid;
			return true;
		}
	}
}

/*
 * gd_rows_insert: insert many rows with as few WAL records as they fit in.
 */
void
gd_rows_insert(GdTable *table, GdRow **rows, int nrows)
{
	TupleTableSlot **slots = palloc(sizeof(TupleTableSlot *) * nrows);

	for (int i = 0; i < nrows; i++)
	{
		slots[i] = MakeSingleTupleTableSlot(table->state->desc, &TTSOpsVirtual);
		memcpy(slots[i]->tts_values, rows[i]->values, sizeof(Datum) * table->natts);
		memcpy(slots[i]->tts_isnull, rows[i]->isnull, sizeof(bool) * table->natts);
		ExecStoreVirtualTuple(slots[i]);
	}
	table_multi_insert(table->rel, slots, nrows, GetCurrentCommandId(true), 0, NULL);
	for (int i = 0; i < nrows; i++)
	{
		slots[i]->tts_tableOid = RelationGetRelid(table->rel);
		gd_exec_insert_index_tuples(table->rri, slots[i], table->estate, false,
									false, NULL, NIL, GD_UPDATE_ALL_INDEXES);
		ResetPerTupleExprContext(table->estate);
		rows[i]->tid = slots[i]->tts_tid;
		ExecDropSingleTupleTableSlot(slots[i]);
	}
	pfree(slots);
}

/*
 * gd_row_fetch: load the version at a place if a snapshot sees it; false if
 * not, or if nothing is there.
 */
bool
gd_row_fetch(GdRow *row, const ItemPointerData *tid, Snapshot snapshot)
{
	ItemPointerData at = *tid;

	if (row->slot == NULL)
		row->slot = gd_slot_get(row->table);
	if (ItemPointerGetBlockNumber(&at) >= RelationGetNumberOfBlocks(row->table->rel) ||
		!table_tuple_fetch_row_version(row->table->rel, &at, snapshot, row->slot))
		return false;
	row_take_values(row);
	return true;
}

/*
 * gd_row_fetch_any: load the version at a place that a conflict was met,
 * whoever may see it; false if nothing is there any more.
 */
bool
gd_row_fetch_any(GdRow *row, ItemPointer tid)
{
	if (row->slot == NULL)
		row->slot = gd_slot_get(row->table);
	if (!table_tuple_fetch_row_version(row->table->rel, tid, SnapshotAny, row->slot))
		return false;
	row_take_values(row);
	return true;
}
