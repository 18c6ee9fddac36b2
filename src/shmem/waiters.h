/*
 * waiters.h
 *		Who waits for what, and since when, for people to look at.
 */
#ifndef GEN_DURABLE_WAITERS_H
#define GEN_DURABLE_WAITERS_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* Bytes of the names of queues that are kept of one waiter. */
#define GD_WAITER_NAMES 480

/* A session that waits. */
typedef struct GdWaiter
{
	int			pid;
	TimestampTz since;
	int64		instance;		/* that it awaits, or 0 */
	int			nqueues;		/* that it waits for */
	int			nnames;			/* of which so many are kept */
	char		names[GD_WAITER_NAMES]; /* each behind a byte with its length */
} GdWaiter;

extern Size gd_waiters_size(void);
extern void gd_waiters_attach(void *start, bool first);

extern void gd_waiter_begin(text *const *queues, int nqueues, int64 instance);
extern void gd_waiter_end(void);
extern int	gd_waiters_read(GdWaiter **waiters);

#endif							/* GEN_DURABLE_WAITERS_H */
