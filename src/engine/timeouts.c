/*
 * timeouts.c
 *		fire_timeouts: waking the instances whose await deadline has passed.
 *
 * It is a wake, not a failure: the step tells a timeout by the signals that
 * it was not handed (GD-201, 202).
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/instance.h"
#include "engine/maintenance.h"
#include "events.h"
#include "names.h"

PG_FUNCTION_INFO_V1(gd_fire_timeouts);

int64
gd_timeouts_pass(int max_rows)
{
	TimestampTz now = gd_now();
	GdTable    *instances = gd_table_open(GD_INSTANCES);
	GdRow	   *row = gd_row_create(instances);
	GdScan		scan;
	int64		fired = 0;

	gd_scan_begin(&scan, instances, GD_INSTANCES_DEADLINE);
	gd_scan_key(&scan, 1, BTLessStrategyNumber, F_TIMESTAMPTZ_LT, TimestampTzGetDatum(now));
	gd_scan_start(&scan);
	while (fired < max_rows && gd_scan_next(&scan))
	{
		if (gd_row_lock(row, &scan.slot->tts_tid, false) != GD_LOCKED)
			continue;
		gd_row_set_null(row, INST_AWAIT_DEADLINE);
		gd_instance_to_runnable(row, now);
		gd_instance_write(row, now);
		gd_stats_count(gd_instance_text(row, INST_QUEUE), GD_COUNT_TIMEOUTS, 1);
		fired++;
	}
	gd_scan_end(&scan);
	gd_row_free(row);
	gd_table_close(instances);
	gd_table_flush();
	if (fired > 0)
		gd_event("await.timeout", "count=%lld", (long long) fired);
	return fired;
}

/*
 * fire_timeouts(max_rows) -> how many were woken
 */
Datum
gd_fire_timeouts(PG_FUNCTION_ARGS)
{
	int			max_rows = gd_arg_positive(fcinfo, 0, "max_rows");

	gd_writes("gen_durable.fire_timeouts()");
	PG_RETURN_INT64(gd_timeouts_pass(max_rows));
}
