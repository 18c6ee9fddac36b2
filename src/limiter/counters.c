/*
 * counters.c
 *		The table backend's counters: reading, writing, and giving slots back.
 *
 * A slot comes back in the transaction that ends its claim (D-2), which must
 * not wait for another that has the counter, say an open one that has picked.
 * If the row cannot be locked at once the slots are noted in slot_credits
 * instead, and whoever locks the counter next adds them.  Notes of a counter
 * are removed only by who has it locked, under a snapshot that is younger
 * than the lock.
 *
 * Locks: a counter's row, not waited for.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "limiter/arithmetic.h"
#include "limiter/counters.h"
#include "limiter/held.h"
#include "limiter/policy.h"

/*
 * gd_counters_scan: start a scan of buckets_pkey on a key's counters, in the
 * order of their shards, or on one of them; true if there is one.
 */
bool
gd_counters_scan(GdScan *scan, GdLimitKind kind, const text *key, int shard)
{
	gd_scan_text(scan, 1, cstring_to_text(gd_limit_kinds[kind]));
	gd_scan_text(scan, 2, key);
	if (shard != GD_ALL_SHARDS)
		gd_scan_key(scan, 3, BTEqualStrategyNumber, F_INT2EQ, Int16GetDatum(shard));
	gd_scan_start(scan);
	return gd_scan_next(scan);
}

/*
 * gd_shard_load: what a row says.
 */
void
gd_shard_load(GdShard *shard, GdTable *buckets, GdRow *row)
{
	shard->shard = DatumGetInt16(GD_VALUE(row, BUCKET_SHARD));
	shard->row = row;
	shard->capacity = DatumGetFloat8(GD_VALUE(row, BUCKET_CAPACITY));
	shard->available = DatumGetFloat8(GD_VALUE(row, BUCKET_AVAILABLE));
	shard->debt = DatumGetFloat8(GD_VALUE(row, BUCKET_DEBT));
	shard->last_refill = GD_IS_NULL(row, BUCKET_LAST_REFILL) ? 0 :
		DatumGetTimestampTz(GD_VALUE(row, BUCKET_LAST_REFILL));
}

/*
 * gd_shard_write: update the locked row, or insert one.
 */
void
gd_shard_write(GdTable *buckets, GdLimitKind kind, const text *key, GdShard *shard)
{
	GdRow	   *row = shard->row ? shard->row : gd_row_create(buckets);

	Assert(shard->available >= 0 && shard->available <= shard->capacity && shard->debt >= 0);
	gd_row_set(row, BUCKET_CAPACITY, Float8GetDatum(shard->capacity));
	gd_row_set(row, BUCKET_AVAILABLE, Float8GetDatum(shard->available));
	gd_row_set(row, BUCKET_DEBT, Float8GetDatum(shard->debt));
	if (kind == GD_RATE)
		gd_row_set(row, BUCKET_LAST_REFILL, TimestampTzGetDatum(shard->last_refill));
	if (shard->row)
	{
		gd_row_update(row);
		return;
	}
	gd_row_set(row, BUCKET_KIND, PointerGetDatum(cstring_to_text(gd_limit_kinds[kind])));
	gd_row_set(row, BUCKET_KEY, PointerGetDatum(key));
	gd_row_set(row, BUCKET_SHARD, Int16GetDatum(shard->shard));
	gd_row_insert(row);
	gd_row_free(row);
}

static void
credits_scan(GdScan *scan, const text *key, int shard)
{
	gd_scan_text(scan, 1, key);
	if (shard != GD_ALL_SHARDS)
		gd_scan_key(scan, 2, BTEqualStrategyNumber, F_INT2EQ, Int16GetDatum(shard));
	gd_scan_start(scan);
}

/*
 * gd_credits_sum: slots of a key that came back and are not added yet.
 */
int64
gd_credits_sum(const text *key, int shard)
{
	GdTable    *credits = gd_table_open_read(GD_CREDITS);
	int64		sum = 0;
	GdScan		scan;

	gd_scan_begin(&scan, credits, GD_CREDITS_KEY);
	credits_scan(&scan, key, shard);
	while (gd_scan_next(&scan))
		sum += DatumGetInt32(gd_slot_datum(credits, scan.slot, CREDIT_SLOTS));
	gd_scan_end(&scan);
	gd_table_close(credits);
	return sum;
}

/*
 * gd_credits_fold: take the notes of slots that came back to a counter, which
 * the caller has locked; returns how many slots they are.
 *
 * Under the snapshot given, or the latest if none is.
 */
int64
gd_credits_fold(const text *key, int shard, Snapshot snapshot)
{
	GdTable    *credits;
	GdRow	   *row;
	int64		sum = 0;
	GdScan		scan;

	credits = gd_table_open(GD_CREDITS);
	row = gd_row_create(credits);
	if (snapshot)
		gd_scan_begin_snapshot(&scan, credits, GD_CREDITS_KEY, snapshot);
	else
		gd_scan_begin(&scan, credits, GD_CREDITS_KEY);
	credits_scan(&scan, key, shard);
	while (gd_scan_next(&scan))
	{
		if (gd_row_lock_delete(row, &scan.slot->tts_tid) != GD_LOCKED)
			continue;
		sum += DatumGetInt32(GD_VALUE(row, CREDIT_SLOTS));
		gd_row_delete(row);
	}
	gd_scan_end(&scan);
	gd_row_free(row);
	gd_table_close(credits);
	return sum;
}

/*
 * credits_add: note that slots came back.
 */
static void
credits_add(const text *key, int shard, int slots)
{
	GdTable    *credits = gd_table_open(GD_CREDITS);
	GdRow	   *row = gd_row_create(credits);

	gd_row_set(row, CREDIT_KEY, PointerGetDatum(key));
	gd_row_set(row, CREDIT_SHARD, Int16GetDatum(shard));
	gd_row_set(row, CREDIT_SLOTS, Int32GetDatum(slots));
	gd_row_insert(row);
	gd_row_free(row);
	gd_table_close(credits);
}

/*
 * gd_gate_shares: what each shard of a gate should say, given what is held.
 *
 * A shard has free what it can hold and does not.  One that holds more, as
 * after a change of the policy, is made up for by the others: together they
 * never have more free than the gate has.  What is held beyond the whole gate
 * is a debt, which the first returns pay.
 */
void
gd_gate_shares(const GdPolicy *policy, const int64 *held, GdShard *shards)
{
	double		excess = 0;

	for (int s = 0; s < policy->shards; s++)
	{
		double		free;

		shards[s].shard = s;
		shards[s].capacity = gd_shard_capacity(policy, s);
		shards[s].debt = 0;
		shards[s].last_refill = 0;
		free = shards[s].capacity - held[s];
		shards[s].available = Max(free, 0);
		excess += Max(-free, 0);
	}
	for (int s = policy->shards - 1; s >= 0 && excess > 0; s--)
	{
		double		withheld = Min(excess, shards[s].available);

		shards[s].available -= withheld;
		excess -= withheld;
	}
	for (int s = 0; s < policy->shards && excess > 0; s++)
	{
		double		over = Max(held[s] - shards[s].capacity, 0);

		shards[s].debt = Min(excess, over);
		excess -= shards[s].debt;
	}
}

/*
 * gate_read: what a gate's counters should say; the notes of slots that came
 * back are taken, since what is held tells of them.
 */
static void
gate_read(const GdPolicy *policy, const text *key, const GdHeld *known, GdShard *shards)
{
	int64	   *slots = palloc(sizeof(int64) * policy->shards);
	Snapshot	snapshot;

	/* What is held and what came back must be seen at one instant. */
	if (known)
	{
		gd_held_slots(known, key, policy, slots);
		(void) gd_credits_fold(key, GD_ALL_SHARDS, known->snapshot);
	}
	else
	{
		snapshot = RegisterSnapshot(GetLatestSnapshot());
		gd_held_of(key, policy, snapshot, slots);
		(void) gd_credits_fold(key, GD_ALL_SHARDS, snapshot);
		UnregisterSnapshot(snapshot);
	}
	gd_gate_shares(policy, slots, shards);
	pfree(slots);
}

/*
 * gd_gate_heal: bring a gate's counters to what is held; returns how many rows
 * were written.
 *
 * What is held is given if the caller has the counters locked since before;
 * else it is asked for here, and a key that another transaction is at is left
 * alone.
 */
int
gd_gate_heal(GdTable *buckets, const GdPolicy *policy, const text *key, const GdHeld *known)
{
	GdShard    *shards = palloc0(sizeof(GdShard) * policy->shards);
	GdRow	  **rows = palloc0(sizeof(GdRow *) * policy->shards);
	List	   *extra = NIL;
	bool		busy = false;
	int			written = 0;
	GdScan		scan;
	ListCell   *cell;

	gd_scan_begin(&scan, buckets, GD_BUCKETS_PKEY);
	for (bool more = gd_counters_scan(&scan, GD_GATE, key, GD_ALL_SHARDS);
		 more && !busy; more = gd_scan_next(&scan))
	{
		GdRow	   *row = gd_row_create(buckets);
		int			shard;

		if (gd_row_lock(row, &scan.slot->tts_tid, false) != GD_LOCKED)
		{
			busy = true;
			gd_row_free(row);
			continue;
		}
		shard = DatumGetInt16(GD_VALUE(row, BUCKET_SHARD));
		if (shard >= 0 && shard < policy->shards)
			rows[shard] = row;
		else
			extra = lappend(extra, row);
	}
	gd_scan_end(&scan);

	if (!busy)
	{
		gate_read(policy, key, known, shards);
		for (int s = 0; s < policy->shards; s++)
		{
			GdShard		old = {0};

			if (rows[s])
				gd_shard_load(&old, buckets, rows[s]);
			if (rows[s] && old.capacity == shards[s].capacity &&
				old.available == shards[s].available && old.debt == shards[s].debt)
				continue;
			shards[s].row = rows[s];
			gd_shard_write(buckets, GD_GATE, key, &shards[s]);
			written++;
		}
		foreach(cell, extra)
		{
			gd_row_delete(lfirst(cell));
			written++;
		}
	}

	for (int s = 0; s < policy->shards; s++)
		if (rows[s])
			gd_row_free(rows[s]);
	foreach(cell, extra)
		gd_row_free(lfirst(cell));
	pfree(shards);
	pfree(rows);
	return written;
}

/*
 * credit_shard: add slots to a counter; false if it could not be locked.
 * *over: some found no room there.
 */
static bool
credit_shard(GdTable *buckets, GdScan *scan, const GdSlots *slots, int shard, bool *over)
{
	GdRow	   *row;
	GdShard		now;
	double		count;
	double		paid;

	if (!gd_counters_scan(scan, GD_GATE, slots->key, shard) ||
		gd_slot_hold(scan->slot) == GD_HOLD_OTHER)
		return false;
	row = gd_row_create(buckets);
	if (gd_row_lock(row, &scan->slot->tts_tid, false) != GD_LOCKED)
	{
		gd_row_free(row);
		return false;
	}
	gd_shard_load(&now, buckets, row);
	count = slots->count + gd_credits_fold(slots->key, shard, NULL);
	paid = Min(now.debt, count);
	now.debt -= paid;
	count -= paid;
	*over |= now.available + count > now.capacity || (paid > 0 && now.debt == 0);
	now.available = Min(now.capacity, now.available + count);
	gd_shard_write(buckets, GD_GATE, slots->key, &now);
	gd_row_free(row);
	return true;
}

/*
 * gd_table_credit: see limiter.h.
 *
 * A counter that overflows, or whose debt is paid, is one whose policy was
 * changed while slots were held: the others of its key may have been kept
 * short for it, which is put right.
 */
void
gd_table_credit(const GdSlots *slots, int nslots)
{
	GdTable    *buckets = gd_table_open(GD_BUCKETS);
	GdScan		scan;

	gd_scan_begin(&scan, buckets, GD_BUCKETS_PKEY);
	for (int i = 0; i < nslots; i++)
	{
		bool		over = false;
		int			shard;

		if (slots[i].policy == NULL || slots[i].shard < 0)
			continue;
		shard = slots[i].shard % slots[i].policy->shards;
		if (!credit_shard(buckets, &scan, &slots[i], shard, &over))
			credits_add(slots[i].key, shard, slots[i].count);
		gd_table_flush();
		if (over)
			gd_gate_heal(buckets, slots[i].policy, slots[i].key, NULL);
		gd_scan_refresh(&scan);
	}
	gd_scan_end(&scan);
	gd_table_close(buckets);
	gd_table_flush();
}
