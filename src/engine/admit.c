/*
 * admit.c
 *		May a candidate be claimed?
 *
 * A row without keys and limits may.  One with a concurrency key may if the
 * key is free and no row of its key and queue that waits for it or was given
 * its turn sorts before it; the answer is found under a lock on the key that
 * is never waited for (D-4).  What a pick has learnt about a key it does not
 * ask again.
 *
 * A gate and a rate limit are asked for each row that seems to fit (limits.c),
 * or in batches of rows held ready where they are counted outside the
 * database.  Rows of its queue that wait for one of its limits and sort before
 * it are held ready and decided before it, so no newcomer overtakes them.  A
 * rate limit that was dropped refuses (D-12).
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "engine/admit.h"
#include "engine/blocked.h"
#include "engine/effects.h"
#include "engine/instance.h"
#include "engine/keylock.h"
#include "engine/limits.h"
#include "engine/runners.h"
#include "events.h"
#include "names.h"

typedef enum AdmitKeyState
{
	ADMIT_KEY_UNKNOWN,
	ADMIT_KEY_HELD,				/* by another claim, or by one of this pick */
	ADMIT_KEY_BUSY				/* another transaction is at it */
} AdmitKeyState;

typedef struct AdmitKey
{
	char		name[GD_NAME_MAX + 1];
	AdmitKeyState state;
} AdmitKey;

void
gd_admission_begin(GdAdmission *admission, GdTable *instances, const text *queue,
				   const GdClaimant *claimant, TimestampTz now)
{
	admission->claimant = claimant;
	admission->instances = instances;
	admission->keys = NULL;
	admission->head = NULL;
	gd_limits_begin(&admission->limits, instances, queue, now);
}

void
gd_admission_end(GdAdmission *admission)
{
	if (admission->keys)
		hash_destroy(admission->keys);
	if (admission->head)
		gd_row_free(admission->head);
	gd_limits_end(&admission->limits);
}

static AdmitKey *
admit_key(GdAdmission *admission, const text *key)
{
	char		name[GD_NAME_MAX + 1];
	AdmitKey   *entry;
	bool		found;

	if (admission->keys == NULL)
	{
		HASHCTL		ctl;

		ctl.keysize = sizeof(name);
		ctl.entrysize = sizeof(AdmitKey);
		ctl.hcxt = CurrentMemoryContext;
		admission->keys = hash_create("gen_durable pick keys", 64, &ctl,
									  HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	}
	text_to_cstring_buffer(key, name, sizeof(name));
	entry = hash_search(admission->keys, name, HASH_ENTER, &found);
	if (!found)
		entry->state = ADMIT_KEY_UNKNOWN;
	return entry;
}

/*
 * admit_tell: a key of size one refuses a row (GD-072).
 */
static void
admit_tell(GdRow *row, const text *key)
{
	gd_event("concurrency.throttled", "wanted=1 admitted=0 key=%s queue=%s",
			 gd_event_value(key), gd_event_value(gd_instance_text(row, INST_QUEUE)));
}

/*
 * admit_conc: the concurrency key's answer.
 */
static GdAdmitResult
admit_conc(GdAdmission *admission, GdRow *row, const text *key, text *blocked_on)
{
	AdmitKey   *entry = admit_key(admission, key);

	if (entry->state == ADMIT_KEY_UNKNOWN && !gd_key_try_lock(GD_BLOCK_CONC, key))
		entry->state = ADMIT_KEY_BUSY;
	if (entry->state == ADMIT_KEY_BUSY)
		return GD_PASS;
	if (entry->state == ADMIT_KEY_UNKNOWN && gd_blocked_key_held(admission->instances, key))
		entry->state = ADMIT_KEY_HELD;
	if (entry->state == ADMIT_KEY_HELD)
	{
		admit_tell(row, key);
		return GD_REFUSE;
	}

	entry->state = ADMIT_KEY_HELD;
	if (admission->head == NULL)
		admission->head = gd_row_create(admission->instances);
	if (gd_blocked_next(admission->instances, blocked_on,
						gd_instance_text(row, INST_QUEUE), admission->head) &&
		gd_instance_before(admission->head, row))
	{
		ItemPointerData tid = admission->head->tid;

		if (gd_row_lock(admission->head, &tid, false) == GD_LOCKED)
		{
			admit_tell(row, key);
			return GD_ADMIT_HEAD;
		}
		entry->state = ADMIT_KEY_BUSY;
		return GD_PASS;
	}
	return GD_ADMIT;
}

/*
 * gd_admit_busy: has this pick met the row's keys, and another transaction at
 * one of them?  Then the row need not even be locked.
 */
bool
gd_admit_busy(GdAdmission *admission, GdRow *row)
{
	text	   *key = gd_instance_text(row, INST_CONCURRENCY_KEY);

	if (gd_limits_busy(&admission->limits, row))
		return true;
	return key != NULL && admission->keys != NULL &&
		GD_IS_NULL(row, INST_RATE_LIMIT) &&
		gd_policy_find(&admission->limits.policies, GD_GATE, key) == NULL &&
		admit_key(admission, key)->state == ADMIT_KEY_BUSY;
}

/*
 * gd_admit_free: is there nothing to ask, whoever else is claiming?
 */
bool
gd_admit_free(GdRow *row)
{
	return GD_IS_NULL(row, INST_CONCURRENCY_KEY) && GD_IS_NULL(row, INST_RATE_LIMIT);
}

/* The limits of one row. */
typedef struct AdmitLimits
{
	text	   *key;			/* concurrency key, or NULL */
	GdLimitKey *gate;			/* its gate, or NULL */
	GdLimitKey *rate;			/* or NULL */
} AdmitLimits;

static AdmitLimits
admit_limits(GdAdmission *admission, GdRow *row)
{
	AdmitLimits of = {0};
	text	   *rate = gd_instance_text(row, INST_RATE_LIMIT);

	of.key = gd_instance_text(row, INST_CONCURRENCY_KEY);
	if (of.key)
		of.gate = gd_limits_gate(&admission->limits, of.key);
	if (rate)
		of.rate = gd_limits_rate(&admission->limits, rate);
	return of;
}

/*
 * admit_waits: must a row wait for a limit: there is not enough for it, or
 * another row of its queue waits that sorts before it?
 */
static bool
admit_waits(const GdLimitKey *limit, GdRow *row)
{
	GdPlace		place = gd_instance_place(row);

	return !gd_limit_fits(limit, row) ||
		(limit->waiting && gd_place_compare(&limit->next, &place) < 0);
}

/*
 * admit_wants: is a row's step one that this pick claims?
 */
static bool
admit_wants(const GdAdmission *admission, GdRow *row)
{
	return gd_runner_claims(admission->claimant, gd_instance_text(row, INST_FSM),
							gd_instance_int(row, INST_FSM_VERSION),
							gd_instance_text(row, INST_STEP));
}

static void
admit_block(GdAdmission *admission, GdRow *row, const char *mark, TimestampTz refill_at)
{
	gd_blocked_mark(row, cstring_to_text(mark), refill_at, admission->limits.now);
}

/*
 * admit_pulled: what becomes of a locked row that waited for one limit, or was
 * promoted for it, and whose turn it is.  Another of its limits may refuse
 * it; then it waits for that one from now on.
 */
static void
admit_pulled(GdAdmission *admission, GdRow *row, const GdLimitKey *turn)
{
	GdLimits   *limits = &admission->limits;
	AdmitLimits of = admit_limits(admission, row);

	if (of.gate && of.gate != turn && admit_waits(of.gate, row))
		admit_block(admission, row, of.gate->mark, gd_limit_refuse(limits, of.gate, row));
	else if (of.rate && of.rate != turn && admit_waits(of.rate, row))
		admit_block(admission, row, of.rate->mark, gd_limit_refuse(limits, of.rate, row));
	else if (of.key && !of.gate)
	{
		text	   *blocked_on = gd_blocked_on(GD_BLOCK_CONC, of.key);
		GdAdmitResult result = admit_conc(admission, row, of.key, blocked_on);

		if (result == GD_ADMIT)
		{
			gd_limits_take(limits, row, NULL, of.rate);
			return;
		}
		if (result != GD_PASS)
			admit_block(admission, row, text_to_cstring(blocked_on), DT_NOEND);
	}
	else
	{
		gd_limits_take(limits, row, of.gate, of.rate);
		return;
	}
	gd_row_free(row);
}

/*
 * admit_pull_from: hold those rows ready that an index says wait for a limit,
 * or were promoted for it, from a place on (or all if that is NULL), as far as
 * they sort before a candidate.
 *
 * Returns false if there is no room for the next.  *next is the first that was
 * left, *more whether there is one.
 */
static bool
admit_pull_from(GdAdmission *admission, GdIndexId index, GdLimitKey *limit, GdRow *row,
				int room, GdPlace *next, bool *more)
{
	static const RegProcedure compare[] = {F_BTINT2CMP, F_TIMESTAMPTZ_CMP, F_BTINT8CMP};
	GdLimits   *limits = &admission->limits;
	GdPlace		before = gd_instance_place(row);
	bool		roomy = true;
	GdRow	   *pulled = gd_row_create(admission->instances);
	Datum		values[lengthof(compare)];
	GdScan		scan;

	gd_scan_begin(&scan, admission->instances, index);
	gd_scan_text(&scan, 1, cstring_to_text(limit->mark));
	gd_scan_text(&scan, 2, limits->queue);
	if (*more)
	{
		values[0] = Int16GetDatum(next->priority);
		values[1] = TimestampTzGetDatum(next->eligible_at);
		values[2] = Int64GetDatum(next->id);
		gd_scan_key_row(&scan, 3, lengthof(compare), compare, values);
	}
	*more = false;
	gd_scan_start(&scan);
	while (gd_scan_next(&scan))
	{
		gd_row_load(pulled, scan.slot);
		*next = gd_instance_place(pulled);
		if (gd_place_compare(next, &before) >= 0 || !gd_limit_fits(limit, pulled) ||
			limits->nready >= room)
		{
			*more = true;
			roomy = limits->nready < room;
			break;
		}
		if (!admit_wants(admission, pulled))
		{
			/* Another's turn: leave enough for it. */
			gd_limit_reserve(limit, pulled);
			continue;
		}
		if (next->eligible_at > limits->now ||
			gd_slot_hold(scan.slot) == GD_HOLD_OTHER ||
			gd_row_lock(pulled, &scan.slot->tts_tid, false) != GD_LOCKED)
			continue;
		admit_pulled(admission, pulled, limit);
		pulled = gd_row_create(admission->instances);
	}
	gd_scan_end(&scan);
	gd_row_free(pulled);
	return roomy;
}

/*
 * admit_pull: before a candidate come those of its queue that wait for one of
 * its limits and sort before it.  False if they do not all find room.
 */
static bool
admit_pull(GdAdmission *admission, GdLimitKey *limit, GdRow *row, int room)
{
	GdPlace		place = gd_instance_place(row);

	if (limit->busy || limit->closed || limit->policy == NULL)
		return true;
	if (!limit->begun)
	{
		/*
		 * The walk meets promoted rows itself, but for those that it began
		 * behind.
		 */
		GdPlace		next;
		bool		more = false;

		if (!admit_pull_from(admission, GD_INSTANCES_PROMOTED, limit, row, room, &next, &more))
			return false;
		limit->begun = true;
	}
	if (limit->waiting && gd_place_compare(&limit->next, &place) < 0)
		return admit_pull_from(admission, GD_INSTANCES_BLOCKED, limit, row, room,
							   &limit->next, &limit->waiting);
	return true;
}

/*
 * admit_grant: ask the limits of a candidate that seems to fit.
 *
 * A key of size one is asked last, since asking for it takes it.
 */
static GdAdmitResult
admit_grant(GdAdmission *admission, GdRow *row, AdmitLimits of, GdRefusal *refusal)
{
	GdLimits   *limits = &admission->limits;
	GdGrant    *grant = &admission->grant;
	GdAdmitResult result = GD_ADMIT;
	GdVerdict	verdict;

	grant->gate = of.gate;
	grant->rate = of.rate;
	verdict = gd_limits_grant(limits, row, grant);
	if (verdict == GD_CONTENDED)
		return GD_PASS;
	if (verdict != GD_GRANTED)
	{
		refusal->blocked_on = cstring_to_text(grant->refused_by->mark);
		return GD_REFUSE;
	}
	if (of.key && !of.gate)
	{
		refusal->blocked_on = gd_blocked_on(GD_BLOCK_CONC, of.key);
		result = admit_conc(admission, row, of.key, refusal->blocked_on);
	}
	if (result == GD_ADMIT)
		return GD_ADMIT_GRANTED;
	gd_limits_put_back(limits, grant);
	return result;
}

/*
 * admit_limited: a candidate with a gate or a rate limit.
 */
static GdAdmitResult
admit_limited(GdAdmission *admission, GdRow *row, AdmitLimits of, int room, GdRefusal *refusal)
{
	GdLimits   *limits = &admission->limits;
	GdLimitKey *both[] = {of.gate, of.rate};

	if ((of.gate && of.gate->busy) || (of.rate && of.rate->busy))
	{
		limits->passed++;
		return GD_PASS;
	}
	if (limits->nready >= room)
		return GD_DECIDE;
	for (int i = 0; i < lengthof(both); i++)
		if (both[i] && !admit_pull(admission, both[i], row, room))
			return GD_DECIDE;
	for (int i = 0; i < lengthof(both); i++)
		if (both[i] && admit_waits(both[i], row))
		{
			refusal->blocked_on = cstring_to_text(both[i]->mark);
			refusal->refill_at = gd_limit_refuse(limits, both[i], row);
			return GD_REFUSE;
		}
	if (!gd_limiter()->remote)
		return limits->nready > 0 ? GD_DECIDE : admit_grant(admission, row, of, refusal);
	if (limits->nready >= room)
		return GD_DECIDE;
	if (of.key && !of.gate)
	{
		GdAdmitResult result;

		refusal->blocked_on = gd_blocked_on(GD_BLOCK_CONC, of.key);
		result = admit_conc(admission, row, of.key, refusal->blocked_on);
		if (result != GD_ADMIT)
			return result;
	}
	gd_limits_take(limits, row, of.gate, of.rate);
	return GD_READY;
}

/*
 * gd_admit_unlocked: can a row be asked for before it is locked?  Not where a
 * key of size one is: asking takes it.  Nor where limits are counted outside
 * the database: there several picks would spend tokens on one row.
 */
bool
gd_admit_unlocked(GdAdmission *admission, GdRow *row)
{
	text	   *key = gd_instance_text(row, INST_CONCURRENCY_KEY);

	return !gd_limiter()->remote &&
		(key == NULL || gd_limits_gate(&admission->limits, key) != NULL);
}

/*
 * gd_admit: may a candidate, which is locked unless gd_admit_unlocked said that
 * it need not be, be claimed?  `room` is how many rows may be held ready.  Where
 * it is refused, *refusal tells the mark that it gets.
 */
GdAdmitResult
gd_admit(GdAdmission *admission, GdRow *row, int room, GdRefusal *refusal)
{
	AdmitLimits of = admit_limits(admission, row);
	GdAdmitResult result;

	refusal->blocked_on = NULL;
	refusal->refill_at = DT_NOEND;
	if (of.gate || of.rate)
		result = admit_limited(admission, row, of, Min(room, GD_READY_MAX), refusal);
	else if (of.key == NULL)
		return GD_ADMIT;
	else
	{
		refusal->blocked_on = gd_blocked_on(GD_BLOCK_CONC, of.key);
		result = admit_conc(admission, row, of.key, refusal->blocked_on);
	}

	/* The row whose turn it is may be under a rate limit, too. */
	if (result == GD_ADMIT_HEAD && !GD_IS_NULL(admission->head, INST_RATE_LIMIT) &&
		admit_wants(admission, admission->head))
	{
		GdLimitKey *rate = gd_limits_rate(&admission->limits,
										  gd_instance_text(admission->head, INST_RATE_LIMIT));

		if (rate->busy || admission->limits.nready >= Min(room, GD_READY_MAX))
			;
		else if (admit_waits(rate, admission->head))
			admit_block(admission, admission->head, rate->mark,
						gd_limit_refuse(&admission->limits, rate, admission->head));
		else
		{
			gd_limits_take(&admission->limits, admission->head, NULL, rate);
			admission->head = NULL;
		}
		result = GD_REFUSE;
	}
	return result;
}
