/*
 * maintenance.h
 *		What the passing of time asks for: one bounded pass each.
 *
 * Each pass takes the oldest first, skips rows that others hold, and returns
 * how many rows it dealt with.
 */
#ifndef GEN_DURABLE_MAINTENANCE_H
#define GEN_DURABLE_MAINTENANCE_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "utils/uuid.h"

#include "table.h"

extern int64 gd_overdue_pass(GdIndexId index, int max_rows,
							 void (*act) (GdRow *row, TimestampTz now));
extern void gd_reap_claim(const pg_uuid_t *token, bool begun);
extern int64 gd_reap_pass(int max_rows);
extern int64 gd_timeouts_pass(int max_rows);
extern int64 gd_gc_all(const Interval *retention, int batch);

#endif							/* GEN_DURABLE_MAINTENANCE_H */
