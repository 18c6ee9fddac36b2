/*
 * pick.c
 *		pick: claiming steps.
 *
 * The scan walks the pick index in the order of (priority, eligible_at, id)
 * and stops a priority at its first row that is not due yet, so that future
 * rows cost one probe a priority whatever their number (D-5).  A candidate is
 * locked without waiting, admitted (admit.c), and written as claimed; one
 * that its key refuses is marked and leaves the index, so it is met once.
 * Those under gates and rate limits are claimed with what these grant.
 *
 * What the transaction has queued for other rows is applied first, since the
 * pick must see it; and some of the keys that rows are blocked on are looked
 * at again (blocked.c), also by a pick of a paused queue, which hands out
 * nothing.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "executor/instrument.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/admit.h"
#include "engine/blocked.h"
#include "engine/effects.h"
#include "engine/instance.h"
#include "engine/pick.h"
#include "engine/queues.h"
#include "engine/session.h"
#include "events.h"
#include "names.h"
#include "shmem/stats.h"
#include "shmem/cursors.h"
#include "shmem/executors.h"
#include "shmem/wake.h"
#include "token.h"

/* A walk that reads more pages than this before its first row is long. */
#define LONG_WALK_BLOCKS 16

/* No priority's. */
#define NO_PRIORITY PG_INT32_MAX

/* Keys rechecked by a pick that finds nothing else to do. */
#define IDLE_RECHECK_KEYS 100

PG_FUNCTION_INFO_V1(gd_pick);

typedef struct Pick
{
	const GdPickRequest *request;
	TimestampTz now;
	TimestampTz lease_expires_at;
	GdTable    *instances;
	GdRow	   *row;			/* the candidate */
	GdAdmission admission;
	GdCursor	cursor;
	GdJobLoader loader;
	GdJob	   *jobs;
	int			njobs;
	int			size;			/* of jobs */
	int			marks_left;		/* rows that may still be blocked */
	int			contended;		/* rows passed over since another transaction
								 * is at their key */
	int			passes;			/* rows that may be left alone because others
								 * are at their limits' counters */
	Size		bytes;			/* of the jobs, where they go into one
								 * document */
} Pick;

/*
 * pick_own: did this transaction make the row what it is?
 */
static bool
pick_own(GdRow *row)
{
	HeapTuple	tuple = ExecFetchSlotHeapTuple(row->slot, false, NULL);

	return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
}

/*
 * pick_claim: claim a row that was admitted, with a gate's slot if a shard is
 * given.  One that is only loaded is claimed if it is still the same; else
 * false.
 */
static bool
pick_claim(Pick *pick, GdRow *row, int shard, bool locked)
{
	pg_uuid_t  *token = palloc(sizeof(pg_uuid_t));
	GdClaimantKind kind = pick->request->claimant.kind;
	bool		owed = (kind == GD_CLAIMS_FOR_CLIENT ? gd_wake_owed() : gd_executors_owed()) &&
	pick_own(row);
	GdJob	   *job;

	if (pick->njobs == pick->size)
	{
		pick->size *= 2;
		pick->jobs = repalloc_huge(pick->jobs, sizeof(GdJob) * pick->size);
	}
	job = &pick->jobs[pick->njobs];

	gd_token_new(gd_instance_id(row), token);
	gd_job_load(&pick->loader, row, job);
	gd_instance_set_status(row, GD_EXECUTING);
	gd_row_set(row, INST_LOCKED_BY, PointerGetDatum(pick->request->worker));
	gd_row_set(row, INST_LEASE_EXPIRES_AT, TimestampTzGetDatum(pick->lease_expires_at));
	gd_row_set(row, INST_TOKEN, UUIDPGetDatum(token));
	if (shard == GD_NO_SHARD)
		gd_row_set_null(row, INST_CONCURRENCY_SHARD);
	else
		gd_row_set(row, INST_CONCURRENCY_SHARD, Int32GetDatum(shard));
	if (locked)
		gd_instance_write(row, pick->now);
	else if (!gd_instance_try_write(row, pick->now))
		return false;
	if (owed && kind == GD_CLAIMS_FOR_CLIENT)
		gd_wake_claimed(pick->request->queue);
	else if (owed && kind == GD_CLAIMS_FOR_OWNER)
		gd_executors_claimed(pick->request->claimant.owner, pick->request->queue);
	if (!pick->request->ahead)
		gd_session_claimed(token);
	gd_job_finish(row, job);
	pick->njobs++;
	if (pick->request->one_document)
		pick->bytes += gd_job_size(job);
	return true;
}

static void
pick_block(Pick *pick, GdRow *row, text *blocked_on, TimestampTz refill_at)
{
	gd_blocked_mark(row, blocked_on, refill_at, pick->now);
	pick->marks_left--;
}

/*
 * pick_refuse: a row that was held ready is blocked, unless it waits for the
 * same already.
 */
static void
pick_refuse(Pick *pick, GdReady *ready)
{
	text	   *mark = cstring_to_text(ready->refused_by->mark);

	if (!GD_IS_NULL(ready->row, INST_BLOCKED_ON) &&
		gd_text_equal(gd_instance_text(ready->row, INST_BLOCKED_ON), mark))
		return;
	pick_block(pick, ready->row, mark,
			   gd_limit_refused(&pick->admission.limits, ready->refused_by, ready->row));
}

/*
 * pick_decide: have the rows that are held ready decided: claim what is
 * granted, block what is refused.
 */
static void
pick_decide(Pick *pick)
{
	GdLimits   *limits = &pick->admission.limits;

	if (limits->nready == 0)
		return;
	gd_limits_decide(limits);
	/* Some were found under snapshots of their own. */
	gd_job_loader_refresh(&pick->loader);
	for (int i = 0; i < limits->nready; i++)
	{
		GdReady    *ready = &limits->ready[i];

		if (ready->verdict == GD_GRANTED)
			(void) pick_claim(pick, ready->row, ready->shard, true);
		else if (ready->verdict != GD_CONTENDED)
			pick_refuse(pick, ready);
		gd_row_free(ready->row);
	}
	limits->nready = 0;
	gd_table_flush();
}

static bool
pick_wants_more(const Pick *pick)
{
	return pick->njobs < pick->request->batch && pick->marks_left > 0 &&
		pick->admission.limits.passed < pick->passes &&
		pick->bytes < GD_JOB_BYTES;
}

/*
 * pick_wants: is a row's step one that this pick claims?
 */
static bool
pick_wants(const Pick *pick, GdRow *row)
{
	return gd_runner_claims(&pick->request->claimant, gd_instance_text(row, INST_FSM),
							gd_instance_int(row, INST_FSM_VERSION),
							gd_instance_text(row, INST_STEP));
}

/*
 * pick_candidate: claim, block or pass over the row that a scan stands on and
 * that is loaded; true if it was claimed or blocked.
 */
static bool
pick_candidate(Pick *pick, TupleTableSlot *slot)
{
	GdHold		hold = gd_slot_hold(slot);
	GdAdmitResult result;
	GdRefusal	refusal;
	bool		locked;

	if (hold == GD_HOLD_OTHER)
		return false;
	/* Most rows have no keys and are held by nobody: spare them the lock. */
	if (hold == GD_HOLD_NONE && gd_admit_free(pick->row) &&
		pick_claim(pick, pick->row, GD_NO_SHARD, false))
		return true;

	if (gd_admit_busy(&pick->admission, pick->row))
	{
		pick->contended++;
		return false;
	}
	/* Nor does one need it whose limits are counted here. */
	locked = hold != GD_HOLD_NONE || gd_admit_free(pick->row) ||
		!gd_admit_unlocked(&pick->admission, pick->row);
	if (locked && gd_row_lock(pick->row, &slot->tts_tid, false) != GD_LOCKED)
		return false;
	while ((result = gd_admit(&pick->admission, pick->row,
							  pick->request->batch - pick->njobs, &refusal)) == GD_DECIDE)
	{
		pick_decide(pick);
		if (!pick_wants_more(pick))
			return false;
	}
	if (result == GD_READY)
		pick->row = gd_row_create(pick->instances);
	else if (result == GD_ADMIT)
		(void) pick_claim(pick, pick->row, GD_NO_SHARD, true);
	else if (result == GD_ADMIT_GRANTED)
	{
		if (pick_claim(pick, pick->row, pick->admission.grant.shard, locked))
			return true;
		gd_limits_put_back(&pick->admission.limits, &pick->admission.grant);
	}
	else if (result == GD_ADMIT_HEAD && pick_wants(pick, pick->admission.head))
	{
		/* It was found under a snapshot of its own. */
		gd_job_loader_refresh(&pick->loader);
		(void) pick_claim(pick, pick->admission.head, GD_NO_SHARD, true);
	}
	else if (result == GD_PASS)
		pick->contended++;
	if ((result == GD_REFUSE || result == GD_ADMIT_HEAD) &&
		(locked || gd_row_lock(pick->row, &slot->tts_tid, false) == GD_LOCKED))
	{
		pick_block(pick, pick->row, refusal.blocked_on, refusal.refill_at);
		return true;
	}
	return result == GD_ADMIT;
}

/*
 * pick_next: step on, and add the pages that this read, and nothing else did.
 */
static bool
pick_next(GdScan *scan, int64 *blocks)
{
	int64		before = pgBufferUsage.shared_blks_hit + pgBufferUsage.shared_blks_read;
	bool		found = gd_scan_next(scan);

	*blocks += pgBufferUsage.shared_blks_hit + pgBufferUsage.shared_blks_read - before;
	return found;
}

/*
 * pick_walked: a walk is through with a priority.  place: the first row that
 * it left, or the last one; worn: many pages were read before its first row.
 */
static void
pick_walked(Pick *pick, const GdPlace *place, bool from_head, bool worn, TimestampTz since)
{
	if (!pick->request->any_time)
		gd_cursor_walked(&pick->cursor, place, from_head, worn,
						 from_head ? GetCurrentTimestamp() - since : 0, pick->now);
}

/*
 * pick_walk: claim from where the scan was started until the batch is full.
 * Returns the priority whose next row is not due yet, or NO_PRIORITY when the
 * walk came to its end.
 */
static int
pick_walk(Pick *pick, GdScan *scan, bool from_head)
{
	TimestampTz since = GetCurrentTimestamp();
	int64		blocks = 0;
	int			result = NO_PRIORITY;
	bool		any = false;	/* of this priority */
	bool		left = false;	/* one of it was not claimed */
	bool		worn = false;
	GdPlace		place = {0};

	while (pick_wants_more(pick) && pick_next(scan, &blocks))
	{
		GdPlace		next;

		gd_row_load(pick->row, scan->slot);
		next = gd_instance_place(pick->row);
		if (any && next.priority != place.priority)
		{
			pick_walked(pick, &place, from_head, worn, since);
			any = left = worn = false;
		}
		if (next.eligible_at > pick->now && !pick->request->any_time)
		{
			if (pick->request->next_due)
				*pick->request->next_due = Min(*pick->request->next_due, next.eligible_at);
			result = next.priority;
			break;
		}
		CHECK_FOR_INTERRUPTS();
		worn |= !any && blocks > LONG_WALK_BLOCKS;
		if (!left)
			place = next;
		any = true;
		/* Those that are held ready count as left: they come first again. */
		if (pick_wants(pick, pick->row) && pick_candidate(pick, scan->slot))
			gd_cursor_claimed(&pick->cursor, &next);
		else
			left = true;
		/* Those that are held ready may fill the batch. */
		if (pick->admission.limits.nready >= pick->request->batch - pick->njobs)
			pick_decide(pick);
		blocks = 0;
	}
	pick_decide(pick);
	if (any)
		pick_walked(pick, &place, from_head, worn, since);
	return result;
}

/*
 * pick_priorities: walk the queue from a priority on up to another, each as far
 * as its rows are due.
 */
static void
pick_priorities(Pick *pick, GdScan *scan, int priority, int last)
{
	while (priority <= last && pick_wants_more(pick))
	{
		gd_scan_text(scan, 1, pick->request->queue);
		gd_scan_key(scan, 2, BTGreaterEqualStrategyNumber, F_INT2GE, Int16GetDatum(priority));
		gd_scan_key(scan, 2, BTLessEqualStrategyNumber, F_INT2LE, Int16GetDatum(last));
		gd_scan_start(scan);
		priority = pick_walk(pick, scan, true);
		if (priority == NO_PRIORITY)
			return;
		priority++;
	}
}

/*
 * pick_worn: walk a worn priority from a place on.
 */
static void
pick_worn(Pick *pick, GdScan *scan, const GdPlace *place)
{
	static const RegProcedure compare[] = {F_BTINT2CMP, F_TIMESTAMPTZ_CMP, F_BTINT8CMP};
	Datum		values[lengthof(compare)];

	values[0] = Int16GetDatum(place->priority);
	values[1] = TimestampTzGetDatum(place->eligible_at);
	values[2] = Int64GetDatum(place->id);
	gd_scan_text(scan, 1, pick->request->queue);
	gd_scan_key_row(scan, 2, lengthof(compare), compare, values);
	gd_scan_key(scan, 2, BTLessEqualStrategyNumber, F_INT2LE, Int16GetDatum(place->priority));
	gd_scan_start(scan);
	(void) pick_walk(pick, scan, place->eligible_at == DT_NOBEGIN);
}

/*
 * pick_scan: walk the queue until the batch is full, worn priorities from the
 * place where their rows begin (shmem/cursors.c), the others from their head.
 */
static void
pick_scan(Pick *pick)
{
	int			priority = PG_INT16_MIN;
	bool		skipped = false;	/* did it start behind a head? */
	GdScan		scan;
	GdPlace		place;

	gd_cursor_begin(pick->request->queue, &pick->cursor);
	gd_scan_begin(&scan, pick->instances, GD_INSTANCES_PICK);
	gd_job_loader_refresh(&pick->loader);
	while (pick_wants_more(pick) && !pick->request->any_time &&
		   gd_cursor_next(&pick->cursor, priority, pick->now, &place))
	{
		/* What was told by now is to be seen. */
		gd_scan_refresh(&scan);
		gd_job_loader_refresh(&pick->loader);
		if (place.priority > priority)
			pick_priorities(pick, &scan, priority, place.priority - 1);
		if (pick_wants_more(pick))
			pick_worn(pick, &scan, &place);
		skipped |= place.eligible_at != DT_NOBEGIN;
		priority = place.priority + 1;
	}
	pick_priorities(pick, &scan, priority, PG_INT16_MAX);
	if (skipped && !gd_cursors_hear_all() && pick_wants_more(pick))
	{
		gd_table_flush();
		gd_scan_refresh(&scan);
		gd_job_loader_refresh(&pick->loader);
		pick_priorities(pick, &scan, PG_INT16_MIN, PG_INT16_MAX);
	}
	gd_scan_end(&scan);
	gd_limits_settle(&pick->admission.limits);
}

/*
 * gd_pick_jobs: claim up to a batch of due steps; returns how many.
 */
int
gd_pick_jobs(const GdPickRequest *request, GdJob **jobs)
{
	Pick		pick = {.request = request};
	GdQueue		queue;

	gd_effects_apply();
	gd_session_tidy();
	pick.now = gd_now();
	gd_queue_read(request->queue, pick.now, &queue);
	pick.lease_expires_at = gd_later(pick.now, request->lease_ttl ? request->lease_ttl :
									 &queue.lease_ttl);
	pick.size = Min(request->batch, 1000);
	pick.jobs = palloc(sizeof(GdJob) * pick.size);
	pick.marks_left = Max(100, request->batch > PG_INT32_MAX / 4 ? PG_INT32_MAX : 4 * request->batch);
	pick.passes = pick.marks_left;

	pick.instances = gd_table_open(GD_INSTANCES);
	pick.row = gd_row_create(pick.instances);
	gd_blocked_recheck(pick.instances, Min(Max(request->batch / 4, 1), 16), pick.now);
	gd_admission_begin(&pick.admission, pick.instances, request->queue, &request->claimant,
					   pick.now);
	gd_job_loader_begin(&pick.loader, pick.instances);
	if (!queue.paused)
		pick_scan(&pick);
	if (pick.njobs == 0 && !queue.paused &&
		gd_blocked_recheck(pick.instances, IDLE_RECHECK_KEYS, pick.now) > 0)
		pick_scan(&pick);
	gd_job_loader_end(&pick.loader);
	gd_admission_end(&pick.admission);
	gd_row_free(pick.row);
	gd_table_close(pick.instances);
	gd_table_flush();

	gd_jobs_sort(pick.jobs, pick.njobs);
	if (!request->ahead)
	{
		gd_stats_count(request->queue, GD_COUNT_PICKS, 1);
		gd_stats_count(request->queue, GD_COUNT_WANTED, request->batch);
	}
	gd_stats_count(request->queue, GD_COUNT_CLAIMS, pick.njobs);
	gd_stats_count(request->queue, GD_COUNT_CONTENDED, pick.contended);
	gd_event("pick.stop", "count=%d demand=%d queue=%s worker=%s", pick.njobs, request->batch,
			 gd_event_value(request->queue), gd_event_value(request->worker));
	if (pick.contended > 0)
		gd_event("concurrency.contended", "count=%d queue=%s", pick.contended,
				 gd_event_value(request->queue));
	*jobs = pick.jobs;
	return pick.njobs;
}

/*
 * pick_refuse_name: no client may have a name of the server's own.
 */
static void
pick_refuse_name(const text *worker, const char *reserved)
{
	if (VARSIZE_ANY_EXHDR(worker) >= strlen(reserved) &&
		memcmp(VARDATA_ANY(worker), reserved, strlen(reserved)) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("worker \"%s\" has the name of the server's own",
						gd_clip(VARDATA_ANY(worker), VARSIZE_ANY_EXHDR(worker))),
				 errhint("Names that begin with \"%s\" are reserved.", reserved)));
}

/*
 * gd_pick_request: read (queue, worker, batch, lease_ttl) from a call's
 * arguments.
 */
void
gd_pick_request(FunctionCallInfo fcinfo, int first_arg, GdPickRequest *request)
{
	request->queue = gd_arg_name(fcinfo, first_arg, "queue");
	request->worker = gd_arg_name(fcinfo, first_arg + 1, "worker");
	pick_refuse_name(request->worker, GD_EXECUTOR_NAME);
	pick_refuse_name(request->worker, GD_SCHEDULER_NAME);
	request->batch = gd_arg_positive(fcinfo, first_arg + 2, "batch");
	request->lease_ttl = NULL;
	request->one_document = false;
	request->claimant = (GdClaimant)
	{
		GD_CLAIMS_FOR_CLIENT
	};
	request->any_time = request->ahead = false;
	request->next_due = NULL;
	if (!PG_ARGISNULL(first_arg + 3))
	{
		request->lease_ttl = PG_GETARG_INTERVAL_P(first_arg + 3);
		gd_check_not_negative("lease_ttl", request->lease_ttl, NULL);
	}
}

/*
 * pick_put: add jobs to the set that a call returns.
 */
static void
pick_put(FunctionCallInfo fcinfo, GdJob *jobs, int njobs)
{
	ReturnSetInfo *out = (ReturnSetInfo *) fcinfo->resultinfo;

	for (int i = 0; i < njobs; i++)
		tuplestore_putvalues(out->setResult, out->setDesc, jobs[i].values, jobs[i].nulls);
}

/*
 * gd_pick_return: return jobs as the set that is all of a call's result.
 */
Datum
gd_pick_return(FunctionCallInfo fcinfo, GdJob *jobs, int njobs)
{
	InitMaterializedSRF(fcinfo, 0);
	pick_put(fcinfo, jobs, njobs);
	return (Datum) 0;
}

/*
 * pick(queue, worker, batch, lease_ttl) -> setof job
 */
Datum
gd_pick(PG_FUNCTION_ARGS)
{
	GdPickRequest request;
	GdJob	   *jobs;
	int			njobs;

	gd_writes("gen_durable.pick()");
	gd_pick_request(fcinfo, 0, &request);
	njobs = gd_pick_jobs(&request, &jobs);
	return gd_pick_return(fcinfo, jobs, njobs);
}
