/*
 * drain.c
 *		drain: running due SQL steps in the caller's transaction until none is
 *		left.
 *
 * For tests, which run a whole machine and roll it back, and for servers
 * without the background processes.  Only steps that the server runs, and only
 * those whose machine's owner the caller may be taken for: they run by the
 * caller's search_path and temporary objects, with the owner's rights.
 *
 * A step and its outcome are one subtransaction, so what a step does stands or
 * falls with its outcome, as it does in an executor.  What lies in the future
 * is taken as due when nothing else is left; the clock does not move.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "engine/complete.h"
#include "engine/pick.h"
#include "engine/release.h"
#include "engine/step.h"
#include "names.h"

PG_FUNCTION_INFO_V1(gd_drain);

#define DRAIN_WORKER "gen_durable drain"

/* Columns of the result, in order; fail counts as what it became. */
static const GdOutcomeKind counted[] = {
	GD_OUTCOME_NEXT, GD_OUTCOME_RETRY, GD_OUTCOME_AWAIT, GD_OUTCOME_CHILDREN, GD_OUTCOME_DONE,
	GD_OUTCOME_STOP,
};

typedef struct Drain
{
	GdPickRequest request;
	bool		with_scheduled;
	int			max_steps;
	int64		steps;
	int64		counts[GD_NOUTCOMES];
} Drain;

/*
 * drain_finish: commit a step's outcome, or raise if its claim does not hold
 * any more, because the step itself has ended it.
 */
static void
drain_finish(const GdStep *step, GdOutcome *outcome, void *arg)
{
	GdStepEnd  *end = arg;

	end->token = *DatumGetUUIDP(step->job->values[JOB_TOKEN]);
	end->outcome = *outcome;
	gd_complete_steps(end, 1, NULL);
	gd_complete_raise(&end->token, end->fence);
}

static void
drain_step(Drain *drain, const GdJob *job)
{
	GdStep		step;
	GdOutcome	outcome;
	GdStepEnd	end;

	if (drain->steps >= drain->max_steps)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("drain ran %d steps and there are more", drain->max_steps),
				 errhint("A machine may go round in a circle; else raise max_steps.")));
	/* Its handler has been taken away since: it is a client's now. */
	if (!gd_step_find(&step, job))
	{
		gd_release_claim(DatumGetUUIDP(job->values[JOB_TOKEN]));
		return;
	}
	if (!gd_step_try(&step, &outcome, drain_finish, &end))
		drain_finish(&step, &outcome, &end);
	drain->steps++;
	drain->counts[end.became]++;
}

/*
 * drain_next_queue: the first queue after one that has a runnable row; NULL if
 * there is none.
 */
static text *
drain_next_queue(const text *after)
{
	GdTable    *instances = gd_table_open_read(GD_INSTANCES);
	text	   *next = NULL;
	GdScan		scan;

	gd_scan_begin(&scan, instances, GD_INSTANCES_PICK);
	if (after)
		gd_scan_key(&scan, 1, BTGreaterStrategyNumber, F_TEXT_GT, PointerGetDatum(after));
	gd_scan_start(&scan);
	if (gd_scan_next(&scan))
		next = DatumGetTextPCopy(gd_slot_datum(instances, scan.slot, INST_QUEUE));
	gd_scan_end(&scan);
	gd_table_close(instances);
	return next;
}

/*
 * drain_one: run the most urgent step of the request's queue; false if there
 * is none.
 */
static bool
drain_one(Drain *drain)
{
	GdJob	   *jobs;

	CHECK_FOR_INTERRUPTS();
	if (gd_pick_jobs(&drain->request, &jobs) == 0)
		return false;
	drain_step(drain, &jobs[0]);
	return true;
}

/*
 * drain_pass: run what there is in one queue, or in each; of what is not due
 * yet, one step a queue, since it may make others due.
 */
static bool
drain_pass(Drain *drain, text *only, bool any_time)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "gen_durable drain",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = CurrentMemoryContext;
	text	   *queue = NULL;
	bool		ran = false;

	drain->request.any_time = any_time;
	for (;;)
	{
		queue = only ? only : drain_next_queue(queue);
		if (queue == NULL)
			break;
		drain->request.queue = queue;
		MemoryContextSwitchTo(context);
		while (drain_one(drain))
		{
			ran = true;
			MemoryContextReset(context);
			if (any_time)
				break;
		}
		MemoryContextSwitchTo(old);
		if (only)
			break;
	}
	MemoryContextDelete(context);
	return ran;
}

/*
 * drain(queue, with_scheduled, max_steps)
 *	 -> (steps, next, retry, await, children, done, stop)
 */
Datum
gd_drain(PG_FUNCTION_ARGS)
{
	Drain		drain = {.request = {.batch = 1}};
	text	   *only = gd_arg_name_or_null(fcinfo, 0, "queue");
	TupleDesc	desc;
	Datum		values[1 + lengthof(counted)];
	bool		nulls[1 + lengthof(counted)] = {false};

	gd_writes("gen_durable.drain()");
	gd_arg_required(fcinfo, 1, "with_scheduled");
	drain.with_scheduled = PG_GETARG_BOOL(1);
	drain.max_steps = gd_arg_positive(fcinfo, 2, "max_steps");
	if (gd_step_running())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("drain cannot run inside a step"),
				 errhint("Insert, signal or schedule children; whoever runs this step runs theirs.")));
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	drain.request.worker = cstring_to_text(DRAIN_WORKER);
	drain.request.claimant.kind = GD_CLAIMS_FOR_CALLER;
	while (drain_pass(&drain, only, false) ||
		   (drain.with_scheduled && drain_pass(&drain, only, true)))
		;

	values[0] = Int64GetDatum(drain.steps);
	for (int i = 0; i < lengthof(counted); i++)
		values[i + 1] = Int64GetDatum(drain.counts[counted[i]]);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
