/*
 * insert.h
 *		Creating instances.
 */
#ifndef GEN_DURABLE_INSERT_H
#define GEN_DURABLE_INSERT_H

#include "postgres.h"

#include "engine/spec.h"
#include "table.h"

/* One instance to create, and what became of it. */
typedef struct GdInsertItem
{
	GdSpec	   *spec;
	int64		parent_id;		/* 0: none */
	int			barrier;		/* of the parent */
	int64		id;				/* out: the new row, or the occupant of its
								 * key */
	bool		created;		/* out */
} GdInsertItem;

extern void gd_insert_items(GdTable *instances, GdInsertItem *items, int nitems,
							TimestampTz now);

#endif							/* GEN_DURABLE_INSERT_H */
