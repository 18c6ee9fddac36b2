/*
 * dispatch.h
 *		Claims that the scheduler has made ahead of demand, and who holds them.
 */
#ifndef GEN_DURABLE_DISPATCH_H
#define GEN_DURABLE_DISPATCH_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "storage/itemptr.h"
#include "utils/uuid.h"

#include "place.h"
#include "names.h"
#include "shmem/wake.h"

typedef enum GdDispatchState
{
	GD_DISPATCH_NONE,			/* not known here */
	GD_DISPATCH_BUFFERED,		/* waits for a take */
	GD_DISPATCH_TAKEN,			/* a worker has it */
	GD_DISPATCH_SPENT			/* the scheduler is to release it */
} GdDispatchState;

/* Who has a claim. */
typedef struct GdHolder
{
	TimestampTz since;			/* buffered: claimed or renewed; else taken or
								 * spent */
	int			pid;			/* 0 while buffered */
	int			worker_len;
	char		worker[GD_NAME_MAX];
} GdHolder;

/* A claim that is taken. */
typedef struct GdTaken
{
	pg_uuid_t	token;
	ItemPointerData tid;		/* where its row was when it was claimed or
								 * renewed */
} GdTaken;

/* A claim as gd_dispatch_read tells of it. */
typedef struct GdDispatched
{
	pg_uuid_t	token;
	GdDispatchState state;
	int			queue_len;
	char		queue[GD_NAME_MAX];
	GdHolder	holder;
} GdDispatched;

/* How a queue is to be fed. */
typedef struct GdFeedSettings
{
	int			concurrency;	/* of its workers; 0: as many as are seen */
	int			prefetch;
	int			min_demand;
	int64		lease;			/* microseconds */
	TimestampTz paused_until;	/* DT_NOBEGIN: not paused */
} GdFeedSettings;

/* A queue that is fed, as gd_feeds_next tells of it. */
typedef struct GdFeed
{
	int			slot;
	GdWakeKey	key;
	int			name_len;
	char		name[GD_NAME_MAX];
	GdFeedSettings settings;
	bool		open;
	bool		observed;		/* by takes; its settings are to be said */
	bool		dry;			/* the queue had nothing more */
	int			demand;			/* claims wanted; 0 if fewer than min_demand */
	int			buffered;
	int			taken;
	int			spent;
	TimestampTz last_take;
	bool		poked;			/* rows have become runnable */
	bool		wants;			/* a take or an outcome has made demand */
	TimestampTz fill_at;		/* the scheduler's own, as is the next */
	int			poll_ms;
} GdFeed;

extern Size gd_dispatch_size(void);
extern void gd_dispatch_attach(void *start, bool first);

extern bool gd_feed_is_open(GdWakeKey key);
extern bool gd_feed_observe(const text *queue);
extern void gd_feed_poke(GdWakeKey key);
extern bool gd_dispatch_has(GdWakeKey key);
extern bool gd_dispatch_take(GdWakeKey key, const text *worker, TimestampTz now,
							 GdTaken *taken);
extern void gd_feed_taken(GdWakeKey key, TimestampTz now);
extern bool gd_dispatch_recall(const pg_uuid_t *token, TimestampTz now);
extern bool gd_dispatch_register(GdWakeKey key, const pg_uuid_t *token, const text *worker,
								 TimestampTz now);
extern void gd_dispatch_remove(const pg_uuid_t *token);
extern void gd_dispatch_spend(const pg_uuid_t *token);
extern GdDispatchState gd_dispatch_find(const pg_uuid_t *token, GdHolder *holder);
extern int	gd_dispatch_read(GdDispatched **claims);
extern void gd_dispatch_forget(Oid database);

/* For the scheduler. */
extern void gd_feeds_settle_begin(void);
extern bool gd_feed_set(const text *queue, const GdFeedSettings *settings);
extern void gd_feeds_settle_end(void);
extern bool gd_feeds_next(int *slot, GdFeed *feed);
extern void gd_feed_filled(const GdFeed *feed);
extern bool gd_dispatch_add(int slot, const GdTaken *claim, const GdPlace *place,
							TimestampTz now);
extern int	gd_dispatch_room(void);
extern int	gd_dispatch_spend_all(int slot);
extern int	gd_dispatch_list(GdDispatchState state, int slot, TimestampTz before,
							 pg_uuid_t *tokens, int max);
extern void gd_dispatch_renew(const pg_uuid_t *token, const ItemPointerData *tid,
							  TimestampTz now);

#endif							/* GEN_DURABLE_DISPATCH_H */
