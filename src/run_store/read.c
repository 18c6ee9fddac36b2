/*
 * read.c
 *		run_fetch, run_inspect and run_lock: one run, as it was last committed.
 *
 * Locks: run_lock locks the row, after whoever holds it; the others none.
 */
#include "postgres.h"

#include "fmgr.h"

#include "names.h"
#include "run_store/run.h"

PG_FUNCTION_INFO_V1(gd_run_fetch);
PG_FUNCTION_INFO_V1(gd_run_inspect);
PG_FUNCTION_INFO_V1(gd_run_lock_sql);

typedef Datum (*ReadReturn) (FunctionCallInfo fcinfo, GdRow *row);

static Datum
read_run(FunctionCallInfo fcinfo, ReadReturn form)
{
	GdRunScope	scope;
	text	   *run_id;
	GdRuns		runs;
	Datum		result;

	gd_run_scope_read(fcinfo, 0, &scope);
	run_id = gd_arg_name(fcinfo, 1, "run_id");
	gd_runs_open_read(&runs);
	if (!gd_run_find(&runs, &scope, run_id))
		gd_run_not_found(run_id);
	result = form(fcinfo, runs.row);
	gd_runs_close(&runs);
	return result;
}

/*
 * run_fetch(scope, run_id) -> run
 */
Datum
gd_run_fetch(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(read_run(fcinfo, gd_run_return));
}

/*
 * run_inspect(scope, run_id) -> run_info
 */
Datum
gd_run_inspect(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(read_run(fcinfo, gd_run_return_info));
}

/*
 * run_lock(scope, run_id) -> run, locked in the caller's transaction
 */
Datum
gd_run_lock_sql(PG_FUNCTION_ARGS)
{
	GdRunScope	scope;
	text	   *run_id;
	GdRuns		runs;
	Datum		result;

	gd_writes("gen_durable.run_lock()");
	gd_run_scope_read(fcinfo, 0, &scope);
	run_id = gd_arg_name(fcinfo, 1, "run_id");
	gd_runs_open(&runs);
	if (!gd_run_lock(&runs, &scope, run_id))
		gd_run_not_found(run_id);
	result = gd_run_return(fcinfo, runs.row);
	gd_runs_close(&runs);
	PG_RETURN_DATUM(result);
}
