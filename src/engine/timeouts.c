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

#include "engine/instance.h"
#include "engine/maintenance.h"
#include "events.h"
#include "names.h"

PG_FUNCTION_INFO_V1(gd_fire_timeouts);

static void
timeouts_fire(GdRow *row, TimestampTz now)
{
	gd_row_set_null(row, INST_AWAIT_DEADLINE);
	gd_instance_to_runnable(row, now);
	gd_instance_write(row, now);
	gd_stats_count(gd_instance_text(row, INST_QUEUE), GD_COUNT_TIMEOUTS, 1);
}

int64
gd_timeouts_pass(int max_rows)
{
	int64		fired = gd_overdue_pass(GD_INSTANCES_DEADLINE, max_rows, timeouts_fire);

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
