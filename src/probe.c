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
 * Locks: the leaf page is pinned while rows are looked at, so that vacuum
 * gives none of its entries' rows a new meaning, and share-locked only while
 * entries are.
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/tableam.h"
#include "access/xact.h"
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
 * probe_entry: the row that an entry points to, or NULL where it is not a
 * plain entry.
 */
static ItemPointer
probe_entry(Page page, OffsetNumber offset)
{
	IndexTuple	entry = (IndexTuple) PageGetItem(page, PageGetItemId(page, offset));

	return BTreeTupleIsPosting(entry) ? NULL : &entry->t_tid;
}

/*
 * probe_page: fetch the first visible row of the entries from an offset on;
 * false where the page has none, or was changed meanwhile.  The page comes
 * locked and is left unlocked.
 */
static bool
probe_page(GdScan *scan, Buffer buffer, OffsetNumber offset)
{
	Relation	index = scan->index;
	Page		page = BufferGetPage(buffer);

	for (;; offset++)
	{
		ItemPointerData tid;
		ItemPointer entry;
		bool		again = false;
		bool		dead = false;

		while (offset <= PageGetMaxOffsetNumber(page) &&
			   ItemIdIsDead(PageGetItemId(page, offset)))
			offset++;
		entry = offset <= PageGetMaxOffsetNumber(page) ? probe_entry(page, offset) : NULL;
		if (entry)
			tid = *entry;
		_bt_unlockbuf(index, buffer);
		if (entry == NULL)
			return false;
		if (table_index_fetch_tuple(scan->desc->xs_heapfetch, &tid, scan->snapshot, scan->slot,
									&again, &dead))
			return true;

		_bt_lockbuf(index, buffer, BT_READ);
		entry = offset <= PageGetMaxOffsetNumber(page) ? probe_entry(page, offset) : NULL;
		if (entry == NULL || !ItemPointerEquals(entry, &tid))
		{
			_bt_unlockbuf(index, buffer);
			return false;
		}
		if (dead)
		{
			ItemIdMarkDead(PageGetItemId(page, offset));
			BTPageGetOpaque(page)->btpo_flags |= BTP_HAS_GARBAGE;
			MarkBufferDirtyHint(buffer, true);
		}
	}
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
	found = probe_page(scan, buffer, probe_first(scan->index, key, BufferGetPage(buffer)));
	ReleaseBuffer(buffer);
	pfree(key);
	return found;
}
