/*
 * gc.c
 *		gc: deleting what has ended long enough ago.
 *
 * A terminal child whose parent is not terminal is spared, since the parent
 * may still look at it (GD-261).  Signals go with their instance; children of
 * a deleted parent lose the link.  What triggers and the foreign key do for
 * SQL is done here because the direct path runs no triggers.
 *
 * Locks: the row and its children, and whatever is locked by others is left
 * to the next pass.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/inbox.h"
#include "engine/instance.h"
#include "engine/maintenance.h"
#include "events.h"
#include "guc.h"
#include "names.h"
#include "run_store/collect.h"

PG_FUNCTION_INFO_V1(gd_gc);

typedef struct Gc
{
	GdTable    *instances;
	GdRow	   *row;			/* the instance to delete */
	GdRow	   *child;
	GdScan		by_id;
	GdScan		by_parent;
} Gc;

/*
 * gc_is_due: did the row, as it is now, end before an instant?
 */
static bool
gc_is_due(GdRow *row, TimestampTz finished_before)
{
	return gd_status_is_terminal(gd_instance_status(row)) &&
		!GD_IS_NULL(row, INST_FINISHED_AT) &&
		DatumGetTimestampTz(GD_VALUE(row, INST_FINISHED_AT)) < finished_before;
}

/*
 * gc_spared: may a live parent still look at this child?
 */
static bool
gc_spared(Gc *gc, TupleTableSlot *slot)
{
	bool		no_parent;
	Datum		parent = gd_slot_value(gc->instances, slot, INST_PARENT_ID, &no_parent);

	return !no_parent && gd_instance_find(&gc->by_id, DatumGetInt64(parent)) &&
		!gd_status_is_terminal(gd_status_of(DatumGetObjectId(gd_slot_datum(gc->instances,
																		   gc->by_id.slot,
																		   INST_STATUS))));
}

/*
 * gc_children: lock every child of a row, or take the link from every child;
 * false as soon as another transaction has one locked.
 */
static bool
gc_children(Gc *gc, int64 id, bool unlink)
{
	gd_scan_int8(&gc->by_parent, 1, id);
	gd_scan_start(&gc->by_parent);
	while (gd_scan_next(&gc->by_parent))
	{
		if (gd_row_lock(gc->child, &gc->by_parent.slot->tts_tid, false) != GD_LOCKED)
			return false;
		if (!unlink)
			continue;
		gd_row_set_null(gc->child, INST_PARENT_ID);
		gd_row_set(gc->child, INST_JOINS_BARRIER, Int32GetDatum(0));
		gd_row_update(gc->child);
	}
	return true;
}

/*
 * gc_pass: delete terminal instances that ended before an instant.
 */
static int64
gc_pass(TimestampTz finished_before, int max_rows)
{
	Gc			gc;
	GdScan		scan;
	int64		collected = 0;

	gc.instances = gd_table_open(GD_INSTANCES);
	gc.row = gd_row_create(gc.instances);
	gc.child = gd_row_create(gc.instances);
	gd_scan_begin(&gc.by_id, gc.instances, GD_INSTANCES_PKEY);
	gd_scan_begin(&gc.by_parent, gc.instances, GD_INSTANCES_PARENT);
	gd_scan_begin(&scan, gc.instances, GD_INSTANCES_FINISHED);
	gd_scan_key(&scan, 1, BTLessStrategyNumber, F_TIMESTAMPTZ_LT,
				TimestampTzGetDatum(finished_before));
	gd_scan_start(&scan);
	while (collected < max_rows && gd_scan_next(&scan))
	{
		int64		id = DatumGetInt64(gd_slot_datum(gc.instances, scan.slot, INST_ID));

		/* The newest version: this pass may have unlinked it from its parent. */
		if (gc_spared(&gc, scan.slot) ||
			!gd_instance_find(&gc.by_id, id) ||
			gd_row_lock_delete(gc.row, &gc.by_id.slot->tts_tid) != GD_LOCKED ||
			!gc_is_due(gc.row, finished_before))
			continue;
		if (gc_children(&gc, id, false) && gc_children(&gc, id, true))
		{
			gd_inbox_drop(id);
			gd_stats_count(gd_instance_text(gc.row, INST_QUEUE), GD_COUNT_COLLECTED, 1);
			gd_row_delete(gc.row);
			collected++;
		}

		/*
		 * A child may be met later in this pass: make its unlinking, and the
		 * deletion of a parent, visible.
		 */
		gd_table_flush();
		gd_scan_refresh(&gc.by_id);
		gd_scan_refresh(&gc.by_parent);
	}
	gd_scan_end(&scan);
	gd_scan_end(&gc.by_parent);
	gd_scan_end(&gc.by_id);
	gd_row_free(gc.child);
	gd_row_free(gc.row);
	gd_table_close(gc.instances);
	return collected;
}

/*
 * gd_gc_all: one pass each over ended instances, ended runs and forgotten
 * dedup keys; returns how many instances and runs were deleted.
 */
int64
gd_gc_all(const Interval *retention, int batch)
{
	TimestampTz now = gd_now();
	int64		collected = gc_pass(gd_earlier(now, retention), batch);

	collected += gd_runs_collect(gd_earlier(now, retention), batch);
	gd_inbox_collect(gd_earlier(now, gd_interval_from_ms(gd_dedup_retention * 1000.0)), batch);
	gd_table_flush();
	if (collected > 0)
		gd_event("gc.swept", "count=%lld", (long long) collected);
	return collected;
}

/*
 * gc(retention, batch) -> how many instances and runs were deleted
 */
Datum
gd_gc(PG_FUNCTION_ARGS)
{
	Interval   *retention = PG_ARGISNULL(0) ? gd_interval_from_ms(gd_gc_retention * 1000.0) :
	PG_GETARG_INTERVAL_P(0);
	int			batch = PG_ARGISNULL(1) ? gd_gc_batch : gd_arg_positive(fcinfo, 1, "batch");

	gd_writes("gen_durable.gc()");
	gd_check_not_negative("retention", retention, NULL);
	PG_RETURN_INT64(gd_gc_all(retention, batch));
}
