/*
 * place.h
 *		A place in the order in which a queue is picked.
 */
#ifndef GEN_DURABLE_PLACE_H
#define GEN_DURABLE_PLACE_H

#include "postgres.h"

#include "datatype/timestamp.h"

typedef struct GdPlace
{
	int16		priority;
	TimestampTz eligible_at;
	int64		id;
} GdPlace;

/* Is a before b?  Negative, zero or positive, as memcmp. */
static inline int
gd_place_compare(const GdPlace *a, const GdPlace *b)
{
	if (a->priority != b->priority)
		return a->priority < b->priority ? -1 : 1;
	if (a->eligible_at != b->eligible_at)
		return a->eligible_at < b->eligible_at ? -1 : 1;
	return (a->id > b->id) - (a->id < b->id);
}

#endif							/* GEN_DURABLE_PLACE_H */
