/*
 * collect.c
 *		Deleting runs that have ended long enough ago.
 *
 * The direct path runs no triggers.  Where somebody's foreign key or trigger
 * wants to know of deleted runs - events that go with their run - SQL deletes
 * them, with the rights of the table's owner; the extension's own trigger,
 * which the direct path does without, does not count.
 *
 * Locks: the rows that are deleted; what others hold is left to the next pass.
 */
#include "postgres.h"

#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/reltrigger.h"
#include "utils/timestamp.h"

#include "run_store/collect.h"
#include "run_store/listing.h"
#include "run_store/run.h"
#include "shmem/stats.h"
#include "subxact.h"

/*
 * collect_wants_sql: does anything follow the deletion of a run?
 */
static bool
collect_wants_sql(GdTable *runs)
{
	TriggerDesc *triggers = runs->rel->trigdesc;

	for (int i = 0; triggers && i < triggers->numtriggers; i++)
		if (TRIGGER_FOR_DELETE(triggers->triggers[i].tgtype) &&
			strcmp(triggers->triggers[i].tgname, GD_LISTING_TRIGGER) != 0)
			return true;
	return false;
}

/*
 * collect_by_sql: delete a locked run as SQL does.
 *
 * The triggers run with the owner's rights, so not by the names that the
 * caller's search_path finds.
 */
static bool
collect_by_sql(void *arg)
{
	GdRow	   *row = arg;
	GdTable    *runs = row->table;
	Oid			argtypes[] = {TEXTOID};
	Datum		args[] = {GD_VALUE(row, RUN_RUN_ID)};
	Oid			save_user;
	int			save_context;
	int			guc_level = NewGUCNestLevel();

	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(runs->rel->rd_rel->relowner, save_context | SECURITY_LOCAL_USERID_CHANGE);
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	SPI_connect();
	if (SPI_execute_with_args("DELETE FROM gen_durable.runs WHERE run_id OPERATOR(pg_catalog.=) $1",
							  1, argtypes, args, NULL, false, 0) != SPI_OK_DELETE)
		elog(ERROR, "could not delete a run");
	SPI_finish();
	AtEOXact_GUC(false, guc_level);
	SetUserIdAndSecContext(save_user, save_context);
	return true;
}

/*
 * collect_run: delete a locked run; false if somebody's rows refer to it, and
 * do not go with it.
 */
static bool
collect_run(GdRow *row, bool by_sql)
{
	if (by_sql)
		return gd_subtransaction(collect_by_sql, row, ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION);
	gd_row_delete(row);
	gd_run_listing_remove(row);
	return true;
}

static void
collect_tell_kept(int64 kept)
{
	if (kept > 0)
		ereport(WARNING,
				(errcode(ERRCODE_FOREIGN_KEY_VIOLATION),
				 errmsg_plural("gc left %lld ended run to which rows of other tables refer",
							   "gc left %lld ended runs to which rows of other tables refer",
							   kept, (long long) kept),
				 errhint("Give the foreign keys ON DELETE CASCADE, or delete those rows.")));
}

/*
 * gd_runs_collect: delete terminal runs that ended before an instant, the
 * oldest first; returns how many.  Those that have to stay count for max_rows.
 */
int64
gd_runs_collect(TimestampTz finished_before, int max_rows)
{
	GdTable    *runs = gd_table_open(GD_RUNS);
	GdRow	   *row = gd_row_create(runs);
	bool		by_sql = collect_wants_sql(runs);
	int64		collected = 0;
	int64		kept = 0;
	GdScan		scan;

	gd_scan_begin(&scan, runs, GD_RUNS_FINISHED);
	gd_scan_key(&scan, 1, BTLessStrategyNumber, F_TIMESTAMPTZ_LT, TimestampTzGetDatum(finished_before));
	gd_scan_start(&scan);
	while (collected + kept < max_rows && gd_scan_next(&scan))
	{
		if (gd_slot_hold(scan.slot) == GD_HOLD_OTHER ||
			gd_row_lock_delete(row, &scan.slot->tts_tid) != GD_LOCKED)
			continue;
		if (collect_run(row, by_sql))
			collected++;
		else
			kept++;
	}
	gd_scan_end(&scan);
	gd_row_free(row);
	gd_table_close(runs);
	gd_table_flush();
	gd_stats_count_run(GD_RUNS_COLLECTED, collected);
	collect_tell_kept(kept);
	return collected;
}
