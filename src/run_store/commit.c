/*
 * commit.c
 *		run_commit and run_commit_unclaimed: the next checkpoint of a run.
 *
 * A proposal is checked in one order, and what is wrong first is what is told
 * (DK-127): its shape, then whether the scope has the run, what the run is
 * bound to, the fence, and the change of status.  The fence is the claim's
 * token together with the sequence; without a claim it is the sequence alone,
 * and the commit takes a claim away and heals poison (DK-143, DK-144).
 *
 * Locks: the run's row, and its listing's where the status changes.  The row
 * is written without a lock before, if nobody has locked or changed it since
 * it was found; else the commit waits for whoever has, and looks again.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"

#include "names.h"
#include "run_store/commit.h"
#include "run_store/listing.h"
#include "shmem/stats.h"

#define STALE_HINT "Somebody else has committed or claimed the run: fetch it again, or give it up."

PG_FUNCTION_INFO_V1(gd_run_commit);
PG_FUNCTION_INFO_V1(gd_run_commit_unclaimed);

static const char *const schedule_names[GD_NSCHEDULES] = {
	"retain", "immediate", "at", "external", "terminal",
};

static bool
schedule_read(const text *name, GdRunSchedule *schedule)
{
	for (int s = 0; s < GD_NSCHEDULES; s++)
		if (VARSIZE_ANY_EXHDR(name) == strlen(schedule_names[s]) &&
			memcmp(VARDATA_ANY(name), schedule_names[s], strlen(schedule_names[s])) == 0)
		{
			*schedule = (GdRunSchedule) s;
			return true;
		}
	return false;
}

/*
 * schedule_suits: may a run of this status be scheduled so (DK-126)?
 */
static bool
schedule_suits(GdRunSchedule schedule, GdRunStatus status)
{
	switch (schedule)
	{
		case GD_SCHEDULE_RETAIN:
		case GD_SCHEDULE_IMMEDIATE:
		case GD_SCHEDULE_AT:
			return status == GD_RUN_RUNNING;
		case GD_SCHEDULE_EXTERNAL:
			return status == GD_RUN_WAITING;
		default:
			return gd_run_status_is_terminal(status);
	}
}

/*
 * proposal_raise: what is wrong with an argument makes the commit invalid.
 */
static void
proposal_raise(GdFault *fault)
{
	fault->sqlerrcode = GD_ERRCODE_INVALID_COMMIT;
	gd_fault_raise(fault);
}

static void
proposal_check_time(const char *what, const GdRunTime *time)
{
	GdFault		fault = {0};

	if (time->given && !gd_check_finite_time(what, time->at, &fault))
		proposal_raise(&fault);
}

static void
proposal_check_name(const char *what, const text *name)
{
	GdFault		fault = {0};

	if (!gd_check_name(what, name, &fault))
		proposal_raise(&fault);
}

/*
 * gd_run_proposal_check: is the proposal well formed?  Raises when not, before
 * anything is looked at (DK-128).
 */
void
gd_run_proposal_check(GdRunProposal *proposal)
{
	if (proposal->expected_seq < 0 || proposal->expected_seq == PG_INT64_MAX)
		ereport(ERROR,
				(errcode(GD_ERRCODE_INVALID_COMMIT),
				 errmsg("expected_checkpoint_seq %lld must be from 0 to %lld",
						(long long) proposal->expected_seq, (long long) PG_INT64_MAX - 1)));
	proposal_check_name("checkpoint_type", proposal->checkpoint_type);
	if (!schedule_read(proposal->schedule_name, &proposal->schedule))
		ereport(ERROR,
				(errcode(GD_ERRCODE_INVALID_COMMIT),
				 errmsg("schedule \"%s\" must be retain, immediate, at, external or terminal",
						gd_run_shown(proposal->schedule_name))));
	if (!gd_run_status_read(proposal->status_name, &proposal->status))
		ereport(ERROR,
				(errcode(GD_ERRCODE_INVALID_COMMIT),
				 errmsg("status \"%s\" must be running, waiting, done, failed or cancelled",
						gd_run_shown(proposal->status_name))));
	if (proposal->token == NULL && proposal->schedule == GD_SCHEDULE_RETAIN)
		ereport(ERROR,
				(errcode(GD_ERRCODE_INVALID_COMMIT),
				 errmsg("schedule \"retain\" needs a claim")));
	if (!schedule_suits(proposal->schedule, proposal->status))
		ereport(ERROR,
				(errcode(GD_ERRCODE_INVALID_COMMIT),
				 errmsg("schedule \"%s\" does not go with status \"%s\"",
						schedule_names[proposal->schedule], gd_run_status_name(proposal->status)),
				 errhint("running goes with retain, immediate and at, waiting with external, the terminal ones with terminal.")));
	if (proposal->step < 0)
		ereport(ERROR,
				(errcode(GD_ERRCODE_INVALID_COMMIT),
				 errmsg("step %d must not be negative", proposal->step)));
	if (proposal->wake_at.given != (proposal->schedule == GD_SCHEDULE_AT))
		ereport(ERROR,
				(errcode(GD_ERRCODE_INVALID_COMMIT),
				 proposal->wake_at.given ?
				 errmsg("wake_at %s goes with the schedule \"at\" only, not with \"%s\"",
						timestamptz_to_str(proposal->wake_at.at), schedule_names[proposal->schedule]) :
				 errmsg("schedule \"at\" needs wake_at")));
	if (proposal->finished_at.given && !gd_run_status_is_terminal(proposal->status))
		ereport(ERROR,
				(errcode(GD_ERRCODE_INVALID_COMMIT),
				 errmsg("finished_at %s does not go with status \"%s\"",
						timestamptz_to_str(proposal->finished_at.at), gd_run_status_name(proposal->status))));
	proposal_check_time("wake_at", &proposal->wake_at);
	proposal_check_time("updated_at", &proposal->updated_at);
	proposal_check_time("finished_at", &proposal->finished_at);
}

/*
 * commit_check_binding: what the proposal names of a run's binding, if
 * anything, is what is stored.
 */
static void
commit_check_binding(GdRow *row, const char *what, const char *given, const char *stored)
{
	if (strcmp(given, stored) != 0)
		ereport(ERROR,
				(errcode(GD_ERRCODE_INVALID_COMMIT),
				 errmsg("%s of run \"%s\" is \"%s\", not \"%s\"", what,
						gd_run_shown(gd_run_text(row, RUN_RUN_ID)),
						gd_clip(stored, strlen(stored)), gd_clip(given, strlen(given))),
				 errhint("It never changes.")));
}

static void
commit_check_bindings(GdRow *row, const GdRunProposal *proposal)
{
	TimestampTz started_at = DatumGetTimestampTz(GD_VALUE(row, RUN_STARTED_AT));

	if (proposal->graph_id)
		commit_check_binding(row, "graph_id", text_to_cstring(proposal->graph_id),
							 text_to_cstring(gd_run_text(row, RUN_GRAPH_ID)));
	if (proposal->graph_hash)
		commit_check_binding(row, "graph_hash", text_to_cstring(proposal->graph_hash),
							 text_to_cstring(gd_run_text(row, RUN_GRAPH_HASH)));
	if (proposal->started_at.given && proposal->started_at.at != started_at)
		commit_check_binding(row, "started_at", pstrdup(timestamptz_to_str(proposal->started_at.at)),
							 pstrdup(timestamptz_to_str(started_at)));
}

/*
 * commit_check_fence: is the run as the proposal expects it?  A commit that
 * comes too late is counted whatever becomes of its transaction.
 */
static void
commit_check_fence(GdRow *row, const GdRunProposal *proposal)
{
	const char *run_id = gd_run_shown(gd_run_text(row, RUN_RUN_ID));
	bool		lost = proposal->token && !gd_run_holds(row, proposal->token);

	if (lost || gd_run_seq(row) != proposal->expected_seq)
		gd_stats_count_run_now(GD_RUNS_STALE, 1);
	if (lost)
		ereport(ERROR,
				(errcode(GD_ERRCODE_STALE_FENCE),
				 errmsg("the claim of run \"%s\" is not current", run_id),
				 errhint(STALE_HINT)));
	if (gd_run_seq(row) != proposal->expected_seq)
		ereport(ERROR,
				(errcode(GD_ERRCODE_STALE_FENCE),
				 errmsg("checkpoint_seq of run \"%s\" is %lld, not %lld", run_id,
						(long long) gd_run_seq(row), (long long) proposal->expected_seq),
				 errhint(STALE_HINT)));
}

/*
 * commit_check_status: may the run, as it is, become what is proposed
 * (DK-004)?  Returns the status that it has.
 */
static GdRunStatus
commit_check_status(GdRow *row, const GdRunProposal *proposal)
{
	GdRunStatus from = gd_run_status(row);

	if (gd_run_status_is_terminal(from))
		ereport(ERROR,
				(errcode(GD_ERRCODE_TERMINAL),
				 errmsg("run \"%s\" is %s", gd_run_shown(gd_run_text(row, RUN_RUN_ID)),
						gd_run_status_name(from))));
	if (from == GD_RUN_WAITING && proposal->status != GD_RUN_RUNNING &&
		proposal->status != GD_RUN_CANCELLED)
		ereport(ERROR,
				(errcode(GD_ERRCODE_INVALID_COMMIT),
				 errmsg("run \"%s\" is waiting: it can become running or cancelled, not %s",
						gd_run_shown(gd_run_text(row, RUN_RUN_ID)),
						gd_run_status_name(proposal->status))));
	return from;
}

static void
commit_fill(GdRuns *runs, const GdRunProposal *proposal)
{
	GdRow	   *row = runs->row;
	Datum		now = TimestampTzGetDatum(runs->now);
	Datum		updated_at = proposal->updated_at.given ?
	TimestampTzGetDatum(proposal->updated_at.at) : now;

	gd_row_set(row, RUN_STATUS, CStringGetTextDatum(gd_run_status_name(proposal->status)));
	gd_row_set(row, RUN_STEP, Int32GetDatum(proposal->step));
	gd_row_set(row, RUN_STATE, proposal->state);
	gd_row_set(row, RUN_CHECKPOINT_SEQ, Int64GetDatum(proposal->expected_seq + 1));
	gd_row_set(row, RUN_CHECKPOINT_TYPE, PointerGetDatum(proposal->checkpoint_type));
	gd_row_set(row, RUN_UPDATED_AT, updated_at);
	if (proposal->finished_at.given)
		gd_row_set(row, RUN_FINISHED_AT, TimestampTzGetDatum(proposal->finished_at.at));
	else if (gd_run_status_is_terminal(proposal->status))
		gd_row_set(row, RUN_FINISHED_AT, updated_at);
	gd_row_set(row, RUN_CLAIM_ATTEMPTS, Int32GetDatum(0));
	gd_row_set(row, RUN_CLAIM_ABANDONS, Int32GetDatum(0));
	gd_run_clear(row);
	if (proposal->schedule == GD_SCHEDULE_RETAIN)
	{
		gd_row_set(row, RUN_CLAIM_TOKEN, UUIDPGetDatum(proposal->token));
		gd_row_set(row, RUN_CLAIMED_AT, now);
	}
	else if (proposal->schedule == GD_SCHEDULE_IMMEDIATE)
		gd_row_set(row, RUN_WAKE_AT, now);
	else if (proposal->schedule == GD_SCHEDULE_AT)
		gd_row_set(row, RUN_WAKE_AT, TimestampTzGetDatum(proposal->wake_at.at));
}

/*
 * commit_prepare: check the proposal against the run in hand, and fill the run
 * with it; returns the status that it has so far.
 */
static GdRunStatus
commit_prepare(GdRuns *runs, const GdRunProposal *proposal)
{
	GdRunStatus from;

	commit_check_bindings(runs->row, proposal);
	commit_check_fence(runs->row, proposal);
	from = commit_check_status(runs->row, proposal);
	commit_fill(runs, proposal);
	return from;
}

/*
 * gd_run_commit_proposal: commit a checked proposal, or raise what is wrong.
 * The run is then in hand.
 */
void
gd_run_commit_proposal(GdRuns *runs, const GdRunScope *scope, const text *run_id,
					   const GdRunProposal *proposal)
{
	GdRunStatus from;

	if (!gd_run_find(runs, scope, run_id))
		gd_run_not_found(run_id);
	from = commit_prepare(runs, proposal);
	if (!gd_run_write(runs->row, runs->now, false))
	{
		if (!gd_run_lock(runs, scope, run_id))
			gd_run_not_found(run_id);
		from = commit_prepare(runs, proposal);
		(void) gd_run_write(runs->row, runs->now, true);
	}
	if (proposal->status != from)
		gd_run_listing_move(runs->row, from);
	gd_run_awake(runs->row, runs->now);
	gd_stats_count_run((GdRunCounter) (GD_RUNS_COMMIT_RETAIN + proposal->schedule), 1);
	gd_stats_count_run(GD_RUNS_UNCLAIMED, proposal->token == NULL);
}

static GdRunTime
commit_arg_time(FunctionCallInfo fcinfo, int argno)
{
	GdRunTime	time = {false, 0};

	if (!PG_ARGISNULL(argno))
	{
		time.given = true;
		time.at = PG_GETARG_TIMESTAMPTZ(argno);
	}
	return time;
}

static text *
commit_arg_text(FunctionCallInfo fcinfo, int argno, const char *what)
{
	gd_arg_required(fcinfo, argno, what);
	return PG_GETARG_TEXT_PP(argno);
}

/*
 * commit_read: the arguments from expected_checkpoint_seq on, which both
 * functions have alike.
 */
static void
commit_read(FunctionCallInfo fcinfo, int first, GdRunProposal *proposal)
{
	gd_arg_required(fcinfo, first, "expected_checkpoint_seq");
	proposal->expected_seq = PG_GETARG_INT64(first);
	proposal->checkpoint_type = commit_arg_text(fcinfo, first + 1, "checkpoint_type");
	proposal->schedule_name = commit_arg_text(fcinfo, first + 2, "schedule");
	proposal->status_name = commit_arg_text(fcinfo, first + 3, "status");
	gd_arg_required(fcinfo, first + 4, "step");
	proposal->step = PG_GETARG_INT32(first + 4);
	gd_arg_required(fcinfo, first + 5, "state");
	proposal->state = PointerGetDatum(PG_GETARG_BYTEA_PP(first + 5));
	proposal->wake_at = commit_arg_time(fcinfo, first + 6);
	proposal->updated_at = commit_arg_time(fcinfo, first + 7);
	proposal->finished_at = commit_arg_time(fcinfo, first + 8);
	proposal->graph_id = PG_ARGISNULL(first + 9) ? NULL : PG_GETARG_TEXT_PP(first + 9);
	proposal->graph_hash = PG_ARGISNULL(first + 10) ? NULL : PG_GETARG_TEXT_PP(first + 10);
	proposal->started_at = commit_arg_time(fcinfo, first + 11);
	gd_run_proposal_check(proposal);
}

static Datum
commit_run(FunctionCallInfo fcinfo, int first, GdRunProposal *proposal)
{
	GdRunScope	scope;
	text	   *run_id;
	GdRuns		runs;
	Datum		result;

	gd_run_scope_read(fcinfo, 0, &scope);
	run_id = gd_arg_name(fcinfo, 1, "run_id");
	commit_read(fcinfo, first, proposal);
	gd_runs_open(&runs);
	gd_run_commit_proposal(&runs, &scope, run_id, proposal);
	result = gd_run_return(fcinfo, runs.row);
	gd_runs_close(&runs);
	return result;
}

/*
 * run_commit(scope, run_id, claim_token, expected_checkpoint_seq, ...) -> run
 */
Datum
gd_run_commit(PG_FUNCTION_ARGS)
{
	GdRunProposal proposal = {0};

	gd_writes("gen_durable.run_commit()");
	gd_arg_required(fcinfo, 2, "claim_token");
	proposal.token = PG_GETARG_UUID_P(2);
	PG_RETURN_DATUM(commit_run(fcinfo, 3, &proposal));
}

/*
 * run_commit_unclaimed(scope, run_id, expected_checkpoint_seq, ...) -> run
 */
Datum
gd_run_commit_unclaimed(PG_FUNCTION_ARGS)
{
	GdRunProposal proposal = {0};

	gd_writes("gen_durable.run_commit_unclaimed()");
	PG_RETURN_DATUM(commit_run(fcinfo, 2, &proposal));
}
