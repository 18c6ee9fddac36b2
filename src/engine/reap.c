/*
 * reap.c
 *		reap: taking back the claims whose lease has run out.
 *
 * The worker died, or was too slow to beat.  The step runs again with attempt
 * and crashes one higher; a step that has killed its workers max_crashes
 * times in a row fails the instance (D-9).  A row that is locked right now is
 * left alone: its outcome may be about to commit (GD-229).
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/dispatched.h"
#include "engine/instance.h"
#include "engine/machines.h"
#include "engine/maintenance.h"
#include "engine/release.h"
#include "events.h"
#include "names.h"

PG_FUNCTION_INFO_V1(gd_reap);

static void
reap_row(GdRow *row, TimestampTz now)
{
	int			crashes = gd_instance_int(row, INST_CRASHES);
	GdMachine	machine = {0};

	gd_stats_count(gd_instance_text(row, INST_QUEUE), GD_COUNT_REAPED, 1);
	/* Nobody has begun it: the scheduler has not come to renew its lease. */
	if (!GD_IS_NULL(row, INST_TOKEN) &&
		gd_dispatched_recall(DatumGetUUIDP(GD_VALUE(row, INST_TOKEN)), now))
	{
		gd_release_row(row, now, GD_COUNT_RELEASED);
		return;
	}
	if (!GD_IS_NULL(row, INST_CANCEL_REQUESTED_AT))
	{
		gd_instance_set_status(row, GD_CANCELLED);
		gd_instance_write(row, now);
		return;
	}

	gd_machine_read(gd_instance_text(row, INST_FSM),
					gd_instance_int(row, INST_FSM_VERSION), &machine);
	if (machine.max_crashes >= 0 && crashes >= machine.max_crashes)
	{
		gd_row_set(row, INST_LAST_ERROR,
				   CStringGetTextDatum(psprintf("worker died %d times", crashes + 1)));
		gd_instance_set_status(row, GD_FAILED);
	}
	else
		gd_instance_set_status(row, GD_RUNNABLE);
	gd_row_set(row, INST_ATTEMPT, Int32GetDatum(gd_instance_int(row, INST_ATTEMPT) + 1));
	gd_row_set(row, INST_CRASHES, Int32GetDatum(crashes + 1));
	gd_instance_write(row, now);
}

/*
 * gd_reap_claim: take back the claim of a worker that is known to be dead;
 * begun tells whether it had begun the step.  A row that is locked is left to
 * its lease.
 */
void
gd_reap_claim(const pg_uuid_t *token, bool begun)
{
	TimestampTz now = gd_now();
	GdInstances instances;
	GdFence		fence;

	gd_instances_open(&instances);
	fence = gd_instance_fence(&instances.by_id, instances.row, token, false);
	if (fence == GD_FENCE_HELD || fence == GD_FENCE_CANCEL)
	{
		if (begun)
			reap_row(instances.row, now);
		else
			gd_release_row(instances.row, now, GD_COUNT_RELEASED);
	}
	gd_instances_close(&instances);
}

int64
gd_reap_pass(int max_rows)
{
	int64		reaped = gd_overdue_pass(GD_INSTANCES_LEASE, max_rows, reap_row);

	if (reaped > 0)
		gd_event("reaper.reaped", "count=%lld", (long long) reaped);
	return reaped;
}

/*
 * reap(max_rows) -> how many claims were taken back
 */
Datum
gd_reap(PG_FUNCTION_ARGS)
{
	int			max_rows = gd_arg_positive(fcinfo, 0, "max_rows");

	gd_writes("gen_durable.reap()");
	PG_RETURN_INT64(gd_reap_pass(max_rows));
}
