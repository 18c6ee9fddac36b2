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
 * It looks at a few rows, on the page that it comes to and the next ones.
 * Where the first visible row is farther off, because rows were claimed that a
 * snapshot still needs, a scan is cheaper: it reads a page at a time.
 *
 * Locks: a leaf page is pinned while the row of its entry is looked at, and
 * share-locked only while entries are.  Vacuum takes no entry off a page that
 * is pinned, so an entry that still has its row's address when the page is
 * locked again is that row's, whatever else became of the page; that is what
 * lets it be marked as dead without asking for the page's LSN.  Other sessions
 * do take entries off meanwhile, of rows that are dead to everybody, and a
 * page that they have emptied may be deleted under the pin.
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "compat.h"
#include "table.h"

/* How far a probe goes: rows that it looks at, and steps to a next page. */
#define PROBE_ROWS 32
#define PROBE_STEPS 2

/* Where a probe is: an entry of a leaf page, which is locked or pinned. */
typedef struct Probe
{
	Relation	index;
	Buffer		buffer;
	OffsetNumber offset;
	int			rows;			/* that may still be looked at */
	int			steps;			/* to next pages that may still be made */
} Probe;

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
 * probe_live: go to the next entry that is not known to be dead, on this page
 * or, since groups mostly end where pages do, on a next one; false where that
 * is too far, at the end of the index, and at an entry of many rows.
 */
static bool
probe_live(Probe *probe, ItemPointer tid)
{
	for (;;)
	{
		Page		page = BufferGetPage(probe->buffer);
		BTPageOpaque opaque = BTPageGetOpaque(page);

		for (; !P_IGNORE(opaque) && probe->offset <= PageGetMaxOffsetNumber(page); probe->offset++)
		{
			ItemId		item = PageGetItemId(page, probe->offset);
			IndexTuple	entry = (IndexTuple) PageGetItem(page, item);

			if (ItemIdIsDead(item))
				continue;
			*tid = entry->t_tid;
			return probe->rows-- > 0 && !BTreeTupleIsPosting(entry);
		}
		if (P_RIGHTMOST(opaque) || probe->steps-- <= 0)
			return false;
		probe->buffer = _bt_relandgetbuf(probe->index, probe->buffer, opaque->btpo_next, BT_READ);
		probe->offset = P_FIRSTDATAKEY(BTPageGetOpaque(BufferGetPage(probe->buffer)));
	}
}

/*
 * probe_same: is the entry still where it was, on a page that was unlocked
 * meanwhile?  A deleted page has none, whatever its header counts.
 */
static bool
probe_same(const Probe *probe, ItemPointer tid)
{
	Page		page = BufferGetPage(probe->buffer);
	IndexTuple	entry;

	if (P_IGNORE(BTPageGetOpaque(page)) || probe->offset > PageGetMaxOffsetNumber(page))
		return false;
	entry = (IndexTuple) PageGetItem(page, PageGetItemId(page, probe->offset));
	return !BTreeTupleIsPosting(entry) && ItemPointerEquals(&entry->t_tid, tid);
}

/*
 * probe_mark: as a scan does, tell others that the entry's row is dead.
 */
static void
probe_mark(const Probe *probe)
{
	Page		page = BufferGetPage(probe->buffer);

	ItemIdMarkDead(PageGetItemId(page, probe->offset));
	BTPageGetOpaque(page)->btpo_flags |= BTP_HAS_GARBAGE;
	MarkBufferDirtyHint(probe->buffer, true);
}

/*
 * probe_fetch: fetch the first visible row of the entries from where the probe
 * is on; false where it was not found, or a page was changed meanwhile.  The
 * page comes locked and is given back.
 */
static bool
probe_fetch(Probe *probe, GdScan *scan)
{
	ItemPointerData tid;

	for (; probe_live(probe, &tid); probe->offset++)
	{
		ItemPointerData at = tid;
		bool		again = false;
		bool		dead = false;

		_bt_unlockbuf(probe->index, probe->buffer);
		if (table_index_fetch_tuple(scan->desc->xs_heapfetch, &at, scan->snapshot, scan->slot,
									&again, &dead))
		{
			ReleaseBuffer(probe->buffer);
			return true;
		}
		_bt_lockbuf(probe->index, probe->buffer, BT_READ);
		if (!probe_same(probe, &tid))
			break;
		if (dead)
			probe_mark(probe);
	}
	_bt_relbuf(probe->index, probe->buffer);
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
	Probe		probe = {.index = scan->index,.rows = PROBE_ROWS,.steps = PROBE_STEPS};
	BTScanInsert key;
	bool		found = false;

	CHECK_FOR_INTERRUPTS();

	/*
	 * A scan takes the locks that serializable transactions need.  And what
	 * began on a standby must neither make nor believe marks of dead rows.
	 */
	if (IsolationIsSerializable() || TransactionStartedDuringRecovery())
		return false;
	if (scan->desc == NULL)
		scan->desc = gd_index_beginscan(scan->table->rel, scan->index, scan->snapshot, 1);
	pgstat_count_index_scan(scan->index);
	key = probe_key(scan->index, ncolumns, values);
	_bt_freestack(gd_bt_search(scan->index, scan->table->rel, key, &probe.buffer, BT_READ));
	if (BufferIsValid(probe.buffer))
	{
		probe.offset = probe_first(scan->index, key, BufferGetPage(probe.buffer));
		found = probe_fetch(&probe, scan);
	}
	pfree(key);
	return found;
}
