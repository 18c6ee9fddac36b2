/*
 * machines.c
 *		Registered machines: the settings that instances fall under.
 *
 * A machine need not be registered: an unknown name has the defaults of
 * register_fsm.
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

/*
 * gd_machine_find: position a scan of the primary key on a version, or on the
 * newest; false if there is none.
 */
bool
gd_machine_find(GdScan *scan, const text *name, int version)
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
	if (gd_machine_find(&scan, name, version))
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

/*
 * gd_machine_backoff: how long to wait before the try after `attempt`, which
 * counts from 0: base x 2^attempt, at most the cap.
 */
Interval *
gd_machine_backoff(const GdMachine *machine, int attempt)
{
	double		wait = ldexp(gd_interval_to_ms(&machine->backoff_base), Min(attempt, 200));
	double		cap = gd_interval_to_ms(&machine->backoff_cap);

	return gd_interval_from_ms(Min(wait, cap));
}

/*
 * gd_machine_admin: is the current role an admin?  Admins are those who may
 * grant levels.
 */
bool
gd_machine_admin(void)
{
	Oid			argtypes[] = {REGROLEOID, TEXTOID};
	Oid			function = LookupFuncName(list_make2(makeString("gen_durable"),
													 makeString("grant_usage")),
										  2, argtypes, false);

	return gd_proc_aclcheck(function, GetUserId(), ACL_EXECUTE) == ACLCHECK_OK;
}
