/*
 * table_reconcile.c
 *		The table backend: counters follow their policies and what is held, and
 *		those that say nothing are removed (GD-140..143).
 *
 * Counters change in the transaction that claims or ends a claim, so there is
 * nothing to heal unless somebody wrote to the tables.  What is left is to
 * remove counters: of a key whose policy is gone, once nothing of it is held;
 * of a rate limit that has been idle until it was full; of a gate that is
 * full.  A key goes whole or not at all, so that it is never taken for a
 * smaller one.
 *
 * Locks: rows of buckets, not waited for by reconcile; a change of a policy
 * waits for them in the order of (kind, key, shard).
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "clock.h"
#include "events.h"
#include "limiter/arithmetic.h"
#include "limiter/counters.h"
#include "limiter/held.h"
#include "limiter/policy.h"
#include "names.h"
#include "shmem/stats.h"

/* A key's counters, all of them locked. */
typedef struct Rows
{
	GdRow	  **rows;
	int			n;
	int			size;
	bool		busy;			/* some could not be locked */
} Rows;

static void
rows_free(Rows *rows)
{
	for (int i = 0; i < rows->n; i++)
		gd_row_free(rows->rows[i]);
	pfree(rows->rows);
}

static void
rows_lock(Rows *rows, GdTable *buckets, GdLimitKind kind, const text *key, bool wait)
{
	GdScan		scan;

	rows->n = 0;
	rows->size = 8;
	rows->rows = palloc(sizeof(GdRow *) * rows->size);
	rows->busy = false;
	gd_scan_begin(&scan, buckets, GD_BUCKETS_PKEY);
	for (bool more = gd_counters_scan(&scan, kind, key, GD_ALL_SHARDS);
		 more && !rows->busy; more = gd_scan_next(&scan))
	{
		GdRow	   *row = gd_row_create(buckets);

		if (gd_row_lock(row, &scan.slot->tts_tid, wait) != GD_LOCKED)
		{
			rows->busy = true;
			gd_row_free(row);
			continue;
		}
		if (rows->n == rows->size)
		{
			rows->size *= 2;
			rows->rows = repalloc(rows->rows, sizeof(GdRow *) * rows->size);
		}
		rows->rows[rows->n++] = row;
	}
	gd_scan_end(&scan);
}

static int
rows_delete(Rows *rows)
{
	for (int i = 0; i < rows->n; i++)
		gd_row_delete(rows->rows[i]);
	return rows->n;
}

/*
 * rate_idle: would all counters of a rate limit be full by now?  Then a key
 * without any says the same.
 */
static bool
rate_idle(const GdPolicy *policy, GdTable *buckets, const Rows *rows, TimestampTz now)
{
	if (rows->n != policy->shards)
		return false;
	for (int i = 0; i < rows->n; i++)
	{
		GdShard		shard;

		gd_shard_load(&shard, buckets, rows->rows[i]);
		if (shard.shard >= policy->shards ||
			gd_shard_refilled(policy, shard.available, shard.last_refill, now) <
			gd_shard_capacity(policy, shard.shard))
			return false;
	}
	return true;
}

/*
 * rate_reshape: give the counters of a rate limit the shape of its policy.
 * The tokens that are there are shared out anew: none are made.  Up to now they
 * came at the rate that there was.
 */
static int
rate_reshape(const GdPolicy *policy, double rate, GdTable *buckets, const text *key,
			 Rows *rows, TimestampTz now)
{
	double		tokens = 0;

	for (int i = 0; i < rows->n; i++)
	{
		GdShard		shard;
		double		seconds;

		gd_shard_load(&shard, buckets, rows->rows[i]);
		seconds = now > shard.last_refill ?
			(now - shard.last_refill) / (double) USECS_PER_SEC : 0;
		tokens += Min(shard.available + seconds * rate / rows->n, shard.capacity);
	}
	tokens = Min(tokens, policy->capacity);
	(void) rows_delete(rows);
	for (int s = 0; s < policy->shards; s++)
	{
		GdShard		shard = {.shard = s};

		shard.capacity = gd_shard_capacity(policy, s);
		shard.available = Min(tokens / policy->shards, shard.capacity);
		shard.last_refill = now;
		gd_shard_write(buckets, GD_RATE, key, &shard);
	}
	return Max(policy->shards, rows->n);
}

/*
 * rate_fits: have a rate limit's counters the shape of its policy?
 */
static bool
rate_fits(const GdPolicy *policy, GdTable *buckets, const Rows *rows)
{
	if (rows->n != policy->shards)
		return false;
	for (int i = 0; i < rows->n; i++)
	{
		GdShard		shard;

		gd_shard_load(&shard, buckets, rows->rows[i]);
		if (shard.shard != i || shard.capacity != gd_shard_capacity(policy, i))
			return false;
	}
	return true;
}

/*
 * gate_is_full: is everything of a gate free?
 */
static bool
gate_is_full(const GdPolicy *policy, GdTable *buckets, const Rows *rows)
{
	if (rows->n != policy->shards)
		return false;
	for (int i = 0; i < rows->n; i++)
	{
		GdShard		shard;

		gd_shard_load(&shard, buckets, rows->rows[i]);
		if (shard.available != shard.capacity || shard.debt != 0)
			return false;
	}
	return true;
}

/*
 * rate_follow: bring the counters of one rate limit to its policy, which is
 * NULL when it is gone; with sweep, remove them if they say nothing.  was: the
 * policy before a change, or NULL.  Returns how many rows were changed.  The
 * clock is read when they are locked, as in table_grant.c.
 */
static int
rate_follow(const GdPolicy *policy, const GdPolicy *was, GdTable *buckets, const text *key,
			bool wait, bool sweep)
{
	int			changed = 0;
	TimestampTz now;
	Rows		rows;

	rows_lock(&rows, buckets, GD_RATE, key, wait);
	now = gd_now();
	if (rows.busy)
		;
	else if (policy == NULL || (sweep && rate_idle(policy, buckets, &rows, now)))
		changed = rows_delete(&rows);
	else if (rows.n > 0 &&
			 ((was && was->rate != policy->rate) || !rate_fits(policy, buckets, &rows)))
		changed = rate_reshape(policy, was ? was->rate : policy->rate, buckets, key, &rows, now);
	rows_free(&rows);
	gd_table_flush();
	return changed;
}

/*
 * gate_lock: lock a gate's counters; false if another transaction has one.
 */
static bool
gate_lock(GdTable *buckets, const text *key, bool wait)
{
	bool		locked;
	Rows		rows;

	rows_lock(&rows, buckets, GD_GATE, key, wait);
	locked = !rows.busy;
	rows_free(&rows);
	return locked;
}

/*
 * gate_follow: likewise for the counters of a gate's key, which are locked.
 * They are not removed while something of the key is held (held.c).
 */
static int
gate_follow(const GdPolicy *policy, GdTable *buckets, const text *key, const GdHeld *held,
			bool sweep)
{
	int			changed = 0;
	Rows		rows;

	if (policy)
	{
		changed = gd_gate_heal(buckets, policy, key, held);
		gd_table_flush();
	}
	if (policy ? !sweep : gd_held_any(held, key))
		return changed;
	rows_lock(&rows, buckets, GD_GATE, key, false);
	if (rows.busy || (policy && !gate_is_full(policy, buckets, &rows)))
		;
	else
	{
		changed += rows_delete(&rows);
		(void) gd_credits_fold(key, GD_ALL_SHARDS, held->snapshot);
	}
	rows_free(&rows);
	gd_table_flush();
	return changed;
}

/*
 * gates_follow: bring the counters of gates' keys to their policies and to
 * what is held, of which is read only once.  Without wait, keys that other
 * transactions are at are left alone.  Returns how many rows were changed.
 */
static int
gates_follow(GdTable *buckets, List *keys, bool wait, bool sweep)
{
	List	   *locked = NIL;
	int			changed = 0;
	ListCell   *cell;
	GdPolicies	policies;
	GdHeld		held;

	foreach(cell, keys)
	{
		CHECK_FOR_INTERRUPTS();
		if (gate_lock(buckets, lfirst(cell), wait))
			locked = lappend(locked, lfirst(cell));
	}
	if (locked == NIL)
		return 0;
	gd_policies_begin(&policies);
	gd_held_begin(&held, &policies);
	foreach(cell, locked)
		changed += gate_follow(gd_policy_find(&policies, GD_GATE, lfirst(cell)), buckets,
							   lfirst(cell), &held, sweep);
	gd_held_end(&held);
	gd_policies_end(&policies);
	list_free(locked);
	return changed;
}

/*
 * next_key: the first key with counters from a place on; NULL if there is none.
 */
static text *
next_key(GdTable *buckets, GdLimitKind kind, const text *from, bool inclusive)
{
	text	   *key = NULL;
	GdScan		scan;

	gd_scan_begin(&scan, buckets, GD_BUCKETS_PKEY);
	gd_scan_text(&scan, 1, cstring_to_text(gd_limit_kinds[kind]));
	if (inclusive)
		gd_scan_key(&scan, 2, BTGreaterEqualStrategyNumber, F_TEXT_GE, PointerGetDatum(from));
	else
		gd_scan_key(&scan, 2, BTGreaterStrategyNumber, F_TEXT_GT, PointerGetDatum(from));
	gd_scan_start(&scan);
	if (gd_scan_next(&scan))
		key = DatumGetTextPCopy(gd_slot_datum(buckets, scan.slot, BUCKET_KEY));
	gd_scan_end(&scan);
	return key;
}

/*
 * keys_of_policy: the keys under a limit that have counters, in order.
 */
static List *
keys_of_policy(GdTable *buckets, const GdPolicy *policy)
{
	List	   *keys = NIL;
	text	   *prefix = cstring_to_text(psprintf("%s:", text_to_cstring(policy->name)));
	int			len = VARSIZE_ANY_EXHDR(prefix);
	text	   *key = next_key(buckets, policy->kind, policy->name, true);

	if (key && gd_text_equal(key, policy->name))
		keys = lappend(keys, key);
	for (key = next_key(buckets, policy->kind, prefix, true);
		 key && VARSIZE_ANY_EXHDR(key) >= len && memcmp(VARDATA_ANY(key), VARDATA_ANY(prefix), len) == 0;
		 key = next_key(buckets, policy->kind, key, false))
	{
		CHECK_FOR_INTERRUPTS();
		keys = lappend(keys, key);
	}
	return keys;
}

/*
 * gd_table_sync_config: see limiter.h.
 */
void
gd_table_sync_config(const GdPolicy *policy, const GdPolicy *was)
{
	GdTable    *buckets = gd_table_open(GD_BUCKETS);
	List	   *keys = keys_of_policy(buckets, policy);
	ListCell   *cell;

	if (policy->kind == GD_GATE)
		(void) gates_follow(buckets, keys, true, false);
	else
		foreach(cell, keys)
			(void) rate_follow(policy->capacity > 0 ? policy : NULL, was, buckets, lfirst(cell),
							   true, false);
	list_free_deep(keys);
	gd_table_close(buckets);
}

/*
 * gd_table_reconcile: see limiter.h.
 */
bool
gd_table_reconcile(int max_keys, TimestampTz now, int64 *buckets, int64 *gates)
{
	static GdLimitKind kind = GD_GATE;
	static char last[GD_NAME_MAX + 1] = "";
	GdTable    *table = gd_table_open(GD_BUCKETS);
	List	   *gate_keys = NIL;
	GdPolicies	policies;
	bool		whole = false;

	if (max_keys == GD_ALL_KEYS)
	{
		kind = GD_GATE;
		last[0] = '\0';
	}
	gd_policies_begin(&policies);
	for (int n = 0; n < max_keys || max_keys == GD_ALL_KEYS;)
	{
		text	   *key;

		CHECK_FOR_INTERRUPTS();
		key = next_key(table, kind, cstring_to_text(last), false);
		if (key)
		{
			const GdPolicy *policy = gd_policy_find(&policies, kind, key);

			text_to_cstring_buffer(key, last, sizeof(last));
			if (kind == GD_GATE)
				gate_keys = lappend(gate_keys, key);
			/* What is being changed follows its change. */
			else if (gd_policy_keep(kind, key, policy))
				*buckets += rate_follow(policy, NULL, table, key, false, true);
			n++;
			continue;
		}
		last[0] = '\0';
		whole = kind == GD_RATE;
		kind = whole ? GD_GATE : GD_RATE;
		if (whole)
			break;
	}
	gd_policies_end(&policies);
	*gates += gates_follow(table, gate_keys, false, true);
	list_free_deep(gate_keys);
	gd_table_close(table);
	gd_table_flush();
	gd_stats_count(NULL, GD_COUNT_BUCKETS, *buckets);
	gd_stats_count(NULL, GD_COUNT_GATES, *gates);
	if (*buckets + *gates > 0)
		gd_event("gc.swept", "count=0 buckets=%lld gates=%lld", (long long) *buckets,
				 (long long) *gates);
	return whole;
}
