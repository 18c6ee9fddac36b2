/*
 * arithmetic.h
 *		The sums of limits (GD-100..121), apart from where they are kept.
 */
#ifndef GEN_DURABLE_ARITHMETIC_H
#define GEN_DURABLE_ARITHMETIC_H

#include "postgres.h"

#include <math.h>

#include "datatype/timestamp.h"

#include "limiter/limiter.h"

/*
 * What a shard can hold.  A gate's slots are whole: the first shards have one
 * more where they do not divide (GD-102).  A burst divides as it is (GD-103).
 */
static inline double
gd_shard_capacity(const GdPolicy *policy, int shard)
{
	double		whole;

	if (shard < 0 || shard >= policy->shards)
		return 0;
	if (policy->kind == GD_RATE)
		return policy->capacity / policy->shards;
	whole = floor(policy->capacity / policy->shards);
	return whole + (shard < policy->capacity - whole * policy->shards ? 1 : 0);
}

/*
 * Tokens of a shard at an instant: what it had, and what came since, at most
 * what it can hold (GD-117).  A clock that went back brings nothing.
 */
static inline double
gd_shard_refilled(const GdPolicy *policy, double available, TimestampTz last_refill,
				  TimestampTz now)
{
	double		capacity = policy->capacity / policy->shards;
	double		seconds = now > last_refill ? (now - last_refill) / (double) USECS_PER_SEC : 0;

	return Min(capacity, available + seconds * (policy->rate / policy->shards));
}

/*
 * Tokens of a shard after so much of the total of all shards was taken: each
 * gives the same part (GD-121), within its bounds (D-14).
 */
static inline double
gd_shard_debited(double available, double capacity, double consumed, double total)
{
	double		left = total > 0 ? available * (1 - consumed / total) : available;

	return Max(0, Min(left, capacity));
}

/*
 * How long until so many tokens more have come, in microseconds.
 */
static inline int64
gd_refill_time(const GdPolicy *policy, double tokens)
{
	double		usecs = ceil(tokens / policy->rate * USECS_PER_SEC);

	/* A hundred years is as good as never, and can be added to any clock. */
	return (int64) Max(0, Min(usecs, 100.0 * 365 * USECS_PER_DAY));
}

#endif							/* GEN_DURABLE_ARITHMETIC_H */
