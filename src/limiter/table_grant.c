/*
 * table_grant.c
 *		The table backend: granting slots and tokens (GD-110..130).
 *
 * A caller takes from the counters of a key what one entry after the other
 * costs, in their order.  Counters are locked when they are needed, from the
 * fullest to the emptiest, in which order a gate's slots are drawn (GD-114);
 * none of them is waited for.  Those that others have come last and are not
 * counted, so a caller is never granted what another may take; and no more
 * are locked than are wanted, so that others find some too.  At the end what
 * was taken is written off, once for each counter.
 *
 * A key without counters is cold.  Its counters are inserted with what was
 * granted taken off already, under a lock on the key that is not waited for
 * (D-4): two callers cannot both do it.
 *
 * Tokens are refilled up to the clock as it is once the counter is locked: with
 * an instant from before, which another may have passed already, the time
 * between the two would be paid for twice.
 *
 * Locks: rows of buckets, and locks on cold keys and on their policies, until
 * the transaction ends.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/keylock.h"
#include "limiter/arithmetic.h"
#include "limiter/counters.h"
#include "limiter/held.h"
#include "limiter/policy.h"

/* A counter that was changed under our eyes is looked at so many times. */
#define LOCK_TRIES 3

/* So much too little, by its share of the capacity, is a rounding error. */
#define ROUNDING 1e-9

/* A counter that was found and is not locked yet. */
typedef struct FoundShard
{
	int			shard;
	double		available;
	bool		taken;			/* by another transaction */
	ItemPointerData tid;
} FoundShard;

struct GdGrantKey
{
	GdGrants   *grants;
	const GdPolicy *policy;
	const text *key;
	FoundShard *found;
	int			nfound;
	int			next;			/* the first of them that was not tried */
	GdShard    *shards;			/* those that were locked */
	int			nshards;
	bool		contended;		/* some could not be locked */
	bool		current;		/* the policy is known to be the latest */
	double		total;			/* of what was locked */
	double		used;			/* granted so far */
	int			taken;			/* by so many entries */
	bool		stopped;		/* an entry did not fit */
	bool		uncounted;		/* it was cold, and yet something was held */
	int			drawn;			/* gate: the shard that is drawn from */
};

struct GdGrants
{
	GdTable    *buckets;
	List	   *keys;
	TimestampTz now;
};

/* Those that nobody has first, then the fullest first, then the first. */
static int
found_compare(const void *a, const void *b)
{
	const FoundShard *x = a;
	const FoundShard *y = b;

	if (x->taken != y->taken)
		return x->taken ? 1 : -1;
	if (x->available != y->available)
		return x->available > y->available ? -1 : 1;
	return x->shard - y->shard;
}

/* The fullest first, then the first. */
static int
shard_compare(const void *a, const void *b)
{
	const GdShard *x = a;
	const GdShard *y = b;

	if (x->available != y->available)
		return x->available > y->available ? -1 : 1;
	return x->shard - y->shard;
}

/*
 * grant_mint: the counters of a cold key, to be inserted.
 */
static void
grant_mint(GdGrantKey *grant, GdScan *scan)
{
	const GdPolicy *policy = grant->policy;

	/* A change of the limit has to see them, or they have to see the change. */
	if (!gd_key_try_lock(policy->kind == GD_GATE ? "mint conc" : "mint rate", grant->key) ||
		!gd_policy_keep(policy->kind, grant->key, policy))
	{
		grant->contended = true;
		return;
	}
	gd_scan_refresh(scan);
	if (gd_counters_scan(scan, policy->kind, grant->key, GD_ALL_SHARDS))
	{
		/* Another was quicker, and has ended. */
		grant->contended = true;
		return;
	}
	grant->shards = palloc0(sizeof(GdShard) * policy->shards);
	grant->nshards = policy->shards;
	if (policy->kind == GD_GATE)
	{
		Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
		int64	   *held = palloc(sizeof(int64) * policy->shards);

		gd_held_cold(grant->key, policy, snapshot, held);
		(void) gd_credits_fold(grant->key, GD_ALL_SHARDS, snapshot);
		UnregisterSnapshot(snapshot);
		gd_gate_shares(policy, held, grant->shards);
		pfree(held);
	}
	else
	{
		TimestampTz now = gd_now();

		for (int s = 0; s < policy->shards; s++)
		{
			grant->shards[s].shard = s;
			grant->shards[s].capacity = gd_shard_capacity(policy, s);
			grant->shards[s].available = grant->shards[s].capacity;
			grant->shards[s].last_refill = now;
		}
	}
	for (int s = 0; s < grant->nshards; s++)
		grant->total += grant->shards[s].available;
	grant->uncounted = grant->total < policy->capacity && policy->kind == GD_GATE;
	qsort(grant->shards, grant->nshards, sizeof(GdShard), shard_compare);
}

/*
 * grant_find: find the counters of a key, in the order in which they are to be
 * locked.
 */
static void
grant_find(GdGrantKey *grant)
{
	const GdPolicy *policy = grant->policy;
	GdTable    *buckets = grant->grants->buckets;
	bool		more;
	GdScan		scan;

	gd_scan_begin(&scan, buckets, GD_BUCKETS_PKEY);
	more = gd_counters_scan(&scan, policy->kind, grant->key, GD_ALL_SHARDS);
	if (!more)
		grant_mint(grant, &scan);
	else
	{
		grant->found = palloc(sizeof(FoundShard) * policy->shards);
		grant->shards = palloc0(sizeof(GdShard) * policy->shards);
	}
	for (; more && grant->nfound < policy->shards; more = gd_scan_next(&scan))
	{
		FoundShard *found = &grant->found[grant->nfound];

		found->shard = DatumGetInt16(gd_slot_datum(buckets, scan.slot, BUCKET_SHARD));
		if (found->shard >= policy->shards)
			break;
		found->available = DatumGetFloat8(gd_slot_datum(buckets, scan.slot, BUCKET_AVAILABLE));
		if (policy->kind == GD_RATE)
		{
			bool		isnull;
			Datum		last = gd_slot_value(buckets, scan.slot, BUCKET_LAST_REFILL, &isnull);

			found->available = gd_shard_refilled(policy, found->available,
												 isnull ? 0 : DatumGetTimestampTz(last),
												 grant->grants->now);
		}
		found->taken = gd_slot_hold(scan.slot) == GD_HOLD_OTHER;
		found->tid = scan.slot->tts_tid;
		grant->nfound++;
	}
	gd_scan_end(&scan);
	if (grant->nfound > 1)
		qsort(grant->found, grant->nfound, sizeof(FoundShard), found_compare);
}

/*
 * grant_lock_row: lock a counter; false if another transaction has it.
 */
static bool
grant_lock_row(GdGrantKey *grant, FoundShard *found, GdRow *row)
{
	bool		locked = !found->taken && gd_row_lock(row, &found->tid, false) == GD_LOCKED;
	GdScan		scan;

	if (locked)
		return true;

	/* Was it changed by one that has ended since? */
	gd_scan_begin(&scan, grant->grants->buckets, GD_BUCKETS_PKEY);
	for (int try = 1; !locked && try < LOCK_TRIES; try++)
	{
		ItemPointerData tid;

		gd_scan_refresh(&scan);
		if (!gd_counters_scan(&scan, grant->policy->kind, grant->key, found->shard))
			break;
		tid = scan.slot->tts_tid;
		if (gd_slot_hold(scan.slot) != GD_HOLD_OTHER)
			locked = gd_row_lock(row, &tid, false) == GD_LOCKED;
		else if (ItemPointerEquals(&tid, &found->tid))
			break;
		found->tid = tid;
	}
	gd_scan_end(&scan);
	return locked;
}

/*
 * grant_outdated: has the policy changed since the call, which began at
 * grants->now, read it?  A change leaves its mark on the counters, of which one
 * is locked.
 */
static bool
grant_outdated(GdGrantKey *grant, const GdShard *shard)
{
	const GdPolicy *policy = grant->policy;

	if (grant->current ||
		(shard->capacity == gd_shard_capacity(policy, shard->shard) &&
		 (policy->kind == GD_GATE || shard->last_refill <= grant->grants->now)))
		return false;
	grant->current = gd_policy_stands(policy->kind, grant->key, policy);
	return !grant->current;
}

/*
 * grant_lock: lock the next counter that can be; false if there is none.
 */
static bool
grant_lock(GdGrantKey *grant)
{
	while (grant->next < grant->nfound)
	{
		FoundShard *found = &grant->found[grant->next++];
		GdShard    *shard = &grant->shards[grant->nshards];
		GdRow	   *row = gd_row_create(grant->grants->buckets);

		if (!grant_lock_row(grant, found, row))
		{
			grant->contended = true;
			gd_row_free(row);
			continue;
		}
		gd_shard_load(shard, grant->grants->buckets, row);
		if (grant_outdated(grant, shard))
		{
			grant->contended = true;
			gd_row_free(row);
			continue;
		}
		if (grant->policy->kind == GD_RATE)
		{
			TimestampTz now = gd_now();

			shard->available = Max(0, gd_shard_refilled(grant->policy, shard->available,
														shard->last_refill, now));
			shard->capacity = gd_shard_capacity(grant->policy, shard->shard);
			shard->last_refill = now;
		}
		else
		{
			double		credits = gd_credits_fold(grant->key, shard->shard, NULL);
			double		paid = Min(credits, shard->debt);

			shard->debt -= paid;
			shard->available = Min(shard->capacity, shard->available + credits - paid);
		}
		grant->total += shard->available;
		grant->nshards++;
		return true;
	}
	return false;
}

/*
 * gd_table_begin: see limiter.h.
 */
GdGrants *
gd_table_begin(TimestampTz now)
{
	GdGrants   *grants = palloc(sizeof(GdGrants));

	grants->buckets = gd_table_open(GD_BUCKETS);
	grants->keys = NIL;
	grants->now = now;
	return grants;
}

/*
 * gd_table_key: see limiter.h.
 */
GdGrantKey *
gd_table_key(GdGrants *grants, const GdPolicy *policy, const text *key)
{
	GdGrantKey *grant = palloc0(sizeof(GdGrantKey));

	grant->grants = grants;
	grant->policy = policy;
	grant->key = key;
	grant_find(grant);
	grants->keys = lappend(grants->keys, grant);
	return grant;
}

/*
 * gd_table_spread: lock all counters of a key that can be.
 */
void
gd_table_spread(GdGrantKey *grant)
{
	while (grant_lock(grant))
		;
	if (grant->nshards > 1)
		qsort(grant->shards, grant->nshards, sizeof(GdShard), shard_compare);
}

/*
 * gd_table_take: see limiter.h.  Once there is not enough for an entry, there
 * is not for any that follows (GD-118).
 */
GdVerdict
gd_table_take(GdGrantKey *grant, double cost, int *shard)
{
	bool		gate = grant->policy->kind == GD_GATE;
	double		slack = gate ? 0 : ROUNDING * grant->policy->capacity;

	while (!grant->stopped && grant->used + cost > grant->total + slack)
		grant->stopped = !grant_lock(grant);
	if (grant->stopped)
		return !grant->contended ? gate ? GD_LACKS_SLOT : GD_LACKS_TOKENS : GD_CONTENDED;
	grant->used += cost;
	grant->taken++;
	if (gate)
	{
		while (grant->shards[grant->drawn].available < 1)
			grant->drawn++;
		grant->shards[grant->drawn].available -= 1;
		*shard = grant->shards[grant->drawn].shard;
	}
	return GD_GRANTED;
}

/*
 * gd_table_untake: see limiter.h.
 */
void
gd_table_untake(GdGrantKey *grant, double cost, int shard)
{
	grant->taken--;
	grant->used = grant->taken == 0 ? 0 : Max(0, grant->used - cost);
	if (grant->policy->kind != GD_GATE)
		return;
	for (int s = 0; s < grant->nshards; s++)
		if (grant->shards[s].shard == shard)
		{
			grant->shards[s].available += 1;
			grant->drawn = Min(grant->drawn, s);
			break;
		}
}

/*
 * grant_write: take what was granted off the counters.  Where nothing was,
 * nothing is written (D-14).
 */
static void
grant_write(GdGrantKey *grant)
{
	GdTable    *buckets = grant->grants->buckets;
	GdLimitKind kind = grant->policy->kind;

	for (int s = 0; s < grant->nshards; s++)
	{
		GdShard    *shard = &grant->shards[s];
		bool		changed = grant->used > 0 || grant->uncounted;

		if (kind == GD_RATE)
			shard->available = gd_shard_debited(shard->available, shard->capacity,
												Min(grant->used, grant->total), grant->total);
		else if (shard->row)
		{
			GdShard		old;

			gd_shard_load(&old, buckets, shard->row);
			changed = old.available != shard->available || old.debt != shard->debt;
		}
		if (changed)
			gd_shard_write(buckets, kind, grant->key, shard);
		if (shard->row)
			gd_row_free(shard->row);
	}
	if (grant->shards)
		pfree(grant->shards);
	if (grant->found)
		pfree(grant->found);
	pfree(grant);
}

/*
 * gd_table_end: see limiter.h.
 */
void
gd_table_end(GdGrants *grants)
{
	ListCell   *cell;

	foreach(cell, grants->keys)
		grant_write(lfirst(cell));
	list_free(grants->keys);
	gd_table_close(grants->buckets);
	pfree(grants);
	gd_table_flush();
}

/*
 * gd_table_look: see limiter.h.
 */
bool
gd_table_look(const GdPolicy *policy, const text *key, TimestampTz now,
			  double *available, bool *busy)
{
	GdTable    *buckets = gd_table_open_read(GD_BUCKETS);
	int			n = 0;
	int			taken = 0;
	GdScan		scan;

	*available = 0;
	gd_scan_begin(&scan, buckets, GD_BUCKETS_PKEY);
	for (bool more = gd_counters_scan(&scan, policy->kind, key, GD_ALL_SHARDS);
		 more; more = gd_scan_next(&scan))
	{
		double		has = DatumGetFloat8(gd_slot_datum(buckets, scan.slot, BUCKET_AVAILABLE));
		bool		isnull;
		Datum		last = gd_slot_value(buckets, scan.slot, BUCKET_LAST_REFILL, &isnull);

		if (DatumGetInt16(gd_slot_datum(buckets, scan.slot, BUCKET_SHARD)) >= policy->shards)
			continue;
		n++;
		taken += gd_slot_hold(scan.slot) == GD_HOLD_OTHER;
		if (policy->kind == GD_RATE && !isnull)
			has = gd_shard_refilled(policy, has, DatumGetTimestampTz(last), now);
		*available += has;
	}
	gd_scan_end(&scan);
	gd_table_close(buckets);
	*busy = n > 0 && taken == n;
	if (n == 0)
		*available = policy->capacity;
	else if (policy->kind == GD_GATE)
		*available += gd_credits_sum(key, GD_ALL_SHARDS);
	else
		*available += ROUNDING * policy->capacity;
	return true;
}
