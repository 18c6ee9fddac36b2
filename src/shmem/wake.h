/*
 * wake.h
 *		Wake-ups: who waits for a queue or an instance, and telling them at the
 *		commit that concerns them.
 */
#ifndef GEN_DURABLE_WAKE_H
#define GEN_DURABLE_WAKE_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* What is waited for, in this database: a queue or an instance. */
typedef uint64 GdWakeKey;

extern Size gd_wake_size(void);
extern void gd_wake_attach(void *start, bool first);
extern void gd_wake_init(void);

extern void gd_wake_runnable(const text *queue, TimestampTz eligible_at, TimestampTz now);
extern void gd_wake_run(const text *tenant, TimestampTz wake_at, TimestampTz now);
extern bool gd_wake_owed(void);
extern void gd_wake_claimed(const text *queue);
extern void gd_wake_paused(const text *queue);
extern void gd_wake_resumed(const text *queue);
extern void gd_wake_settled(int64 id);

extern uint32 gd_wake_waiters(GdWakeKey key, uint32 count);
extern int	gd_wake_count(GdWakeKey key);
extern bool gd_wake_idle(GdWakeKey key);
extern bool gd_wake_is_precise(int nqueues);

extern GdWakeKey gd_wake_queue(const text *queue);
extern GdWakeKey gd_wake_instance(int64 id);
extern GdWakeKey gd_wake_runs(const text *tenant);
extern void gd_wake_subscribe(const GdWakeKey *keys, int nkeys);
extern bool gd_wake_wait(long ms);
extern bool gd_wake_told(const GdWakeKey *keys, int nkeys);
extern void gd_wake_leave(void);

#endif							/* GEN_DURABLE_WAKE_H */
