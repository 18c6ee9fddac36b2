/*
 * ring.c
 *		Ready runs, breadth-first over the tenants that have any (D-21).
 *
 * The first run of each tenant comes before the second of any, and the next
 * call goes on behind the tenant that was served last (shmem/turn.c).  The
 * walk enters the index of due runs behind a tenant and so stands at the next
 * one's oldest run: what a run costs does not depend on how many tenants there
 * are.  When the circle is closed, each tenant that may have more is entered
 * again behind its last run, by turns.
 *
 * Runs whose time has come since they were written are in another index, so a
 * tenant whose runs all sleep costs nothing.  Each call first moves some of
 * them over, the oldest first, always more than it claims.
 *
 * To enter the index for one run is gd_scan_probe's; where that cannot tell, a
 * scan goes on from there, and serves the steps that follow.
 *
 * A user who is confined to some tenants has those for a circle.
 *
 * Locks: the sleeping runs that are moved; those that others hold are passed
 * over.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "names.h"
#include "run_store/ring.h"
#include "run_store/run.h"
#include "shmem/turn.h"

/* Sleeping runs that a call moves at most, if it claims no more than a few. */
#define SLEEPERS_MIN 16
#define SLEEPERS_MAX 100000

static text *
ring_key(GdRunRing *ring)
{
	return DatumGetTextPP(gd_slot_datum(ring->runs, ring->scan.slot, RUN_SCOPE_KEY));
}

static TimestampTz
ring_wake_at(GdTable *runs, TupleTableSlot *slot)
{
	return DatumGetTimestampTz(gd_slot_datum(runs, slot, RUN_WAKE_AT));
}

/*
 * ring_seek: stand before the runs whose tenant compares so with a key.
 */
static void
ring_seek(GdScan *scan, StrategyNumber strategy, RegProcedure proc, const text *key)
{
	gd_scan_key(scan, 1, strategy, proc, PointerGetDatum(key));
	gd_scan_start(scan);
}

/*
 * ring_wake: move sleeping runs whose time has come, as far as the scan has
 * them and up to a number; returns how many may still be moved.
 */
static int
ring_wake(GdScan *scan, GdRow *row, TimestampTz now, int left)
{
	while (left > 0 && gd_scan_next(scan) && ring_wake_at(scan->table, scan->slot) <= now)
	{
		if (gd_slot_hold(scan->slot) == GD_HOLD_OTHER)
			continue;
		gd_row_load(row, scan->slot);
		left -= gd_run_write(row, now, false);
	}
	return left;
}

static void
ring_wake_sleepers(GdRunRing *ring, GdRow *row, int max_rows)
{
	int			want = Min(Max(2 * Min(max_rows, SLEEPERS_MAX), SLEEPERS_MIN), SLEEPERS_MAX);
	int			left = want;
	GdScan		scan;

	if (ring->tenants->confined)
	{
		gd_scan_begin(&scan, ring->runs, GD_RUNS_TENANT_SLEEPING);
		for (int i = 0; i < ring->tenants->n && left > 0; i++)
		{
			ring_seek(&scan, BTEqualStrategyNumber, F_TEXTEQ, ring->tenants->keys[i]);
			left = ring_wake(&scan, row, ring->now, left);
		}
	}
	else
	{
		gd_scan_begin(&scan, ring->runs, GD_RUNS_SLEEPING);
		gd_scan_key(&scan, 1, BTLessEqualStrategyNumber, F_TIMESTAMPTZ_LE, TimestampTzGetDatum(ring->now));
		gd_scan_start(&scan);
		left = ring_wake(&scan, row, ring->now, left);
	}
	gd_scan_end(&scan);
	if (left < want)
		gd_table_flush();
}

/*
 * gd_run_ring_begin: begin a walk.  The row is only used in between.
 */
void
gd_run_ring_begin(GdRunRing *ring, GdTable *runs, TimestampTz now, int max_rows, GdRow *row)
{
	memset(ring, 0, sizeof(GdRunRing));
	ring->runs = runs;
	ring->now = now;
	ring->tenants = gd_run_tenants();
	ring_wake_sleepers(ring, row, max_rows);

	ring->size = Min(max_rows, 1024);
	ring->turns = palloc(sizeof(GdRunTurn) * ring->size);
	ring->start = gd_turn_last();
	ring->at = ring->start;
	ring->served = true;
	ring->phase = GD_RING_BEHIND;
	gd_scan_begin(&ring->scan, runs, GD_RUNS_READY);
}

void
gd_run_ring_end(GdRunRing *ring)
{
	gd_scan_end(&ring->scan);
}

/*
 * ring_enter_behind: stand at the first due run behind a place, which is a
 * tenant, or one with a run's instant and id too.  A place's tenant must last.
 */
static bool
ring_enter_behind(GdRunRing *ring, int ncolumns, Datum *place)
{
	static const RegProcedure compare[] = {F_BTTEXTCMP, F_TIMESTAMPTZ_CMP, F_BTINT8CMP};

	ring->probed = gd_scan_probe(&ring->scan, ncolumns, place);
	if (ring->probed)
		return true;
	if (ncolumns == 1)
	{
		ring_seek(&ring->scan, BTGreaterStrategyNumber, F_TEXT_GT, DatumGetTextPP(place[0]));
		return gd_scan_next(&ring->scan);
	}
	place[2] = Int64GetDatum(DatumGetInt64(place[2]) + 1);
	gd_scan_key_row(&ring->scan, 1, lengthof(compare), compare, place);
	gd_scan_start(&ring->scan);
	return gd_scan_next(&ring->scan);
}

/*
 * ring_step: step on from the run that the walk stands at.  It is of the
 * tenant at hand.
 */
static bool
ring_step(GdRunRing *ring, const text *key)
{
	Datum		place[3];

	if (!ring->probed)
		return gd_scan_next(&ring->scan);
	place[0] = PointerGetDatum(key);
	place[1] = TimestampTzGetDatum(ring_wake_at(ring->runs, ring->scan.slot));
	place[2] = gd_slot_datum(ring->runs, ring->scan.slot, RUN_ID);
	return ring_enter_behind(ring, lengthof(place), place);
}

/*
 * ring_enter_tenant: stand at the first due run of the tenant behind the one
 * that the walk is at, of all or of those that the user is confined to.
 */
static bool
ring_enter_tenant(GdRunRing *ring)
{
	const GdRunTenants *tenants = ring->tenants;

	if (!tenants->confined)
	{
		Datum		place = PointerGetDatum(ring->at);

		if (ring->at)
			return ring_enter_behind(ring, 1, &place);
		ring->probed = false;
		ring_seek(&ring->scan, BTGreaterEqualStrategyNumber, F_TEXT_GE, cstring_to_text(""));
		return gd_scan_next(&ring->scan);
	}
	ring->probed = false;
	for (int i = 0; i < tenants->n; i++)
	{
		if (ring->at && gd_run_text_compare(tenants->keys[i], ring->at) <= 0)
			continue;
		ring_seek(&ring->scan, BTEqualStrategyNumber, F_TEXTEQ, tenants->keys[i]);
		if (gd_scan_next(&ring->scan))
			return true;
	}
	return false;
}

/*
 * ring_enter_next: likewise, and from the end on to the beginning.
 */
static bool
ring_enter_next(GdRunRing *ring)
{
	if (ring_enter_tenant(ring))
		return true;
	if (ring->phase != GD_RING_BEHIND || ring->start == NULL)
		return false;
	ring->phase = GD_RING_BEFORE;
	ring->at = NULL;
	return ring_enter_tenant(ring);
}

/*
 * ring_load: take the run that the scan stands at, unless another transaction
 * holds it.
 */
static bool
ring_load(GdRunRing *ring, GdRow *row, GdHold *hold)
{
	*hold = gd_slot_hold(ring->scan.slot);
	if (*hold == GD_HOLD_OTHER)
		return false;
	gd_row_load(row, ring->scan.slot);
	return true;
}

/*
 * ring_note: the tenant at hand is in the circle, and this run of it has been
 * looked at.
 */
static void
ring_note(GdRunRing *ring, GdRow *row)
{
	GdRunTurn  *turn;

	if (ring->nturns == 0 || !gd_text_equal(ring->turns[ring->nturns - 1].key, ring->at))
	{
		if (ring->nturns == ring->size)
		{
			ring->size *= 2;
			ring->turns = repalloc_huge(ring->turns, sizeof(GdRunTurn) * ring->size);
		}
		ring->turns[ring->nturns++].key = ring->at;
	}
	turn = &ring->turns[ring->nturns - 1];
	turn->wake_at = DatumGetTimestampTz(GD_VALUE(row, RUN_WAKE_AT));
	turn->id = DatumGetInt64(GD_VALUE(row, RUN_ID));
}

/*
 * ring_discover: the next run of the first circle: of the next tenant, or of
 * the same one where its last was lost to another transaction.
 */
static bool
ring_discover(GdRunRing *ring, GdRow *row, GdHold *hold)
{
	bool		any = ring->served ? ring_enter_next(ring) : ring_step(ring, ring->at);

	ring->served = false;
	for (;;)
	{
		text	   *key;

		if (!any && !ring_enter_next(ring))
			return false;
		key = ring_key(ring);
		if (ring->phase == GD_RING_BEFORE && gd_run_text_compare(key, ring->start) > 0)
			return false;
		if (ring->at == NULL || !gd_text_equal(key, ring->at))
			ring->at = DatumGetTextPCopy(PointerGetDatum(key));
		if (ring_wake_at(ring->runs, ring->scan.slot) > ring->now)
			any = ring_enter_next(ring);
		else if (ring_load(ring, row, hold))
		{
			ring_note(ring, row);
			return true;
		}
		else
			any = ring_step(ring, ring->at);
	}
}

/*
 * ring_enter_turn: stand at the run behind the last one of the tenant whose
 * turn it is.
 */
static bool
ring_enter_turn(GdRunRing *ring)
{
	GdRunTurn  *turn = &ring->turns[ring->turn];
	Datum		place[3];

	place[0] = PointerGetDatum(turn->key);
	place[1] = TimestampTzGetDatum(turn->wake_at);
	place[2] = Int64GetDatum(turn->id);
	return ring_enter_behind(ring, lengthof(place), place);
}

/*
 * ring_round: the next run in the rounds after the first.  A tenant that has
 * no more due runs leaves the circle.
 */
static bool
ring_round(GdRunRing *ring, GdRow *row, GdHold *hold)
{
	if (ring->served && ring->nturns > 1)
	{
		ring->turn++;
		ring->standing = false;
	}
	ring->served = false;
	while (ring->nturns > 0)
	{
		GdRunTurn  *turn;
		bool		any;

		ring->turn %= ring->nturns;
		turn = &ring->turns[ring->turn];
		any = ring->standing ? ring_step(ring, turn->key) : ring_enter_turn(ring);
		ring->standing = true;
		for (; any; any = ring_step(ring, turn->key))
		{
			if (!gd_text_equal(ring_key(ring), turn->key) ||
				ring_wake_at(ring->runs, ring->scan.slot) > ring->now)
				break;
			if (!ring_load(ring, row, hold))
				continue;
			turn->wake_at = DatumGetTimestampTz(GD_VALUE(row, RUN_WAKE_AT));
			turn->id = DatumGetInt64(GD_VALUE(row, RUN_ID));
			return true;
		}
		ring->standing = false;
		ring->nturns--;
		memmove(turn, turn + 1, sizeof(GdRunTurn) * (ring->nturns - ring->turn));
	}
	return false;
}

/*
 * gd_run_ring_next: load the next ready run, unlocked; false when there is
 * none.  hold tells what was seen of others on it.
 */
bool
gd_run_ring_next(GdRunRing *ring, GdRow *row, GdHold *hold)
{
	if (ring->phase != GD_RING_ROUNDS)
	{
		if (ring_discover(ring, row, hold))
			return true;
		ring->phase = GD_RING_ROUNDS;
		ring->turn = 0;
		ring->served = false;
		ring->standing = false;
	}
	return ring_round(ring, row, hold);
}

/*
 * gd_run_ring_served: the run that was loaded last is claimed, so the turn is
 * the next tenant's.  Returns whose it was.
 */
text *
gd_run_ring_served(GdRunRing *ring)
{
	ring->served = true;
	return ring->phase == GD_RING_ROUNDS ? ring->turns[ring->turn].key : ring->at;
}
