/*
 * cancel.c
 *		cancel: ending instances from outside (D-15).
 *
 * A row that no worker holds is cancelled at once.  A held one is marked, so
 * that its key and slots stay held until its holder hears of it; force takes
 * the claim away instead.  cascade cancels the descendants too, by id
 * descending, so children before their parents.
 *
 * Locks: waits for each row's lock, in that order.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "clock.h"
#include "engine/instance.h"
#include "fault.h"
#include "names.h"

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
	if (gd_instance_status(row) == GD_EXECUTING && !c->force)
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
 * descendants: the ids of all children, their children, and so on, in
 * descending order; returns how many.
 */
static int
descendants(const Cancel *c, int64 id, int64 **ids)
{
	int			n = 0;
	int			size = 64;
	int			at = 0;
	GdScan		by_parent;

	*ids = palloc(sizeof(int64) * size);
	gd_scan_begin(&by_parent, c->instances, GD_INSTANCES_PARENT);
	for (;;)
	{
		gd_scan_int8(&by_parent, 1, id);
		gd_scan_start(&by_parent);
		while (gd_scan_next(&by_parent))
		{
			if (n == size)
			{
				size *= 2;
				*ids = repalloc_huge(*ids, sizeof(int64) * size);
			}
			(*ids)[n++] = DatumGetInt64(gd_slot_datum(c->instances, by_parent.slot, INST_ID));
		}
		if (at == n)
			break;
		id = (*ids)[at++];
	}
	gd_scan_end(&by_parent);
	qsort(*ids, n, sizeof(int64), cancel_compare);
	return n;
}

/*
 * cancel_descendants: cancel all descendants that live; returns how many there
 * were that had not been asked to end before.
 */
static int
cancel_descendants(const Cancel *c, int64 id)
{
	int64	   *ids;
	int			n = descendants(c, id, &ids);
	int			live = 0;

	for (int i = 0; i < n; i++)
	{
		if (gd_instance_lock(unconstify(GdScan *, &c->by_id), c->row, ids[i], true) != GD_LOCKED ||
			gd_status_is_terminal(gd_instance_status(c->row)) ||
			(!GD_IS_NULL(c->row, INST_CANCEL_REQUESTED_AT) && !c->force))
			continue;
		(void) cancel_row(c);
		live++;
	}
	pfree(ids);
	return live;
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
	gd_scan_begin(&c.by_id, c.instances, GD_INSTANCES_PKEY);
	if (cascade)
	{
		/* One that we waited for may have had more children meanwhile. */
		while (cancel_descendants(&c, id) > 0)
		{
			gd_table_flush();
			gd_scan_refresh(&c.by_id);
		}
	}
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
