/*
 * timers.h
 *		Instants at which the waiters of a queue are to be woken.
 */
#ifndef GEN_DURABLE_TIMERS_H
#define GEN_DURABLE_TIMERS_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "names.h"
#include "shmem/wake.h"

/* A timer that has run out. */
typedef struct GdTimer
{
	GdWakeKey	key;
	int			len;			/* of the queue's name */
	char		name[GD_NAME_MAX];
} GdTimer;

extern Size gd_timers_size(void);
extern void gd_timers_attach(void *start, bool first);

extern bool gd_timer_set(const text *queue, TimestampTz due);
extern bool gd_timer_lower(GdWakeKey key, TimestampTz due);

/* For the scheduler. */
extern TimestampTz gd_timers_next(void);
extern bool gd_timers_take(TimestampTz now, GdTimer *timer);
extern void gd_timer_rearm(const GdTimer *timer, TimestampTz due);

#endif							/* GEN_DURABLE_TIMERS_H */
