/*
 * scheduler.c
 *		The scheduler of one database: wakes those who wait for rows of the
 *		future when these are due, feeds queues (feeder.c), takes back what the
 *		feeder of a scheduler before it had claimed (orphans.c), and tells
 *		listeners of work (announcer.c).
 *
 * Waiters and commits set a queue's timer (shmem/timers.c); the scheduler
 * sleeps, without a snapshot, until the first of them runs out, looks how many
 * rows of the queue are due, and wakes as many of its waiters.  So it does
 * nothing while nobody waits and no queue is fed.
 *
 * An error ends the process; the launcher starts it again.  README.md has the
 * states.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "bgw/announcer.h"
#include "bgw/bgw.h"
#include "bgw/feeder.h"
#include "bgw/orphans.h"
#include "bgw/staff.h"
#include "clock.h"
#include "engine/duerows.h"
#include "guc.h"
#include "shmem/dispatch.h"
#include "shmem/executors.h"
#include "shmem/timers.h"

static GdLaunch launch;

/*
 * pass_timer: wake the waiters of a queue whose timer has run out.
 */
static int64
pass_timer(void *arg)
{
	GdTimer    *timer = arg;
	int			waiters = gd_wake_count(timer->key);
	TimestampTz next = DT_NOEND;
	int			count = 0;

	if (waiters > 0)
		count = gd_due_rows(cstring_to_text_with_len(timer->name, timer->len), waiters,
							gd_now(), &next);
	gd_timer_rearm(timer, next);
	gd_wake_waiters(timer->key, count);
	return count;
}

/*
 * scheduler_timers: serve the timers that have run out.
 */
static GdFound
scheduler_timers(void)
{
	GdTimer		timer;
	int64		count;
	GdFound		found = GD_FOUND_EXTENSION;

	while (found == GD_FOUND_EXTENSION && gd_timers_take(gd_now(), &timer))
	{
		found = gd_work_run(pass_timer, &timer, &count);
		gd_work_interrupts();
	}
	return found;
}

static void
scheduler_leave(int code, Datum arg)
{
	gd_executors_forget();
	gd_announcer_leave();
	gd_feeder_leave();
}

void
gd_scheduler_main(Datum arg)
{
	GdFound		found = GD_FOUND_EXTENSION;
	uint32		looked_for = 0; /* the requests that the last look answers */
	bool		anew = true;

	gd_work_begin(GD_SCHEDULER, arg, &launch);
	before_shmem_exit(scheduler_leave, (Datum) 0);
	for (;;)
	{
		uint32		requests = gd_database_requests(&launch);
		TimestampTz next = DT_NOEND;

		anew |= gd_work_interrupts() || requests != looked_for;
		if (!gd_enabled)
			found = GD_FOUND_NOTHING;
		else if (anew || found == GD_FOUND_EXTENSION)
			found = gd_feeder_turn(anew, &next);
		if (found == GD_FOUND_EXTENSION)
			found = gd_orphans_turn(anew, &next);
		anew = false;
		looked_for = requests;
		if (found == GD_FOUND_EXTENSION)
			found = scheduler_timers();
		if (found == GD_FOUND_EXTENSION)
			found = gd_staff_turn(&next);
		if (found == GD_FOUND_EXTENSION)
			found = gd_announcer_turn(&next);
		if (found == GD_FOUND_NOTHING)
		{
			if (gd_enabled)
				gd_dispatch_forget(MyDatabaseId);
			gd_database_unwanted(&launch, requests);
			proc_exit(0);
		}
		next = found == GD_FOUND_EXTENSION ? Min(next, gd_timers_next()) : DT_NOEND;
		if (next != DT_NOEND)
			next -= gd_now() - GetCurrentTimestamp();
		gd_bgw_sleep(next, "GenDurableScheduler");
	}
}
