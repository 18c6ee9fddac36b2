/*
 * queues.c
 *		Queues: the settings of each, and pausing.
 *
 * A queue need not be known: one without a row has the server's settings.
 *
 * A paused queue hands nothing out.  A pick that had begun when the pause
 * commits may still end, so a pause waits for nobody.  Keys that become free
 * meanwhile promote nobody there; resume makes that good, and the recheck of
 * keys does (blocked.c) where a pause ends by its time.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/blocked.h"
#include "engine/dispatched.h"
#include "engine/keylock.h"
#include "engine/queues.h"
#include "guc.h"
#include "names.h"
#include "shmem/executors.h"
#include "shmem/wake.h"
#include "table.h"

/* Keys that a resume looks at itself; the rest is left to the recheck. */
#define RESUME_KEYS 10000

PG_FUNCTION_INFO_V1(gd_pause);
PG_FUNCTION_INFO_V1(gd_resume);
PG_FUNCTION_INFO_V1(gd_set_queue);

/*
 * queue_find: look a queue up under the latest snapshot; by_name holds the
 * row in its slot.
 */
static bool
queue_find(GdScan *by_name, GdTable *queues, const text *name)
{
	gd_scan_begin(by_name, queues, GD_QUEUES_PKEY);
	gd_scan_text(by_name, 1, name);
	gd_scan_start(by_name);
	return gd_scan_next(by_name);
}

/*
 * queue_slot_paused: does the row say that the queue is paused now, and until
 * when?  A pause that has come to its end needs nobody to write that down.
 */
static bool
queue_slot_paused(GdTable *queues, TupleTableSlot *slot, TimestampTz now, TimestampTz *until)
{
	bool		isnull;
	Datum		value;

	(void) gd_slot_value(queues, slot, QUEUE_PAUSED_AT, &isnull);
	if (isnull)
		return false;
	value = gd_slot_value(queues, slot, QUEUE_PAUSED_UNTIL, &isnull);
	*until = isnull ? DT_NOEND : DatumGetTimestampTz(value);
	return *until > now;
}

static int
queue_slot_int(GdTable *queues, TupleTableSlot *slot, GdQueueColumn column, int otherwise)
{
	bool		isnull;
	Datum		value = gd_slot_value(queues, slot, column, &isnull);

	return isnull ? otherwise : DatumGetInt32(value);
}

/*
 * queue_slot_read: what a queue says, or the server where it says nothing; the
 * slot is NULL for a queue without a row.
 */
static void
queue_slot_read(GdTable *queues, TupleTableSlot *slot, TimestampTz now, GdQueue *queue)
{
	bool		isnull = true;

	memset(queue, 0, sizeof(GdQueue));
	queue->executors = gd_executors_limit;
	queue->prefetch = gd_prefetch;
	queue->min_demand = gd_min_demand;
	if (slot)
	{
		Datum		ttl = gd_slot_value(queues, slot, QUEUE_LEASE_TTL, &isnull);

		if (!isnull)
			queue->lease_ttl = *DatumGetIntervalP(ttl);
		queue->paused = queue_slot_paused(queues, slot, now, &queue->paused_until);
		queue->executors = queue_slot_int(queues, slot, QUEUE_EXECUTORS, gd_executors_limit);
		queue->concurrency = queue_slot_int(queues, slot, QUEUE_CONCURRENCY, 0);
		queue->prefetch = queue_slot_int(queues, slot, QUEUE_PREFETCH, gd_prefetch);
		queue->min_demand = queue_slot_int(queues, slot, QUEUE_MIN_DEMAND, gd_min_demand);
	}
	if (isnull)
		queue->lease_ttl = *gd_interval_from_ms(gd_lease_ttl);
}

/*
 * gd_queue_read: what a queue says, in one look.
 */
void
gd_queue_read(const text *name, TimestampTz now, GdQueue *queue)
{
	GdTable    *queues = gd_table_open_read(GD_QUEUES);
	GdScan		by_name;
	bool		found = queue_find(&by_name, queues, name);

	queue_slot_read(queues, found ? by_name.slot : NULL, now, queue);
	gd_scan_end(&by_name);
	gd_table_close(queues);
}

/*
 * gd_queues_visit: what all queues of the table say.
 */
void
gd_queues_visit(TimestampTz now, GdQueueVisitor visit, void *arg)
{
	GdTable    *queues = gd_table_open_read(GD_QUEUES);
	GdScan		scan;
	GdQueue		queue;

	gd_scan_begin(&scan, queues, GD_QUEUES_PKEY);
	gd_scan_key(&scan, 1, BTGreaterEqualStrategyNumber, F_TEXT_GE,
				PointerGetDatum(cstring_to_text("")));
	gd_scan_start(&scan);
	while (gd_scan_next(&scan))
	{
		queue_slot_read(queues, scan.slot, now, &queue);
		visit(DatumGetTextPP(gd_slot_datum(queues, scan.slot, QUEUE_NAME)), &queue, arg);
	}
	gd_scan_end(&scan);
	gd_table_close(queues);
}

/*
 * gd_queue_paused: is a queue paused now?
 */
bool
gd_queue_paused(const text *name, TimestampTz now)
{
	GdQueue		queue;

	gd_queue_read(name, now, &queue);
	return queue.paused;
}

/*
 * queue_lock: open the table, and keep others from changing the queue's row
 * or making it.  True if there is one, which the row then holds, locked.
 */
static bool
queue_lock(const text *name, GdTable **queues, GdRow **row)
{
	GdScan		by_name;
	bool		found;

	gd_key_lock("queue", name);
	*queues = gd_table_open(GD_QUEUES);
	*row = gd_row_create(*queues);
	found = queue_find(&by_name, *queues, name) &&
		gd_row_lock(*row, &by_name.slot->tts_tid, true) == GD_LOCKED;
	gd_scan_end(&by_name);
	return found;
}

static void
queue_unlock(GdTable *queues, GdRow *row)
{
	gd_row_free(row);
	gd_table_close(queues);
	gd_table_flush();
	gd_dispatched_settings();
}

/*
 * queue_save: write the row of a queue that was locked, or make it, and
 * unlock.
 */
static void
queue_save(const text *name, GdTable *queues, GdRow *row, bool found)
{
	if (found)
		gd_row_update(row);
	else
	{
		gd_row_set(row, QUEUE_NAME, PointerGetDatum(name));
		gd_row_insert(row);
	}
	queue_unlock(queues, row);
}

/*
 * pause(queue, until, reason)
 *
 * Of a paused queue: the end and the reason are replaced, and it counts as
 * paused since it was.
 */
Datum
gd_pause(PG_FUNCTION_ARGS)
{
	text	   *name = gd_arg_name(fcinfo, 0, "queue");
	TimestampTz now = gd_now();
	TimestampTz until;
	GdTable    *queues;
	GdRow	   *row;
	bool		found;

	gd_writes("gen_durable.pause()");
	if (!PG_ARGISNULL(1))
		gd_check_finite_time("until", PG_GETARG_TIMESTAMPTZ(1), NULL);

	found = queue_lock(name, &queues, &row);
	if (!found || !queue_slot_paused(queues, row->slot, now, &until))
		gd_row_set(row, QUEUE_PAUSED_AT, TimestampTzGetDatum(now));
	if (PG_ARGISNULL(1))
		gd_row_set_null(row, QUEUE_PAUSED_UNTIL);
	else
		gd_row_set(row, QUEUE_PAUSED_UNTIL, PG_GETARG_DATUM(1));
	if (PG_ARGISNULL(2))
		gd_row_set_null(row, QUEUE_PAUSE_REASON);
	else
		gd_row_set(row, QUEUE_PAUSE_REASON,
				   PointerGetDatum(gd_error_text(PG_GETARG_TEXT_PP(2))));
	queue_save(name, queues, row, found);
	gd_wake_paused(name);
	PG_RETURN_VOID();
}

/*
 * resume(queue)
 */
Datum
gd_resume(PG_FUNCTION_ARGS)
{
	text	   *name = gd_arg_name(fcinfo, 0, "queue");
	GdTable    *queues;
	GdRow	   *row;
	bool		resumed;

	gd_writes("gen_durable.resume()");
	resumed = queue_lock(name, &queues, &row) && !GD_IS_NULL(row, QUEUE_PAUSED_AT);
	if (resumed)
	{
		gd_row_set_null(row, QUEUE_PAUSED_AT);
		gd_row_set_null(row, QUEUE_PAUSED_UNTIL);
		gd_row_set_null(row, QUEUE_PAUSE_REASON);
		gd_row_update(row);
	}
	queue_unlock(queues, row);
	if (resumed)
	{
		gd_blocked_resume(name, RESUME_KEYS);
		gd_wake_resumed(name);
		gd_executors_look();
	}
	PG_RETURN_VOID();
}

/*
 * queue_set_int: take an optional integer setting.
 */
static void
queue_set_int(FunctionCallInfo fcinfo, int argno, const char *what, int min, GdRow *row,
			  GdQueueColumn column)
{
	if (gd_arg_within(fcinfo, argno, what, min, GD_FEED_MAX))
		gd_row_set(row, column, PG_GETARG_DATUM(argno));
	else
		gd_row_set_null(row, column);
}

/*
 * set_queue(name, executors, concurrency, prefetch, min_demand, lease_ttl)
 *
 * Says all of a queue's settings: what is left out is the server's again.  A
 * pause stays.
 */
Datum
gd_set_queue(PG_FUNCTION_ARGS)
{
	text	   *name = gd_arg_name(fcinfo, 0, "queue");
	GdTable    *queues;
	GdRow	   *row;
	bool		found;

	gd_writes("gen_durable.set_queue()");
	if (!PG_ARGISNULL(5))
		gd_check_not_negative("lease_ttl", PG_GETARG_INTERVAL_P(5), NULL);

	found = queue_lock(name, &queues, &row);
	queue_set_int(fcinfo, 1, "executors", 0, row, QUEUE_EXECUTORS);
	queue_set_int(fcinfo, 2, "concurrency", 0, row, QUEUE_CONCURRENCY);
	queue_set_int(fcinfo, 3, "prefetch", 0, row, QUEUE_PREFETCH);
	queue_set_int(fcinfo, 4, "min_demand", 1, row, QUEUE_MIN_DEMAND);
	if (PG_ARGISNULL(5))
		gd_row_set_null(row, QUEUE_LEASE_TTL);
	else
		gd_row_set(row, QUEUE_LEASE_TTL, PG_GETARG_DATUM(5));
	queue_save(name, queues, row, found);
	gd_executors_look();
	PG_RETURN_VOID();
}
