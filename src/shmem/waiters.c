/*
 * waiters.c
 *		Who waits for what, and since when, for people to look at.
 *
 * Nothing depends on it: wake-ups go by keys (wake.c), from which no name can
 * be told.  Of a waiter's queues as many names are kept as fit.
 *
 * Locks: each process has a place, by its proc number, under a spinlock for
 * straight-line code.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "shmem/shmem.h"
#include "shmem/waiters.h"

typedef struct WaiterPlace
{
	slock_t		mutex;
	Oid			database;		/* InvalidOid: does not wait */
	GdWaiter	waiter;
} WaiterPlace;

static WaiterPlace *places = NULL;
static WaiterPlace *mine = NULL;

Size
gd_waiters_size(void)
{
	return mul_size(MaxBackends, sizeof(WaiterPlace));
}

void
gd_waiters_attach(void *start, bool first)
{
	places = start;
	if (!first)
		return;
	memset(start, 0, gd_waiters_size());
	for (int i = 0; i < MaxBackends; i++)
		SpinLockInit(&places[i].mutex);
}

static void
waiter_before_exit(int code, Datum arg)
{
	gd_waiter_end();
}

/*
 * gd_waiter_begin: this process waits from now on, if it did not yet, for
 * queues or for an instance.
 */
void
gd_waiter_begin(text *const *queues, int nqueues, int64 instance)
{
	GdWaiter	waiter = {.pid = MyProcPid,.since = GetCurrentTimestamp()};
	int			used = 0;

	if (!gd_shmem_ready() || (mine && OidIsValid(mine->database)))
		return;
	if (mine == NULL)
	{
		before_shmem_exit(waiter_before_exit, (Datum) 0);
		mine = &places[gd_my_procno()];
	}
	waiter.instance = instance;
	waiter.nqueues = nqueues;
	for (int i = 0; i < nqueues; i++)
	{
		int			len = VARSIZE_ANY_EXHDR(queues[i]);

		if (used + 1 + len > GD_WAITER_NAMES)
			break;
		waiter.names[used++] = (char) len;	/* at most 255 */
		memcpy(&waiter.names[used], VARDATA_ANY(queues[i]), len);
		used += len;
		waiter.nnames++;
	}
	SpinLockAcquire(&mine->mutex);
	mine->waiter = waiter;
	mine->database = MyDatabaseId;
	SpinLockRelease(&mine->mutex);
}

/*
 * gd_waiter_end: it waits no longer, if it did.
 */
void
gd_waiter_end(void)
{
	if (mine == NULL)
		return;
	SpinLockAcquire(&mine->mutex);
	mine->database = InvalidOid;
	SpinLockRelease(&mine->mutex);
}

/*
 * gd_waiters_read: the sessions of this database that wait; returns how many.
 */
int
gd_waiters_read(GdWaiter **waiters)
{
	int			n = 0;

	*waiters = palloc(sizeof(GdWaiter) * MaxBackends);
	for (int i = 0; i < MaxBackends; i++)
	{
		WaiterPlace *place = &places[i];

		SpinLockAcquire(&place->mutex);
		if (place->database == MyDatabaseId)
			(*waiters)[n++] = place->waiter;
		SpinLockRelease(&place->mutex);
	}
	return n;
}
