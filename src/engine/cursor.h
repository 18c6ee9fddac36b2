/*
 * cursor.h
 *		Where a session's picks start in a queue whose head is worn.
 */
#ifndef GEN_DURABLE_CURSOR_H
#define GEN_DURABLE_CURSOR_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* A place in the order in which a queue is picked. */
typedef struct GdPlace
{
	int16		priority;
	TimestampTz eligible_at;
	int64		id;
} GdPlace;

extern void gd_cursor_init(void);
extern bool gd_cursor_get(const text *queue, TimestampTz now, GdPlace *place);
extern void gd_cursor_set(const text *queue, TimestampTz now, const GdPlace *place);
extern void gd_cursor_advance(const text *queue, const GdPlace *place);
extern void gd_cursor_runnable(const text *queue, const GdPlace *place);

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

#endif							/* GEN_DURABLE_CURSOR_H */
