/*
 * ddl.c
 *		Commands that the background processes must hear of, or make way for.
 *
 * CREATE, ALTER and DROP EXTENSION: the database's processes are asked to look,
 * at commit, and not at all on rollback.
 *
 * DROP DATABASE, CREATE DATABASE ... TEMPLATE, ALTER DATABASE RENAME and SET
 * TABLESPACE need the database without sessions: its processes are stopped,
 * with their answer, before the command, and held back until the transaction
 * ends.  Then the launcher starts them again, if there is still something to
 * start.
 *
 * ALTER DATABASE SET and RESET: the processes begin anew with the settings.
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "bgw/bgw.h"
#include "compat.h"
#include "engine/step.h"
#include "shmem/databases.h"
#include "shmem/executors.h"

/* Processes that have not ended by themselves after so long are told by SIGTERM. */
#define POLITE_MS 3000

/* So long the command waits in all; then it must see for itself. */
#define PATIENCE_MS 15000

static ProcessUtility_hook_type prev_process_utility = NULL;
static object_access_hook_type prev_object_access = NULL;

/* What the running transaction tells at its end. */
static bool look_here = false;	/* at commit: at this database */
static bool look_everywhere = false;	/* at commit */
static Oid	restart = InvalidOid;	/* at commit */
static List *held = NIL;		/* in any case; in TopMemoryContext */

/*
 * ddl_wait: until the processes of a held database have ended.
 */
static void
ddl_wait(Oid database)
{
	TimestampTz start = GetCurrentTimestamp();
	bool		told = false;
	pid_t		pids[GD_NPROCESSES];

	gd_executors_stop(database);
	while (!gd_database_is_quiet(database, pids) | !gd_executors_quiet(database, false))
	{
		TimestampTz now = GetCurrentTimestamp();

		if (!told && TimestampDifferenceExceeds(start, now, POLITE_MS))
		{
			for (int k = 0; k < GD_NPROCESSES; k++)
				if (pids[k] != 0)
					kill(pids[k], SIGTERM);
			(void) gd_executors_quiet(database, true);
			told = true;
		}
		if (TimestampDifferenceExceeds(start, now, PATIENCE_MS))
			break;
		CHECK_FOR_INTERRUPTS();
		WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 10,
				  gd_wait_event("GenDurableStop"));
		ResetLatch(MyLatch);
	}
}

/*
 * ddl_hold: stop the processes of a database that the user may command.
 */
static void
ddl_hold(const char *name)
{
	Oid			database = name ? get_database_oid(name, true) : InvalidOid;
	MemoryContext old;

	if (!OidIsValid(database) || !gd_database_ownercheck(database, GetUserId()))
		return;
	/* An executor would wait for itself, for a command that cannot succeed. */
	if (database == MyDatabaseId && gd_step_running())
		return;
	old = MemoryContextSwitchTo(TopMemoryContext);
	held = lappend_oid(held, InvalidOid);
	MemoryContextSwitchTo(old);
	if (gd_database_hold(database))
		llast_oid(held) = database;
	ddl_wait(database);
}

static const char *
ddl_option(List *options, const char *name)
{
	ListCell   *cell;

	foreach(cell, options)
	{
		DefElem    *option = lfirst(cell);

		if (strcmp(option->defname, name) == 0 && option->arg)
			return defGetString(option);
	}
	return NULL;
}

/*
 * ddl_before: make way for a command, and note what to tell at commit.
 */
static void
ddl_before(Node *command)
{
	switch (nodeTag(command))
	{
		case T_DropdbStmt:
			ddl_hold(((DropdbStmt *) command)->dbname);
			break;
		case T_CreatedbStmt:
			ddl_hold(ddl_option(((CreatedbStmt *) command)->options, "template"));
			look_everywhere = true;
			break;
		case T_RenameStmt:
			if (((RenameStmt *) command)->renameType == OBJECT_DATABASE)
				ddl_hold(((RenameStmt *) command)->subname);
			break;
		case T_AlterDatabaseStmt:
			if (ddl_option(((AlterDatabaseStmt *) command)->options, "tablespace"))
				ddl_hold(((AlterDatabaseStmt *) command)->dbname);
			else
				look_everywhere = true; /* it may take connections now */
			break;
		case T_AlterDatabaseSetStmt:
			restart = get_database_oid(((AlterDatabaseSetStmt *) command)->dbname, true);
			break;
		default:
			break;
	}
}

static void
ddl_process_utility(PlannedStmt *pstmt, const char *query, bool read_only,
					ProcessUtilityContext context, ParamListInfo params,
					QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	ddl_before(pstmt->utilityStmt);
	if (prev_process_utility)
		prev_process_utility(pstmt, query, read_only, context, params, env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query, read_only, context, params, env, dest, qc);
}

static void
ddl_object_access(ObjectAccessType access, Oid class, Oid object, int sub, void *arg)
{
	if (prev_object_access)
		prev_object_access(access, class, object, sub, arg);
	if (class == ExtensionRelationId &&
		(access == OAT_POST_CREATE || access == OAT_POST_ALTER || access == OAT_DROP))
		look_here = true;
}

static void
ddl_xact_callback(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;
	if (event == XACT_EVENT_COMMIT)
	{
		if (look_here)
			gd_executors_stop(MyDatabaseId);
		if ((look_here && !gd_database_request(MyDatabaseId, false)) || look_everywhere)
			gd_databases_rescan();
		if (OidIsValid(restart))
		{
			gd_database_request(restart, true);
			gd_executors_stop(restart);
		}
	}
	look_here = look_everywhere = false;
	restart = InvalidOid;
	for (int i = 0; i < list_length(held); i++)
		gd_database_unhold(list_nth_oid(held, i));
	list_free(held);
	held = NIL;
}

void
gd_ddl_init(void)
{
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = ddl_process_utility;
	prev_object_access = object_access_hook;
	object_access_hook = ddl_object_access;
	RegisterXactCallback(ddl_xact_callback, NULL);
}
