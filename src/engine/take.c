/*
 * take.c
 *		take: claiming steps, out of the scheduler's buffer where the queue is
 *		fed.
 *
 * A claim in the buffer (shmem/dispatch.c) is made and committed already, so
 * taking it writes nothing: its row is read under a snapshot that is newer
 * than the claim, without a lock.  One whose token is void by then is dropped.
 * What the buffer does not give is claimed as by a pick.
 *
 * A take with a lease of its own, or on a queue that nobody feeds, is a pick.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/dispatched.h"
#include "engine/effects.h"
#include "engine/instance.h"
#include "engine/queues.h"
#include "engine/session.h"
#include "engine/take.h"
#include "events.h"
#include "guc.h"
#include "names.h"
#include "shmem/dispatch.h"
#include "shmem/shmem.h"
#include "shmem/stats.h"

PG_FUNCTION_INFO_V1(gd_take);

typedef struct Take
{
	const GdPickRequest *request;
	GdWakeKey	key;
	TimestampTz now;
	GdJob	   *jobs;
	int			njobs;
	int			size;			/* of jobs */
	Size		bytes;			/* of the jobs, where they go into one
								 * document */
} Take;

/*
 * take_is_fed: may the buffer have something for this request?
 */
static bool
take_is_fed(const GdPickRequest *request, GdWakeKey key)
{
	if (request->lease_ttl || !gd_shmem_ready())
		return false;
	return gd_feed_is_open(key) || (gd_prefetch > 0 && gd_feed_observe(request->queue));
}

static void
take_put(Take *take, const GdJob *job)
{
	if (take->njobs == take->size)
	{
		take->size *= 2;
		take->jobs = repalloc_huge(take->jobs, sizeof(GdJob) * take->size);
	}
	take->jobs[take->njobs++] = *job;
	if (take->request->one_document)
		take->bytes += gd_job_size(job);
}

/*
 * take_claim: build the job of a claim that was taken, if it still holds.
 *
 * One whose cancellation was asked for, or whose lease has just run out, is
 * not handed out, but released by the scheduler.
 */
static void
take_claim(Take *take, GdScan *by_id, GdRow *row, GdJobLoader *loader,
		   const GdTaken *taken)
{
	const pg_uuid_t *token = &taken->token;
	GdFence		fence = gd_instance_fence_at(by_id, row, token, &taken->tid);
	GdJob		job;

	if (fence == GD_FENCE_STALE)
	{
		gd_dispatch_remove(token);
		return;
	}
	if (fence == GD_FENCE_CANCEL || take->bytes >= GD_JOB_BYTES ||
		DatumGetTimestampTz(GD_VALUE(row, INST_LEASE_EXPIRES_AT)) <= take->now)
	{
		gd_dispatch_spend(token);
		return;
	}
	gd_job_load_claimed(loader, row, &job);
	gd_job_finish(row, &job);
	gd_session_claimed(token);
	take_put(take, &job);
}

/*
 * take_buffered: take what the buffer has, up to the batch.
 */
static void
take_buffered(Take *take)
{
	int			batch = take->request->batch;
	GdTaken    *taken = palloc(sizeof(GdTaken) * Min(batch, gd_dispatch_buffer));
	int			n = 0;
	GdTable    *instances;
	GdRow	   *row;
	GdScan		by_id;
	GdJobLoader loader;

	while (n < Min(batch, gd_dispatch_buffer) &&
		   gd_dispatched_take(take->key, take->request->worker, take->now, &taken[n]))
		n++;
	if (n > 0)
	{
		/* The snapshots are taken now, so they see the claims. */
		instances = gd_table_open_read(GD_INSTANCES);
		row = gd_row_create(instances);
		gd_scan_begin(&by_id, instances, GD_INSTANCES_PKEY);
		gd_job_loader_begin(&loader, instances);
		for (int i = 0; i < n; i++)
			take_claim(take, &by_id, row, &loader, &taken[i]);
		gd_job_loader_end(&loader);
		gd_scan_end(&by_id);
		gd_row_free(row);
		gd_table_close(instances);
	}
	pfree(taken);
}

/*
 * take_picked: claim the rest as a pick does.
 */
static void
take_picked(Take *take)
{
	GdPickRequest rest = *take->request;
	GdJob	   *jobs;
	int			n;

	rest.batch -= take->njobs;
	n = gd_pick_jobs(&rest, &jobs);
	for (int i = 0; i < n; i++)
	{
		gd_dispatched_register(take->key, DatumGetUUIDP(jobs[i].values[JOB_TOKEN]),
							   rest.worker, take->now);
		take_put(take, &jobs[i]);
	}
}

/*
 * gd_take_jobs: claim up to a batch of due steps; returns how many.
 */
int
gd_take_jobs(const GdPickRequest *request, GdJob **jobs)
{
	Take		take = {.request = request,.key = gd_wake_queue(request->queue)};
	int			buffered;

	if (!take_is_fed(request, take.key))
		return gd_pick_jobs(request, jobs);

	gd_effects_apply();
	gd_session_tidy();
	take.now = gd_now();
	if (gd_queue_paused(request->queue, take.now))
		return gd_pick_jobs(request, jobs);

	take.size = Min(request->batch, 1000);
	take.jobs = palloc(sizeof(GdJob) * take.size);
	take_buffered(&take);
	buffered = take.njobs;
	if (buffered < request->batch && take.bytes < GD_JOB_BYTES)
		take_picked(&take);
	else
	{
		gd_stats_count(request->queue, GD_COUNT_PICKS, 1);
		gd_event("pick.stop", "count=%d demand=%d queue=%s worker=%s", buffered, request->batch,
				 gd_event_value(request->queue), gd_event_value(request->worker));
	}
	gd_stats_count(request->queue, GD_COUNT_WANTED, buffered);
	gd_feed_taken(take.key, take.now);
	*jobs = take.jobs;
	return take.njobs;
}

/*
 * take(queue, worker, batch, lease_ttl) -> setof job
 */
Datum
gd_take(PG_FUNCTION_ARGS)
{
	GdPickRequest request;
	GdJob	   *jobs;
	int			njobs;

	gd_writes("gen_durable.take()");
	gd_pick_request(fcinfo, 0, &request);
	njobs = gd_take_jobs(&request, &jobs);
	return gd_pick_return(fcinfo, jobs, njobs);
}
