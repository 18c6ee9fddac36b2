/*
 * executor_self.c
 *		What an executor says of itself in shared memory, and is told there.
 *
 * Which claims it holds and which step it runs, so that its leases are renewed
 * and a cancellation finds it; whether it is to go on; and how it ended.
 * executors.c has the rest.
 *
 * Locks: the one of executors.c, for straight-line code.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "guc.h"
#include "shmem/databases.h"
#include "shmem/executor_slots.h"
#include "shmem/executors.h"

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

static Executors *shared = NULL;

/* This process, if it is an executor. */
static Executor *mine = NULL;
static TimestampTz asked_for_more = 0;

void
gd_executor_self_attach(Executors *slots)
{
	shared = slots;
}

/*
 * gd_executor_begin: this process is the executor of a start; false if the
 * start is over.
 */
bool
gd_executor_begin(int slot, uint32 generation, Oid *database, GdCrew *crew)
{
	SpinLockAcquire(&shared->lock);
	mine = executor_of(shared, slot, generation);
	if (mine && mine->state == EXECUTOR_STARTING)
	{
		const Crew *c = &shared->crews[mine->crew];

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
	crew = &shared->crews[mine->crew];
	database = crew->database;
	crew->running--;
	mine->procno = NO_PROC;
	mine->pid = 0;
	mine->state = mine->ntokens > 0 ? EXECUTOR_DEAD : EXECUTOR_NONE;
	if (!failed || now - mine->started_at > SETTLED_MS * MS)
		crew->failures = 0;
	if (!failed || mine->progressed)
		crew->deaths = 0;
	if (mine->stop)
	{
		/* Who is wanted a look tells, if there is still somebody to look. */
		shared->looks++;
		crew->wanted = 0;
	}
	else if (failed && mine->ntokens > 0)
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
		shared->crews[mine->crew].wanted |= mine->state == EXECUTOR_BUSY;
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
		if (shared->executors[i].state != EXECUTOR_NONE && shared->executors[i].state != EXECUTOR_DEAD &&
			shared->executors[i].crew == mine->crew && !shared->executors[i].stop)
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
		shared->crews[mine->crew].due = Min(shared->crews[mine->crew].due, due);
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
	const Crew *crew = &shared->crews[mine->crew];

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
		(void) gd_executors_tell(crew->owner, crew->hash, crew->queue, crew->len, 1,
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
	tell = shared->crews[mine->crew].wanted == 0;
	shared->crews[mine->crew].wanted = Max(shared->crews[mine->crew].wanted, 1);
	SpinLockRelease(&shared->lock);
	if (tell)
		gd_database_tell(GD_SCHEDULER);
}
