/*
 * databases.c
 *		The databases that have, or may have, processes of the extension: what
 *		the launcher, the processes and all backends tell each other.
 *
 * A slot belongs to one database while a process of it runs, is wanted, or is
 * held back by a command.  Of each kind of process there is one a database,
 * and all kinds live alike.  Who asks for a look at a database wants its
 * maintainer only, which finds out whether the others are wanted.
 * src/bgw/README.md has the states.
 *
 * Locks: everything is under one spinlock, which is held for straight-line
 * code over the few slots, but for the atomics: the database of a slot, which
 * is written under the lock and read without, its flags, and the instant that
 * its maintainer knows of, which committing backends lower.  Reading a slot just as
 * it passes to another database costs a wake-up for nothing.
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

typedef struct Process
{
	ProcessState state;
	uint32		generation;		/* of its last launch */
	int			procno;			/* of the running process, or NO_PROC */
	pid_t		pid;
	bool		wanted;			/* launch it whenever it does not run */
	bool		stop;			/* it is to end, and be launched again */
	int			failures;		/* in a row */
	TimestampTz launched_at;
	TimestampTz not_before;		/* of the next launch */
} Process;

typedef struct Database
{
	pg_atomic_uint32 database;	/* InvalidOid: the slot is free */
	pg_atomic_uint64 due;		/* the next instant its maintainer knows of */
	pg_atomic_uint32 flags;

	/* Under the lock: */
	int			holders;		/* commands that need it without processes */
	uint32		requests;		/* how often somebody asked to look */
	Process		processes[GD_NPROCESSES];
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
		pg_atomic_init_u32(&databases->slots[i].flags, 0);
		for (int k = 0; k < GD_NPROCESSES; k++)
			databases->slots[i].processes[k].procno = NO_PROC;
	}
}

static void
wake(int procno)
{
	if (procno != NO_PROC)
		SetLatch(&ProcGlobal->allProcs[procno].procLatch);
}

/* Who is to be woken once the lock is released. */
typedef struct ToWake
{
	int			procs[GD_NPROCESSES + 1];
} ToWake;

/*
 * wake_note: note the launcher, and a slot's processes if there is a slot.
 * With the lock held.
 */
static void
wake_note(ToWake *to_wake, const Database *slot)
{
	for (int k = 0; k < GD_NPROCESSES; k++)
		to_wake->procs[k] = slot ? slot->processes[k].procno : NO_PROC;
	to_wake->procs[GD_NPROCESSES] = databases->launcher;
}

static void
wake_noted(const ToWake *to_wake)
{
	for (int k = 0; k <= GD_NPROCESSES; k++)
		wake(to_wake->procs[k]);
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
		slot->holders = 0;
		for (int k = 0; k < GD_NPROCESSES; k++)
		{
			Process    *process = &slot->processes[k];

			process->wanted = process->stop = false;
			process->failures = 0;
			process->not_before = 0;
		}
		pg_atomic_write_u32(&slot->flags, 0);
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
	bool		needed = slot->holders > 0;

	for (int k = 0; k < GD_NPROCESSES; k++)
		needed |= slot->processes[k].state != PROCESS_NONE || slot->processes[k].wanted;
	if (!needed)
		pg_atomic_write_u32(&slot->database, InvalidOid);
}

/* The process of a launch if it is still that launch's.  With the lock held. */
static Process *
process_of(const GdLaunch *launch)
{
	Process    *process = &databases->slots[launch->slot].processes[launch->process];

	return process->generation == launch->generation ? process : NULL;
}

/*
 * gd_database_request: a process is to look at a database: it is launched, or
 * woken, or, with restart, ended and launched again, as the database's other
 * processes are.  False if there is no slot for it.  Safe in a commit callback.
 */
bool
gd_database_request(Oid database, bool restart)
{
	Database   *slot;
	ToWake		to_wake;

	SpinLockAcquire(&databases->lock);
	slot = database_slot_or_new(database);
	if (slot)
	{
		slot->requests++;
		slot->processes[GD_MAINTAINER].wanted = true;
		for (int k = 0; k < GD_NPROCESSES; k++)
		{
			slot->processes[k].failures = 0;
			slot->processes[k].not_before = 0;
			slot->processes[k].stop |= restart;
		}
	}
	wake_note(&to_wake, slot);
	SpinLockRelease(&databases->lock);
	wake_noted(&to_wake);
	return slot != NULL;
}

/*
 * gd_database_want: this process has found that another of its database has
 * something to do.
 */
void
gd_database_want(const GdLaunch *launch, GdProcess wanted)
{
	Process    *process = &databases->slots[launch->slot].processes[wanted];
	int			launcher;
	bool		news;

	SpinLockAcquire(&databases->lock);
	news = process_of(launch) && !process->wanted;
	if (news)
		process->wanted = true;
	launcher = databases->launcher;
	SpinLockRelease(&databases->lock);
	if (news)
		wake(launcher);
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
 * running ones to end.  False if there is no slot left, in which case none
 * runs.
 */
bool
gd_database_hold(Oid database)
{
	Database   *slot;
	ToWake		to_wake;

	SpinLockAcquire(&databases->lock);
	slot = database_slot_or_new(database);
	if (slot)
		slot->holders++;
	wake_note(&to_wake, slot);
	SpinLockRelease(&databases->lock);
	wake_noted(&to_wake);
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
 * pids are those that run, and 0.
 */
bool
gd_database_is_quiet(Oid database, pid_t pids[GD_NPROCESSES])
{
	Database   *slot;
	bool		quiet = true;

	memset(pids, 0, sizeof(pid_t) * GD_NPROCESSES);
	SpinLockAcquire(&databases->lock);
	slot = database_slot(database);
	for (int k = 0; slot && k < GD_NPROCESSES; k++)
	{
		if (slot->processes[k].state == PROCESS_NONE)
			continue;
		quiet = false;
		pids[k] = slot->processes[k].pid;
	}
	SpinLockRelease(&databases->lock);
	return quiet;
}

/*
 * database_mine: the slot of this session's database, or NULL.
 */
static Database *
database_mine(void)
{
	static int	mine = 0;
	Database   *slot = &databases->slots[mine];

	if (pg_atomic_read_u32(&slot->database) != MyDatabaseId)
	{
		slot = database_slot(MyDatabaseId);
		if (slot)
			mine = slot - databases->slots;
	}
	return slot;
}

/*
 * database_tell: wake a process of a slot, if it runs.
 */
static void
database_tell(Database *slot, GdProcess process)
{
	int			procno;

	SpinLockAcquire(&databases->lock);
	procno = slot->processes[process].procno;
	SpinLockRelease(&databases->lock);
	wake(procno);
}

/*
 * gd_database_has: does this database have a process of a kind just now?
 */
bool
gd_database_has(GdProcess process)
{
	Database   *slot = database_mine();

	return slot && slot->processes[process].procno != NO_PROC;
}

/*
 * gd_database_flag: is something said of this database?  Safe in a commit
 * callback, as is the next.
 */
bool
gd_database_flag(uint32 flag)
{
	Database   *slot = database_mine();

	return slot && (pg_atomic_read_u32(&slot->flags) & flag) != 0;
}

/*
 * gd_database_set_flag: say something of this database, or no more; true if
 * that is news.
 */
bool
gd_database_set_flag(uint32 flag, bool on)
{
	Database   *slot = database_mine();
	uint32		was;

	if (slot == NULL)
		return false;
	was = on ? pg_atomic_fetch_or_u32(&slot->flags, flag) :
		pg_atomic_fetch_and_u32(&slot->flags, ~flag);
	return ((was & flag) != 0) != on;
}

/*
 * gd_database_tell_of: wake a process of any database.  Safe while a process
 * ends.
 */
void
gd_database_tell_of(Oid database, GdProcess process)
{
	Database   *slot;
	int			procno = NO_PROC;

	SpinLockAcquire(&databases->lock);
	slot = database_slot(database);
	if (slot)
		procno = slot->processes[process].procno;
	SpinLockRelease(&databases->lock);
	wake(procno);
}

/*
 * gd_database_is_held: does a command need a database without sessions?
 */
bool
gd_database_is_held(Oid database)
{
	Database   *slot;
	bool		held;

	SpinLockAcquire(&databases->lock);
	slot = database_slot(database);
	held = slot && slot->holders > 0;
	SpinLockRelease(&databases->lock);
	return held;
}

/*
 * gd_database_tell: wake a process of this database, if it runs.  Safe in a
 * commit callback.
 */
void
gd_database_tell(GdProcess process)
{
	Database   *slot = database_mine();

	if (slot)
		database_tell(slot, process);
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
 * maintainer if it did not know of one as early.  Safe in a commit callback.
 */
void
gd_database_due(TimestampTz due)
{
	Database   *slot = database_mine();
	TimestampTz known;

	if (slot && due_lower(slot, due, &known))
		database_tell(slot, GD_MAINTAINER);
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
		for (int k = 0; k < GD_NPROCESSES; k++)
		{
			Process    *process = &databases->slots[i].processes[k];

			if (process->state != PROCESS_STARTING)
				continue;
			process->state = PROCESS_NONE;
			process->generation++;
		}
		database_settle(&databases->slots[i]);
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
 * process_may_launch: is a process of a slot due to be launched?  If only
 * later, next is lowered to when.  With the lock held.
 */
static bool
process_may_launch(const Database *slot, const Process *process, TimestampTz now,
				   TimestampTz *next)
{
	if (pg_atomic_read_u32((pg_atomic_uint32 *) &slot->database) == InvalidOid ||
		process->state != PROCESS_NONE || !process->wanted || slot->holders > 0)
		return false;
	if (process->not_before <= now)
		return true;
	*next = Min(*next, process->not_before);
	return false;
}

/*
 * process_starting: has one been launched a moment ago and not begun?  next is
 * lowered to when that moment is over.  With the lock held.
 */
static bool
process_starting(TimestampTz now, TimestampTz *next)
{
	for (int i = 0; i < gd_max_databases; i++)
		for (int k = 0; k < GD_NPROCESSES; k++)
		{
			const Process *process = &databases->slots[i].processes[k];
			TimestampTz settled = process->launched_at + STARTING_MS * INT64CONST(1000);

			if (process->state == PROCESS_STARTING && settled > now)
			{
				*next = Min(*next, settled);
				return true;
			}
		}
	return false;
}

/*
 * gd_databases_launch: mark the next process that is due as starting.  False
 * if none is; wake_at is lowered to when to look again.
 *
 * One starts at a time, so that looking at many databases takes one worker
 * slot; but one that is slow to start does not stop the others.
 */
bool
gd_databases_launch(TimestampTz now, GdLaunch *launch, TimestampTz *wake_at)
{
	TimestampTz next = *wake_at;
	Process    *found = NULL;

	SpinLockAcquire(&databases->lock);
	if (!process_starting(now, &next))
		for (int i = 0; i < gd_max_databases; i++)
			for (int k = 0; k < GD_NPROCESSES; k++)
			{
				Database   *slot = &databases->slots[i];
				Process    *process = &slot->processes[k];

				if (!process_may_launch(slot, process, now, &next) ||
					(found && process->launched_at >= found->launched_at))
					continue;
				found = process;
				launch->slot = i;
				launch->process = k;
				launch->database = pg_atomic_read_u32(&slot->database);
			}
	if (found)
	{
		found->state = PROCESS_STARTING;
		found->generation++;
		found->launched_at = now;
		found->stop = false;
		launch->generation = found->generation;
	}
	SpinLockRelease(&databases->lock);
	*wake_at = next;
	return found != NULL;
}

/*
 * launch_give_up: a launch did not come about; try again later if the process
 * is still wanted.
 */
static void
launch_give_up(const GdLaunch *launch, bool wanted, TimestampTz not_before)
{
	Process    *process;

	SpinLockAcquire(&databases->lock);
	process = process_of(launch);
	if (process && process->state == PROCESS_STARTING)
	{
		process->state = PROCESS_NONE;
		process->wanted = process->wanted && wanted;
		process->not_before = not_before;
		database_settle(&databases->slots[launch->slot]);
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
	Process    *process;
	bool		starting;

	SpinLockAcquire(&databases->lock);
	process = process_of(launch);
	starting = process && process->state == PROCESS_STARTING;
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
	Database   *slot = &databases->slots[launch->slot];
	Process    *process;
	bool		attached = false;
	int			launcher;

	SpinLockAcquire(&databases->lock);
	process = process_of(launch);
	if (process && process->state == PROCESS_STARTING)
	{
		attached = slot->holders == 0;
		process->state = attached ? PROCESS_RUNNING : PROCESS_NONE;
		if (attached)
		{
			process->procno = gd_my_procno();
			process->pid = MyProcPid;
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
	Database   *slot = &databases->slots[launch->slot];
	Process    *process;
	int			launcher;

	SpinLockAcquire(&databases->lock);
	process = process_of(launch);
	if (process && process->state == PROCESS_RUNNING)
	{
		process->state = PROCESS_NONE;
		process->procno = NO_PROC;
		process->pid = 0;
		if (launch->process == GD_MAINTAINER)
			pg_atomic_write_u64(&slot->due, (uint64) DT_NOEND);
		if (!failed || now - process->launched_at > SETTLED_MS * INT64CONST(1000))
			process->failures = 0;
		process->not_before = 0;
		if (failed)
		{
			process->not_before = process->launched_at +
				((RELAUNCH_MS * INT64CONST(1000)) << process->failures);
			process->failures = Min(process->failures + 1, RELAUNCH_MAX_DOUBLINGS);
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
	stop = slot->processes[launch->process].stop || slot->holders > 0;
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
		slot->processes[launch->process].wanted = false;
	SpinLockRelease(&databases->lock);
}

/*
 * gd_database_due_reset: from now on every commit tells what it makes due.
 * The maintainer calls it before it looks at the tables, so that nothing falls
 * between its look and the commits after it.
 */
void
gd_database_due_reset(const GdLaunch *launch)
{
	pg_atomic_write_u64(&databases->slots[launch->slot].due, (uint64) DT_NOEND);
	pg_memory_barrier();
}

/*
 * gd_database_due_known: the maintainer knows of an instant; returns the earliest
 * that it or a commit knows of.
 */
TimestampTz
gd_database_due_known(const GdLaunch *launch, TimestampTz due)
{
	TimestampTz known;

	return due_lower(&databases->slots[launch->slot], due, &known) ? due : known;
}
