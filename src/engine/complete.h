/*
 * complete.h
 *		Committing outcomes.
 */
#ifndef GEN_DURABLE_COMPLETE_H
#define GEN_DURABLE_COMPLETE_H

#include "postgres.h"

#include "utils/jsonb.h"
#include "utils/uuid.h"

#include "engine/instance.h"
#include "engine/outcome.h"
#include "engine/pick.h"

/* What became of one outcome of a batch. */
typedef struct GdResult
{
	int64		id;				/* the instance; 0 if the token names none */
	const char *result;			/* committed, stale, or invalid: and why */
	int			sqlerrcode;		/* 0 if committed */
	const char *hint;			/* or NULL */
} GdResult;

/*
 * For whom steps run on in the claim that they hold (GD-325): the jobs of
 * their next steps.
 */
typedef struct GdRunAhead
{
	const GdPickRequest *request;
	TimestampTz lease_expires_at;
	GdJob	   *jobs;
	int			njobs;
	int			max;
	Size		bytes;			/* of the jobs */
} GdRunAhead;

/* The end of a step. */
typedef struct GdStepEnd
{
	pg_uuid_t	token;
	GdOutcome	outcome;
	GdFence		fence;			/* what became of it: committed if held */
	GdOutcomeKind became;		/* what it was taken for: a fail is a retry or
								 * a stop */
} GdStepEnd;

extern void gd_run_ahead_begin(GdRunAhead *ahead, const GdPickRequest *request);
extern int	gd_complete_batch(Jsonb *outcomes, GdRunAhead *ahead, GdResult **results);
extern void gd_complete_steps(GdStepEnd *ends, int n, GdRunAhead *ahead);
extern void gd_complete_raise(const pg_uuid_t *token, GdFence fence);
extern bool gd_complete_cancelled(const pg_uuid_t *token);

#endif							/* GEN_DURABLE_COMPLETE_H */
