/*
 * complete.c
 *		complete and its kin: committing the outcomes of steps.
 *
 * Every outcome passes the one fence (instance.c) and is applied to the row
 * that the fence has locked; its effects on other rows follow at commit
 * (effects.c).  A batch is read and checked whole before anything is written,
 * then committed row by row; a stale or invalid outcome is reported on its own
 * row (D-8).
 *
 * Two batches must not deadlock, nor a batch and a cascade: rows are locked by
 * id descending, as everywhere (D-26).  Who writes a row with a correlation
 * key makes an insert of that key wait, so in a batch such rows are written
 * when all rows are locked.  Where outcomes create children, all rows of the
 * batch are locked first; then all children are inserted, those with
 * correlation keys in the order of the keys, whosever they are (GD-214).
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/complete.h"
#include "engine/dispatched.h"
#include "engine/effects.h"
#include "engine/inbox.h"
#include "engine/insert.h"
#include "engine/instance.h"
#include "engine/machines.h"
#include "engine/outcome.h"
#include "engine/pick.h"
#include "engine/session.h"
#include "events.h"
#include "json.h"
#include "names.h"
#include "token.h"

PG_FUNCTION_INFO_V1(gd_complete);
PG_FUNCTION_INFO_V1(gd_complete_many);

StaticAssertDecl(GD_COUNT_FAIL - GD_COUNT_NEXT == GD_OUTCOME_FAIL, "outcomes and their counters differ");

#define STALE_HINT "The claim was released, reaped or cancelled, or its outcome is committed already: give the work up."

/* What the outcomes of one call share. */
typedef struct Completion
{
	GdTable    *instances;
	GdScan		by_id;
	GdRow	   *row;			/* the fenced row */
	bool		locked;			/* is it locked, or only loaded? */
	bool		written;		/* has the outcome been written? */
	GdOutcomeKind became;		/* what it was taken for */
	GdRunAhead *ahead;			/* or NULL */
	bool		loading;		/* has the loader begun? */
	GdJobLoader loader;
	TimestampTz now;
} Completion;

/* One outcome to commit. */
typedef struct Entry
{
	int			ord;			/* place in the batch, from 0 */
	int64		id;				/* that its token names, or 0 */
	pg_uuid_t	token;
	GdOutcome	outcome;
	GdFence		fence;			/* what became of it: committed if held */
	GdOutcomeKind became;
	bool		later;			/* locked, to be written after the others */
	int			barrier;		/* of its children */
} Entry;

static void
completion_begin(Completion *c, GdRunAhead *ahead)
{
	c->ahead = ahead;
	c->loading = false;
	c->instances = gd_table_open(GD_INSTANCES);
	c->row = gd_row_create(c->instances);
	gd_scan_begin(&c->by_id, c->instances, GD_INSTANCES_PKEY);
	c->now = gd_now();
}

static void
completion_end(Completion *c)
{
	if (c->loading)
		gd_job_loader_end(&c->loader);
	gd_scan_end(&c->by_id);
	gd_row_free(c->row);
	gd_table_close(c->instances);
	gd_table_flush();
}

/*
 * complete_write: write the row.  One that is only loaded may have been
 * changed meanwhile; then nothing is written.
 */
static void
complete_write(Completion *c)
{
	c->written = true;
	if (c->locked)
		gd_instance_write(c->row, c->now);
	else
		c->written = gd_instance_try_write(c->row, c->now);
}

static TimestampTz
complete_after(Completion *c, const Interval *delay)
{
	return delay ? gd_later(c->now, delay) : c->now;
}

/*
 * complete_go_on: what next, await and children have in common: another step,
 * tried from anew, under no limit unless it is given one.
 */
static void
complete_go_on(GdRow *row, const GdOutcome *outcome)
{
	gd_row_set(row, INST_STEP, PointerGetDatum(outcome->step));
	gd_row_set(row, INST_ATTEMPT, Int32GetDatum(0));
	gd_row_set(row, INST_CRASHES, Int32GetDatum(0));
	gd_row_set_null(row, INST_LAST_ERROR);
	if (outcome->kind == GD_OUTCOME_NEXT && outcome->rate_limit)
		gd_row_set(row, INST_RATE_LIMIT, PointerGetDatum(outcome->rate_limit));
	else
		gd_row_set_null(row, INST_RATE_LIMIT);
	gd_row_set(row, INST_WEIGHT,
			   Float8GetDatum(outcome->kind == GD_OUTCOME_NEXT ? outcome->weight : 1));
}

/*
 * complete_consume: the step has dealt with the signals that it was parked
 * for and handed.
 */
static void
complete_consume(Completion *c, const GdOutcome *outcome)
{
	if (!GD_IS_NULL(c->row, INST_HANDED_AWAITED) && !outcome->consumes_nothing)
		gd_inbox_consume(DatumGetArrayTypeP(GD_VALUE(c->row, INST_HANDED_AWAITED)), c->now);
	gd_row_set_null(c->row, INST_AWAITS);
}

/*
 * complete_must_yield: is the next step one for another claim?
 *
 * Where something has to be admitted first: a new key or a rate limit are
 * asked for at a claim, and so is whose turn it is when a slot of a gate was
 * given back.  And where the caller has as much as it asked for.
 */
static bool
complete_must_yield(Completion *c, const GdOutcome *outcome)
{
	const GdRunAhead *ahead = c->ahead;
	GdRow	   *row = c->row;

	if (ahead->njobs >= ahead->max ||
		(ahead->request->one_document && ahead->bytes >= GD_JOB_BYTES) ||
		outcome->rate_limit || outcome->consumes_nothing ||
		(outcome->delay && !gd_interval_is_zero(outcome->delay)) ||
		!gd_text_equal(gd_instance_text(row, INST_QUEUE), ahead->request->queue))
		return true;
	if (outcome->key_plan == GD_KEY_SWITCH &&
		(GD_IS_NULL(row, INST_CONCURRENCY_KEY) ||
		 !gd_text_equal(gd_instance_text(row, INST_CONCURRENCY_KEY), outcome->key)))
		return true;
	return outcome->key_plan == GD_KEY_RELEASE && !GD_IS_NULL(row, INST_CONCURRENCY_SHARD);
}

/*
 * complete_runs_ahead: does the next step go on in the claim that this one
 * holds?
 */
static bool
complete_runs_ahead(Completion *c, const GdOutcome *outcome)
{
	GdRunAhead *ahead = c->ahead;
	GdRow	   *row = c->row;
	const text *fsm = gd_instance_text(row, INST_FSM);
	int			version = gd_instance_int(row, INST_FSM_VERSION);
	bool		wanted = outcome->inline_execution >= 0 ? outcome->inline_execution :
	gd_runner_inline(fsm, version);

	if (!wanted)
		return false;
	if (complete_must_yield(c, outcome) ||
		!gd_runner_claims(&ahead->request->claimant, fsm, version, outcome->step))
	{
		gd_stats_count(gd_instance_text(row, INST_QUEUE), GD_COUNT_YIELDED, 1);
		gd_event("run_ahead.yield", "id=%lld fsm=%s to=%s", (long long) gd_instance_id(row),
				 gd_event_value(fsm), gd_event_value(outcome->step));
		return false;
	}
	return true;
}

/*
 * complete_run_ahead: the row stays claimed, under a new token, and its next
 * step is a job (GD-326).
 */
static void
complete_run_ahead(Completion *c, const GdOutcome *outcome)
{
	GdRow	   *row = c->row;
	GdJob	   *job = &c->ahead->jobs[c->ahead->njobs];
	pg_uuid_t	old = *DatumGetUUIDP(GD_VALUE(row, INST_TOKEN));
	pg_uuid_t  *token = palloc(sizeof(pg_uuid_t));
	text	   *freed = NULL;

	if (outcome->key_plan == GD_KEY_RELEASE && !GD_IS_NULL(row, INST_CONCURRENCY_KEY))
	{
		freed = DatumGetTextPCopy(GD_VALUE(row, INST_CONCURRENCY_KEY));
		gd_row_set_null(row, INST_CONCURRENCY_KEY);
	}
	gd_token_new(gd_instance_id(row), token);
	gd_row_set(row, INST_TOKEN, UUIDPGetDatum(token));
	gd_row_set(row, INST_LOCKED_BY, PointerGetDatum(c->ahead->request->worker));
	gd_row_set(row, INST_LEASE_EXPIRES_AT, TimestampTzGetDatum(c->ahead->lease_expires_at));
	gd_row_set_null(row, INST_HANDED);
	gd_row_set_null(row, INST_HANDED_AWAITED);

	gd_table_flush();			/* what was consumed is gone */
	if (c->loading)
		gd_job_loader_refresh(&c->loader);
	else
		gd_job_loader_begin(&c->loader, c->instances);
	c->loading = true;
	gd_job_load(&c->loader, row, job);
	complete_write(c);
	if (!c->written)
		return;
	gd_session_ended(&old);
	gd_session_claimed(token);
	gd_dispatched_ended(&old);
	gd_dispatched_register(gd_wake_queue(gd_instance_text(row, INST_QUEUE)), token,
						   c->ahead->request->worker, c->now);
	gd_job_finish(row, job);
	c->ahead->bytes += gd_job_size(job);
	c->ahead->njobs++;
	if (freed)
		gd_effect_promote(GD_BLOCK_CONC, freed);
	gd_stats_count(gd_instance_text(row, INST_QUEUE), GD_COUNT_CONTINUED, 1);
	gd_event("run_ahead.continue", "id=%lld fsm=%s to=%s", (long long) gd_instance_id(row),
			 gd_event_value(gd_instance_text(row, INST_FSM)), gd_event_value(outcome->step));
}

static void
complete_next(Completion *c, const GdOutcome *outcome)
{
	GdRow	   *row = c->row;
	bool		ahead = c->ahead && complete_runs_ahead(c, outcome);

	complete_consume(c, outcome);
	complete_go_on(row, outcome);
	if (ahead)
	{
		complete_run_ahead(c, outcome);
		return;
	}
	gd_instance_to_runnable(row, complete_after(c, outcome->delay));
	if (outcome->key_plan == GD_KEY_SWITCH)
		gd_row_set(row, INST_CONCURRENCY_KEY, PointerGetDatum(outcome->key));
	else if (outcome->key_plan == GD_KEY_RELEASE)
		gd_row_set_null(row, INST_CONCURRENCY_KEY);
	complete_write(c);
}

static void
complete_retry(Completion *c, const Interval *delay)
{
	gd_row_set(c->row, INST_ATTEMPT,
			   Int32GetDatum(gd_instance_int(c->row, INST_ATTEMPT) + 1));
	gd_instance_to_runnable(c->row, complete_after(c, delay));
	complete_write(c);
}

/*
 * complete_await: park, unless a signal of one of the names has come that the
 * step was not handed (GD-192).  The row's lock is held, so no delivery is
 * between its look at the row and its commit.
 */
static void
complete_await(Completion *c, const GdOutcome *outcome)
{
	GdRow	   *row = c->row;
	ArrayType  *handed = GD_IS_NULL(row, INST_HANDED) ? NULL :
	DatumGetArrayTypeP(GD_VALUE(row, INST_HANDED));

	complete_go_on(row, outcome);
	gd_instance_to_runnable(row, c->now);
	if (!gd_inbox_has_news(gd_instance_id(row), outcome->names, handed))
		gd_instance_set_status(row, GD_AWAITING_SIGNAL);
	gd_row_set(row, INST_AWAITS, PointerGetDatum(outcome->names));
	if (outcome->timeout)
		gd_row_set(row, INST_AWAIT_DEADLINE,
				   TimestampTzGetDatum(gd_later(c->now, outcome->timeout)));
	else
		gd_row_set_null(row, INST_AWAIT_DEADLINE);
	complete_write(c);
}

/*
 * complete_children: park until the children that were created under a new
 * barrier have ended.
 */
static void
complete_children(Completion *c, const Entry *entry, int created)
{
	GdRow	   *row = c->row;

	if (entry->outcome.has_state)
		gd_row_set(row, INST_STATE, entry->outcome.state);
	complete_consume(c, &entry->outcome);
	complete_go_on(row, &entry->outcome);
	gd_instance_to_runnable(row, c->now);
	if (created > 0)
		gd_instance_set_status(row, GD_AWAITING_CHILDREN);
	gd_row_set(row, INST_BARRIER, Int32GetDatum(entry->barrier));
	gd_row_set(row, INST_CHILDREN_PENDING, Int32GetDatum(created));
	complete_write(c);
}

static void
complete_stop(Completion *c, text *error)
{
	gd_row_set(c->row, INST_LAST_ERROR, PointerGetDatum(error));
	gd_instance_set_status(c->row, GD_FAILED);
	complete_write(c);
}

/*
 * complete_fail: the step raised; the machine's policy decides.
 */
static void
complete_fail(Completion *c, text *error)
{
	int			attempt = gd_instance_int(c->row, INST_ATTEMPT);
	GdMachine	machine = {0};

	gd_machine_read(gd_instance_text(c->row, INST_FSM),
					gd_instance_int(c->row, INST_FSM_VERSION), &machine);
	gd_row_set(c->row, INST_LAST_ERROR, PointerGetDatum(error));
	if (attempt + 1 < machine.max_attempts)
	{
		c->became = GD_OUTCOME_RETRY;
		complete_retry(c, gd_machine_backoff(&machine, attempt));
	}
	else
	{
		c->became = GD_OUTCOME_STOP;
		complete_stop(c, error);
	}
}

/*
 * complete_event: tell of a committed outcome and of the step that it ended,
 * which the row's slot still holds.  Only its claim has written the row since
 * the step began.
 */
static void
complete_event(const Completion *c, const Entry *entry)
{
	GdTable    *table = c->instances;
	const text *queue = gd_instance_text(c->row, INST_QUEUE);
	TimestampTz claimed_at = DatumGetTimestampTz(gd_slot_datum(table, c->row->slot, INST_UPDATED_AT));

	gd_stats_count(queue, GD_COUNT_NEXT + entry->outcome.kind, 1);
	gd_stats_count(queue, GD_COUNT_STEP_TIME, Max(c->now - claimed_at, 0));
	gd_event("step.stop", "id=%lld fsm=%s step=%s kind=%s", (long long) entry->id,
			 gd_event_value(DatumGetTextPP(gd_slot_datum(table, c->row->slot, INST_FSM))),
			 gd_event_value(DatumGetTextPP(gd_slot_datum(table, c->row->slot, INST_STEP))),
			 gd_outcome_names[entry->outcome.kind]);
}

/*
 * complete_apply: write an outcome other than children on the fenced row, in
 * c->row.
 */
static void
complete_apply(Completion *c, const GdOutcome *outcome)
{
	c->became = outcome->kind;
	if (outcome->has_state)
		gd_row_set(c->row, INST_STATE, outcome->state);
	switch (outcome->kind)
	{
		case GD_OUTCOME_NEXT:
			complete_next(c, outcome);
			break;
		case GD_OUTCOME_RETRY:
			complete_retry(c, outcome->delay);
			break;
		case GD_OUTCOME_AWAIT:
			complete_await(c, outcome);
			break;
		case GD_OUTCOME_DONE:
			gd_row_set(c->row, INST_RESULT, outcome->result);
			gd_row_set_null(c->row, INST_LAST_ERROR);
			gd_instance_set_status(c->row, GD_DONE);
			complete_write(c);
			break;
		case GD_OUTCOME_STOP:
			complete_stop(c, outcome->error);
			break;
		case GD_OUTCOME_FAIL:
			complete_fail(c, outcome->error);
			break;
		case GD_OUTCOME_CHILDREN:	/* see complete_spawn */
		case GD_NOUTCOMES:
			pg_unreachable();
	}
}

/*
 * complete_cancel: the holder of a row whose cancellation was asked for has
 * come back: it is cancelled now (D-15).
 */
static void
complete_cancel(Completion *c)
{
	gd_instance_set_status(c->row, GD_CANCELLED);
	gd_instance_write(c->row, c->now);
}

/*
 * complete_needs_lock: does the outcome look at or touch the row's signals
 * before the row itself is written?
 */
static bool
complete_needs_lock(GdRow *row, const GdOutcome *outcome)
{
	return outcome->kind == GD_OUTCOME_AWAIT ||
		(outcome->kind == GD_OUTCOME_NEXT && !GD_IS_NULL(row, INST_HANDED_AWAITED));
}

/*
 * complete_one: pass the fence and commit an outcome other than children.
 *
 * Most rows are held by nobody else: they are looked at, and written if they
 * are still the same.  The rest are locked first, waiting if they must be.
 * Where others of the batch may be waited for after this one, a row with a
 * correlation key is only locked.
 */
static void
complete_one(Completion *c, Entry *entry, bool others)
{
	entry->later = false;
	entry->fence = gd_instance_fence_look(&c->by_id, c->row, &entry->token);
	if (entry->fence == GD_FENCE_STALE)
		return;
	if (others && !GD_IS_NULL(c->row, INST_CORRELATION_KEY))
	{
		entry->fence = gd_instance_fence(&c->by_id, c->row, &entry->token, true);
		entry->later = entry->fence == GD_FENCE_HELD;
		return;
	}
	c->locked = false;
	if (entry->fence == GD_FENCE_HELD && !complete_needs_lock(c->row, &entry->outcome))
	{
		complete_apply(c, &entry->outcome);
		if (c->written)
		{
			entry->became = c->became;
			complete_event(c, entry);
			return;
		}
	}

	entry->fence = gd_instance_fence(&c->by_id, c->row, &entry->token, true);
	c->locked = true;
	if (entry->fence == GD_FENCE_HELD)
	{
		complete_apply(c, &entry->outcome);
		entry->became = c->became;
		complete_event(c, entry);
	}
}

/*
 * complete_lock_all: lock the rows of all entries before any of them waits
 * for a correlation key.  The parents stay locked for the whole of it, so no
 * reaper comes between children and park (GD-213).
 */
static void
complete_lock_all(Completion *c, Entry *entries, int n)
{
	const Entry *last = NULL;

	for (int i = 0; i < n; i++)
	{
		Entry	   *entry = &entries[i];

		entry->fence = gd_instance_fence(&c->by_id, c->row, &entry->token, true);
		if (entry->outcome.kind != GD_OUTCOME_CHILDREN || entry->fence != GD_FENCE_HELD)
			continue;
		if (last && last->id == entry->id)
			entry->fence = GD_FENCE_STALE;	/* the same token twice */
		entry->barrier = gd_instance_int(c->row, INST_BARRIER) + 1;
		last = entry;
	}
}

/* Does an entry, whose row is locked, create children? */
static bool
complete_spawns(const Entry *entry)
{
	return entry->outcome.kind == GD_OUTCOME_CHILDREN && entry->fence == GD_FENCE_HELD;
}

/*
 * complete_spawn: commit the outcomes that create children.
 */
static void
complete_spawn(Completion *c, Entry *entries, int n)
{
	GdInsertItem *items;
	int			nitems = 0;

	complete_lock_all(c, entries, n);
	for (int i = 0; i < n; i++)
		if (complete_spawns(&entries[i]))
			nitems += entries[i].outcome.nchildren;
	items = palloc0(sizeof(GdInsertItem) * Max(nitems, 1));

	nitems = 0;
	for (int i = 0; i < n; i++)
		for (int k = 0; complete_spawns(&entries[i]) && k < entries[i].outcome.nchildren; k++)
		{
			items[nitems].spec = &entries[i].outcome.children[k];
			items[nitems].parent_id = entries[i].id;
			items[nitems].barrier = entries[i].barrier;
			nitems++;
		}
	gd_insert_items(c->instances, items, nitems, c->now);

	nitems = 0;
	for (int i = 0; i < n; i++)
	{
		int			created = 0;

		if (!complete_spawns(&entries[i]))
			continue;
		for (int k = 0; k < entries[i].outcome.nchildren; k++)
			created += items[nitems++].created;
		if (gd_instance_fence(&c->by_id, c->row, &entries[i].token, true) != GD_FENCE_HELD)
			elog(ERROR, "instance %lld is not locked", (long long) entries[i].id);
		c->locked = true;
		entries[i].became = GD_OUTCOME_CHILDREN;
		complete_children(c, &entries[i], created);
		complete_event(c, &entries[i]);
	}
	pfree(items);
}

/*
 * complete_stale: tell of an outcome that comes too late.  It counts even if
 * its caller, for whom the call raises, rolls back.
 */
static void
complete_stale(Completion *c, const Entry *entry)
{
	const text *queue = NULL;

	if (entry->id != 0 && gd_instance_find(&c->by_id, entry->id))
		queue = DatumGetTextPP(gd_slot_datum(c->instances, c->by_id.slot, INST_QUEUE));
	gd_stats_count_now(queue, GD_COUNT_STALE, 1);
	gd_event("outcome.stale", "id=%lld kind=%s", (long long) entry->id,
			 gd_outcome_names[entry->outcome.kind]);
}

/*
 * complete_entries: commit outcomes, sorted by entry_compare; each entry's
 * fence tells what became of it.
 */
static void
complete_entries(Completion *c, Entry *entries, int n)
{
	bool		spawns = false;

	for (int i = 0; i < n; i++)
		spawns |= entries[i].outcome.kind == GD_OUTCOME_CHILDREN;
	if (spawns)
		complete_spawn(c, entries, n);
	for (int i = 0; i < n; i++)
	{
		Entry	   *entry = &entries[i];

		CHECK_FOR_INTERRUPTS();
		if (entry->outcome.kind != GD_OUTCOME_CHILDREN)
			complete_one(c, entry, n > 1 && !spawns);
	}
	for (int i = 0; i < n; i++)
	{
		Entry	   *entry = &entries[i];

		CHECK_FOR_INTERRUPTS();
		if (entry->later)
			complete_one(c, entry, false);
		if (entry->fence != GD_FENCE_HELD)
			complete_stale(c, entry);
	}
}

/*
 * gd_complete_raise: raise unless an outcome was committed.
 */
void
gd_complete_raise(const pg_uuid_t *token, GdFence fence)
{
	int64		id = 0;

	(void) gd_token_id(token, &id);
	if (fence == GD_FENCE_CANCEL)
		ereport(ERROR,
				(errcode(GD_ERRCODE_STALE_CLAIM),
				 errmsg("claim %s is stale: the cancellation of instance %lld was requested",
						gd_token_string(token), (long long) id),
				 errhint("Release the claim to let the cancellation take effect at once.")));
	if (fence != GD_FENCE_HELD)
		ereport(ERROR,
				(errcode(GD_ERRCODE_STALE_CLAIM),
				 errmsg("claim %s is stale", gd_token_string(token)),
				 errhint(STALE_HINT)));
}

/*
 * complete(token, outcome)
 *
 * Raises GD001 when the token is stale, so that the caller's own writes roll
 * back with it.  Waits only for who has locked the row itself.
 */
Datum
gd_complete(PG_FUNCTION_ARGS)
{
	Entry		entry = {0};
	Completion	c;
	JsonbValue	value;
	GdPolicies	policies;

	gd_writes("gen_durable.complete()");
	gd_arg_required(fcinfo, 0, "token");
	gd_arg_required(fcinfo, 1, "outcome");
	entry.token = *PG_GETARG_UUID_P(0);
	(void) gd_token_id(&entry.token, &entry.id);
	JsonbToJsonbValue(PG_GETARG_JSONB_P(1), &value);
	completion_begin(&c, NULL);
	gd_policies_begin(&policies);
	gd_outcome_read(&value, false, c.now, &policies, &entry.outcome, NULL, NULL);
	gd_policies_end(&policies);
	complete_entries(&c, &entry, 1);
	gd_complete_raise(&entry.token, entry.fence);
	completion_end(&c);
	PG_RETURN_VOID();
}

static int
entry_compare(const void *a, const void *b)
{
	const Entry *x = a;
	const Entry *y = b;

	if (x->id != y->id)
		return x->id > y->id ? -1 : 1;
	return x->ord - y->ord;
}

/*
 * batch_read: read and check a batch; returns how many entries are fit to be
 * committed, and reports the rest in results.
 */
static int
batch_read(Jsonb *outcomes, TimestampTz now, Entry *entries, GdResult *results)
{
	JsonbIterator *it = JsonbIteratorInit(&outcomes->root);
	JsonbIteratorToken token;
	JsonbValue	value;
	GdPolicies	policies;
	int			ord = 0;
	int			n = 0;

	gd_policies_begin(&policies);
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		Entry	   *entry = &entries[n];
		GdFault		fault = {0};

		if (token != WJB_ELEM)
			continue;
		CHECK_FOR_INTERRUPTS();
		if (!gd_outcome_read(&value, true, now, &policies, &entry->outcome, &entry->token,
							 &fault))
		{
			results[ord].result = psprintf("invalid: %s", fault.message);
			results[ord].sqlerrcode = fault.sqlerrcode;
			results[ord].hint = fault.hint;
			gd_stats_count_now(NULL, GD_COUNT_INVALID, 1);
		}
		else
		{
			entry->ord = ord;
			entry->id = 0;
			(void) gd_token_id(&entry->token, &entry->id);
			n++;
		}
		ord++;
	}
	gd_policies_end(&policies);
	return n;
}

/*
 * batch_report: tell what became of an outcome that passed its reading.
 *
 * The row of one whose cancellation was asked for is cancelled now.
 */
static void
batch_report(Completion *c, const Entry *entry, GdResult *result)
{
	result->id = entry->id;
	if (entry->fence == GD_FENCE_HELD)
	{
		result->result = "committed";
		return;
	}
	result->result = "stale";
	result->sqlerrcode = GD_ERRCODE_STALE_CLAIM;
	result->hint = STALE_HINT;
	if (entry->fence == GD_FENCE_CANCEL &&
		gd_instance_fence(&c->by_id, c->row, &entry->token, true) == GD_FENCE_CANCEL)
		complete_cancel(c);
}

/*
 * gd_complete_batch: commit an array of outcomes, each with its token, row by
 * row; returns how many results there are.  With ahead, steps may run on.
 */
int
gd_complete_batch(Jsonb *outcomes, GdRunAhead *ahead, GdResult **results)
{
	int			n = JB_ROOT_COUNT(outcomes);
	Entry	   *entries = palloc0(sizeof(Entry) * Max(n, 1));
	Completion	c;
	int			nentries;

	*results = palloc0(sizeof(GdResult) * Max(n, 1));
	completion_begin(&c, ahead);
	nentries = batch_read(outcomes, c.now, entries, *results);
	qsort(entries, nentries, sizeof(Entry), entry_compare);
	complete_entries(&c, entries, nentries);
	for (int i = 0; i < nentries; i++)
		batch_report(&c, &entries[i], &(*results)[entries[i].ord]);
	completion_end(&c);
	return n;
}

/*
 * gd_complete_steps: commit the outcomes of steps that this process has run.
 * Nothing is done about those that are stale.
 */
void
gd_complete_steps(GdStepEnd *ends, int n, GdRunAhead *ahead)
{
	Entry	   *entries = palloc0(sizeof(Entry) * Max(n, 1));
	Completion	c;

	for (int i = 0; i < n; i++)
	{
		entries[i].ord = i;
		entries[i].token = ends[i].token;
		entries[i].outcome = ends[i].outcome;
		(void) gd_token_id(&ends[i].token, &entries[i].id);
	}
	qsort(entries, n, sizeof(Entry), entry_compare);
	completion_begin(&c, ahead);
	complete_entries(&c, entries, n);
	completion_end(&c);
	for (int i = 0; i < n; i++)
	{
		ends[entries[i].ord].fence = entries[i].fence;
		ends[entries[i].ord].became = entries[i].became;
	}
	pfree(entries);
}

/*
 * gd_complete_cancelled: if the cancellation of a claimed row was asked for,
 * it is cancelled now.
 */
bool
gd_complete_cancelled(const pg_uuid_t *token)
{
	Completion	c;
	bool		cancelled;

	completion_begin(&c, NULL);
	cancelled = gd_instance_fence(&c.by_id, c.row, token, true) == GD_FENCE_CANCEL;
	if (cancelled)
		complete_cancel(&c);
	completion_end(&c);
	return cancelled;
}

/*
 * complete_many(outcomes) -> setof (ord, id, result)
 */
Datum
gd_complete_many(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *out = (ReturnSetInfo *) fcinfo->resultinfo;
	Jsonb	   *outcomes;
	GdResult   *results;
	int			n;

	gd_writes("gen_durable.complete_many()");
	outcomes = gd_json_arg_array(PG_GETARG_DATUM(0), PG_ARGISNULL(0), "outcomes");
	InitMaterializedSRF(fcinfo, 0);
	n = gd_complete_batch(outcomes, NULL, &results);
	for (int i = 0; i < n; i++)
	{
		Datum		values[3];
		bool		nulls[3] = {false};

		values[0] = Int32GetDatum(i + 1);
		values[1] = Int64GetDatum(results[i].id);
		nulls[1] = results[i].id == 0;
		values[2] = CStringGetTextDatum(results[i].result);
		tuplestore_putvalues(out->setResult, out->setDesc, values, nulls);
	}
	return (Datum) 0;
}
