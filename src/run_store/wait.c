/*
 * wait.c
 *		CALL run_wait(): sleeping until a run may be claimed.
 *
 * As engine/wait.c for queues: each look is a transaction of its own, and what
 * sleeps holds no snapshot and no lock.  A due insert, an immediate commit and
 * a recovery wake one waiter; the first sleeping run's time ends the sleep;
 * all else, such as claims that get old, is for the claimant's own poll.
 *
 * A user who is confined to tenants waits for theirs.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/poll.h"
#include "engine/wait.h"
#include "names.h"
#include "run_store/run.h"
#include "shmem/wake.h"

/* Tenants that a waiter waits for one by one; of more it waits for all runs. */
#define WAIT_TENANTS 16

PG_FUNCTION_INFO_V1(gd_run_wait);

typedef struct RunWait
{
	TimestampTz deadline;
	TimestampTz next;			/* when a run is ready without a wake-up */
} RunWait;

static void
wait_subscribe(void)
{
	const GdRunTenants *tenants = gd_run_tenants();
	GdWakeKey	keys[WAIT_TENANTS];
	int			nkeys = 0;

	if (tenants->confined && tenants->n <= WAIT_TENANTS)
		while (nkeys < tenants->n)
		{
			keys[nkeys] = gd_wake_runs(tenants->keys[nkeys]);
			nkeys++;
		}
	else
		keys[nkeys++] = gd_wake_runs(NULL);
	gd_wake_subscribe(keys, nkeys);
}

/*
 * wait_look_in: is there a ready run where the scan was started?
 */
static bool
wait_look_in(RunWait *wait, GdScan *scan, TimestampTz now)
{
	while (gd_scan_next(scan))
	{
		TimestampTz wake_at = DatumGetTimestampTz(gd_slot_datum(scan->table, scan->slot, RUN_WAKE_AT));

		if (!gd_run_tenant_visible(DatumGetTextPP(gd_slot_datum(scan->table, scan->slot, RUN_SCOPE_KEY))))
			continue;
		if (wake_at <= now && gd_slot_hold(scan->slot) != GD_HOLD_OTHER)
			return true;
		if (wake_at > now)
		{
			wait->next = Min(wait->next, wake_at);
			return false;
		}
	}
	return false;
}

/*
 * wait_look_each: likewise in an index that leads with the tenant, for each
 * that the user is confined to.
 */
static bool
wait_look_each(RunWait *wait, GdTable *runs, GdIndexId index, const GdRunTenants *tenants,
			   TimestampTz now)
{
	bool		found = false;
	GdScan		scan;

	gd_scan_begin(&scan, runs, index);
	for (int i = 0; i < tenants->n && !found; i++)
	{
		gd_scan_text(&scan, 1, tenants->keys[i]);
		gd_scan_start(&scan);
		found = wait_look_in(wait, &scan, now);
	}
	gd_scan_end(&scan);
	return found;
}

/*
 * wait_look_all: likewise for a user who sees all runs.
 */
static bool
wait_look_all(RunWait *wait, GdTable *runs, TimestampTz now)
{
	bool		found = false;
	GdScan		scan;

	/* By tenant: one whose time has not come says nothing of the next. */
	gd_scan_begin(&scan, runs, GD_RUNS_READY);
	gd_scan_start(&scan);
	while (!found && gd_scan_next(&scan))
		found = DatumGetTimestampTz(gd_slot_datum(runs, scan.slot, RUN_WAKE_AT)) <= now &&
			gd_slot_hold(scan.slot) != GD_HOLD_OTHER;
	gd_scan_end(&scan);
	if (found)
		return true;

	gd_scan_begin(&scan, runs, GD_RUNS_SLEEPING);
	gd_scan_start(&scan);
	found = wait_look_in(wait, &scan, now);
	gd_scan_end(&scan);
	return found;
}

/*
 * wait_look: is any run of the user's ready, as a fresh snapshot has it?
 */
static bool
wait_look(RunWait *wait)
{
	const GdRunTenants *tenants = gd_run_tenants();
	TimestampTz now = gd_now();
	bool		found;
	GdTable    *runs;

	wait->next = DT_NOEND;
	PushActiveSnapshot(GetLatestSnapshot());
	runs = gd_table_open_read(GD_RUNS);
	if (tenants->confined)
		found = wait_look_each(wait, runs, GD_RUNS_READY, tenants, now) ||
			wait_look_each(wait, runs, GD_RUNS_TENANT_SLEEPING, tenants, now);
	else
		found = wait_look_all(wait, runs, now);
	gd_table_close(runs);
	PopActiveSnapshot();
	return found;
}

static void
wait_until_ready(RunWait *wait)
{
	GdPoll		poll;

	gd_poll_begin(&poll);
	for (;;)
	{
		long		left;
		long		until_next;

		/* The look is the answer to what woke us. */
		wait_subscribe();
		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), wait->deadline);
		if (wait_look(wait) || left == 0)
			return;
		until_next = TimestampDifferenceMilliseconds(gd_now(), wait->next);
		gd_wait_let_go("gen_durable.run_wait");
		(void) gd_poll_wait(&poll, Min(left, until_next));
	}
}

/*
 * CALL run_wait(timeout)
 */
Datum
gd_run_wait(PG_FUNCTION_ARGS)
{
	RunWait		wait = {0};

	gd_wait_check(fcinfo, "gen_durable.run_wait");
	wait.deadline = gd_wait_deadline(fcinfo, 0);
	PG_TRY();
	{
		wait_until_ready(&wait);
	}
	PG_FINALLY();
	{
		gd_wake_leave();
	}
	PG_END_TRY();
	PG_RETURN_VOID();
}
