/*
 * signal.c
 *		signal, signal_key and find: talking to an instance.
 *
 * The target's row is locked before it is looked at (D-6): so a signal is
 * never stored for a row that has just ended, and a park that is about to
 * commit is either seen or sees the signal.  The row is rewritten only to
 * wake it.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/inbox.h"
#include "engine/instance.h"
#include "engine/job.h"
#include "names.h"

PG_FUNCTION_INFO_V1(gd_signal);
PG_FUNCTION_INFO_V1(gd_signal_key);
PG_FUNCTION_INFO_V1(gd_find);

typedef struct Signal
{
	text	   *name;
	Datum		payload;
	text	   *dedup_key;		/* or NULL */
} Signal;

static void
signal_args(FunctionCallInfo fcinfo, Signal *signal)
{
	signal->name = gd_arg_name(fcinfo, 1, "signal name");
	signal->payload = PG_ARGISNULL(2) ? DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")) :
		PG_GETARG_DATUM(2);
	if (toast_raw_datum_size(signal->payload) > GD_JOB_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("payload of %zu bytes is too large, at most %d are allowed",
						toast_raw_datum_size(signal->payload), GD_JOB_BYTES),
				 errhint("Store it in a table, and signal where it is.")));
	signal->dedup_key = gd_arg_name_or_null(fcinfo, 3, "dedup key");
}

/*
 * signal_wake: wake a locked row that is parked on the signal's name.  What
 * it awaited stays on the row, so that the woken step can tell.
 */
static void
signal_wake(GdRow *row, const Signal *signal, TimestampTz now)
{
	if (gd_instance_status(row) == GD_AWAITING_SIGNAL && !GD_IS_NULL(row, INST_AWAITS) &&
		gd_names_have(DatumGetArrayTypeP(GD_VALUE(row, INST_AWAITS)), signal->name))
	{
		gd_instance_to_runnable(row, now);
		gd_instance_write(row, now);
	}
}

/*
 * signal_deliver: deliver to a row.  With a key, the row must still occupy
 * it; *moved tells when it does not, and the key is to be looked up again.
 */
static const char *
signal_deliver(GdTable *instances, int64 id, const text *key, const Signal *signal, bool *moved)
{
	GdRow	   *row = gd_row_create(instances);
	const char *result = "no_target";
	TimestampTz now = gd_now();
	GdScan		by_id;

	gd_scan_begin(&by_id, instances, GD_INSTANCES_PKEY);
	if (gd_instance_lock(&by_id, row, id, true) == GD_LOCKED)
	{
		text	   *guard = gd_instance_text(row, INST_CORRELATION_GUARD);

		if (key && !(guard && gd_text_equal(guard, key)))
			*moved = true;
		else if (!gd_status_is_terminal(gd_instance_status(row)))
		{
			if (gd_inbox_store(id, signal->name, signal->payload, signal->dedup_key, now))
			{
				signal_wake(row, signal, now);
				result = "delivered";
			}
			else
				result = "duplicate";
		}
	}
	else if (key)
		*moved = true;
	gd_scan_end(&by_id);
	gd_row_free(row);
	return result;
}

/*
 * signal(id, name, payload, dedup_key) -> delivered | duplicate | no_target
 */
Datum
gd_signal(PG_FUNCTION_ARGS)
{
	GdTable    *instances;
	Signal		signal;
	const char *result;

	gd_writes("gen_durable.signal()");
	gd_arg_required(fcinfo, 0, "id");
	signal_args(fcinfo, &signal);
	instances = gd_table_open(GD_INSTANCES);
	result = signal_deliver(instances, PG_GETARG_INT64(0), NULL, &signal, NULL);
	gd_table_close(instances);
	gd_table_flush();
	PG_RETURN_TEXT_P(cstring_to_text(result));
}

/*
 * signal_key(key, name, payload, dedup_key) -> delivered | duplicate | no_target
 */
Datum
gd_signal_key(PG_FUNCTION_ARGS)
{
	text	   *key = gd_arg_name(fcinfo, 0, "correlation key");
	GdTable    *instances;
	Signal		signal;
	const char *result;
	bool		moved;
	int64		id;

	gd_writes("gen_durable.signal_key()");
	signal_args(fcinfo, &signal);
	instances = gd_table_open(GD_INSTANCES);
	do
	{
		CHECK_FOR_INTERRUPTS();
		moved = false;
		result = gd_instance_find_key(instances, key, &id, false) ?
			signal_deliver(instances, id, key, &signal, &moved) : "no_target";
	} while (moved);
	gd_table_close(instances);
	gd_table_flush();
	PG_RETURN_TEXT_P(cstring_to_text(result));
}

/*
 * find(key) -> the live occupant of a correlation key, or NULL
 */
Datum
gd_find(PG_FUNCTION_ARGS)
{
	text	   *key = gd_arg_name(fcinfo, 0, "correlation key");
	GdTable    *instances = gd_table_open_read(GD_INSTANCES);
	int64		id;
	bool		found = gd_instance_find_key(instances, key, &id, true);

	gd_table_close(instances);
	if (!found)
		PG_RETURN_NULL();
	PG_RETURN_INT64(id);
}
