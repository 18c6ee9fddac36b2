/*
 * stats.c
 *		What the view `stats` is made of: the counters of the queues, and the
 *		first entries of their parts of the pick index.
 *
 * Both cost what the number of queues asks for, not that of the rows.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/instance.h"
#include "shmem/shmem.h"
#include "shmem/stats.h"
#include "table.h"

PG_FUNCTION_INFO_V1(gd_queue_counters);
PG_FUNCTION_INFO_V1(gd_queue_heads);

/* Columns of queue_counters: the queue, gauges, counters, since, counted_at. */
#define COUNTER_COLUMNS (GD_NGAUGES + GD_NCOUNTERS + 3)

/*
 * stats_interval: microseconds as an interval of hours at most.
 */
static Datum
stats_interval(int64 us)
{
	Interval   *interval = palloc0(sizeof(Interval));

	interval->time = us;
	return IntervalPGetDatum(interval);
}

/*
 * queue_counters() -> setof (queue, one column for each gauge and counter,
 *							  since, counted_at)
 *
 * No rows where there is no shared memory.  Gauges are NULL until somebody has
 * counted.
 */
Datum
gd_queue_counters(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *out = (ReturnSetInfo *) fcinfo->resultinfo;
	GdQueueStats *queues;
	TimestampTz counted_at;
	int			n;

	InitMaterializedSRF(fcinfo, 0);
	if (!gd_shmem_ready())
		return (Datum) 0;
	n = gd_stats_read(&queues, &counted_at);
	for (int i = 0; i < n; i++)
	{
		const GdQueueStats *queue = &queues[i];
		Datum		values[COUNTER_COLUMNS];
		bool		nulls[COUNTER_COLUMNS] = {false};
		int			c = 0;

		nulls[c] = queue->name_len == 0;
		values[c++] = PointerGetDatum(cstring_to_text_with_len(queue->name, queue->name_len));
		for (int g = 0; g < GD_NGAUGES; g++)
		{
			/* Below zero only while a count is due. */
			nulls[c] = counted_at == 0;
			values[c++] = Int64GetDatum(Max(queue->gauges[g], 0));
		}
		for (int k = 0; k < GD_NCOUNTERS; k++)
			values[c++] = k == GD_COUNT_STEP_TIME ? stats_interval(queue->counters[k]) :
				Int64GetDatum(queue->counters[k]);
		values[c++] = TimestampTzGetDatum(queue->since);
		nulls[c] = counted_at == 0;
		values[c++] = TimestampTzGetDatum(counted_at);
		Assert(c == COUNTER_COLUMNS);
		tuplestore_putvalues(out->setResult, out->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* Where a queue stands in the pick index. */
typedef struct Head
{
	text	   *queue;
	TimestampTz oldest;			/* due since, or DT_NOEND */
	TimestampTz next;			/* due next, or DT_NOEND */
} Head;

/*
 * head_priority: look at one priority of a queue, whose first row is due at an
 * instant.
 */
static void
head_priority(GdScan *scan, Head *head, Datum priority, TimestampTz first, TimestampTz now)
{
	if (first > now)
	{
		head->next = Min(head->next, first);
		return;
	}
	head->oldest = Min(head->oldest, first);
	gd_scan_text(scan, 1, head->queue);
	gd_scan_key(scan, 2, BTEqualStrategyNumber, F_INT2EQ, priority);
	gd_scan_key(scan, 3, BTGreaterStrategyNumber, F_TIMESTAMPTZ_GT, TimestampTzGetDatum(now));
	gd_scan_start(scan);
	if (gd_scan_next(scan))
		head->next = Min(head->next,
						 DatumGetTimestampTz(gd_slot_datum(scan->table, scan->slot, INST_ELIGIBLE_AT)));
}

/*
 * head_read: the queue whose first row the scan stands on.
 */
static void
head_read(GdScan *scan, Head *head, TimestampTz now)
{
	bool		more;

	head->queue = DatumGetTextPCopy(gd_slot_datum(scan->table, scan->slot, INST_QUEUE));
	head->oldest = head->next = DT_NOEND;
	do
	{
		Datum		priority = gd_slot_datum(scan->table, scan->slot, INST_PRIORITY);

		head_priority(scan, head, priority,
					  DatumGetTimestampTz(gd_slot_datum(scan->table, scan->slot, INST_ELIGIBLE_AT)),
					  now);
		gd_scan_text(scan, 1, head->queue);
		gd_scan_key(scan, 2, BTGreaterStrategyNumber, F_INT2GT, priority);
		gd_scan_start(scan);
		more = gd_scan_next(scan);
	} while (more);
}

/*
 * queue_heads() -> setof (queue, oldest_due, due_next): each queue that has a
 * runnable row that is not blocked
 */
Datum
gd_queue_heads(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *out = (ReturnSetInfo *) fcinfo->resultinfo;
	TimestampTz now = gd_now();
	Datum		last = PointerGetDatum(cstring_to_text(""));
	GdTable    *instances;
	GdScan		scan;

	InitMaterializedSRF(fcinfo, 0);
	instances = gd_table_open_read(GD_INSTANCES);
	gd_scan_begin(&scan, instances, GD_INSTANCES_PICK);
	for (;;)
	{
		Head		head;
		Datum		values[3];
		bool		nulls[3] = {false};

		gd_scan_key(&scan, 1, BTGreaterStrategyNumber, F_TEXT_GT, last);
		gd_scan_start(&scan);
		if (!gd_scan_next(&scan))
			break;
		head_read(&scan, &head, now);
		values[0] = last = PointerGetDatum(head.queue);
		values[1] = TimestampTzGetDatum(head.oldest);
		nulls[1] = head.oldest == DT_NOEND;
		values[2] = TimestampTzGetDatum(head.next);
		nulls[2] = head.next == DT_NOEND;
		tuplestore_putvalues(out->setResult, out->setDesc, values, nulls);
	}
	gd_scan_end(&scan);
	gd_table_close(instances);
	return (Datum) 0;
}
