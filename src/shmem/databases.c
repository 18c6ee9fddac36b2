/*
 * databases.c
 *		The databases that have, or may have, a process of the extension: what
 *		the launcher, the processes and all backends tell each other.
 *
 * A slot belongs to one database while its process runs, is wanted, or is
 * held back by a command.  src/bgw/README.md has the states.
 *
 * Locks: everything is under one spinlock, which is held for straight-line
 * code over the few slots, but for the atomics: the database of a slot, which
 * is written under the lock and read without, and the instant that its process
 * knows of, which committing backends lower.  Reading a slot just as it passes
 * to another database costs a wake-up for nothing.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/proc.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "guc.h"
#include "shmem/databases.h"
#include "shmem/shmem.h"

#define NO_PROC (-1)

/* A process that failed is started again after so long, doubled each time. */
#define RELAUNCH_MS 5000
#define RELAUNCH_MAX_DOUBLINGS 4

/* A process that ran for so long did not fail at its start. */
#define SETTLED_MS 60000

/* So long a starting process keeps others from being started. */
#define STARTING_MS 1000

typedef enum ProcessState
{
	PROCESS_NONE,
	PROCESS_STARTING,			/* registered by the launcher */
	PROCESS_RUNNING
} ProcessState;

typedef struct Database
{
	pg_atomic_uint32 database;	/* InvalidOid: the slot is free */
	pg_atomic_uint64 due;		/* the next instant its process knows of */

	/* Under the lock: */
	ProcessState state;
	uint32		generation;		/* of its last launch */
	int			procno;			/* of the running process, or NO_PROC */
	pid_t		pid;
	bool		wanted;			/* launch it whenever it does not run */
	bool		stop;			/* it is to end, and be launched again */
	int			holders;		/* commands that need it away */
	uint32		requests;		/* how often somebody asked to look */
	int			failures;		/* in a row */
	TimestampTz launched_at;
	TimestampTz not_before;		/* of the next launch */
} Database;

typedef struct Databases
{
	slock_t		lock;
	int			launcher;		/* its proc number, or NO_PROC; under the lock */
	bool		rescan;			/* under the lock */
	Database	slots[FLEXIBLE_ARRAY_MEMBER];
} Databases;

static Databases *databases = NULL;

Size
gd_databases_size(void)
{
	return add_size(offsetof(Databases, slots), mul_size(gd_max_databases, sizeof(Database)));
}

void
gd_databases_attach(void *start, bool first)
{
	databases = start;
	if (!first)
		return;
	memset(databases, 0, gd_databases_size());
	SpinLockInit(&databases->lock);
	databases->launcher = NO_PROC;
	for (int i = 0; i < gd_max_databases; i++)
	{
		pg_atomic_init_u32(&databases->slots[i].database, InvalidOid);
		pg_atomic_init_u64(&databases->slots[i].due, (uint64) DT_NOEND);
		databases->slots[i].procno = NO_PROC;
	}
}

static void
wake(int procno)
{
	if (procno != NO_PROC)
		SetLatch(&ProcGlobal->allProcs[procno].procLatch);
}

/*
 * database_slot: a database's slot, or NULL.  With the lock held.
 */
static Database *
database_slot(Oid database)
{
	for (int i = 0; i < gd_max_databases; i++)
		if (pg_atomic_read_u32(&databases->slots[i].database) == database)
			return &databases->slots[i];
	return NULL;
}

/*
 * database_slot_or_new: likewise, taking a free slot; NULL if there is none.
 */
static Database *
database_slot_or_new(Oid database)
{
	Database   *slot = database_slot(database);

	if (slot)
		return slot;
	slot = database_slot(InvalidOid);
	if (slot)
	{
		slot->wanted = slot->stop = false;
		slot->holders = slot->failures = 0;
		slot->not_before = 0;
		pg_atomic_write_u32(&slot->database, database);
	}
	return slot;
}

/*
 * database_settle: free a slot that nobody needs.  With the lock held.
 */
static void
database_settle(Database *slot)
{
	if (slot->state == PROCESS_NONE && !slot->wanted && slot->holders == 0)
		pg_atomic_write_u32(&slot->database, InvalidOid);
}

/* The slot of a launch if it is still that launch's.  With the lock held. */
static Database *
database_of(const GdLaunch *launch)
{
	Database   *slot = &databases->slots[launch->slot];

	return slot->generation == launch->generation ? slot : NULL;
}

/*
 * gd_database_request: a process is to look at a database: it is launched, or
 * woken, or, with restart, ended and launched again.  False if there is no
 * slot for it.  Safe in a commit callback.
 */
bool
gd_database_request(Oid database, bool restart)
{
	Database   *slot;
	int			launcher;
	int			procno = NO_PROC;

	SpinLockAcquire(&databases->lock);
	slot = database_slot_or_new(database);
	if (slot)
	{
		slot->wanted = true;
		slot->requests++;
		slot->failures = 0;
		slot->not_before = 0;
		if (restart)
			slot->stop = true;
		procno = slot->procno;
	}
	launcher = databases->launcher;
	SpinLockRelease(&databases->lock);
	wake(procno);
	wake(launcher);
	return slot != NULL;
}

/*
 * gd_databases_rescan: the launcher is to look at all databases.  Safe in a
 * commit callback.
 */
void
gd_databases_rescan(void)
{
	int			launcher;

	SpinLockAcquire(&databases->lock);
	databases->rescan = true;
	launcher = databases->launcher;
	SpinLockRelease(&databases->lock);
	wake(launcher);
}

/*
 * gd_database_hold: keep a database free of processes until unhold; tells the
 * running one to end.  False if there is no slot left, in which case none
 * runs.
 */
bool
gd_database_hold(Oid database)
{
	Database   *slot;
	int			procno = NO_PROC;

	SpinLockAcquire(&databases->lock);
	slot = database_slot_or_new(database);
	if (slot)
	{
		slot->holders++;
		procno = slot->procno;
	}
	SpinLockRelease(&databases->lock);
	wake(procno);
	return slot != NULL;
}

/*
 * gd_database_unhold: undo one hold.  Safe in a commit callback.
 */
void
gd_database_unhold(Oid database)
{
	Database   *slot;
	int			launcher;

	SpinLockAcquire(&databases->lock);
	slot = database_slot(database);
	if (slot && slot->holders > 0)
	{
		slot->holders--;
		database_settle(slot);
	}
	launcher = databases->launcher;
	SpinLockRelease(&databases->lock);
	wake(launcher);
}

/*
 * gd_database_is_quiet: does no process of ours have to do with a database?
 * Else pid is the process, or 0 if it has not begun.
 */
bool
gd_database_is_quiet(Oid database, pid_t *pid)
{
	Database   *slot;
	bool		quiet;

	SpinLockAcquire(&databases->lock);
	slot = database_slot(database);
	quiet = slot == NULL || slot->state == PROCESS_NONE;
	*pid = quiet ? 0 : slot->pid;
	SpinLockRelease(&databases->lock);
	return quiet;
}

/*
 * due_lower: lower a slot's instant to due; false if it was as early already.
 * known is what it was.
 */
static bool
due_lower(Database *slot, TimestampTz due, TimestampTz *known)
{
	uint64		was = pg_atomic_read_u64(&slot->due);
	bool		lowered = false;

	while (!lowered && (TimestampTz) was > due)
		lowered = pg_atomic_compare_exchange_u64(&slot->due, &was, (uint64) due);
	*known = (TimestampTz) was;
	return lowered;
}

/*
 * gd_database_due: something of this database is due at an instant; wakes the
 * process if it did not know of one as early.  Safe in a commit callback.
 */
void
gd_database_due(TimestampTz due)
{
	static int	mine = 0;
	Database   *slot = &databases->slots[mine];
	TimestampTz known;
	int			procno;

	if (pg_atomic_read_u32(&slot->database) != MyDatabaseId)
	{
		slot = database_slot(MyDatabaseId);
		if (slot == NULL)
			return;
		mine = slot - databases->slots;
	}
	if (!due_lower(slot, due, &known))
		return;

	SpinLockAcquire(&databases->lock);
	procno = slot->procno;
	SpinLockRelease(&databases->lock);
	wake(procno);
}

/*
 * gd_launcher_attach: this process is the launcher.  What the one before it
 * had registered and has not begun is given up: should it begin, it finds that
 * its launch is over.
 */
void
gd_launcher_attach(void)
{
	SpinLockAcquire(&databases->lock);
	databases->launcher = gd_my_procno();
	for (int i = 0; i < gd_max_databases; i++)
	{
		Database   *slot = &databases->slots[i];

		if (slot->state == PROCESS_STARTING)
		{
			slot->state = PROCESS_NONE;
			slot->generation++;
			database_settle(slot);
		}
	}
	SpinLockRelease(&databases->lock);
}

void
gd_launcher_detach(void)
{
	SpinLockAcquire(&databases->lock);
	databases->launcher = NO_PROC;
	SpinLockRelease(&databases->lock);
}

bool
gd_databases_take_rescan(void)
{
	bool		rescan;

	SpinLockAcquire(&databases->lock);
	rescan = databases->rescan;
	databases->rescan = false;
	SpinLockRelease(&databases->lock);
	return rescan;
}

/*
 * gd_databases_launch: mark the next database whose process is due as
 * starting.  False if none is; wake_at is lowered to when to look again.
 *
 * One starts at a time, so that looking at many databases takes one worker
 * slot; but one that is slow to start does not stop the others.
 */
bool
gd_databases_launch(TimestampTz now, GdLaunch *launch, TimestampTz *wake_at)
{
	TimestampTz next = *wake_at;
	Database   *found = NULL;

	SpinLockAcquire(&databases->lock);
	for (int i = 0; i < gd_max_databases; i++)
	{
		Database   *slot = &databases->slots[i];
		TimestampTz settled = slot->launched_at + STARTING_MS * INT64CONST(1000);

		if (slot->state == PROCESS_STARTING && settled > now)
		{
			next = Min(next, settled);
			found = NULL;
			break;
		}
		if (pg_atomic_read_u32(&slot->database) == InvalidOid ||
			slot->state != PROCESS_NONE || !slot->wanted || slot->holders > 0)
			continue;
		if (slot->not_before > now)
			next = Min(next, slot->not_before);
		else if (found == NULL || slot->launched_at < found->launched_at)
			found = slot;
	}
	if (found)
	{
		found->state = PROCESS_STARTING;
		found->generation++;
		found->launched_at = now;
		found->stop = false;
		launch->slot = found - databases->slots;
		launch->generation = found->generation;
		launch->database = pg_atomic_read_u32(&found->database);
	}
	SpinLockRelease(&databases->lock);
	*wake_at = next;
	return found != NULL;
}

/*
 * launch_give_up: a launch did not come about; try again later if the database
 * is still wanted.
 */
static void
launch_give_up(const GdLaunch *launch, bool wanted, TimestampTz not_before)
{
	Database   *slot;

	SpinLockAcquire(&databases->lock);
	slot = database_of(launch);
	if (slot && slot->state == PROCESS_STARTING)
	{
		slot->state = PROCESS_NONE;
		slot->wanted = slot->wanted && wanted;
		slot->not_before = not_before;
		database_settle(slot);
	}
	SpinLockRelease(&databases->lock);
}

/*
 * gd_database_unlaunch: a launch did not come about; try again later.
 */
void
gd_database_unlaunch(const GdLaunch *launch, TimestampTz not_before)
{
	launch_give_up(launch, true, not_before);
}

/*
 * gd_database_forget: the database of a launch is not there, or takes no
 * connections.
 */
void
gd_database_forget(const GdLaunch *launch)
{
	launch_give_up(launch, false, 0);
}

/*
 * gd_database_not_attached: has a launch not begun yet?
 */
bool
gd_database_not_attached(const GdLaunch *launch)
{
	Database   *slot;
	bool		starting;

	SpinLockAcquire(&databases->lock);
	slot = database_of(launch);
	starting = slot && slot->state == PROCESS_STARTING;
	SpinLockRelease(&databases->lock);
	return starting;
}

/*
 * gd_database_attach: this process is a launch's, and launch->database is set;
 * false if the launch is over, or a command wants the database for itself.
 */
bool
gd_database_attach(GdLaunch *launch)
{
	Database   *slot;
	bool		attached = false;
	int			launcher;

	SpinLockAcquire(&databases->lock);
	slot = database_of(launch);
	if (slot && slot->state == PROCESS_STARTING)
	{
		attached = slot->holders == 0;
		slot->state = attached ? PROCESS_RUNNING : PROCESS_NONE;
		if (attached)
		{
			slot->procno = gd_my_procno();
			slot->pid = MyProcPid;
			launch->database = pg_atomic_read_u32(&slot->database);
		}
	}
	launcher = databases->launcher;
	SpinLockRelease(&databases->lock);
	wake(launcher);
	return attached;
}

/*
 * gd_database_detach: this process ends.
 */
void
gd_database_detach(const GdLaunch *launch, bool failed)
{
	TimestampTz now = GetCurrentTimestamp();
	Database   *slot;
	int			launcher;

	SpinLockAcquire(&databases->lock);
	slot = database_of(launch);
	if (slot && slot->state == PROCESS_RUNNING)
	{
		slot->state = PROCESS_NONE;
		slot->procno = NO_PROC;
		slot->pid = 0;
		pg_atomic_write_u64(&slot->due, (uint64) DT_NOEND);
		if (!failed || now - slot->launched_at > SETTLED_MS * INT64CONST(1000))
			slot->failures = 0;
		slot->not_before = 0;
		if (failed)
		{
			slot->not_before = slot->launched_at +
				((RELAUNCH_MS * INT64CONST(1000)) << slot->failures);
			slot->failures = Min(slot->failures + 1, RELAUNCH_MAX_DOUBLINGS);
		}
		database_settle(slot);
	}
	launcher = databases->launcher;
	SpinLockRelease(&databases->lock);
	wake(launcher);
}

/*
 * gd_database_must_stop: is this process to end now, to be launched again?
 */
bool
gd_database_must_stop(const GdLaunch *launch)
{
	Database   *slot = &databases->slots[launch->slot];
	bool		stop;

	SpinLockAcquire(&databases->lock);
	stop = slot->stop || slot->holders > 0;
	SpinLockRelease(&databases->lock);
	return stop;
}

uint32
gd_database_requests(const GdLaunch *launch)
{
	uint32		requests;

	SpinLockAcquire(&databases->lock);
	requests = databases->slots[launch->slot].requests;
	SpinLockRelease(&databases->lock);
	return requests;
}

/*
 * gd_database_unwanted: this process found nothing to do for it; requests is
 * how often it had been asked before it looked.
 */
void
gd_database_unwanted(const GdLaunch *launch, uint32 requests)
{
	Database   *slot = &databases->slots[launch->slot];

	SpinLockAcquire(&databases->lock);
	if (slot->requests == requests)
		slot->wanted = false;
	SpinLockRelease(&databases->lock);
}

/*
 * gd_database_due_reset: from now on every commit tells what it makes due.
 * The process calls it before it looks at the tables, so that nothing falls
 * between its look and the commits after it.
 */
void
gd_database_due_reset(const GdLaunch *launch)
{
	pg_atomic_write_u64(&databases->slots[launch->slot].due, (uint64) DT_NOEND);
	pg_memory_barrier();
}

/*
 * gd_database_due_known: the process knows of an instant; returns the earliest
 * that it or a commit knows of.
 */
TimestampTz
gd_database_due_known(const GdLaunch *launch, TimestampTz due)
{
	TimestampTz known;

	return due_lower(&databases->slots[launch->slot], due, &known) ? due : known;
}
