/*
 * executors.h
 *		The executors of SQL steps: who is wanted, who runs, and what they hold.
 */
#ifndef GEN_DURABLE_EXECUTORS_H
#define GEN_DURABLE_EXECUTORS_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "utils/uuid.h"

#include "names.h"

/* Claims that an executor holds at most. */
#define GD_EXECUTOR_CLAIMS 64

/* A crew: the executors of one queue and one owner in one database. */
typedef struct GdCrew
{
	int			index;
	Oid			owner;
	int			len;
	char		queue[GD_NAME_MAX + 1];
} GdCrew;

/* An executor as the others see it. */
typedef struct GdExecutor
{
	int			slot;
	uint32		generation;
	GdCrew		crew;
	int			ntokens;
	pg_uuid_t	tokens[GD_EXECUTOR_CLAIMS];
	int			current;		/* which of them it runs or ran, or -1 */
} GdExecutor;

/* What an executor is to do next. */
typedef enum GdExecutorOrder
{
	GD_EXECUTOR_GO_ON,
	GD_EXECUTOR_STOP
} GdExecutorOrder;

extern Size gd_executors_size(void);
extern void gd_executors_attach(void *start, bool first);
extern void gd_executors_init(void);

/* For every backend: told at commit. */
extern void gd_executors_runnable(Oid owner, const text *queue, TimestampTz eligible_at,
								  TimestampTz now);
extern bool gd_executors_owed(void);
extern void gd_executors_claimed(Oid owner, const text *queue);
extern void gd_executors_cancel(const pg_uuid_t *token);
extern void gd_executors_look(void);

/* What those functions use; safe in a commit callback. */
extern bool gd_executors_tell(Oid owner, uint32 hash, const char *queue, int len, int count,
							  TimestampTz due);
extern void gd_executors_cancel_now(const pg_uuid_t *token);
extern void gd_executors_want_look(void);

/* For commands that need a database without sessions. */
extern void gd_executors_stop(Oid database);
extern bool gd_executors_quiet(Oid database, bool terminate);

/* For the scheduler, which starts them. */
extern void gd_executors_forget(void);
extern void gd_executors_hire(Oid owner, const text *queue, TimestampTz due);
extern bool gd_executors_take_look(void);
extern bool gd_executors_next_crew(TimestampTz now, int after, GdCrew *crew,
								   TimestampTz *wake_at);
extern void gd_executors_starve(const GdCrew *crew, TimestampTz not_before);
extern bool gd_executors_start(const GdCrew *crew, int limit, TimestampTz now,
							   int *slot, uint32 *generation);
extern void gd_executors_not_started(int slot, uint32 generation, TimestampTz not_before);
extern bool gd_executors_starting(int slot, uint32 generation);
extern bool gd_executors_dead(GdExecutor *executor);
extern void gd_executors_buried(const GdExecutor *executor);
extern bool gd_executors_renewable(TimestampTz now, int after, GdExecutor *executor,
								   TimestampTz *wake_at);
extern void gd_executors_renewed(const GdExecutor *executor, TimestampTz from,
								 TimestampTz lease_until);
extern bool gd_executors_hold(const pg_uuid_t *token);

/* For an executor. */
extern bool gd_executor_begin(int slot, uint32 generation, Oid *database, GdCrew *crew);
extern void gd_executor_end(bool failed);
extern GdExecutorOrder gd_executor_order(void);
extern void gd_executor_limit(int limit);
extern void gd_executor_idle(void);
extern bool gd_executor_sleeps(void);
extern bool gd_executor_leave(TimestampTz due);
extern void gd_executor_claims(const pg_uuid_t *tokens, int n, TimestampTz lease_until);
extern bool gd_executor_step(const pg_uuid_t *token);
extern void gd_executor_step_done(void);
extern bool gd_executor_is_cancelled(void);
extern void gd_executor_more(void);

#endif							/* GEN_DURABLE_EXECUTORS_H */
