/*
 * news.c
 *		Queues that listeners are to hear of (D-23): what commits tell the
 *		scheduler, which sends a NOTIFY for each.
 *
 * A commit that makes rows of a queue runnable tells of the queue, and of the
 * instant at which the first is due if all are of the future.  The scheduler
 * takes the queues that it may tell of, each once in GD_NEWS_WINDOW at most.
 * Where there is no place for one more queue the commit says that there is
 * something, and the scheduler looks through all queues.
 *
 * All of it is a hint.  A database's queues are noted only while its scheduler
 * wants them, which commits read without a lock.
 *
 * Lock: one spinlock, held for straight-line code over at most NEWS_MAX short
 * heads.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/spin.h"

#include "clock.h"
#include "shmem/databases.h"
#include "shmem/news.h"
#include "shmem/shmem.h"

/* Queues of all databases that there are news of at a time. */
#define NEWS_MAX 1024

#define NO_ITEM (-1)

typedef struct NewsItem
{
	GdWakeKey	key;
	TimestampTz due;			/* of its first row of the future, or DT_NOEND */
	TimestampTz sent;			/* when listeners heard of it last, or 0 */
	Oid			database;		/* InvalidOid: free */
	bool		told;			/* rows have become runnable */
	int			next;			/* with the same bucket, or free */
} NewsItem;

typedef struct NewsName
{
	int			len;
	char		bytes[GD_NAME_MAX];
} NewsName;

typedef struct News
{
	slock_t		lock;
	int			free;			/* first of the free ones */
	int			top;			/* all that were ever used are below */
	int			buckets[NEWS_MAX];
	NewsItem	items[NEWS_MAX];
	NewsName	names[NEWS_MAX];	/* apart, so that the heads are close */
} News;

static News *shared = NULL;

Size
gd_news_size(void)
{
	return sizeof(News);
}

void
gd_news_attach(void *start, bool first)
{
	shared = start;
	if (!first)
		return;
	memset(start, 0, sizeof(News));
	SpinLockInit(&shared->lock);
	for (int i = 0; i < NEWS_MAX; i++)
	{
		shared->buckets[i] = NO_ITEM;
		shared->items[i].next = i + 1 < NEWS_MAX ? i + 1 : NO_ITEM;
	}
}

/*
 * item_link: the place that names a queue's item, or the end of its bucket.
 * With the lock held.
 */
static int *
item_link(GdWakeKey key)
{
	int		   *link = &shared->buckets[key % NEWS_MAX];

	while (*link != NO_ITEM && shared->items[*link].key != key)
		link = &shared->items[*link].next;
	return link;
}

/*
 * item_remove: with the lock held.
 */
static void
item_remove(NewsItem *item)
{
	int		   *link = item_link(item->key);

	*link = item->next;
	item->database = InvalidOid;
	item->next = shared->free;
	shared->free = item - shared->items;
}

/*
 * item_at: when the scheduler is to look at an item.
 */
static TimestampTz
item_at(const NewsItem *item)
{
	TimestampTz soonest = item->sent + GD_NEWS_WINDOW;

	return item->told ? soonest : Max(item->due, soonest);
}

/*
 * item_quiet: is it no news any more?
 */
static bool
item_quiet(const NewsItem *item, TimestampTz now)
{
	return !item->told && item->due == DT_NOEND && item->sent + GD_NEWS_WINDOW <= now;
}

/*
 * items_evict: free those that are no news any more.  With the lock held.
 */
static void
items_evict(TimestampTz now)
{
	for (int i = 0; i < shared->top; i++)
		if (OidIsValid(shared->items[i].database) && item_quiet(&shared->items[i], now))
			item_remove(&shared->items[i]);
}

/*
 * item_of: the item of a queue, made if there is none; NULL if there is no
 * room.  With the lock held.
 */
static NewsItem *
item_of(GdWakeKey key, const text *queue, TimestampTz now)
{
	int		   *link = item_link(key);

	if (*link == NO_ITEM && shared->free == NO_ITEM)
	{
		items_evict(now);
		link = item_link(key);
	}
	if (*link == NO_ITEM && shared->free != NO_ITEM)
	{
		int			i = shared->free;
		NewsItem   *item = &shared->items[i];
		NewsName   *name = &shared->names[i];

		shared->free = item->next;
		shared->top = Max(shared->top, i + 1);
		item->key = key;
		item->due = DT_NOEND;
		item->sent = 0;
		item->database = MyDatabaseId;
		item->told = false;
		item->next = NO_ITEM;
		name->len = Min(VARSIZE_ANY_EXHDR(queue), GD_NAME_MAX);
		memcpy(name->bytes, VARDATA_ANY(queue), name->len);
		*link = i;
	}
	return *link == NO_ITEM ? NULL : &shared->items[*link];
}

/*
 * gd_news_wanted: does anybody of this database want news?  Safe in a commit
 * callback.
 */
bool
gd_news_wanted(void)
{
	return gd_shmem_ready() && gd_database_flag(GD_NEWS_WANTED);
}

/*
 * news_note: note what gd_news_tell tells; false if there is no room.  sooner:
 * the scheduler is to look sooner than it thought.
 */
static bool
news_note(GdWakeKey key, const text *queue, TimestampTz due, bool *sooner)
{
	TimestampTz now = gd_now();
	NewsItem   *item;

	*sooner = false;
	SpinLockAcquire(&shared->lock);
	item = item_of(key, queue, now);
	if (item)
	{
		TimestampTz was = item_at(item);

		if (due == DT_NOBEGIN)
			item->told = true;
		else
			item->due = Min(item->due, due);
		*sooner = item_at(item) < was;
	}
	SpinLockRelease(&shared->lock);
	return item != NULL;
}

/*
 * gd_news_tell: rows of a queue are runnable, or, unless due is DT_NOBEGIN, one
 * will be due at an instant.  Safe in a commit callback.
 */
void
gd_news_tell(GdWakeKey key, const text *queue, TimestampTz due)
{
	bool		sooner;

	if (!news_note(key, queue, due, &sooner))
		gd_news_tell_all();
	else if (sooner)
		gd_database_tell(GD_SCHEDULER);
}

/*
 * gd_news_keep: the scheduler notes that a queue's first row of the future is
 * due at an instant; false if there is no room.
 */
bool
gd_news_keep(GdWakeKey key, const text *queue, TimestampTz due)
{
	bool		sooner;

	return due == DT_NOEND || news_note(key, queue, due, &sooner);
}

/*
 * gd_news_tell_all: there are news of queues that are not said.  Safe in a
 * commit callback.
 */
void
gd_news_tell_all(void)
{
	if (gd_database_set_flag(GD_NEWS_ALL, true))
		gd_database_tell(GD_SCHEDULER);
}

/*
 * gd_news_attend: the scheduler says whether commits are to tell it.  It is to
 * look at all queues when it begins to want that.
 */
void
gd_news_attend(bool wanted)
{
	(void) gd_database_set_flag(GD_NEWS_ALL, wanted);
	(void) gd_database_set_flag(GD_NEWS_WANTED, wanted);
	/* What is written from now on is told; what was before, the look sees. */
	pg_memory_barrier();
	if (wanted)
		return;
	SpinLockAcquire(&shared->lock);
	for (int i = 0; i < shared->top; i++)
		if (shared->items[i].database == MyDatabaseId)
			item_remove(&shared->items[i]);
	SpinLockRelease(&shared->lock);
}

/*
 * gd_news_take_all: is the scheduler to look at all queues?  It will.
 */
bool
gd_news_take_all(void)
{
	return gd_database_set_flag(GD_NEWS_ALL, false);
}

/*
 * gd_news_take: a queue of this database to look at now, from a slot on; false
 * if there is none.  Items that are no news any more go.
 */
bool
gd_news_take(TimestampTz now, GdNews *news)
{
	bool		found = false;

	SpinLockAcquire(&shared->lock);
	for (; news->slot < shared->top && !found; news->slot++)
	{
		NewsItem   *item = &shared->items[news->slot];
		NewsName   *name = &shared->names[news->slot];

		if (item->database != MyDatabaseId)
			continue;
		found = item_at(item) <= now;
		if (found)
		{
			/* What comes from here on is news again. */
			item->told = false;
			item->due = DT_NOEND;
			news->key = item->key;
			news->len = name->len;
			memcpy(news->name, name->bytes, name->len);
		}
		else if (item_quiet(item, now))
			item_remove(item);
	}
	SpinLockRelease(&shared->lock);
	return found;
}

/*
 * gd_news_sent: the scheduler has looked at a queue that it took, and tells its
 * listeners; due is the first row of the future.  With now DT_NOBEGIN it had
 * nothing to tell.
 */
void
gd_news_sent(const GdNews *news, TimestampTz now, TimestampTz due)
{
	int			i;

	SpinLockAcquire(&shared->lock);
	i = *item_link(news->key);
	if (i != NO_ITEM)
	{
		NewsItem   *item = &shared->items[i];

		item->sent = Max(item->sent, now);
		item->due = Min(item->due, due);
	}
	SpinLockRelease(&shared->lock);
	if (i == NO_ITEM && due != DT_NOEND)
		gd_news_tell_all();
}

/*
 * gd_news_next: when there is something to take.
 */
TimestampTz
gd_news_next(void)
{
	TimestampTz next = DT_NOEND;

	SpinLockAcquire(&shared->lock);
	for (int i = 0; i < shared->top; i++)
		if (shared->items[i].database == MyDatabaseId)
			next = Min(next, item_at(&shared->items[i]));
	SpinLockRelease(&shared->lock);
	return next;
}
