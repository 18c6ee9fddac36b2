/*
 * insert.c
 *		run_insert: a new run.
 *
 * The graph and the events are the caller's, in the caller's tables and in
 * the same transaction (D-20).
 *
 * Locks: an insert of a run_id that another transaction has inserted and not
 * ended waits for it.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"

#include "clock.h"
#include "names.h"
#include "run_store/listing.h"
#include "run_store/run.h"
#include "shmem/stats.h"

#define INITIAL_TYPE "run_initialized"

PG_FUNCTION_INFO_V1(gd_run_insert);

/* What a call gives, checked. */
typedef struct NewRun
{
	GdRunScope	scope;
	text	   *run_id;
	text	   *graph_id;
	text	   *graph_hash;
	Datum		state;
	TimestampTz wake_at;
	int64		checkpoint_seq;
	text	   *checkpoint_type;
	int			step;
	TimestampTz started_at;
	TimestampTz updated_at;
} NewRun;

static TimestampTz
insert_arg_time(FunctionCallInfo fcinfo, int argno, const char *what, TimestampTz otherwise)
{
	if (PG_ARGISNULL(argno))
		return otherwise;
	gd_check_finite_time(what, PG_GETARG_TIMESTAMPTZ(argno), NULL);
	return PG_GETARG_TIMESTAMPTZ(argno);
}

static void
insert_read(FunctionCallInfo fcinfo, NewRun *run)
{
	TimestampTz now = gd_now();

	gd_run_scope_owner(fcinfo, 0, &run->scope);
	run->run_id = gd_arg_name(fcinfo, 1, "run_id");
	run->graph_id = gd_arg_name(fcinfo, 2, "graph_id");
	run->graph_hash = gd_arg_name(fcinfo, 3, "graph_hash");
	gd_arg_required(fcinfo, 4, "state");
	run->state = PointerGetDatum(PG_GETARG_BYTEA_PP(4));
	gd_arg_required(fcinfo, 5, "wake_at");
	run->wake_at = insert_arg_time(fcinfo, 5, "wake_at", 0);
	gd_arg_required(fcinfo, 6, "checkpoint_seq");
	run->checkpoint_seq = PG_GETARG_INT64(6);
	if (run->checkpoint_seq < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("checkpoint_seq %lld must be at least 1", (long long) run->checkpoint_seq)));
	run->checkpoint_type = gd_arg_name(fcinfo, 7, "checkpoint_type");
	if (!gd_text_equal(run->checkpoint_type, cstring_to_text(INITIAL_TYPE)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("checkpoint_type \"%s\" must be %s", gd_run_shown(run->checkpoint_type), INITIAL_TYPE)));
	gd_arg_required(fcinfo, 8, "step");
	run->step = PG_GETARG_INT32(8);
	if (run->step < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("step %d must not be negative", run->step)));
	run->started_at = insert_arg_time(fcinfo, 9, "started_at", now);
	run->updated_at = insert_arg_time(fcinfo, 10, "updated_at", run->started_at);
}

static void
insert_fill(GdRow *row, int64 id, const NewRun *run, TimestampTz now)
{
	gd_row_set(row, RUN_ID, Int64GetDatum(id));
	gd_row_set(row, RUN_RUN_ID, PointerGetDatum(run->run_id));
	if (VARSIZE_ANY_EXHDR(run->scope.key) > 0)
		gd_row_set(row, RUN_TENANT_ID, PointerGetDatum(run->scope.key));
	gd_row_set(row, RUN_SCOPE_KEY, PointerGetDatum(run->scope.key));
	gd_row_set(row, RUN_GRAPH_ID, PointerGetDatum(run->graph_id));
	gd_row_set(row, RUN_GRAPH_HASH, PointerGetDatum(run->graph_hash));
	gd_row_set(row, RUN_STATUS, CStringGetTextDatum(gd_run_status_name(GD_RUN_RUNNING)));
	gd_row_set(row, RUN_STEP, Int32GetDatum(run->step));
	gd_row_set(row, RUN_STATE, run->state);
	gd_row_set(row, RUN_CHECKPOINT_SEQ, Int64GetDatum(run->checkpoint_seq));
	gd_row_set(row, RUN_CHECKPOINT_TYPE, PointerGetDatum(run->checkpoint_type));
	gd_row_set(row, RUN_WAKE_AT, TimestampTzGetDatum(run->wake_at));
	gd_row_set(row, RUN_DUE, BoolGetDatum(run->wake_at <= now));
	gd_row_set(row, RUN_CLAIM_ATTEMPTS, Int32GetDatum(0));
	gd_row_set(row, RUN_CLAIM_ABANDONS, Int32GetDatum(0));
	gd_row_set(row, RUN_INSERTED_AT, TimestampTzGetDatum(now));
	gd_row_set(row, RUN_STARTED_AT, TimestampTzGetDatum(run->started_at));
	gd_row_set(row, RUN_UPDATED_AT, TimestampTzGetDatum(run->updated_at));
}

/*
 * run_insert(scope, run_id, graph_id, graph_hash, state, wake_at, ...) -> run
 *
 * The look for a run of the same name is for the message; of two that insert
 * it at the same time the unique index lets one through.
 */
Datum
gd_run_insert(PG_FUNCTION_ARGS)
{
	NewRun		run;
	GdRuns		runs;
	Datum		result;

	gd_writes("gen_durable.run_insert()");
	insert_read(fcinfo, &run);
	gd_runs_open(&runs);
	if (gd_run_find(&runs, NULL, run.run_id))
		ereport(ERROR,
				(errcode(ERRCODE_UNIQUE_VIOLATION),
				 errmsg("run \"%s\" exists already", gd_run_shown(run.run_id)),
				 errhint("Names of runs are unique across all tenants.")));
	insert_fill(runs.row, gd_table_next_id(runs.table), &run, runs.now);
	gd_row_insert(runs.row);
	gd_run_listing_add(runs.row);
	gd_run_awake(runs.row, runs.now);
	gd_stats_count_run(GD_RUNS_INSERTED, 1);
	result = gd_run_return(fcinfo, runs.row);
	gd_runs_close(&runs);
	PG_RETURN_DATUM(result);
}
