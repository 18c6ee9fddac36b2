/*
 * executor_slots.h
 *		The slots of crews and executors in shared memory, for executors.c and
 *		executor_self.c alone.
 */
#ifndef GEN_DURABLE_EXECUTOR_SLOTS_H
#define GEN_DURABLE_EXECUTOR_SLOTS_H

#include "postgres.h"

#include "storage/spin.h"

#include "shmem/executors.h"

#define NO_PROC (-1)
#define MS INT64CONST(1000)

typedef enum ExecutorState
{
	EXECUTOR_NONE,
	EXECUTOR_STARTING,			/* registered by a scheduler */
	EXECUTOR_IDLE,
	EXECUTOR_BUSY,
	EXECUTOR_DEAD				/* gone, and its claims are still to be taken
								 * back */
} ExecutorState;

typedef struct Crew
{
	Oid			database;		/* InvalidOid: free */
	Oid			owner;
	uint32		hash;			/* of the queue */
	int			len;
	char		queue[GD_NAME_MAX];
	int			wanted;			/* so many more executors */
	int			running;		/* executors, starting ones too */
	int			failures;		/* in a row, at the start */
	int			deaths;			/* in a row, of the first step */
	TimestampTz not_before;		/* of the next start */
	TimestampTz due;			/* wanted from then on, or DT_NOEND */
} Crew;

typedef struct Executor
{
	ExecutorState state;
	uint32		generation;
	int			crew;
	int			procno;
	pid_t		pid;
	bool		woken;			/* while idle */
	bool		stop;
	bool		progressed;		/* has come past its first step */
	TimestampTz started_at;
	TimestampTz lease_until;
	TimestampTz lease_from;
	int			ntokens;
	pg_uuid_t	tokens[GD_EXECUTOR_CLAIMS];
	bool		cancelled[GD_EXECUTOR_CLAIMS];
	int			current;
	uint32		serial;			/* of the step that it runs */
	uint32		cancel_serial;	/* of the step to cancel; 0: none */
} Executor;

typedef struct Executors
{
	slock_t		lock;
	uint32		looks;			/* how often the tables had to be looked at */
	TimestampTz homeless;		/* when the first step is due whose crew has
								 * no slot, or DT_NOEND */
	bool		starved;		/* a crew waits for a slot */
	Executor   *executors;
	Crew	   *crews;
} Executors;

extern void gd_executor_self_attach(Executors *slots);

/* The slot of a start if it is still that start's.  With the lock held. */
static inline Executor *
executor_of(Executors *slots, int slot, uint32 generation)
{
	return slots->executors[slot].generation == generation ? &slots->executors[slot] : NULL;
}

#endif							/* GEN_DURABLE_EXECUTOR_SLOTS_H */
