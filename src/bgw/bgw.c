/*
 * bgw.c
 *		What the background processes share: their starts, signals and waits.
 *
 * SIGTERM is taken note of and acted on between two pieces of work, or where
 * a piece of work looks for interrupts, never in the signal handler.  A wait
 * holds no snapshot and answers barriers, so that no process of ours stands in
 * the way of another database's DROP.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "bgw/bgw.h"
#include "compat.h"

/* A lack of worker slots is over when it was not felt for so long. */
#define SHORTAGE_OVER_MS 60000

/*
 * gd_bgw_start: ask the postmaster for a process of a database, which runs a
 * function once and tells this process of its begin and end.  type is what
 * pg_stat_activity shows, extra goes into bgw_extra.  Returns the handle, in
 * TopMemoryContext, or NULL if there is no worker slot.
 */
BackgroundWorkerHandle *
gd_bgw_start(const char *type, const char *name, const char *function, Datum arg,
			 const void *extra, Size extra_len)
{
	BackgroundWorker worker = {0};
	BackgroundWorkerHandle *handle;
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	bool		done;

	Assert(extra_len <= BGW_EXTRALEN);
	strlcpy(worker.bgw_name, name, BGW_MAXLEN);
	strlcpy(worker.bgw_type, type, BGW_MAXLEN);
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "gen_durable", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, function, sizeof(worker.bgw_function_name));
	worker.bgw_main_arg = arg;
	memcpy(worker.bgw_extra, extra, extra_len);
	worker.bgw_notify_pid = MyProcPid;
	done = RegisterDynamicBackgroundWorker(&worker, &handle);
	MemoryContextSwitchTo(old);
	return done ? handle : NULL;
}

/*
 * gd_bgw_shortage: note that a process found no worker slot; true if that is
 * news for the log.  Slots that come and go while there are too few are one
 * shortage, which is over when nobody has lacked one for a while.
 */
bool
gd_bgw_shortage(TimestampTz *last, TimestampTz now)
{
	bool		news = now - *last > SHORTAGE_OVER_MS * INT64CONST(1000);

	*last = now;
	return news;
}

/*
 * gd_bgw_begin: first thing of every process, with signals still blocked.
 */
void
gd_bgw_begin(void)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
}

/*
 * gd_bgw_set: a setting of this process, where the server has it.
 */
void
gd_bgw_set(const char *name, const char *value)
{
	if (GetConfigOption(name, true, false))
		SetConfigOption(name, value, PGC_SUSET, PGC_S_OVERRIDE);
}

/*
 * gd_bgw_connect: become a session of the database, which no setting of a
 * user's can lead astray.
 */
void
gd_bgw_connect(Oid database)
{
	static const char *const settings[][2] = {
		{"search_path", "pg_catalog, pg_temp"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"lock_timeout", "0"},
		{"idle_in_transaction_session_timeout", "0"},
		{"transaction_timeout", "0"},	/* from 17 on */
	};

	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
	for (int i = 0; i < lengthof(settings); i++)
		gd_bgw_set(settings[i][0], settings[i][1]);
	SetConfigOption("application_name", MyBgworkerEntry->bgw_type, PGC_USERSET, PGC_S_OVERRIDE);
}

/*
 * gd_bgw_interrupts: between two pieces of work.  Ends the process if that
 * was asked for, or if the postmaster has died: a process that never sleeps
 * would keep the server from being started again.  True if the settings were
 * read anew.
 */
bool
gd_bgw_interrupts(int exit_code)
{
	if (!PostmasterIsAlive())
		proc_exit(1);
	if (ProcDiePending)
	{
		ereport(DEBUG1, (errmsg_internal("%s shutting down", MyBgworkerEntry->bgw_type)));
		proc_exit(exit_code);
	}
	CHECK_FOR_INTERRUPTS();
	if (!ConfigReloadPending)
		return false;
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	return true;
}

/*
 * gd_bgw_sleep: wait for the latch, at most until an instant of the wall
 * clock; true if the latch was set.
 */
bool
gd_bgw_sleep(TimestampTz until, const char *wait_event)
{
	int			events = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH;
	long		ms = 0;
	int			occurred;

	if (until != DT_NOEND)
	{
		/* Never before the instant: it rounds up. */
		ms = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until) + 1;
		events |= WL_TIMEOUT;
	}
	occurred = WaitLatch(MyLatch, events, ms, gd_wait_event(wait_event));
	ResetLatch(MyLatch);
	return (occurred & WL_LATCH_SET) != 0;
}
