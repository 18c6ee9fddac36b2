/*
 * leave.c
 *		Giving claims back when a process ends.
 *
 * Nothing is waited for, since a process that ends cannot be interrupted any
 * more.  What cannot be had at once is left to the claims' leases.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "clock.h"
#include "engine/leave.h"
#include "engine/release.h"

/*
 * leave_lock_table: lock a table and its indexes if that can be had at once;
 * false if not, or if there is no such table.
 */
static bool
leave_lock_table(Oid schema, const char *name, LOCKMODE mode)
{
	Oid			relid = get_relname_relid(name, schema);
	Relation	rel;
	List	   *indexes;
	ListCell   *cell;
	bool		locked = true;

	if (!OidIsValid(relid) || !ConditionalLockRelationOid(relid, mode))
		return false;
	rel = try_table_open(relid, NoLock);
	if (rel == NULL)
		return false;
	indexes = RelationGetIndexList(rel);
	foreach(cell, indexes)
		locked = locked && ConditionalLockRelationOid(lfirst_oid(cell), mode);
	table_close(rel, NoLock);
	return locked;
}

/*
 * leave_may_release: would giving it back touch nothing but the row?
 *
 * A row whose cancellation was asked for ends, which its parent counts; one
 * that would take its correlation key may have to wait for who has just
 * taken it.
 */
static bool
leave_may_release(GdRow *row, GdFence fence)
{
	return fence == GD_FENCE_HELD &&
		(GD_IS_NULL(row, INST_CORRELATION_KEY) || !GD_IS_NULL(row, INST_CORRELATION_GUARD) ||
		 !gd_scope_has(DatumGetArrayTypeP(GD_VALUE(row, INST_CORRELATION_SCOPE)), GD_RUNNABLE));
}

/*
 * gd_leave_release: give one claim back; false if it cannot be done at once,
 * or the claim is over.
 */
bool
gd_leave_release(GdScan *by_id, GdRow *row, const pg_uuid_t *token, TimestampTz now)
{
	GdFence		fence = gd_instance_fence(by_id, row, token, false);

	if (!leave_may_release(row, fence))
		return false;
	gd_release_row(row, now, GD_COUNT_RELEASED);
	return true;
}

static void
leave_give_back(GdLeave give_back)
{
	GdInstances instances;

	gd_instances_open(&instances);
	give_back(&instances.by_id, instances.row, gd_now());
	gd_instances_close(&instances);
}

/*
 * gd_leave: give back what this process has, some nclaims.  To be called in a
 * before_shmem_exit callback.
 *
 * An error here is logged as the end of the process that it is in anyhow;
 * the transaction is then rolled back by who comes next in the ending.
 */
void
gd_leave(long nclaims, GdLeave give_back)
{
	Oid			schema;

	AbortOutOfAnyTransaction();
	if (nclaims == 0 || RecoveryInProgress())
		return;

	StartTransactionCommand();
	XactIsoLevel = XACT_READ_COMMITTED;
	XactReadOnly = false;
	/* Waiting for a standby could not be interrupted. */
	synchronous_commit = SYNCHRONOUS_COMMIT_OFF;
	PushActiveSnapshot(GetTransactionSnapshot());
	schema = get_namespace_oid("gen_durable", true);
	if (!OidIsValid(schema))
		;						/* the extension was dropped */
	else if (leave_lock_table(schema, "instances", RowExclusiveLock) &&
			 leave_lock_table(schema, "queues", AccessShareLock))
		leave_give_back(give_back);
	else
		ereport(LOG,
				(errmsg("gen_durable: %ld claims of this session end with their leases", nclaims),
				 errdetail("Its tables are locked by another session.")));
	PopActiveSnapshot();
	CommitTransactionCommand();
}
