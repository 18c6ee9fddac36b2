/*
 * maintainer.c
 *		The maintainer of one database: does what the passing of time asks for,
 *		when it asks for it.
 *
 * Each kind of work is one bounded pass in a transaction of its own, as the
 * extension's owner.  Between passes it sleeps, without a snapshot, until the
 * next instant that matters: the first end of a lease, the first await
 * deadline, or the next turn by an interval.  Committing backends wake it if
 * they made something due earlier than it knows of.  README.md has the states.
 *
 * An error ends the process; the launcher starts it again.
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
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "bgw/bgw.h"
#include "bgw/vacuum.h"
#include "clock.h"
#include "engine/blocked.h"
#include "engine/census.h"
#include "engine/effects.h"
#include "engine/maintenance.h"
#include "guc.h"
#include "shmem/databases.h"
#include "table.h"
#include "version.h"

#define EXTENSION_NAME "gen_durable"

/* How much one pass does at most. */
#define PASS_ROWS 1000
#define PASS_KEYS 1000

/* So many times its own length lies between two censuses at least. */
#define CENSUS_SHARE 100

/* What is due but locked by others is tried again after so long, doubled. */
#define RETRY_MS 100
#define RETRY_MAX_DOUBLINGS 4

/* While another database is counted. */
#define CENSUS_RETRY_MS 1000
/* While steps run it looks as often whether a vacuum is asked for. */
#define VACUUM_LOOK_MS 5000

#define MS INT64CONST(1000)

typedef enum Found
{
	FOUND_NOTHING,
	FOUND_OTHER_VERSION,
	FOUND_EXTENSION
} Found;

/* One pass; returns how much it did. */
typedef int64 (*Pass) (void);

/* What makes a pass due. */
typedef enum When
{
	EVERY_TURN,
	WITH_GC,
	WITH_CENSUS
} When;

static GdLaunch launch;
static bool said_version = false;	/* since the versions last agreed */

/* What the last look at the tables found to be due next. */
static TimestampTz next_due;
static bool steps_run;			/* something is claimed */

/* When gc and the census were last done, by the wall clock. */
static TimestampTz last_gc = 0;
static TimestampTz last_census = 0;
static bool counted = false;	/* the last census was complete */
static int64 census_rest = 0;	/* after a long one, microseconds */

/*
 * maintainer_read: the extension's row as it is now.
 */
static Oid
maintainer_read(Oid *owner, char **version)
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
 * maintainer_look: is the extension here, in the library's version?  If so it
 * stays locked against DROP and UPDATE until the transaction ends.
 */
static Found
maintainer_look(Oid *owner, char **version)
{
	Oid			extension = maintainer_read(owner, version);

	if (!OidIsValid(extension))
		return FOUND_NOTHING;
	LockDatabaseObject(ExtensionRelationId, extension, 0, AccessShareLock);
	if (maintainer_read(owner, version) != extension)
		return FOUND_NOTHING;
	return strcmp(*version, GD_VERSION) == 0 ? FOUND_EXTENSION : FOUND_OTHER_VERSION;
}

/*
 * maintainer_say_version: once, until the versions agree.
 */
static void
maintainer_say_version(Found found, const char *version)
{
	if (found == FOUND_OTHER_VERSION && !said_version)
		ereport(LOG,
				(errmsg("gen_durable does no maintenance in database \"%s\": its version there is %s, and the library's is %s",
						get_database_name(MyDatabaseId), version, GD_VERSION),
				 errhint("Run ALTER EXTENSION gen_durable UPDATE there, or restart the server if the library was replaced.")));
	said_version = found == FOUND_OTHER_VERSION;
}

/*
 * maintainer_run: one pass in a transaction of its own, if the extension is
 * here; done is what the pass returned.
 */
static Found
maintainer_run(Pass pass, int64 *done)
{
	Oid			owner;
	Oid			save_user;
	int			save_context;
	char	   *version;
	Found		found;

	*done = 0;
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	pgstat_report_activity(STATE_RUNNING, "gen_durable maintenance");
	PushActiveSnapshot(GetTransactionSnapshot());
	found = maintainer_look(&owner, &version);
	maintainer_say_version(found, version);
	if (found == FOUND_EXTENSION)
	{
		GetUserIdAndSecContext(&save_user, &save_context);
		SetUserIdAndSecContext(owner, save_context | SECURITY_LOCAL_USERID_CHANGE);
		*done = pass();
		gd_effects_apply();
		SetUserIdAndSecContext(save_user, save_context);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	pgstat_report_stat(true);
	pgstat_report_activity(STATE_IDLE, NULL);
	return found;
}

static int64
pass_reap(void)
{
	return gd_reap_pass(PASS_ROWS);
}

static int64
pass_timeouts(void)
{
	return gd_timeouts_pass(PASS_ROWS);
}

static int64
pass_blocked(void)
{
	GdTable    *instances = gd_table_open(GD_INSTANCES);
	int			promoted = gd_blocked_recheck(instances, PASS_KEYS, gd_now());

	gd_table_close(instances);
	return promoted;
}

static int64
pass_gc(void)
{
	return gd_gc_all(gd_interval_from_ms(gd_gc_retention * 1000.0), gd_gc_batch);
}

static bool
census_give_up(void)
{
	return gd_database_must_stop(&launch);
}

/*
 * pass_census: a long one is made more seldom.
 */
static int64
pass_census(void)
{
	TimestampTz start = GetCurrentTimestamp();

	counted = gd_census(census_give_up) >= 0;
	last_census = GetCurrentTimestamp();
	census_rest = (last_census - start) * CENSUS_SHARE;
	return 0;
}

/*
 * maintainer_due: when passes are due, by the wall clock.
 */
static TimestampTz
maintainer_due(When when)
{
	if (when == WITH_GC)
		return last_gc + gd_gc_interval * MS;
	if (when == EVERY_TURN || last_census == 0)
		return 0;
	if (!counted)
		return last_census + CENSUS_RETRY_MS * MS;
	return gd_stats_interval < 0 ? DT_NOEND :
		last_census + Max(gd_stats_interval * MS, census_rest);
}

/*
 * first_of: the first instant in an index, or the end of time.
 */
static TimestampTz
first_of(GdTable *instances, GdIndexId index, int column)
{
	TimestampTz first = DT_NOEND;
	GdScan		scan;

	gd_scan_begin(&scan, instances, index);
	gd_scan_key(&scan, 1, BTGreaterEqualStrategyNumber, F_TIMESTAMPTZ_GE,
				TimestampTzGetDatum(DT_NOBEGIN));
	gd_scan_start(&scan);
	if (gd_scan_next(&scan))
		first = DatumGetTimestampTz(gd_slot_datum(instances, scan.slot, column));
	gd_scan_end(&scan);
	return first;
}

static int64
pass_next_due(void)
{
	GdTable    *instances = gd_table_open(GD_INSTANCES);
	TimestampTz lease = first_of(instances, GD_INSTANCES_LEASE, INST_LEASE_EXPIRES_AT);
	TimestampTz deadline = first_of(instances, GD_INSTANCES_DEADLINE, INST_AWAIT_DEADLINE);

	gd_vacuum_look(RelationGetRelid(instances->rel));
	gd_table_close(instances);
	next_due = Min(lease, deadline);
	steps_run = lease != DT_NOEND;
	return 0;
}

/*
 * maintainer_work: all passes that are due.  more: a pass came to its bound.
 */
static Found
maintainer_work(TimestampTz now, int64 *done, bool *more)
{
	static const int pass_rows = PASS_ROWS;
	static const struct
	{
		Pass		pass;
		When		when;
		const int  *bound;		/* it did as much: there may be more */
	}			passes[] = {
		{pass_reap, EVERY_TURN, &pass_rows},
		{pass_timeouts, EVERY_TURN, &pass_rows},
		{pass_blocked, EVERY_TURN, &pass_rows},
		{pass_gc, WITH_GC, &gd_gc_batch},
		{pass_census, WITH_CENSUS, NULL},
		{pass_next_due, EVERY_TURN, NULL},
	};

	*done = 0;
	*more = false;
	for (int i = 0; i < lengthof(passes); i++)
	{
		int64		n;
		Found		found;

		if (maintainer_due(passes[i].when) > now)
			continue;
		found = maintainer_run(passes[i].pass, &n);
		if (found != FOUND_EXTENSION)
			return found;
		*done += n;
		*more |= passes[i].bound && n >= *passes[i].bound;
		gd_bgw_interrupts(1);
		if (gd_database_must_stop(&launch))
			proc_exit(0);
	}
	return FOUND_EXTENSION;
}

/*
 * maintainer_wake_at: when to look again, by the wall clock.
 */
static TimestampTz
maintainer_wake_at(bool idle, int *retries)
{
	TimestampTz now = GetCurrentTimestamp();
	int64		offset = gd_now() - now;
	TimestampTz latest = Min(now + gd_reaper_interval * MS,
							 Min(maintainer_due(WITH_GC), maintainer_due(WITH_CENSUS)));
	TimestampTz at = Min(next_due, latest + offset) - offset;

	if (steps_run)
		at = Min(at, now + VACUUM_LOOK_MS * MS);

	/* Due, and yet the passes did nothing: others have it locked. */
	if (idle && at <= now)
	{
		at = now + ((RETRY_MS * MS) << *retries);
		*retries = Min(*retries + 1, RETRY_MAX_DOUBLINGS);
	}
	else
		*retries = 0;
	return gd_database_due_known(&launch, at + offset) - offset;
}

static void
maintainer_leave(int code, Datum arg)
{
	gd_vacuum_stop();
}

static void
maintainer_exit(int code, Datum arg)
{
	gd_database_detach(&launch, code != 0);
}

void
gd_maintainer_main(Datum arg)
{
	bool		more;
	int			retries = 0;

	launch.slot = DatumGetInt32(arg);
	memcpy(&launch.generation, MyBgworkerEntry->bgw_extra, sizeof(launch.generation));

	/*
	 * Registered before the connection, so it runs after the process has left
	 * the list of the database's sessions: who waits for that may go on.
	 */
	on_shmem_exit(maintainer_exit, (Datum) 0);
	before_shmem_exit(maintainer_leave, (Datum) 0);
	if (!gd_database_attach(&launch))
		proc_exit(0);
	gd_bgw_begin();
	gd_bgw_connect(launch.database);
	for (;;)
	{
		uint32		requests = gd_database_requests(&launch);
		TimestampTz now = GetCurrentTimestamp();
		TimestampTz wake_at;
		Found		found = FOUND_NOTHING;
		int64		done = 0;

		gd_bgw_interrupts(1);
		if (gd_database_must_stop(&launch))
			proc_exit(0);

		gd_database_due_reset(&launch);
		if (gd_enabled)
			found = maintainer_work(now, &done, &more);
		if (found == FOUND_NOTHING)
		{
			gd_database_unwanted(&launch, requests);
			proc_exit(0);
		}
		if (found == FOUND_OTHER_VERSION)
			wake_at = DT_NOEND;
		else if (more)
			continue;
		else
		{
			if (maintainer_due(WITH_GC) <= now)
				last_gc = now;
			wake_at = maintainer_wake_at(done == 0, &retries);
		}
		gd_bgw_sleep(wake_at, "GenDurableMaintainer");
	}
}
