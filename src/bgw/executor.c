/*
 * executor.c
 *		An executor: runs the SQL steps of one queue and one owner of machines,
 *		connected as that owner.
 *
 * It claims a step and commits that, so that a step that kills its process is
 * found and counted (D-9).  Then the handler, its outcome and the claim of the
 * next step are one transaction.  An error aborts it; a new one commits what
 * the error leads to.
 *
 * With gen_durable.commit_group above 1, short steps are claimed and committed
 * together, each handler in a subtransaction of its own.  A step that was
 * tried before, or that is known to be slow, is run by itself; and if anything
 * but a handler goes wrong, all of the group are run again, each by itself.
 *
 * Nothing of the session passes from one step to the next: settings are set
 * back, cursors, prepared statements, temporary tables and advisory locks are
 * dropped.  LISTEN the server itself refuses in a background process.
 *
 * It never waits with a snapshot, and ends when it has been idle for a while,
 * when a command needs the database, or when another crew needs its place.
 * README.md has the states.
 */
#include "postgres.h"

#include <signal.h>

#include "access/detoast.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "commands/prepare.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "bgw/bgw.h"
#include "clock.h"
#include "compat.h"
#include "engine/complete.h"
#include "engine/pick.h"
#include "engine/queues.h"
#include "engine/release.h"
#include "engine/step.h"
#include "guc.h"
#include "shmem/executors.h"
#include "table.h"

#define MS INT64CONST(1000)

/* A commit group takes no further step after so long. */
#define GROUP_MS 20

/* A step that takes longer, on average, is run by itself. */
#define SLOW_MS 5
#define SLOW_STEPS 64

/* A claim that this process holds. */
typedef struct Held
{
	GdJob		job;
	bool		alone;			/* is not to be run in a group */
} Held;

/* A step of a group: how it is run, and how it ended. */
typedef struct GroupStep
{
	GdStep		step;
	GdOutcome	outcome;
} GroupStep;

static GdCrew crew;
static text *queue;				/* in TopMemoryContext, as the next */
static text *worker;

/* What is held, and what will be when the running transaction commits. */
typedef struct Claims
{
	Held		held[GD_EXECUTOR_CLAIMS];
	int			n;
	MemoryContext context;
} Claims;

static Claims now_held;
static Claims next_held;

static TimestampTz next_due;	/* of what the last claim met */
static bool temporary_left = false; /* a step may have left temporary objects */

/*
 * How long steps take, by a hash of their names: a mean in which the last run
 * counts an eighth, so that one that was held up is not taken for slow.
 */
typedef struct StepTime
{
	uint32		hash;
	int64		mean;			/* microseconds */
} StepTime;

static StepTime step_times[SLOW_STEPS];

/*
 * executor_cancel: SIGINT: end the step that runs, if it is meant.
 */
static void
executor_cancel(SIGNAL_ARGS)
{
	int			save_errno = errno;

	if (gd_step_running() && gd_executor_is_cancelled())
	{
		InterruptPending = true;
		QueryCancelPending = true;
	}
	SetLatch(MyLatch);
	errno = save_errno;
}

static void
executor_exit(int code, Datum arg)
{
	gd_executor_end(code != 0);
}

/*
 * executor_connect: become a session of the owner's, with the settings of
 * role and database but for those that the engine relies on.
 */
static void
executor_connect(Oid database)
{
	static const char *const settings[][2] = {
		{"role", "none"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_deferrable", "off"},
		{"idle_in_transaction_session_timeout", "0"},
		{"transaction_timeout", "0"},	/* from 17 on; it would end the
										 * process */
		{"gen_durable.claim_scope", "lease"},
		{"gen_durable.clock_offset", "0"},
		{"gen_durable.defer_effects", "on"},
	};

	BackgroundWorkerInitializeConnectionByOid(database, crew.owner, GD_EXECUTOR_CONNECT);
	for (int i = 0; i < lengthof(settings); i++)
		gd_bgw_set(settings[i][0], settings[i][1]);
	SetConfigOption("application_name", MyBgworkerEntry->bgw_type, PGC_USERSET, PGC_S_OVERRIDE);
}

static void executor_held(void);

/*
 * executor_begin_transaction: with a snapshot for the handlers.
 */
static void
executor_begin_transaction(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
}

static void
executor_commit(void)
{
	if (MyXactFlags & XACT_FLAGS_ACCESSEDTEMPNAMESPACE)
		temporary_left = true;
	PopActiveSnapshot();
	CommitTransactionCommand();
	executor_held();
	pgstat_report_stat(false);
}

/*
 * executor_tidy: what a step may have left in the session is dropped, in the
 * step's transaction; but temporary objects, see executor_drop_temporary.
 */
static void
executor_tidy(void)
{
	PortalHashTableDeleteAll();
	DropAllPreparedStatements();
	LockReleaseSession(USER_LOCKMETHOD);
}

/*
 * executor_drop_temporary: drop the temporary objects that a step has left, in
 * a transaction of its own: its own may have had triggers pending on them.
 */
static void
executor_drop_temporary(void)
{
	if (!temporary_left)
		return;
	executor_begin_transaction();
	ResetTempTableNamespace();
	executor_commit();
	temporary_left = false;
}

/*
 * keep_datum: a copy that outlives the transaction and needs no other row.
 */
static Datum
keep_datum(Datum value, bool isnull, GdJobColumn column)
{
	switch (column)
	{
		case JOB_TOKEN:
			return datumCopy(value, false, UUID_LEN);
		case JOB_ID:
		case JOB_FSM_VERSION:
		case JOB_ATTEMPT:
		case JOB_LEASE_EXPIRES_AT:
			return value;
		default:
			if (isnull)
				return (Datum) 0;
			if (VARATT_IS_EXTERNAL(DatumGetPointer(value)))
				return PointerGetDatum(detoast_external_attr((struct varlena *) DatumGetPointer(value)));
			return datumCopy(value, false, -1);
	}
}

static StepTime *
step_time(const GdJob *job)
{
	const text *fsm = DatumGetTextPP(job->values[JOB_FSM]);
	const text *step = DatumGetTextPP(job->values[JOB_STEP]);
	uint32		hash = hash_combine(hash_bytes((const unsigned char *) VARDATA_ANY(fsm), VARSIZE_ANY_EXHDR(fsm)),
									hash_bytes((const unsigned char *) VARDATA_ANY(step), VARSIZE_ANY_EXHDR(step)));
	StepTime   *time = &step_times[hash % SLOW_STEPS];

	if (time->hash != hash)
	{
		time->hash = hash;
		time->mean = 0;
	}
	return time;
}

static bool
step_is_slow(const GdJob *job)
{
	return step_time(job)->mean > SLOW_MS * MS;
}

/*
 * step_took: note how long a step that began at an instant has taken.
 */
static void
step_took(const GdJob *job, TimestampTz begun)
{
	StepTime   *time = step_time(job);

	time->mean += (GetCurrentTimestamp() - begun - time->mean) / 8;
}

/*
 * executor_hold: hold these claims, and those that are held already from
 * `first` on; says so before they are committed.
 */
static void
executor_hold(int first, const GdJob *jobs, int njobs)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "gen_durable claims",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	pg_uuid_t	tokens[GD_EXECUTOR_CLAIMS];
	TimestampTz lease_until = DT_NOEND;
	int			n = 0;

	for (int i = first; i < now_held.n; i++)
		next_held.held[n++] = now_held.held[i];
	for (int i = 0; i < njobs; i++)
	{
		next_held.held[n].job = jobs[i];
		next_held.held[n].alone = DatumGetInt32(jobs[i].values[JOB_ATTEMPT]) > 0 || step_is_slow(&jobs[i]);
		n++;
	}
	for (int i = 0; i < n; i++)
	{
		GdJob	   *job = &next_held.held[i].job;

		for (int c = 0; c < JOB_NCOLUMNS; c++)
			job->values[c] = keep_datum(job->values[c], job->nulls[c], c);
		tokens[i] = *DatumGetUUIDP(job->values[JOB_TOKEN]);
		lease_until = Min(lease_until, DatumGetTimestampTz(job->values[JOB_LEASE_EXPIRES_AT]));
	}
	MemoryContextSwitchTo(old);
	if (next_held.context)
		MemoryContextDelete(next_held.context);
	next_held.n = n;
	next_held.context = context;
	gd_executor_claims(tokens, n, lease_until);
}

/*
 * executor_held: the transaction has committed: what it claimed is held.
 */
static void
executor_held(void)
{
	if (next_held.context == NULL)
		return;
	if (now_held.context)
		MemoryContextDelete(now_held.context);
	now_held = next_held;
	next_held.context = NULL;
}

/*
 * executor_hold_on: the transaction was undone: what was held still is.
 */
static void
executor_hold_on(void)
{
	pg_uuid_t	tokens[GD_EXECUTOR_CLAIMS];

	if (next_held.context == NULL)
		return;
	MemoryContextDelete(next_held.context);
	next_held.context = NULL;
	for (int i = 0; i < now_held.n; i++)
		tokens[i] = *DatumGetUUIDP(now_held.held[i].job.values[JOB_TOKEN]);
	gd_executor_claims(tokens, now_held.n, GetCurrentTimestamp() + gd_lease_ttl * MS);
}

static void
executor_request(GdPickRequest *request, int batch)
{
	memset(request, 0, sizeof(GdPickRequest));
	request->queue = queue;
	request->worker = worker;
	request->batch = batch;
	request->claimant.kind = GD_CLAIMS_FOR_OWNER;
	request->claimant.owner = crew.owner;
	request->next_due = &next_due;
}

/*
 * executor_may_claim: is this process to go on with further steps?  Looks
 * whether its queue still has so many executors.
 */
static bool
executor_may_claim(void)
{
	GdQueue		settings;

	gd_queue_read(queue, gd_now(), &settings);
	gd_executor_limit(settings.executors);
	return !ProcDiePending && !ConfigReloadPending && gd_enabled &&
		gd_executor_order() == GD_EXECUTOR_GO_ON;
}

/*
 * executor_next: in the running transaction, what comes next: what is held
 * from `first` on, the steps that run ahead, and, if that is nothing, a new
 * claim.
 */
static void
executor_next(int first, const GdRunAhead *ahead)
{
	int			left = now_held.n - first;
	GdJob	   *jobs = NULL;
	int			n = 0;

	next_due = DT_NOEND;
	if (ahead && ahead->njobs > 0)
	{
		executor_hold(first, ahead->jobs, ahead->njobs);
		return;
	}
	if (left == 0 && executor_may_claim())
	{
		GdPickRequest request;

		executor_request(&request, gd_commit_group);
		n = gd_pick_jobs(&request, &jobs);
		if (n == gd_commit_group && ahead)
			gd_executor_more();
	}
	executor_hold(first, jobs, n);
}

/*
 * executor_claim: claim, in a transaction of its own.
 */
static void
executor_claim(void)
{
	executor_begin_transaction();
	executor_next(0, NULL);
	executor_commit();
}

/*
 * executor_ahead: steps may run on, if this process is to go on at all.
 */
static void
executor_ahead(GdRunAhead *ahead, GdPickRequest *request, int room)
{
	executor_request(request, Max(room, 1));
	gd_run_ahead_begin(ahead, request);
	if (!executor_may_claim())
		ahead->max = 0;
}

static void
executor_report(const GdJob *job)
{
	char		activity[64 + 2 * NAMEDATALEN];

	snprintf(activity, sizeof(activity), "step %.63s of %.63s %lld",
			 TextDatumGetCString(job->values[JOB_STEP]), TextDatumGetCString(job->values[JOB_FSM]),
			 (long long) DatumGetInt64(job->values[JOB_ID]));
	pgstat_report_activity(STATE_RUNNING, activity);
}

static const pg_uuid_t *
job_token(const GdJob *job)
{
	return DatumGetUUIDP(job->values[JOB_TOKEN]);
}

/*
 * executor_find: how a job's step is run; false if no more by the server.  A
 * machine that has no statement_timeout has its owner's.
 */
static bool
executor_find(GdStep *step, const GdJob *job)
{
	if (!gd_step_find(step, job))
		return false;
	if (step->timeout_ms == 0)
		step->timeout_ms = StatementTimeout;
	return true;
}

/*
 * executor_finish: commit a step's outcome in the running transaction; raise
 * if its claim does not hold.
 */
static void
executor_finish(const GdJob *job, const GdOutcome *outcome, GdRunAhead *ahead)
{
	GdStepEnd	end;

	end.token = *job_token(job);
	end.outcome = *outcome;
	gd_complete_steps(&end, 1, ahead);
	gd_complete_raise(&end.token, end.fence);
}

/*
 * executor_recover: after an error: the transaction is gone, and the error a
 * copy in memory that outlives it.
 */
static ErrorData *
executor_recover(MemoryContext context)
{
	ErrorData  *error;

	HOLD_INTERRUPTS();
	QueryCancelPending = false;
	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	FlushErrorState();
	AbortOutOfAnyTransaction();
	RESUME_INTERRUPTS();
	MemoryContextSwitchTo(context);
	return error;
}

/*
 * executor_run: run the first step that is held, its outcome and the next
 * claim in one transaction; NULL, or the error that undid it all.
 */
static ErrorData *
executor_run(MemoryContext context)
{
	GdJob	   *job = &now_held.held[0].job;
	ErrorData  *volatile error = NULL;
	TimestampTz start = GetCurrentTimestamp();

	PG_TRY();
	{
		GdPickRequest request;
		GdRunAhead	ahead = {0};
		GdStep		step;
		GdOutcome	outcome;

		executor_begin_transaction();
		executor_report(job);
		if (!gd_executor_step(job_token(job)))
			(void) gd_complete_cancelled(job_token(job));
		else if (executor_find(&step, job))
		{
			gd_step_run(&step, &outcome);
			gd_executor_step_done();
			executor_tidy();
			executor_ahead(&ahead, &request, 1);
			executor_finish(job, &outcome, &ahead);
		}
		else
			gd_release_claim(job_token(job));
		step_took(job, start);
		executor_next(1, &ahead);
		executor_commit();
	}
	PG_CATCH();
	{
		error = executor_recover(context);
		executor_hold_on();
	}
	PG_END_TRY();
	return error;
}

/*
 * executor_finish_handled: finish what a handler of errors has decided, in its
 * subtransaction.
 */
static void
executor_finish_handled(const GdStep *step, GdOutcome *outcome, void *arg)
{
	executor_finish(step->job, outcome, NULL);
}

/*
 * executor_settle: commit what the error of the step that is held first leads
 * to; with second, the error with which the handler of errors, or the commit
 * of what it decided, has failed.  Tells whether there is such a handler.
 */
static void
executor_settle(ErrorData *error, ErrorData *second, volatile bool *handled)
{
	GdJob	   *job = &now_held.held[0].job;
	GdStep		step;
	GdStepEnd	end;
	bool		finished = true;

	executor_begin_transaction();
	end.token = *job_token(job);
	if (gd_complete_cancelled(&end.token))
		;
	else if (!executor_find(&step, job))
		gd_release_claim(&end.token);
	else if (second)
	{
		gd_step_failed_twice(error, second, &end.outcome);
		finished = false;
	}
	else
	{
		*handled = step.runner.on_error != NULL;
		finished = gd_step_failed(&step, error, &end.outcome, executor_finish_handled, NULL);
	}
	if (!finished)
		gd_complete_steps(&end, 1, NULL);
	executor_tidy();
	executor_next(1, NULL);
	executor_commit();
}

/*
 * executor_failed: the step that is held first has raised: commit what that
 * leads to.
 *
 * If what a handler of errors does cannot be committed, that is its error.  If
 * nothing can be committed, the error is this process's own, which holds its
 * claims to the end.
 */
static void
executor_failed(MemoryContext context, ErrorData *error)
{
	ErrorData  *volatile second = NULL;
	volatile bool handled = false;

	gd_executor_step_done();
	PG_TRY();
	{
		executor_settle(error, NULL, &handled);
	}
	PG_CATCH();
	{
		second = executor_recover(context);
		executor_hold_on();
	}
	PG_END_TRY();
	if (second == NULL)
		return;
	if (!handled)
		ReThrowError(second);
	PG_TRY();
	{
		executor_settle(error, second, &handled);
	}
	PG_CATCH();
	{
		executor_hold_on();
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * executor_run_one: the first step that is held, to its end.
 */
static void
executor_run_one(void)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "gen_durable step",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	ErrorData  *error = executor_run(context);

	if (error)
		executor_failed(context, error);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/*
 * executor_run_group: run steps that are held, as many as go into one
 * transaction; false if it was undone.
 */
static bool
executor_run_group(MemoryContext context)
{
	TimestampTz start = GetCurrentTimestamp();
	volatile bool done = false;
	volatile int n = 0;

	PG_TRY();
	{
		GroupStep  *steps;
		GdStepEnd  *ends;
		GdPickRequest request;
		GdRunAhead	ahead;

		executor_begin_transaction();
		steps = palloc(sizeof(GroupStep) * now_held.n);
		ends = palloc(sizeof(GdStepEnd) * now_held.n);
		executor_report(&now_held.held[0].job);
		while (n < now_held.n && !now_held.held[n].alone)
		{
			const GdJob *job = &now_held.held[n].job;
			TimestampTz begun = GetCurrentTimestamp();

			CHECK_FOR_INTERRUPTS();
			if (begun - start > GROUP_MS * MS || !gd_executor_step(job_token(job)) ||
				!executor_find(&steps[n].step, job))
				break;
			(void) gd_step_try(&steps[n].step, &steps[n].outcome, NULL, NULL);
			gd_executor_step_done();
			executor_tidy();
			ends[n].token = *job_token(job);
			ends[n].outcome = steps[n].outcome;
			step_took(job, begun);
			n++;
			/* The next one must not see its temporary objects. */
			if (MyXactFlags & XACT_FLAGS_ACCESSEDTEMPNAMESPACE)
				break;
		}
		if (n > 0)
		{
			executor_ahead(&ahead, &request, Min(n, gd_commit_group));
			gd_complete_steps(ends, n, &ahead);
			for (int i = 0; i < n; i++)
				gd_complete_raise(&ends[i].token, ends[i].fence);
			executor_next(n, &ahead);
		}
		executor_commit();
		done = n > 0;
	}
	PG_CATCH();
	{
		(void) executor_recover(context);
		executor_hold_on();
		gd_executor_step_done();
	}
	PG_END_TRY();
	return done;
}

/*
 * executor_run_held: run what is held, in one transaction or several.
 */
static void
executor_run_held(void)
{
	MemoryContext context;
	MemoryContext old;
	bool		done;

	if (now_held.n == 1 || now_held.held[0].alone)
	{
		executor_run_one();
		return;
	}
	context = AllocSetContextCreate(TopMemoryContext, "gen_durable group", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	done = executor_run_group(context);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	for (int i = 0; !done && i < now_held.n; i++)
		now_held.held[i].alone = true;
}

/*
 * executor_give_back: this process is to end: what it has not begun is given
 * back.
 */
static void
executor_give_back(void)
{
	if (now_held.n == 0)
		return;
	executor_begin_transaction();
	for (int i = 0; i < now_held.n; i++)
		gd_release_claim(job_token(&now_held.held[i].job));
	executor_commit();
	now_held.n = 0;
	gd_executor_idle();
}

/*
 * executor_interrupts: between two transactions.  Ends the process if that
 * was asked for.
 */
static void
executor_interrupts(void)
{
	gd_bgw_interrupts(0);
	if (gd_enabled && gd_executor_order() == GD_EXECUTOR_GO_ON)
		return;
	executor_give_back();
	proc_exit(0);
}

/*
 * executor_sleep: until there may be work; ends the process when it has been
 * without for too long.
 */
static void
executor_sleep(TimestampTz *idle_since)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz until;

	if (*idle_since == 0)
		*idle_since = now;
	until = *idle_since + gd_executor_idle_timeout * MS;
	if (now >= until)
	{
		if (gd_executor_leave(next_due))
			proc_exit(0);
		return;
	}
	until = Min(until, now + gd_max_poll_interval * MS);
	pgstat_report_activity(STATE_IDLE, NULL);
	pgstat_report_stat(true);
	if (gd_executor_sleeps())
		gd_bgw_sleep(Min(until, next_due), "GenDurableExecutor");
}

void
gd_executor_main(Datum arg)
{
	uint32		generation;
	Oid			database;
	TimestampTz idle_since = 0;

	memcpy(&generation, MyBgworkerEntry->bgw_extra, sizeof(generation));

	/*
	 * Registered before the connection, so it runs after the process has left
	 * the list of the database's sessions: who waits for that may go on.
	 */
	on_shmem_exit(executor_exit, (Datum) 0);
	if (!gd_executor_begin(DatumGetInt32(arg), generation, &database, &crew) ||
		gd_database_is_held(database))
		proc_exit(0);
	pqsignal(SIGINT, executor_cancel);
	gd_bgw_begin();
	executor_connect(database);
	queue = MemoryContextAlloc(TopMemoryContext, VARHDRSZ + crew.len);
	SET_VARSIZE(queue, VARHDRSZ + crew.len);
	memcpy(VARDATA(queue), crew.queue, crew.len);
	{
		char	   *name = psprintf(GD_EXECUTOR_NAME " %d", MyProcPid);

		worker = MemoryContextAlloc(TopMemoryContext, VARHDRSZ + strlen(name));
		SET_VARSIZE(worker, VARHDRSZ + strlen(name));
		memcpy(VARDATA(worker), name, strlen(name));
	}

	for (;;)
	{
		executor_interrupts();
		executor_drop_temporary();
		if (now_held.n > 0)
		{
			executor_run_held();
			idle_since = 0;
			continue;
		}
		gd_executor_idle();
		executor_claim();
		if (now_held.n == 0)
			executor_sleep(&idle_since);
	}
}
