/*
 * await.c
 *		await: waiting for an instance to settle.
 *
 * The row is the only truth: each look is under a fresh snapshot.  Between
 * looks the session sleeps on its latch, which the commit that settles the
 * instance sets (shmem/wake.c), and which a cancelled query, a timeout or a
 * shutdown sets too.
 *
 * A SELECT holds its snapshot for as long as it runs; the timeout bounds that.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/instance.h"
#include "engine/poll.h"
#include "names.h"
#include "shmem/waiters.h"
#include "shmem/wake.h"

PG_FUNCTION_INFO_V1(gd_await);

/* Columns of await's result. */
typedef enum AwaitColumn
{
	AWAIT_OUTCOME, AWAIT_STATUS, AWAIT_STEP, AWAIT_ATTEMPT, AWAIT_RESULT, AWAIT_ERROR,
	AWAIT_NCOLUMNS
} AwaitColumn;

/*
 * await_outcome: what a status means to who waits; NULL if it is to wait on.
 */
static const char *
await_outcome(GdStatus status, bool terminal_only)
{
	switch (status)
	{
		case GD_DONE:
			return "done";
		case GD_FAILED:
			return "failed";
		case GD_CANCELLED:
			return "cancelled";
		case GD_AWAITING_SIGNAL:
		case GD_AWAITING_CHILDREN:
			return terminal_only ? NULL : "awaiting";
		default:
			return NULL;
	}
}

/*
 * await_look: look at the row once; fills in values and returns whether the
 * wait is over.
 */
static bool
await_look(int64 id, bool terminal_only, bool last, Datum *values, bool *nulls)
{
	static const struct
	{
		AwaitColumn to;
		GdInstanceColumn from;
		bool		byval;
	}			copies[] = {
		{AWAIT_STATUS, INST_STATUS, true},
		{AWAIT_STEP, INST_STEP, false},
		{AWAIT_ATTEMPT, INST_ATTEMPT, true},
		{AWAIT_RESULT, INST_RESULT, false},
		{AWAIT_ERROR, INST_LAST_ERROR, false},
	};
	GdTable    *instances = gd_table_open_read(GD_INSTANCES);
	const char *outcome = "not_found";
	GdScan		by_id;

	memset(nulls, true, sizeof(bool) * AWAIT_NCOLUMNS);
	gd_scan_begin(&by_id, instances, GD_INSTANCES_PKEY);
	if (gd_instance_find(&by_id, id))
	{
		GdStatus	status;

		status = gd_status_of(DatumGetObjectId(gd_slot_datum(instances, by_id.slot, INST_STATUS)));
		outcome = await_outcome(status, terminal_only);
		if (outcome == NULL && last)
			outcome = "busy";
		for (int i = 0; outcome && i < lengthof(copies); i++)
		{
			Datum		value = gd_slot_value(instances, by_id.slot, copies[i].from,
											  &nulls[copies[i].to]);

			if (!nulls[copies[i].to])
				values[copies[i].to] = copies[i].byval ? value :
					PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
		}
	}
	gd_scan_end(&by_id);
	gd_table_close(instances);

	if (outcome)
	{
		values[AWAIT_OUTCOME] = CStringGetTextDatum(outcome);
		nulls[AWAIT_OUTCOME] = false;
	}
	return outcome != NULL;
}

static bool
await_until_terminal(FunctionCallInfo fcinfo, int argno)
{
	char	   *until;

	gd_arg_required(fcinfo, argno, "until");
	until = text_to_cstring(PG_GETARG_TEXT_PP(argno));
	if (strcmp(until, "terminal") == 0)
		return true;
	if (strcmp(until, "settled") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("until \"%s\" must be settled or terminal", gd_clip(until, strlen(until)))));
	return false;
}

/*
 * await_settled: look until the wait is over, or its deadline has come.
 */
static void
await_settled(int64 id, bool terminal_only, TimestampTz deadline, Datum *values, bool *nulls)
{
	GdWakeKey	key = gd_wake_instance(id);
	GdPoll		poll;

	gd_poll_begin(&poll);
	for (;;)
	{
		long		left;

		gd_wake_subscribe(&key, 1);
		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);
		if (await_look(id, terminal_only, left == 0, values, nulls))
			return;
		gd_waiter_begin(NULL, 0, id);
		(void) gd_poll_wait(&poll, left);
	}
}

/*
 * await(id, timeout, until) -> (outcome, status, step, attempt, result, error)
 */
Datum
gd_await(PG_FUNCTION_ARGS)
{
	TimestampTz deadline;
	bool		terminal_only;
	TupleDesc	desc;
	Datum		values[AWAIT_NCOLUMNS] = {0};
	bool		nulls[AWAIT_NCOLUMNS];

	gd_arg_required(fcinfo, 0, "id");
	gd_arg_required(fcinfo, 1, "timeout");
	gd_check_not_negative("timeout", PG_GETARG_INTERVAL_P(1), NULL);
	terminal_only = await_until_terminal(fcinfo, 2);
	deadline = gd_later(GetCurrentTimestamp(), PG_GETARG_INTERVAL_P(1));

	PG_TRY();
	{
		await_settled(PG_GETARG_INT64(0), terminal_only, deadline, values, nulls);
	}
	PG_FINALLY();
	{
		gd_wake_leave();
		gd_waiter_end();
	}
	PG_END_TRY();

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
