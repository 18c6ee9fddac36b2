/*
 * table_admit.c
 *		The table backend: deciding a batch (GD-110..130).
 *
 * For every key of the batch some of its counters are locked, none of them
 * waited for; then the entries are decided one after the other against what
 * was locked; then what was granted is taken off.  Counters that others have
 * are not counted, so a caller is never granted what another may take.
 *
 * Counters are locked from the fullest to the emptiest, in which order a
 * gate's slots are drawn (GD-114).  Without spread, no more are locked than
 * the batch wants, so that others find some too.
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
#include "utils/hsearch.h"
#include "utils/snapmgr.h"

#include "clock.h"
#include "engine/keylock.h"
#include "limiter/arithmetic.h"
#include "limiter/counters.h"
#include "limiter/policy.h"
#include "names.h"

/* A counter that was changed under our eyes is looked at so many times. */
#define LOCK_TRIES 3

/* So much too little, by its share of the capacity, is a rounding error. */
#define ROUNDING 1e-9

/* What the batch wants of one key, and gets. */
typedef struct Wanted
{
	char		name[GD_NAME_MAX + 2];	/* its kind's first letter, its key;
										 * the hash key */
	GdLimitKind kind;
	const text *key;
	const GdPolicy *policy;
	double		want;			/* slots or tokens of all entries together */
	GdShard    *shards;			/* those that were locked */
	int			nshards;
	bool		contended;		/* some could not be locked */
	double		total;			/* of what was locked */
	double		used;			/* granted so far */
	bool		stopped;		/* an entry did not fit */
	int			drawn;			/* gate: the shard that is drawn from */
} Wanted;

/*
 * wanted_key: what the batch wants of a key.  Most entries want the same as
 * the one before them, which *last remembers.
 */
static Wanted *
wanted_key(HTAB *all, Wanted **last, GdLimitKind kind, const text *key, const GdPolicy *policy)
{
	char		name[sizeof(((Wanted *) 0)->name)];
	Wanted	   *wanted;
	bool		found;

	if (*last && gd_text_equal((*last)->key, key))
		return *last;
	name[0] = gd_limit_kinds[kind][0];
	text_to_cstring_buffer(key, name + 1, sizeof(name) - 1);
	wanted = hash_search(all, name, HASH_ENTER, &found);
	if (!found)
	{
		memset((char *) wanted + sizeof(name), 0, sizeof(Wanted) - sizeof(name));
		wanted->kind = kind;
		wanted->key = key;
		wanted->policy = policy;
	}
	*last = wanted;
	return wanted;
}

static int
wanted_compare(const void *a, const void *b)
{
	const Wanted *x = *(Wanted *const *) a;
	const Wanted *y = *(Wanted *const *) b;

	return strcmp(x->name, y->name);
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

static void
shard_refill(const Wanted *wanted, GdShard *shard, TimestampTz now)
{
	if (wanted->kind == GD_GATE)
		return;
	shard->available = Max(0, gd_shard_refilled(wanted->policy, shard->available,
												shard->last_refill, now));
	shard->capacity = gd_shard_capacity(wanted->policy, shard->shard);
	shard->last_refill = now;
}

/*
 * wanted_mint: the counters of a cold key, to be inserted.
 */
static void
wanted_mint(Wanted *wanted, GdTable *buckets, GdScan *scan)
{
	const GdPolicy *policy = wanted->policy;

	/* A change of the limit has to see them, or they have to see the change. */
	if (!gd_key_try_lock(wanted->kind == GD_GATE ? "mint conc" : "mint rate", wanted->key) ||
		!gd_policy_keep(policy))
	{
		wanted->contended = true;
		return;
	}
	gd_scan_refresh(scan);
	if (gd_counters_scan(scan, wanted->kind, wanted->key, GD_ALL_SHARDS))
	{
		/* Another was quicker, and has ended. */
		wanted->contended = true;
		return;
	}
	wanted->shards = palloc0(sizeof(GdShard) * policy->shards);
	wanted->nshards = policy->shards;
	if (wanted->kind == GD_GATE)
	{
		Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
		int64	   *held = palloc(sizeof(int64) * policy->shards);

		gd_slots_held(wanted->key, policy, snapshot, held);
		(void) gd_credits_fold(wanted->key, GD_ALL_SHARDS, snapshot);
		UnregisterSnapshot(snapshot);
		gd_gate_shares(policy, held, wanted->shards);
		pfree(held);
	}
	else
	{
		TimestampTz now = gd_now();

		for (int s = 0; s < policy->shards; s++)
		{
			wanted->shards[s].shard = s;
			wanted->shards[s].capacity = gd_shard_capacity(policy, s);
			wanted->shards[s].available = wanted->shards[s].capacity;
			wanted->shards[s].last_refill = now;
		}
	}
	for (int s = 0; s < wanted->nshards; s++)
		wanted->total += wanted->shards[s].available;
	qsort(wanted->shards, wanted->nshards, sizeof(GdShard), shard_compare);
}

/*
 * wanted_lock: lock a counter; false if another transaction has it.
 */
static bool
wanted_lock(const Wanted *wanted, GdScan *scan, GdShard *shard)
{
	for (int try = 0; try < LOCK_TRIES; try++)
	{
		if (gd_slot_hold(shard->row->slot) != GD_HOLD_OTHER)
		{
			ItemPointerData tid = shard->row->tid;

			if (gd_row_lock(shard->row, &tid, false) == GD_LOCKED)
				return true;
		}
		/* Was it changed by one that has ended since the scan? */
		gd_scan_refresh(scan);
		if (!gd_counters_scan(scan, wanted->kind, wanted->key, shard->shard) ||
			ItemPointerEquals(&scan->slot->tts_tid, &shard->row->tid))
			return false;
		gd_row_load(shard->row, scan->slot);
	}
	return false;
}

/*
 * wanted_acquire: lock counters of a key.
 */
static void
wanted_acquire(Wanted *wanted, GdTable *buckets, bool spread, TimestampTz now)
{
	int			size = Max(wanted->policy->shards, 1);
	int			n = 0;
	GdShard    *found;
	GdScan		scan;
	bool		more;

	gd_scan_begin(&scan, buckets, GD_BUCKETS_PKEY);
	more = gd_counters_scan(&scan, wanted->kind, wanted->key, GD_ALL_SHARDS);
	if (!more)
	{
		wanted_mint(wanted, buckets, &scan);
		gd_scan_end(&scan);
		return;
	}

	found = palloc0(sizeof(GdShard) * size);
	for (; more; more = gd_scan_next(&scan))
	{
		GdRow	   *row = gd_row_create(buckets);

		gd_row_load(row, scan.slot);
		if (n == size || DatumGetInt16(GD_VALUE(row, BUCKET_SHARD)) >= wanted->policy->shards)
		{
			gd_row_free(row);
			continue;
		}
		gd_shard_load(&found[n], buckets, row);
		shard_refill(wanted, &found[n], now);
		n++;
	}
	qsort(found, n, sizeof(GdShard), shard_compare);

	wanted->shards = found;
	for (int i = 0; i < n; i++)
	{
		GdShard    *shard = &found[i];

		if ((!spread && wanted->total >= wanted->want) || !wanted_lock(wanted, &scan, shard))
		{
			wanted->contended |= spread || wanted->total < wanted->want;
			gd_row_free(shard->row);
			continue;
		}
		gd_shard_load(shard, buckets, shard->row);
		shard_refill(wanted, shard, gd_now());
		if (wanted->kind == GD_GATE)
		{
			double		credits = gd_credits_fold(wanted->key, shard->shard, NULL);
			double		paid = Min(credits, shard->debt);

			shard->debt -= paid;
			shard->available = Min(shard->capacity, shard->available + credits - paid);
		}
		wanted->total += shard->available;
		found[wanted->nshards++] = *shard;
	}
	qsort(wanted->shards, wanted->nshards, sizeof(GdShard), shard_compare);
	gd_scan_end(&scan);
}

/*
 * wanted_fits: is there so much for one more entry?  Once there is not, there
 * is not for any that follows (GD-118).
 */
static bool
wanted_fits(Wanted *wanted, double cost)
{
	if (wanted->stopped)
		return false;
	wanted->stopped = wanted->used + cost >
		wanted->total + (wanted->kind == GD_RATE ? ROUNDING * wanted->policy->capacity : 0);
	return !wanted->stopped;
}

/*
 * wanted_draw: take a slot of a gate that fits; returns its shard.
 */
static int
wanted_draw(Wanted *wanted)
{
	while (wanted->shards[wanted->drawn].available < 1)
		wanted->drawn++;
	wanted->shards[wanted->drawn].available -= 1;
	wanted->used += 1;
	return wanted->shards[wanted->drawn].shard;
}

static void
entry_decide(GdEntry *entry, Wanted *gate, Wanted *rate)
{
	entry->shard = GD_NO_SHARD;
	entry->lacks_slot = false;
	if (gate && !wanted_fits(gate, 1))
	{
		entry->verdict = gate->contended ? GD_CONTENDED : GD_LACKS_SLOT;
		entry->lacks_slot = true;
		return;
	}
	if (entry->rate && (rate == NULL || !wanted_fits(rate, entry->weight)))
	{
		entry->verdict = rate && rate->contended ? GD_CONTENDED : GD_LACKS_TOKENS;
		return;
	}
	if (gate)
		entry->shard = wanted_draw(gate);
	if (rate)
		rate->used += entry->weight;
	entry->verdict = GD_GRANTED;
}

/*
 * wanted_write: take what was granted off the counters.  Where nothing was,
 * nothing is written (D-14).
 */
static void
wanted_write(Wanted *wanted, GdTable *buckets, TimestampTz now)
{
	for (int s = 0; s < wanted->nshards; s++)
	{
		GdShard    *shard = &wanted->shards[s];
		bool		changed = shard->row == NULL;

		if (wanted->kind == GD_RATE)
		{
			shard->available = gd_shard_debited(shard->available, shard->capacity,
												Min(wanted->used, wanted->total), wanted->total);
			changed = true;
		}
		else if (!changed)
		{
			GdShard		old;

			gd_shard_load(&old, buckets, shard->row);
			changed = old.available != shard->available || old.debt != shard->debt;
		}
		if (changed && (wanted->used > 0 || (wanted->kind == GD_GATE && shard->row)))
			gd_shard_write(buckets, wanted->kind, wanted->key, shard);
		if (shard->row)
			gd_row_free(shard->row);
	}
}

/*
 * gd_table_admit: see limiter.h.
 */
void
gd_table_admit(GdEntry *entries, int nentries, bool spread, TimestampTz now)
{
	GdTable    *buckets = gd_table_open(GD_BUCKETS);
	Wanted	  **sorted;
	HASHCTL		ctl;
	HASH_SEQ_STATUS seq;
	HTAB	   *all;
	Wanted	   *wanted;
	Wanted	   *gate = NULL;
	Wanted	   *rate = NULL;
	int			n = 0;

	ctl.keysize = sizeof(wanted->name);
	ctl.entrysize = sizeof(Wanted);
	ctl.hcxt = CurrentMemoryContext;
	all = hash_create("gen_durable admission", 64, &ctl,
					  HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	for (int i = 0; i < nentries; i++)
	{
		if (entries[i].gate)
			wanted_key(all, &gate, GD_GATE, entries[i].gate, entries[i].gate_policy)->want += 1;
		if (entries[i].rate && entries[i].rate_policy)
			wanted_key(all, &rate, GD_RATE, entries[i].rate,
					   entries[i].rate_policy)->want += entries[i].weight;
	}

	sorted = palloc(sizeof(Wanted *) * Max(hash_get_num_entries(all), 1));
	hash_seq_init(&seq, all);
	while ((wanted = hash_seq_search(&seq)) != NULL)
		sorted[n++] = wanted;
	qsort(sorted, n, sizeof(Wanted *), wanted_compare);
	for (int i = 0; i < n; i++)
		wanted_acquire(sorted[i], buckets, spread, now);

	for (int i = 0; i < nentries; i++)
		entry_decide(&entries[i],
					 entries[i].gate ?
					 wanted_key(all, &gate, GD_GATE, entries[i].gate, NULL) : NULL,
					 entries[i].rate && entries[i].rate_policy ?
					 wanted_key(all, &rate, GD_RATE, entries[i].rate, NULL) : NULL);

	for (int i = 0; i < n; i++)
		wanted_write(sorted[i], buckets, now);
	hash_destroy(all);
	pfree(sorted);
	gd_table_close(buckets);
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
