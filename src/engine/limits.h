/*
 * limits.h
 *		Rate limits and gates in a pick: what it knows of their keys, and the
 *		rows that it holds ready to be admitted.
 */
#ifndef GEN_DURABLE_LIMITS_H
#define GEN_DURABLE_LIMITS_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "utils/hsearch.h"

#include "place.h"
#include "limiter/limiter.h"
#include "limiter/policy.h"
#include "names.h"
#include "table.h"

/* Rows that are held ready at most: each pins a page. */
#define GD_READY_MAX 500

/* What a pick knows of one limited key. */
typedef struct GdLimitKey
{
	char		mark[GD_NAME_MAX + 8];	/* <kind>:<key>; the hash key */
	GdLimitKind kind;
	text	   *key;
	const GdPolicy *policy;		/* NULL: a rate limit that was dropped */
	double		available;		/* as it was seen at the first candidate */
	double		used;			/* by rows that are ready or claimed */
	bool		closed;			/* a row was refused: so are all that follow */
	bool		busy;			/* others are at its counters */
	bool		begun;			/* promoted rows have been looked for */
	bool		waiting;		/* rows of the queue are blocked on it */
	GdPlace		next;			/* the first of them not looked at yet */
	GdGrantKey *grant;			/* what is taken from, or NULL */
	int64		granted;
	int64		refused;
} GdLimitKey;

/* What a candidate's limits say. */
typedef struct GdGrant
{
	GdLimitKey *gate;			/* or NULL */
	GdLimitKey *rate;			/* or NULL */
	double		weight;			/* tokens */
	int			shard;			/* of its slot, or GD_NO_SHARD */
	GdLimitKey *refused_by;		/* which did not grant it */
} GdGrant;

/* A candidate that its limits must admit. */
typedef struct GdReady
{
	GdRow	   *row;			/* locked */
	GdPlace		place;
	GdLimitKey *gate;			/* or NULL */
	GdLimitKey *rate;			/* or NULL */
	GdVerdict	verdict;
	int			shard;			/* of its slot, or GD_NO_SHARD */
	GdLimitKey *refused_by;		/* which did not grant it */
} GdReady;

typedef struct GdLimits
{
	GdTable    *instances;
	const text *queue;
	TimestampTz now;
	GdPolicies	policies;
	HTAB	   *keys;			/* NULL until the first limited candidate */
	GdLimitKey *last[2];		/* the key of each kind that was met last */
	GdGrants   *grants;			/* what is taken and not written, or NULL */
	GdReady    *ready;			/* the rows held ready */
	int			nready;
	int			passed;			/* rows left alone because others were at
								 * their counters */
} GdLimits;

extern void gd_limits_begin(GdLimits *limits, GdTable *instances, const text *queue,
							TimestampTz now);
extern void gd_limits_end(GdLimits *limits);
extern GdLimitKey *gd_limits_gate(GdLimits *limits, const text *key);
extern GdLimitKey *gd_limits_rate(GdLimits *limits, const text *key);
extern bool gd_limits_busy(GdLimits *limits, GdRow *row);
extern bool gd_limit_fits(const GdLimitKey *key, GdRow *row);
extern TimestampTz gd_limit_refuse(GdLimits *limits, GdLimitKey *key, GdRow *row);
extern TimestampTz gd_limit_refused(GdLimits *limits, GdLimitKey *key, GdRow *row);
extern void gd_limit_reserve(GdLimitKey *key, GdRow *row);
extern void gd_limits_take(GdLimits *limits, GdRow *row, GdLimitKey *gate, GdLimitKey *rate);
extern GdVerdict gd_limits_grant(GdLimits *limits, GdRow *row, GdGrant *grant);
extern void gd_limits_put_back(GdLimits *limits, const GdGrant *grant);
extern void gd_limits_settle(GdLimits *limits);
extern void gd_limits_decide(GdLimits *limits);
extern void gd_limits_credit(const char *key, int shard, int count);

#endif							/* GEN_DURABLE_LIMITS_H */
