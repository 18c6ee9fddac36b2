/*
 * limiter.h
 *		Rate limits and concurrency gates: what the engine asks a limiter, and
 *		what a limiter promises.
 *
 * A limiter counts the tokens of rate limits and the slots of gates, by key.
 * The engine and the SQL functions admit, credit, renew and reconcile reach
 * it through one struct of functions, chosen by gen_durable.limiter.  Policies
 * (how large, how fast) are the engine's, in bucket_configs; a limiter is
 * given the policy with every key.
 *
 * What a limiter promises (GD-090..098):
 *
 *	- A batch of entries is in the order of (priority, eligible_at, id).  Of
 *	  each key what is granted is a prefix of the batch: once an entry does
 *	  not fit, none behind it does.  But a slot that an entry's rate limit
 *	  leaves unused goes to the next entry (D-3).
 *	- An entry is granted everything that it asks for, or nothing.
 *	- What is granted is debited before the call returns, in the caller's
 *	  transaction where the limiter keeps its counters in tables.
 *	- Nothing is ever granted that is not there, whatever fails.
 *	- A slot's shard means nothing to the engine.  It is kept with the claim
 *	  and given back with the credit.
 */
#ifndef GEN_DURABLE_LIMITER_H
#define GEN_DURABLE_LIMITER_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* The largest number of shards, and a shard that is none. */
#define GD_SHARDS_MAX 1000
#define GD_NO_SHARD (-1)

#define GD_ALL_KEYS 0

/* In the order in which counters are locked. */
typedef enum GdLimitKind
{
	GD_GATE,
	GD_RATE
} GdLimitKind;

/* A row of bucket_configs. */
typedef struct GdPolicy
{
	GdLimitKind kind;
	text	   *name;
	double		rate;			/* tokens a second; of a rate limit */
	double		capacity;		/* burst, or slots */
	int			shards;
} GdPolicy;

typedef enum GdVerdict
{
	GD_GRANTED,
	GD_LACKS_SLOT,				/* the gate is full */
	GD_LACKS_TOKENS,			/* the rate limit has too few */
	GD_CONTENDED				/* others are at the counter right now, and
								 * what they left does not do */
} GdVerdict;

/* One that wants a slot, tokens, or both. */
typedef struct GdEntry
{
	int64		id;
	const text *gate;			/* key, or NULL */
	const GdPolicy *gate_policy;
	const text *rate;			/* key, or NULL */
	const GdPolicy *rate_policy;	/* NULL: no such policy, nothing is
									 * granted */
	double		weight;			/* tokens */
	/* The answer. */
	GdVerdict	verdict;
	int			shard;			/* of the slot; GD_NO_SHARD without a gate */
	bool		lacks_slot;		/* if not granted: by the gate, else by the
								 * rate limit */
} GdEntry;

/* Slots of one key and shard. */
typedef struct GdSlots
{
	const text *key;
	const GdPolicy *policy;		/* NULL: the gate is no more */
	int			shard;
	int			count;
} GdSlots;

/* Keys that one caller takes from, and one of them; known to the limiter. */
typedef struct GdGrants GdGrants;
typedef struct GdGrantKey GdGrantKey;

typedef struct GdLimiter
{
	const char *name;
	bool		remote;			/* its counters are outside the database */

	/* Decide a batch.  Waits for nobody. */
	void		(*admit) (GdEntry *entries, int nentries, TimestampTz now);

	/*
	 * Grant one thing after the other, of keys that are opened when they are
	 * met, to a caller that uses each at once and is done with all of them at
	 * the end, before which nothing is written.  Only as much of a key is
	 * kept from others as is needed.  Waits for nobody.  What one that was
	 * granted could not use is put back.
	 *
	 * NULL where counters are outside the database: it is asked in batches.
	 */
	GdGrants   *(*begin) (TimestampTz now);
	GdGrantKey *(*key) (GdGrants *grants, const GdPolicy *policy, const text *key);
	GdVerdict	(*take) (GdGrantKey *grant, double cost, int *shard);
	void		(*untake) (GdGrantKey *grant, double cost, int shard);
	void		(*end) (GdGrants *grants);

	/*
	 * What a key has free, as far as can be told without asking for it; false
	 * if nothing can be told.  busy: others are at all of its counters.
	 */
	bool		(*look) (const GdPolicy *policy, const text *key, TimestampTz now,
						 double *available, bool *busy);

	/*
	 * Slots come back, sorted by key and shard.  Called just before commit:
	 * may not wait for other transactions, nor for anything outside.
	 */
	void		(*credit) (const GdSlots *slots, int nslots);

	/* Slots are held until at least so long. */
	void		(*renew) (const GdSlots *slots, int nslots, TimestampTz until);

	/*
	 * A policy was made, changed, or dropped (capacity 0): counters of its
	 * keys follow.  was: what it was before; NULL if there was none.
	 */
	void		(*sync_config) (const GdPolicy *policy, const GdPolicy *was);

	/*
	 * Compare counters with what is held, and remove those that say nothing.
	 * Of at most so many keys, going on where the session stopped last, or of
	 * GD_ALL_KEYS from the first on; returns whether the last one was met.
	 */
	bool		(*reconcile) (int max_keys, TimestampTz now, int64 *buckets, int64 *gates);
} GdLimiter;

extern const GdLimiter *gd_limiter(void);
extern const GdLimiter gd_table_limiter;

#endif							/* GEN_DURABLE_LIMITER_H */
