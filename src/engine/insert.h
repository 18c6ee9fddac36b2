/*
 * insert.h
 *		Creating instances.
 */
#ifndef GEN_DURABLE_INSERT_H
#define GEN_DURABLE_INSERT_H

#include "postgres.h"

#include "engine/spec.h"
#include "table.h"

/* The parent that instances are created under, if any. */
typedef struct GdParent
{
	int64		id;
	int			barrier;
} GdParent;

typedef struct GdInserted
{
	int64		id;				/* the new row, or the occupant of its key */
	bool		created;
} GdInserted;

extern int	gd_insert_specs(GdTable *instances, GdSpec *specs, int nspecs,
							const GdParent *parent, TimestampTz now,
							GdInserted *inserted);

#endif							/* GEN_DURABLE_INSERT_H */
