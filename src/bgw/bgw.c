/*
 * bgw.c
 *		What the background processes share: their signals, and their waits.
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
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "bgw/bgw.h"
#include "compat.h"

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
	};

	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
	for (int i = 0; i < lengthof(settings); i++)
		SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("application_name", MyBgworkerEntry->bgw_type, PGC_USERSET, PGC_S_OVERRIDE);
}

/*
 * gd_bgw_interrupts: between two pieces of work.  Ends the process if that
 * was asked for; true if the settings were read anew.
 */
bool
gd_bgw_interrupts(int exit_code)
{
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
 * clock.
 */
void
gd_bgw_sleep(TimestampTz until, const char *wait_event)
{
	int			events = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH;
	long		ms = 0;

	if (until != DT_NOEND)
	{
		/* Never before the instant: it rounds up. */
		ms = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until) + 1;
		events |= WL_TIMEOUT;
	}
	WaitLatch(MyLatch, events, ms, gd_wait_event(wait_event));
	ResetLatch(MyLatch);
}
