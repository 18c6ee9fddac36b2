/*
 * probe.c
 *		The direct path to the extension's tables: the first row behind a place
 *		of an index, without reading its page whole.
 *
 * A scan takes all entries of a leaf page that its conditions let through, a
 * hundred and more.  Who goes from group to group of an index wants the first
 * one alone, and would throw the others away each time; that was a tenth of a
 * claim of runs.  So this goes down the tree by itself and looks at the
 * entries one by one.  It finds the common case: where it cannot tell, a scan
 * has to.
 *
 * As a scan does, it marks entries of rows that are dead to everybody, so that
 * who comes next does not go to their rows again.
 *
 * Locks: a leaf page is pinned while the row of its entry is looked at, so
 * that vacuum gives the entry no new meaning, and share-locked only while
 * entries are looked at.
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "compat.h"
#include "table.h"

/*
 * probe_key: the place as the tree's search wants it.
 */
static BTScanInsert
probe_key(Relation index, int ncolumns, const Datum *values)
{
	BTScanInsert key = _bt_mkscankey(index, NULL);

	for (int i = 0; i < ncolumns; i++)
	{
		key->scankeys[i].sk_argument = values[i];
		key->scankeys[i].sk_flags &= ~SK_ISNULL;
	}
	key->keysz = ncolumns;
	key->anynullkeys = false;
	key->nextkey = true;
	return key;
}

/*
 * probe_first: the first entry of a leaf page that is behind the place; one
 * past the last where none is.
 */
static OffsetNumber
probe_first(Relation index, BTScanInsert key, Page page)
{
	OffsetNumber low = P_FIRSTDATAKEY(BTPageGetOpaque(page));
	OffsetNumber high = PageGetMaxOffsetNumber(page) + 1;

	while (low < high)
	{
		OffsetNumber middle = low + (high - low) / 2;

		if (_bt_compare(index, key, page, middle) >= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * probe_live: the next entry from an offset on that is not known to be dead,
 * on this page or, since groups mostly end where pages do, on those to the
 * right of it; false at the end of the index, and at an entry of many rows.
 */
static bool
probe_live(Relation index, Buffer * buffer, OffsetNumber * offset, ItemPointer tid)
{
	for (;;)
	{
		Page		page = BufferGetPage(*buffer);
		BTPageOpaque opaque = BTPageGetOpaque(page);

		for (; !P_IGNORE(opaque) && *offset <= PageGetMaxOffsetNumber(page); (*offset)++)
		{
			ItemId		item = PageGetItemId(page, *offset);
			IndexTuple	entry = (IndexTuple) PageGetItem(page, item);

			if (ItemIdIsDead(item))
				continue;
			if (BTreeTupleIsPosting(entry))
				return false;
			*tid = entry->t_tid;
			return true;
		}
		if (P_RIGHTMOST(opaque))
			return false;
		*buffer = _bt_relandgetbuf(index, *buffer, opaque->btpo_next, BT_READ);
		*offset = P_FIRSTDATAKEY(BTPageGetOpaque(BufferGetPage(*buffer)));
	}
}

/*
 * probe_same: is the entry still where it was, on a page that was unlocked
 * meanwhile?
 */
static bool
probe_same(Page page, OffsetNumber offset, ItemPointer tid)
{
	IndexTuple	entry;

	if (offset > PageGetMaxOffsetNumber(page))
		return false;
	entry = (IndexTuple) PageGetItem(page, PageGetItemId(page, offset));
	return !BTreeTupleIsPosting(entry) && ItemPointerEquals(&entry->t_tid, tid);
}

/*
 * probe_fetch: fetch the first visible row of the entries from an offset on;
 * false where there is none, or a page was changed meanwhile.  The page comes
 * locked and is given back.
 */
static bool
probe_fetch(GdScan *scan, Buffer buffer, OffsetNumber offset)
{
	Relation	index = scan->index;

	for (;; offset++)
	{
		ItemPointerData tid;
		ItemPointerData at;
		bool		again = false;
		bool		dead = false;

		if (!probe_live(index, &buffer, &offset, &tid))
			break;
		_bt_unlockbuf(index, buffer);
		at = tid;
		if (table_index_fetch_tuple(scan->desc->xs_heapfetch, &at, scan->snapshot, scan->slot,
									&again, &dead))
		{
			ReleaseBuffer(buffer);
			return true;
		}
		CHECK_FOR_INTERRUPTS();

		_bt_lockbuf(index, buffer, BT_READ);
		if (!probe_same(BufferGetPage(buffer), offset, &tid))
			break;
		if (dead)
		{
			ItemIdMarkDead(PageGetItemId(BufferGetPage(buffer), offset));
			BTPageGetOpaque(BufferGetPage(buffer))->btpo_flags |= BTP_HAS_GARBAGE;
			MarkBufferDirtyHint(buffer, true);
		}
	}
	_bt_relbuf(index, buffer);
	return false;
}

/*
 * gd_scan_probe: stand at the first row whose first index columns are greater
 * than the values.  False where only a scan can tell whether there is one.
 *
 * The next step needs a new start of the scan.
 */
bool
gd_scan_probe(GdScan *scan, int ncolumns, const Datum *values)
{
	BTScanInsert key;
	Buffer		buffer;
	bool		found;

	/* A scan takes the locks that serializable transactions need. */
	if (IsolationIsSerializable())
		return false;
	if (scan->desc == NULL)
		scan->desc = gd_index_beginscan(scan->table->rel, scan->index, scan->snapshot, 1);
	pgstat_count_index_scan(scan->index);
	key = probe_key(scan->index, ncolumns, values);
	_bt_freestack(gd_bt_search(scan->index, scan->table->rel, key, &buffer, BT_READ));
	if (!BufferIsValid(buffer))
	{
		pfree(key);
		return false;
	}
	found = probe_fetch(scan, buffer, probe_first(scan->index, key, BufferGetPage(buffer)));
	pfree(key);
	return found;
}
