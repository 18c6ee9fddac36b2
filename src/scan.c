/*
 * scan.c
 *		The direct path to the extension's tables: scans of their indexes.
 *
 * Locks: the index is locked as its table is, by gd_table_open; a table opened
 * for reading only locks the index here, until the transaction ends.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "miscadmin.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "table.h"

/*
 * gd_scan_begin_snapshot: prepare scans of one index under a snapshot that
 * the caller keeps, or that needs no keeping.
 */
void
gd_scan_begin_snapshot(GdScan *scan, GdTable *table, GdIndexId index, Snapshot snapshot)
{
	Oid			indexid = gd_catalog()->index[index];

	memset(scan, 0, sizeof(GdScan));
	scan->table = table;
	if (table->state == NULL)
		scan->index = index_open(indexid, AccessShareLock);
	else
		for (int i = 0; i < table->rri->ri_NumIndices && scan->index == NULL; i++)
			if (RelationGetRelid(table->rri->ri_IndexRelationDescs[i]) == indexid)
				scan->index = table->rri->ri_IndexRelationDescs[i];
	if (scan->index == NULL)
		elog(ERROR, "index %u does not belong to table \"%s\"",
			 indexid, RelationGetRelationName(table->rel));
	scan->snapshot = snapshot;
	scan->slot = gd_slot_get(table);
}

/*
 * gd_scan_begin: prepare scans of one index under the latest snapshot.
 */
void
gd_scan_begin(GdScan *scan, GdTable *table, GdIndexId index)
{
	gd_scan_begin_snapshot(scan, table, index, RegisterSnapshot(GetLatestSnapshot()));
	scan->registered = true;
}

/*
 * gd_scan_key: a condition on the index's column, counted from 1, for the
 * next gd_scan_start.  Text compares by bytes.
 */
void
gd_scan_key(GdScan *scan, int column, StrategyNumber strategy, RegProcedure proc,
			Datum value)
{
	ScanKeyInit(&scan->keys[scan->nkeys++], column, strategy, proc, value);
}

/*
 * scan_key_row: the condition (column, column + 1, ...) op (values).
 */
static void
scan_key_row(GdScan *scan, int column, int ncolumns, StrategyNumber strategy,
			 const RegProcedure *compare, const Datum *values)
{
	ScanKey		header = &scan->keys[scan->nkeys++];

	for (int i = 0; i < ncolumns; i++)
	{
		ScanKeyInit(&scan->row_keys[i], column + i, strategy, compare[i], values[i]);
		scan->row_keys[i].sk_flags = SK_ROW_MEMBER | (i == ncolumns - 1 ? SK_ROW_END : 0);
	}
	memset(header, 0, sizeof(ScanKeyData));
	header->sk_flags = SK_ROW_HEADER;
	header->sk_attno = column;
	header->sk_strategy = strategy;
	header->sk_argument = PointerGetDatum(scan->row_keys);
}

/*
 * gd_scan_key_row: the condition (column, column + 1, ...) >= (values), with
 * the btree comparison function of each column; one a start.
 */
void
gd_scan_key_row(GdScan *scan, int column, int ncolumns, const RegProcedure *compare,
				const Datum *values)
{
	scan_key_row(scan, column, ncolumns, BTGreaterEqualStrategyNumber, compare, values);
}

/*
 * gd_scan_key_row_less: likewise (column, column + 1, ...) < (values).
 */
void
gd_scan_key_row_less(GdScan *scan, int column, int ncolumns, const RegProcedure *compare,
					 const Datum *values)
{
	scan_key_row(scan, column, ncolumns, BTLessStrategyNumber, compare, values);
}

/*
 * gd_scan_start: (re)start the scan with the conditions given since the last
 * start.
 */
void
gd_scan_start(GdScan *scan)
{
	if (scan->desc && scan->desc->numberOfKeys != scan->nkeys)
	{
		index_endscan(scan->desc);
		scan->desc = NULL;
	}
	if (scan->desc == NULL)
		scan->desc = gd_index_beginscan(scan->table->rel, scan->index,
										scan->snapshot, scan->nkeys);
	index_rescan(scan->desc, scan->keys, scan->nkeys, NULL, 0);
	scan->nkeys = 0;
}

/*
 * gd_scan_refresh: let the next gd_scan_start see what was committed since.
 */
void
gd_scan_refresh(GdScan *scan)
{
	Assert(scan->registered);
	if (scan->desc)
		index_endscan(scan->desc);
	scan->desc = NULL;
	UnregisterSnapshot(scan->snapshot);
	scan->snapshot = RegisterSnapshot(GetLatestSnapshot());
}

/*
 * gd_scan_next: step to the next visible row, in scan->slot.
 */
bool
gd_scan_next(GdScan *scan)
{
	CHECK_FOR_INTERRUPTS();
	return index_getnext_slot(scan->desc, ForwardScanDirection, scan->slot);
}

void
gd_scan_end(GdScan *scan)
{
	gd_slot_put(scan->table, scan->slot);
	if (scan->desc)
		index_endscan(scan->desc);
	if (scan->table->state == NULL)
		index_close(scan->index, NoLock);
	if (scan->registered)
		UnregisterSnapshot(scan->snapshot);
}
