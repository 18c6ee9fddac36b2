/*
 * dispatch.c
 *		Claims that the scheduler has made ahead of demand, and who holds them.
 *
 * A feed is a queue that is fed: the scheduler claims rows of it before
 * somebody asks, and puts the claims into the feed's buffer, in the order in
 * which a pick would give them.  A take gets the first.  From then on the claim
 * counts as running until it ends, so that the scheduler knows how much more
 * is wanted; a claim that a take on a fed queue made itself is registered
 * here for the same reason.
 *
 * A claim is a token and, once it is taken, its holder.  All else is in the
 * row, and the row alone decides: a token that is void is dropped by whoever
 * reads the row.  What is here may be lost without harm; the claims then end
 * with their leases.
 *
 * A claim that nobody shall have any more, since the transaction that took it
 * has rolled back or its queue was paused, is spent: the scheduler releases
 * it.
 *
 * Lock: one spinlock, held for straight-line code.  What walks does so over a
 * bounded number of short heads, but for the look for old leases: it goes
 * through a feed's claims in one state, and gen_durable.dispatch_buffer says
 * how many there can be.  All of it is safe in a commit callback but what
 * allocates.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#include "guc.h"
#include "shmem/databases.h"
#include "shmem/dispatch.h"
#include "shmem/shmem.h"

/* Queues of all databases that are fed at a time. */
#define FEEDS_MAX 1024

/* How far a claim that sorts before others of the buffer moves up. */
#define SORT_MAX 64

#define NONE (-1)

typedef struct Claim
{
	dlist_node	link;			/* in its feed's list of its state */
	pg_uuid_t	token;
	ItemPointerData tid;		/* of its row when it was claimed or renewed */
	int			next;			/* with the same bucket, or free */
	int			feed;
	GdDispatchState state;
	GdPlace		place;
	TimestampTz renewed;		/* its lease, or found to hold */
	GdHolder	holder;
} Claim;

typedef struct Feed
{
	GdWakeKey	key;
	Oid			database;		/* InvalidOid: free */
	int			next;			/* with the same bucket, or free */
	bool		open;			/* else it goes when it has no claims */
	bool		kept;			/* by the settling that is under way */
	bool		observed;		/* by takes, and not yet by the scheduler */
	bool		refused;		/* not to be fed, whoever observes it */
	bool		dry;			/* the queue had nothing more */
	bool		poked;
	bool		wants;
	GdFeedSettings settings;
	TimestampTz last_take;
	TimestampTz fill_at;		/* the scheduler's own, as is the next */
	int			poll_ms;
	int			counts[GD_DISPATCH_SPENT + 1];	/* of claims, by state */
	dlist_head	claims[GD_DISPATCH_SPENT + 1];	/* likewise */
	int			name_len;
	char		name[GD_NAME_MAX];
} Feed;

typedef struct Dispatch
{
	slock_t		lock;
	pg_atomic_uint32 nfeeds;	/* read without the lock, as is the next */
	pg_atomic_uint32 nclaims;
	int			free_feed;
	int			free_claim;
	int			feeds_top;		/* all that were ever used are below */
	int			feed_buckets[FEEDS_MAX];
	Feed		feeds[FEEDS_MAX];
} Dispatch;

static Dispatch *shared = NULL;
static Claim *claims;			/* gd_dispatch_buffer of them */
static int *claim_buckets;		/* NBUCKETS of them */
static int	bucket_mask;

static int
nbuckets(void)
{
	return pg_nextpower2_32(Max(gd_dispatch_buffer, 1));
}

Size
gd_dispatch_size(void)
{
	Size		size = MAXALIGN(sizeof(Dispatch));

	size = add_size(size, MAXALIGN(mul_size(gd_dispatch_buffer, sizeof(Claim))));
	return add_size(size, mul_size(nbuckets(), sizeof(int)));
}

void
gd_dispatch_attach(void *start, bool first)
{
	shared = start;
	claims = (Claim *) ((char *) start + MAXALIGN(sizeof(Dispatch)));
	claim_buckets = (int *) ((char *) claims + MAXALIGN(gd_dispatch_buffer * sizeof(Claim)));
	bucket_mask = nbuckets() - 1;
	if (!first)
		return;
	memset(start, 0, gd_dispatch_size());
	SpinLockInit(&shared->lock);
	pg_atomic_init_u32(&shared->nfeeds, 0);
	pg_atomic_init_u32(&shared->nclaims, 0);
	for (int i = 0; i < FEEDS_MAX; i++)
	{
		shared->feed_buckets[i] = NONE;
		shared->feeds[i].next = i + 1 < FEEDS_MAX ? i + 1 : NONE;
	}
	for (int i = 0; i <= bucket_mask; i++)
		claim_buckets[i] = NONE;
	for (int i = 0; i < gd_dispatch_buffer; i++)
		claims[i].next = i + 1 < gd_dispatch_buffer ? i + 1 : NONE;
	shared->free_claim = gd_dispatch_buffer > 0 ? 0 : NONE;
}

/*
 * feed_link, claim_link: the place that names a feed or a claim, or the end of
 * its bucket.  With the lock held.
 */
static int *
feed_link(GdWakeKey key)
{
	int		   *link = &shared->feed_buckets[key % FEEDS_MAX];

	while (*link != NONE && shared->feeds[*link].key != key)
		link = &shared->feeds[*link].next;
	return link;
}

static int *
claim_link(const pg_uuid_t *token)
{
	uint32		random;
	int		   *link;

	/* The last bytes of a token are random. */
	memcpy(&random, token->data + UUID_LEN - sizeof(random), sizeof(random));
	link = &claim_buckets[random & bucket_mask];
	while (*link != NONE && memcmp(claims[*link].token.data, token->data, UUID_LEN) != 0)
		link = &claims[*link].next;
	return link;
}

static Feed *
feed_find(GdWakeKey key)
{
	int			i = *feed_link(key);

	return i == NONE ? NULL : &shared->feeds[i];
}

static Claim *
claim_find(const pg_uuid_t *token)
{
	int			i = *claim_link(token);

	return i == NONE ? NULL : &claims[i];
}

/*
 * feed_demand: how many more claims a feed wants: as many as its workers run
 * at a time beyond those that run, and some ahead.  With the lock held.
 */
static int
feed_demand(const Feed *feed)
{
	const GdFeedSettings *s = &feed->settings;
	int			running = feed->counts[GD_DISPATCH_TAKEN];
	int			buffered = feed->counts[GD_DISPATCH_BUFFERED];
	int			demand = Max(s->concurrency - running, 0) + s->prefetch - buffered;

	if (running + buffered > 0 && demand < Min(s->min_demand, s->concurrency + s->prefetch))
		return 0;
	return Max(demand, 0);
}

/*
 * feed_free: free a feed that is closed and has no claims.  With the lock held.
 */
static void
feed_free(Feed *feed)
{
	int		   *link;

	for (int state = GD_DISPATCH_BUFFERED; state <= GD_DISPATCH_SPENT; state++)
		if (feed->counts[state] > 0)
			return;
	if (feed->open || feed->refused)
		return;
	link = feed_link(feed->key);
	*link = feed->next;
	feed->database = InvalidOid;
	feed->next = shared->free_feed;
	shared->free_feed = feed - shared->feeds;
	pg_atomic_fetch_sub_u32(&shared->nfeeds, 1);
}

/*
 * feed_new: the feed of a queue, made if there is none; NULL if there is no
 * room.  With the lock held.
 */
static Feed *
feed_new(GdWakeKey key, const text *queue)
{
	int		   *link = feed_link(key);
	Feed	   *feed;

	if (*link == NONE && shared->free_feed != NONE)
	{
		int			i = shared->free_feed;

		feed = &shared->feeds[i];
		shared->free_feed = feed->next;
		shared->feeds_top = Max(shared->feeds_top, i + 1);
		memset(feed, 0, sizeof(Feed));
		feed->key = key;
		feed->database = MyDatabaseId;
		feed->next = NONE;
		feed->fill_at = DT_NOEND;
		for (int state = 0; state <= GD_DISPATCH_SPENT; state++)
			dlist_init(&feed->claims[state]);
		feed->name_len = Min(VARSIZE_ANY_EXHDR(queue), GD_NAME_MAX);
		memcpy(feed->name, VARDATA_ANY(queue), feed->name_len);
		*link = i;
		pg_atomic_fetch_add_u32(&shared->nfeeds, 1);
	}
	return *link == NONE ? NULL : &shared->feeds[*link];
}

/*
 * claim_set_state: with the lock held.
 */
static void
claim_set_state(Claim *claim, GdDispatchState state, TimestampTz now)
{
	Feed	   *feed = &shared->feeds[claim->feed];

	if (claim->state != GD_DISPATCH_NONE)
	{
		dlist_delete(&claim->link);
		feed->counts[claim->state]--;
	}
	claim->state = state;
	claim->holder.since = claim->renewed = now;
	if (state != GD_DISPATCH_NONE)
	{
		dlist_push_tail(&feed->claims[state], &claim->link);
		feed->counts[state]++;
	}
}

/*
 * claim_new: a claim of a feed, in no state yet; NULL if there is no room.
 * With the lock held.
 */
static Claim *
claim_new(Feed *feed, const pg_uuid_t *token)
{
	int			i = shared->free_claim;
	int		   *link;
	Claim	   *claim;

	if (i == NONE)
		return NULL;
	claim = &claims[i];
	shared->free_claim = claim->next;
	link = claim_link(token);
	claim->token = *token;
	claim->next = NONE;
	claim->feed = feed - shared->feeds;
	claim->state = GD_DISPATCH_NONE;
	claim->holder.pid = 0;
	claim->holder.worker_len = 0;
	*link = i;
	pg_atomic_fetch_add_u32(&shared->nclaims, 1);
	return claim;
}

/*
 * claim_remove: with the lock held.
 */
static void
claim_remove(Claim *claim)
{
	int		   *link = claim_link(&claim->token);

	claim_set_state(claim, GD_DISPATCH_NONE, 0);
	*link = claim->next;
	claim->next = shared->free_claim;
	shared->free_claim = claim - claims;
	pg_atomic_fetch_sub_u32(&shared->nclaims, 1);
}

static void
claim_set_holder(Claim *claim, const text *worker)
{
	claim->holder.pid = MyProcPid;
	claim->holder.worker_len = Min(VARSIZE_ANY_EXHDR(worker), GD_NAME_MAX);
	memcpy(claim->holder.worker, VARDATA_ANY(worker), claim->holder.worker_len);
}

/*
 * feed_wants: note that a feed has demand that it can be given; true if the
 * scheduler is to be told.  With the lock held.
 */
static bool
feed_wants(Feed *feed)
{
	if (!feed->open || feed->dry || feed->wants || feed_demand(feed) == 0)
		return false;
	feed->wants = true;
	return true;
}

/*
 * gd_feed_is_open: is a queue fed?
 */
bool
gd_feed_is_open(GdWakeKey key)
{
	Feed	   *feed;
	bool		open;

	if (!gd_shmem_ready() || pg_atomic_read_u32(&shared->nfeeds) == 0 ||
		!gd_database_has(GD_SCHEDULER))
		return false;
	SpinLockAcquire(&shared->lock);
	feed = feed_find(key);
	open = feed && feed->open;
	SpinLockRelease(&shared->lock);
	return open;
}

/*
 * gd_feed_observe: a take has come to a queue that is not fed, and all are to
 * be; true if it is from now on.
 */
bool
gd_feed_observe(const text *queue)
{
	GdWakeKey	key = gd_wake_queue(queue);
	bool		news;
	bool		open;
	Feed	   *feed;

	if (!gd_database_has(GD_SCHEDULER))
		return false;
	SpinLockAcquire(&shared->lock);
	feed = feed_new(key, queue);
	news = feed && !feed->open && !feed->refused;
	open = feed && (feed->open || news);
	if (news)
		feed->open = feed->observed = true;
	SpinLockRelease(&shared->lock);
	if (news)
		gd_database_tell(GD_SCHEDULER);
	return open;
}

/*
 * gd_feed_poke: rows of a queue have become runnable, and nobody waits for
 * them.  A feed that has enough need not know.
 */
void
gd_feed_poke(GdWakeKey key)
{
	Feed	   *feed;
	bool		tell;

	if (pg_atomic_read_u32(&shared->nfeeds) == 0)
		return;
	SpinLockAcquire(&shared->lock);
	feed = feed_find(key);
	if (feed)
		feed->dry = false;
	tell = feed && feed->open && !feed->poked && feed_demand(feed) > 0;
	if (tell)
		feed->poked = true;
	SpinLockRelease(&shared->lock);
	if (tell)
		gd_database_tell(GD_SCHEDULER);
}

/*
 * dispatch_any: may there be any claim here?
 */
static bool
dispatch_any(void)
{
	return gd_shmem_ready() && pg_atomic_read_u32(&shared->nclaims) > 0;
}

/*
 * gd_dispatch_has: has a queue claims that a take would get?
 */
bool
gd_dispatch_has(GdWakeKey key)
{
	Feed	   *feed;
	bool		has;

	if (!dispatch_any())
		return false;
	SpinLockAcquire(&shared->lock);
	feed = feed_find(key);
	has = feed && feed->open && feed->counts[GD_DISPATCH_BUFFERED] > 0;
	SpinLockRelease(&shared->lock);
	return has;
}

/*
 * gd_dispatch_take: give the first claim of a queue's buffer to a worker of
 * this session; false if there is none.
 */
bool
gd_dispatch_take(GdWakeKey key, const text *worker, TimestampTz now, GdTaken *taken)
{
	Feed	   *feed;
	Claim	   *claim = NULL;

	SpinLockAcquire(&shared->lock);
	feed = feed_find(key);
	if (feed && feed->open && !dlist_is_empty(&feed->claims[GD_DISPATCH_BUFFERED]))
	{
		claim = dlist_head_element(Claim, link, &feed->claims[GD_DISPATCH_BUFFERED]);
		claim_set_state(claim, GD_DISPATCH_TAKEN, now);
		claim_set_holder(claim, worker);
		taken->token = claim->token;
		taken->tid = claim->tid;
	}
	SpinLockRelease(&shared->lock);
	return claim != NULL;
}

/*
 * gd_feed_taken: a take on a fed queue has got what it gets.
 */
void
gd_feed_taken(GdWakeKey key, TimestampTz now)
{
	Feed	   *feed;
	bool		tell;

	SpinLockAcquire(&shared->lock);
	feed = feed_find(key);
	if (feed)
		feed->last_take = now;
	tell = feed && feed_wants(feed);
	SpinLockRelease(&shared->lock);
	if (tell)
		gd_database_tell(GD_SCHEDULER);
}

/*
 * gd_dispatch_recall: keep a claim that nobody has taken from being taken;
 * false if somebody has, or it is not here.
 */
bool
gd_dispatch_recall(const pg_uuid_t *token, TimestampTz now)
{
	Claim	   *claim;
	bool		recalled;

	if (!dispatch_any())
		return false;
	SpinLockAcquire(&shared->lock);
	claim = claim_find(token);
	recalled = claim && claim->state == GD_DISPATCH_BUFFERED;
	if (recalled)
		claim_set_state(claim, GD_DISPATCH_TAKEN, now);
	recalled |= claim && claim->state == GD_DISPATCH_SPENT;
	SpinLockRelease(&shared->lock);
	return recalled;
}

/*
 * gd_dispatch_register: a worker of this session has claimed a row of a fed
 * queue by itself; false if there is no room to note it.
 */
bool
gd_dispatch_register(GdWakeKey key, const pg_uuid_t *token, const text *worker, TimestampTz now)
{
	Feed	   *feed;
	Claim	   *claim = NULL;

	SpinLockAcquire(&shared->lock);
	feed = feed_find(key);
	if (feed && feed->open)
		claim = claim_new(feed, token);
	if (claim)
	{
		claim_set_state(claim, GD_DISPATCH_TAKEN, now);
		claim_set_holder(claim, worker);
	}
	SpinLockRelease(&shared->lock);
	return claim != NULL;
}

/*
 * gd_dispatch_remove: a claim is over.
 */
void
gd_dispatch_remove(const pg_uuid_t *token)
{
	Claim	   *claim;
	bool		tell = false;

	SpinLockAcquire(&shared->lock);
	claim = claim_find(token);
	if (claim)
	{
		Feed	   *feed = &shared->feeds[claim->feed];

		claim_remove(claim);
		tell = feed->database == MyDatabaseId && feed_wants(feed);
		feed_free(feed);
	}
	SpinLockRelease(&shared->lock);
	if (tell)
		gd_database_tell(GD_SCHEDULER);
}

/*
 * gd_dispatch_spend: the scheduler is to release a claim.
 */
void
gd_dispatch_spend(const pg_uuid_t *token)
{
	Claim	   *claim;

	SpinLockAcquire(&shared->lock);
	claim = claim_find(token);
	if (claim && claim->state != GD_DISPATCH_SPENT)
		claim_set_state(claim, GD_DISPATCH_SPENT, claim->holder.since);
	SpinLockRelease(&shared->lock);
	if (claim)
		gd_database_tell(GD_SCHEDULER);
}

/*
 * gd_dispatch_find: what is known of a claim; holder may be NULL.
 */
GdDispatchState
gd_dispatch_find(const pg_uuid_t *token, GdHolder *holder)
{
	Claim	   *claim;
	GdDispatchState state = GD_DISPATCH_NONE;

	if (!dispatch_any())
		return state;
	SpinLockAcquire(&shared->lock);
	claim = claim_find(token);
	if (claim)
	{
		state = claim->state;
		if (holder)
			*holder = claim->holder;
	}
	SpinLockRelease(&shared->lock);
	return state;
}

/*
 * gd_dispatch_read: a copy of all claims of this database; returns how many.
 * Each is right by itself.
 */
int
gd_dispatch_read(GdDispatched **into)
{
	int			n = 0;

	if (!dispatch_any())
		return 0;
	*into = palloc_extended(sizeof(GdDispatched) * gd_dispatch_buffer, MCXT_ALLOC_HUGE);
	for (int i = 0; i < gd_dispatch_buffer; i++)
	{
		GdDispatched *copy = &(*into)[n];
		Feed	   *feed;

		SpinLockAcquire(&shared->lock);
		feed = &shared->feeds[claims[i].feed];
		copy->state = claims[i].state;
		if (copy->state != GD_DISPATCH_NONE && feed->database == MyDatabaseId)
		{
			copy->token = claims[i].token;
			copy->holder = claims[i].holder;
			copy->queue_len = feed->name_len;
			memcpy(copy->queue, feed->name, feed->name_len);
			n++;
		}
		SpinLockRelease(&shared->lock);
	}
	return n;
}

/*
 * gd_dispatch_forget: a database is no more.
 */
void
gd_dispatch_forget(Oid database)
{
	if (!gd_shmem_ready() || pg_atomic_read_u32(&shared->nfeeds) == 0)
		return;
	for (int i = 0; i < FEEDS_MAX; i++)
	{
		Feed	   *feed = &shared->feeds[i];

		SpinLockAcquire(&shared->lock);
		if (feed->database == database)
		{
			for (int state = GD_DISPATCH_BUFFERED; state <= GD_DISPATCH_SPENT; state++)
				while (!dlist_is_empty(&feed->claims[state]))
					claim_remove(dlist_head_element(Claim, link, &feed->claims[state]));
			feed->open = feed->refused = false;
			feed_free(feed);
		}
		SpinLockRelease(&shared->lock);
	}
}

/*
 * gd_feeds_settle_begin, gd_feed_set, gd_feeds_settle_end: the scheduler says
 * all feeds of its database anew.  What it does not name, or gives nothing, is
 * closed, and the buffer of what is closed or paused is spent.
 */
void
gd_feeds_settle_begin(void)
{
	SpinLockAcquire(&shared->lock);
	for (int i = 0; i < shared->feeds_top; i++)
		shared->feeds[i].kept = false;
	SpinLockRelease(&shared->lock);
}

bool
gd_feed_set(const text *queue, const GdFeedSettings *settings)
{
	GdWakeKey	key = gd_wake_queue(queue);
	Feed	   *feed;

	SpinLockAcquire(&shared->lock);
	feed = feed_new(key, queue);
	if (feed)
	{
		feed->settings = *settings;
		feed->kept = true;
		feed->open = settings->concurrency + settings->prefetch > 0;
		feed->refused = !feed->open;
		feed->observed = feed->dry = false;
		feed->wants = feed->last_take != 0;
	}
	SpinLockRelease(&shared->lock);
	return feed != NULL;
}

void
gd_feeds_settle_end(void)
{
	for (int i = 0; i < shared->feeds_top; i++)
	{
		Feed	   *feed = &shared->feeds[i];
		bool		spend;

		SpinLockAcquire(&shared->lock);
		if (feed->database == MyDatabaseId && !feed->kept)
			feed->open = feed->refused = false;
		spend = feed->database == MyDatabaseId &&
			(!feed->open || feed->settings.paused_until != DT_NOBEGIN);
		SpinLockRelease(&shared->lock);
		if (spend)
			(void) gd_dispatch_spend_all(i);
		SpinLockAcquire(&shared->lock);
		if (feed->database == MyDatabaseId)
			feed_free(feed);
		SpinLockRelease(&shared->lock);
	}
}

/*
 * gd_feeds_next: the next feed of this database from a slot on, which is moved
 * behind it; false if there is none.  What it was told of is forgotten.
 */
bool
gd_feeds_next(int *slot, GdFeed *copy)
{
	bool		found = false;

	if (pg_atomic_read_u32(&shared->nfeeds) == 0)
		return false;
	for (; *slot < shared->feeds_top && !found; (*slot)++)
	{
		Feed	   *feed = &shared->feeds[*slot];

		if (feed->database != MyDatabaseId)
			continue;
		SpinLockAcquire(&shared->lock);
		found = feed->database == MyDatabaseId;
		if (found)
		{
			copy->slot = *slot;
			copy->key = feed->key;
			copy->name_len = feed->name_len;
			memcpy(copy->name, feed->name, feed->name_len);
			copy->settings = feed->settings;
			copy->open = feed->open && !feed->observed;
			copy->observed = feed->observed;
			copy->dry = feed->dry;
			copy->demand = feed_demand(feed);
			copy->buffered = feed->counts[GD_DISPATCH_BUFFERED];
			copy->taken = feed->counts[GD_DISPATCH_TAKEN];
			copy->spent = feed->counts[GD_DISPATCH_SPENT];
			copy->last_take = feed->last_take;
			copy->poked = feed->poked;
			copy->wants = feed->wants;
			copy->fill_at = feed->fill_at;
			copy->poll_ms = feed->poll_ms;
			feed->poked = feed->wants = false;
		}
		SpinLockRelease(&shared->lock);
	}
	return found;
}

/*
 * gd_feed_filled: the scheduler has claimed for a feed, or decided when to: it
 * has changed fill_at, poll_ms and dry.
 */
void
gd_feed_filled(const GdFeed *copy)
{
	Feed	   *feed = &shared->feeds[copy->slot];

	SpinLockAcquire(&shared->lock);
	feed->fill_at = copy->fill_at;
	feed->poll_ms = copy->poll_ms;
	/* Rows that were told of meanwhile may be behind what it saw. */
	feed->dry = copy->dry && !feed->poked;
	SpinLockRelease(&shared->lock);
}

/*
 * gd_dispatch_add: a claim of a feed waits for a take; false if there is no
 * room.
 */
bool
gd_dispatch_add(int slot, const GdTaken *made, const GdPlace *place, TimestampTz now)
{
	Feed	   *feed = &shared->feeds[slot];
	Claim	   *claim;

	SpinLockAcquire(&shared->lock);
	claim = feed->open ? claim_new(feed, &made->token) : NULL;
	if (claim)
	{
		dlist_head *list = &feed->claims[GD_DISPATCH_BUFFERED];
		dlist_node *before = dlist_is_empty(list) ? NULL : dlist_tail_node(list);

		claim->place = *place;
		claim->tid = made->tid;
		claim_set_state(claim, GD_DISPATCH_BUFFERED, now);
		for (int i = 0; i < SORT_MAX && before; i++)
		{
			if (gd_place_compare(&dlist_container(Claim, link, before)->place, place) <= 0)
				break;
			dlist_delete(&claim->link);
			dlist_insert_before(before, &claim->link);
			before = dlist_has_prev(list, &claim->link) ?
				dlist_prev_node(list, &claim->link) : NULL;
		}
	}
	SpinLockRelease(&shared->lock);
	return claim != NULL;
}

/*
 * gd_dispatch_room: how many more claims fit.
 */
int
gd_dispatch_room(void)
{
	return gd_dispatch_buffer - (int) pg_atomic_read_u32(&shared->nclaims);
}

/*
 * gd_dispatch_spend_all: spend the buffer of a feed; returns how many claims.
 */
int
gd_dispatch_spend_all(int slot)
{
	Feed	   *feed = &shared->feeds[slot];
	int			n = 0;
	bool		more = true;

	while (more)
	{
		SpinLockAcquire(&shared->lock);
		more = feed->database == MyDatabaseId &&
			!dlist_is_empty(&feed->claims[GD_DISPATCH_BUFFERED]);
		if (more)
		{
			Claim	   *claim = dlist_head_element(Claim, link,
												   &feed->claims[GD_DISPATCH_BUFFERED]);

			claim_set_state(claim, GD_DISPATCH_SPENT, claim->holder.since);
			n++;
		}
		SpinLockRelease(&shared->lock);
	}
	return n;
}

/*
 * gd_dispatch_list: tokens of a feed's claims in a state that were renewed
 * last before an instant; returns how many.
 */
int
gd_dispatch_list(GdDispatchState state, int slot, TimestampTz before, pg_uuid_t *tokens, int max)
{
	Feed	   *feed = &shared->feeds[slot];
	int			n = 0;
	dlist_iter	at;

	SpinLockAcquire(&shared->lock);
	if (feed->database == MyDatabaseId)
		dlist_foreach(at, &feed->claims[state])
	{
		Claim	   *claim = dlist_container(Claim, link, at.cur);

		if (n == max)
			break;
		if (claim->renewed < before)
			tokens[n++] = claim->token;
	}
	SpinLockRelease(&shared->lock);
	return n;
}

/*
 * gd_dispatch_renew: a claim, in whatever state, was found to hold, or given
 * a new lease; then its row is at tid, else NULL.
 */
void
gd_dispatch_renew(const pg_uuid_t *token, const ItemPointerData *tid, TimestampTz now)
{
	Claim	   *claim;

	SpinLockAcquire(&shared->lock);
	claim = claim_find(token);
	if (claim)
	{
		claim->renewed = now;
		if (tid)
			claim->tid = *tid;
	}
	SpinLockRelease(&shared->lock);
}
