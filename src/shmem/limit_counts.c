/*
 * limit_counts.c
 *		What limits admitted and refused since the server started.
 *
 * A fixed table of counters, found by the hash of database, kind and name.  An
 * entry is taken with one exchange of its hash and never given back, so there
 * is nothing to lock.  Limits beyond what it holds are not counted.  What a
 * transaction counted stays counted if it rolls back.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/atomics.h"

#include "compat.h"
#include "shmem/limit_counts.h"
#include "shmem/shmem.h"

/* A power of two. */
#define COUNTS 1024

/* Entries that are looked at for one limit. */
#define PROBES 32

typedef struct Count
{
	pg_atomic_uint64 hash;		/* 0: free */
	pg_atomic_uint64 admitted;
	pg_atomic_uint64 refused;
} Count;

static Count *counts;

Size
gd_limit_counts_size(void)
{
	return mul_size(COUNTS, sizeof(Count));
}

void
gd_limit_counts_attach(void *start, bool first)
{
	counts = start;
	for (int i = 0; first && i < COUNTS; i++)
	{
		pg_atomic_init_u64(&counts[i].hash, 0);
		pg_atomic_init_u64(&counts[i].admitted, 0);
		pg_atomic_init_u64(&counts[i].refused, 0);
	}
}

/*
 * count_find: the counters of a limit, which are made if they are to be; NULL
 * if there are none.
 */
static Count *
count_find(GdLimitKind kind, const text *name, bool make)
{
	uint64		seed = hash_combine64(MyDatabaseId, kind + 1);
	uint64		hash = hash_bytes_extended((const unsigned char *) VARDATA_ANY(name),
										   VARSIZE_ANY_EXHDR(name), seed) | 1;

	for (int i = 0; i < PROBES; i++)
	{
		Count	   *count = &counts[((hash >> 1) + i) & (COUNTS - 1)];
		uint64		found = pg_atomic_read_u64(&count->hash);

		if (found == 0 && make &&
			pg_atomic_compare_exchange_u64(&count->hash, &found, hash))
			return count;
		if (found == hash)
			return count;
		if (found == 0 && !make)
			return NULL;
	}
	return NULL;
}

void
gd_limit_count(GdLimitKind kind, const text *name, int64 admitted, int64 refused)
{
	Count	   *count;

	if (!gd_shmem_ready() || (admitted == 0 && refused == 0))
		return;
	count = count_find(kind, name, true);
	if (count == NULL)
		return;
	if (admitted > 0)
		pg_atomic_fetch_add_u64(&count->admitted, admitted);
	if (refused > 0)
		pg_atomic_fetch_add_u64(&count->refused, refused);
}

/*
 * gd_limit_counted: what was counted; false without shared memory.
 */
bool
gd_limit_counted(GdLimitKind kind, const text *name, int64 *admitted, int64 *refused)
{
	Count	   *count;

	*admitted = *refused = 0;
	if (!gd_shmem_ready())
		return false;
	count = count_find(kind, name, false);
	if (count)
	{
		*admitted = pg_atomic_read_u64(&count->admitted);
		*refused = pg_atomic_read_u64(&count->refused);
	}
	return true;
}
