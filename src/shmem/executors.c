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
#include "storage/spin.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "guc.h"
#include "shmem/databases.h"
#include "shmem/executors.h"

#define NO_PROC (-1)
#define MS INT64CONST(1000)

/* Crews for each executor that the server may run. */
#define CREWS_PER_EXECUTOR 8

/* An executor that failed is started again after so long, doubled each time. */
#define RETRY_MS 1000
#define RETRY_MAX_DOUBLINGS 6

/* So many executors of a crew may die in a row, each of its first step, before
 * the next start waits: a machine may have no max_crashes. */
#define DEATHS_AT_ONCE 20

/* An executor that ran for so long did not fail at its start. */
#define SETTLED_MS 60000

/* So long an executor runs before it makes room for another crew's. */
#define TURN_MS 1000

/* How often a busy executor may ask for help, in milliseconds. */
#define MORE_MS 50

typedef enum ExecutorState
{
	EXECUTOR_NONE,
	EXECUTOR_STARTING,			/* registered by a scheduler */
	EXECUTOR_IDLE,
	EXECUTOR_BUSY,
	EXECUTOR_DEAD				/* gone, and its claims are still to be taken
								 * back */
} ExecutorState;

typedef struct Crew
{
	Oid			database;		/* InvalidOid: free */
	Oid			owner;
	uint32		hash;			/* of the queue */
	int			len;
	char		queue[GD_NAME_MAX];
	int			wanted;			/* so many more executors */
	int			running;		/* executors, starting ones too */
	int			failures;		/* in a row, at the start */
	int			deaths;			/* in a row, of the first step */
	TimestampTz not_before;		/* of the next start */
	TimestampTz due;			/* wanted from then on, or DT_NOEND */
} Crew;

typedef struct Executor
{
	ExecutorState state;
	uint32		generation;
	int			crew;
	int			procno;
	pid_t		pid;
	bool		woken;			/* while idle */
	bool		stop;
	bool		progressed;		/* has come past its first step */
	TimestampTz started_at;
	TimestampTz lease_until;
	TimestampTz lease_from;
	int			ntokens;
	pg_uuid_t	tokens[GD_EXECUTOR_CLAIMS];
	bool		cancelled[GD_EXECUTOR_CLAIMS];
	int			current;
	uint32		serial;			/* of the step that it runs */
	uint32		cancel_serial;	/* of the step to cancel; 0: none */
} Executor;

typedef struct Executors
{
	slock_t		lock;
	uint32		looks;			/* how often the tables had to be looked at */
	TimestampTz homeless;		/* when the first step is due whose crew has
								 * no slot, or DT_NOEND */
	bool		starved;		/* a crew waits for a slot */
	Executor   *executors;
	Crew	   *crews;
} Executors;

static Executors *shared = NULL;
static Executor *executors;
static Crew *crews;
static int	ncrews;

static uint32 looked = 0;		/* what of the looks this process has done */

/* This process, if it is an executor. */
static Executor *mine = NULL;
static TimestampTz asked_for_more = 0;

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
	if (!first)
		return;
	memset(start, 0, gd_executors_size());
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
 * gd_executors_tell: a crew has count steps that are due, and one that is due later;
 * true if its database's scheduler must hear of it.
 */
bool
gd_executors_tell(Oid database, Oid owner, uint32 hash, const char *queue, int len, int count,
				  TimestampTz due)
{
	int			procnos[8];
	int			n = 0;
	int			want = count;
	bool		tell = false;
	Crew	   *crew;

	SpinLockAcquire(&shared->lock);
	crew = crew_get(database, owner, hash, queue, len, count > 0 ? DT_NOBEGIN : due);
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
	tell = count > n && crew->wanted == 0;
	crew->wanted = Min(crew->wanted + Max(count - n, 0), gd_max_executors);
	if (due != DT_NOEND && n == 0 && due < crew->due)
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

	(void) gd_executors_tell(MyDatabaseId, owner, hash, VARDATA_ANY(queue), len, due == 0 ? 1 : 0,
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

		if (executor->state != EXECUTOR_NONE)
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
		gd_executors_starve(crew, now + RETRY_MS * MS);
	return wanted;
}

/* The slot of a start if it is still that start's.  With the lock held. */
static Executor *
executor_of(int slot, uint32 generation)
{
	return executors[slot].generation == generation ? &executors[slot] : NULL;
}

/*
 * gd_executors_not_started: a start did not come about; again later.
 */
void
gd_executors_not_started(int slot, uint32 generation, TimestampTz not_before)
{
	Executor   *executor;

	SpinLockAcquire(&shared->lock);
	executor = executor_of(slot, generation);
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
	executor = executor_of(slot, generation);
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
	e = executor_of(executor->slot, executor->generation);
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

/*
 * gd_executor_begin: this process is the executor of a start; false if the
 * start is over.
 */
bool
gd_executor_begin(int slot, uint32 generation, Oid *database, GdCrew *crew)
{
	SpinLockAcquire(&shared->lock);
	mine = executor_of(slot, generation);
	if (mine && mine->state == EXECUTOR_STARTING)
	{
		const Crew *c = &crews[mine->crew];

		mine->state = EXECUTOR_BUSY;
		mine->procno = gd_my_procno();
		mine->pid = MyProcPid;
		*database = c->database;
		crew->index = mine->crew;
		crew->owner = c->owner;
		crew->len = c->len;
		memcpy(crew->queue, c->queue, c->len);
		crew->queue[c->len] = '\0';
	}
	else
		mine = NULL;
	SpinLockRelease(&shared->lock);
	return mine != NULL;
}

/*
 * gd_executor_end: this process ends.  What it holds is for the scheduler to
 * take back.
 */
void
gd_executor_end(bool failed)
{
	TimestampTz now = GetCurrentTimestamp();
	Crew	   *crew;
	Oid			database;

	if (mine == NULL)
		return;
	SpinLockAcquire(&shared->lock);
	crew = &crews[mine->crew];
	database = crew->database;
	crew->running--;
	mine->procno = NO_PROC;
	mine->pid = 0;
	mine->state = mine->ntokens > 0 ? EXECUTOR_DEAD : EXECUTOR_NONE;
	if (mine->stop)
		shared->looks++;
	if (!failed || now - mine->started_at > SETTLED_MS * MS)
		crew->failures = 0;
	if (!failed || mine->progressed)
		crew->deaths = 0;
	if (failed && mine->ntokens > 0)
	{
		/* A step's doing, which is counted there. */
		crew->wanted++;
		if (crew->deaths >= DEATHS_AT_ONCE)
			crew->not_before = now + ((RETRY_MS * MS) << (crew->deaths - DEATHS_AT_ONCE));
		crew->deaths = Min(crew->deaths + 1, DEATHS_AT_ONCE + RETRY_MAX_DOUBLINGS);
	}
	else if (failed)
	{
		/* Not at once: it may fail again. */
		crew->wanted++;
		crew->not_before = now + ((RETRY_MS * MS) << crew->failures);
		crew->failures = Min(crew->failures + 1, RETRY_MAX_DOUBLINGS);
	}
	SpinLockRelease(&shared->lock);
	mine = NULL;
	gd_database_tell_of(database, GD_SCHEDULER);
}

/*
 * gd_executor_order: may this process go on?
 */
GdExecutorOrder
gd_executor_order(void)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		stop;

	SpinLockAcquire(&shared->lock);
	stop = mine->stop;
	if (!stop && shared->starved && now - mine->started_at > TURN_MS * MS)
	{
		/* Make room for another crew; this one's turn comes again. */
		stop = true;
		shared->starved = false;
		crews[mine->crew].wanted |= mine->state == EXECUTOR_BUSY;
	}
	SpinLockRelease(&shared->lock);
	return stop ? GD_EXECUTOR_STOP : GD_EXECUTOR_GO_ON;
}

/*
 * gd_executor_limit: this process is to end if its crew is too large by now.
 */
void
gd_executor_limit(int limit)
{
	int			n = 0;

	SpinLockAcquire(&shared->lock);
	for (int i = 0; i < gd_max_executors; i++)
		if (executors[i].state != EXECUTOR_NONE && executors[i].state != EXECUTOR_DEAD &&
			executors[i].crew == mine->crew && !executors[i].stop)
			n++;
	if (n > limit)
		mine->stop = true;
	SpinLockRelease(&shared->lock);
}

/*
 * gd_executor_idle: from now on a commit wakes this process; it looks once
 * more before it sleeps.
 */
void
gd_executor_idle(void)
{
	SpinLockAcquire(&shared->lock);
	mine->state = EXECUTOR_IDLE;
	mine->woken = false;
	mine->ntokens = 0;
	SpinLockRelease(&shared->lock);
}

/*
 * gd_executor_sleeps: has nothing woken this process since it went idle?
 */
bool
gd_executor_sleeps(void)
{
	bool		sleeps;

	SpinLockAcquire(&shared->lock);
	sleeps = !mine->woken && !mine->stop;
	SpinLockRelease(&shared->lock);
	return sleeps;
}

/*
 * gd_executor_leave: this process wants to end for want of work; false if
 * some has come.  The next is due then, or DT_NOEND.
 */
bool
gd_executor_leave(TimestampTz due)
{
	bool		leaves;

	SpinLockAcquire(&shared->lock);
	leaves = !mine->woken;
	if (leaves)
	{
		mine->state = EXECUTOR_BUSY;	/* nobody counts on it any more */
		crews[mine->crew].due = Min(crews[mine->crew].due, due);
	}
	SpinLockRelease(&shared->lock);
	return leaves;
}

/*
 * gd_executor_claims: this process holds these claims, to be said before they
 * are committed.  A wake-up that was meant for it while idle is passed on.
 */
void
gd_executor_claims(const pg_uuid_t *tokens, int n, TimestampTz lease_until)
{
	bool		begins;
	bool		pass_on;
	const Crew *crew = &crews[mine->crew];

	Assert(n <= GD_EXECUTOR_CLAIMS);
	SpinLockAcquire(&shared->lock);
	begins = n > 0 && mine->state == EXECUTOR_IDLE;
	pass_on = begins && mine->woken;
	if (n > 0)
		mine->state = EXECUTOR_BUSY;
	if (mine->ntokens > 0 && (n == 0 || memcmp(&mine->tokens[0], &tokens[0], sizeof(pg_uuid_t)) != 0))
		mine->progressed = true;
	mine->ntokens = n;
	memcpy(mine->tokens, tokens, sizeof(pg_uuid_t) * n);
	memset(mine->cancelled, 0, sizeof(mine->cancelled));
	mine->current = -1;
	mine->lease_from = GetCurrentTimestamp();
	mine->lease_until = lease_until;
	SpinLockRelease(&shared->lock);
	if (!begins)
		return;
	asked_for_more = mine->lease_from;
	if (pass_on)
		(void) gd_executors_tell(MyDatabaseId, crew->owner, crew->hash, crew->queue, crew->len, 1,
								 DT_NOEND);
	gd_database_tell(GD_SCHEDULER); /* it renews the leases from now on */
}

/*
 * gd_executor_step: this process begins the step of a claim; false if its
 * cancellation has been asked for.
 */
bool
gd_executor_step(const pg_uuid_t *token)
{
	bool		go = true;

	SpinLockAcquire(&shared->lock);
	mine->serial++;
	mine->cancel_serial = 0;
	mine->current = -1;
	for (int k = 0; k < mine->ntokens; k++)
		if (memcmp(&mine->tokens[k], token, sizeof(pg_uuid_t)) == 0)
		{
			mine->current = k;
			go = !mine->cancelled[k];
		}
	SpinLockRelease(&shared->lock);
	return go;
}

/*
 * gd_executor_step_done: no step is running any more.
 */
void
gd_executor_step_done(void)
{
	SpinLockAcquire(&shared->lock);
	mine->serial++;
	mine->current = -1;
	SpinLockRelease(&shared->lock);
}

/*
 * gd_executor_is_cancelled: is a signal to cancel meant for the step that
 * runs?  One that nobody here has sent is.  In a signal handler, so without
 * the lock: a signal that was late for its step may be taken for another's
 * only if both were cancelled.
 */
bool
gd_executor_is_cancelled(void)
{
	volatile Executor *executor = mine;

	return executor && (executor->cancel_serial == 0 ||
						executor->cancel_serial == executor->serial);
}

/*
 * gd_executor_more: this process has been busy for a while and there is more
 * to do: another may help.
 */
void
gd_executor_more(void)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		tell = false;

	if (now - asked_for_more < MORE_MS * MS)
		return;
	asked_for_more = now;
	SpinLockAcquire(&shared->lock);
	tell = crews[mine->crew].wanted == 0;
	crews[mine->crew].wanted = Max(crews[mine->crew].wanted, 1);
	SpinLockRelease(&shared->lock);
	if (tell)
		gd_database_tell(GD_SCHEDULER);
}
