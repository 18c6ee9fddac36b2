/*
 * executors.c
 *		The executors of SQL steps: who is wanted, who runs, and what they hold.
 *
 * A crew is a queue and an owner of machines in one database.  A commit that
 * makes a step runnable wakes an idle executor of its crew, or else says that
 * the crew wants one more, and tells the database's scheduler, which starts
 * them (bgw/staff.c).  An executor writes here which claims it holds and which
 * of them it runs, so that its leases are renewed while it is busy, that a
 * cancellation finds it, and that the scheduler can tell what it was at when
 * it died.
 *
 * All of it is a hint: where it is lost, or full, the scheduler's looks at the
 * tables find the work, and claims end with their leases.
 *
 * Locks: all is under one spinlock, held for straight-line code over the few
 * slots.  An executor's latch is set without it.
 */
#include "postgres.h"

#include <signal.h>

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "guc.h"
#include "shmem/databases.h"
#include "shmem/executor_slots.h"
#include "shmem/executors.h"

/* Crews for each executor that the server may run. */
#define CREWS_PER_EXECUTOR 8

/* A crew that found no room asks again after so long. */
#define ROOM_MS 1000

static Executors *shared = NULL;
static Executor *executors;
static Crew *crews;
static int	ncrews;

static uint32 looked = 0;		/* what of the looks this process has done */

static Size
crews_offset(void)
{
	return MAXALIGN(sizeof(Executors)) + MAXALIGN(mul_size(gd_max_executors, sizeof(Executor)));
}

Size
gd_executors_size(void)
{
	return add_size(crews_offset(),
					mul_size(gd_max_executors * CREWS_PER_EXECUTOR, sizeof(Crew)));
}

void
gd_executors_attach(void *start, bool first)
{
	shared = start;
	executors = (Executor *) ((char *) start + MAXALIGN(sizeof(Executors)));
	crews = (Crew *) ((char *) start + crews_offset());
	ncrews = gd_max_executors * CREWS_PER_EXECUTOR;
	gd_executor_self_attach(shared);
	if (!first)
		return;
	memset(start, 0, gd_executors_size());
	shared->executors = executors;
	shared->crews = crews;
	SpinLockInit(&shared->lock);
	shared->homeless = DT_NOEND;
	for (int i = 0; i < ncrews; i++)
		crews[i].due = DT_NOEND;
	for (int i = 0; i < gd_max_executors; i++)
	{
		executors[i].procno = NO_PROC;
		executors[i].current = -1;
	}
}

static void
wake(int procno)
{
	if (procno != NO_PROC)
		SetLatch(&ProcGlobal->allProcs[procno].procLatch);
}

/*
 * crew_get: a crew's slot, a free one made it if need be, or that of a crew
 * whose only step is due later than this one; NULL if there is none.  With the
 * lock held.
 */
static Crew *
crew_get(Oid database, Oid owner, uint32 hash, const char *queue, int len, TimestampTz due)
{
	Crew	   *free = NULL;

	for (int i = 0; i < ncrews; i++)
	{
		Crew	   *crew = &crews[i];

		if (crew->database == database && crew->owner == owner && crew->hash == hash &&
			crew->len == len && memcmp(crew->queue, queue, len) == 0)
			return crew;
		if (crew->running == 0 && !crew->wanted && crew->due > due &&
			(free == NULL || crew->due > free->due))
			free = crew;
	}
	if (free)
	{
		shared->homeless = Min(shared->homeless, free->due);
		memset(free, 0, sizeof(Crew));
		free->database = database;
		free->owner = owner;
		free->hash = hash;
		free->len = len;
		memcpy(free->queue, queue, len);
		free->due = DT_NOEND;
	}
	return free;
}

/*
 * gd_executors_tell: a crew of this database has count steps that are due, and
 * one that is due later; true if the scheduler must hear of it.
 *
 * Without a scheduler nobody is wanted, who would be for ever if there never is
 * one: the next one begins with a look at the tables.
 */
bool
gd_executors_tell(Oid owner, uint32 hash, const char *queue, int len, int count,
				  TimestampTz due)
{
	int			procnos[8];
	int			n = 0;
	int			want = count;
	bool		tell = false;
	bool		heard = gd_database_has(GD_SCHEDULER);
	Crew	   *crew;

	SpinLockAcquire(&shared->lock);
	crew = crew_get(MyDatabaseId, owner, hash, queue, len, count > 0 ? DT_NOBEGIN : due);
	if (crew == NULL)
	{
		if (count > 0)
			shared->looks++;
		shared->homeless = Min(shared->homeless, due);
		SpinLockRelease(&shared->lock);
		return true;
	}
	/* An idle executor finds out itself when it must look again. */
	if (due != DT_NOEND && want == 0)
		want = 1;
	for (int i = 0; i < gd_max_executors && want > 0 && n < lengthof(procnos); i++)
	{
		Executor   *executor = &executors[i];

		if (executor->state != EXECUTOR_IDLE || &crews[executor->crew] != crew || executor->woken)
			continue;
		executor->woken = true;
		procnos[n++] = executor->procno;
		want--;
	}
	tell = heard && count > n && crew->wanted == 0;
	if (heard)
		crew->wanted = Min(crew->wanted + Max(count - n, 0), gd_max_executors);
	if (heard && due != DT_NOEND && n == 0 && due < crew->due)
	{
		crew->due = due;
		tell = true;
	}
	SpinLockRelease(&shared->lock);
	for (int i = 0; i < n; i++)
		wake(procnos[i]);
	return tell;
}

/*
 * gd_executors_cancel_now: end the step of a claim, if an executor runs it, or keep
 * it from being run.
 */
void
gd_executors_cancel_now(const pg_uuid_t *token)
{
	pid_t		pid = 0;

	SpinLockAcquire(&shared->lock);
	for (int i = 0; i < gd_max_executors; i++)
	{
		Executor   *executor = &executors[i];

		for (int k = 0; executor->state == EXECUTOR_BUSY && k < executor->ntokens; k++)
		{
			if (memcmp(&executor->tokens[k], token, sizeof(pg_uuid_t)) != 0)
				continue;
			executor->cancelled[k] = true;
			if (k == executor->current)
			{
				executor->cancel_serial = executor->serial;
				pid = executor->pid;
			}
		}
	}
	SpinLockRelease(&shared->lock);
	if (pid != 0)
		kill(pid, SIGINT);
}

/*
 * gd_executors_forget: the scheduler of this database ends, and no crew of it is
 * wanted: the next one looks at the tables, if there is one.
 */
void
gd_executors_forget(void)
{
	SpinLockAcquire(&shared->lock);
	for (int i = 0; i < ncrews; i++)
		if (crews[i].database == MyDatabaseId)
		{
			crews[i].wanted = 0;
			crews[i].due = DT_NOEND;
		}
	SpinLockRelease(&shared->lock);
}

/*
 * gd_executors_want_look: the tables have to be looked at.
 */
void
gd_executors_want_look(void)
{
	SpinLockAcquire(&shared->lock);
	shared->looks++;
	SpinLockRelease(&shared->lock);
}

/*
 * gd_executors_stop: the executors of a database are to end.
 */
void
gd_executors_stop(Oid database)
{
	for (int i = 0; i < gd_max_executors; i++)
	{
		int			procno = NO_PROC;

		SpinLockAcquire(&shared->lock);
		if (executors[i].state != EXECUTOR_NONE && crews[executors[i].crew].database == database)
		{
			executors[i].stop = true;
			procno = executors[i].procno;
		}
		SpinLockRelease(&shared->lock);
		wake(procno);
	}
}

/*
 * gd_executors_quiet: has no executor to do with a database?  With terminate,
 * those that are left are told by SIGTERM.
 */
bool
gd_executors_quiet(Oid database, bool terminate)
{
	bool		quiet = true;

	for (int i = 0; i < gd_max_executors; i++)
	{
		pid_t		pid = 0;

		SpinLockAcquire(&shared->lock);
		if (executors[i].state != EXECUTOR_NONE && executors[i].state != EXECUTOR_DEAD &&
			crews[executors[i].crew].database == database)
		{
			quiet = false;
			pid = executors[i].pid;
		}
		SpinLockRelease(&shared->lock);
		if (pid != 0 && terminate)
			kill(pid, SIGTERM);
	}
	return quiet;
}

/*
 * gd_executors_hire: a look at the tables found work of a crew: due now, or
 * later.
 */
void
gd_executors_hire(Oid owner, const text *queue, TimestampTz due)
{
	int			len = Min(VARSIZE_ANY_EXHDR(queue), GD_NAME_MAX);
	uint32		hash = hash_bytes((const unsigned char *) VARDATA_ANY(queue), len);

	(void) gd_executors_tell(owner, hash, VARDATA_ANY(queue), len, due == 0 ? 1 : 0,
							 due == 0 ? DT_NOEND : due);
}

/*
 * gd_executors_take_look: is the scheduler to look at the tables?
 */
bool
gd_executors_take_look(void)
{
	bool		result;

	SpinLockAcquire(&shared->lock);
	result = looked != shared->looks;
	looked = shared->looks;
	SpinLockRelease(&shared->lock);
	return result;
}

/*
 * gd_executors_next_crew: the next crew of this database that wants one more
 * executor; the index of the first to look at is after + 1.  wake_at is
 * lowered to when one will.
 */
bool
gd_executors_next_crew(TimestampTz now, int after, GdCrew *crew, TimestampTz *wake_at)
{
	bool		found = false;
	TimestampTz next;

	SpinLockAcquire(&shared->lock);
	next = Min(*wake_at, shared->homeless);
	if (shared->homeless <= now)
	{
		shared->homeless = DT_NOEND;
		shared->looks++;
	}
	for (int i = after + 1; i < ncrews && !found; i++)
	{
		Crew	   *c = &crews[i];

		if (c->database != MyDatabaseId)
			continue;
		if (c->due <= now)
		{
			c->due = DT_NOEND;
			c->wanted = Max(c->wanted, 1);
		}
		next = Min(next, c->due);
		if (!c->wanted)
			continue;
		if (c->not_before > now)
		{
			next = Min(next, c->not_before);
			continue;
		}
		found = true;
		crew->index = i;
		crew->owner = c->owner;
		crew->len = c->len;
		memcpy(crew->queue, c->queue, c->len);
		crew->queue[c->len] = '\0';
	}
	SpinLockRelease(&shared->lock);
	*wake_at = next;
	return found;
}

/*
 * gd_executors_starve: there is no room for an executor of a crew; those that
 * have had their turn make some.
 */
void
gd_executors_starve(const GdCrew *crew, TimestampTz not_before)
{
	SpinLockAcquire(&shared->lock);
	shared->starved = true;
	crews[crew->index].not_before = not_before;
	SpinLockRelease(&shared->lock);
	for (int i = 0; i < gd_max_executors; i++)
	{
		int			procno = NO_PROC;

		SpinLockAcquire(&shared->lock);
		if (executors[i].state == EXECUTOR_IDLE)
			procno = executors[i].procno;
		SpinLockRelease(&shared->lock);
		wake(procno);
	}
}

/*
 * executor_is_gone: has what a dead executor held ended with its leases?  Its
 * database may have been dropped, or have no scheduler any more, and then nobody
 * takes it back.
 */
static bool
executor_is_gone(const Executor *executor, TimestampTz now)
{
	return executor->state == EXECUTOR_DEAD && executor->lease_until < now;
}

/*
 * gd_executors_start: take a slot for one more executor of a crew, up to its
 * limit; slot is -1 if there is none free.  False if none is wanted.
 */
bool
gd_executors_start(const GdCrew *crew, int limit, TimestampTz now, int *slot, uint32 *generation)
{
	Crew	   *c = &crews[crew->index];
	bool		wanted;

	*slot = -1;
	SpinLockAcquire(&shared->lock);
	wanted = c->database == MyDatabaseId && c->wanted > 0;
	if (wanted && c->running >= limit)
		c->wanted = wanted = 0;
	for (int i = 0; wanted && *slot < 0 && i < gd_max_executors; i++)
	{
		Executor   *executor = &executors[i];

		if (executor->state != EXECUTOR_NONE && !executor_is_gone(executor, now))
			continue;
		executor->state = EXECUTOR_STARTING;
		executor->generation++;
		executor->crew = crew->index;
		executor->started_at = now;
		executor->woken = executor->stop = executor->progressed = false;
		executor->ntokens = 0;
		executor->current = -1;
		executor->pid = 0;
		*generation = executor->generation;
		*slot = i;
		c->running++;
		c->wanted--;
	}
	SpinLockRelease(&shared->lock);
	if (wanted && *slot < 0)
		gd_executors_starve(crew, now + ROOM_MS * MS);
	return wanted;
}

/*
 * gd_executors_not_started: a start did not come about; again later.
 */
void
gd_executors_not_started(int slot, uint32 generation, TimestampTz not_before)
{
	Executor   *executor;

	SpinLockAcquire(&shared->lock);
	executor = executor_of(shared, slot, generation);
	if (executor && executor->state == EXECUTOR_STARTING)
	{
		Crew	   *crew = &crews[executor->crew];

		executor->state = EXECUTOR_NONE;
		crew->running--;
		crew->wanted++;
		crew->not_before = not_before;
	}
	SpinLockRelease(&shared->lock);
}

bool
gd_executors_starting(int slot, uint32 generation)
{
	Executor   *executor;
	bool		starting;

	SpinLockAcquire(&shared->lock);
	executor = executor_of(shared, slot, generation);
	starting = executor && executor->state == EXECUTOR_STARTING;
	SpinLockRelease(&shared->lock);
	return starting;
}

static void
executor_copy(const Executor *from, GdExecutor *to)
{
	to->slot = from - executors;
	to->generation = from->generation;
	to->ntokens = from->ntokens;
	memcpy(to->tokens, from->tokens, sizeof(pg_uuid_t) * from->ntokens);
	to->current = from->current;
}

/*
 * gd_executors_dead: an executor of this database that died with claims.
 */
bool
gd_executors_dead(GdExecutor *executor)
{
	bool		found = false;

	SpinLockAcquire(&shared->lock);
	for (int i = 0; i < gd_max_executors && !found; i++)
		if (executors[i].state == EXECUTOR_DEAD &&
			crews[executors[i].crew].database == MyDatabaseId)
		{
			found = true;
			executor_copy(&executors[i], executor);
		}
	SpinLockRelease(&shared->lock);
	return found;
}

/*
 * gd_executors_buried: its claims have been taken back.
 */
void
gd_executors_buried(const GdExecutor *executor)
{
	SpinLockAcquire(&shared->lock);
	if (executors[executor->slot].generation == executor->generation &&
		executors[executor->slot].state == EXECUTOR_DEAD)
		executors[executor->slot].state = EXECUTOR_NONE;
	SpinLockRelease(&shared->lock);
}

/*
 * gd_executors_renewable: the next executor of this database, after a slot,
 * whose leases have used up a third; wake_at is lowered to when one will have.
 */
bool
gd_executors_renewable(TimestampTz now, int after, GdExecutor *executor, TimestampTz *wake_at)
{
	bool		found = false;

	SpinLockAcquire(&shared->lock);
	for (int i = after + 1; i < gd_max_executors && !found; i++)
	{
		Executor   *e = &executors[i];
		TimestampTz due;

		if ((e->state != EXECUTOR_BUSY && e->state != EXECUTOR_IDLE) || e->ntokens == 0 ||
			crews[e->crew].database != MyDatabaseId)
			continue;
		due = e->lease_from + (e->lease_until - e->lease_from) / 3;
		if (due > now)
		{
			*wake_at = Min(*wake_at, due);
			continue;
		}
		found = true;
		executor_copy(e, executor);
	}
	SpinLockRelease(&shared->lock);
	return found;
}

/*
 * gd_executors_renewed: an executor's leases end later now.
 */
void
gd_executors_renewed(const GdExecutor *executor, TimestampTz from, TimestampTz lease_until)
{
	Executor   *e;

	SpinLockAcquire(&shared->lock);
	e = executor_of(shared, executor->slot, executor->generation);
	if (e && e->ntokens == executor->ntokens &&
		memcmp(e->tokens, executor->tokens, sizeof(pg_uuid_t) * e->ntokens) == 0)
	{
		e->lease_from = from;
		e->lease_until = lease_until;
	}
	SpinLockRelease(&shared->lock);
}

/*
 * gd_executors_hold: does any executor, or one that died, hold a claim?
 */
bool
gd_executors_hold(const pg_uuid_t *token)
{
	bool		held = false;

	SpinLockAcquire(&shared->lock);
	for (int i = 0; i < gd_max_executors && !held; i++)
		for (int k = 0; executors[i].state != EXECUTOR_NONE && k < executors[i].ntokens; k++)
			held |= memcmp(&executors[i].tokens[k], token, sizeof(pg_uuid_t)) == 0;
	SpinLockRelease(&shared->lock);
	return held;
}
