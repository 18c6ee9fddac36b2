/*
 * maintainer.c
 *		The maintainer of one database: does what the passing of time asks for,
 *		when it asks for it.
 *
 * Each kind of work is one bounded pass in a transaction of its own, as the
 * extension's owner.  Between passes it sleeps, without a snapshot, until the
 * next instant that matters: the first end of a lease, the first await
 * deadline, the first refill of tokens that a row waits for, or the next turn
 * by an interval.  Committing backends wake it if
 * they made something due earlier than it knows of.  README.md has the states.
 *
 * An error ends the process; the launcher starts it again.
 */
#include "postgres.h"

#include "storage/ipc.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "bgw/bgw.h"
#include "bgw/vacuum.h"
#include "clock.h"
#include "engine/blocked.h"
#include "engine/census.h"
#include "engine/maintenance.h"
#include "guc.h"
#include "limiter/holders.h"
#include "limiter/limiter.h"
#include "limiter/remote.h"
#include "table.h"

/* How much one pass does at most. */
#define PASS_ROWS 1000
#define PASS_KEYS 1000

/* So many times its own length lies between two censuses at least. */
#define CENSUS_SHARE 100

/* What is due but locked by others is tried again after so long, doubled. */
#define RETRY_MS 100
#define RETRY_MAX_DOUBLINGS 4

/* While another database is counted. */
#define CENSUS_RETRY_MS 1000

/* While steps run it looks as often whether a vacuum is asked for. */
#define VACUUM_LOOK_MS 5000

#define MS INT64CONST(1000)

#define WAIT_EVENT "GenDurableMaintainer"

/* What makes a pass due. */
typedef enum When
{
	EVERY_TURN,
	WITH_GC,
	WITH_CENSUS
} When;

static GdLaunch launch;

/* What the last look at the tables found to be due next. */
static TimestampTz next_due;
static bool steps_run;			/* something is claimed */

/* When gc and the census were last done, by the wall clock. */
static TimestampTz last_gc = 0;
static TimestampTz last_census = 0;
static bool counted = false;	/* the last census was complete */
static int64 census_rest = 0;	/* after a long one, microseconds */

static int64
pass_reap(void *arg)
{
	return gd_reap_pass(PASS_ROWS);
}

static int64
pass_timeouts(void *arg)
{
	return gd_timeouts_pass(PASS_ROWS);
}

static int64
pass_holders(void *arg)
{
	return gd_holders_expire(PASS_ROWS);
}

static int64
pass_remote(void *arg)
{
	gd_remote_renew(GetCurrentTimestamp());
	return gd_remote_return(PASS_ROWS);
}

static int64
pass_blocked(void *arg)
{
	GdTable    *instances = gd_table_open(GD_INSTANCES);
	int			promoted = gd_blocked_recheck(instances, PASS_KEYS, gd_now());

	gd_table_close(instances);
	return promoted;
}

static int64
pass_gc(void *arg)
{
	return gd_gc_all(gd_interval_from_ms(gd_gc_retention * 1000.0), gd_gc_batch);
}

static int64
pass_limits(void *arg)
{
	int64		buckets = 0;
	int64		gates = 0;

	(void) gd_limiter()->reconcile(PASS_KEYS, gd_now(), &buckets, &gates);
	return 0;
}

static bool
census_give_up(void)
{
	return gd_database_must_stop(&launch);
}

/*
 * pass_census: a long one is made more seldom.
 */
static int64
pass_census(void *arg)
{
	TimestampTz start = GetCurrentTimestamp();

	counted = gd_census(census_give_up) >= 0;
	last_census = GetCurrentTimestamp();
	census_rest = (last_census - start) * CENSUS_SHARE;
	return 0;
}

/*
 * maintainer_due: when passes are due, by the wall clock.
 */
static TimestampTz
maintainer_due(When when)
{
	if (when == WITH_GC)
		return last_gc + gd_gc_interval * MS;
	if (when == EVERY_TURN || last_census == 0)
		return 0;
	if (!counted)
		return last_census + CENSUS_RETRY_MS * MS;
	return gd_stats_interval < 0 ? DT_NOEND :
		last_census + Max(gd_stats_interval * MS, census_rest);
}

/*
 * first_of: the first instant in an index, or the end of time.
 */
static TimestampTz
first_of(GdTableId id, GdIndexId index, int column)
{
	GdTable    *table = gd_table_open(id);
	TimestampTz first = DT_NOEND;
	GdScan		scan;

	gd_scan_begin(&scan, table, index);
	gd_scan_key(&scan, 1, BTGreaterEqualStrategyNumber, F_TIMESTAMPTZ_GE,
				TimestampTzGetDatum(DT_NOBEGIN));
	gd_scan_start(&scan);
	if (gd_scan_next(&scan))
		first = DatumGetTimestampTz(gd_slot_datum(table, scan.slot, column));
	gd_scan_end(&scan);
	gd_table_close(table);
	return first;
}

static int64
pass_next_due(void *arg)
{
	TimestampTz lease = first_of(GD_INSTANCES, GD_INSTANCES_LEASE, INST_LEASE_EXPIRES_AT);
	TimestampTz deadline = first_of(GD_INSTANCES, GD_INSTANCES_DEADLINE, INST_AWAIT_DEADLINE);
	TimestampTz refill = first_of(GD_INSTANCES, GD_INSTANCES_REFILL, INST_REFILL_AT);
	TimestampTz holder = first_of(GD_HOLDERS, GD_HOLDERS_EXPIRY, HOLDER_EXPIRES_AT);

	next_due = Min(Min(lease, deadline), Min(refill, holder));
	steps_run = lease != DT_NOEND;
	return 0;
}

static int64
pass_vacuum(void *arg)
{
	GdTable    *instances = gd_table_open_read(GD_INSTANCES);

	gd_vacuum_look(RelationGetRelid(instances->rel));
	gd_table_close(instances);
	return 0;
}

/*
 * maintainer_work: all passes that are due.  more: a pass came to its bound.
 */
static GdFound
maintainer_work(TimestampTz now, int64 *done, bool *more)
{
	static const int pass_rows = PASS_ROWS;
	static const struct
	{
		GdPass		pass;
		When		when;
		const int  *bound;		/* it did as much: there may be more */
	}			passes[] = {
		{pass_reap, EVERY_TURN, &pass_rows},
		{pass_timeouts, EVERY_TURN, &pass_rows},
		{pass_holders, EVERY_TURN, &pass_rows},
		{pass_remote, EVERY_TURN, &pass_rows},
		{pass_blocked, EVERY_TURN, &pass_rows},
		{pass_gc, WITH_GC, &gd_gc_batch},
		{pass_limits, WITH_GC, NULL},
		{pass_census, WITH_CENSUS, NULL},
		{pass_vacuum, EVERY_TURN, NULL},
		{pass_next_due, EVERY_TURN, NULL},
	};

	*done = 0;
	*more = false;
	for (int i = 0; i < lengthof(passes); i++)
	{
		int64		n;
		GdFound		found;

		if (maintainer_due(passes[i].when) > now)
			continue;
		found = gd_work_run(passes[i].pass, NULL, &n);
		if (found != GD_FOUND_EXTENSION)
			return found;
		*done += n;
		*more |= passes[i].bound && n >= *passes[i].bound;
		gd_work_interrupts();
	}
	return GD_FOUND_EXTENSION;
}

/*
 * maintainer_wake_at: when to look again, by the wall clock.
 */
static TimestampTz
maintainer_wake_at(bool idle, int *retries)
{
	TimestampTz now = GetCurrentTimestamp();
	int64		offset = gd_now() - now;
	TimestampTz latest = Min(now + gd_reaper_interval * MS,
							 Min(maintainer_due(WITH_GC), maintainer_due(WITH_CENSUS)));
	TimestampTz at = Min(next_due, latest + offset) - offset;

	at = Min(at, gd_remote_due());

	/* Due, and yet the passes did nothing: others have it locked. */
	if (idle && at <= now)
	{
		at = now + ((RETRY_MS * MS) << *retries);
		*retries = Min(*retries + 1, RETRY_MAX_DOUBLINGS);
	}
	else
		*retries = 0;
	return gd_database_due_known(&launch, at + offset) - offset;
}

/*
 * maintainer_sleep: until an instant, or until told of something.  While steps
 * run it looks meanwhile whether a vacuum is asked for, and at nothing else.
 */
static void
maintainer_sleep(TimestampTz wake_at)
{
	TimestampTz due = gd_database_due_known(&launch, DT_NOEND);
	bool		told = false;
	int64		done;

	while (steps_run && !told)
	{
		TimestampTz look_at = GetCurrentTimestamp() + VACUUM_LOOK_MS * MS;

		if (look_at >= wake_at)
			break;
		/* A look may wait for a lock, and lose what woke it: due tells. */
		told = gd_bgw_sleep(look_at, WAIT_EVENT) ||
			gd_work_run(pass_vacuum, NULL, &done) != GD_FOUND_EXTENSION ||
			gd_work_interrupts() ||
			gd_database_due_known(&launch, DT_NOEND) != due;
	}
	if (!told)
		(void) gd_bgw_sleep(wake_at, WAIT_EVENT);
}

static void
maintainer_leave(int code, Datum arg)
{
	gd_vacuum_stop();
}

void
gd_maintainer_main(Datum arg)
{
	bool		more;
	int			retries = 0;

	gd_work_begin(GD_MAINTAINER, arg, &launch);
	before_shmem_exit(maintainer_leave, (Datum) 0);
	gd_remote_attend();
	for (;;)
	{
		uint32		requests = gd_database_requests(&launch);
		TimestampTz now = GetCurrentTimestamp();
		TimestampTz wake_at;
		GdFound		found = GD_FOUND_NOTHING;
		int64		done = 0;

		gd_work_interrupts();
		gd_database_due_reset(&launch);
		if (gd_enabled)
			found = maintainer_work(now, &done, &more);
		if (found == GD_FOUND_NOTHING)
		{
			gd_database_unwanted(&launch, requests);
			proc_exit(0);
		}
		gd_database_want(&launch, GD_SCHEDULER);
		if (found == GD_FOUND_OTHER_VERSION)
			wake_at = DT_NOEND;
		else if (more)
			continue;
		else
		{
			if (maintainer_due(WITH_GC) <= now)
				last_gc = now;
			wake_at = maintainer_wake_at(done == 0, &retries);
		}
		maintainer_sleep(wake_at);
	}
}
