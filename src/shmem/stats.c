/*
 * stats.c
 *		What the view `stats` shows of each queue: how many rows are in which
 *		state, and how often what has happened; and `run_stats` of the run
 *		store.
 *
 * A transaction notes what it changes, by queue and by subtransaction, and
 * adds it to the queue's entry after its commit.  So the gauges are the sums
 * of all that was committed since a count of all rows (engine/census.c) set
 * them right.  What went round the engine stays unknown until the next count:
 * SQL that writes the table, and COMMIT PREPARED.
 *
 * There are gen_durable.max_queues entries for all databases.  An entry whose
 * queue has held no live row and seen nothing happen for a while gives way to
 * a new queue when there is no free one.  A queue that finds no place is
 * counted in the entry without a name, which each database has, as is what
 * belongs to no queue.  The run store of a database has an entry of its own,
 * with counters of its own and no gauges, from its first use on.
 *
 * The count of all rows reads one snapshot while others commit.  When it
 * begins, it notes the snapshot here and keeps the gauges of that moment in
 * `base`; transactions that the snapshot sees and that come here only later
 * add what they did to `late` as well.  At the end what was counted replaces
 * base + late, and what has been added besides stays.  So at the end it waits
 * for transactions that the snapshot sees and that have not come here yet:
 * each process tells of the one that it is about to commit.
 *
 * Locks: the list of entries, and which queue an entry is of, under `lock`, an
 * LWLock; the figures of an entry and its generation under the entry's
 * spinlock, for straight-line code.  Entries never move.  Who has found an
 * entry keeps its number and its generation, and adds nothing when that is
 * another queue's by now; so the commit callback takes spinlocks only.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "guc.h"
#include "shmem/shmem.h"
#include "shmem/stats.h"

#define LOCK_NAME "GenDurableStatistics"

#define NO_ENTRY (-1)
#define NO_PROC (-1)

/* An entry gives way when nothing has happened in it for so long. */
#define UNUSED_MS (10 * 60 * 1000)

/* When no entry could give way, none is looked for again for so long. */
#define FULL_MS 1000

/* Entries that a process remembers; a power of two. */
#define CACHE_SIZE 256

/* Room for what is counted, whatever the entry is of. */
#define NCOUNTERS Max((int) GD_NCOUNTERS, (int) GD_NRUN_COUNTERS)

/* What an entry counts. */
typedef enum StatsKind
{
	STATS_QUEUE,
	STATS_RUNS
} StatsKind;

typedef struct StatsEntry
{
	/* Under the list's lock, but for the generation: see above. */
	int			next;			/* in its hash bucket, or in the free list */
	Oid			database;
	StatsKind	kind;
	uint64		hash;
	int			name_len;		/* of a queue's name; else empty */
	char		name[256];

	slock_t		mutex;
	uint32		generation;		/* another one for each queue it is given to */
	bool		rebasing;
	int64		gauges[GD_NGAUGES];
	int64		base[GD_NGAUGES];
	int64		late[GD_NGAUGES];
	int64		counters[NCOUNTERS];
	TimestampTz since;
	TimestampTz touched;		/* when it was last added to */
	TimestampTz counted_at;		/* without a name: when a count last set the
								 * database's gauges right, or 0 */
} StatsEntry;

/* The count that is under way. */
typedef struct StatsRebase
{
	Oid			database;		/* InvalidOid: none */
	int			procno;
	TransactionId xmax;			/* the snapshot: sees what is before this, */
	int			nxip;
	TransactionId *xip;			/* but these */
} StatsRebase;

typedef struct StatsShared
{
	LWLock		lock;
	int			free;			/* first free entry */
	TimestampTz full_until;
	StatsRebase rebase;
	pg_atomic_uint32 *committing;	/* by proc number: a transaction that has
									 * changed gauges and not added that yet */
	StatsEntry *entries;
	int		   *buckets;		/* as many as entries */
} StatsShared;

/* What a transaction does to an entry, at one nesting level. */
typedef struct StatsPending
{
	int			entry;
	uint32		generation;
	int			level;
	int			below;			/* the same entry's at an outer level, or -1 */
	int64		gauges[GD_NGAUGES];
	int64		counters[NCOUNTERS];
} StatsPending;

/* Where a queue's entry was found. */
typedef struct StatsCached
{
	uint64		hash;
	int			entry;
	uint32		generation;
} StatsCached;

static StatsShared *shared = NULL;
static StatsCached cache[CACHE_SIZE];

/*
 * In TopTransactionContext, in the order of the levels: what a subtransaction
 * adds is behind what was there at its start.  `latest` has each entry's last
 * place in it, or -1.
 */
static StatsPending *pending = NULL;
static int	npending = 0;
static int	pending_size = 0;
static int *latest = NULL;

/* What the count of this process has found, by entry. */
static int64 (*rebase_found)[GD_NGAUGES] = NULL;

static int
rebase_max_xip(void)
{
	return MaxBackends + max_prepared_xacts;
}

Size
gd_stats_size(void)
{
	Size		size = MAXALIGN(sizeof(StatsShared));

	size = add_size(size, mul_size(gd_max_queues, sizeof(StatsEntry)));
	size = add_size(size, MAXALIGN(mul_size(gd_max_queues, sizeof(int))));
	size = add_size(size, MAXALIGN(mul_size(MaxBackends, sizeof(pg_atomic_uint32))));
	return add_size(size, MAXALIGN(mul_size(rebase_max_xip(), sizeof(TransactionId))));
}

void
gd_stats_attach(void *start, bool first)
{
	char	   *at = start;

	shared = start;
	if (!first)
	{
		LWLockRegisterTranche(shared->lock.tranche, LOCK_NAME);
		return;
	}
	memset(start, 0, gd_stats_size());
	at += MAXALIGN(sizeof(StatsShared));
	shared->entries = (StatsEntry *) at;
	at += gd_max_queues * sizeof(StatsEntry);
	shared->buckets = (int *) at;
	at += MAXALIGN(gd_max_queues * sizeof(int));
	shared->committing = (pg_atomic_uint32 *) at;
	at += MAXALIGN(MaxBackends * sizeof(pg_atomic_uint32));
	for (int i = 0; i < MaxBackends; i++)
		pg_atomic_init_u32(&shared->committing[i], InvalidTransactionId);
	shared->rebase.xip = (TransactionId *) at;
	shared->rebase.procno = NO_PROC;
	LWLockInitialize(&shared->lock, LWLockNewTrancheId());
	LWLockRegisterTranche(shared->lock.tranche, LOCK_NAME);
	for (int i = 0; i < gd_max_queues; i++)
	{
		SpinLockInit(&shared->entries[i].mutex);
		shared->entries[i].next = i + 1 < gd_max_queues ? i + 1 : NO_ENTRY;
		shared->buckets[i] = NO_ENTRY;
	}
}

/*
 * stats_find: an entry, or NO_ENTRY.  With the list's lock held.
 */
static int
stats_find(StatsKind kind, uint64 hash, const char *name, int len)
{
	int			i = shared->buckets[hash % gd_max_queues];

	while (i != NO_ENTRY)
	{
		StatsEntry *entry = &shared->entries[i];

		if (entry->hash == hash && entry->database == MyDatabaseId &&
			entry->kind == kind && entry->name_len == len && memcmp(entry->name, name, len) == 0)
			break;
		i = entry->next;
	}
	return i;
}

/*
 * stats_unlink: take an entry out of its bucket.  With the list's lock held
 * exclusively.
 */
static void
stats_unlink(int entry)
{
	int		   *at = &shared->buckets[shared->entries[entry].hash % gd_max_queues];

	while (*at != entry)
		at = &shared->entries[*at].next;
	*at = shared->entries[entry].next;
}

/*
 * stats_is_unused: may an entry give way?
 */
static bool
stats_is_unused(StatsEntry *entry, TimestampTz now)
{
	bool		unused;

	if (!OidIsValid(entry->database) || entry->name_len == 0)
		return false;
	SpinLockAcquire(&entry->mutex);
	unused = !entry->rebasing && entry->touched < now - UNUSED_MS * INT64CONST(1000);
	for (int g = 0; g < GD_NGAUGES; g++)
		unused &= entry->gauges[g] <= 0;
	SpinLockRelease(&entry->mutex);
	return unused;
}

/*
 * stats_take: a free entry, or the unused one that was left alone longest;
 * NO_ENTRY if there is none.  With the list's lock held exclusively.
 */
static int
stats_take(TimestampTz now)
{
	int			taken = shared->free;

	if (taken != NO_ENTRY)
	{
		shared->free = shared->entries[taken].next;
		return taken;
	}
	if (now < shared->full_until)
		return NO_ENTRY;
	for (int i = 0; i < gd_max_queues; i++)
		if (stats_is_unused(&shared->entries[i], now) &&
			(taken == NO_ENTRY || shared->entries[i].touched < shared->entries[taken].touched))
			taken = i;
	if (taken == NO_ENTRY)
		shared->full_until = now + FULL_MS * INT64CONST(1000);
	else
		stats_unlink(taken);
	return taken;
}

/*
 * stats_clear: an entry belongs to another queue from now on, or to none.
 */
static void
stats_clear(StatsEntry *entry, TimestampTz now, bool rebasing)
{
	SpinLockAcquire(&entry->mutex);
	entry->generation++;
	entry->rebasing = rebasing;
	memset(entry->gauges, 0, sizeof(entry->gauges));
	memset(entry->base, 0, sizeof(entry->base));
	memset(entry->late, 0, sizeof(entry->late));
	memset(entry->counters, 0, sizeof(entry->counters));
	entry->since = entry->touched = now;
	entry->counted_at = 0;
	SpinLockRelease(&entry->mutex);
}

/*
 * stats_create: a new entry.  With the list's lock held
 * exclusively.
 */
static int
stats_create(StatsKind kind, uint64 hash, const char *name, int len)
{
	TimestampTz now = GetCurrentTimestamp();
	int			taken = stats_take(now);
	StatsEntry *entry;
	int		   *bucket;

	if (taken == NO_ENTRY)
		return NO_ENTRY;
	entry = &shared->entries[taken];
	bucket = &shared->buckets[hash % gd_max_queues];
	entry->database = MyDatabaseId;
	entry->kind = kind;
	entry->hash = hash;
	entry->name_len = len;
	memcpy(entry->name, name, len);
	entry->next = *bucket;
	stats_clear(entry, now, shared->rebase.database == MyDatabaseId);
	*bucket = taken;
	return taken;
}

/*
 * stats_lookup: the entry in which a queue is counted, or the run store, with
 * its generation; an empty name is what belongs to no queue.  NO_ENTRY where
 * there is no place for even that.
 */
static int
stats_lookup(StatsKind kind, const char *name, int len, uint32 *generation)
{
	uint64		hash = hash_bytes_extended((const unsigned char *) name, len,
										   hash_combine64(MyDatabaseId, kind));
	StatsCached *cached = &cache[hash & (CACHE_SIZE - 1)];
	int			entry;

	/* A changed generation is seen at the latest when something is added. */
	*generation = cached->generation;
	if (cached->hash == hash && cached->generation != 0 &&
		((volatile StatsEntry *) &shared->entries[cached->entry])->generation == cached->generation)
		return cached->entry;

	LWLockAcquire(&shared->lock, LW_SHARED);
	entry = stats_find(kind, hash, name, len);
	if (entry != NO_ENTRY)
		*generation = shared->entries[entry].generation;
	LWLockRelease(&shared->lock);
	if (entry == NO_ENTRY)
	{
		LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
		entry = stats_find(kind, hash, name, len);
		if (entry == NO_ENTRY)
			entry = stats_create(kind, hash, name, len);
		if (entry != NO_ENTRY)
			*generation = shared->entries[entry].generation;
		LWLockRelease(&shared->lock);
	}
	if (entry == NO_ENTRY)
		return len == 0 ? NO_ENTRY : stats_lookup(kind, "", 0, generation);
	cached->hash = hash;
	cached->entry = entry;
	cached->generation = *generation;
	return entry;
}

static int
stats_lookup_queue(const text *queue, uint32 *generation)
{
	if (queue == NULL)
		return stats_lookup(STATS_QUEUE, "", 0, generation);
	return stats_lookup(STATS_QUEUE, VARDATA_ANY(queue), Min(VARSIZE_ANY_EXHDR(queue), 255), generation);
}

/*
 * pending_push: room for what the transaction does to an entry from here on.
 */
static StatsPending *
pending_push(int entry, uint32 generation, int level)
{
	StatsPending *new;

	if (npending == pending_size)
	{
		int			size = Max(2 * pending_size, 4);

		if (pending == NULL)
			pending = MemoryContextAlloc(TopTransactionContext, sizeof(StatsPending) * size);
		else
			pending = repalloc_huge(pending, sizeof(StatsPending) * size);
		pending_size = size;
	}
	new = &pending[npending];
	memset(new, 0, sizeof(StatsPending));
	new->entry = entry;
	new->generation = generation;
	new->level = level;
	new->below = latest[entry];
	latest[entry] = npending++;
	return new;
}

/*
 * pending_of: what the transaction does to an entry; NULL if there is none.
 */
static StatsPending *
pending_of(int entry, uint32 generation)
{
	int			level = GetCurrentTransactionNestLevel();
	StatsPending *at;

	if (entry == NO_ENTRY)
		return NULL;
	if (latest == NULL)
	{
		latest = MemoryContextAllocHuge(TopMemoryContext, sizeof(int) * gd_max_queues);
		for (int i = 0; i < gd_max_queues; i++)
			latest[i] = -1;
	}
	if (latest[entry] < 0 || pending[latest[entry]].level != level)
		return pending_push(entry, generation, level);
	at = &pending[latest[entry]];
	if (at->generation != generation)
	{
		/* The entry has become another queue's. */
		memset(at->gauges, 0, sizeof(at->gauges));
		memset(at->counters, 0, sizeof(at->counters));
		at->generation = generation;
	}
	return at;
}

/*
 * pending_of_queue, pending_of_runs: likewise of a queue's entry, and of the
 * run store's; NULL without the preload.
 */
static StatsPending *
pending_of_queue(const text *queue)
{
	uint32		generation = 0;
	int			entry = gd_shmem_ready() ? stats_lookup_queue(queue, &generation) : NO_ENTRY;

	return pending_of(entry, generation);
}

static StatsPending *
pending_of_runs(void)
{
	uint32		generation = 0;
	int			entry = gd_shmem_ready() ? stats_lookup(STATS_RUNS, "", 0, &generation) : NO_ENTRY;

	return pending_of(entry, generation);
}

void
gd_stats_count(const text *queue, GdCounter counter, int64 n)
{
	StatsPending *at = n == 0 ? NULL : pending_of_queue(queue);

	if (at)
		at->counters[counter] += n;
}

void
gd_stats_count_run(GdRunCounter counter, int64 n)
{
	StatsPending *at = n == 0 ? NULL : pending_of_runs();

	if (at)
		at->counters[counter] += n;
}

/*
 * gd_stats_move: a row that counted as one thing counts as another.
 */
void
gd_stats_move(const text *queue, GdGauge from, GdGauge to)
{
	StatsPending *at = from == to ? NULL : pending_of_queue(queue);

	if (at == NULL)
		return;
	if (from != GD_GAUGE_NONE)
		at->gauges[from]--;
	if (to != GD_GAUGE_NONE)
		at->gauges[to]++;
}

static void
stats_add_now(int number, uint32 generation, int counter, int64 n)
{
	StatsEntry *entry;

	if (number == NO_ENTRY)
		return;
	entry = &shared->entries[number];
	SpinLockAcquire(&entry->mutex);
	if (entry->generation == generation)
		entry->counters[counter] += n;
	SpinLockRelease(&entry->mutex);
}

void
gd_stats_count_now(const text *queue, GdCounter counter, int64 n)
{
	uint32		generation;
	int			number;

	if (n == 0 || !gd_shmem_ready())
		return;
	number = stats_lookup_queue(queue, &generation);
	stats_add_now(number, generation, counter, n);
}

void
gd_stats_count_run_now(GdRunCounter counter, int64 n)
{
	uint32		generation;
	int			number;

	if (n == 0 || !gd_shmem_ready())
		return;
	number = stats_lookup(STATS_RUNS, "", 0, &generation);
	stats_add_now(number, generation, counter, n);
}

/*
 * rebase_sees: does the snapshot of the count see a transaction that has
 * committed?  While the entry that is added to is being counted.
 */
static bool
rebase_sees(TransactionId xid)
{
	const StatsRebase *rebase = &shared->rebase;

	if (!TransactionIdIsValid(xid) || TransactionIdFollowsOrEquals(xid, rebase->xmax))
		return false;
	for (int i = 0; i < rebase->nxip; i++)
		if (TransactionIdEquals(rebase->xip[i], xid))
			return false;
	return true;
}

/*
 * pending_add: the transaction has committed.
 */
static void
pending_add(const StatsPending *from, TransactionId xid, TimestampTz now)
{
	StatsEntry *entry = &shared->entries[from->entry];

	SpinLockAcquire(&entry->mutex);
	if (entry->generation == from->generation)
	{
		for (int g = 0; g < GD_NGAUGES; g++)
			entry->gauges[g] += from->gauges[g];
		for (int c = 0; c < NCOUNTERS; c++)
			entry->counters[c] += from->counters[c];
		if (entry->rebasing && rebase_sees(xid))
			for (int g = 0; g < GD_NGAUGES; g++)
				entry->late[g] += from->gauges[g];
		entry->touched = now;
	}
	SpinLockRelease(&entry->mutex);
}

/*
 * pending_tell: say which transaction is about to commit, or that it has been
 * added.
 */
static void
pending_tell(TransactionId xid)
{
	static bool told = false;

	if (!told && !TransactionIdIsValid(xid))
		return;
	pg_atomic_write_u32(&shared->committing[gd_my_procno()], xid);
	told = TransactionIdIsValid(xid);
}

static void
pending_forget(void)
{
	pending_tell(InvalidTransactionId);
	for (int i = 0; i < npending; i++)
		latest[pending[i].entry] = -1;
	pending = NULL;				/* its memory goes with the transaction */
	npending = 0;
	pending_size = 0;
}

static void
stats_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (npending > 0)
				pending_tell(GetTopTransactionIdIfAny());
			break;
		case XACT_EVENT_COMMIT:
			if (npending > 0)
			{
				TransactionId xid = GetTopTransactionIdIfAny();
				TimestampTz now = GetCurrentTransactionStopTimestamp();

				for (int i = 0; i < npending; i++)
					pending_add(&pending[i], xid, now);
			}
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

/*
 * pending_merge: what a subtransaction has done is its parent's now.
 */
static void
pending_merge(int level)
{
	int			first = npending;
	int			kept;

	while (first > 0 && pending[first - 1].level >= level)
		first--;
	kept = first;
	for (int i = first; i < npending; i++)
	{
		StatsPending *from = &pending[i];
		StatsPending *to = from->below < 0 ? NULL : &pending[from->below];

		if (to == NULL || to->level < level - 1)
		{
			/* The parent had nothing for this entry. */
			latest[from->entry] = kept;
			from->level = level - 1;
			if (kept != i)
				pending[kept] = *from;
			kept++;
			continue;
		}
		latest[from->entry] = from->below;
		if (to->generation != from->generation)
		{
			memcpy(to->gauges, from->gauges, sizeof(to->gauges));
			memcpy(to->counters, from->counters, sizeof(to->counters));
			to->generation = from->generation;
			continue;
		}
		for (int g = 0; g < GD_NGAUGES; g++)
			to->gauges[g] += from->gauges[g];
		for (int c = 0; c < NCOUNTERS; c++)
			to->counters[c] += from->counters[c];
	}
	npending = kept;
}

static void
stats_subxact_callback(SubXactEvent event, SubTransactionId subxid, SubTransactionId parent,
					   void *arg)
{
	int			level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_COMMIT_SUB)
		pending_merge(level);
	else if (event == SUBXACT_EVENT_ABORT_SUB)
		while (npending > 0 && pending[npending - 1].level >= level)
		{
			npending--;
			latest[pending[npending].entry] = pending[npending].below;
		}
}

/*
 * gd_stats_read: this database's entries, the one without a name first if it
 * is there; returns how many.  counted_at: since when the gauges are right, or
 * 0 if nobody has counted yet.
 */
int
gd_stats_read(GdQueueStats **queues, TimestampTz *counted_at)
{
	int			n = 0;

	*counted_at = 0;
	*queues = MemoryContextAllocHuge(CurrentMemoryContext,
									 sizeof(GdQueueStats) * Max(gd_max_queues, 1));
	LWLockAcquire(&shared->lock, LW_SHARED);
	for (int i = 0; i < gd_max_queues; i++)
	{
		StatsEntry *entry = &shared->entries[i];
		GdQueueStats *to = &(*queues)[n];

		if (entry->database != MyDatabaseId || entry->kind != STATS_QUEUE)
			continue;
		to->name_len = entry->name_len;
		memcpy(to->name, entry->name, entry->name_len);
		SpinLockAcquire(&entry->mutex);
		memcpy(to->gauges, entry->gauges, sizeof(to->gauges));
		memcpy(to->counters, entry->counters, sizeof(to->counters));
		to->since = entry->since;
		if (entry->name_len == 0)
			*counted_at = entry->counted_at;
		SpinLockRelease(&entry->mutex);
		n++;
	}
	LWLockRelease(&shared->lock);
	return n;
}

/*
 * gd_stats_read_runs: the counters of this database's run store, and since
 * when they count; false where there are none: without the preload, or where
 * there was no place for them.
 */
bool
gd_stats_read_runs(int64 *counters, TimestampTz *since)
{
	uint32		generation;
	int			number;
	StatsEntry *entry;

	if (!gd_shmem_ready() || (number = stats_lookup(STATS_RUNS, "", 0, &generation)) == NO_ENTRY)
		return false;
	entry = &shared->entries[number];
	SpinLockAcquire(&entry->mutex);
	memcpy(counters, entry->counters, sizeof(int64) * GD_NRUN_COUNTERS);
	*since = entry->since;
	SpinLockRelease(&entry->mutex);
	return true;
}

/*
 * gd_stats_forget: a database is gone.
 */
void
gd_stats_forget(Oid database)
{
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < gd_max_queues; i++)
	{
		StatsEntry *entry = &shared->entries[i];

		if (entry->database != database)
			continue;
		stats_unlink(i);
		stats_clear(entry, 0, false);
		entry->database = InvalidOid;
		entry->next = shared->free;
		shared->free = i;
	}
	LWLockRelease(&shared->lock);
}

static void
rebase_before_exit(int code, Datum arg)
{
	gd_stats_rebase_end(false);
}

/*
 * gd_stats_rebase_begin: from here on the caller counts all rows as a snapshot
 * sees them; false if somebody else is at it.
 */
bool
gd_stats_rebase_begin(Snapshot snapshot)
{
	static bool registered = false;
	StatsRebase *rebase = &shared->rebase;
	uint32		generation;

	if (!registered)
		before_shmem_exit(rebase_before_exit, (Datum) 0);
	registered = true;
	if (stats_lookup(STATS_QUEUE, "", 0, &generation) == NO_ENTRY || snapshot->xcnt > rebase_max_xip())
		return false;
	if (rebase_found == NULL)
		rebase_found = MemoryContextAllocHuge(TopMemoryContext,
											  sizeof(*rebase_found) * gd_max_queues);
	memset(rebase_found, 0, sizeof(*rebase_found) * gd_max_queues);

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if (OidIsValid(rebase->database))
	{
		LWLockRelease(&shared->lock);
		return false;
	}
	rebase->database = MyDatabaseId;
	rebase->procno = gd_my_procno();
	rebase->xmax = snapshot->xmax;
	rebase->nxip = snapshot->xcnt;
	memcpy(rebase->xip, snapshot->xip, sizeof(TransactionId) * snapshot->xcnt);
	for (int i = 0; i < gd_max_queues; i++)
	{
		StatsEntry *entry = &shared->entries[i];

		if (entry->database != MyDatabaseId)
			continue;
		SpinLockAcquire(&entry->mutex);
		memcpy(entry->base, entry->gauges, sizeof(entry->base));
		memset(entry->late, 0, sizeof(entry->late));
		entry->rebasing = true;
		SpinLockRelease(&entry->mutex);
	}
	LWLockRelease(&shared->lock);
	return true;
}

/*
 * gd_stats_rebase_row: the snapshot sees a row.
 */
void
gd_stats_rebase_row(const text *queue, GdGauge gauge)
{
	uint32		generation;
	int			entry = stats_lookup_queue(queue, &generation);

	if (entry != NO_ENTRY)
		rebase_found[entry][gauge]++;
}

/*
 * gd_stats_rebase_owed: has a transaction that the snapshot sees not been added
 * yet?
 */
bool
gd_stats_rebase_owed(void)
{
	for (int i = 0; i < MaxBackends; i++)
		if (rebase_sees(pg_atomic_read_u32(&shared->committing[i])))
			return true;
	/* What it has added is to be seen. */
	pg_read_barrier();
	return false;
}

/*
 * gd_stats_rebase_end: the count has come to its end; not complete: it was
 * given up, and nothing changes.  Nothing to do if this process does not count.
 */
void
gd_stats_rebase_end(bool complete)
{
	TimestampTz now = GetCurrentTimestamp();
	StatsRebase *rebase = &shared->rebase;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if (rebase->database == MyDatabaseId && rebase->procno == gd_my_procno())
	{
		for (int i = 0; i < gd_max_queues; i++)
		{
			StatsEntry *entry = &shared->entries[i];

			if (entry->database != MyDatabaseId)
				continue;
			SpinLockAcquire(&entry->mutex);
			for (int g = 0; complete && g < GD_NGAUGES; g++)
				entry->gauges[g] += rebase_found[i][g] - entry->base[g] - entry->late[g];
			entry->rebasing = false;
			if (complete && entry->kind == STATS_QUEUE && entry->name_len == 0)
				entry->counted_at = now;
			SpinLockRelease(&entry->mutex);
		}
		rebase->database = InvalidOid;
		rebase->procno = NO_PROC;
	}
	LWLockRelease(&shared->lock);
}

void
gd_stats_init(void)
{
	RegisterXactCallback(stats_xact_callback, NULL);
	RegisterSubXactCallback(stats_subxact_callback, NULL);
}
