/*
 * counters.h
 *		The table backend's counters, shared by its files: rows of buckets.
 *
 * A key's counters are the rows (kind, key, 0 .. shards - 1).  None of them
 * means that the key was never used, or has been idle: it then has what its
 * policy allows.
 */
#ifndef GEN_DURABLE_COUNTERS_H
#define GEN_DURABLE_COUNTERS_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "utils/snapshot.h"

#include "limiter/held.h"
#include "limiter/limiter.h"
#include "table.h"

/* One row of buckets as it is to be. */
typedef struct GdShard
{
	int			shard;
	GdRow	   *row;			/* locked; NULL: to be inserted */
	double		capacity;
	double		available;
	double		debt;
	TimestampTz last_refill;
} GdShard;

extern bool gd_counters_scan(GdScan *scan, GdLimitKind kind, const text *key, int shard);
extern void gd_shard_load(GdShard *shard, GdTable *buckets, GdRow *row);
extern void gd_shard_write(GdTable *buckets, GdLimitKind kind, const text *key, GdShard *shard);
extern int64 gd_credits_sum(const text *key, int shard);
extern int64 gd_credits_fold(const text *key, int shard, Snapshot snapshot);
extern void gd_gate_shares(const GdPolicy *policy, const int64 *slots, GdShard *shards);
extern int	gd_gate_heal(GdTable *buckets, const GdPolicy *policy, const text *key,
						 const GdHeld *known);

extern void gd_table_admit(GdEntry *entries, int nentries, TimestampTz now);
extern GdGrants *gd_table_begin(TimestampTz now);
extern GdGrantKey *gd_table_key(GdGrants *grants, const GdPolicy *policy, const text *key);
extern void gd_table_spread(GdGrantKey *grant);
extern GdVerdict gd_table_take(GdGrantKey *grant, double cost, int *shard);
extern void gd_table_untake(GdGrantKey *grant, double cost, int shard);
extern void gd_table_end(GdGrants *grants);
extern bool gd_table_look(const GdPolicy *policy, const text *key, TimestampTz now,
						  double *available, bool *busy);
extern void gd_table_credit(const GdSlots *slots, int nslots);
extern void gd_table_sync_config(const GdPolicy *policy, const GdPolicy *was);
extern bool gd_table_reconcile(int max_keys, TimestampTz now, int64 *buckets, int64 *gates);

#define GD_ALL_SHARDS (-1)

#endif							/* GEN_DURABLE_COUNTERS_H */
