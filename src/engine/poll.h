/*
 * poll.h
 *		How long a wait sleeps between two looks.
 */
#ifndef GEN_DURABLE_POLL_H
#define GEN_DURABLE_POLL_H

#include "postgres.h"

typedef struct GdPoll
{
	long		ms;				/* the next sleep, at most */
	long		max_ms;
} GdPoll;

extern void gd_poll_begin(GdPoll *poll);
extern bool gd_poll_wait(GdPoll *poll, long max_ms);

#endif							/* GEN_DURABLE_POLL_H */
