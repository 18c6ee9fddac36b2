/*
 * register.c
 *		register_fsm: a machine's settings, and the handlers of its steps.
 *
 * A machine belongs to the role that registered its first version; owners are
 * stored by name, since a role's OID would not survive pg_upgrade.
 *
 * A call without step sets the version's settings, the handler of all its
 * steps among them.  A call with step sets the handler of that step and leaves
 * the settings of a version that is there alone; it may repeat them, but not
 * change them in passing.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "catalog/pg_authid.h"

#include "clock.h"
#include "engine/handler.h"
#include "engine/keylock.h"
#include "engine/machines.h"
#include "engine/runners.h"
#include "fault.h"
#include "json.h"
#include "names.h"
#include "shmem/executors.h"
#include "table.h"

PG_FUNCTION_INFO_V1(gd_register_fsm);

/* Arguments of register_fsm. */
typedef enum RegisterArg
{
	ARG_NAME, ARG_HANDLER, ARG_VERSION, ARG_STEP, ARG_QUEUE, ARG_INITIAL, ARG_MAX_ATTEMPTS,
	ARG_BACKOFF_BASE, ARG_BACKOFF_CAP, ARG_MAX_CRASHES, ARG_ON_ERROR, ARG_STATEMENT_TIMEOUT,
	ARG_INLINE_EXECUTION
} RegisterArg;

/* A setting of a machine: its argument, its column, and its default. */
typedef struct Setting
{
	const char *name;
	RegisterArg arg;
	GdFsmColumn column;
	PGFunction	equal;			/* of its type; NULL: text */
	const char *standard;		/* what the argument is by default */
} Setting;

static const Setting settings[] = {
	{"queue", ARG_QUEUE, FSM_QUEUE, NULL, "default"},
	{"initial", ARG_INITIAL, FSM_INITIAL, NULL, "start"},
	{"max_attempts", ARG_MAX_ATTEMPTS, FSM_MAX_ATTEMPTS, int4eq, "20"},
	{"backoff_base", ARG_BACKOFF_BASE, FSM_BACKOFF_BASE, interval_eq, "1s"},
	{"backoff_cap", ARG_BACKOFF_CAP, FSM_BACKOFF_CAP, interval_eq, "5min"},
	{"max_crashes", ARG_MAX_CRASHES, FSM_MAX_CRASHES, int4eq, "10"},
	{"on_error", ARG_ON_ERROR, FSM_ON_ERROR, NULL, NULL},
	{"statement_timeout", ARG_STATEMENT_TIMEOUT, FSM_STATEMENT_TIMEOUT, interval_eq, NULL},
	{"inline_execution", ARG_INLINE_EXECUTION, FSM_INLINE_EXECUTION, booleq, "f"},
};

/* What a call asks for, checked. */
typedef struct Registration
{
	text	   *name;
	int			version;
	text	   *step;			/* or NULL */
	text	   *owner;
	Datum		values[lengthof(settings)];
	bool		nulls[lengthof(settings)];
} Registration;

/*
 * register_check_owner: only the machine's owner or an admin may change it.
 */
static void
register_check_owner(const text *name, const text *owner)
{
	char	   *owner_name = text_to_cstring(owner);
	Oid			owner_id = get_role_oid(owner_name, true);

	if ((OidIsValid(owner_id) && has_privs_of_role(GetUserId(), owner_id)) || gd_machine_admin())
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("machine \"%s\" belongs to role \"%s\"",
					gd_clip(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name)), owner_name),
			 errhint("Only its owner or an admin may change it or add a version.")));
}

/*
 * register_check_login: before 17 a process of the server cannot be a role
 * that may not log in.
 */
static void
register_check_login(Oid owner)
{
	HeapTuple	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(owner));
	bool		can = HeapTupleIsValid(tuple) && ((Form_pg_authid) GETSTRUCT(tuple))->rolcanlogin;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	if (!can)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION),
				 errmsg("steps cannot run as role \"%s\", which may not log in",
						GetUserNameFromId(owner, true)),
				 errhint("ALTER ROLE ... LOGIN, or use PostgreSQL 17 or newer, where it need not.")));
}

/*
 * register_handler: check an argument that names a function; how it is stored.
 */
static text *
register_handler(FunctionCallInfo fcinfo, RegisterArg arg, GdHandlerKind kind, Oid owner)
{
	if (PG_ARGISNULL(arg))
		return NULL;
	if (GD_EXECUTOR_NEEDS_LOGIN)
		register_check_login(owner);
	return gd_handler_check(PG_GETARG_OID(arg), kind, owner);
}

/*
 * register_was: the handler that a version has where this call would put one;
 * NULL if it has none.
 */
static text *
register_was(const Registration *r, GdRow *row)
{
	JsonbValue	value;

	if (r->step == NULL)
		return GD_IS_NULL(row, FSM_HANDLER) ? NULL : DatumGetTextPP(GD_VALUE(row, FSM_HANDLER));
	if (getKeyJsonValueFromContainer(&DatumGetJsonbP(GD_VALUE(row, FSM_STEP_HANDLERS))->root,
									 VARDATA_ANY(r->step), VARSIZE_ANY_EXHDR(r->step),
									 &value) == NULL || value.type != jbvString)
		return NULL;
	return cstring_to_text_with_len(value.val.string.val, value.val.string.len);
}

/*
 * register_check_right: what runs as the owner is chosen by who may act as it.
 * An admin who may not can change a machine's settings and take handlers away,
 * but an owner with more rights would lend them to whatever the admin names.
 */
static void
register_check_right(const Registration *r, const text *was, const text *handler, Oid owner)
{
	if (handler == NULL || has_privs_of_role(GetUserId(), owner) ||
		(was != NULL && gd_text_equal(was, handler)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("%s would run as role \"%s\", to which machine \"%s\" belongs",
					text_to_cstring(handler), text_to_cstring(r->owner),
					gd_clip(VARDATA_ANY(r->name), VARSIZE_ANY_EXHDR(r->name))),
			 errhint("Only a role that may act as the owner can choose its handlers. An admin may change the other settings, and take handlers away.")));
}

static Interval *
register_interval(FunctionCallInfo fcinfo, int argno, const char *what)
{
	Interval   *span;

	gd_arg_required(fcinfo, argno, what);
	span = PG_GETARG_INTERVAL_P(argno);
	gd_check_not_negative(what, span, NULL);
	return span;
}

static void
register_timeout(FunctionCallInfo fcinfo)
{
	double		ms;

	if (PG_ARGISNULL(ARG_STATEMENT_TIMEOUT))
		return;
	register_interval(fcinfo, ARG_STATEMENT_TIMEOUT, "statement_timeout");
	ms = gd_interval_to_ms(PG_GETARG_INTERVAL_P(ARG_STATEMENT_TIMEOUT));
	if (ms < 1 || ms > PG_INT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("statement_timeout must be 1 ms to %d ms, not %.0f ms", PG_INT32_MAX, ms),
				 errhint("Leave it out for none but the owner's own.")));
}

/*
 * register_read: check the arguments that are settings.
 */
static void
register_read(FunctionCallInfo fcinfo, Registration *r)
{
	gd_arg_name(fcinfo, ARG_QUEUE, "queue");
	gd_arg_name(fcinfo, ARG_INITIAL, "initial step");
	gd_arg_positive(fcinfo, ARG_MAX_ATTEMPTS, "max_attempts");
	register_interval(fcinfo, ARG_BACKOFF_BASE, "backoff_base");
	register_interval(fcinfo, ARG_BACKOFF_CAP, "backoff_cap");
	if (!PG_ARGISNULL(ARG_MAX_CRASHES))
		gd_arg_positive(fcinfo, ARG_MAX_CRASHES, "max_crashes");
	register_timeout(fcinfo);
	gd_arg_required(fcinfo, ARG_INLINE_EXECUTION, "inline_execution");
	for (int i = 0; i < lengthof(settings); i++)
	{
		r->values[i] = PG_GETARG_DATUM(settings[i].arg);
		r->nulls[i] = PG_ARGISNULL(settings[i].arg);
	}
}

static bool
setting_equal(const Setting *setting, Datum a, bool a_null, Datum b, bool b_null)
{
	if (a_null || b_null)
		return a_null == b_null;
	if (setting->equal)
		return DatumGetBool(DirectFunctionCall2(setting->equal, a, b));
	return gd_text_equal(DatumGetTextPP(a), DatumGetTextPP(b));
}

static Datum
setting_standard(const Setting *setting)
{
	const char *standard = setting->standard;

	if (standard == NULL)
		return (Datum) 0;
	if (setting->equal == int4eq)
		return Int32GetDatum(pg_strtoint32(standard));
	if (setting->equal == booleq)
		return BoolGetDatum(false);
	if (setting->equal == interval_eq)
	{
		Interval   *span = palloc(sizeof(Interval));

		gd_parse_interval(setting->name, standard, span, NULL);
		return IntervalPGetDatum(span);
	}
	return CStringGetTextDatum(standard);
}

/*
 * register_check_same: a call for a step must not seem to change a setting of
 * the machine.
 */
static void
register_check_same(const Registration *r, GdRow *row)
{
	for (int i = 0; i < lengthof(settings); i++)
	{
		const Setting *setting = &settings[i];

		if (setting_equal(setting, r->values[i], r->nulls[i], setting_standard(setting),
						  setting->standard == NULL) ||
			setting_equal(setting, r->values[i], r->nulls[i], GD_VALUE(row, setting->column),
						  GD_IS_NULL(row, setting->column)))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s is a setting of machine \"%s\", not of its step \"%s\"", setting->name,
						gd_clip(VARDATA_ANY(r->name), VARSIZE_ANY_EXHDR(r->name)),
						gd_clip(VARDATA_ANY(r->step), VARSIZE_ANY_EXHDR(r->step))),
				 errhint("Register the machine without step to change it.")));
	}
}

/*
 * register_step: the handlers of single steps, with that of one set, or taken
 * out where handler is NULL.
 */
static Datum
register_step(const Registration *r, Datum handlers, const text *handler)
{
	JsonbParseState *to = NULL;
	Datum		step = PointerGetDatum(r->step);
	Jsonb	   *without = DatumGetJsonbP(DirectFunctionCall2(jsonb_delete, handlers, step));

	if (handler == NULL)
	{
		if (JB_ROOT_COUNT(without) == JB_ROOT_COUNT(DatumGetJsonbP(handlers)))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("step \"%s\" of machine \"%s\" has no handler",
							gd_clip(VARDATA_ANY(r->step), VARSIZE_ANY_EXHDR(r->step)),
							gd_clip(VARDATA_ANY(r->name), VARSIZE_ANY_EXHDR(r->name))),
					 errhint("Give a handler to set it; without one it is taken away.")));
		return JsonbPGetDatum(without);
	}
	pushJsonbValue(&to, WJB_BEGIN_OBJECT, NULL);
	gd_json_put_text(&to, text_to_cstring(r->step), handler);
	return DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(without),
							   JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&to, WJB_END_OBJECT,
																			   NULL))));
}

/*
 * register_write: write the version's row; found tells whether it is there,
 * locked and loaded.
 */
static void
register_write(const Registration *r, GdRow *row, bool found, text *handler)
{
	if (!found)
	{
		gd_row_set(row, FSM_NAME, PointerGetDatum(r->name));
		gd_row_set(row, FSM_VERSION, Int32GetDatum(r->version));
		gd_row_set_null(row, FSM_HANDLER);
		gd_row_set(row, FSM_STEP_HANDLERS, DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")));
	}
	gd_row_set(row, FSM_OWNER, PointerGetDatum(r->owner));
	if (r->step)
		gd_row_set(row, FSM_STEP_HANDLERS,
				   register_step(r, GD_VALUE(row, FSM_STEP_HANDLERS), handler));
	else if (handler)
		gd_row_set(row, FSM_HANDLER, PointerGetDatum(handler));
	else
		gd_row_set_null(row, FSM_HANDLER);
	for (int i = 0; i < lengthof(settings) && (!found || r->step == NULL); i++)
		if (r->nulls[i])
			gd_row_set_null(row, settings[i].column);
		else
			gd_row_set(row, settings[i].column, r->values[i]);
	gd_row_set(row, FSM_REGISTERED_AT, TimestampTzGetDatum(gd_now()));
	if (found)
		gd_row_update(row);
	else
		gd_row_insert(row);
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
	Registration r;
	Oid			owner = GetUserId();
	text	   *handler;
	text	   *on_error;
	GdTable    *fsms;
	GdRow	   *row;
	GdScan		scan;
	bool		found;

	gd_writes("gen_durable.register_fsm()");
	r.name = gd_arg_name(fcinfo, ARG_NAME, "machine name");
	r.version = gd_arg_positive(fcinfo, ARG_VERSION, "version");
	r.step = gd_arg_name_or_null(fcinfo, ARG_STEP, "step");
	r.owner = cstring_to_text(GetUserNameFromId(owner, false));
	register_read(fcinfo, &r);

	gd_key_lock("fsm", r.name);
	fsms = gd_table_open(GD_FSMS);
	row = gd_row_create(fsms);
	gd_scan_begin(&scan, fsms, GD_FSMS_PKEY);
	if (gd_machine_find(&scan, r.name, GD_NEWEST_VERSION))
	{
		r.owner = DatumGetTextPCopy(gd_slot_datum(fsms, scan.slot, FSM_OWNER));
		register_check_owner(r.name, r.owner);
		owner = get_role_oid(text_to_cstring(r.owner), true);
		if (!OidIsValid(owner))
		{
			/* Its owner is gone: an admin takes it over. */
			owner = GetUserId();
			r.owner = cstring_to_text(GetUserNameFromId(owner, false));
		}
	}
	found = gd_machine_find(&scan, r.name, r.version) &&
		gd_row_lock(row, &scan.slot->tts_tid, true) == GD_LOCKED;

	handler = register_handler(fcinfo, ARG_HANDLER, GD_HANDLER_STEP, owner);
	on_error = register_handler(fcinfo, ARG_ON_ERROR, GD_HANDLER_ERROR, owner);
	register_check_right(&r, found ? register_was(&r, row) : NULL, handler, owner);
	register_check_right(&r, found && !GD_IS_NULL(row, FSM_ON_ERROR) ?
						 DatumGetTextPP(GD_VALUE(row, FSM_ON_ERROR)) : NULL, on_error, owner);
	for (int i = 0; i < lengthof(settings); i++)
		if (settings[i].arg == ARG_ON_ERROR && on_error)
			r.values[i] = PointerGetDatum(on_error);
	if (found && r.step)
		register_check_same(&r, row);
	register_write(&r, row, found, handler);

	gd_scan_end(&scan);
	gd_row_free(row);
	gd_table_close(fsms);
	gd_table_flush();
	gd_runners_changed();
	gd_executors_look();
	CommandCounterIncrement();
	PG_RETURN_VOID();
}
