/*
 * step.h
 *		Running one step in the server.
 */
#ifndef GEN_DURABLE_STEP_H
#define GEN_DURABLE_STEP_H

#include "postgres.h"

#include "engine/job.h"
#include "engine/outcome.h"
#include "engine/runners.h"

/* A step that this process is to run.  All is in the caller's memory. */
typedef struct GdStep
{
	const GdJob *job;
	GdRunner	runner;
	int			timeout_ms;		/* the machine's; 0: none */
} GdStep;

/* What is done with a step's outcome before its subtransaction ends. */
typedef void (*GdStepFinish) (const GdStep *step, GdOutcome *outcome, void *arg);

extern bool gd_step_find(GdStep *step, const GdJob *job);
extern void gd_step_run(const GdStep *step, GdOutcome *outcome);
extern bool gd_step_try(const GdStep *step, GdOutcome *outcome, GdStepFinish finish, void *arg);
extern bool gd_step_failed(const GdStep *step, ErrorData *error, GdOutcome *outcome,
						   GdStepFinish finish, void *arg);
extern void gd_step_failed_twice(ErrorData *error, ErrorData *second, GdOutcome *outcome);
extern bool gd_step_running(void);

#endif							/* GEN_DURABLE_STEP_H */
