/*
 * orphans.c
 *		The scheduler's part that takes back, at its start, what was claimed
 *		ahead before the server crashed, or by the primary before this one.
 *
 * The buffer is lost then (shmem/dispatch.c), and with it who had taken which
 * claim: all that is left is the scheduler's name in the row.  A worker that
 * lives beats, and its name or at least that it is there is written down at the
 * first beat (engine/heartbeat.c).  So what still has the scheduler's name when
 * two beats should have come is nobody's, and is given back as it was: it is not
 * an attempt, for nobody had begun it (GD-235..237).
 *
 * Claims that the buffer knows are looked after by feeder.c.
 *
 * Lock: the rows, as release does; one that another has locked is tried again.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "bgw/orphans.h"
#include "clock.h"
#include "engine/instance.h"
#include "engine/pick.h"
#include "engine/queues.h"
#include "engine/release.h"
#include "events.h"
#include "guc.h"
#include "shmem/dispatch.h"

/* What one pass takes back at most. */
#define PASS_CLAIMS 1000

/* Rows that others have locked are tried again after so long. */
#define RETRY_MS 100

#define MS INT64CONST(1000)

typedef struct OrphansPass
{
	TimestampTz now;
	TimestampTz next;			/* when to look again, or DT_NOEND: never */
	int			n;
	pg_uuid_t	tokens[PASS_CLAIMS];
} OrphansPass;

/* When to look again; at the process's start at once. */
static TimestampTz look_at = DT_NOBEGIN;

/*
 * orphan_since: from when on a row's claim is nobody's; DT_NOEND if it is not
 * one that was made ahead, or the buffer knows it.
 */
static TimestampTz
orphan_since(GdTable *instances, TupleTableSlot *slot, TimestampTz now, pg_uuid_t *token)
{
	bool		no_name;
	bool		no_token;
	Datum		name = gd_slot_value(instances, slot, INST_LOCKED_BY, &no_name);
	Datum		value = gd_slot_value(instances, slot, INST_TOKEN, &no_token);
	GdQueue		queue;
	int64		margin;

	if (no_name || no_token ||
		!gd_text_equal(DatumGetTextPP(name), cstring_to_text(GD_SCHEDULER_NAME)))
		return DT_NOEND;
	*token = *DatumGetUUIDP(value);
	if (gd_dispatch_find(token, NULL) != GD_DISPATCH_NONE)
		return DT_NOEND;
	gd_queue_read(DatumGetTextPP(gd_slot_datum(instances, slot, INST_QUEUE)), now, &queue);
	margin = Max(gd_later(0, &queue.lease_ttl) - 2 * MS * gd_heartbeat_interval, 0);
	return DatumGetTimestampTz(gd_slot_datum(instances, slot, INST_LEASE_EXPIRES_AT)) - margin;
}

/*
 * orphans_find: note those that are nobody's now, and when the first of the
 * others will be.
 */
static void
orphans_find(OrphansPass *pass)
{
	GdTable    *instances = gd_table_open_read(GD_INSTANCES);
	GdScan		scan;

	gd_scan_begin(&scan, instances, GD_INSTANCES_LEASE);
	gd_scan_key(&scan, 1, BTGreaterEqualStrategyNumber, F_TIMESTAMPTZ_GE,
				TimestampTzGetDatum(DT_NOBEGIN));
	gd_scan_start(&scan);
	while (pass->n < PASS_CLAIMS && gd_scan_next(&scan))
	{
		TimestampTz since = orphan_since(instances, scan.slot, pass->now, &pass->tokens[pass->n]);

		CHECK_FOR_INTERRUPTS();
		if (since <= pass->now)
			pass->n++;
		else
			pass->next = Min(pass->next, since);
	}
	if (pass->n == PASS_CLAIMS)
		pass->next = pass->now;
	gd_scan_end(&scan);
	gd_table_close(instances);
}

/*
 * pass_orphans: take back what is nobody's.
 */
static int64
pass_orphans(void *arg)
{
	OrphansPass *pass = arg;
	GdInstances instances;
	int64		reclaimed = 0;

	orphans_find(pass);
	gd_instances_open(&instances);
	for (int i = 0; i < pass->n; i++)
	{
		GdFence		fence = gd_instance_fence(&instances.by_id, instances.row, &pass->tokens[i], false);

		if (fence == GD_FENCE_BUSY)
			pass->next = Min(pass->next, pass->now + RETRY_MS * MS);
		else if (fence != GD_FENCE_STALE &&
				 gd_text_equal(gd_instance_text(instances.row, INST_LOCKED_BY),
							   cstring_to_text(GD_SCHEDULER_NAME)))
		{
			gd_release_row(instances.row, pass->now, GD_COUNT_RECLAIMED);
			reclaimed++;
		}
	}
	gd_instances_close(&instances);
	if (reclaimed > 0)
		gd_event("scheduler.reclaimed", "count=%lld", (long long) reclaimed);
	return reclaimed;
}

/*
 * gd_orphans_turn: take back what is nobody's, if it is time to look; anew: what
 * the queues and settings say may have changed.  next is lowered to when to come
 * again, by the engine's clock.
 */
GdFound
gd_orphans_turn(bool anew, TimestampTz *next)
{
	TimestampTz now = gd_now();
	GdFound		found = GD_FOUND_EXTENSION;

	if (look_at <= now || (anew && look_at != DT_NOEND))
	{
		OrphansPass *pass = palloc(sizeof(OrphansPass));
		int64		done;

		pass->now = now;
		pass->next = DT_NOEND;
		pass->n = 0;
		found = gd_work_run(pass_orphans, pass, &done);
		if (found == GD_FOUND_EXTENSION)
			look_at = pass->next;
		pfree(pass);
	}
	*next = Min(*next, look_at);
	return found;
}
