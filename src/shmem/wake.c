/*
 * wake.c
 *		Wake-ups: who waits for a queue or an instance, and telling them at the
 *		commit that concerns them.
 *
 * A waiter subscribes to what it waits for, looks at the table, and sleeps on
 * its latch.  A transaction notes which queues it gave rows and which
 * instances it settled, and after its commit, when others see what it wrote,
 * wakes who has subscribed.  Since the waiter subscribes before it looks, one
 * of the two sees the other.
 *
 * Each row that becomes runnable wakes one waiter of its queue, so that a
 * thousand idle workers do not run for one step; an instance that settles
 * wakes all who wait for it.  A waiter of more queues than it has nodes has
 * one node that every queue of the database wakes.
 *
 * All of it is a hint.  PREPARE TRANSACTION, SQL that writes the tables, and a
 * worker that dies with the wake in its hand wake nobody: waiters poll.
 *
 * Shared memory: a fixed hash table of lists, each under its spinlock, and a
 * waiter with a fixed number of nodes for each process.  A node belongs to its
 * process; which list it is in, and whether, is under that list's lock.  A
 * waker takes the node out of the list.  Whether a waiter has been woken is an
 * atomic of the waiter, since its nodes are in several lists.  After a commit
 * nothing may be allocated, waited for or raised, so there are only atomics,
 * spinlocks and SetLatch.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "compat.h"
#include "guc.h"
#include "shmem/dispatch.h"
#include "shmem/news.h"
#include "shmem/shmem.h"
#include "shmem/timers.h"
#include "shmem/wake.h"
#include "subxact.h"

/* Lists; a power of two. */
#define WAKE_LISTS 1024

/* Queues that a waiter can wait for without being woken for others. */
#define WAKE_NODES 16

/* Latches that are set between two holds of a list's lock. */
#define WAKE_CHUNK 32

/* Different wake-ups that a transaction tells apart; with more it wakes all. */
#define WAKE_PENDING_MAX 16384

/* Kinds of keys, which make the seeds of their hashes differ. */
#define WAKE_QUEUE UINT64CONST(0x100000000)
#define WAKE_INSTANCE UINT64CONST(0x200000000)
#define WAKE_ANY_QUEUE UINT64CONST(0x300000000)
#define WAKE_RUNS UINT64CONST(0x400000000)
#define WAKE_TENANT UINT64CONST(0x500000000)

/* Set in the keys of runs, and in no others. */
#define KEY_OF_RUNS (UINT64CONST(1) << 63)

/*
 * Set in a waiter's `woken`, and in no key: what woke it may be gone, or not
 * due yet.
 */
#define TO_LOOK (UINT64CONST(1) << 62)

/* A waiter's `woken`, where it is not the key of the queue to pass it on to. */
#define NOT_WOKEN 0
#define WOKEN_WITH_ALL 1

typedef struct WakeNode
{
	dlist_node	link;
	GdWakeKey	key;			/* changed by its process while not linked */
	bool		linked;
} WakeNode;

typedef struct WakeWaiter
{
	pg_atomic_uint64 woken;
	Oid			database;
	WakeNode	nodes[WAKE_NODES];
} WakeWaiter;

typedef union WakeList
{
	struct
	{
		slock_t		mutex;
		pg_atomic_uint32 length;
		dlist_head	nodes;
	};
	char		pad[PG_CACHE_LINE_SIZE];	/* no two share a cache line */
} WakeList;

typedef struct WakeShared
{
	WakeList	lists[WAKE_LISTS];
	WakeWaiter	waiters[FLEXIBLE_ARRAY_MEMBER]; /* by proc number */
} WakeShared;

/* A wake-up that this transaction owes. */
typedef struct WakePending
{
	int			level;			/* transaction nesting level: first, for
								 * gd_subxact_notes */
	GdWakeKey	key;
	TimestampTz due;			/* of the first of its rows, where all are of
								 * the future; else DT_NOBEGIN */
	uint32		count;			/* waiters to wake: a row wants one */
	bool		all;			/* or all of them: an instance has settled */
	const text *queue;			/* where listeners want news; else NULL */
} WakePending;

static WakeShared *shared = NULL;

/* This process's waiter, and how many of its nodes may be linked. */
static WakeWaiter *mine = NULL;
static int	my_nodes = 0;

/*
 * What the transaction owes, in TopTransactionContext, in the order of its
 * levels: what a subtransaction adds is behind what was there at its start.
 */
static WakePending *pending = NULL;
static int	npending = 0;
static int	pending_size = 0;
static bool pending_all = false;	/* too many: wake the whole database */
static TimestampTz pending_later = DT_NOEND;	/* the first row that was due
												 * so late that a poll finds
												 * it */

Size
gd_wake_size(void)
{
	return add_size(offsetof(WakeShared, waiters), mul_size(MaxBackends, sizeof(WakeWaiter)));
}

void
gd_wake_attach(void *start, bool first)
{
	shared = start;
	if (!first)
		return;
	memset(start, 0, gd_wake_size());
	for (int i = 0; i < WAKE_LISTS; i++)
	{
		SpinLockInit(&shared->lists[i].mutex);
		pg_atomic_init_u32(&shared->lists[i].length, 0);
		dlist_init(&shared->lists[i].nodes);
	}
	for (int i = 0; i < MaxBackends; i++)
		pg_atomic_init_u64(&shared->waiters[i].woken, NOT_WOKEN);
}

static GdWakeKey
wake_key(uint64 kind, const void *bytes, int len)
{
	uint64		hash = hash_bytes_extended(bytes, len, kind | MyDatabaseId) & ~(KEY_OF_RUNS | TO_LOOK);

	return hash > WOKEN_WITH_ALL ? hash : WOKEN_WITH_ALL + 1;
}

GdWakeKey
gd_wake_queue(const text *queue)
{
	return wake_key(WAKE_QUEUE, VARDATA_ANY(queue), VARSIZE_ANY_EXHDR(queue));
}

GdWakeKey
gd_wake_instance(int64 id)
{
	return wake_key(WAKE_INSTANCE, &id, sizeof(id));
}

static GdWakeKey
wake_any_queue(void)
{
	return wake_key(WAKE_ANY_QUEUE, NULL, 0);
}

/*
 * gd_wake_runs: runs of a tenant, of none, or with NULL of any.
 */
GdWakeKey
gd_wake_runs(const text *tenant)
{
	if (tenant == NULL)
		return wake_key(WAKE_RUNS, NULL, 0) | KEY_OF_RUNS;
	return wake_key(WAKE_TENANT, VARDATA_ANY(tenant), VARSIZE_ANY_EXHDR(tenant)) | KEY_OF_RUNS;
}

static WakeList *
wake_list(GdWakeKey key)
{
	return &shared->lists[key & (WAKE_LISTS - 1)];
}

static int
wake_node_procno(const WakeNode *node)
{
	return ((const char *) node - (const char *) shared->waiters) / sizeof(WakeWaiter);
}

/*
 * wake_link, wake_unlink: under the list's lock.
 */
static void
wake_link(WakeList *list, WakeNode *node)
{
	node->linked = true;
	pg_atomic_fetch_add_u32(&list->length, 1);
	dlist_push_tail(&list->nodes, &node->link);
}

static void
wake_unlink(WakeList *list, WakeNode *node)
{
	node->linked = false;
	pg_atomic_fetch_sub_u32(&list->length, 1);
	dlist_delete(&node->link);
}

/*
 * wake_waiters: wake up to max of those that have subscribed to a key, the
 * longest waiting first; returns how many.
 *
 * One that is awake already does not count: it looks at all its queues before
 * it sleeps again.
 */
static uint32
wake_waiters(GdWakeKey key, uint32 max, uint64 woken)
{
	WakeList   *list = wake_list(key);
	uint32		total = 0;
	int			procs[WAKE_CHUNK];
	int			n;

	do
	{
		dlist_mutable_iter at;

		n = 0;
		if (pg_atomic_read_u32(&list->length) == 0)
			break;
		SpinLockAcquire(&list->mutex);
		dlist_foreach_modify(at, &list->nodes)
		{
			WakeNode   *node = dlist_container(WakeNode, link, at.cur);
			int			procno = wake_node_procno(node);
			uint64		expected = NOT_WOKEN;

			if (node->key != key)
				continue;
			wake_unlink(list, node);
			if (!pg_atomic_compare_exchange_u64(&shared->waiters[procno].woken,
												&expected, woken))
				continue;
			procs[n++] = procno;
			if (++total == max || n == WAKE_CHUNK)
				break;
		}
		SpinLockRelease(&list->mutex);
		for (int i = 0; i < n; i++)
			SetLatch(&GetPGProcByNumber(procs[i])->procLatch);
	} while (n == WAKE_CHUNK && total < max);
	return total;
}

static uint32
wake_for_rows(GdWakeKey key, uint32 count, uint64 look)
{
	uint32		woken = wake_waiters(key, count, key | look);

	if (woken < count && (key & KEY_OF_RUNS) == 0)
		woken += wake_waiters(wake_any_queue(), PG_UINT32_MAX, WOKEN_WITH_ALL);
	return woken;
}

/*
 * gd_wake_waiters: rows of a queue, or runs, can be claimed and want as many
 * waiters; returns how many were woken.  Safe in a commit callback.
 */
uint32
gd_wake_waiters(GdWakeKey key, uint32 count)
{
	return wake_for_rows(key, count, 0);
}

/*
 * wake_database: wake all who wait in this database.
 */
static void
wake_database(void)
{
	for (int i = 0; i < MaxBackends; i++)
	{
		uint64		expected = NOT_WOKEN;

		/* Read without a lock: a wrong answer is a needless look or a poll. */
		if (shared->waiters[i].database == MyDatabaseId &&
			pg_atomic_compare_exchange_u64(&shared->waiters[i].woken, &expected, WOKEN_WITH_ALL))
			SetLatch(&GetPGProcByNumber(i)->procLatch);
	}
}

/* Last entries that are looked at for one with the same key. */
#define PENDING_LOOK_BACK 8

/*
 * pending_set_queue: listeners are to hear of a queue.
 */
static void
pending_set_queue(WakePending *owed, const text *queue)
{
	Size		size = VARSIZE_ANY(queue);
	text	   *copy;

	if (owed->queue)
		return;
	copy = MemoryContextAlloc(TopTransactionContext, size);
	memcpy(copy, queue, size);
	owed->queue = copy;
}

/*
 * pending_add: note a wake-up; returns it, or NULL if there are too many.
 */
static WakePending *
pending_add(GdWakeKey key, TimestampTz due, bool all)
{
	int			level = GetCurrentTransactionNestLevel();

	for (int i = npending - 1; i >= 0 && i >= npending - PENDING_LOOK_BACK; i--)
	{
		if (pending[i].key == key && pending[i].level == level &&
			(pending[i].due == DT_NOBEGIN) == (due == DT_NOBEGIN))
		{
			pending[i].all |= all;
			pending[i].due = Min(pending[i].due, due);
			if (pending[i].count < PG_UINT32_MAX)
				pending[i].count++;
			return &pending[i];
		}
	}
	if (npending == WAKE_PENDING_MAX)
	{
		pending_all = true;
		return NULL;
	}
	if (npending == pending_size)
	{
		int			size = Max(2 * pending_size, 16);

		if (pending == NULL)
			pending = MemoryContextAlloc(TopTransactionContext, sizeof(WakePending) * size);
		else
			pending = repalloc(pending, sizeof(WakePending) * size);
		pending_size = size;
	}
	pending[npending].key = key;
	pending[npending].due = due;
	pending[npending].count = 1;
	pending[npending].all = all;
	pending[npending].queue = NULL;
	pending[npending].level = level;
	return &pending[npending++];
}

/*
 * pending_is_soon: can a poll be too late for what is due then?
 */
static bool
pending_is_soon(TimestampTz due, TimestampTz now)
{
	return due <= now + Max(gd_poll_interval, gd_max_poll_interval) * INT64CONST(1000);
}

/*
 * gd_wake_runnable: a row of a queue is runnable once the transaction commits.
 *
 * One that is due only later lowers the queue's timer.  If there is none, it
 * wakes a waiter whose next poll could be after that, which sets one.  Of those
 * that any poll will find, the first is kept: the transaction may be so long
 * that it is due at its end.
 */
void
gd_wake_runnable(const text *queue, TimestampTz eligible_at, TimestampTz now)
{
	bool		news = gd_news_wanted();
	bool		soon = pending_is_soon(eligible_at, now);
	WakePending *owed;

	if (!gd_shmem_ready())
		return;
	if (!soon)
		pending_later = Min(pending_later, eligible_at);
	if (!soon && !news)
		return;
	owed = pending_add(gd_wake_queue(queue), eligible_at <= now ? DT_NOBEGIN : eligible_at, false);
	if (owed && news)
		pending_set_queue(owed, queue);
}

/*
 * gd_wake_run: a run can be claimed once the transaction commits, or is due
 * before a waiter's next poll.  One waiter for all runs wants to know, and one
 * for those of its tenant.  As above, the first of all others is kept.
 */
void
gd_wake_run(const text *tenant, TimestampTz wake_at, TimestampTz now)
{
	if (!gd_shmem_ready())
		return;
	if (pending_is_soon(wake_at, now))
	{
		TimestampTz due = wake_at <= now ? DT_NOBEGIN : wake_at;

		(void) pending_add(gd_wake_runs(NULL), due, false);
		(void) pending_add(gd_wake_runs(tenant), due, false);
	}
	else
		pending_later = Min(pending_later, wake_at);
}

/*
 * gd_wake_owed: has this transaction noted anything to wake for?
 */
bool
gd_wake_owed(void)
{
	return npending > 0;
}

/*
 * gd_wake_claimed: a row that this transaction made runnable is claimed by it
 * too, and nobody need be woken for it.
 *
 * Only where both stand or fall together: a rollback to a savepoint between
 * the two would bring the row back.
 */
void
gd_wake_claimed(const text *queue)
{
	GdWakeKey	key = gd_wake_queue(queue);
	int			level = GetCurrentTransactionNestLevel();

	for (int i = npending - 1; i >= 0 && i >= npending - PENDING_LOOK_BACK; i--)
	{
		if (pending[i].key == key && pending[i].level == level &&
			pending[i].due == DT_NOBEGIN && pending[i].count > 0)
		{
			pending[i].count--;
			return;
		}
	}
}

/*
 * gd_wake_paused: a queue is paused once the transaction commits; all its
 * waiters are to take note.
 */
void
gd_wake_paused(const text *queue)
{
	if (gd_shmem_ready())
		(void) pending_add(gd_wake_queue(queue), DT_NOBEGIN, true);
}

/*
 * gd_wake_resumed: a queue hands out again once the transaction commits; all
 * its waiters are to look.
 */
void
gd_wake_resumed(const text *queue)
{
	WakePending *owed;

	if (!gd_shmem_ready())
		return;
	owed = pending_add(gd_wake_queue(queue), DT_NOBEGIN, true);
	if (owed)
		pending_set_queue(owed, queue);
	(void) pending_add(wake_any_queue(), DT_NOBEGIN, true);
}

/*
 * gd_wake_settled: an instance has ended or parked once the transaction
 * commits.
 */
void
gd_wake_settled(int64 id)
{
	if (gd_shmem_ready())
		(void) pending_add(gd_wake_instance(id), DT_NOBEGIN, true);
}

static void
pending_forget(void)
{
	pending = NULL;				/* its memory goes with the transaction */
	npending = 0;
	pending_size = 0;
	pending_all = false;
	pending_later = DT_NOEND;
}

/*
 * pending_wake_rows: a queue has got rows.  Who waits claims by itself, and the
 * scheduler is told where more rows have come than that.
 */
static void
pending_wake_rows(const WakePending *owed)
{
	if (owed->due != DT_NOBEGIN)
	{
		if (!gd_timer_lower(owed->key, owed->due) && pending_is_soon(owed->due, gd_now()))
			(void) wake_for_rows(owed->key, 1, TO_LOOK);
	}
	else if (gd_wake_waiters(owed->key, owed->count) < owed->count)
		gd_feed_poke(owed->key);
}

/*
 * pending_tell: listeners are to hear of a queue.  Of one that was noted before
 * they wanted to, the scheduler finds out itself.
 */
static void
pending_tell(const WakePending *owed)
{
	if (owed->count == 0)
		return;
	if (owed->queue)
		gd_news_tell(owed->key, owed->queue, owed->due);
	else if (!owed->all && (owed->key & KEY_OF_RUNS) == 0)
		gd_news_tell_all();
}

/*
 * pending_wake: the transaction has committed; wake those concerned.
 */
static void
pending_wake(void)
{
	/* What we wrote is to be seen before we look who waits. */
	pg_memory_barrier();
	if (gd_news_wanted())
	{
		if (pending_all)
			gd_news_tell_all();
		else
			for (int i = 0; i < npending; i++)
				pending_tell(&pending[i]);
	}
	if (pending_all || pending_is_soon(pending_later, gd_now()))
		wake_database();
	else
		for (int i = 0; i < npending; i++)
		{
			if (pending[i].all)
				(void) wake_waiters(pending[i].key, PG_UINT32_MAX, WOKEN_WITH_ALL);
			else if (pending[i].count > 0)
				pending_wake_rows(&pending[i]);
		}
}

static void
wake_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			if (npending > 0 || pending_later != DT_NOEND)
				pending_wake();
			pending_forget();
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			pending_forget();
			break;
		default:
			break;
	}
}

static void
wake_subxact_callback(SubXactEvent event, SubTransactionId subxid, SubTransactionId parent,
					  void *arg)
{
	npending = gd_subxact_notes(event, pending, npending, sizeof(WakePending));
}

static void
wake_before_exit(int code, Datum arg)
{
	gd_wake_leave();
}

/*
 * gd_wake_is_precise: is a waiter of so many queues woken for those only?
 */
bool
gd_wake_is_precise(int nqueues)
{
	return nqueues <= WAKE_NODES;
}

/*
 * gd_wake_idle: is it certain that nobody waits for a key?
 */
bool
gd_wake_idle(GdWakeKey key)
{
	return pg_atomic_read_u32(&wake_list(key)->length) == 0;
}

/*
 * gd_wake_count: how many wait for a key.
 */
int
gd_wake_count(GdWakeKey key)
{
	WakeList   *list = wake_list(key);
	dlist_iter	at;
	int			count = 0;

	SpinLockAcquire(&list->mutex);
	dlist_foreach(at, &list->nodes)
		count += dlist_container(WakeNode, link, at.cur)->key == key;
	SpinLockRelease(&list->mutex);
	return count;
}

/*
 * gd_wake_subscribe: from now on, until gd_wake_leave, be woken for any of
 * these keys.  To be called before each look with the same keys: it forgets
 * an earlier wake-up, which that look answers.  Without shared memory nobody
 * wakes, and this does nothing.
 *
 * The caller sees to it that an error between here and gd_wake_leave gets
 * there; the end of the process is seen to here.
 */
void
gd_wake_subscribe(const GdWakeKey *keys, int nkeys)
{
	GdWakeKey	any;

	if (!gd_shmem_ready())
		return;
	if (mine == NULL)
	{
		before_shmem_exit(wake_before_exit, (Datum) 0);
		mine = &shared->waiters[gd_my_procno()];
	}
	if (nkeys > WAKE_NODES)
	{
		any = wake_any_queue();
		keys = &any;
		nkeys = 1;
	}

	mine->database = MyDatabaseId;
	my_nodes = nkeys;
	pg_atomic_write_u64(&mine->woken, NOT_WOKEN);
	for (int i = 0; i < nkeys; i++)
	{
		WakeList   *list = wake_list(keys[i]);
		WakeNode   *node = &mine->nodes[i];

		SpinLockAcquire(&list->mutex);
		if (!node->linked)
		{
			node->key = keys[i];
			wake_link(list, node);
		}
		SpinLockRelease(&list->mutex);
	}
	/* The look that follows is not to be done before this. */
	pg_memory_barrier();
}

/*
 * gd_wake_wait: sleep until woken, or at most so many milliseconds; true if
 * woken.  An interrupt is served at once.
 */
bool
gd_wake_wait(long ms)
{
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ms);

	for (;;)
	{
		if (mine && my_nodes > 0 && pg_atomic_read_u64(&mine->woken) != NOT_WOKEN)
			return true;
		ms = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);
		if (ms == 0)
			return false;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms,
						 gd_wait_event("GenDurableWait"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * gd_wake_told: was this process woken for one of the keys that it subscribed
 * to, by somebody who knows that there is work?  Such a wake-up is answered
 * thereby, and not passed on.
 */
bool
gd_wake_told(const GdWakeKey *keys, int nkeys)
{
	uint64		woken = mine ? pg_atomic_read_u64(&mine->woken) : NOT_WOKEN;

	for (int i = 0; i < nkeys; i++)
	{
		if (keys[i] != woken)
			continue;
		pg_atomic_write_u64(&mine->woken, NOT_WOKEN);
		return true;
	}
	return false;
}

/*
 * gd_wake_leave: end the subscription, if there is one.  A wake-up that came
 * after the last look goes to the next waiter of the queue.
 */
void
gd_wake_leave(void)
{
	uint64		woken;

	if (my_nodes == 0)
		return;
	for (int i = 0; i < my_nodes; i++)
	{
		WakeNode   *node = &mine->nodes[i];
		WakeList   *list = wake_list(node->key);

		SpinLockAcquire(&list->mutex);
		if (node->linked)
			wake_unlink(list, node);
		SpinLockRelease(&list->mutex);
	}
	my_nodes = 0;
	mine->database = InvalidOid;
	woken = pg_atomic_exchange_u64(&mine->woken, NOT_WOKEN);
	if (woken != NOT_WOKEN && woken != WOKEN_WITH_ALL)
		(void) wake_for_rows(woken & ~TO_LOOK, 1, TO_LOOK);
}

void
gd_wake_init(void)
{
	RegisterXactCallback(wake_xact_callback, NULL);
	RegisterSubXactCallback(wake_subxact_callback, NULL);
}
