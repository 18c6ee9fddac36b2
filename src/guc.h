/*
 * guc.h
 *		Settings.
 */
#ifndef GEN_DURABLE_GUC_H
#define GEN_DURABLE_GUC_H

#include "postgres.h"

/* The highest concurrency, prefetch and min_demand. */
#define GD_FEED_MAX 100000

/* How long a claim lasts. */
typedef enum GdClaimScope
{
	GD_CLAIM_LEASE,				/* until its lease ends */
	GD_CLAIM_SESSION			/* no longer than the session that made it */
} GdClaimScope;

/* Where limits are counted. */
typedef enum GdLimiterKind
{
	GD_LIMITER_TABLE,
	GD_LIMITER_REDIS
} GdLimiterKind;

extern int	gd_claim_scope;		/* a GdClaimScope */
extern double gd_clock_offset;	/* milliseconds added to the clock */
extern int	gd_commit_group;	/* steps */
extern int	gd_dedup_retention; /* seconds */
extern bool gd_defer_effects;
extern int	gd_dispatch_buffer; /* claims; fixed at server start */
extern int	gd_drain_timeout;	/* milliseconds */
extern bool gd_enabled;
extern int	gd_executor_idle_timeout;	/* milliseconds */
extern int	gd_executors_limit; /* processes for a queue and an owner */
extern int	gd_gc_batch;		/* rows */
extern int	gd_gc_interval;		/* milliseconds */
extern int	gd_gc_retention;	/* seconds */
extern int	gd_heartbeat_interval;	/* milliseconds */
extern int	gd_job_rows;		/* rows */
extern int	gd_lease_ttl;		/* milliseconds */
extern int	gd_limiter_kind;	/* a GdLimiterKind; fixed at server start */
extern bool gd_log_events;
extern int	gd_max_databases;	/* slots; fixed at server start */
extern int	gd_max_executors;	/* processes; fixed at server start */
extern int	gd_max_poll_interval;	/* milliseconds */
extern int	gd_max_queues;		/* entries; fixed at server start */
extern int	gd_min_demand;		/* claims */
extern bool gd_notify;
extern int	gd_poll_interval;	/* milliseconds */
extern int	gd_prefetch;		/* claims */
extern int	gd_reaper_interval; /* milliseconds */
extern int	gd_redis_lease;		/* milliseconds */
extern int	gd_redis_timeout;	/* milliseconds */
extern char *gd_redis_url;
extern int	gd_stats_interval;	/* milliseconds, or -1 */
extern int	gd_vacuum_churn;	/* dead for each live row; 0: never */

extern void gd_guc_init(void);

#endif							/* GEN_DURABLE_GUC_H */
