/*
 * reclaim.c
 *		reclaim: a worker takes back, at its start, what its dead predecessors
 *		held.
 *
 * A live owner keeps more than `margin` of lease, so a worker whose name has
 * the same prefix is never robbed (GD-237).  The prefix is compared byte by
 * byte.  Nothing failed, so attempt and crashes stay (GD-236).
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/instance.h"
#include "engine/release.h"
#include "events.h"
#include "names.h"
#include "shmem/dispatch.h"

PG_FUNCTION_INFO_V1(gd_reclaim);

/*
 * reclaim_holds: does a worker whose name has the prefix hold the row?  Of a
 * dispatched claim its holder is known before the row says so, and one that
 * waits for a take is held by nobody.
 */
static bool
reclaim_holds(GdScan *scan, const text *prefix)
{
	bool		isnull;
	Datum		token = gd_slot_value(scan->table, scan->slot, INST_TOKEN, &isnull);
	GdDispatchState state = isnull ? GD_DISPATCH_NONE : GD_DISPATCH_TAKEN;
	int			len = VARSIZE_ANY_EXHDR(prefix);
	text	   *name;
	GdHolder	holder;

	if (state == GD_DISPATCH_TAKEN)
		state = gd_dispatch_find(DatumGetUUIDP(token), &holder);
	if (state == GD_DISPATCH_TAKEN)
		return holder.worker_len >= len && memcmp(holder.worker, VARDATA_ANY(prefix), len) == 0;
	if (state != GD_DISPATCH_NONE)
		return false;
	name = DatumGetTextPP(gd_slot_value(scan->table, scan->slot, INST_LOCKED_BY, &isnull));
	return !isnull && VARSIZE_ANY_EXHDR(name) >= len &&
		memcmp(VARDATA_ANY(name), VARDATA_ANY(prefix), len) == 0;
}

static bool
reclaim_matches(GdScan *scan, const text *queue, const text *prefix)
{
	return gd_text_equal(DatumGetTextPP(gd_slot_datum(scan->table, scan->slot, INST_QUEUE)),
						 queue) && reclaim_holds(scan, prefix);
}

/*
 * reclaim(queue, prefix, margin) -> how many claims were taken back
 */
Datum
gd_reclaim(PG_FUNCTION_ARGS)
{
	TimestampTz now = gd_now();
	text	   *queue = gd_arg_name(fcinfo, 0, "queue");
	text	   *prefix = gd_arg_name(fcinfo, 1, "prefix");
	GdTable    *instances;
	GdRow	   *row;
	GdScan		scan;
	TimestampTz before;
	int64		reclaimed = 0;

	gd_writes("gen_durable.reclaim()");
	gd_arg_required(fcinfo, 2, "margin");
	gd_check_not_negative("margin", PG_GETARG_INTERVAL_P(2), NULL);
	before = gd_later(now, PG_GETARG_INTERVAL_P(2));

	instances = gd_table_open(GD_INSTANCES);
	row = gd_row_create(instances);
	gd_scan_begin(&scan, instances, GD_INSTANCES_LEASE);
	gd_scan_key(&scan, 1, BTLessStrategyNumber, F_TIMESTAMPTZ_LT, TimestampTzGetDatum(before));
	gd_scan_start(&scan);
	while (gd_scan_next(&scan))
	{
		if (!reclaim_matches(&scan, queue, prefix) ||
			gd_row_lock(row, &scan.slot->tts_tid, false) != GD_LOCKED)
			continue;
		gd_release_row(row, now, GD_COUNT_RECLAIMED);
		reclaimed++;
	}
	gd_scan_end(&scan);
	gd_row_free(row);
	gd_table_close(instances);
	gd_table_flush();
	if (reclaimed > 0)
		gd_event("scheduler.reclaimed", "count=%lld queue=%s", (long long) reclaimed,
				 gd_event_value(queue));
	PG_RETURN_INT64(reclaimed);
}
