/*
 * vacuum.c
 *		Vacuums the instances when the steps ask for it, and not only when
 *		autovacuum's next turn comes.
 *
 * At tens of thousands of steps a second the pick index grows by megabytes a
 * second between two vacuums, and autovacuum looks at a database once a minute
 * only.  So the maintainer watches how many row versions have died, which the
 * statistics know without a look at the table, and has a process of its own
 * vacuum them: the passes go on meanwhile.  That process is the maintainer's;
 * it ends before the maintainer does.
 *
 * Autovacuum is left to its own turns, and where it is off, so is this.  The
 * lock is VACUUM's, and is not waited for.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/timestamp.h"

#include "bgw/bgw.h"
#include "bgw/vacuum.h"
#include "compat.h"
#include "guc.h"

#define VACUUM_TYPE "gen_durable vacuum"

/* Fewer dead row versions than this are not worth a vacuum. */
#define LEAST_DEAD 200000

/* The table and its database, as the process is told them. */
typedef struct Target
{
	Oid			database;
	Oid			table;
} Target;

static BackgroundWorkerHandle *process = NULL;
static int64 left_dead = 0;		/* what the last vacuum could not remove */

/*
 * vacuum_running: is the process there?  When it has ended, what it left is
 * taken down: an old snapshot may keep it from removing anything, and then it
 * is not to try again at once.
 */
static bool
vacuum_running(const PgStat_StatTabEntry *stats)
{
	pid_t		pid;

	if (process == NULL)
		return false;
	if (GetBackgroundWorkerPid(process, &pid) != BGWH_STOPPED)
		return true;
	pfree(process);
	process = NULL;
	left_dead = gd_stat_dead_tuples(stats);
	return false;
}

/*
 * vacuum_start: if there is no worker slot, the next look tries again.
 */
static void
vacuum_start(Oid table)
{
	Target		target = {.database = MyDatabaseId,.table = table};
	char		name[BGW_MAXLEN];

	snprintf(name, sizeof(name), "%s for database %u", VACUUM_TYPE, MyDatabaseId);
	process = gd_bgw_start(VACUUM_TYPE, name, "gd_vacuum_main", (Datum) 0, &target, sizeof(target));
}

/*
 * gd_vacuum_look: have the table vacuumed if enough has died since the last
 * time.  In a transaction.
 */
void
gd_vacuum_look(Oid table)
{
	const PgStat_StatTabEntry *stats = pgstat_fetch_stat_tabentry(table);
	double		most;

	if (stats == NULL || vacuum_running(stats))
		return;
	/* A vacuum of somebody else's removed them. */
	left_dead = Min(left_dead, gd_stat_dead_tuples(stats));
	if (gd_vacuum_churn == 0 || !AutoVacuumingActive())
		return;
	most = Max(LEAST_DEAD, gd_vacuum_churn * (double) gd_stat_live_tuples(stats));
	if (gd_stat_dead_tuples(stats) - left_dead > most)
		vacuum_start(table);
}

/*
 * gd_vacuum_stop: end the process, if there is one, and wait for its end.
 */
void
gd_vacuum_stop(void)
{
	if (process == NULL)
		return;
	TerminateBackgroundWorker(process);
	(void) WaitForBackgroundWorkerShutdown(process);
	pfree(process);
	process = NULL;
}

/*
 * vacuum_statement: VACUUM (SKIP_LOCKED, TRUNCATE off) of a table.  Without
 * truncation it never needs the lock that stops everybody.
 */
static VacuumStmt *
vacuum_statement(Oid table)
{
	VacuumStmt *statement = makeNode(VacuumStmt);

	statement->options = list_make2(makeDefElem("skip_locked", (Node *) makeBoolean(true), -1),
									makeDefElem("truncate", (Node *) makeBoolean(false), -1));
	statement->rels = list_make1(makeVacuumRelation(NULL, table, NIL));
	statement->is_vacuumcmd = true;
	return statement;
}

/*
 * gd_vacuum_main: the process; it vacuums once and ends.
 */
void
gd_vacuum_main(Datum arg)
{
	Target		target;
	MemoryContext context;

	memcpy(&target, MyBgworkerEntry->bgw_extra, sizeof(target));
	gd_bgw_begin();
	gd_bgw_connect(target.database);
	context = AllocSetContextCreate(TopMemoryContext, VACUUM_TYPE, ALLOCSET_DEFAULT_SIZES);
	PortalContext = context;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	pgstat_report_activity(STATE_RUNNING, "VACUUM gen_durable.instances");
	MemoryContextSwitchTo(context);
	ExecVacuum(make_parsestate(NULL), vacuum_statement(target.table), true);
	CommitTransactionCommand();
	proc_exit(0);
}
