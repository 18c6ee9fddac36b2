/*
 * queues.h
 *		Queues: the settings of each, and pausing.
 */
#ifndef GEN_DURABLE_QUEUES_H
#define GEN_DURABLE_QUEUES_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* What a queue says to who claims from it. */
typedef struct GdQueue
{
	Interval	lease_ttl;		/* how long a claim lasts */
	int			executors;		/* of SQL steps, for each owner */
	bool		paused;			/* nothing is handed out */
	TimestampTz paused_until;	/* where it is paused: DT_NOEND, until it is
								 * resumed */
	int			concurrency;	/* how it is fed; 0 where not said */
	int			prefetch;
	int			min_demand;
} GdQueue;

/* Called for each queue of the table. */
typedef void (*GdQueueVisitor) (const text *name, const GdQueue *queue, void *arg);

extern void gd_queues_visit(TimestampTz now, GdQueueVisitor visit, void *arg);
extern void gd_queue_read(const text *name, TimestampTz now, GdQueue *queue);
extern bool gd_queue_paused(const text *name, TimestampTz now);

#endif							/* GEN_DURABLE_QUEUES_H */
