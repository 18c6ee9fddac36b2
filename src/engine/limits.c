/*
 * limits.c
 *		Rate limits and gates in a pick: what it knows of their keys, and the
 *		rows that it holds ready to be admitted.
 *
 * A pick looks at what a key has free when it meets the key's first candidate,
 * locking nothing.  Rows that this does not cover are refused at once.  For
 * each of the others the limiter is asked when it is met, in the order of
 * (priority, eligible_at, id), and its answer alone counts; what a pick took
 * is written once, when its walk is done.
 *
 * Rows that waited and come before a candidate are held ready, locked, and
 * decided together before it.  So is everything where the limiter is outside
 * the database, and asked in batches.
 *
 * Locks: those of the limiter.
 */
#include "postgres.h"

#include <math.h>

#include "utils/builtins.h"

#include "engine/blocked.h"
#include "engine/effects.h"
#include "engine/instance.h"
#include "engine/limits.h"
#include "events.h"
#include "limiter/arithmetic.h"
#include "shmem/limit_counts.h"

void
gd_limits_begin(GdLimits *limits, GdTable *instances, const text *queue, TimestampTz now)
{
	memset(limits, 0, sizeof(GdLimits));
	limits->instances = instances;
	limits->queue = queue;
	limits->now = now;
	gd_policies_begin(&limits->policies);
}

/*
 * limits_tell: count what was decided, and tell of the keys that refused rows
 * (GD-072).
 */
static void
limits_tell(GdLimits *limits)
{
	HASH_SEQ_STATUS all;
	GdLimitKey *key;

	hash_seq_init(&all, limits->keys);
	while ((key = hash_seq_search(&all)) != NULL)
	{
		if (key->policy)
			gd_limit_count(key->kind, key->policy->name, key->granted, key->refused);
		if (key->refused > 0)
			gd_event(key->kind == GD_GATE ? "concurrency.throttled" : "rate_limit.throttled",
					 key->kind == GD_GATE ? "wanted=%lld admitted=%lld key=%s queue=%s" :
					 "wanted=%lld granted=%lld key=%s queue=%s",
					 (long long) (key->granted + key->refused), (long long) key->granted,
					 gd_event_value(key->key), gd_event_value(limits->queue));
	}
}

void
gd_limits_end(GdLimits *limits)
{
	Assert(limits->nready == 0 && limits->grants == NULL);
	if (limits->keys)
	{
		limits_tell(limits);
		hash_destroy(limits->keys);
		pfree(limits->ready);
	}
	gd_policies_end(&limits->policies);
}

/*
 * limits_key: what the pick knows of a key, which is looked at when it is met
 * for the first time.
 */
static GdLimitKey *
limits_key(GdLimits *limits, GdLimitKind kind, const text *key, const GdPolicy *policy)
{
	char		mark[sizeof(((GdLimitKey *) 0)->mark)];
	GdLimitKey *entry;
	GdRow	   *head;
	bool		found;

	if (limits->keys == NULL)
	{
		HASHCTL		ctl;

		ctl.keysize = sizeof(mark);
		ctl.entrysize = sizeof(GdLimitKey);
		ctl.hcxt = CurrentMemoryContext;
		limits->keys = hash_create("gen_durable pick limits", 64, &ctl,
								   HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
		limits->ready = palloc(sizeof(GdReady) * GD_READY_MAX);
	}
	snprintf(mark, sizeof(mark), "%s:%s", gd_limit_kinds[kind], text_to_cstring(key));
	entry = hash_search(limits->keys, mark, HASH_ENTER, &found);
	limits->last[kind] = entry;
	if (found)
		return entry;

	memset((char *) entry + sizeof(mark), 0, sizeof(GdLimitKey) - sizeof(mark));
	entry->kind = kind;
	entry->key = cstring_to_text_with_len(VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key));
	entry->policy = policy;
	if (policy && !gd_limiter()->look(policy, key, limits->now, &entry->available, &entry->busy))
		entry->available = INFINITY;

	head = gd_row_create(limits->instances);
	entry->waiting = gd_blocked_head(limits->instances, cstring_to_text(mark), limits->queue, head);
	if (entry->waiting)
		entry->next = gd_instance_place(head);
	gd_row_free(head);
	return entry;
}

/*
 * limits_same: was a key the last of its kind that was met?  So it is for most
 * rows.
 */
static GdLimitKey *
limits_same(GdLimits *limits, GdLimitKind kind, const text *key)
{
	GdLimitKey *last = limits->last[kind];

	return last && gd_text_equal(last->key, key) ? last : NULL;
}

/*
 * gd_limits_gate: the gate of a concurrency key; NULL if none is configured.
 */
GdLimitKey *
gd_limits_gate(GdLimits *limits, const text *key)
{
	GdLimitKey *same = limits_same(limits, GD_GATE, key);
	const GdPolicy *policy;

	if (same)
		return same;
	policy = gd_policy_find(&limits->policies, GD_GATE, key);
	return policy ? limits_key(limits, GD_GATE, key, policy) : NULL;
}

/*
 * gd_limits_rate: the rate limit of a rate key, be it configured or not.
 */
GdLimitKey *
gd_limits_rate(GdLimits *limits, const text *key)
{
	GdLimitKey *same = limits_same(limits, GD_RATE, key);

	return same ? same :
		limits_key(limits, GD_RATE, key, gd_policy_find(&limits->policies, GD_RATE, key));
}

/*
 * gd_limits_busy: is it known that a row's limits are not to be had right now?
 * Then the row need not even be locked.
 */
bool
gd_limits_busy(GdLimits *limits, GdRow *row)
{
	text	   *key = gd_instance_text(row, INST_CONCURRENCY_KEY);
	text	   *rate = gd_instance_text(row, INST_RATE_LIMIT);
	GdLimitKey *entry;

	if (limits->keys == NULL)
		return false;
	entry = key ? gd_limits_gate(limits, key) : NULL;
	if ((entry && entry->busy) || (rate && gd_limits_rate(limits, rate)->busy))
	{
		limits->passed++;
		return true;
	}
	return false;
}

static double
limit_cost(const GdLimitKey *key, GdRow *row)
{
	return key->kind == GD_GATE ? 1 : DatumGetFloat8(GD_VALUE(row, INST_WEIGHT));
}

/*
 * gd_limit_fits: does the pick believe that there is enough for one more row?
 */
bool
gd_limit_fits(const GdLimitKey *key, GdRow *row)
{
	return !key->closed && key->policy != NULL &&
		key->used + limit_cost(key, row) <= key->available;
}

/*
 * gd_limit_refused: the limiter refuses a row that seemed to fit.
 *
 * Returns when to look at the limit again, if the row is the first of its
 * queue to wait for it and nobody here will learn when it may go on; else
 * DT_NOEND.
 */
TimestampTz
gd_limit_refused(GdLimits *limits, GdLimitKey *key, GdRow *row)
{
	GdPlace		place = gd_instance_place(row);
	bool		first = !key->waiting || gd_place_compare(&place, &key->next) < 0;

	if (!gd_limiter()->remote || !first)
		return DT_NOEND;
	key->waiting = true;
	key->next = place;
	return limits->now;
}

/*
 * gd_limit_refuse: a row is refused by a key, and so are those that follow.
 *
 * Returns when there will be enough tokens for it, if it is the first of its
 * queue to wait for them; else DT_NOEND.
 */
TimestampTz
gd_limit_refuse(GdLimits *limits, GdLimitKey *key, GdRow *row)
{
	GdPlace		place = gd_instance_place(row);
	TimestampTz at = DT_NOEND;

	key->refused++;
	if (key->policy && isinf(key->available))
		at = gd_limit_refused(limits, key, row);
	else if (key->kind == GD_RATE && key->policy &&
			 (!key->waiting || gd_place_compare(&place, &key->next) < 0))
		at = limits->now +
			gd_refill_time(key->policy, key->used + limit_cost(key, row) - key->available);
	if (!key->waiting || gd_place_compare(&place, &key->next) < 0)
		key->next = place;
	key->waiting = true;
	key->closed = true;
	return at;
}

/*
 * gd_limit_reserve: leave what a row costs to who will come for it.
 */
void
gd_limit_reserve(GdLimitKey *key, GdRow *row)
{
	key->used += limit_cost(key, row);
}

/*
 * gd_limits_take: hold a locked row ready; it belongs to the window from now
 * on.
 */
void
gd_limits_take(GdLimits *limits, GdRow *row, GdLimitKey *gate, GdLimitKey *rate)
{
	GdReady    *ready = &limits->ready[limits->nready++];

	Assert(limits->nready <= GD_READY_MAX);
	memset(ready, 0, sizeof(GdReady));
	ready->row = row;
	ready->place = gd_instance_place(row);
	ready->gate = gate;
	ready->rate = rate;
	if (gate)
		gate->used += 1;
	if (rate)
		rate->used += limit_cost(rate, row);
}

/*
 * limits_grant_key: take what a row costs of one key.
 */
static GdVerdict
limits_grant_key(GdLimits *limits, GdLimitKey *key, double cost, int *shard)
{
	const GdLimiter *limiter = gd_limiter();

	if (limits->grants == NULL)
		limits->grants = limiter->begin(limits->now);
	if (key->grant == NULL)
		key->grant = limiter->key(limits->grants, key->policy, key->key);
	return limiter->take(key->grant, cost, shard);
}

/*
 * limits_grant: take all that a row costs, or nothing.
 */
static GdVerdict
limits_grant(GdLimits *limits, GdGrant *grant)
{
	GdVerdict	verdict = GD_GRANTED;
	int			none;

	grant->shard = GD_NO_SHARD;
	grant->refused_by = grant->gate;
	if (grant->gate)
		verdict = limits_grant_key(limits, grant->gate, 1, &grant->shard);
	if (verdict == GD_GRANTED && grant->rate)
	{
		grant->refused_by = grant->rate;
		verdict = limits_grant_key(limits, grant->rate, grant->weight, &none);
		if (verdict != GD_GRANTED && grant->gate)
			gd_limiter()->untake(grant->gate->grant, 1, grant->shard);
	}
	return verdict;
}

/*
 * limits_note: what the pick learns from an answer.
 */
static void
limits_note(GdLimits *limits, const GdGrant *grant, GdVerdict verdict)
{
	if (verdict == GD_GRANTED)
	{
		if (grant->gate)
			grant->gate->granted++;
		if (grant->rate)
			grant->rate->granted++;
	}
	else if (verdict == GD_CONTENDED)
	{
		grant->refused_by->busy = true;
		limits->passed++;
	}
	else
	{
		grant->refused_by->closed = true;
		grant->refused_by->refused++;
	}
}

/*
 * gd_limits_grant: may a row be claimed at once?  The caller gives its limits.
 */
GdVerdict
gd_limits_grant(GdLimits *limits, GdRow *row, GdGrant *grant)
{
	GdVerdict	verdict;

	grant->weight = grant->rate ? limit_cost(grant->rate, row) : 0;
	verdict = limits_grant(limits, grant);
	if (verdict == GD_GRANTED)
	{
		if (grant->gate)
			grant->gate->used += 1;
		if (grant->rate)
			grant->rate->used += grant->weight;
	}
	limits_note(limits, grant, verdict);
	return verdict;
}

/*
 * gd_limits_put_back: a row that was granted was not claimed: another was
 * quicker.
 */
void
gd_limits_put_back(GdLimits *limits, const GdGrant *grant)
{
	const GdLimiter *limiter = gd_limiter();

	if (grant->gate)
	{
		limiter->untake(grant->gate->grant, 1, grant->shard);
		grant->gate->used -= 1;
		grant->gate->granted--;
	}
	if (grant->rate)
	{
		limiter->untake(grant->rate->grant, grant->weight, GD_NO_SHARD);
		grant->rate->used -= grant->weight;
		grant->rate->granted--;
	}
}

/*
 * gd_limits_settle: have the limiter write what was taken.
 */
void
gd_limits_settle(GdLimits *limits)
{
	HASH_SEQ_STATUS all;
	GdLimitKey *key;

	if (limits->grants == NULL)
		return;
	gd_limiter()->end(limits->grants);
	limits->grants = NULL;
	hash_seq_init(&all, limits->keys);
	while ((key = hash_seq_search(&all)) != NULL)
		key->grant = NULL;
}

static int
ready_compare(const void *a, const void *b)
{
	return gd_place_compare(&((const GdReady *) a)->place, &((const GdReady *) b)->place);
}

/*
 * limits_ask: have a limiter outside the database decide the rows that are
 * ready.
 */
static void
limits_ask(GdLimits *limits)
{
	GdEntry    *entries = palloc0(sizeof(GdEntry) * Max(limits->nready, 1));

	for (int i = 0; i < limits->nready; i++)
	{
		GdReady    *ready = &limits->ready[i];

		entries[i].id = ready->place.id;
		if (ready->gate)
		{
			entries[i].gate = ready->gate->key;
			entries[i].gate_policy = ready->gate->policy;
		}
		if (ready->rate)
		{
			entries[i].rate = ready->rate->key;
			entries[i].rate_policy = ready->rate->policy;
			entries[i].weight = limit_cost(ready->rate, ready->row);
		}
	}
	gd_limiter()->admit(entries, limits->nready, limits->now);
	for (int i = 0; i < limits->nready; i++)
	{
		GdReady    *ready = &limits->ready[i];

		ready->verdict = entries[i].verdict;
		ready->shard = entries[i].shard;
		ready->refused_by = entries[i].lacks_slot ? ready->gate : ready->rate;
	}
	pfree(entries);
}

/*
 * gd_limits_decide: have the limiter decide the rows that are ready.
 */
void
gd_limits_decide(GdLimits *limits)
{
	bool		remote = gd_limiter()->remote;

	qsort(limits->ready, limits->nready, sizeof(GdReady), ready_compare);
	if (remote)
		limits_ask(limits);
	for (int i = 0; i < limits->nready; i++)
	{
		GdReady    *ready = &limits->ready[i];
		GdGrant		grant = {ready->gate, ready->rate};

		if (remote)
			grant.refused_by = ready->refused_by;
		else
		{
			grant.weight = ready->rate ? limit_cost(ready->rate, ready->row) : 0;
			ready->verdict = limits_grant(limits, &grant);
			ready->shard = grant.shard;
			ready->refused_by = grant.refused_by;
		}
		limits_note(limits, &grant, ready->verdict);
	}
}

/*
 * gd_limits_credit: slots of a gate come back, just before commit.
 */
void
gd_limits_credit(const char *key, int shard, int count)
{
	GdSlots		slots;
	GdPolicies	policies;

	gd_policies_begin(&policies);
	slots.key = cstring_to_text(key);
	slots.policy = gd_policy_find(&policies, GD_GATE, slots.key);
	slots.shard = shard;
	slots.count = count;
	gd_limiter()->credit(&slots, 1);
	gd_policies_end(&policies);
}
