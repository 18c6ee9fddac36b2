/*
 * held.c
 *		The table backend: who holds slots of gates.
 *
 * An executing row under a gate holds a slot, and so does a lease that admit()
 * gave.  That is the truth which the counters of gates follow (GD-142).
 *
 * It is seldom asked for: when limits are changed or reconciled, and not by
 * claims.  So executing rows have no index by key, which each claim would pay
 * for; all of them are read, through the index of leases, for all keys that
 * are asked for at a time.
 *
 * Claims can do without since the counters of a gate's key are only removed
 * while none of its slots is held, be its policy there or not.  A key without
 * counters has all its slots, then.  Only somebody's SQL, or claims made while
 * a limiter outside the database was used, can leave a slot without a counter:
 * the first cold key that a session meets looks for that.
 *
 * Locks: access share on the tables read.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "limiter/counters.h"
#include "limiter/held.h"
#include "names.h"

/* What is held of one key. */
typedef struct HeldKey
{
	char		name[GD_NAME_MAX + 1];	/* the hash key */
	const GdPolicy *policy;		/* NULL: it has no gate any more */
	int64	   *slots;			/* of each shard that the policy has */
} HeldKey;

typedef void (*HeldFn) (void *arg, const text *key, int shard);

/*
 * held_executing: tell of each slot that an executing row holds.
 */
static void
held_executing(Snapshot snapshot, HeldFn fn, void *arg)
{
	GdTable    *instances = gd_table_open_read(GD_INSTANCES);
	GdScan		scan;

	gd_scan_begin_snapshot(&scan, instances, GD_INSTANCES_LEASE, snapshot);
	gd_scan_start(&scan);
	while (gd_scan_next(&scan))
	{
		bool		no_slot;
		Datum		shard = gd_slot_value(instances, scan.slot, INST_CONCURRENCY_SHARD, &no_slot);
		bool		no_key;
		Datum		key;

		CHECK_FOR_INTERRUPTS();
		if (no_slot || DatumGetInt32(shard) < 0)
			continue;
		key = gd_slot_value(instances, scan.slot, INST_CONCURRENCY_KEY, &no_key);
		if (!no_key)
			fn(arg, DatumGetTextPP(key), DatumGetInt32(shard));
	}
	gd_scan_end(&scan);
	gd_table_close(instances);
}

/*
 * held_leases: tell of each slot that a program holds by a lease, of one key or
 * (if that is NULL) of all.
 */
static void
held_leases(const text *key, Snapshot snapshot, HeldFn fn, void *arg)
{
	GdTable    *holders = gd_table_open_read(GD_HOLDERS);
	GdScan		scan;

	gd_scan_begin_snapshot(&scan, holders, GD_HOLDERS_KEY, snapshot);
	if (key)
		gd_scan_text(&scan, 1, key);
	gd_scan_start(&scan);
	while (gd_scan_next(&scan))
	{
		int			shard = DatumGetInt32(gd_slot_datum(holders, scan.slot, HOLDER_SHARD));

		if (shard >= 0)
			fn(arg, DatumGetTextPP(gd_slot_datum(holders, scan.slot, HOLDER_KEY)), shard);
	}
	gd_scan_end(&scan);
	gd_table_close(holders);
}

/* Counting the slots of one key. */
typedef struct OneKey
{
	const text *key;
	const GdPolicy *policy;
	int64	   *slots;
} OneKey;

/*
 * one_key_count: a slot whose shard is no more, since the policy has fewer now,
 * counts for one that is.
 */
static void
one_key_count(void *arg, const text *key, int shard)
{
	OneKey	   *one = arg;

	if (gd_text_equal(key, one->key))
		one->slots[shard % one->policy->shards]++;
}

/*
 * gd_held_of: how many slots of each shard of one key are held.
 */
void
gd_held_of(const text *key, const GdPolicy *policy, Snapshot snapshot, int64 *slots)
{
	OneKey		one = {key, policy, slots};

	memset(slots, 0, sizeof(int64) * policy->shards);
	held_executing(snapshot, one_key_count, &one);
	held_leases(key, snapshot, one_key_count, &one);
}

static void
all_keys_count(void *arg, const text *key, int shard)
{
	GdHeld	   *held = arg;
	char		name[GD_NAME_MAX + 1];
	HeldKey    *entry;
	bool		found;

	text_to_cstring_buffer(key, name, sizeof(name));
	entry = hash_search(held->keys, name, HASH_ENTER, &found);
	if (!found)
	{
		entry->policy = gd_policy_find(held->policies, GD_GATE, key);
		entry->slots = entry->policy ? palloc0(sizeof(int64) * entry->policy->shards) : NULL;
	}
	if (entry->policy)
		entry->slots[shard % entry->policy->shards]++;
}

static void
held_collect(GdHeld *held, GdPolicies *policies, Snapshot snapshot)
{
	HASHCTL		ctl;

	held->snapshot = snapshot;
	held->policies = policies;
	ctl.keysize = sizeof(((HeldKey *) 0)->name);
	ctl.entrysize = sizeof(HeldKey);
	ctl.hcxt = CurrentMemoryContext;
	held->keys = hash_create("gen_durable held slots", 256, &ctl,
							 HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	held_executing(snapshot, all_keys_count, held);
	held_leases(NULL, snapshot, all_keys_count, held);
}

/*
 * gd_held_begin: what is held of all keys by now.
 */
void
gd_held_begin(GdHeld *held, GdPolicies *policies)
{
	held_collect(held, policies, RegisterSnapshot(GetLatestSnapshot()));
}

void
gd_held_end(GdHeld *held)
{
	hash_destroy(held->keys);
	UnregisterSnapshot(held->snapshot);
}

static HeldKey *
held_find(const GdHeld *held, const text *key)
{
	char		name[GD_NAME_MAX + 1];

	text_to_cstring_buffer(key, name, sizeof(name));
	return hash_search(held->keys, name, HASH_FIND, NULL);
}

/*
 * gd_held_any: is any slot of a key held?
 */
bool
gd_held_any(const GdHeld *held, const text *key)
{
	return held_find(held, key) != NULL;
}

/*
 * gd_held_slots: how many slots of each shard of a key are held.
 */
void
gd_held_slots(const GdHeld *held, const text *key, const GdPolicy *policy, int64 *slots)
{
	HeldKey    *entry = held_find(held, key);

	memset(slots, 0, sizeof(int64) * policy->shards);
	if (entry == NULL || entry->policy == NULL)
		return;
	for (int s = 0; s < entry->policy->shards; s++)
		slots[s % policy->shards] += entry->slots[s];
}

/*
 * held_are_counted: has every key of which something is held counters?
 */
static bool
held_are_counted(const GdHeld *held)
{
	GdTable    *buckets = gd_table_open_read(GD_BUCKETS);
	bool		counted = true;
	HASH_SEQ_STATUS all;
	HeldKey    *entry;
	GdScan		scan;

	gd_scan_begin_snapshot(&scan, buckets, GD_BUCKETS_PKEY, held->snapshot);
	hash_seq_init(&all, held->keys);
	while ((entry = hash_seq_search(&all)) != NULL)
		counted &= entry->policy == NULL ||
			gd_counters_scan(&scan, GD_GATE, cstring_to_text(entry->name), GD_ALL_SHARDS);
	gd_scan_end(&scan);
	gd_table_close(buckets);
	return counted;
}

/*
 * gd_held_cold: how many slots of each shard of a key without counters are
 * held.
 *
 * None, but by leases, once this session has seen that whatever is held is
 * counted.  A limiter outside the database needs the library preloaded, where
 * only a restart changes the limiter; so what a session has seen stays true.
 */
void
gd_held_cold(const text *key, const GdPolicy *policy, Snapshot snapshot, int64 *slots)
{
	static bool all_counted = false;
	OneKey		one = {key, policy, slots};
	GdPolicies	policies;
	GdHeld		held;

	if (all_counted)
	{
		memset(slots, 0, sizeof(int64) * policy->shards);
		held_leases(key, snapshot, one_key_count, &one);
		return;
	}
	gd_policies_begin(&policies);
	held_collect(&held, &policies, snapshot);
	gd_held_slots(&held, key, policy, slots);
	all_counted = held_are_counted(&held);
	hash_destroy(held.keys);
	gd_policies_end(&policies);
}
