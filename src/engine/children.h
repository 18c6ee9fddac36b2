/*
 * children.h
 *		Parents and children: the barrier, and what a parent sees of its children.
 */
#ifndef GEN_DURABLE_CHILDREN_H
#define GEN_DURABLE_CHILDREN_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "table.h"

extern Datum gd_children_load(GdScan *by_parent, int64 parent_id, Datum none);
extern void gd_children_join(int64 parent_id, int barrier, int count, TimestampTz now);

#endif							/* GEN_DURABLE_CHILDREN_H */
