/*
 * scheduler.c
 *		The scheduler of one database: wakes those who wait for rows of the
 *		future when these are due.
 *
 * Waiters and commits set a queue's timer (shmem/timers.c); the scheduler
 * sleeps, without a snapshot, until the first of them runs out, looks how many
 * rows of the queue are due, and wakes as many of its waiters.  So it does
 * nothing while nobody waits.
 *
 * An error ends the process; the launcher starts it again.  README.md has the
 * states.
 */
#include "postgres.h"

#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "bgw/bgw.h"
#include "clock.h"
#include "engine/duerows.h"
#include "guc.h"
#include "shmem/timers.h"

static GdLaunch launch;

static int64
pass_nothing(void *arg)
{
	return 0;
}

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

/*
 * scheduler_wake_at: when to look again, by the wall clock.
 */
static TimestampTz
scheduler_wake_at(void)
{
	TimestampTz next = gd_timers_next();

	return next == DT_NOEND ? DT_NOEND : next - (gd_now() - GetCurrentTimestamp());
}

void
gd_scheduler_main(Datum arg)
{
	GdFound		found = GD_FOUND_EXTENSION;
	uint32		looked_for = 0; /* the requests that the last look answers */
	bool		looked = false;

	gd_work_begin(GD_SCHEDULER, arg, &launch);
	for (;;)
	{
		uint32		requests = gd_database_requests(&launch);
		int64		done;

		gd_work_interrupts();
		if (!gd_enabled)
			found = GD_FOUND_NOTHING;
		else if (!looked || requests != looked_for)
			found = gd_work_run(pass_nothing, NULL, &done);
		looked = true;
		looked_for = requests;
		if (found == GD_FOUND_EXTENSION)
			found = scheduler_timers();
		if (found == GD_FOUND_NOTHING)
		{
			gd_database_unwanted(&launch, requests);
			proc_exit(0);
		}
		gd_bgw_sleep(found == GD_FOUND_EXTENSION ? scheduler_wake_at() : DT_NOEND,
					 "GenDurableScheduler");
	}
}
