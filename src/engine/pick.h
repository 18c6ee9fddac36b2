/*
 * pick.h
 *		Claiming steps.
 */
#ifndef GEN_DURABLE_PICK_H
#define GEN_DURABLE_PICK_H

#include "postgres.h"

#include "engine/job.h"
#include "engine/runners.h"

/* With this begin the names under which executors claim. */
#define GD_EXECUTOR_NAME "gen_durable executor"

/* As locked_by has claims that are made ahead until a heartbeat of who took it. */
#define GD_SCHEDULER_NAME "gen_durable scheduler"

/* What a worker asks for. */
typedef struct GdPickRequest
{
	text	   *queue;
	text	   *worker;
	int			batch;
	Interval   *lease_ttl;		/* NULL: the queue's */
	bool		one_document;	/* the jobs must fit into one jsonb */
	GdClaimant	claimant;		/* for whom */
	bool		any_time;		/* steps of the future too */
	bool		ahead;			/* the scheduler asks, for who will take */
	TimestampTz *next_due;		/* lowered to when a step of the future that
								 * was met is due; or NULL */
} GdPickRequest;

extern void gd_pick_request(FunctionCallInfo fcinfo, int first_arg, GdPickRequest *request);
extern int	gd_pick_jobs(const GdPickRequest *request, GdJob **jobs);
extern Datum gd_pick_return(FunctionCallInfo fcinfo, GdJob *jobs, int njobs);

#endif							/* GEN_DURABLE_PICK_H */
