/*
 * expired.h
 *		Runs whose claim has expired, the oldest claim first.
 */
#ifndef GEN_DURABLE_RUN_EXPIRED_H
#define GEN_DURABLE_RUN_EXPIRED_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "run_store/scope.h"
#include "table.h"

/* Of a tenant that the user is confined to: the oldest claim not looked at. */
typedef struct GdRunHead
{
	const text *key;
	TimestampTz claimed_at;
	int64		id;
} GdRunHead;

typedef struct GdRunExpired
{
	GdTable    *runs;
	TimestampTz before;			/* a claim as old as that is young */
	GdScan		scan;
	const GdRunTenants *tenants;
	bool		by_tenant;		/* the scan is of each tenant's claims */
	GdRunHead  *heads;			/* of those tenants, once looked up */
	int			nheads;
	int			standing;		/* the head whose run the scan stands at, and
								 * that has been looked at; -1: none */
} GdRunExpired;

extern void gd_run_expired_begin(GdRunExpired *expired, GdTable *runs, TimestampTz before,
								 const GdRunTenants *tenants);
extern bool gd_run_expired_step(GdRunExpired *expired);
extern bool gd_run_expired_next(GdRunExpired *expired, GdRow *row, GdHold *hold);
extern void gd_run_expired_end(GdRunExpired *expired);

#endif							/* GEN_DURABLE_RUN_EXPIRED_H */
