/*
 * and_take.c
 *		complete_and_take and commit_and_take: committing outcomes and claiming
 *		the next steps in one call.
 *
 * Where a machine lets its steps run ahead, the next step of the same instance
 * goes before all others, on the claim that is held (GD-326); the rest of the
 * batch is taken.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/complete.h"
#include "engine/queues.h"
#include "engine/take.h"
#include "json.h"
#include "names.h"

PG_FUNCTION_INFO_V1(gd_complete_and_take);
PG_FUNCTION_INFO_V1(gd_commit_and_take);

/* So many steps of one call run on at most; the rest waits for its turn. */
#define AHEAD_MAX 1000

/*
 * gd_run_ahead_begin: steps may run on for who asks for jobs.
 */
void
gd_run_ahead_begin(GdRunAhead *ahead, const GdPickRequest *request)
{
	TimestampTz now = gd_now();
	GdQueue		queue;

	gd_queue_read(request->queue, now, &queue);
	ahead->request = request;
	ahead->lease_expires_at = gd_later(now, request->lease_ttl ? request->lease_ttl :
									   &queue.lease_ttl);
	ahead->max = queue.paused ? 0 : Min(request->batch, AHEAD_MAX);
	ahead->njobs = 0;
	ahead->bytes = 0;
	ahead->jobs = palloc(sizeof(GdJob) * Max(ahead->max, 1));
}

/*
 * run_ahead_take: the jobs of steps that run on, and the queue's next ones.
 */
static int
run_ahead_take(GdRunAhead *ahead, GdPickRequest *request, GdJob **jobs)
{
	int			n;

	request->batch -= ahead->njobs;
	n = request->batch > 0 && (!request->one_document || ahead->bytes < GD_JOB_BYTES) ?
		gd_take_jobs(request, jobs) : 0;
	if (ahead->njobs == 0)
		return n;
	ahead->jobs = repalloc_huge(ahead->jobs, sizeof(GdJob) * (ahead->njobs + n));
	if (n > 0)
		memcpy(ahead->jobs + ahead->njobs, *jobs, sizeof(GdJob) * n);
	*jobs = ahead->jobs;
	return ahead->njobs + n;
}

/*
 * complete_and_take(outcomes, queue, worker, batch, lease_ttl) -> setof job
 *
 * Returns jobs, so it has no room to report an outcome that did not commit:
 * as complete, it raises.
 */
Datum
gd_complete_and_take(PG_FUNCTION_ARGS)
{
	GdPickRequest request;
	GdRunAhead	ahead;
	Jsonb	   *outcomes;
	GdResult   *results;
	GdJob	   *jobs;
	int			n;

	gd_writes("gen_durable.complete_and_take()");
	outcomes = gd_json_arg_array(PG_GETARG_DATUM(0), PG_ARGISNULL(0), "outcomes");
	gd_pick_request(fcinfo, 1, &request);
	gd_run_ahead_begin(&ahead, &request);
	n = gd_complete_batch(outcomes, &ahead, &results);
	for (int i = 0; i < n; i++)
		if (results[i].sqlerrcode != 0)
			ereport(ERROR,
					(errcode(results[i].sqlerrcode),
					 errmsg("outcome %d is %s", i + 1, results[i].result),
					 results[i].hint ? errhint("%s", results[i].hint) : 0));
	n = run_ahead_take(&ahead, &request, &jobs);
	return gd_pick_return(fcinfo, jobs, n);
}

/*
 * complete_results_jsonb: results as an array of {ord, id, result}.
 */
static Datum
complete_results_jsonb(const GdResult *results, int n)
{
	JsonbParseState *to = NULL;

	pushJsonbValue(&to, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < n; i++)
	{
		pushJsonbValue(&to, WJB_BEGIN_OBJECT, NULL);
		gd_json_put_int(&to, "ord", i + 1);
		if (results[i].id == 0)
			gd_json_put_null(&to, "id");
		else
			gd_json_put_int(&to, "id", results[i].id);
		gd_json_put_cstring(&to, "result", results[i].result);
		pushJsonbValue(&to, WJB_END_OBJECT, NULL);
	}
	return JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&to, WJB_END_ARRAY, NULL)));
}

/*
 * CALL commit_and_take(outcomes, queue, worker, batch, lease_ttl,
 *						INOUT results, INOUT jobs)
 */
Datum
gd_commit_and_take(PG_FUNCTION_ARGS)
{
	GdPickRequest request;
	GdRunAhead	ahead;
	Jsonb	   *outcomes;
	GdResult   *results;
	GdJob	   *jobs;
	int			n;
	TupleDesc	desc;
	Datum		values[2];
	bool		nulls[2] = {false};

	gd_writes("gen_durable.commit_and_take()");
	outcomes = gd_json_arg_array(PG_GETARG_DATUM(0), PG_ARGISNULL(0), "outcomes");
	gd_pick_request(fcinfo, 1, &request);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	request.one_document = true;
	gd_run_ahead_begin(&ahead, &request);
	n = gd_complete_batch(outcomes, &ahead, &results);
	values[0] = complete_results_jsonb(results, n);
	n = run_ahead_take(&ahead, &request, &jobs);
	values[1] = gd_jobs_jsonb(jobs, n);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
