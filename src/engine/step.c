/*
 * step.c
 *		Running one step in the server: its handler is called as the owner of
 *		the machine, and what it returns is the outcome.
 *
 * What a handler sets of the session's settings, its role among them, is set
 * back when it ends.  Where the caller is not the owner, the handler runs
 * restricted too: it can neither become the caller nor leave anything behind
 * that the caller would run later.  Role and restrictions are those of the
 * running subtransaction, so an error takes them back.
 *
 * An error of a step becomes an outcome: what the machine's on_error decides,
 * else fail, with all that the server knows of the error in its text.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"
#include "utils/typcache.h"

#include "clock.h"
#include "engine/handler.h"
#include "engine/step.h"
#include "json.h"
#include "names.h"

/* How deep in steps this process is; 0 or 1. */
static int	depth = 0;

static TimeoutId step_timeout = MAX_TIMEOUTS;	/* not registered yet */
static volatile sig_atomic_t timed_out = false;

/*
 * step_timeout_handler: a step has run for too long.  In a signal handler.
 */
static void
step_timeout_handler(void)
{
	timed_out = true;
	InterruptPending = true;
	QueryCancelPending = true;
	SetLatch(MyLatch);
}

static void
step_timer_start(int ms)
{
	timed_out = false;
	if (ms <= 0)
		return;
	if (step_timeout == MAX_TIMEOUTS)
		step_timeout = RegisterTimeout(USER_TIMEOUT, step_timeout_handler);
	enable_timeout_after(step_timeout, ms);
}

/*
 * step_timer_stop: a timeout that came as the step ended has no say any more.
 */
static void
step_timer_stop(void)
{
	if (step_timeout != MAX_TIMEOUTS)
		disable_timeout(step_timeout, false);
	if (timed_out)
		QueryCancelPending = false;
}

/*
 * gd_step_running: is this process in the middle of a step?
 */
bool
gd_step_running(void)
{
	return depth > 0;
}

/*
 * step_timed_out: was the error that a step ended with its own timeout?
 */
static bool
step_timed_out(const ErrorData *error)
{
	return timed_out && error->sqlerrcode == ERRCODE_QUERY_CANCELED;
}

/*
 * gd_step_find: how a job's step is run; false if no more by the server.
 */
bool
gd_step_find(GdStep *step, const GdJob *job)
{
	step->job = job;
	if (!gd_runner_find(DatumGetTextPP(job->values[JOB_FSM]),
						DatumGetInt32(job->values[JOB_FSM_VERSION]),
						DatumGetTextPP(job->values[JOB_STEP]), &step->runner))
		return false;
	step->timeout_ms = step->runner.timeout_ms;
	step->runner.owner_name = pstrdup(step->runner.owner_name);
	step->runner.handler = pstrdup(step->runner.handler);
	if (step->runner.on_error)
		step->runner.on_error = pstrdup(step->runner.on_error);
	return true;
}

/*
 * step_argument: the job as a value of its type.
 */
static Datum
step_argument(const GdJob *job, bool without_inputs)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(gd_job_type(), -1);
	Datum		values[JOB_NCOLUMNS];
	Datum		result;

	if (desc->natts != JOB_NCOLUMNS)
		elog(ERROR, "type gen_durable.job has %d attributes, not %d", desc->natts, JOB_NCOLUMNS);
	memcpy(values, job->values, sizeof(values));
	if (without_inputs)
		values[JOB_AWAITED] = values[JOB_SIGNALS] = values[JOB_CHILDREN] =
			DirectFunctionCall1(jsonb_in, CStringGetDatum("[]"));
	result = HeapTupleGetDatum(heap_form_tuple(desc, values, (bool *) job->nulls));
	ReleaseTupleDesc(desc);
	return result;
}

/*
 * step_call: call a handler as the owner; the result is a copy, or NULL.
 */
static Jsonb *
step_call(const GdStep *step, GdHandlerKind kind, Datum argument, Datum error)
{
	const GdRunner *runner = &step->runner;
	Oid			save_user;
	int			save_context;
	int			guc_level;

	LOCAL_FCINFO(fcinfo, 2);
	FmgrInfo   *function;
	Datum		result;
	Jsonb	   *volatile copy = NULL;

	if (!OidIsValid(runner->owner))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("role \"%s\", which owns the machine, does not exist", runner->owner_name)));
	GetUserIdAndSecContext(&save_user, &save_context);
	guc_level = NewGUCNestLevel();
	if (runner->owner != save_user)
		SetUserIdAndSecContext(runner->owner, save_context | SECURITY_LOCAL_USERID_CHANGE |
							   SECURITY_RESTRICTED_OPERATION);
	function = gd_handler_get(kind == GD_HANDLER_STEP ? runner->handler : runner->on_error,
							  kind, runner->owner);
	InitFunctionCallInfoData(*fcinfo, function, kind == GD_HANDLER_STEP ? 1 : 2, InvalidOid,
							 NULL, NULL);
	fcinfo->args[0].value = argument;
	fcinfo->args[0].isnull = false;
	fcinfo->args[1].value = error;
	fcinfo->args[1].isnull = false;

	depth++;
	PushActiveSnapshot(GetTransactionSnapshot());
	step_timer_start(step->timeout_ms);
	PG_TRY();
	{
		result = FunctionCallInvoke(fcinfo);
		copy = fcinfo->isnull ? NULL : DatumGetJsonbPCopy(result);
	}
	PG_FINALLY();
	{
		depth--;
		step_timer_stop();
	}
	PG_END_TRY();
	PopActiveSnapshot();
	AtEOXact_GUC(false, guc_level);
	SetUserIdAndSecContext(save_user, save_context);
	CommandCounterIncrement();
	return copy;
}

/*
 * step_outcome: read what a handler returned.  An error is the step's.
 */
static void
step_outcome(const char *handler, Jsonb *returned, GdOutcome *outcome)
{
	JsonbValue	value;
	GdPolicies	policies;
	GdFault		fault = {0};
	bool		valid;

	JsonbToJsonbValue(returned, &value);
	gd_policies_begin(&policies);
	valid = gd_outcome_read(&value, false, gd_now(), &policies, outcome, NULL, &fault);
	gd_policies_end(&policies);
	if (!valid)
		ereport(ERROR,
				(errcode(fault.sqlerrcode),
				 errmsg("handler %s returned no valid outcome: %s", handler, fault.message),
				 fault.hint ? errhint("%s", fault.hint) : 0));
}

/*
 * gd_step_run: run a step in the current transaction.  Its error is raised.
 */
void
gd_step_run(const GdStep *step, GdOutcome *outcome)
{
	Jsonb	   *returned = step_call(step, GD_HANDLER_STEP, step_argument(step->job, false),
									 (Datum) 0);

	if (returned == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("handler %s returned NULL", step->runner.handler),
				 errhint("It must return an outcome, such as gen_durable.done().")));
	step_outcome(step->runner.handler, returned, outcome);
}

/*
 * step_error_text: all that is known of an error, as last_error keeps it.
 */
static char *
step_error_text(const ErrorData *error)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoString(&buf, error->message ? error->message : "missing error text");
	appendStringInfo(&buf, "\nSQLSTATE: %s", unpack_sql_state(error->sqlerrcode));
	if (error->detail)
		appendStringInfo(&buf, "\nDETAIL: %s", error->detail);
	if (error->hint)
		appendStringInfo(&buf, "\nHINT: %s", error->hint);
	if (error->context)
		appendStringInfo(&buf, "\nCONTEXT: %s", error->context);
	return buf.data;
}

static void
put_or_null(JsonbParseState **to, const char *key, const char *value)
{
	if (value)
		gd_json_put_cstring(to, key, value);
	else
		gd_json_put_null(to, key);
}

/*
 * step_error_jsonb: the error as a handler of errors gets it.
 */
static Datum
step_error_jsonb(const ErrorData *error)
{
	JsonbParseState *to = NULL;

	pushJsonbValue(&to, WJB_BEGIN_OBJECT, NULL);
	gd_json_put_cstring(&to, "sqlstate", unpack_sql_state(error->sqlerrcode));
	put_or_null(&to, "message", error->message);
	put_or_null(&to, "detail", error->detail);
	put_or_null(&to, "hint", error->hint);
	put_or_null(&to, "context", error->context);
	return JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&to, WJB_END_OBJECT, NULL)));
}

/* What runs in a subtransaction. */
typedef struct Try
{
	const GdStep *step;
	ErrorData  *error;			/* that the handler of errors is to decide on */
	GdOutcome  *outcome;
	bool		decided;
	GdStepFinish finish;		/* or NULL */
	void	   *arg;
} Try;

static void
try_step(Try *try)
{
	gd_step_run(try->step, try->outcome);
	if (try->finish)
		try->finish(try->step, try->outcome, try->arg);
	try->decided = true;
}

static void
try_on_error(Try *try)
{
	Jsonb	   *returned = step_call(try->step, GD_HANDLER_ERROR,
									 step_argument(try->step->job, true),
									 step_error_jsonb(try->error));

	try->decided = returned != NULL;
	if (returned == NULL)
		return;
	step_outcome(try->step->runner.on_error, returned, try->outcome);
	try->outcome->consumes_nothing = true;
	if (try->finish)
		try->finish(try->step, try->outcome, try->arg);
}

/*
 * step_subtransaction: do it in a subtransaction of its own; an error is
 * returned, and all that was done is undone.
 */
static ErrorData *
step_subtransaction(void (*body) (Try *), Try *try)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		body(try);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return error;
}

/*
 * gd_step_failed_twice: the outcome of a step that raised, and whose handler
 * of errors, or what that decided, raised as well: that ends the instance
 * (GD-346).
 */
void
gd_step_failed_twice(ErrorData *error, ErrorData *second, GdOutcome *outcome)
{
	memset(outcome, 0, sizeof(GdOutcome));
	outcome->kind = GD_OUTCOME_STOP;
	outcome->error = gd_error_text(cstring_to_text(psprintf("%s\non_error: %s",
															step_error_text(error),
															step_error_text(second))));
}

/*
 * step_cancelled: is an error the cancellation of what the caller does, rather
 * than the step's own timeout, or an error of that name that it raised?
 */
static bool
step_cancelled(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_QUERY_CANCELED && !step_timed_out(error) &&
		!(error->funcname && strcmp(error->funcname, "exec_stmt_raise") == 0);
}

/*
 * step_decide: the outcome of a step that raised; true if it has been
 * finished.  With cancels, a cancellation of the handler of errors goes on to
 * the caller.
 */
static bool
step_decide(Try *try, ErrorData *error, bool cancels)
{
	const GdStep *step = try->step;
	GdOutcome  *outcome = try->outcome;

	if (step_timed_out(error))
	{
		error->message = psprintf("step exceeded its statement_timeout of %d ms",
								  step->timeout_ms);
		error->hint = NULL;
	}
	try->error = error;
	if (step->runner.on_error && OidIsValid(step->runner.owner))
	{
		ErrorData  *second = step_subtransaction(try_on_error, try);

		if (second && cancels && step_cancelled(second))
			ReThrowError(second);
		if (second)
		{
			gd_step_failed_twice(error, second, outcome);
			return false;
		}
		if (try->decided)
			return try->finish != NULL;
	}
	memset(outcome, 0, sizeof(GdOutcome));
	outcome->kind = GD_OUTCOME_FAIL;
	outcome->error = gd_error_text(cstring_to_text(step_error_text(error)));
	return false;
}

/*
 * gd_step_failed: the outcome of a step that raised: what the machine's
 * handler of errors decides, in a subtransaction of its own and finished
 * there, else fail.  True if it has been finished.
 */
bool
gd_step_failed(const GdStep *step, ErrorData *error, GdOutcome *outcome, GdStepFinish finish,
			   void *arg)
{
	Try			try = {step, NULL, outcome, false, finish, arg};

	return step_decide(&try, error, false);
}

/*
 * gd_step_try: run a step in a subtransaction of its own, and finish it there.
 * If either raises, what it did is undone and the outcome is what its error
 * leads to.  True if the outcome has been finished.
 *
 * A cancel that is not the step's own timeout is meant for the caller, and
 * goes on to him.
 */
bool
gd_step_try(const GdStep *step, GdOutcome *outcome, GdStepFinish finish, void *arg)
{
	Try			try = {step, NULL, outcome, false, finish, arg};
	ErrorData  *error = step_subtransaction(try_step, &try);

	if (error == NULL)
		return finish != NULL;
	if (step_cancelled(error))
		ReThrowError(error);
	return step_decide(&try, error, true);
}
