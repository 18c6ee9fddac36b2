/*
 * leave.h
 *		Giving claims back when a process ends.
 */
#ifndef GEN_DURABLE_LEAVE_H
#define GEN_DURABLE_LEAVE_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "engine/instance.h"

/* Gives back what is to be; by_id scans instances, and row is of them. */
typedef void (*GdLeave) (GdScan *by_id, GdRow *row, TimestampTz now);

extern void gd_leave(long nclaims, GdLeave give_back);
extern bool gd_leave_release(GdScan *by_id, GdRow *row, const pg_uuid_t *token,
							 TimestampTz now);

#endif							/* GEN_DURABLE_LEAVE_H */
