/*
 * instance.c
 *		One instance's row: reading it, fencing it, and writing its transitions.
 *
 * Everything that changes a status goes through gd_instance_write, which
 * compares the version that was locked with the values to be written and
 * brings about what follows from the change:
 *
 *	leaving executing	the claim's columns are cleared; the key or the gate's
 *						slot that it held is free at commit (effects.c promotes
 *						who waits for it)
 *	leaving runnable	marks of blocking and promotion are cleared; a turn that
 *						was not used passes on at commit
 *	becoming runnable	a waiter of the queue is woken at commit
 *	parking, ending		so are those who await the instance
 *	becoming terminal	finished_at is set, the inbox is dropped, the parent's
 *						join counts it at commit (once: joins_barrier is zeroed)
 *	any change			the queue's statistics follow at commit
 *	correlation scope	the key is given up on leaving the scope, and taken on
 *						entering it if it is free (D-7)
 *
 * Lock: the row is locked by the caller, or written only if nobody has
 * changed it since it was loaded (gd_instance_try_write).  Rows of others are
 * not touched here; the effects on them come at commit.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "engine/dispatched.h"
#include "engine/due.h"
#include "engine/effects.h"
#include "engine/inbox.h"
#include "engine/instance.h"
#include "engine/runners.h"
#include "engine/session.h"
#include "names.h"
#include "shmem/cursors.h"
#include "shmem/wake.h"
#include "subxact.h"
#include "token.h"

/*
 * instance_holds: the fence (D-1).  A claim is its token together with the
 * status; nothing else identifies it.
 */
static bool
instance_holds(GdTable *table, TupleTableSlot *slot, const pg_uuid_t *token)
{
	bool		isnull;
	Datum		stored = gd_slot_value(table, slot, INST_TOKEN, &isnull);

	return !isnull &&
		gd_token_equal(DatumGetUUIDP(stored), token) &&
		gd_status_of(DatumGetObjectId(gd_slot_datum(table, slot, INST_STATUS))) == GD_EXECUTING;
}

static void
instances_begin(GdInstances *instances)
{
	instances->row = gd_row_create(instances->table);
	gd_scan_begin(&instances->by_id, instances->table, GD_INSTANCES_PKEY);
}

/*
 * gd_instances_open: open the table for a call that writes.
 */
void
gd_instances_open(GdInstances *instances)
{
	instances->table = gd_table_open(GD_INSTANCES);
	instances_begin(instances);
}

/*
 * gd_instances_open_read: for a call that only reads, which a standby can too.
 */
void
gd_instances_open_read(GdInstances *instances)
{
	instances->table = gd_table_open_read(GD_INSTANCES);
	instances_begin(instances);
}

/*
 * gd_instances_close: what was written can be seen by what is read next.
 */
void
gd_instances_close(GdInstances *instances)
{
	bool		wrote = instances->table->state != NULL;

	gd_scan_end(&instances->by_id);
	gd_row_free(instances->row);
	gd_table_close(instances->table);
	if (wrote)
		gd_table_flush();
}

/*
 * gd_instance_find: look an instance up, unlocked; by_id scans the primary
 * key and holds the row in its slot.
 */
bool
gd_instance_find(GdScan *by_id, int64 id)
{
	gd_scan_int8(by_id, 1, id);
	gd_scan_start(by_id);
	return gd_scan_next(by_id);
}

/*
 * gd_instance_lock: look an instance up and lock it.  GD_LOCK_GONE when
 * there is none.
 */
GdLockResult
gd_instance_lock(GdScan *by_id, GdRow *row, int64 id, bool wait)
{
	GdLockResult result;

	if (!gd_instance_find(by_id, id))
		return GD_LOCK_GONE;
	result = gd_row_lock(row, &by_id->slot->tts_tid, wait);
	if (result == GD_LOCK_BUSY && wait)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("instance %lld was changed by the running command", (long long) id),
				 errhint("Call the function in a statement of its own.")));
	return result;
}

static bool
instance_find_held(GdScan *by_id, const pg_uuid_t *token)
{
	int64		id;

	return gd_token_id(token, &id) && gd_instance_find(by_id, id) &&
		instance_holds(by_id->table, by_id->slot, token);
}

static GdFence
instance_held(GdRow *row)
{
	return GD_IS_NULL(row, INST_CANCEL_REQUESTED_AT) ? GD_FENCE_HELD : GD_FENCE_CANCEL;
}

/* A claim whose row another transaction holds. */
typedef struct FenceWait
{
	GdRow	   *row;
	const pg_uuid_t *token;
	ItemPointerData tid;		/* where to look; then where it was locked */
} FenceWait;

/*
 * instance_wait: wait for the row; false if it is not the token's any more.
 */
static bool
instance_wait(void *arg)
{
	FenceWait  *wait = arg;
	GdRow	   *row = wait->row;
	bool		holds;

	holds = gd_row_lock(row, &wait->tid, true) == GD_LOCKED &&
		instance_holds(row->table, row->slot, wait->token);
	wait->tid = row->tid;
	gd_row_clear(row);
	return holds;
}

/*
 * gd_instance_fence: find the row that a token claims and lock it, if the
 * token is current.
 *
 * A stale token is told without waiting for anybody's lock.  With wait, waits
 * for whoever holds the row and looks again at its newest version; if that is
 * another's claim by then, the lock is let go with the answer.
 */
GdFence
gd_instance_fence(GdScan *by_id, GdRow *row, const pg_uuid_t *token, bool wait)
{
	FenceWait	busy = {row, token};

	if (!instance_find_held(by_id, token))
		return GD_FENCE_STALE;
	busy.tid = by_id->slot->tts_tid;
	switch (gd_row_lock(row, &busy.tid, false))
	{
		case GD_LOCKED:
			return instance_held(row);
		case GD_LOCK_GONE:
			return GD_FENCE_STALE;
		case GD_LOCK_BUSY:
			break;
	}
	if (!wait)
		return GD_FENCE_BUSY;
	gd_row_clear(row);			/* its pin is not the subtransaction's */
	if (gd_subtransaction(instance_wait, &busy, 0) &&
		gd_row_lock(row, &busy.tid, false) == GD_LOCKED)
		return instance_held(row);
	return GD_FENCE_STALE;
}

/*
 * gd_instance_fence_look: likewise without locking the row.  What it says
 * holds if gd_instance_try_write then succeeds.
 */
GdFence
gd_instance_fence_look(GdScan *by_id, GdRow *row, const pg_uuid_t *token)
{
	if (!instance_find_held(by_id, token))
		return GD_FENCE_STALE;
	gd_row_load(row, by_id->slot);
	return instance_held(row);
}

/*
 * gd_instance_fence_at: likewise, looking first where the row was once.  Behind
 * an old snapshot the primary key has an entry for each version that the row
 * ever had.
 */
GdFence
gd_instance_fence_at(GdScan *by_id, GdRow *row, const pg_uuid_t *token,
					 const ItemPointerData *tid)
{
	if (!gd_row_fetch(row, tid, by_id->snapshot) ||
		!instance_holds(row->table, row->slot, token))
		return gd_instance_fence_look(by_id, row, token);
	return instance_held(row);
}

/*
 * gd_instance_find_key: the occupant of a correlation key, false if none.
 * With live_only a terminal occupant does not count.
 */
bool
gd_instance_find_key(GdTable *instances, const text *key, int64 *id, bool live_only)
{
	GdScan		scan;
	bool		found;

	gd_scan_begin(&scan, instances, GD_INSTANCES_CORRELATION);
	gd_scan_text(&scan, 1, key);
	gd_scan_start(&scan);
	found = gd_scan_next(&scan);
	if (found)
	{
		Oid			label = DatumGetObjectId(gd_slot_datum(instances, scan.slot, INST_STATUS));

		*id = DatumGetInt64(gd_slot_datum(instances, scan.slot, INST_ID));
		if (live_only && gd_status_is_terminal(gd_status_of(label)))
			found = false;
	}
	gd_scan_end(&scan);
	return found;
}

/*
 * gd_scope_has: is a status in a correlation scope?  The scope has no NULLs,
 * which insert sees to.
 */
bool
gd_scope_has(ArrayType *scope, GdStatus status)
{
	Oid			label = gd_catalog()->status[status];
	Oid		   *labels = (Oid *) ARR_DATA_PTR(scope);
	int			nlabels = ArrayGetNItems(ARR_NDIM(scope), ARR_DIMS(scope));

	for (int i = 0; i < nlabels; i++)
		if (labels[i] == label)
			return true;
	return false;
}

/*
 * instance_key_taken: does any transaction, ended or not, hold a correlation
 * key?  Does not wait for one that has not ended.
 */
static bool
instance_key_taken(GdTable *instances, const text *key)
{
	SnapshotData dirty;
	GdScan		scan;
	bool		taken;

	InitDirtySnapshot(dirty);
	gd_scan_begin_snapshot(&scan, instances, GD_INSTANCES_CORRELATION, &dirty);
	gd_scan_text(&scan, 1, key);
	gd_scan_start(&scan);
	taken = gd_scan_next(&scan);
	gd_scan_end(&scan);
	return taken;
}

static bool
instance_update(void *row)
{
	gd_row_update(row);
	return true;
}

/*
 * instance_write_with_key: write the locked row as the holder of its
 * correlation key if the key is free, else without it (D-7).
 *
 * Another transaction can take the key between the look and the write; then
 * the unique index raises, the write is taken back, and the row goes on
 * without the key.
 */
static void
instance_write_with_key(GdRow *row)
{
	ItemPointerData tid = row->tid;

	if (!instance_key_taken(row->table, gd_instance_text(row, INST_CORRELATION_KEY)))
	{
		gd_row_set(row, INST_CORRELATION_GUARD, GD_VALUE(row, INST_CORRELATION_KEY));
		if (gd_subtransaction(instance_update, row, ERRCODE_UNIQUE_VIOLATION))
			return;
		row->tid = tid;
		gd_row_set_null(row, INST_CORRELATION_GUARD);
	}
	gd_row_update(row);
}

/*
 * gd_instance_to_runnable: make it a candidate from an instant on.
 */
void
gd_instance_to_runnable(GdRow *row, TimestampTz eligible_at)
{
	gd_instance_set_status(row, GD_RUNNABLE);
	gd_row_set(row, INST_ELIGIBLE_AT, TimestampTzGetDatum(eligible_at));
}

/* What a change of status brings about once it is written. */
typedef struct InstanceEffects
{
	bool		enters_scope;
	bool		runnable;		/* it is a candidate now */
	bool		ended;
	bool		settled;		/* ended or parked */
	TimestampTz due;			/* the maintainer must look by then, or
								 * DT_NOEND */
	text	   *freed_key;		/* or NULL */
	bool		freed_slot;		/* of the key's gate */
	int			shard;			/* of the slot */
	text	   *passed_rate;	/* rate limit whose first waiter it may have
								 * been, or NULL */
	bool		ended_claim;
	pg_uuid_t	token;			/* of the claim that ended */
	int			joins_barrier;	/* 0: none */
	GdGauge		was;			/* what it counts as */
	GdGauge		is;
	bool		cancelled;
} InstanceEffects;

/*
 * gd_instance_gauge: what a row with these columns counts as in the statistics
 * of its queue.
 */
GdGauge
gd_instance_gauge(GdStatus status, bool blocked, TimestampTz eligible_at, TimestampTz updated_at)
{
	switch (status)
	{
		case GD_RUNNABLE:
			if (blocked)
				return GD_GAUGE_BLOCKED;
			return eligible_at > updated_at ? GD_GAUGE_SCHEDULED : GD_GAUGE_READY;
		case GD_EXECUTING:
			return GD_GAUGE_EXECUTING;
		case GD_AWAITING_SIGNAL:
			return GD_GAUGE_AWAITING_SIGNAL;
		case GD_AWAITING_CHILDREN:
			return GD_GAUGE_AWAITING_CHILDREN;
		default:
			return GD_GAUGE_NONE;
	}
}

/*
 * instance_gauge_was: what the version that was locked or loaded counts as.
 */
static GdGauge
instance_gauge_was(GdTable *table, TupleTableSlot *slot, GdStatus status)
{
	bool		not_blocked;

	if (status != GD_RUNNABLE)
		return gd_instance_gauge(status, false, 0, 0);
	(void) gd_slot_value(table, slot, INST_BLOCKED_ON, &not_blocked);
	return gd_instance_gauge(status, !not_blocked,
							 DatumGetTimestampTz(gd_slot_datum(table, slot, INST_ELIGIBLE_AT)),
							 DatumGetTimestampTz(gd_slot_datum(table, slot, INST_UPDATED_AT)));
}

/*
 * instance_transition: set the columns that follow from the change of status,
 * and tell what follows beyond the row.
 */
static void
instance_transition(GdRow *row, TimestampTz now, InstanceEffects *effects)
{
	GdTable    *table = row->table;
	GdStatus	from = gd_status_of(DatumGetObjectId(gd_slot_datum(table, row->slot, INST_STATUS)));
	GdStatus	to = gd_instance_status(row);
	bool		no_key;
	Datum		key = gd_slot_value(table, row->slot, INST_CONCURRENCY_KEY, &no_key);

	memset(effects, 0, sizeof(InstanceEffects));
	effects->due = DT_NOEND;
	if (to == GD_EXECUTING && !GD_IS_NULL(row, INST_LEASE_EXPIRES_AT))
		effects->due = DatumGetTimestampTz(GD_VALUE(row, INST_LEASE_EXPIRES_AT));
	else if (to == GD_AWAITING_SIGNAL && !GD_IS_NULL(row, INST_AWAIT_DEADLINE))
		effects->due = DatumGetTimestampTz(GD_VALUE(row, INST_AWAIT_DEADLINE));
	effects->runnable = to == GD_RUNNABLE && GD_IS_NULL(row, INST_BLOCKED_ON);
	effects->was = instance_gauge_was(table, row->slot, from);
	effects->is = gd_instance_gauge(to, !GD_IS_NULL(row, INST_BLOCKED_ON),
									DatumGetTimestampTz(GD_VALUE(row, INST_ELIGIBLE_AT)), now);
	gd_row_set(row, INST_UPDATED_AT, TimestampTzGetDatum(now));
	if (from == to)
		return;
	effects->settled = to != GD_RUNNABLE && to != GD_EXECUTING;
	effects->cancelled = to == GD_CANCELLED;

	if (from == GD_EXECUTING)
	{
		bool		no_token;
		Datum		token = gd_slot_value(table, row->slot, INST_TOKEN, &no_token);

		if (!no_token)
		{
			effects->ended_claim = true;
			effects->token = *DatumGetUUIDP(token);
		}
		if (!no_key)
		{
			bool		no_slot;
			Datum		shard = gd_slot_value(table, row->slot, INST_CONCURRENCY_SHARD, &no_slot);

			effects->freed_key = DatumGetTextPP(key);
			effects->freed_slot = !no_slot;
			effects->shard = no_slot ? 0 : DatumGetInt32(shard);
		}
		gd_row_set_null(row, INST_LOCKED_BY);
		gd_row_set_null(row, INST_LEASE_EXPIRES_AT);
		gd_row_set_null(row, INST_TOKEN);
		gd_row_set_null(row, INST_CONCURRENCY_SHARD);
		gd_row_set_null(row, INST_HANDED);
		gd_row_set_null(row, INST_HANDED_AWAITED);
		gd_row_set_null(row, INST_CANCEL_REQUESTED_AT);
	}
	else if (from == GD_RUNNABLE)
	{
		/* The turn of a row that goes without a claim passes to the next. */
		if (to != GD_EXECUTING && !no_key && GD_IS_NULL(row, INST_BLOCKED_ON))
			effects->freed_key = DatumGetTextPP(key);
		if (!GD_IS_NULL(row, INST_RATE_LIMIT) &&
			(!GD_IS_NULL(row, INST_BLOCKED_ON) ||
			 (to != GD_EXECUTING && !GD_IS_NULL(row, INST_PROMOTED_ON))))
			effects->passed_rate = gd_instance_text(row, INST_RATE_LIMIT);
		gd_row_set_null(row, INST_BLOCKED_ON);
		gd_row_set_null(row, INST_PROMOTED_ON);
		gd_row_set_null(row, INST_REFILL_AT);
	}

	if (gd_status_is_terminal(to))
	{
		effects->ended = true;
		if (!GD_IS_NULL(row, INST_PARENT_ID))
			effects->joins_barrier = gd_instance_int(row, INST_JOINS_BARRIER);
		gd_row_set(row, INST_JOINS_BARRIER, Int32GetDatum(0));
		gd_row_set(row, INST_FINISHED_AT, TimestampTzGetDatum(now));
		gd_row_set_null(row, INST_AWAITS);
		gd_row_set_null(row, INST_AWAIT_DEADLINE);
	}
	else if (gd_status_is_terminal(from))
		gd_row_set_null(row, INST_FINISHED_AT);

	if (!GD_IS_NULL(row, INST_CORRELATION_KEY))
	{
		ArrayType  *scope = DatumGetArrayTypeP(GD_VALUE(row, INST_CORRELATION_SCOPE));

		if (!gd_scope_has(scope, to))
			gd_row_set_null(row, INST_CORRELATION_GUARD);
		else
			effects->enters_scope = !gd_scope_has(scope, from);
	}
}

/*
 * instance_effects: do what follows beyond the row, now that it is written.
 */
static void
instance_effects(GdRow *row, const InstanceEffects *effects, TimestampTz now)
{
	const text *queue = gd_instance_text(row, INST_QUEUE);

	gd_stats_move(queue, effects->was, effects->is);
	if (effects->cancelled)
		gd_stats_count(queue, GD_COUNT_CANCELLED, 1);
	if (effects->runnable)
	{
		GdPlace		place = gd_instance_place(row);

		gd_cursor_runnable(queue, &place);
		gd_runner_announce(gd_instance_text(row, INST_FSM), gd_instance_int(row, INST_FSM_VERSION),
						   gd_instance_text(row, INST_STEP), queue, place.eligible_at, now);
	}
	if (effects->settled)
		gd_wake_settled(gd_instance_id(row));
	if (effects->due != DT_NOEND)
		gd_due_at(effects->due);
	if (effects->ended_claim)
	{
		gd_session_ended(&effects->token);
		gd_dispatched_ended(&effects->token);
	}
	if (effects->ended)
		gd_inbox_drop(gd_instance_id(row));
	if (effects->freed_slot)
		gd_effect_credit(effects->freed_key, effects->shard);
	if (effects->freed_key)
		gd_effect_promote(GD_BLOCK_CONC, effects->freed_key);
	if (effects->passed_rate)
		gd_effect_promote(GD_BLOCK_RATE, effects->passed_rate);
	if (effects->joins_barrier > 0)
		gd_effect_join(DatumGetInt64(GD_VALUE(row, INST_PARENT_ID)), effects->joins_barrier);
}

/*
 * gd_instance_write: write a locked row's new values and bring about what
 * follows from its change of status; see the top of the file.
 *
 * The row's slot still holds the version that was locked.
 */
void
gd_instance_write(GdRow *row, TimestampTz now)
{
	InstanceEffects effects;

	instance_transition(row, now, &effects);
	if (effects.enters_scope)
		instance_write_with_key(row);
	else
		gd_row_update(row);
	instance_effects(row, &effects, now);
}

/*
 * gd_instance_try_write: likewise for a row that was loaded and not locked;
 * false, and nothing done, if another transaction has locked or changed it.
 */
bool
gd_instance_try_write(GdRow *row, TimestampTz now)
{
	InstanceEffects effects;

	instance_transition(row, now, &effects);
	if (effects.enters_scope)
	{
		if (!gd_row_lock_same(row))
			return false;
		instance_write_with_key(row);
	}
	else if (!gd_row_try_update(row))
		return false;
	instance_effects(row, &effects, now);
	return true;
}
