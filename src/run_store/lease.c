/*
 * lease.c
 *		run_refresh_claim, run_release_claim, run_abandon_claim and
 *		run_retry_poisoned: what becomes of a claim without a commit.
 *
 * None of them touches the document, its sequence or updated_at (DK-008).
 * They go by the token alone, and a token that is not the run's present one
 * changes nothing.
 *
 * Locks: the run's row, after whoever holds it, if the token was current.
 */
#include "postgres.h"

#include <math.h>

#include "access/xact.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "names.h"
#include "run_store/run.h"
#include "shmem/stats.h"

PG_FUNCTION_INFO_V1(gd_run_refresh_claim);
PG_FUNCTION_INFO_V1(gd_run_release_claim);
PG_FUNCTION_INFO_V1(gd_run_abandon_claim);
PG_FUNCTION_INFO_V1(gd_run_retry_poisoned);

#define MAX_DOUBLINGS 30

/* All runs that the user may see. */
static const GdRunScope everywhere = {true, NULL};

/*
 * lease_count: a call that began then has come to this (DK-221).
 */
static void
lease_count(GdRunCounter result, GdRunCounter time, TimestampTz begun)
{
	gd_stats_count_run(result, 1);
	gd_stats_count_run(time, Max(GetCurrentTimestamp() - begun, 0));
}

/*
 * lease_lock: lock the run that a token claims, whose sequence is seq unless
 * that is NULL; false when the claim is not current.
 */
static bool
lease_lock(GdRuns *runs, const text *run_id, const pg_uuid_t *token, const int64 *seq)
{
	if (!gd_run_find(runs, &everywhere, run_id) || !gd_run_holds(runs->row, token) ||
		(seq && gd_run_seq(runs->row) != *seq))
		return false;
	return gd_run_lock(runs, &everywhere, run_id) && gd_run_holds(runs->row, token) &&
		(seq == NULL || gd_run_seq(runs->row) == *seq);
}

static const pg_uuid_t *
lease_arg_token(FunctionCallInfo fcinfo)
{
	gd_arg_required(fcinfo, 1, "claim_token");
	return PG_GETARG_UUID_P(1);
}

/*
 * run_refresh_claim(run_id, claim_token, now) -> void
 */
Datum
gd_run_refresh_claim(PG_FUNCTION_ARGS)
{
	text	   *run_id;
	const pg_uuid_t *token;
	GdRuns		runs;
	TimestampTz claimed_at;
	TimestampTz begun = GetCurrentTimestamp();

	gd_writes("gen_durable.run_refresh_claim()");
	run_id = gd_arg_name(fcinfo, 0, "run_id");
	token = lease_arg_token(fcinfo);
	(void) gd_run_arg_now(fcinfo, 2, 0);
	gd_runs_open(&runs);
	if (!lease_lock(&runs, run_id, token, NULL))
	{
		gd_stats_count_run_now(GD_RUNS_REFRESH_LOST, 1);
		ereport(ERROR,
				(errcode(GD_ERRCODE_CLAIM_LOST),
				 errmsg("the claim of run \"%s\" is lost", gd_run_shown(run_id)),
				 errhint("It was released, committed, or taken by another claimant: give the work up.")));
	}
	claimed_at = DatumGetTimestampTz(GD_VALUE(runs.row, RUN_CLAIMED_AT));
	gd_row_set(runs.row, RUN_CLAIMED_AT, TimestampTzGetDatum(Max(claimed_at, runs.now)));
	(void) gd_run_write(runs.row, runs.now, true);
	gd_runs_close(&runs);
	lease_count(GD_RUNS_REFRESHED, GD_RUNS_REFRESH_TIME, begun);
	PG_RETURN_VOID();
}

/*
 * run_release_claim(run_id, claim_token, now) -> void
 *
 * Nobody is woken: what made the claimant let go would meet the next one at
 * once (DK-103).
 */
Datum
gd_run_release_claim(PG_FUNCTION_ARGS)
{
	text	   *run_id;
	const pg_uuid_t *token;
	GdRuns		runs;
	TimestampTz now;
	TimestampTz begun = GetCurrentTimestamp();
	bool		held;

	gd_writes("gen_durable.run_release_claim()");
	run_id = gd_arg_name(fcinfo, 0, "run_id");
	token = lease_arg_token(fcinfo);
	now = gd_run_arg_now(fcinfo, 2, gd_now());
	gd_runs_open(&runs);
	held = lease_lock(&runs, run_id, token, NULL);
	if (held)
	{
		gd_run_clear(runs.row);
		gd_row_set(runs.row, RUN_WAKE_AT, TimestampTzGetDatum(now));
		(void) gd_run_write(runs.row, runs.now, true);
	}
	gd_runs_close(&runs);
	lease_count(held ? GD_RUNS_RELEASED : GD_RUNS_RELEASE_MISSED, GD_RUNS_RELEASE_TIME, begun);
	PG_RETURN_VOID();
}

/* What a call of run_abandon_claim gives, checked. */
typedef struct Abandon
{
	text	   *run_id;
	const pg_uuid_t *token;
	int64		expected_seq;
	TimestampTz retry_at;
	int			max_abandons;
	bool		non_poisoning;
	const Interval *backoff_base;	/* or NULL */
	const Interval *backoff_cap;
	TimestampTz now;
} Abandon;

/*
 * abandon_us: a span in microseconds, a month being 30 days.
 */
static double
abandon_us(const Interval *span)
{
	return span->time + ((double) span->month * DAYS_PER_MONTH + span->day) * USECS_PER_DAY;
}

static void
abandon_read_backoff(FunctionCallInfo fcinfo, Abandon *abandon)
{
	abandon->backoff_base = NULL;
	if (PG_ARGISNULL(6) != PG_ARGISNULL(7))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("backoff_base and backoff_cap must be given together")));
	if (PG_ARGISNULL(6))
		return;
	abandon->backoff_base = PG_GETARG_INTERVAL_P(6);
	abandon->backoff_cap = PG_GETARG_INTERVAL_P(7);
	gd_check_not_negative("backoff_base", abandon->backoff_base, NULL);
	gd_check_not_negative("backoff_cap", abandon->backoff_cap, NULL);
	if (abandon_us(abandon->backoff_base) <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("backoff_base \"%s\" must be above 0",
						gd_interval_iso(unconstify(Interval *, abandon->backoff_base)))));
	if (abandon_us(abandon->backoff_cap) < abandon_us(abandon->backoff_base))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("backoff_cap \"%s\" must not be below backoff_base \"%s\"",
						gd_interval_iso(unconstify(Interval *, abandon->backoff_cap)),
						gd_interval_iso(unconstify(Interval *, abandon->backoff_base)))));
	if (!abandon->non_poisoning)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("backoff_base and backoff_cap need non_poisoning"),
				 errhint("An ordinary abandon is tried again at retry_at.")));
}

/*
 * abandon_check_retry: retry_at must not be before now (DK-110).  Where now was
 * left out, SQL's now() is early enough too: it is how one says "at once", and
 * always earlier than the clock that is read here.
 */
static void
abandon_check_retry(const Abandon *abandon, bool now_left_out)
{
	TimestampTz earliest = abandon->now;

	if (now_left_out)
		earliest = Min(earliest, GetCurrentTransactionStartTimestamp());
	if (abandon->retry_at < earliest)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("retry_at %s must not be before now, %s",
						pstrdup(timestamptz_to_str(abandon->retry_at)),
						pstrdup(timestamptz_to_str(earliest)))));
}

static void
abandon_read(FunctionCallInfo fcinfo, Abandon *abandon)
{
	abandon->run_id = gd_arg_name(fcinfo, 0, "run_id");
	abandon->token = lease_arg_token(fcinfo);
	gd_arg_required(fcinfo, 2, "expected_checkpoint_seq");
	abandon->expected_seq = PG_GETARG_INT64(2);
	if (abandon->expected_seq < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("expected_checkpoint_seq %lld must not be negative",
						(long long) abandon->expected_seq)));
	gd_arg_required(fcinfo, 3, "retry_at");
	abandon->retry_at = PG_GETARG_TIMESTAMPTZ(3);
	gd_check_finite_time("retry_at", abandon->retry_at, NULL);
	abandon->max_abandons = gd_arg_positive(fcinfo, 4, "max_claim_abandons");
	gd_arg_required(fcinfo, 5, "non_poisoning");
	abandon->non_poisoning = PG_GETARG_BOOL(5);
	abandon_read_backoff(fcinfo, abandon);
	abandon->now = gd_run_arg_now(fcinfo, 8, gd_now());
	abandon_check_retry(abandon, PG_ARGISNULL(8));
}

/*
 * abandon_wake_at: when an abandoned run may be claimed again.
 */
static TimestampTz
abandon_wake_at(const Abandon *abandon, int abandons)
{
	double		us;
	TimestampTz wake_at;

	if (abandon->backoff_base == NULL)
		return abandon->retry_at;
	us = Min(ldexp(abandon_us(abandon->backoff_base), Min(abandons, MAX_DOUBLINGS)),
			 abandon_us(abandon->backoff_cap));
	wake_at = abandon->now + (int64) us;
	if (!IS_VALID_TIMESTAMP(wake_at))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("now %s is too late to back off from", timestamptz_to_str(abandon->now)),
				 errhint("Back off less, or give the database's clock.")));
	return wake_at;
}

/*
 * abandon_fill: the claim is handed back; false when it is one too many and
 * poisons the run.
 */
static bool
abandon_fill(GdRow *row, const Abandon *abandon)
{
	int			abandons = gd_run_int(row, RUN_CLAIM_ABANDONS);

	gd_row_set(row, RUN_CLAIM_ATTEMPTS, Int32GetDatum(Max(gd_run_int(row, RUN_CLAIM_ATTEMPTS) - 1, 0)));
	if (!abandon->non_poisoning && abandons >= abandon->max_abandons)
	{
		gd_run_poison(row, abandon->now, "max_claim_abandons_exceeded");
		return false;
	}
	gd_run_clear(row);
	gd_row_set(row, RUN_CLAIM_ABANDONS, Int32GetDatum(abandons < PG_INT32_MAX ? abandons + 1 : abandons));
	gd_row_set(row, RUN_WAKE_AT, TimestampTzGetDatum(abandon_wake_at(abandon, abandons)));
	return true;
}

/*
 * run_abandon_claim(run_id, claim_token, expected_checkpoint_seq, retry_at,
 *					 max_claim_abandons, non_poisoning, backoff_base,
 *					 backoff_cap, now) -> rescheduled, poisoned or stale
 */
Datum
gd_run_abandon_claim(PG_FUNCTION_ARGS)
{
	Abandon		abandon;
	GdRuns		runs;
	const char *result = "stale";
	GdRunCounter counter = GD_RUNS_ABANDON_STALE;
	TimestampTz begun = GetCurrentTimestamp();

	gd_writes("gen_durable.run_abandon_claim()");
	abandon_read(fcinfo, &abandon);
	gd_runs_open(&runs);
	if (lease_lock(&runs, abandon.run_id, abandon.token, &abandon.expected_seq))
	{
		bool		again = abandon_fill(runs.row, &abandon);

		result = again ? "rescheduled" : "poisoned";
		counter = again ? GD_RUNS_RESCHEDULED : GD_RUNS_POISONED_ABANDONS;
		(void) gd_run_write(runs.row, runs.now, true);
	}
	gd_runs_close(&runs);
	lease_count(counter, GD_RUNS_ABANDON_TIME, begun);
	PG_RETURN_TEXT_P(cstring_to_text(result));
}

/*
 * run_retry_poisoned(scope, run_id, now) -> run
 */
Datum
gd_run_retry_poisoned(PG_FUNCTION_ARGS)
{
	GdRunScope	scope;
	text	   *run_id;
	TimestampTz now;
	GdRuns		runs;
	Datum		result;
	bool		poisoned;
	TimestampTz begun = GetCurrentTimestamp();

	gd_writes("gen_durable.run_retry_poisoned()");
	gd_run_scope_read(fcinfo, 0, &scope);
	run_id = gd_arg_name(fcinfo, 1, "run_id");
	now = gd_run_arg_now(fcinfo, 2, gd_now());
	gd_runs_open(&runs);
	if (!gd_run_lock(&runs, &scope, run_id))
		gd_run_not_found(run_id);
	if (gd_run_status_is_terminal(gd_run_status(runs.row)))
	{
		gd_stats_count_run_now(GD_RUNS_RECOVERY_INACTIVE, 1);
		ereport(ERROR,
				(errcode(GD_ERRCODE_TERMINAL),
				 errmsg("run \"%s\" is %s", gd_run_shown(run_id),
						gd_run_status_name(gd_run_status(runs.row)))));
	}
	poisoned = gd_run_is_poisoned(runs.row);
	if (poisoned)
	{
		gd_run_clear(runs.row);
		gd_row_set(runs.row, RUN_CLAIM_ATTEMPTS, Int32GetDatum(0));
		gd_row_set(runs.row, RUN_CLAIM_ABANDONS, Int32GetDatum(0));
		gd_row_set(runs.row, RUN_WAKE_AT, TimestampTzGetDatum(now));
		(void) gd_run_write(runs.row, runs.now, true);
		gd_run_awake(runs.row, runs.now);
	}
	result = gd_run_return(fcinfo, runs.row);
	gd_runs_close(&runs);
	lease_count(poisoned ? GD_RUNS_RECOVERED : GD_RUNS_RECOVERY_HEALTHY, GD_RUNS_RECOVERY_TIME, begun);
	PG_RETURN_DATUM(result);
}
