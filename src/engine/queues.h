/*
 * queues.h
 *		Queues: the settings of each, and pausing.
 */
#ifndef GEN_DURABLE_QUEUES_H
#define GEN_DURABLE_QUEUES_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* The highest concurrency, prefetch and min_demand. */
#define GD_FEED_MAX 100000

/* What a queue says to who claims from it. */
typedef struct GdQueue
{
	Interval	lease_ttl;		/* how long a claim lasts */
	bool		paused;			/* nothing is handed out */
	TimestampTz paused_until;	/* where it is paused: DT_NOEND, until it is
								 * resumed */
} GdQueue;

extern void gd_queue_read(const text *name, TimestampTz now, GdQueue *queue);
extern bool gd_queue_paused(const text *name, TimestampTz now);

#endif							/* GEN_DURABLE_QUEUES_H */
