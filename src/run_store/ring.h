/*
 * ring.h
 *		Ready runs, breadth-first over the tenants that have any.
 */
#ifndef GEN_DURABLE_RUN_RING_H
#define GEN_DURABLE_RUN_RING_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "run_store/scope.h"
#include "table.h"

typedef enum GdRunRingPhase
{
	GD_RING_BEHIND,				/* from behind the last call's tenant on */
	GD_RING_BEFORE,				/* from the first tenant up to that one */
	GD_RING_ROUNDS				/* all have had their turn: another one each */
} GdRunRingPhase;

/* A tenant that had its turn, and the last run of it that was looked at. */
typedef struct GdRunTurn
{
	text	   *key;
	TimestampTz wake_at;
	int64		id;
} GdRunTurn;

typedef struct GdRunRing
{
	GdTable    *runs;
	TimestampTz now;
	const GdRunTenants *tenants;
	GdScan		scan;			/* of the due runs */
	bool		probed;			/* its row was found without a start */
	GdRunRingPhase phase;
	text	   *start;			/* the last call's tenant, or NULL */
	text	   *at;				/* the tenant that the walk is at, or NULL */
	bool		served;			/* the tenant at hand has had its turn */
	GdRunTurn  *turns;
	int			nturns;
	int			size;			/* of turns */
	int			turn;			/* whose turn it is, in the rounds */
	bool		standing;		/* the scan stands at that turn's last run */
} GdRunRing;

extern void gd_run_ring_begin(GdRunRing *ring, GdTable *runs, TimestampTz now, int max_rows,
							  GdRow *row);
extern bool gd_run_ring_next(GdRunRing *ring, GdRow *row, GdHold *hold);
extern text *gd_run_ring_served(GdRunRing *ring);
extern void gd_run_ring_end(GdRunRing *ring);

#endif							/* GEN_DURABLE_RUN_RING_H */
