/*
 * returns.c
 *		Slots of a limiter outside the database that were freed by commits, on
 *		their way to the maintainer.
 *
 * A bounded queue for all databases.  What finds no room is forgotten: the
 * lease of such a slot runs out by itself.  Beside it stands until when nobody
 * tries to reach the limiter after it failed.
 *
 * Locks: a spinlock round the copying of one entry; putting one is safe in a
 * commit callback.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/spin.h"

#include "guc.h"
#include "shmem/returns.h"
#include "shmem/shmem.h"

#define RETURNS 8192

typedef struct Returns
{
	pg_atomic_uint64 not_before;
	pg_atomic_uint32 failures;
	slock_t		lock;
	int			n;
	GdReturn	entries[FLEXIBLE_ARRAY_MEMBER];
} Returns;

static Returns *returns;

static int
returns_max(void)
{
	return gd_limiter_kind == GD_LIMITER_TABLE ? 0 : RETURNS;
}

Size
gd_returns_size(void)
{
	return add_size(offsetof(Returns, entries), mul_size(returns_max(), sizeof(GdReturn)));
}

void
gd_returns_attach(void *start, bool first)
{
	returns = start;
	if (!first)
		return;
	pg_atomic_init_u64(&returns->not_before, 0);
	pg_atomic_init_u32(&returns->failures, 0);
	SpinLockInit(&returns->lock);
	returns->n = 0;
}

/*
 * gd_return_put: a slot of this database's is free; false if there is no room
 * to say so.  Safe in a commit callback.
 */
bool
gd_return_put(const char *key, int shard)
{
	bool		room;

	if (!gd_shmem_ready())
		return false;
	SpinLockAcquire(&returns->lock);
	room = returns->n < returns_max();
	if (room)
	{
		GdReturn   *entry = &returns->entries[returns->n++];

		entry->database = MyDatabaseId;
		entry->shard = shard;
		strlcpy(entry->key, key, sizeof(entry->key));
	}
	SpinLockRelease(&returns->lock);
	return room;
}

/*
 * returns_remove: take out what is queued for a database, at most so many, to
 * where it is wanted, if it is; returns how many.  The order is lost, and means
 * nothing.
 */
static int
returns_remove(Oid database, GdReturn *taken, int max)
{
	int			n = 0;
	int			i = 0;
	bool		more = gd_shmem_ready();

	while (more && n < max)
	{
		SpinLockAcquire(&returns->lock);
		/* A short piece at a time, since others spin meanwhile. */
		for (int looked = 0; looked < 64 && i < returns->n && n < max; looked++)
		{
			if (returns->entries[i].database != database)
			{
				i++;
				continue;
			}
			if (taken)
				taken[n] = returns->entries[i];
			n++;
			if (i != --returns->n)
				returns->entries[i] = returns->entries[returns->n];
		}
		more = i < returns->n;
		SpinLockRelease(&returns->lock);
	}
	return n;
}

/*
 * gd_returns_take: take what is queued for this database, at most so many;
 * returns how many.
 */
int
gd_returns_take(GdReturn *taken, int max)
{
	return returns_remove(MyDatabaseId, taken, max);
}

/*
 * gd_returns_forget: a database is gone, and with it whoever would take what is
 * queued for it.
 */
void
gd_returns_forget(Oid database)
{
	(void) returns_remove(database, NULL, RETURNS);
}

/*
 * gd_remote_not_before: until when nobody tries to reach the limiter.
 */
pg_atomic_uint64 *
gd_remote_not_before(void)
{
	return &returns->not_before;
}

/*
 * gd_remote_failures: how often it failed, one after the other.
 */
pg_atomic_uint32 *
gd_remote_failures(void)
{
	return &returns->failures;
}
