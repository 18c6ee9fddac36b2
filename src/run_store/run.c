/*
 * run.c
 *		One run's row: finding it in a scope, locking it, writing it, and
 *		returning it.
 *
 * A run is found by its run_id.  One outside of the scope, or of another
 * tenant than the user's, is not found, which nothing tells from absence
 * (DK-018).  Its status is text; the table's constraints do not run on the
 * direct path, so whoever sets claim, wake and poison keeps to them.
 *
 * Locks: the run's row, no-key-exclusive, so that a foreign key's check of a
 * row that refers to it never hinders a claim.  One call has one run in hand,
 * and waits for whoever holds it; claims never wait.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"

#include "clock.h"
#include "names.h"
#include "run_store/run.h"
#include "shmem/wake.h"
#include "token.h"

static const char *const status_names[GD_RUN_NSTATUSES] = {
	"running", "waiting", "done", "failed", "cancelled",
};

/* The columns of type run and, as far as they go, of type run_info. */
static const GdRunColumn info_columns[] = {
	RUN_RUN_ID, RUN_GRAPH_ID, RUN_GRAPH_HASH, RUN_STATUS, RUN_STEP,
	RUN_CHECKPOINT_SEQ, RUN_STATE, RUN_STARTED_AT, RUN_UPDATED_AT,
	RUN_FINISHED_AT,
	RUN_CHECKPOINT_TYPE, RUN_WAKE_AT, RUN_CLAIMED_AT, RUN_CLAIM_ATTEMPTS,
	RUN_CLAIM_ABANDONS, RUN_POISONED_AT, RUN_POISON_REASON,
};

#define RUN_TYPE_NCOLUMNS 10
#define INFO_TYPE_NCOLUMNS lengthof(info_columns)

static void
runs_begin(GdRuns *runs)
{
	runs->row = gd_row_create(runs->table);
	gd_scan_begin(&runs->by_run_id, runs->table, GD_RUNS_PKEY);
	runs->now = gd_now();
}

/*
 * gd_runs_open: open the table for a call that writes.
 */
void
gd_runs_open(GdRuns *runs)
{
	runs->table = gd_table_open(GD_RUNS);
	runs_begin(runs);
}

/*
 * gd_runs_open_read: for a call that only reads, which a standby can too.
 */
void
gd_runs_open_read(GdRuns *runs)
{
	runs->table = gd_table_open_read(GD_RUNS);
	runs_begin(runs);
}

void
gd_runs_close(GdRuns *runs)
{
	bool		wrote = runs->table->state != NULL;

	gd_scan_end(&runs->by_run_id);
	gd_row_free(runs->row);
	gd_table_close(runs->table);
	if (wrote)
		gd_table_flush();
}

/*
 * gd_run_find: load a run of the scope, unlocked; false if there is none.
 */
bool
gd_run_find(GdRuns *runs, const GdRunScope *scope, const text *run_id)
{
	gd_scan_text(&runs->by_run_id, 1, run_id);
	gd_scan_start(&runs->by_run_id);
	if (!gd_scan_next(&runs->by_run_id))
		return false;
	if (scope && !gd_run_scope_sees(scope, DatumGetTextPP(gd_slot_datum(runs->table, runs->by_run_id.slot,
																		RUN_SCOPE_KEY))))
		return false;
	gd_row_load(runs->row, runs->by_run_id.slot);
	return true;
}

/*
 * gd_run_lock: load a run of the scope and lock it, after whoever holds it.
 */
bool
gd_run_lock(GdRuns *runs, const GdRunScope *scope, const text *run_id)
{
	ItemPointerData tid;

	if (!gd_run_find(runs, scope, run_id))
		return false;
	tid = runs->row->tid;
	switch (gd_row_lock(runs->row, &tid, true))
	{
		case GD_LOCKED:
			return true;
		case GD_LOCK_GONE:
			return false;
		case GD_LOCK_BUSY:
			break;
	}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("run \"%s\" was changed by the running command", gd_run_shown(run_id)),
			 errhint("Call the function in a statement of its own.")));
	return false;
}

/*
 * gd_run_poison: take the run out of the claims until somebody heals it.
 */
void
gd_run_poison(GdRow *row, TimestampTz now, const char *reason)
{
	gd_run_clear(row);
	gd_row_set(row, RUN_POISONED_AT, TimestampTzGetDatum(now));
	gd_row_set(row, RUN_POISON_REASON, CStringGetTextDatum(reason));
}

/*
 * gd_run_write: write a run.  One that is only loaded is written if
 * nobody has locked or changed it; else false, and nothing done.
 */
bool
gd_run_write(GdRow *row, TimestampTz now, bool locked)
{
	gd_row_set(row, RUN_DUE, BoolGetDatum(GD_IS_NULL(row, RUN_WAKE_AT) ||
										  DatumGetTimestampTz(GD_VALUE(row, RUN_WAKE_AT)) <= now));
	if (!locked)
		return gd_row_try_update(row);
	gd_row_update(row);
	return true;
}

/*
 * gd_run_awake: the run can be claimed once the transaction commits,
 * or soon after that; have those told who wait for it.
 */
void
gd_run_awake(GdRow *row, TimestampTz now)
{
	if (!GD_IS_NULL(row, RUN_WAKE_AT))
		gd_wake_run(gd_run_text(row, RUN_SCOPE_KEY),
					DatumGetTimestampTz(GD_VALUE(row, RUN_WAKE_AT)), now);
}

/*
 * gd_run_shown: a text as messages show it.
 */
char *
gd_run_shown(const text *value)
{
	return gd_clip(VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value));
}

/*
 * gd_run_not_found: raise that the scope has no such run.
 */
void
gd_run_not_found(const text *run_id)
{
	ereport(ERROR,
			(errcode(GD_ERRCODE_NOT_FOUND),
			 errmsg("run \"%s\" does not exist in the scope", gd_run_shown(run_id))));
	pg_unreachable();
}

/*
 * gd_run_status_read: which status a name stands for; false: none.
 */
bool
gd_run_status_read(const text *name, GdRunStatus *status)
{
	for (int s = 0; s < GD_RUN_NSTATUSES; s++)
		if (VARSIZE_ANY_EXHDR(name) == strlen(status_names[s]) &&
			memcmp(VARDATA_ANY(name), status_names[s], strlen(status_names[s])) == 0)
		{
			*status = (GdRunStatus) s;
			return true;
		}
	return false;
}

const char *
gd_run_status_name(GdRunStatus status)
{
	return status_names[status];
}

GdRunStatus
gd_run_status(GdRow *row)
{
	GdRunStatus status;

	if (!gd_run_status_read(gd_run_text(row, RUN_STATUS), &status))
		elog(ERROR, "run has an unknown status");
	return status;
}

/*
 * gd_run_holds: the fence.  A claim is its token and nothing else.
 */
bool
gd_run_holds(GdRow *row, const pg_uuid_t *token)
{
	return !GD_IS_NULL(row, RUN_CLAIM_TOKEN) &&
		gd_token_equal(DatumGetUUIDP(GD_VALUE(row, RUN_CLAIM_TOKEN)), token);
}

/*
 * run_form: the columns of a row as a value of a composite type.
 */
static HeapTuple
run_form(TupleDesc desc, GdRow *row, int ncolumns)
{
	Datum		values[INFO_TYPE_NCOLUMNS];
	bool		nulls[INFO_TYPE_NCOLUMNS];

	if (desc->natts != ncolumns)
		elog(ERROR, "type of a run has %d columns, not %d", desc->natts, ncolumns);
	for (int i = 0; i < ncolumns; i++)
	{
		values[i] = GD_VALUE(row, info_columns[i]);
		nulls[i] = GD_IS_NULL(row, info_columns[i]);
	}
	return heap_form_tuple(desc, values, nulls);
}

HeapTuple
gd_run_tuple(TupleDesc desc, GdRow *row)
{
	return run_form(desc, row, RUN_TYPE_NCOLUMNS);
}

static Datum
run_return(FunctionCallInfo fcinfo, GdRow *row, int ncolumns)
{
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(run_form(BlessTupleDesc(desc), row, ncolumns));
}

/*
 * gd_run_return: the run in hand as a function's result of type run.
 */
Datum
gd_run_return(FunctionCallInfo fcinfo, GdRow *row)
{
	return run_return(fcinfo, row, RUN_TYPE_NCOLUMNS);
}

/*
 * gd_run_return_info: likewise of type run_info.
 */
Datum
gd_run_return_info(FunctionCallInfo fcinfo, GdRow *row)
{
	return run_return(fcinfo, row, INFO_TYPE_NCOLUMNS);
}

/*
 * gd_run_arg_now: the instant that a call gives as its now, by default the
 * engine's clock (D-22).
 */
TimestampTz
gd_run_arg_now(FunctionCallInfo fcinfo, int argno, TimestampTz now)
{
	if (PG_ARGISNULL(argno))
		return now;
	now = PG_GETARG_TIMESTAMPTZ(argno);
	gd_check_finite_time("now", now, NULL);
	return now;
}
