/*
 * census.c
 *		The census: counting all live rows, to set the gauges of the statistics
 *		right (shmem/stats.c).
 *
 * It reads the table once, from its first page to its last, under one
 * snapshot, which it holds as long.  It locks and writes nothing.
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "engine/census.h"
#include "engine/instance.h"
#include "names.h"
#include "shmem/shmem.h"
#include "shmem/stats.h"
#include "table.h"

PG_FUNCTION_INFO_V1(gd_recount);

/* Rows between two looks at whether to give up. */
#define GIVE_UP_ROWS 1000

/*
 * So long is waited for transactions that the snapshot sees and that have not
 * said what they did.  They do that as the next thing after their commit.
 */
#define SETTLE_MS 1000

static GdGauge
census_gauge(GdTable *instances, TupleTableSlot *slot)
{
	GdStatus	status = gd_status_of(DatumGetObjectId(gd_slot_datum(instances, slot, INST_STATUS)));
	bool		not_blocked;

	if (status != GD_RUNNABLE)
		return gd_instance_gauge(status, false, 0, 0);
	(void) gd_slot_value(instances, slot, INST_BLOCKED_ON, &not_blocked);
	return gd_instance_gauge(status, !not_blocked,
							 DatumGetTimestampTz(gd_slot_datum(instances, slot, INST_ELIGIBLE_AT)),
							 DatumGetTimestampTz(gd_slot_datum(instances, slot, INST_UPDATED_AT)));
}

/*
 * census_scan: count the live rows that a snapshot sees; -1 if it was given
 * up.
 */
static int64
census_scan(GdTable *instances, Snapshot snapshot, GdGiveUp give_up)
{
	TupleTableSlot *slot = table_slot_create(instances->rel, NULL);
	TableScanDesc scan = table_beginscan(instances->rel, snapshot, 0, NULL);
	int64		counted = 0;
	int64		read = 0;

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		GdGauge		gauge = census_gauge(instances, slot);

		CHECK_FOR_INTERRUPTS();
		if (++read % GIVE_UP_ROWS == 0 && give_up && give_up())
		{
			counted = -1;
			break;
		}
		if (gauge == GD_GAUGE_NONE)
			continue;
		gd_stats_rebase_row(DatumGetTextPP(gd_slot_datum(instances, slot, INST_QUEUE)), gauge);
		counted++;
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	return counted;
}

/*
 * census_settle: wait until all that the snapshot sees is in the gauges that
 * the count corrects; false if it was given up.
 */
static bool
census_settle(GdGiveUp give_up)
{
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), SETTLE_MS);

	while (gd_stats_rebase_owed())
	{
		CHECK_FOR_INTERRUPTS();
		if (GetCurrentTimestamp() >= until || (give_up && give_up()))
			return false;
		(void) WaitLatch(MyLatch, WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 1,
						 gd_wait_event("GenDurableCensus"));
	}
	return true;
}

/*
 * gd_census: count all live rows and set the gauges right; returns how many
 * there are, or -1 if it was given up, another process is counting, or a process has stood
 * still at its commit.
 *
 * What this transaction has written counts at its commit, so it must not have
 * written anything yet.
 */
int64
gd_census(GdGiveUp give_up)
{
	GdTable    *instances = gd_table_open_read(GD_INSTANCES);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	int64		counted = -1;

	Assert(!TransactionIdIsValid(GetTopTransactionIdIfAny()));
	if (gd_stats_rebase_begin(snapshot))
	{
		PG_TRY();
		{
			counted = census_scan(instances, snapshot, give_up);
			if (counted >= 0 && !census_settle(give_up))
				counted = -1;
		}
		PG_CATCH();
		{
			gd_stats_rebase_end(false);
			PG_RE_THROW();
		}
		PG_END_TRY();
		gd_stats_rebase_end(counted >= 0);
	}
	UnregisterSnapshot(snapshot);
	gd_table_close(instances);
	return counted;
}

/*
 * recount() -> how many live rows there are
 */
Datum
gd_recount(PG_FUNCTION_ARGS)
{
	int64		counted;

	gd_writes("gen_durable.recount()");
	if (!gd_shmem_ready())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there are no statistics without gen_durable in shared_preload_libraries")));
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("gen_durable.recount() cannot count in a transaction that has written"),
				 errhint("Call it in a transaction of its own.")));
	counted = gd_census(NULL);
	if (counted < 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("another process is counting instances, or does not end its commit"),
				 errhint("Try again in a while.")));
	PG_RETURN_INT64(counted);
}
