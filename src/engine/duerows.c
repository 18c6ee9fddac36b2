/*
 * duerows.c
 *		How many rows of a queue are due, and when the next one is.
 *
 * As a pick, it looks at each priority's rows only as far as they are due, so
 * that rows of the future cost one probe a priority.  It takes no row locks.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "engine/duerows.h"
#include "engine/instance.h"
#include "engine/queues.h"

/*
 * due_next: when the first row of a priority after now is due.
 */
static TimestampTz
due_next(GdScan *scan, const text *queue, int16 priority, TimestampTz now)
{
	gd_scan_text(scan, 1, queue);
	gd_scan_key(scan, 2, BTEqualStrategyNumber, F_INT2EQ, Int16GetDatum(priority));
	gd_scan_key(scan, 3, BTGreaterStrategyNumber, F_TIMESTAMPTZ_GT, TimestampTzGetDatum(now));
	gd_scan_start(scan);
	if (!gd_scan_next(scan))
		return DT_NOEND;
	return DatumGetTimestampTz(gd_slot_datum(scan->table, scan->slot, INST_ELIGIBLE_AT));
}

/*
 * gd_due_rows: how many rows of a queue are due and free to be claimed,
 * counted up to max, as the latest snapshot has it; next is when the first
 * row of the future is due, or DT_NOEND.
 *
 * A paused queue has no work before its pause ends.
 */
int
gd_due_rows(const text *queue, int max, TimestampTz now, TimestampTz *next)
{
	int			priority = PG_INT16_MIN;
	int			count = 0;
	GdTable    *instances;
	GdScan		scan;
	GdScan		later;
	GdQueue		settings;

	*next = DT_NOEND;
	gd_queue_read(queue, now, &settings);
	if (settings.paused)
	{
		*next = settings.paused_until;
		return 0;
	}
	instances = gd_table_open_read(GD_INSTANCES);
	gd_scan_begin(&scan, instances, GD_INSTANCES_PICK);
	gd_scan_begin(&later, instances, GD_INSTANCES_PICK);
	while (priority <= PG_INT16_MAX)
	{
		int			from = priority;

		priority = PG_INT16_MAX + 1;
		gd_scan_text(&scan, 1, queue);
		gd_scan_key(&scan, 2, BTGreaterEqualStrategyNumber, F_INT2GE, Int16GetDatum(from));
		gd_scan_start(&scan);
		while (gd_scan_next(&scan))
		{
			int16		here = DatumGetInt16(gd_slot_datum(instances, scan.slot, INST_PRIORITY));
			TimestampTz due = DatumGetTimestampTz(gd_slot_datum(instances, scan.slot,
																INST_ELIGIBLE_AT));

			if (due <= now && count < max)
			{
				if (gd_slot_hold(scan.slot) != GD_HOLD_OTHER)
					count++;
				continue;
			}
			/* Enough of this priority: only its first row of the future. */
			if (due <= now)
				due = due_next(&later, queue, here, now);
			*next = Min(*next, due);
			priority = here + 1;
			break;
		}
	}
	gd_scan_end(&later);
	gd_scan_end(&scan);
	gd_table_close(instances);
	return count;
}
