/*
 * claim.c
 *		run_claim_due: claiming runs that are ready, or whose claim has expired.
 *
 * Of the two classes the older candidate is taken first; but a class that has
 * candidates gets at least one outcome where there is room for two (DK-061),
 * and with room for one the caller may prefer a class (DK-062).  Ready runs
 * come in the order of ring.c; expired claims by age (expired.c).
 *
 * A claim is counted by the claim itself, so a run that is claimed and never
 * committed is poisoned by the claim after the last that is allowed (DK-071).
 *
 * Locks: the rows that are claimed.  One that another transaction holds is
 * passed over; nothing is waited for.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "names.h"
#include "run_store/expired.h"
#include "run_store/ring.h"
#include "run_store/run.h"
#include "shmem/stats.h"
#include "shmem/turn.h"
#include "token.h"

#define CLAIM_NCOLUMNS 12

PG_FUNCTION_INFO_V1(gd_run_claim_due);

typedef enum ClaimClass
{
	CLASS_READY, CLASS_EXPIRED,
	CLASS_NONE
} ClaimClass;

#define NCLASSES CLASS_NONE

/* What became of a run. */
typedef struct Outcome
{
	text	   *run_id;
	HeapTuple	tuple;			/* the row of the result */
} Outcome;

/* The next run of a class, if there is one. */
typedef struct Candidate
{
	GdRow	   *row;
	GdHold		hold;
	bool		present;
	bool		ended;			/* there is none any more */
	TimestampTz since;			/* its wake_at, or its claimed_at */
	int			outcomes;		/* of this class in this call */
} Candidate;

typedef struct Claim
{
	/* What was asked for. */
	int			max_rows;
	Interval   *orphan_ttl;
	int			max_attempts;
	ClaimClass	preference;
	TimestampTz now;

	GdTable    *runs;
	GdRunRing	ring;
	GdRunExpired expired;
	Candidate	candidates[NCLASSES];
	text	   *served;			/* tenant of the last ready outcome, or NULL */

	TupleDesc	desc;
	Outcome    *outcomes;
	int			noutcomes;
	int			size;			/* of outcomes */
	int64		counts[GD_NRUN_COUNTERS];
} Claim;

/*
 * claim_look: see to it that a class's candidate is there, if it has one.
 */
static bool
claim_look(Claim *claim, ClaimClass class)
{
	Candidate  *candidate = &claim->candidates[class];

	if (candidate->present || candidate->ended)
		return candidate->present;
	if (class == CLASS_READY)
		candidate->present = gd_run_ring_next(&claim->ring, candidate->row, &candidate->hold);
	else
		candidate->present = gd_run_expired_next(&claim->expired, candidate->row, &candidate->hold);
	candidate->ended = !candidate->present;
	claim->counts[GD_RUNS_READY_CANDIDATES + class] += candidate->present;
	if (candidate->present)
		candidate->since = DatumGetTimestampTz(GD_VALUE(candidate->row, class == CLASS_READY ?
														RUN_WAKE_AT : RUN_CLAIMED_AT));
	return candidate->present;
}

/*
 * claim_choose: the class that the next outcome comes from.
 */
static ClaimClass
claim_choose(Claim *claim)
{
	Candidate  *ready = &claim->candidates[CLASS_READY];
	Candidate  *expired = &claim->candidates[CLASS_EXPIRED];

	if (claim->max_rows == 1 && claim->preference != CLASS_NONE &&
		claim_look(claim, claim->preference))
		return claim->preference;
	if (!claim_look(claim, CLASS_READY))
		return claim_look(claim, CLASS_EXPIRED) ? CLASS_EXPIRED : CLASS_NONE;
	if (!claim_look(claim, CLASS_EXPIRED))
		return CLASS_READY;
	if (claim->max_rows > 1 && claim->noutcomes == claim->max_rows - 1)
	{
		if (ready->outcomes == 0)
			return CLASS_READY;
		if (expired->outcomes == 0)
			return CLASS_EXPIRED;
	}
	if (ready->since != expired->since)
		return ready->since < expired->since ? CLASS_READY : CLASS_EXPIRED;
	return DatumGetInt64(GD_VALUE(ready->row, RUN_ID)) < DatumGetInt64(GD_VALUE(expired->row, RUN_ID)) ?
		CLASS_READY : CLASS_EXPIRED;
}

/*
 * claim_fill_lease: the run is claimed.
 */
static void
claim_fill_lease(Claim *claim, GdRow *row, pg_uuid_t *token)
{
	gd_token_new(DatumGetInt64(GD_VALUE(row, RUN_ID)), token);
	gd_run_clear(row);
	gd_row_set(row, RUN_CLAIM_TOKEN, UUIDPGetDatum(token));
	gd_row_set(row, RUN_CLAIMED_AT, TimestampTzGetDatum(claim->now));
	gd_row_set(row, RUN_CLAIM_ATTEMPTS, Int32GetDatum(gd_run_int(row, RUN_CLAIM_ATTEMPTS) + 1));
}

/*
 * claim_note: keep what became of a run for the result.
 */
static void
claim_note(Claim *claim, GdRow *row, bool poisoned)
{
	Datum		values[CLAIM_NCOLUMNS];
	bool		nulls[CLAIM_NCOLUMNS] = {false};
	Outcome    *outcome;

	values[0] = CStringGetTextDatum(poisoned ? "poisoned" : "lease");
	values[1] = GD_VALUE(row, RUN_RUN_ID);
	values[2] = PointerGetDatum(gd_run_scope_of(gd_run_text(row, RUN_SCOPE_KEY)));
	values[3] = GD_VALUE(row, RUN_GRAPH_ID);
	values[4] = GD_VALUE(row, RUN_GRAPH_HASH);
	values[5] = GD_VALUE(row, RUN_CHECKPOINT_SEQ);
	values[6] = GD_VALUE(row, RUN_CLAIM_TOKEN);
	values[7] = GD_VALUE(row, RUN_CLAIMED_AT);
	values[8] = GD_VALUE(row, RUN_CLAIM_ATTEMPTS);
	values[9] = IntervalPGetDatum(claim->orphan_ttl);
	values[10] = GD_VALUE(row, RUN_POISONED_AT);
	values[11] = GD_VALUE(row, RUN_POISON_REASON);
	nulls[6] = nulls[7] = nulls[8] = nulls[9] = poisoned;
	nulls[10] = nulls[11] = !poisoned;

	if (claim->noutcomes == claim->size)
	{
		claim->size *= 2;
		claim->outcomes = repalloc_huge(claim->outcomes, sizeof(Outcome) * claim->size);
	}
	outcome = &claim->outcomes[claim->noutcomes++];
	outcome->run_id = DatumGetTextPCopy(values[1]);
	outcome->tuple = heap_form_tuple(claim->desc, values, nulls);
}

/*
 * claim_count: a run is claimed or poisoned (DK-220).
 */
static void
claim_count(Claim *claim, ClaimClass class, GdRow *row, bool poisoned)
{
	int64	   *counts = claim->counts;

	counts[GD_RUNS_READY_OUTCOMES + class]++;
	if (claim->max_rows == 1 && claim->preference != CLASS_NONE && class != claim->preference)
		counts[GD_RUNS_FALLBACKS]++;
	if (poisoned)
	{
		counts[GD_RUNS_POISONED_ATTEMPTS]++;
		return;
	}
	counts[gd_run_int(row, RUN_CLAIM_ATTEMPTS) == 1 ? GD_RUNS_ACQUIRED : GD_RUNS_REACQUIRED]++;
	counts[GD_RUNS_ATTEMPTS] += gd_run_int(row, RUN_CLAIM_ATTEMPTS);
	if (class == CLASS_EXPIRED)
		counts[GD_RUNS_STEALS]++;
}

/*
 * claim_take: claim or poison a candidate; false if another transaction was
 * quicker.
 */
static bool
claim_take(Claim *claim, Candidate *candidate)
{
	GdRow	   *row = candidate->row;
	bool		locked = candidate->hold != GD_HOLD_NONE;
	bool		poisoned;
	pg_uuid_t	token;

	if (locked)
	{
		ItemPointerData tid = row->tid;

		if (gd_row_lock(row, &tid, false) != GD_LOCKED)
			return false;
	}
	poisoned = gd_run_int(row, RUN_CLAIM_ATTEMPTS) >= claim->max_attempts;
	if (poisoned)
		gd_run_poison(row, claim->now, "max_claim_attempts_exceeded");
	else
		claim_fill_lease(claim, row, &token);
	if (!gd_run_write(row, claim->now, locked))
		return false;
	claim_note(claim, row, poisoned);
	claim_count(claim, (ClaimClass) (candidate - claim->candidates), row, poisoned);
	return true;
}

/*
 * claim_all: claim until the call is full or nothing is left.
 */
static void
claim_all(Claim *claim)
{
	while (claim->noutcomes < claim->max_rows)
	{
		ClaimClass	class = claim_choose(claim);
		Candidate  *candidate;

		if (class == CLASS_NONE)
			break;
		candidate = &claim->candidates[class];
		candidate->present = false;
		if (!claim_take(claim, candidate))
			continue;
		candidate->outcomes++;
		if (class == CLASS_READY)
			claim->served = gd_run_ring_served(&claim->ring);
	}
}

static void
claim_run(Claim *claim)
{
	claim->size = Min(claim->max_rows, 1024);
	claim->outcomes = palloc(sizeof(Outcome) * claim->size);
	claim->runs = gd_table_open(GD_RUNS);
	for (int class = 0; class < NCLASSES; class++)
		claim->candidates[class].row = gd_row_create(claim->runs);

	gd_run_ring_begin(&claim->ring, claim->runs, claim->now, claim->max_rows,
					  claim->candidates[CLASS_READY].row);
	gd_run_expired_begin(&claim->expired, claim->runs, gd_earlier(claim->now, claim->orphan_ttl),
						 claim->ring.tenants);
	claim_all(claim);
	if (claim->served)
		gd_turn_set(claim->served);

	gd_run_expired_end(&claim->expired);
	gd_run_ring_end(&claim->ring);
	for (int class = 0; class < NCLASSES; class++)
		gd_row_free(claim->candidates[class].row);
	gd_table_close(claim->runs);
	gd_table_flush();
}

static ClaimClass
claim_read_preference(FunctionCallInfo fcinfo, int argno)
{
	const text *name;

	if (PG_ARGISNULL(argno))
		return CLASS_NONE;
	name = PG_GETARG_TEXT_PP(argno);
	if (gd_text_equal(name, cstring_to_text("ready")))
		return CLASS_READY;
	if (gd_text_equal(name, cstring_to_text("expired")))
		return CLASS_EXPIRED;
	if (!gd_text_equal(name, cstring_to_text("none")))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("preference \"%s\" must be ready, expired or none", gd_run_shown(name))));
	return CLASS_NONE;
}

static int
outcome_compare(const void *a, const void *b)
{
	return gd_run_text_compare(((const Outcome *) a)->run_id, ((const Outcome *) b)->run_id);
}

/*
 * run_claim_due(max_rows, orphan_ttl, max_claim_attempts, preference, now)
 *		-> setof lease or poisoned run, by run_id
 */
Datum
gd_run_claim_due(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *out = (ReturnSetInfo *) fcinfo->resultinfo;
	Claim		claim = {0};
	TimestampTz begun = GetCurrentTimestamp();

	gd_writes("gen_durable.run_claim_due()");
	claim.max_rows = gd_arg_positive(fcinfo, 0, "max_rows");
	gd_arg_required(fcinfo, 1, "orphan_ttl");
	claim.orphan_ttl = PG_GETARG_INTERVAL_P(1);
	gd_check_not_negative("orphan_ttl", claim.orphan_ttl, NULL);
	claim.max_attempts = gd_arg_positive(fcinfo, 2, "max_claim_attempts");
	claim.preference = claim_read_preference(fcinfo, 3);
	claim.now = gd_run_arg_now(fcinfo, 4, gd_now());

	InitMaterializedSRF(fcinfo, 0);
	claim.desc = out->setDesc;
	claim_run(&claim);
	qsort(claim.outcomes, claim.noutcomes, sizeof(Outcome), outcome_compare);
	for (int i = 0; i < claim.noutcomes; i++)
		tuplestore_puttuple(out->setResult, claim.outcomes[i].tuple);

	claim.counts[GD_RUNS_SCANS] = 1;
	claim.counts[GD_RUNS_SCAN_TIME] = Max(GetCurrentTimestamp() - begun, 0);
	claim.counts[GD_RUNS_WANTED] = claim.max_rows;
	for (int c = 0; c < GD_NRUN_COUNTERS; c++)
		gd_stats_count_run((GdRunCounter) c, claim.counts[c]);
	return (Datum) 0;
}
