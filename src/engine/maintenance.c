/*
 * maintenance.c
 *		A bounded pass over the instances whose time has passed.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "clock.h"
#include "engine/instance.h"
#include "engine/maintenance.h"

/*
 * gd_overdue_pass: act on at most max_rows instances whose instant, the first
 * column of an index, has passed, oldest first.  Each is locked when act has
 * it; rows that others hold are passed over.  Returns how many it acted on.
 */
int64
gd_overdue_pass(GdIndexId index, int max_rows, void (*act) (GdRow *row, TimestampTz now))
{
	TimestampTz now = gd_now();
	GdTable    *instances = gd_table_open(GD_INSTANCES);
	GdRow	   *row = gd_row_create(instances);
	GdScan		scan;
	int64		done = 0;

	gd_scan_begin(&scan, instances, index);
	gd_scan_key(&scan, 1, BTLessStrategyNumber, F_TIMESTAMPTZ_LT, TimestampTzGetDatum(now));
	gd_scan_start(&scan);
	while (done < max_rows && gd_scan_next(&scan))
	{
		if (gd_row_lock(row, &scan.slot->tts_tid, false) != GD_LOCKED)
			continue;
		act(row, now);
		done++;
	}
	gd_scan_end(&scan);
	gd_row_free(row);
	gd_table_close(instances);
	gd_table_flush();
	return done;
}
