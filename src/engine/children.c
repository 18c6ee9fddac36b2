/*
 * children.c
 *		Parents and children: the barrier, and what a parent sees of its children.
 *
 * Each fan-out of a parent is a barrier with a number.  A child carries the
 * number of the barrier that its end counts into (joins_barrier), set to zero
 * when it has counted.  So an end counts exactly once, in its own fan-out,
 * whatever is revived, cancelled or scheduled again in between.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "utils/builtins.h"

#include "engine/children.h"
#include "engine/instance.h"
#include "engine/job.h"
#include "guc.h"
#include "json.h"
#include "names.h"

static void
children_put_nullable(JsonbParseState **to, const char *key, GdScan *scan,
					  GdInstanceColumn column, bool is_json)
{
	bool		isnull;
	Datum		value = gd_slot_value(scan->table, scan->slot, column, &isnull);

	/* Copies: what is put is read when the scan has long left the page. */
	if (isnull)
		gd_json_put_null(to, key);
	else if (is_json)
		gd_json_put_jsonb(to, key, JsonbPGetDatum(DatumGetJsonbPCopy(value)));
	else
		gd_json_put_text(to, key, DatumGetTextPCopy(value));
}

static GdStatus
children_status(GdScan *scan)
{
	return gd_status_of(DatumGetObjectId(gd_slot_datum(scan->table, scan->slot, INST_STATUS)));
}

/* Bytes of a column once it is detoasted; 0 for NULL. */
static Size
children_size(GdScan *scan, GdInstanceColumn column)
{
	bool		isnull;
	Datum		value = gd_slot_value(scan->table, scan->slot, column, &isnull);

	return isnull ? 0 : toast_raw_datum_size(value);
}

/*
 * gd_children_load: the children of an instance as a job carries them, or
 * `none`.  by_parent scans the parent index.
 */
Datum
gd_children_load(GdScan *by_parent, int64 parent_id, Datum none)
{
	JsonbParseState *to = NULL;
	Size		bytes = 0;
	int			n = 0;

	gd_scan_int8(by_parent, 1, parent_id);
	gd_scan_start(by_parent);
	while (n < gd_job_rows && gd_scan_next(by_parent))
	{
		bytes += children_size(by_parent, INST_STATE) + children_size(by_parent, INST_RESULT) +
			children_size(by_parent, INST_LAST_ERROR) + GD_NAME_MAX;
		if (bytes > GD_JOB_BYTES)
			break;
		if (n++ == 0)
			pushJsonbValue(&to, WJB_BEGIN_ARRAY, NULL);
		pushJsonbValue(&to, WJB_BEGIN_OBJECT, NULL);
		gd_json_put_int(&to, "id",
						DatumGetInt64(gd_slot_datum(by_parent->table, by_parent->slot, INST_ID)));
		children_put_nullable(&to, "fsm", by_parent, INST_FSM, false);
		gd_json_put_cstring(&to, "status", gd_status_name(children_status(by_parent)));
		children_put_nullable(&to, "state", by_parent, INST_STATE, true);
		children_put_nullable(&to, "result", by_parent, INST_RESULT, true);
		children_put_nullable(&to, "error", by_parent, INST_LAST_ERROR, false);
		pushJsonbValue(&to, WJB_END_OBJECT, NULL);
	}
	return n == 0 ? none :
		JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&to, WJB_END_ARRAY, NULL)));
}

/* Does the parent that a slot holds await this barrier? */
static bool
children_awaited(GdTable *instances, TupleTableSlot *slot, int barrier)
{
	return gd_status_of(DatumGetObjectId(gd_slot_datum(instances, slot, INST_STATUS))) ==
		GD_AWAITING_CHILDREN &&
		DatumGetInt32(gd_slot_datum(instances, slot, INST_BARRIER)) == barrier;
}

/*
 * gd_children_join: children of a barrier have ended; the last one wakes the
 * parent.
 *
 * Waits for the parent's row lock, but only where the parent awaits this very
 * barrier: one that does not never will again, since barriers only rise, and
 * to wait for it in vain could close a circle.
 */
void
gd_children_join(int64 parent_id, int barrier, int count, TimestampTz now)
{
	GdTable    *instances = gd_table_open(GD_INSTANCES);
	GdRow	   *row = gd_row_create(instances);
	GdScan		by_id;

	gd_scan_begin(&by_id, instances, GD_INSTANCES_PKEY);
	if (gd_instance_find(&by_id, parent_id) &&
		children_awaited(instances, by_id.slot, barrier) &&
		gd_row_lock(row, &by_id.slot->tts_tid, true) == GD_LOCKED &&
		children_awaited(instances, row->slot, barrier))
	{
		int			pending = Max(gd_instance_int(row, INST_CHILDREN_PENDING) - count, 0);

		gd_row_set(row, INST_CHILDREN_PENDING, Int32GetDatum(pending));
		if (pending == 0)
			gd_instance_to_runnable(row, now);
		gd_instance_write(row, now);
	}
	gd_scan_end(&by_id);
	gd_row_free(row);
	gd_table_close(instances);
}
