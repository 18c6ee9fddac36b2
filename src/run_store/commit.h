/*
 * commit.h
 *		The next checkpoint of a run: what a caller proposes, and committing it.
 */
#ifndef GEN_DURABLE_RUN_COMMIT_H
#define GEN_DURABLE_RUN_COMMIT_H

#include "postgres.h"

#include "run_store/run.h"

typedef enum GdRunSchedule
{
	GD_SCHEDULE_RETAIN, GD_SCHEDULE_IMMEDIATE, GD_SCHEDULE_AT,
	GD_SCHEDULE_EXTERNAL, GD_SCHEDULE_TERMINAL,
	GD_NSCHEDULES
} GdRunSchedule;

/* An instant that may be left out. */
typedef struct GdRunTime
{
	bool		given;
	TimestampTz at;
} GdRunTime;

typedef struct GdRunProposal
{
	const pg_uuid_t *token;		/* of the claim, or NULL: unclaimed */
	int64		expected_seq;	/* the new one is the next */
	text	   *checkpoint_type;
	text	   *schedule_name;
	text	   *status_name;
	int			step;
	Datum		state;
	GdRunTime	wake_at;
	GdRunTime	updated_at;
	GdRunTime	finished_at;
	text	   *graph_id;		/* this and the next: NULL or as stored */
	text	   *graph_hash;
	GdRunTime	started_at;

	/* Set by gd_run_proposal_check. */
	GdRunSchedule schedule;
	GdRunStatus status;
} GdRunProposal;

extern void gd_run_proposal_check(GdRunProposal *proposal);
extern void gd_run_commit_proposal(GdRuns *runs, const GdRunScope *scope, const text *run_id,
								   const GdRunProposal *proposal);

#endif							/* GEN_DURABLE_RUN_COMMIT_H */
