/*
 * timers.c
 *		Instants at which the waiters of a queue are to be woken: its next row
 *		is due then.
 *
 * A waiter that has looked at a queue and found only rows of the future sets
 * the queue's timer and leaves it to the scheduler to wake as many waiters as
 * there are due rows, so that not all of them wake for one.  Commits of
 * further such rows lower the timer.  Where there is no scheduler, or no room,
 * each waiter keeps its own time.
 *
 * All of it is a hint: a timer that is lost is made up for by the waiters'
 * polls.
 *
 * Lock: one spinlock, held for straight-line code over at most TIMERS_MAX
 * short heads.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/spin.h"

#include "shmem/databases.h"
#include "shmem/shmem.h"
#include "shmem/timers.h"

/* Queues of all databases that have a timer at a time. */
#define TIMERS_MAX 1024

#define NO_TIMER (-1)

typedef struct Timer
{
	GdWakeKey	key;
	TimestampTz due;			/* DT_NOEND while the scheduler looks */
	Oid			database;		/* InvalidOid: free */
	int			next;			/* with the same bucket, or free */
} Timer;

typedef struct TimerName
{
	int			len;
	char		bytes[GD_NAME_MAX];
} TimerName;

typedef struct Timers
{
	slock_t		lock;
	int			free;			/* first of the free ones */
	int			top;			/* all that were ever used are below */
	int			buckets[TIMERS_MAX];
	Timer		timers[TIMERS_MAX];
	TimerName	names[TIMERS_MAX];	/* apart, so that the heads are close */
} Timers;

static Timers *shared = NULL;

Size
gd_timers_size(void)
{
	return sizeof(Timers);
}

void
gd_timers_attach(void *start, bool first)
{
	shared = start;
	if (!first)
		return;
	memset(start, 0, sizeof(Timers));
	SpinLockInit(&shared->lock);
	for (int i = 0; i < TIMERS_MAX; i++)
	{
		shared->buckets[i] = NO_TIMER;
		shared->timers[i].next = i + 1 < TIMERS_MAX ? i + 1 : NO_TIMER;
	}
}

/*
 * timer_link: the place that names a queue's timer, or the end of its bucket.
 * With the lock held.
 */
static int *
timer_link(GdWakeKey key)
{
	int		   *link = &shared->buckets[key % TIMERS_MAX];

	while (*link != NO_TIMER && shared->timers[*link].key != key)
		link = &shared->timers[*link].next;
	return link;
}

/*
 * timer_remove: with the lock held.
 */
static void
timer_remove(int *link)
{
	int			i = *link;
	Timer	   *timer = &shared->timers[i];

	*link = timer->next;
	timer->database = InvalidOid;
	timer->next = shared->free;
	shared->free = i;
}

/*
 * timers_evict: free those of queues that nobody waits for.  With the lock
 * held.
 */
static void
timers_evict(void)
{
	for (int i = 0; i < shared->top; i++)
	{
		Timer	   *timer = &shared->timers[i];

		if (OidIsValid(timer->database) && gd_wake_idle(timer->key))
			timer_remove(timer_link(timer->key));
	}
}

/*
 * gd_timer_set: the waiters of a queue are to be woken at an instant.  False
 * if that cannot be promised.
 */
bool
gd_timer_set(const text *queue, TimestampTz due)
{
	GdWakeKey	key = gd_wake_queue(queue);
	bool		lowered = false;
	int		   *link;

	if (!gd_shmem_ready() || !gd_database_has(GD_SCHEDULER))
		return false;
	SpinLockAcquire(&shared->lock);
	link = timer_link(key);
	if (*link == NO_TIMER && shared->free == NO_TIMER)
	{
		timers_evict();
		link = timer_link(key);
	}
	if (*link == NO_TIMER && shared->free != NO_TIMER)
	{
		int			i = shared->free;
		Timer	   *timer = &shared->timers[i];
		TimerName  *name = &shared->names[i];

		shared->free = timer->next;
		shared->top = Max(shared->top, i + 1);
		timer->key = key;
		timer->due = DT_NOEND;
		timer->database = MyDatabaseId;
		timer->next = NO_TIMER;
		name->len = Min(VARSIZE_ANY_EXHDR(queue), GD_NAME_MAX);
		memcpy(name->bytes, VARDATA_ANY(queue), name->len);
		*link = i;
	}
	if (*link != NO_TIMER)
	{
		Timer	   *timer = &shared->timers[*link];

		lowered = due < timer->due;
		timer->due = Min(timer->due, due);
	}
	else
		link = NULL;
	SpinLockRelease(&shared->lock);
	if (lowered)
		gd_database_tell(GD_SCHEDULER);
	return link != NULL;
}

/*
 * gd_timer_lower: a row of a queue is due at an instant.  False if the queue
 * has no timer.  Safe in a commit callback.
 */
bool
gd_timer_lower(GdWakeKey key, TimestampTz due)
{
	bool		found;
	bool		lowered = false;
	int			i;

	/* Read without the lock: mostly there is none at all. */
	if (shared->top == 0 || !gd_database_has(GD_SCHEDULER))
		return false;
	SpinLockAcquire(&shared->lock);
	i = *timer_link(key);
	found = i != NO_TIMER;
	if (found)
	{
		lowered = due < shared->timers[i].due;
		shared->timers[i].due = Min(shared->timers[i].due, due);
	}
	SpinLockRelease(&shared->lock);
	if (lowered)
		gd_database_tell(GD_SCHEDULER);
	return found;
}

/*
 * gd_timers_next: when the next timer of this database runs out.
 */
TimestampTz
gd_timers_next(void)
{
	TimestampTz next = DT_NOEND;

	SpinLockAcquire(&shared->lock);
	for (int i = 0; i < shared->top; i++)
		if (shared->timers[i].database == MyDatabaseId)
			next = Min(next, shared->timers[i].due);
	SpinLockRelease(&shared->lock);
	return next;
}

/*
 * gd_timers_take: a timer of this database that has run out; false if there
 * is none.  It stays, without an instant, so that commits find it while the
 * scheduler looks at the queue; then gd_timer_rearm is to be called.
 */
bool
gd_timers_take(TimestampTz now, GdTimer *timer)
{
	bool		found = false;

	SpinLockAcquire(&shared->lock);
	for (int i = 0; i < shared->top && !found; i++)
	{
		Timer	   *at = &shared->timers[i];

		if (at->database != MyDatabaseId || at->due > now)
			continue;
		found = true;
		at->due = DT_NOEND;
		timer->key = at->key;
		timer->len = shared->names[i].len;
		memcpy(timer->name, shared->names[i].bytes, timer->len);
	}
	SpinLockRelease(&shared->lock);
	return found;
}

/*
 * gd_timer_rearm: a timer that was taken runs out again at an instant; with
 * DT_NOEND it goes, if no commit has set it meanwhile.
 */
void
gd_timer_rearm(const GdTimer *timer, TimestampTz due)
{
	int		   *link;

	SpinLockAcquire(&shared->lock);
	link = timer_link(timer->key);
	if (*link != NO_TIMER)
	{
		Timer	   *at = &shared->timers[*link];

		at->due = Min(at->due, due);
		if (at->due == DT_NOEND)
			timer_remove(link);
	}
	SpinLockRelease(&shared->lock);
}
