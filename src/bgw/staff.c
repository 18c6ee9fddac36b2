/*
 * staff.c
 *		What a scheduler does for the executors of its database: starts them,
 *		renews their leases while they are busy, and takes back what they held
 *		when they died.
 *
 * Commits tell which crew wants an executor (shmem/executors.c).  What they
 * cannot tell, because it was before the server's start or nobody was there to
 * hear, is found by looks at the table: at the scheduler's start, when machines
 * or queues change, and from time to time.  README.md has the states.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "bgw/bgw.h"
#include "bgw/staff.h"
#include "clock.h"
#include "engine/heartbeat.h"
#include "engine/instance.h"
#include "engine/maintenance.h"
#include "engine/pick.h"
#include "engine/queues.h"
#include "engine/runners.h"
#include "guc.h"
#include "shmem/executors.h"

#define MS INT64CONST(1000)

/* So long it waits for a worker slot before it asks again. */
#define NO_SLOT_MS 1000

/* When to look again at an executor whose claims are all gone. */
#define NOTHING_HELD_MS 60000

/* Rows of one priority of a queue that a look reads at most. */
#define LOOK_ROWS 1000

/* A start that has been registered and may not have begun. */
typedef struct Started
{
	int			slot;
	uint32		generation;
	BackgroundWorkerHandle *handle;
} Started;

static List *started = NIL;		/* in TopMemoryContext */
static TimestampTz next_look = 0;
static bool looked = false;		/* since this process began */
static TimestampTz no_worker_at = 0;	/* the last time that one had no slot */
static bool no_room;			/* for a crew, in this turn */

/*
 * look_row: a runnable row that a look stands on: is it the server's?  Hires
 * for it if it is.
 */
static bool
look_row(GdTable *instances, TupleTableSlot *slot, const text *queue, TimestampTz due)
{
	GdRunner	runner;

	if (!gd_runner_find(DatumGetTextPP(gd_slot_datum(instances, slot, INST_FSM)),
						DatumGetInt32(gd_slot_datum(instances, slot, INST_FSM_VERSION)),
						DatumGetTextPP(gd_slot_datum(instances, slot, INST_STEP)), &runner))
		return false;
	if (OidIsValid(runner.owner))
		gd_executors_hire(runner.owner, queue, due);
	return true;
}

/*
 * look_queue: hire for the steps of one queue: for those that are due, as far
 * as the look goes, and for the first of the future of each priority.
 */
static void
look_queue(GdTable *instances, GdScan *scan, const text *queue, TimestampTz now)
{
	int			priority = PG_INT16_MIN;

	while (priority <= PG_INT16_MAX)
	{
		int			rows = 0;
		int			here = priority;

		gd_scan_text(scan, 1, queue);
		gd_scan_key(scan, 2, BTGreaterEqualStrategyNumber, F_INT2GE, Int16GetDatum(priority));
		gd_scan_start(scan);
		priority = PG_INT16_MAX + 1;
		while (gd_scan_next(scan))
		{
			int			its = DatumGetInt16(gd_slot_datum(instances, scan->slot, INST_PRIORITY));
			TimestampTz due = DatumGetTimestampTz(gd_slot_datum(instances, scan->slot,
																INST_ELIGIBLE_AT));

			CHECK_FOR_INTERRUPTS();
			if (rows > 0 && its != here)
				rows = 0;
			here = its;
			rows++;
			if ((look_row(instances, scan->slot, queue, due <= now ? 0 : due) && due > now) ||
				rows >= LOOK_ROWS)
			{
				priority = here + 1;
				break;
			}
		}
	}
}

/*
 * pass_look: hire for all steps of the database that a look finds.
 */
static int64
pass_look(void *arg)
{
	TimestampTz now = gd_now();
	GdTable    *instances;
	GdScan		queues;
	GdScan		scan;
	text	   *queue = NULL;

	if (!gd_runners_any())
		return 0;
	instances = gd_table_open_read(GD_INSTANCES);
	gd_scan_begin(&queues, instances, GD_INSTANCES_PICK);
	gd_scan_begin(&scan, instances, GD_INSTANCES_PICK);
	for (;;)
	{
		GdQueue		settings;

		if (queue)
			gd_scan_key(&queues, 1, BTGreaterStrategyNumber, F_TEXT_GT, PointerGetDatum(queue));
		gd_scan_start(&queues);
		if (!gd_scan_next(&queues))
			break;
		queue = DatumGetTextPCopy(gd_slot_datum(instances, queues.slot, INST_QUEUE));
		gd_queue_read(queue, now, &settings);
		if (!settings.paused && settings.executors > 0)
			look_queue(instances, &scan, queue, now);
	}
	gd_scan_end(&scan);
	gd_scan_end(&queues);
	gd_table_close(instances);
	return 0;
}

/*
 * pass_orphans: take back what executors held that nobody knows of any more:
 * the server has crashed since.  They had begun, for all that is known.
 */
static int64
pass_orphans(void *arg)
{
	GdTable    *instances = gd_table_open_read(GD_INSTANCES);
	List	   *tokens = NIL;
	ListCell   *cell;
	GdScan		scan;

	gd_scan_begin(&scan, instances, GD_INSTANCES_LEASE);
	gd_scan_key(&scan, 1, BTGreaterEqualStrategyNumber, F_TIMESTAMPTZ_GE,
				TimestampTzGetDatum(DT_NOBEGIN));
	gd_scan_start(&scan);
	while (gd_scan_next(&scan))
	{
		bool		no_name;
		bool		no_token;
		Datum		name = gd_slot_value(instances, scan.slot, INST_LOCKED_BY, &no_name);
		Datum		token = gd_slot_value(instances, scan.slot, INST_TOKEN, &no_token);
		pg_uuid_t  *copy;

		CHECK_FOR_INTERRUPTS();
		if (no_name || no_token ||
			VARSIZE_ANY_EXHDR(DatumGetTextPP(name)) < strlen(GD_EXECUTOR_NAME) ||
			memcmp(VARDATA_ANY(DatumGetTextPP(name)), GD_EXECUTOR_NAME,
				   strlen(GD_EXECUTOR_NAME)) != 0 ||
			gd_executors_hold(DatumGetUUIDP(token)))
			continue;
		copy = palloc(sizeof(pg_uuid_t));
		*copy = *DatumGetUUIDP(token);
		tokens = lappend(tokens, copy);
	}
	gd_scan_end(&scan);
	gd_table_close(instances);
	foreach(cell, tokens)
		gd_reap_claim(lfirst(cell), true);
	return list_length(tokens);
}

/*
 * pass_bury: take back what an executor held.  What it ran is a crash of that
 * step; what it had not begun is given back as it was.
 */
static int64
pass_bury(void *arg)
{
	const GdExecutor *executor = arg;

	for (int i = 0; i < executor->ntokens; i++)
		gd_reap_claim(&executor->tokens[i], i == executor->current);
	return executor->ntokens;
}

/* A renewal: whose, and until when its leases last then. */
typedef struct Renewal
{
	GdExecutor	executor;
	TimestampTz lease_until;
} Renewal;

static int64
pass_renew(void *arg)
{
	Renewal    *renewal = arg;

	renewal->lease_until = gd_heartbeat_claims(renewal->executor.tokens,
											   renewal->executor.ntokens);
	return 0;
}

static int64
pass_limit(void *arg)
{
	const GdCrew *crew = arg;
	GdQueue		queue;

	gd_queue_read(cstring_to_text_with_len(crew->queue, crew->len), gd_now(), &queue);
	return queue.executors;
}

/*
 * staff_register: ask the postmaster for an executor; false if there is no
 * worker slot.
 */
static bool
staff_register(int slot, uint32 generation, const GdCrew *crew)
{
	BackgroundWorkerHandle *handle;
	MemoryContext old;
	Started    *entry;
	char		name[BGW_MAXLEN];

	snprintf(name, sizeof(name), "%s for queue %s", GD_EXECUTOR_NAME, crew->queue);
	handle = gd_bgw_start(GD_EXECUTOR_NAME, name, "gd_executor_main", Int32GetDatum(slot),
						  &generation, sizeof(generation));
	if (handle == NULL)
		return false;
	old = MemoryContextSwitchTo(TopMemoryContext);
	entry = palloc(sizeof(Started));
	entry->slot = slot;
	entry->generation = generation;
	entry->handle = handle;
	started = lappend(started, entry);
	MemoryContextSwitchTo(old);
	return true;
}

/*
 * staff_collect: forget starts that have begun, and try those again whose
 * process ended before it could begin.
 */
static void
staff_collect(TimestampTz now)
{
	ListCell   *cell;

	foreach(cell, started)
	{
		Started    *entry = lfirst(cell);
		pid_t		pid;

		if (gd_executors_starting(entry->slot, entry->generation))
		{
			if (GetBackgroundWorkerPid(entry->handle, &pid) != BGWH_STOPPED)
				continue;
			gd_executors_not_started(entry->slot, entry->generation, now + NO_SLOT_MS * MS);
		}
		pfree(entry->handle);
		pfree(entry);
		started = foreach_delete_current(started, cell);
	}
}

/*
 * staff_start: one more executor for a crew that wants one.
 */
static GdFound
staff_start(const GdCrew *crew, TimestampTz now)
{
	int64		limit;
	GdFound		found = gd_work_run(pass_limit, unconstify(GdCrew *, crew), &limit);
	int			slot;
	uint32		generation;

	if (found != GD_FOUND_EXTENSION || !gd_executors_start(crew, limit, now, &slot, &generation))
		return found;
	if (slot >= 0 && staff_register(slot, generation, crew))
		return found;
	if (slot >= 0)
	{
		gd_executors_not_started(slot, generation, now + NO_SLOT_MS * MS);
		gd_executors_starve(crew, now + NO_SLOT_MS * MS);
	}
	no_room = true;
	if (gd_bgw_shortage(&no_worker_at, now))
		ereport(LOG,
				(errmsg("gen_durable found no room for an executor of queue \"%s\"", crew->queue),
				 slot >= 0 ?
				 errhint("Raise max_worker_processes above %d. It is tried again until a slot is free.",
						 max_worker_processes) :
				 errhint("Raise gen_durable.max_executors above %d and restart. Until then the crews take turns.",
						 gd_max_executors)));
	return found;
}

/*
 * staff_look: look at the table, if it is time.
 */
static GdFound
staff_look(TimestampTz now)
{
	GdFound		found = GD_FOUND_EXTENSION;
	int64		done;

	if (!looked)
		found = gd_work_run(pass_orphans, NULL, &done);
	looked = true;
	if ((gd_executors_take_look() || now >= next_look) && found == GD_FOUND_EXTENSION)
	{
		next_look = now + gd_reaper_interval * MS;
		found = gd_work_run(pass_look, NULL, &done);
	}
	return found;
}

/*
 * gd_staff_turn: all that is due for the executors; wake_at is lowered to when
 * to come again, by the engine's clock.
 */
GdFound
gd_staff_turn(TimestampTz *wake_at)
{
	TimestampTz now = gd_now();
	GdExecutor	dead;
	Renewal		renewal;
	GdCrew		crew;
	GdFound		found;
	int64		done;

	no_room = false;
	staff_collect(now);
	while (gd_executors_dead(&dead))
	{
		found = gd_work_run(pass_bury, &dead, &done);
		if (found == GD_FOUND_EXTENSION)
			gd_executors_buried(&dead);
		else
			return found;
	}
	found = staff_look(now);
	if (found == GD_FOUND_EXTENSION)
		*wake_at = Min(*wake_at, next_look);

	renewal.executor.slot = -1;
	while (found == GD_FOUND_EXTENSION &&
		   gd_executors_renewable(now, renewal.executor.slot, &renewal.executor, wake_at))
	{
		found = gd_work_run(pass_renew, &renewal, &done);
		/* Where none of them is held any more there is nothing to renew. */
		if (renewal.lease_until == DT_NOEND)
			renewal.lease_until = now + NOTHING_HELD_MS * MS;
		gd_executors_renewed(&renewal.executor, now, renewal.lease_until);
		*wake_at = Min(*wake_at, now + (renewal.lease_until - now) / 3);
		gd_work_interrupts();
	}

	crew.index = -1;
	while (found == GD_FOUND_EXTENSION &&
		   gd_executors_next_crew(now, crew.index, &crew, wake_at))
	{
		found = staff_start(&crew, now);
		crew.index--;			/* it may want more */
		gd_work_interrupts();
	}
	if (started != NIL || no_room)
		*wake_at = Min(*wake_at, now + NO_SLOT_MS * MS);
	return found;
}
