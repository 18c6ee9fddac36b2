/*
 * cursors.h
 *		Where the rows of a worn queue begin.
 */
#ifndef GEN_DURABLE_CURSORS_H
#define GEN_DURABLE_CURSORS_H

#include "postgres.h"

#include "place.h"
#include "shmem/wake.h"

/* A pick's way through a queue. */
typedef struct GdCursor
{
	GdWakeKey	key;
	bool		known;			/* the queue is watched */
	uint64		seq;			/* what was told of it by then */
	bool		own;			/* the start is one that this transaction made */
} GdCursor;

extern Size gd_cursors_size(void);
extern void gd_cursors_attach(void *start, bool first);
extern void gd_cursors_init(void);

extern void gd_cursor_begin(const text *queue, GdCursor *cursor);
extern bool gd_cursor_next(GdCursor *cursor, int priority, TimestampTz now, GdPlace *place);
extern void gd_cursor_walked(const GdCursor *cursor, const GdPlace *place, bool from_head,
							 bool worn, int64 took, TimestampTz now);
extern bool gd_cursors_hear_all(void);

extern void gd_cursor_runnable(const text *queue, const GdPlace *place);
extern void gd_cursor_claimed(const GdCursor *cursor, const GdPlace *place);

#endif							/* GEN_DURABLE_CURSORS_H */
