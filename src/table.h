/*
 * table.h
 *		The direct path to the extension's tables: index scans, row locks,
 *		inserts and updates through the table and index access methods.
 *
 * No planner and no executor nodes: the caller names the index.  Permissions
 * are those of the SQL function that got here; row security, user triggers,
 * CHECK constraints and foreign keys' checks do not run on this path.  All
 * indexes are kept, those that a user adds to the tables too.
 */
#ifndef GEN_DURABLE_TABLE_H
#define GEN_DURABLE_TABLE_H

#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "utils/fmgroids.h"
#include "utils/snapshot.h"

#include "catalog.h"

/* An open table.  Columns are named by their place in catalog.h's enums. */
typedef struct GdTable
{
	GdTableId	id;
	Relation	rel;
	const AttrNumber *attno;	/* attribute number of each column */
	int			natts;
	ResultRelInfo *rri;			/* with its indexes open */
	EState	   *estate;			/* for index predicates and expressions */
	TupleTableSlot *write_slot; /* the tuple being written */
	struct GdTableState *state; /* what outlives the call; see table.c */
} GdTable;

/*
 * A row in hand: its values by attribute, and where it is.  Values point into
 * the row's slot until the row is loaded again or freed.
 */
typedef struct GdRow
{
	GdTable    *table;
	TupleTableSlot *slot;
	ItemPointerData tid;
	Datum	   *values;
	bool	   *isnull;
} GdRow;

/* One scan of one index in index order. */
typedef struct GdScan
{
	GdTable    *table;
	Relation	index;
	IndexScanDesc desc;
	Snapshot	snapshot;
	bool		registered;		/* the snapshot is this scan's own */
	TupleTableSlot *slot;
	int			nkeys;
	ScanKeyData keys[INDEX_MAX_KEYS];
	ScanKeyData row_keys[INDEX_MAX_KEYS];	/* members of a row comparison */
} GdScan;

typedef enum GdLockResult
{
	GD_LOCKED,					/* locked, and the row holds its newest
								 * version */
	GD_LOCK_BUSY,				/* another transaction holds or has just
								 * changed it */
	GD_LOCK_GONE				/* it was deleted */
} GdLockResult;

/* Who holds the row that a scan stands on, at a glance. */
typedef enum GdHold
{
	GD_HOLD_NONE,				/* nobody has locked or changed it */
	GD_HOLD_OTHER,				/* a transaction that has not ended, or has
								 * just changed it */
	GD_HOLD_UNSURE				/* only locking it tells */
} GdHold;

extern GdTable *gd_table_open(GdTableId id);
extern GdTable *gd_table_open_read(GdTableId id);
extern void gd_table_close(GdTable *table);
extern void gd_table_flush(void);
extern int64 gd_table_next_id(GdTable *table);

extern TupleTableSlot *gd_slot_get(GdTable *table);
extern void gd_slot_put(GdTable *table, TupleTableSlot *slot);
extern GdRow *gd_row_create(GdTable *table);
extern void gd_row_free(GdRow *row);
extern void gd_row_load(GdRow *row, TupleTableSlot *slot);
extern void gd_row_clear(GdRow *row);
extern GdHold gd_slot_hold(TupleTableSlot *slot);
extern GdLockResult gd_row_lock(GdRow *row, ItemPointer tid, bool wait);
extern GdLockResult gd_row_lock_delete(GdRow *row, ItemPointer tid);
extern bool gd_row_lock_same(GdRow *row);
extern void gd_row_update(GdRow *row);
extern bool gd_row_try_update(GdRow *row);
extern void gd_row_delete(GdRow *row);
extern void gd_row_insert(GdRow *row);
extern bool gd_row_insert_unless(GdRow *row, GdIndexId arbiter, ItemPointer conflict);
extern void gd_rows_insert(GdTable *table, GdRow **rows, int nrows);
extern bool gd_row_fetch_any(GdRow *row, ItemPointer tid);
extern bool gd_row_fetch(GdRow *row, const ItemPointerData *tid, Snapshot snapshot);

extern void gd_scan_begin(GdScan *scan, GdTable *table, GdIndexId index);
extern void gd_scan_begin_snapshot(GdScan *scan, GdTable *table, GdIndexId index,
								   Snapshot snapshot);
extern void gd_scan_key(GdScan *scan, int column, StrategyNumber strategy,
						RegProcedure proc, Datum value);
extern void gd_scan_key_row(GdScan *scan, int column, int ncolumns,
							const RegProcedure *compare, const Datum *values);
extern void gd_scan_key_row_less(GdScan *scan, int column, int ncolumns,
								 const RegProcedure *compare, const Datum *values);
extern void gd_scan_start(GdScan *scan);
extern void gd_scan_refresh(GdScan *scan);
extern bool gd_scan_next(GdScan *scan);
extern bool gd_scan_probe(GdScan *scan, int ncolumns, const Datum *values);
extern void gd_scan_end(GdScan *scan);

#define gd_scan_text(scan, column, value) \
	gd_scan_key(scan, column, BTEqualStrategyNumber, F_TEXTEQ, PointerGetDatum(value))
#define gd_scan_int8(scan, column, value) \
	gd_scan_key(scan, column, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(value))

/* A column of a row, and of a slot that a scan stands on. */
#define GD_ATT(row, column) ((row)->table->attno[column] - 1)
#define GD_IS_NULL(row, column) ((row)->isnull[GD_ATT(row, column)])
#define GD_VALUE(row, column) ((row)->values[GD_ATT(row, column)])

static inline Datum
gd_slot_value(GdTable *table, TupleTableSlot *slot, int column, bool *isnull)
{
	return slot_getattr(slot, table->attno[column], isnull);
}

/* A column that is never NULL. */
static inline Datum
gd_slot_datum(GdTable *table, TupleTableSlot *slot, int column)
{
	bool		isnull;
	Datum		value = slot_getattr(slot, table->attno[column], &isnull);

	Assert(!isnull);
	return value;
}

static inline void
gd_row_set(GdRow *row, int column, Datum value)
{
	GD_VALUE(row, column) = value;
	GD_IS_NULL(row, column) = false;
}

static inline void
gd_row_set_null(GdRow *row, int column)
{
	GD_VALUE(row, column) = (Datum) 0;
	GD_IS_NULL(row, column) = true;
}

#endif							/* GEN_DURABLE_TABLE_H */
