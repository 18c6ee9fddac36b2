/*
 * work.c
 *		The work of a database's process: being its session, and passes in
 *		transactions of their own.
 *
 * A pass runs as the extension's owner, and only if the extension is here in
 * the library's version: its row in pg_extension is locked, and read again,
 * so that neither DROP nor UPDATE EXTENSION comes between.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_extension.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "bgw/bgw.h"
#include "engine/effects.h"
#include "version.h"

#define EXTENSION_NAME "gen_durable"

static GdLaunch *mine;			/* this process's launch */
static bool said_version = false;	/* since the versions last agreed */

/*
 * work_read: the extension's row as it is now.
 */
static Oid
work_read(Oid *owner, char **version)
{
	Relation	rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			extension = InvalidOid;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum(EXTENSION_NAME));
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		bool		isnull;
		Datum		extversion = heap_getattr(tuple, Anum_pg_extension_extversion,
											  RelationGetDescr(rel), &isnull);

		extension = ((Form_pg_extension) GETSTRUCT(tuple))->oid;
		*owner = ((Form_pg_extension) GETSTRUCT(tuple))->extowner;
		*version = TextDatumGetCString(extversion);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return extension;
}

/*
 * work_look: is the extension here, in the library's version?  If so it stays
 * locked against DROP and UPDATE until the transaction ends.
 */
static GdFound
work_look(Oid *owner, char **version)
{
	Oid			extension = work_read(owner, version);

	if (!OidIsValid(extension))
		return GD_FOUND_NOTHING;
	LockDatabaseObject(ExtensionRelationId, extension, 0, AccessShareLock);
	if (work_read(owner, version) != extension)
		return GD_FOUND_NOTHING;
	return strcmp(*version, GD_VERSION) == 0 ? GD_FOUND_EXTENSION : GD_FOUND_OTHER_VERSION;
}

/*
 * work_say_version: once, until the versions agree.  The maintainer says it
 * for all.
 */
static void
work_say_version(GdFound found, const char *version)
{
	if (found == GD_FOUND_OTHER_VERSION && !said_version && mine->process == GD_MAINTAINER)
		ereport(LOG,
				(errmsg("gen_durable does no maintenance in database \"%s\": its version there is %s, and the library's is %s",
						get_database_name(MyDatabaseId), version, GD_VERSION),
				 errhint("Run ALTER EXTENSION gen_durable UPDATE there, or restart the server if the library was replaced.")));
	said_version = found == GD_FOUND_OTHER_VERSION;
}

/*
 * gd_work_run: one pass in a transaction of its own, if the extension is here;
 * done is what the pass returned.
 */
GdFound
gd_work_run(GdPass pass, void *arg, int64 *done)
{
	Oid			owner;
	Oid			save_user;
	int			save_context;
	char	   *version;
	GdFound		found;

	*done = 0;
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	pgstat_report_activity(STATE_RUNNING, MyBgworkerEntry->bgw_type);
	PushActiveSnapshot(GetTransactionSnapshot());
	found = work_look(&owner, &version);
	work_say_version(found, version);
	if (found == GD_FOUND_EXTENSION)
	{
		GetUserIdAndSecContext(&save_user, &save_context);
		SetUserIdAndSecContext(owner, save_context | SECURITY_LOCAL_USERID_CHANGE);
		*done = pass(arg);
		gd_effects_apply();
		SetUserIdAndSecContext(save_user, save_context);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	pgstat_report_stat(true);
	pgstat_report_activity(STATE_IDLE, NULL);
	return found;
}

static void
work_exit(int code, Datum arg)
{
	gd_database_detach(mine, code != 0);
}

/*
 * gd_work_begin: become the process of a launch, and a session of its
 * database.  Ends the process if the launch is over.
 */
void
gd_work_begin(GdProcess process, Datum arg, GdLaunch *launch)
{
	launch->slot = DatumGetInt32(arg);
	launch->process = process;
	memcpy(&launch->generation, MyBgworkerEntry->bgw_extra, sizeof(launch->generation));
	mine = launch;

	/*
	 * Registered before the connection, so it runs after the process has left
	 * the list of the database's sessions: who waits for that may go on.
	 */
	on_shmem_exit(work_exit, (Datum) 0);
	if (!gd_database_attach(launch))
		proc_exit(0);
	gd_bgw_begin();
	gd_bgw_connect(launch->database);
}

/*
 * gd_work_interrupts: between two passes.  Ends the process if that was asked
 * for; true if the settings were read anew.
 */
bool
gd_work_interrupts(void)
{
	bool		reloaded = gd_bgw_interrupts(1);

	if (gd_database_must_stop(mine))
		proc_exit(0);
	return reloaded;
}
