/*
 * keylock.c
 *		Transaction-level locks on keys, in a lock space of our own.
 *
 * Whoever claims a row with a concurrency key first try-locks the key (D-4):
 * a unique index would wait for a rival's transaction and raise after the
 * write, a try-lock costs the one row and no time.  The lock is one on the
 * key's hash; two keys with one hash cost a skip, never correctness.
 *
 * The locks are heavyweight ones, like advisory locks, but with a
 * discriminator that SQL's advisory functions never use.  They last to the
 * end of the transaction.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/memutils.h"

#include "compat.h"
#include "engine/keylock.h"

/* pg_advisory_lock uses 1 and 2. */
#define KEYLOCK_SPACE 0x6764

/* A transaction may not fill the shared lock table. */
#define KEYLOCKS_MAX 1000

static int	keylocks_held = 0;

static void
keylock_gone(void *arg)
{
	keylocks_held--;
}

static void
keylock_tag(LOCKTAG *tag, const char *kind, const text *key)
{
	uint64		seed = hash_bytes_extended((const unsigned char *) kind, strlen(kind), 0);
	uint64		hash = hash_bytes_extended((const unsigned char *) VARDATA_ANY(key),
										   VARSIZE_ANY_EXHDR(key), seed);

	SET_LOCKTAG_ADVISORY(*tag, MyDatabaseId, (uint32) (hash >> 32), (uint32) hash,
						 KEYLOCK_SPACE);
}

/*
 * gd_key_lock: lock a key, waiting for whoever holds it.
 */
void
gd_key_lock(const char *kind, const text *key)
{
	LOCKTAG		tag;

	keylock_tag(&tag, kind, key);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

static bool
keylock_try(const char *kind, const text *key, LOCKMODE mode)
{
	LOCKTAG		tag;
	LockAcquireResult result;

	if (keylocks_held >= KEYLOCKS_MAX)
		return false;
	keylock_tag(&tag, kind, key);
	result = LockAcquire(&tag, mode, false, true);
	if (result == LOCKACQUIRE_OK)
	{
		/*
		 * The lock goes with the subtransaction that took it, and so does
		 * this.
		 */
		MemoryContextCallback *callback;

		callback = MemoryContextAllocZero(CurTransactionContext,
										  sizeof(MemoryContextCallback));
		callback->func = keylock_gone;
		MemoryContextRegisterResetCallback(CurTransactionContext, callback);
		keylocks_held++;
	}
	return result != LOCKACQUIRE_NOT_AVAIL;
}

/*
 * gd_key_try_lock: lock a key unless another transaction holds it, or this
 * one holds too many.
 */
bool
gd_key_try_lock(const char *kind, const text *key)
{
	return keylock_try(kind, key, ExclusiveLock);
}

/*
 * gd_key_try_share: the same, beside others that do this, so that nobody who
 * locks the key for himself gets it meanwhile.
 */
bool
gd_key_try_share(const char *kind, const text *key)
{
	return keylock_try(kind, key, ShareLock);
}
