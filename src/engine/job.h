/*
 * job.h
 *		A claimed step as a worker gets it: type gen_durable.job.
 */
#ifndef GEN_DURABLE_JOB_H
#define GEN_DURABLE_JOB_H

#include "postgres.h"

#include "utils/jsonb.h"
#include "utils/tuplestore.h"

#include "place.h"
#include "engine/inbox.h"
#include "table.h"

/*
 * Bytes that each list of a job, and all jobs of one document, are kept to:
 * jsonb cannot hold more than 256 MB of elements, and a job that cannot be
 * built would stand in its queue's way for ever.
 */
#define GD_JOB_BYTES (32 * 1024 * 1024)

/* Attributes of gen_durable.job, in order. */
typedef enum GdJobColumn
{
	JOB_TOKEN, JOB_ID, JOB_FSM, JOB_FSM_VERSION, JOB_STEP, JOB_STATE, JOB_ATTEMPT,
	JOB_AWAITED, JOB_SIGNALS, JOB_CHILDREN, JOB_QUEUE, JOB_CONCURRENCY_KEY,
	JOB_LEASE_EXPIRES_AT,
	JOB_NCOLUMNS
} GdJobColumn;

typedef struct GdJob
{
	Datum		values[JOB_NCOLUMNS];
	bool		nulls[JOB_NCOLUMNS];
	GdPlace		place;			/* that it had in its queue */
	bool		plain;			/* claimed without a key or a limit */
	ItemPointerData tid;		/* of the claimed row */
} GdJob;

/* What loads the inboxes and children of the jobs of one call. */
typedef struct GdJobLoader
{
	GdTable    *signals;
	bool		any_signals;	/* in any inbox */
	GdScan		inboxes;
	GdScan		children;
	Datum		none;			/* an empty jsonb array */
} GdJobLoader;

extern void gd_job_loader_begin(GdJobLoader *loader, GdTable *instances);
extern void gd_job_loader_refresh(GdJobLoader *loader);
extern void gd_job_loader_end(GdJobLoader *loader);
extern void gd_job_load(GdJobLoader *loader, GdRow *row, GdJob *job);
extern void gd_job_load_claimed(GdJobLoader *loader, GdRow *row, GdJob *job);
extern void gd_job_finish(GdRow *row, GdJob *job);
extern Size gd_job_size(const GdJob *job);
extern void gd_jobs_sort(GdJob *jobs, int njobs);
extern Datum gd_jobs_jsonb(GdJob *jobs, int njobs);

#endif							/* GEN_DURABLE_JOB_H */
