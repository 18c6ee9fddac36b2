/*
 * launcher.c
 *		The launcher: starts and restarts the processes of each database.
 *
 * It is connected to no database, so it cannot see who has the extension: the
 * process that it starts looks, and ends where there is nothing to do.  All
 * that is known of a database is its slot in shared memory; the launcher's own
 * memory holds what is still to be looked at, and launches that have not
 * begun.  README.md has the states.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "bgw/bgw.h"
#include "compat.h"
#include "guc.h"
#include "shmem/databases.h"
#include "shmem/dispatch.h"
#include "shmem/returns.h"
#include "shmem/stats.h"

#define LAUNCHER_TYPE "gen_durable launcher"

/* So long it waits for a worker slot before it asks again. */
#define NO_SLOT_MS 1000

/* By GdProcess. */
static const struct
{
	const char *name;
	const char *type;
	const char *function;
}			kinds[GD_NPROCESSES] = {
	[GD_MAINTAINER] = {"maintainer", "gen_durable maintainer", "gd_maintainer_main"},
	[GD_SCHEDULER] = {"scheduler", "gen_durable scheduler", "gd_scheduler_main"},
};

/* A launch that has been registered and may not have begun. */
typedef struct Registered
{
	GdLaunch	launch;
	BackgroundWorkerHandle *handle;
} Registered;

/* Both in TopMemoryContext. */
static List *to_look_at = NIL;	/* databases without a slot yet */
static List *registered = NIL;

static TimestampTz no_worker_at = 0;	/* the last time that one had no slot */
static bool said_no_slot = false;

/*
 * launcher_databases: the databases that a process may connect to, or the one
 * given if it is one of them.
 */
static List *
launcher_databases(Oid only)
{
	List	   *found = NIL;
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;
	MemoryContext old;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database database = (Form_pg_database) GETSTRUCT(tuple);

		if (database->datistemplate || !database->datallowconn ||
			database->datconnlimit == GD_DATABASE_INVALID)
			continue;
		if (OidIsValid(only) && database->oid != only)
			continue;
		old = MemoryContextSwitchTo(TopMemoryContext);
		found = lappend_oid(found, database->oid);
		MemoryContextSwitchTo(old);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
	return found;
}

/*
 * launcher_find: every database is to be looked at.
 */
static void
launcher_find(void)
{
	list_free(to_look_at);
	to_look_at = launcher_databases(InvalidOid);
}

/*
 * launcher_request: pass what is to be looked at to slots, as far as there are
 * free ones.
 */
static void
launcher_request(void)
{
	while (to_look_at != NIL && gd_database_request(linitial_oid(to_look_at), false))
		to_look_at = list_delete_first(to_look_at);
	if (to_look_at == NIL)
		said_no_slot = false;
	else if (registered == NIL && !said_no_slot)
	{
		ereport(LOG,
				(errmsg("gen_durable has no place for %d more databases",
						list_length(to_look_at)),
				 errhint("Raise gen_durable.max_databases above %d and restart.", gd_max_databases)));
		said_no_slot = true;
	}
}

/*
 * launcher_register: ask the postmaster for the process of a launch; false if
 * there is no worker slot.
 */
static bool
launcher_register(const GdLaunch *launch)
{
	BackgroundWorkerHandle *handle;
	MemoryContext old;
	Registered *entry;
	char		name[BGW_MAXLEN];

	snprintf(name, sizeof(name), "%s for database %u", kinds[launch->process].type, launch->database);
	handle = gd_bgw_start(kinds[launch->process].type, name, kinds[launch->process].function,
						  Int32GetDatum(launch->slot),
						  &launch->generation, sizeof(launch->generation));
	if (handle == NULL)
		return false;
	old = MemoryContextSwitchTo(TopMemoryContext);
	entry = palloc(sizeof(Registered));
	entry->launch = *launch;
	entry->handle = handle;
	registered = lappend(registered, entry);
	MemoryContextSwitchTo(old);
	return true;
}

/*
 * launcher_start: bring about one launch.
 */
static void
launcher_start(const GdLaunch *launch, TimestampTz now)
{
	List	   *there = launcher_databases(launch->database);

	if (there == NIL)
	{
		gd_database_forget(launch);
		gd_stats_forget(launch->database);
		gd_dispatch_forget(launch->database);
		gd_returns_forget(launch->database);
	}
	else if (!launcher_register(launch))
	{
		gd_database_unlaunch(launch, now + NO_SLOT_MS * INT64CONST(1000));
		if (gd_bgw_shortage(&no_worker_at, now))
			ereport(LOG,
					(errmsg("gen_durable found no free worker slot for its %s of database %u",
							kinds[launch->process].name, launch->database),
					 errhint("Raise max_worker_processes above %d: one for the launcher, and two for each database with the extension, besides what else needs them. It is tried again until a slot is free.",
							 max_worker_processes)));
	}
	list_free(there);
}

/*
 * launcher_collect: forget launches that have begun, and try those again whose
 * process ended before it could begin.
 */
static void
launcher_collect(TimestampTz now)
{
	ListCell   *cell;

	foreach(cell, registered)
	{
		Registered *entry = lfirst(cell);
		pid_t		pid;

		if (gd_database_not_attached(&entry->launch))
		{
			if (GetBackgroundWorkerPid(entry->handle, &pid) != BGWH_STOPPED)
				continue;
			gd_database_unlaunch(&entry->launch, now + NO_SLOT_MS * INT64CONST(1000));
		}
		pfree(entry->handle);
		pfree(entry);
		registered = foreach_delete_current(registered, cell);
	}
}

static void
launcher_exit(int code, Datum arg)
{
	gd_launcher_detach();
}

void
gd_launcher_main(Datum arg)
{
	on_shmem_exit(launcher_exit, (Datum) 0);
	gd_bgw_begin();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	SetConfigOption("application_name", LAUNCHER_TYPE, PGC_USERSET, PGC_S_OVERRIDE);
	pgstat_report_activity(STATE_IDLE, NULL);
	gd_launcher_attach();
	launcher_find();
	for (;;)
	{
		TimestampTz now = GetCurrentTimestamp();
		TimestampTz wake_at = DT_NOEND;
		GdLaunch	launch;

		/* Exit code 1: the postmaster starts it again. */
		if (gd_bgw_interrupts(1) || gd_databases_take_rescan())
			launcher_find();
		launcher_collect(now);
		launcher_request();
		if (gd_databases_launch(now, &launch, &wake_at))
		{
			launcher_start(&launch, now);
			continue;
		}
		gd_bgw_sleep(wake_at, "GenDurableLauncher");
	}
}

/*
 * gd_bgw_init: the launcher is there wherever the library is preloaded, but
 * not while pg_upgrade works on the server.
 */
void
gd_bgw_init(void)
{
	BackgroundWorker worker = {0};

	if (!process_shared_preload_libraries_in_progress || IsBinaryUpgrade)
		return;
	gd_ddl_init();
	strlcpy(worker.bgw_name, LAUNCHER_TYPE, BGW_MAXLEN);
	strlcpy(worker.bgw_type, LAUNCHER_TYPE, BGW_MAXLEN);
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 5;
	strlcpy(worker.bgw_library_name, "gen_durable", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "gd_launcher_main", sizeof(worker.bgw_function_name));
	RegisterBackgroundWorker(&worker);
}
