/*
 * wait.c
 *		CALL wait(): sleeping until a queue may have work.
 *
 * A procedure and not a function, because a SELECT holds its snapshot, and so
 * the horizon of vacuum, for as long as it runs.  Here each look is a
 * transaction of its own, and what sleeps holds no snapshot and no lock.
 *
 * The tables decide: each look is under a fresh snapshot.  The instant at
 * which the next row is due only tells when to look again, as does a wake-up
 * (shmem/wake.c) of which it is not sure that its row is there; the poll finds
 * what neither told of.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/instance.h"
#include "engine/poll.h"
#include "engine/queues.h"
#include "engine/runners.h"
#include "engine/wait.h"
#include "names.h"
#include "shmem/dispatch.h"
#include "shmem/timers.h"
#include "shmem/waiters.h"
#include "shmem/wake.h"

/*
 * How long a session that has just been sent to work of a concurrency key
 * takes such work for one whose key is held; see wait_counts.
 */
#define WAIT_KEYED_MS 50

PG_FUNCTION_INFO_V1(gd_wait);

typedef struct Wait
{
	text	  **queues;
	GdWakeKey  *keys;
	int			nqueues;
	TimestampTz deadline;
	bool		woken;			/* since the last look */
	bool		paused;			/* one of them was, at the last look */
	TimestampTz next;			/* when to look again without a wake-up */
} Wait;

/* Until when this session passes over rows with keys or limits. */
static TimestampTz keyed_until = 0;

/*
 * wait_is_ours: is the step of the row that a scan stands on a client's?
 */
static bool
wait_is_ours(GdScan *scan)
{
	static const GdClaimant client = {GD_CLAIMS_FOR_CLIENT};

	return gd_runner_claims(&client,
							DatumGetTextPP(gd_slot_datum(scan->table, scan->slot, INST_FSM)),
							DatumGetInt32(gd_slot_datum(scan->table, scan->slot, INST_FSM_VERSION)),
							DatumGetTextPP(gd_slot_datum(scan->table, scan->slot, INST_STEP)));
}

/*
 * wait_counts: is the due row that a scan stands on work for a pick?
 *
 * Not one that the server runs itself, nor one that an open transaction
 * holds.  One with a concurrency key or a rate limit may be refused by the
 * pick without a trace, when an open transaction holds the key or its
 * counters; a session that comes back at once for the same kind of work is
 * made to pause, unless a wake-up says that there is news.
 */
static bool
wait_counts(Wait *wait, GdScan *scan, TimestampTz now)
{
	bool		no_key;
	bool		no_limit;

	if (!wait_is_ours(scan) || gd_slot_hold(scan->slot) == GD_HOLD_OTHER)
		return false;
	(void) gd_slot_value(scan->table, scan->slot, INST_CONCURRENCY_KEY, &no_key);
	(void) gd_slot_value(scan->table, scan->slot, INST_RATE_LIMIT, &no_limit);
	if (no_key && no_limit)
		return true;
	if (!wait->woken && now < keyed_until &&
		keyed_until <= now + WAIT_KEYED_MS * INT64CONST(1000))
	{
		wait->next = Min(wait->next, keyed_until);
		return false;
	}
	keyed_until = now + WAIT_KEYED_MS * INT64CONST(1000);
	return true;
}

/*
 * wait_look_queue: has a queue work?  As a pick, it looks at each priority's
 * rows only as far as they are due; due is when the next one is.
 */
static bool
wait_look_queue(Wait *wait, GdScan *scan, const text *queue, TimestampTz now,
				TimestampTz *due)
{
	int			priority = PG_INT16_MIN;

	*due = DT_NOEND;

	while (priority <= PG_INT16_MAX)
	{
		int			from = priority;

		priority = PG_INT16_MAX + 1;
		gd_scan_text(scan, 1, queue);
		gd_scan_key(scan, 2, BTGreaterEqualStrategyNumber, F_INT2GE, Int16GetDatum(from));
		gd_scan_start(scan);
		while (gd_scan_next(scan))
		{
			TimestampTz eligible_at;

			CHECK_FOR_INTERRUPTS();
			eligible_at = DatumGetTimestampTz(gd_slot_datum(scan->table, scan->slot,
															INST_ELIGIBLE_AT));
			if (eligible_at > now)
			{
				*due = Min(*due, eligible_at);
				priority = DatumGetInt16(gd_slot_datum(scan->table, scan->slot,
													   INST_PRIORITY)) + 1;
				break;
			}
			if (wait_counts(wait, scan, now))
				return true;
		}
	}
	return false;
}

/*
 * wait_until_due: a queue has work at an instant.  The scheduler wakes as many
 * of its waiters as there is work for; a waiter of very many queues cannot be
 * woken for one of them, and keeps its own time.
 */
static void
wait_until_due(Wait *wait, const text *queue, TimestampTz due)
{
	if (due == DT_NOEND || due >= wait->next)
		return;
	if (!gd_wake_is_precise(wait->nqueues) || !gd_timer_set(queue, due))
		wait->next = due;
}

/*
 * wait_look: has any of the queues work, as a fresh snapshot has it?
 */
static bool
wait_look(Wait *wait)
{
	TimestampTz now = gd_now();
	bool		found = false;
	GdTable    *instances;
	GdScan		scan;

	wait->next = DT_NOEND;
	wait->paused = false;
	PushActiveSnapshot(GetLatestSnapshot());
	instances = gd_table_open_read(GD_INSTANCES);
	gd_scan_begin(&scan, instances, GD_INSTANCES_PICK);
	for (int i = 0; i < wait->nqueues && !found; i++)
	{
		const text *queue = wait->queues[i];
		TimestampTz due;
		GdQueue		settings;

		gd_queue_read(queue, now, &settings);
		if (settings.paused)
		{
			wait->paused = true;
			due = settings.paused_until;
		}
		else
			found = gd_dispatch_has(wait->keys[i]) ||
				wait_look_queue(wait, &scan, queue, now, &due);
		if (!found)
			wait_until_due(wait, queue, due);
	}
	gd_scan_end(&scan);
	gd_table_close(instances);
	PopActiveSnapshot();
	return found;
}

/*
 * gd_wait_let_go: end the transaction of the last look, with its locks and
 * snapshots; the next has none until it looks.
 */
void
gd_wait_let_go(const char *procedure)
{
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	SPI_commit();
	SPI_finish();
	InvalidateCatalogSnapshot();
	if (HaveRegisteredOrActiveSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot be called while a cursor or another command holds a snapshot", procedure)));
}

/*
 * wait_is_told: has a commit said that one of the queues has work?
 *
 * Such a wake-up is for one row and one waiter, so the row is there unless
 * another worker was quicker by microseconds; to look for it would take longer
 * than all else between the commit and the return.  But nobody works for a
 * queue that is paused, of which a pause has the waiters take note.
 */
static bool
wait_is_told(const Wait *wait)
{
	return !wait->paused && gd_wake_told(wait->keys, wait->nqueues);
}

static void
wait_until_work(Wait *wait)
{
	GdPoll		poll;

	gd_poll_begin(&poll);
	for (;;)
	{
		long		left;
		long		until_next;

		/* The look is the answer to what woke us. */
		gd_wake_subscribe(wait->keys, wait->nqueues);
		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), wait->deadline);
		if (wait_look(wait) || left == 0)
			return;
		until_next = TimestampDifferenceMilliseconds(gd_now(), wait->next);
		gd_wait_let_go("gen_durable.wait");
		gd_waiter_begin(wait->queues, wait->nqueues, 0);
		wait->woken = gd_poll_wait(&poll, Min(left, until_next));
		if (wait->woken && wait_is_told(wait))
			return;
	}
}

/*
 * gd_wait_check: refuse to wait where the transaction is not ours to end, or
 * could never see what it waits for.
 */
void
gd_wait_check(FunctionCallInfo fcinfo, const char *procedure)
{
	if (fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) ||
		castNode(CallContext, fcinfo->context)->atomic)
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot run inside a transaction block", procedure),
				 errhint("CALL it as a statement of its own, in autocommit mode.")));
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot run in a transaction that has written", procedure),
				 errhint("Commit first.")));
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s needs the isolation level READ COMMITTED", procedure),
				 errhint("SET default_transaction_isolation = 'read committed' in the session that waits.")));
}

/*
 * wait_queues: the names, copied to where they outlive the transaction.
 */
static void
wait_queues(FunctionCallInfo fcinfo, Wait *wait)
{
	ArrayType  *array;
	Datum	   *elements;
	bool	   *nulls;

	gd_arg_required(fcinfo, 0, "queues");
	array = PG_GETARG_ARRAYTYPE_P(0);
	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("queues must have one dimension, not %d", ARR_NDIM(array))));
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &wait->nqueues);
	if (wait->nqueues == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("queues must name at least one queue")));
	wait->queues = MemoryContextAlloc(PortalContext, sizeof(text *) * wait->nqueues);
	wait->keys = MemoryContextAlloc(PortalContext, sizeof(GdWakeKey) * wait->nqueues);
	for (int i = 0; i < wait->nqueues; i++)
	{
		MemoryContext old;

		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("queues must not contain NULL")));
		gd_check_name("queue", DatumGetTextPP(elements[i]), NULL);
		old = MemoryContextSwitchTo(PortalContext);
		wait->queues[i] = DatumGetTextPCopy(elements[i]);
		MemoryContextSwitchTo(old);
		wait->keys[i] = gd_wake_queue(wait->queues[i]);
	}
}

/*
 * gd_wait_deadline: when a timeout that a call gives is over.
 */
TimestampTz
gd_wait_deadline(FunctionCallInfo fcinfo, int argno)
{
	gd_arg_required(fcinfo, argno, "timeout");
	if (GD_INTERVAL_IS_ENDLESS(PG_GETARG_INTERVAL_P(argno)))
		return DT_NOEND;
	gd_check_not_negative("timeout", PG_GETARG_INTERVAL_P(argno), NULL);
	return gd_later(GetCurrentTimestamp(), PG_GETARG_INTERVAL_P(argno));
}

/*
 * CALL wait(queues, timeout)
 */
Datum
gd_wait(PG_FUNCTION_ARGS)
{
	Wait		wait = {0};

	gd_wait_check(fcinfo, "gen_durable.wait");
	wait_queues(fcinfo, &wait);
	wait.deadline = gd_wait_deadline(fcinfo, 1);

	PG_TRY();
	{
		wait_until_work(&wait);
	}
	PG_FINALLY();
	{
		gd_wake_leave();
		gd_waiter_end();
	}
	PG_END_TRY();
	PG_RETURN_VOID();
}
