/*
 * tick.c
 *		tick: every kind of maintenance once, for servers without the
 *		background processes.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/blocked.h"
#include "engine/effects.h"
#include "engine/maintenance.h"
#include "guc.h"
#include "limiter/holders.h"
#include "names.h"

#define TICK_ROWS 1000
#define TICK_KEYS 1000

PG_FUNCTION_INFO_V1(gd_tick);

/*
 * tick() -> (reaped, timeouts, promoted, collected)
 */
Datum
gd_tick(PG_FUNCTION_ARGS)
{
	GdTable    *instances;
	TupleDesc	desc;
	Datum		values[4];
	bool		nulls[4] = {false};

	gd_writes("gen_durable.tick()");
	values[0] = Int64GetDatum(gd_reap_pass(TICK_ROWS) + gd_holders_expire(TICK_ROWS));
	values[1] = Int64GetDatum(gd_timeouts_pass(TICK_ROWS));
	gd_effects_apply();
	instances = gd_table_open(GD_INSTANCES);
	values[2] = Int64GetDatum(gd_blocked_recheck(instances, TICK_KEYS, gd_now()));
	gd_table_close(instances);
	values[3] = Int64GetDatum(gd_gc_all(gd_interval_from_ms(gd_gc_retention * 1000.0), gd_gc_batch));

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
