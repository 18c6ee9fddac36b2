/*
 * cancel.c
 *		cancel: ending instances from outside (D-15).
 *
 * A row that no worker holds is cancelled at once.  A held one is marked, so
 * that its key and slots stay held until its holder hears of it; force takes
 * the claim away instead.  cascade cancels the descendants too.
 *
 * Locks: waits for each row's lock, by id descending, so children before
 * their parents, and writes when it has them all.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "clock.h"
#include "engine/dispatched.h"
#include "engine/instance.h"
#include "fault.h"
#include "names.h"
#include "shmem/executors.h"
#include "subxact.h"

PG_FUNCTION_INFO_V1(gd_cancel);

typedef struct Cancel
{
	GdTable    *instances;
	GdScan		by_id;
	GdRow	   *row;
	text	   *reason;			/* or NULL */
	bool		force;
	TimestampTz now;
} Cancel;

/*
 * cancel_is_held: has a worker the row?  One that the scheduler has claimed
 * ahead of demand is held by nobody.
 */
static bool
cancel_is_held(const Cancel *c)
{
	return gd_instance_status(c->row) == GD_EXECUTING &&
		(GD_IS_NULL(c->row, INST_TOKEN) ||
		 !gd_dispatched_recall(DatumGetUUIDP(GD_VALUE(c->row, INST_TOKEN)), c->now));
}

/*
 * cancel_row: cancel the locked live row; false if it is only asked for.
 */
static bool
cancel_row(const Cancel *c)
{
	GdRow	   *row = c->row;

	if (c->reason)
		gd_row_set(row, INST_LAST_ERROR, PointerGetDatum(c->reason));
	else if (GD_IS_NULL(row, INST_CANCEL_REQUESTED_AT))
		gd_row_set_null(row, INST_LAST_ERROR);
	if (gd_instance_status(row) == GD_EXECUTING && !GD_IS_NULL(row, INST_TOKEN))
		gd_executors_cancel(DatumGetUUIDP(GD_VALUE(row, INST_TOKEN)));
	if (!c->force && cancel_is_held(c))
	{
		if (GD_IS_NULL(row, INST_CANCEL_REQUESTED_AT))
			gd_row_set(row, INST_CANCEL_REQUESTED_AT, TimestampTzGetDatum(c->now));
		gd_instance_write(row, c->now);
		return false;
	}
	gd_instance_set_status(row, GD_CANCELLED);
	gd_instance_write(row, c->now);
	return true;
}

static int
cancel_compare(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return (x < y) - (x > y);
}

/*
 * cancel_family: the ids of an instance, its children, their children, and so
 * on, in descending order; returns how many.
 */
static int
cancel_family(const Cancel *c, int64 id, int64 **ids)
{
	int			n = 1;
	int			size = 64;
	GdScan		by_parent;

	*ids = palloc(sizeof(int64) * size);
	(*ids)[0] = id;
	gd_scan_begin(&by_parent, c->instances, GD_INSTANCES_PARENT);
	for (int at = 0; at < n; at++)
	{
		gd_scan_int8(&by_parent, 1, (*ids)[at]);
		gd_scan_start(&by_parent);
		while (gd_scan_next(&by_parent))
		{
			int64		child = DatumGetInt64(gd_slot_datum(c->instances, by_parent.slot, INST_ID));

			/*
			 * A child's id is above its parent's, or SQL made a circle of
			 * them.
			 */
			if (child <= (*ids)[at])
				continue;
			if (n == size)
			{
				size *= 2;
				*ids = repalloc_huge(*ids, sizeof(int64) * size);
			}
			(*ids)[n++] = child;
		}
	}
	gd_scan_end(&by_parent);
	qsort(*ids, n, sizeof(int64), cancel_compare);
	return n;
}

/* The instances to lock. */
typedef struct Family
{
	const Cancel *cancel;
	int64	   *ids;			/* in descending order */
	int			n;
} Family;

/*
 * cancel_has_children: are all children of a locked instance of the family?
 * More cannot come while it is locked.
 */
static bool
cancel_has_children(const Family *family, GdScan *by_parent, int64 id)
{
	gd_scan_refresh(by_parent);
	gd_scan_int8(by_parent, 1, id);
	gd_scan_start(by_parent);
	while (gd_scan_next(by_parent))
	{
		int64		child = DatumGetInt64(gd_slot_datum(by_parent->table, by_parent->slot, INST_ID));

		if (child > id &&
			bsearch(&child, family->ids, family->n, sizeof(int64), cancel_compare) == NULL)
			return false;
	}
	return true;
}

/*
 * cancel_lock: lock these rows; false as soon as one of them turns out to
 * have a child that is not among them.
 *
 * Whoever has ended such a child waits for its parent at commit, and may hold
 * what would be waited for here next.
 */
static bool
cancel_lock(void *arg)
{
	Family	   *family = arg;
	GdTable    *instances = family->cancel->instances;
	GdRow	   *row = gd_row_create(instances);
	GdScan		by_id;
	GdScan		by_parent;
	bool		whole = true;

	gd_scan_begin(&by_id, instances, GD_INSTANCES_PKEY);
	gd_scan_begin(&by_parent, instances, GD_INSTANCES_PARENT);
	for (int i = 0; whole && i < family->n; i++)
		if (gd_instance_lock(&by_id, row, family->ids[i], true) == GD_LOCKED)
			whole = cancel_has_children(family, &by_parent, family->ids[i]);
	gd_scan_end(&by_parent);
	gd_scan_end(&by_id);
	gd_row_free(row);
	return whole;
}

/*
 * cancel_lock_family: lock an instance and all its descendants; returns how
 * many.
 *
 * A row may have had more children before it was locked.  To lock those too
 * would break the order, so all locks are let go, with the subtransaction that
 * took them, and taken anew.
 */
static int
cancel_lock_family(const Cancel *c, int64 id, int64 **ids)
{
	Family		family = {c};

	for (;;)
	{
		family.n = cancel_family(c, id, &family.ids);
		if (gd_subtransaction(cancel_lock, &family, 0))
			break;
		pfree(family.ids);
	}
	*ids = family.ids;
	return family.n;
}

/*
 * cancel(id, reason, cascade, force) -> 'cancelled' | 'requested'
 */
Datum
gd_cancel(PG_FUNCTION_ARGS)
{
	Cancel		c;
	int64		id;
	bool		cascade;
	bool		cancelled;
	int64	   *ids = NULL;
	int			n = 0;

	gd_writes("gen_durable.cancel()");
	gd_arg_required(fcinfo, 0, "id");
	gd_arg_required(fcinfo, 2, "cascade");
	gd_arg_required(fcinfo, 3, "force");
	id = PG_GETARG_INT64(0);
	cascade = PG_GETARG_BOOL(2);
	c.reason = PG_ARGISNULL(1) ? NULL : gd_error_text(PG_GETARG_TEXT_PP(1));
	c.force = PG_GETARG_BOOL(3);
	c.now = gd_now();

	c.instances = gd_table_open(GD_INSTANCES);
	c.row = gd_row_create(c.instances);
	if (cascade)
		n = cancel_lock_family(&c, id, &ids);
	gd_scan_begin(&c.by_id, c.instances, GD_INSTANCES_PKEY);
	for (int i = 0; i < n; i++)
		if (ids[i] != id &&
			gd_instance_lock(&c.by_id, c.row, ids[i], true) == GD_LOCKED &&
			!gd_status_is_terminal(gd_instance_status(c.row)))
			(void) cancel_row(&c);
	if (gd_instance_lock(&c.by_id, c.row, id, true) != GD_LOCKED)
		ereport(ERROR,
				(errcode(GD_ERRCODE_NOT_FOUND),
				 errmsg("instance %lld does not exist", (long long) id)));
	if (gd_status_is_terminal(gd_instance_status(c.row)))
		ereport(ERROR,
				(errcode(GD_ERRCODE_TERMINAL),
				 errmsg("instance %lld is %s already", (long long) id,
						gd_status_name(gd_instance_status(c.row)))));
	cancelled = cancel_row(&c);
	gd_scan_end(&c.by_id);
	gd_row_free(c.row);
	gd_table_close(c.instances);
	gd_table_flush();
	PG_RETURN_TEXT_P(cstring_to_text(cancelled ? "cancelled" : "requested"));
}
