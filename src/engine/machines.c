/*
 * machines.c
 *		Registered machines: the settings that instances fall under.
 *
 * A machine need not be registered: an unknown name has the defaults of
 * register_fsm.  A machine belongs to the role that registered its first
 * version; owners are stored by name, since a role's OID would not survive
 * pg_upgrade.
 */
#include "postgres.h"

#include <math.h>

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/keylock.h"
#include "engine/machines.h"
#include "fault.h"
#include "guc.h"
#include "names.h"
#include "table.h"

#define DEFAULT_MAX_ATTEMPTS	20
#define DEFAULT_BACKOFF_BASE	(1 * USECS_PER_SEC)
#define DEFAULT_BACKOFF_CAP		(5 * USECS_PER_MINUTE)
#define DEFAULT_MAX_CRASHES		10

PG_FUNCTION_INFO_V1(gd_register_fsm);

/*
 * machine_find: position a scan of the primary key on a version, or on the
 * newest; false if there is none.
 */
static bool
machine_find(GdScan *scan, const text *name, int version)
{
	gd_scan_text(scan, 1, name);
	if (version != GD_NEWEST_VERSION)
		gd_scan_key(scan, 2, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(version));
	gd_scan_start(scan);
	if (version != GD_NEWEST_VERSION)
		return gd_scan_next(scan);
	return index_getnext_slot(scan->desc, BackwardScanDirection, scan->slot);
}

/*
 * gd_machine_read: a machine's settings.
 */
void
gd_machine_read(const text *name, int version, GdMachine *machine)
{
	GdTable    *fsms = gd_table_open_read(GD_FSMS);
	GdScan		scan;

	machine->name = cstring_to_text_with_len(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));
	machine->newest = version == GD_NEWEST_VERSION;
	gd_scan_begin(&scan, fsms, GD_FSMS_PKEY);
	if (machine_find(&scan, name, version))
	{
		GdRow	   *row = gd_row_create(fsms);

		gd_row_load(row, scan.slot);
		machine->version = DatumGetInt32(GD_VALUE(row, FSM_VERSION));
		machine->queue = DatumGetTextPCopy(GD_VALUE(row, FSM_QUEUE));
		machine->initial = DatumGetTextPCopy(GD_VALUE(row, FSM_INITIAL));
		machine->max_attempts = DatumGetInt32(GD_VALUE(row, FSM_MAX_ATTEMPTS));
		machine->backoff_base = *DatumGetIntervalP(GD_VALUE(row, FSM_BACKOFF_BASE));
		machine->backoff_cap = *DatumGetIntervalP(GD_VALUE(row, FSM_BACKOFF_CAP));
		machine->max_crashes = GD_IS_NULL(row, FSM_MAX_CRASHES) ? -1 :
			DatumGetInt32(GD_VALUE(row, FSM_MAX_CRASHES));
		gd_row_free(row);
	}
	else
	{
		machine->version = version == GD_NEWEST_VERSION ? 1 : version;
		machine->queue = cstring_to_text("default");
		machine->initial = cstring_to_text("start");
		machine->max_attempts = DEFAULT_MAX_ATTEMPTS;
		memset(&machine->backoff_base, 0, sizeof(Interval));
		machine->backoff_base.time = DEFAULT_BACKOFF_BASE;
		memset(&machine->backoff_cap, 0, sizeof(Interval));
		machine->backoff_cap.time = DEFAULT_BACKOFF_CAP;
		machine->max_crashes = DEFAULT_MAX_CRASHES;
	}
	gd_scan_end(&scan);
	gd_table_close(fsms);
}

static double
interval_usecs(const Interval *span)
{
	return span->time + (span->day + 30.0 * span->month) * USECS_PER_DAY;
}

/*
 * gd_machine_backoff: how long to wait before the try after `attempt`, which
 * counts from 0: base x 2^attempt, at most the cap.
 */
Interval *
gd_machine_backoff(const GdMachine *machine, int attempt)
{
	double		wait = ldexp(interval_usecs(&machine->backoff_base), Min(attempt, 200));
	double		cap = interval_usecs(&machine->backoff_cap);

	return gd_interval_from_ms(Min(wait, cap) / 1000.0);
}

/*
 * machine_admin: is the current role an admin?  Admins are those who may
 * grant levels.
 */
static bool
machine_admin(void)
{
	Oid			argtypes[] = {REGROLEOID, TEXTOID};
	Oid			function = LookupFuncName(list_make2(makeString("gen_durable"),
													 makeString("grant_usage")),
										  2, argtypes, false);

	return gd_proc_aclcheck(function, GetUserId(), ACL_EXECUTE) == ACLCHECK_OK;
}

/*
 * machine_check_owner: only the machine's owner or an admin may change it.
 */
static void
machine_check_owner(const text *name, const text *owner)
{
	char	   *owner_name = text_to_cstring(owner);
	Oid			owner_id = get_role_oid(owner_name, true);

	if ((OidIsValid(owner_id) && has_privs_of_role(GetUserId(), owner_id)) || machine_admin())
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("machine \"%s\" belongs to role \"%s\"",
					gd_clip(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name)), owner_name),
			 errhint("Only its owner or an admin may change it or add a version.")));
}

static Interval *
machine_arg_interval(FunctionCallInfo fcinfo, int argno, const char *what)
{
	Interval   *span;

	gd_arg_required(fcinfo, argno, what);
	span = PG_GETARG_INTERVAL_P(argno);
	gd_check_not_negative(what, span, NULL);
	return span;
}

/*
 * register_fsm(name, handler, version, step, queue, initial, max_attempts,
 *				backoff_base, backoff_cap, max_crashes, on_error,
 *				statement_timeout, inline_execution)
 *
 * Registering a version again changes its settings; instances that run on it
 * fall under them at once.  A lock on the name keeps two roles from
 * both becoming its first owner.
 */
Datum
gd_register_fsm(PG_FUNCTION_ARGS)
{
	text	   *name = gd_arg_name(fcinfo, 0, "machine name");
	int			version = gd_arg_positive(fcinfo, 2, "version");
	text	   *queue = gd_arg_name(fcinfo, 4, "queue");
	text	   *initial = gd_arg_name(fcinfo, 5, "initial step");
	int			max_attempts = gd_arg_positive(fcinfo, 6, "max_attempts");
	Interval   *base = machine_arg_interval(fcinfo, 7, "backoff_base");
	Interval   *cap = machine_arg_interval(fcinfo, 8, "backoff_cap");
	text	   *owner = cstring_to_text(GetUserNameFromId(GetUserId(), false));
	GdTable    *fsms;
	GdRow	   *row;
	GdScan		scan;
	bool		found;

	gd_writes("gen_durable.register_fsm()");
	if (!PG_ARGISNULL(1) || !PG_ARGISNULL(3) || !PG_ARGISNULL(10) || !PG_ARGISNULL(11))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("this version of gen_durable runs no steps in the server"),
				 errhint("Leave handler, step, on_error and statement_timeout out, and run the steps in a worker.")));
	if (!PG_ARGISNULL(9))
		gd_arg_positive(fcinfo, 9, "max_crashes");
	gd_arg_required(fcinfo, 12, "inline_execution");

	gd_key_lock("fsm", name);
	fsms = gd_table_open(GD_FSMS);
	row = gd_row_create(fsms);
	gd_scan_begin(&scan, fsms, GD_FSMS_PKEY);
	if (machine_find(&scan, name, GD_NEWEST_VERSION))
	{
		owner = DatumGetTextPCopy(gd_slot_datum(fsms, scan.slot, FSM_OWNER));
		machine_check_owner(name, owner);
	}
	found = machine_find(&scan, name, version) &&
		gd_row_lock(row, &scan.slot->tts_tid, true) == GD_LOCKED;

	gd_row_set(row, FSM_NAME, PointerGetDatum(name));
	gd_row_set(row, FSM_VERSION, Int32GetDatum(version));
	gd_row_set(row, FSM_OWNER, PointerGetDatum(owner));
	gd_row_set(row, FSM_QUEUE, PointerGetDatum(queue));
	gd_row_set(row, FSM_INITIAL, PointerGetDatum(initial));
	gd_row_set(row, FSM_MAX_ATTEMPTS, Int32GetDatum(max_attempts));
	gd_row_set(row, FSM_BACKOFF_BASE, IntervalPGetDatum(base));
	gd_row_set(row, FSM_BACKOFF_CAP, IntervalPGetDatum(cap));
	if (PG_ARGISNULL(9))
		gd_row_set_null(row, FSM_MAX_CRASHES);
	else
		gd_row_set(row, FSM_MAX_CRASHES, PG_GETARG_DATUM(9));
	gd_row_set(row, FSM_INLINE_EXECUTION, PG_GETARG_DATUM(12));
	gd_row_set(row, FSM_REGISTERED_AT, TimestampTzGetDatum(gd_now()));
	if (found)
		gd_row_update(row);
	else
		gd_row_insert(row);

	gd_scan_end(&scan);
	gd_row_free(row);
	gd_table_close(fsms);
	gd_table_flush();
	PG_RETURN_VOID();
}
