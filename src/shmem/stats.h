/*
 * stats.h
 *		What the view `stats` shows of each queue: how many rows are in which
 *		state, and how often what has happened; and `run_stats` of the run
 *		store.
 */
#ifndef GEN_DURABLE_STATS_H
#define GEN_DURABLE_STATS_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "utils/snapshot.h"

/* What a live row counts as.  One that ended counts as nothing. */
typedef enum GdGauge
{
	GD_GAUGE_READY,				/* runnable, and due when it was written */
	GD_GAUGE_SCHEDULED,			/* runnable, written to be due later */
	GD_GAUGE_BLOCKED,			/* runnable, but a key or a limit refuses it */
	GD_GAUGE_EXECUTING,
	GD_GAUGE_AWAITING_SIGNAL,
	GD_GAUGE_AWAITING_CHILDREN,
	GD_NGAUGES,
	GD_GAUGE_NONE = GD_NGAUGES
} GdGauge;

/* What is counted since the server's start, in the order of the view. */
typedef enum GdCounter
{
	GD_COUNT_INSERTED,
	GD_COUNT_DUPLICATES,		/* inserts that met their key's occupant */
	GD_COUNT_PICKS,				/* calls that claim */
	GD_COUNT_WANTED,			/* rows that they asked for */
	GD_COUNT_CLAIMS,			/* rows that they got */
	GD_COUNT_NEXT,				/* outcomes, by kind, as in GdOutcomeKind */
	GD_COUNT_RETRY,
	GD_COUNT_AWAIT,
	GD_COUNT_CHILDREN,
	GD_COUNT_DONE,
	GD_COUNT_STOP,
	GD_COUNT_FAIL,
	GD_COUNT_STEP_TIME,			/* microseconds from claims to outcomes */
	GD_COUNT_STALE,				/* outcomes of a claim that is over */
	GD_COUNT_INVALID,			/* outcomes of a batch that were refused */
	GD_COUNT_CANCELLED,
	GD_COUNT_RELEASED,			/* claims given back */
	GD_COUNT_REAPED,
	GD_COUNT_RECLAIMED,
	GD_COUNT_TIMEOUTS,
	GD_COUNT_COLLECTED,			/* ended instances that gc deleted */
	GD_COUNT_KEY_REFUSED,		/* a concurrency key or gate refused a row */
	GD_COUNT_RATE_REFUSED,		/* a rate limit did */
	GD_COUNT_RATE_UNKNOWN,		/* an outcome named a rate limit that is not
								 * configured */
	GD_COUNT_CONTENDED,			/* a row was passed over: its key is being
								 * decided by another transaction */
	GD_COUNT_CONTINUED,			/* steps run on without another claim */
	GD_COUNT_YIELDED,			/* chains of them that were broken */
	GD_COUNT_BUCKETS,			/* rate buckets that reconcile put right */
	GD_COUNT_GATES,				/* gates likewise */
	GD_NCOUNTERS
} GdCounter;

/* What is counted of the run store, in the order of its view. */
typedef enum GdRunCounter
{
	GD_RUNS_INSERTED,
	GD_RUNS_SCANS,				/* calls that claim */
	GD_RUNS_SCAN_TIME,			/* microseconds that they took */
	GD_RUNS_WANTED,				/* runs that they asked for */
	GD_RUNS_READY_CANDIDATES,	/* runs that they looked at, by class */
	GD_RUNS_EXPIRED_CANDIDATES,
	GD_RUNS_READY_OUTCOMES,		/* leases and poisonings, by class */
	GD_RUNS_EXPIRED_OUTCOMES,
	GD_RUNS_FALLBACKS,			/* calls for one run that got it from the
								 * class that was not preferred */
	GD_RUNS_ACQUIRED,			/* leases of a first attempt */
	GD_RUNS_REACQUIRED,			/* leases of a later one */
	GD_RUNS_STEALS,				/* leases of an expired claim */
	GD_RUNS_ATTEMPTS,			/* sum of the leases' attempts */
	GD_RUNS_POISONED_ATTEMPTS,	/* poisoned, by reason */
	GD_RUNS_POISONED_ABANDONS,
	GD_RUNS_REFRESHED,
	GD_RUNS_REFRESH_LOST,
	GD_RUNS_REFRESH_TIME,
	GD_RUNS_RELEASED,
	GD_RUNS_RELEASE_MISSED,		/* the claim was not current */
	GD_RUNS_RELEASE_TIME,
	GD_RUNS_RESCHEDULED,
	GD_RUNS_ABANDON_STALE,
	GD_RUNS_ABANDON_TIME,
	GD_RUNS_RECOVERED,
	GD_RUNS_RECOVERY_HEALTHY,	/* there was nothing to recover */
	GD_RUNS_RECOVERY_INACTIVE,	/* the run was terminal */
	GD_RUNS_RECOVERY_TIME,
	GD_RUNS_COMMIT_RETAIN,		/* commits, by schedule, as in GdRunSchedule */
	GD_RUNS_COMMIT_IMMEDIATE,
	GD_RUNS_COMMIT_AT,
	GD_RUNS_COMMIT_EXTERNAL,
	GD_RUNS_COMMIT_TERMINAL,
	GD_RUNS_UNCLAIMED,			/* those of them that had no claim */
	GD_RUNS_STALE,				/* commits behind a lost fence */
	GD_RUNS_COLLECTED,			/* ended runs that gc deleted */
	GD_NRUN_COUNTERS
} GdRunCounter;

/* A queue as it stands. */
typedef struct GdQueueStats
{
	int			name_len;		/* 0: what belongs to no queue, and to those
								 * that found no place */
	char		name[256];
	int64		gauges[GD_NGAUGES];
	int64		counters[GD_NCOUNTERS];
	TimestampTz since;			/* counted from then on */
} GdQueueStats;

extern Size gd_stats_size(void);
extern void gd_stats_attach(void *start, bool first);
extern void gd_stats_init(void);

/* Of the running transaction: they count when it commits.  NULL: no queue. */
extern void gd_stats_count(const text *queue, GdCounter counter, int64 n);
extern void gd_stats_move(const text *queue, GdGauge from, GdGauge to);

/* At once, whatever becomes of the transaction. */
extern void gd_stats_count_now(const text *queue, GdCounter counter, int64 n);

/* The same of the run store. */
extern void gd_stats_count_run(GdRunCounter counter, int64 n);
extern void gd_stats_count_run_now(GdRunCounter counter, int64 n);
extern bool gd_stats_read_runs(int64 *counters, TimestampTz *since);

extern int	gd_stats_read(GdQueueStats **queues, TimestampTz *counted_at);
extern void gd_stats_forget(Oid database);

/* The count of all rows, by which the gauges are set right. */
extern bool gd_stats_rebase_begin(Snapshot snapshot);
extern void gd_stats_rebase_row(const text *queue, GdGauge gauge);
extern bool gd_stats_rebase_owed(void);
extern void gd_stats_rebase_end(bool complete);

#endif							/* GEN_DURABLE_STATS_H */
