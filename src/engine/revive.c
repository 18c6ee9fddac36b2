/*
 * revive.c
 *		revive: making a failed or cancelled instance runnable again (D-15).
 *
 * Its end has been counted by its parent already and is not counted again.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/instance.h"
#include "fault.h"
#include "names.h"

PG_FUNCTION_INFO_V1(gd_revive);

/*
 * revive(id, step)
 */
Datum
gd_revive(PG_FUNCTION_ARGS)
{
	TimestampTz now = gd_now();
	text	   *step;
	int64		id;
	GdInstances instances;
	GdRow	   *row;
	GdStatus	status;

	gd_writes("gen_durable.revive()");
	gd_arg_required(fcinfo, 0, "id");
	id = PG_GETARG_INT64(0);
	step = gd_arg_name_or_null(fcinfo, 1, "step");

	gd_instances_open(&instances);
	row = instances.row;
	if (gd_instance_lock(&instances.by_id, row, id, true) != GD_LOCKED)
		ereport(ERROR,
				(errcode(GD_ERRCODE_NOT_FOUND),
				 errmsg("instance %lld does not exist", (long long) id)));
	status = gd_instance_status(row);
	if (status == GD_DONE)
		ereport(ERROR,
				(errcode(GD_ERRCODE_TERMINAL),
				 errmsg("instance %lld is done", (long long) id),
				 errhint("Only failed and cancelled instances can be revived.")));
	if (!gd_status_is_terminal(status))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("instance %lld is %s", (long long) id, gd_status_name(status)),
				 errhint("Only failed and cancelled instances can be revived.")));

	if (step)
		gd_row_set(row, INST_STEP, PointerGetDatum(step));
	gd_row_set(row, INST_ATTEMPT, Int32GetDatum(0));
	gd_row_set(row, INST_CRASHES, Int32GetDatum(0));
	gd_row_set(row, INST_CHILDREN_PENDING, Int32GetDatum(0));
	gd_row_set_null(row, INST_LAST_ERROR);
	gd_instance_to_runnable(row, now);
	gd_instance_write(row, now);

	gd_instances_close(&instances);
	PG_RETURN_VOID();
}
