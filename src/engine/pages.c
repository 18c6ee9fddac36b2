/*
 * pages.c
 *		children() and inbox(): paging through what belongs to an instance.
 *
 * They only read, without locks, and work on a standby too.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"

#include "engine/instance.h"
#include "names.h"

PG_FUNCTION_INFO_V1(gd_children);
PG_FUNCTION_INFO_V1(gd_inbox);

/*
 * page: fill the result of a call (id, after, max_rows) from an index over
 * (owner, id): the first max_rows rows of the owner after an id, each with the
 * columns asked for.
 */
static Datum
page(FunctionCallInfo fcinfo, GdTableId table_id, GdIndexId index, const int *columns,
	 int ncolumns)
{
	ReturnSetInfo *out = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum	   *values = palloc(sizeof(Datum) * ncolumns);
	bool	   *nulls = palloc(sizeof(bool) * ncolumns);
	GdTable    *table;
	GdScan		scan;
	int			max_rows;

	gd_arg_required(fcinfo, 0, "id");
	gd_arg_required(fcinfo, 1, "after");
	max_rows = gd_arg_positive(fcinfo, 2, "max_rows");
	InitMaterializedSRF(fcinfo, 0);

	table = gd_table_open_read(table_id);
	gd_scan_begin(&scan, table, index);
	gd_scan_int8(&scan, 1, PG_GETARG_INT64(0));
	gd_scan_key(&scan, 2, BTGreaterStrategyNumber, F_INT8GT, PG_GETARG_DATUM(1));
	gd_scan_start(&scan);
	for (int n = 0; n < max_rows && gd_scan_next(&scan); n++)
	{
		for (int c = 0; c < ncolumns; c++)
			values[c] = gd_slot_value(table, scan.slot, columns[c], &nulls[c]);
		tuplestore_putvalues(out->setResult, out->setDesc, values, nulls);
	}
	gd_scan_end(&scan);
	gd_table_close(table);
	return (Datum) 0;
}

/*
 * children(id, after, max_rows) -> setof child
 */
Datum
gd_children(PG_FUNCTION_ARGS)
{
	static const int columns[] = {
		INST_ID, INST_FSM, INST_STATUS, INST_STATE, INST_RESULT, INST_LAST_ERROR
	};

	return page(fcinfo, GD_INSTANCES, GD_INSTANCES_PARENT, columns, lengthof(columns));
}

/*
 * inbox(id, after, max_rows) -> setof inbox_signal
 */
Datum
gd_inbox(PG_FUNCTION_ARGS)
{
	static const int columns[] = {SIG_ID, SIG_NAME, SIG_PAYLOAD, SIG_INSERTED_AT};

	return page(fcinfo, GD_SIGNALS, GD_SIGNALS_INBOX, columns, lengthof(columns));
}
