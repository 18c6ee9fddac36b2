/*
 * mutate.c
 *		run_mutate: a decision about a run, made under its lock.
 *
 * The caller's function is called with the run as it is locked, with the
 * caller's own rights, and says whether to commit a next checkpoint, to leave
 * the run alone, or that it cannot be done.  The role and the settings that it
 * sets end with it: the commit, and the caller, have their own.  Claims pass
 * the run over meanwhile, and other mutations wait, so none is lost (DK-147).
 *
 * Locks: the run's row, before the function is called.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "compat.h"
#include "names.h"
#include "run_store/commit.h"

PG_FUNCTION_INFO_V1(gd_run_mutate);

/* Fields of type run_decision. */
enum
{
	DECISION_ACTION, DECISION_RUN, DECISION_TYPE, DECISION_SCHEDULE,
	DECISION_WAKE_AT, DECISION_VALUE,
	DECISION_NFIELDS
};

/* Fields of type run. */
enum
{
	FIELD_RUN_ID, FIELD_GRAPH_ID, FIELD_GRAPH_HASH, FIELD_STATUS, FIELD_STEP,
	FIELD_SEQ, FIELD_STATE, FIELD_STARTED_AT, FIELD_UPDATED_AT,
	FIELD_FINISHED_AT,
	RUN_NFIELDS
};

static Oid
mutate_type(const char *name)
{
	return GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum(name),
						   ObjectIdGetDatum(get_rel_namespace(gd_catalog()->table[GD_RUNS])));
}

/*
 * mutate_check_function: is it a function (run, jsonb) that returns
 * run_decision, and may the caller execute it?
 */
static void
mutate_check_function(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Form_pg_proc form;
	bool		fits;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("decide %u is no function", function)));
	form = (Form_pg_proc) GETSTRUCT(tuple);
	fits = form->prokind == PROKIND_FUNCTION && !form->proretset && form->pronargs == 2 &&
		form->proargtypes.values[0] == mutate_type("run") &&
		form->proargtypes.values[1] == JSONBOID &&
		form->prorettype == mutate_type("run_decision");
	ReleaseSysCache(tuple);
	if (!fits)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_FUNCTION_DEFINITION),
				 errmsg("decide \"%s\" must be a function (gen_durable.run, jsonb) that returns gen_durable.run_decision",
						format_procedure(function))));
	if (gd_proc_aclcheck(function, GetUserId(), ACL_EXECUTE) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FUNCTION, get_func_name(function));
}

/*
 * mutate_deform: the fields of a composite value.
 */
static void
mutate_deform(Datum composite, int nfields, Datum *values, bool *nulls)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(composite);
	TupleDesc	desc = lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(header),
											  HeapTupleHeaderGetTypMod(header));
	HeapTupleData tuple;

	if (desc->natts != nfields)
		elog(ERROR, "type has %d fields, not %d", desc->natts, nfields);
	tuple.t_len = HeapTupleHeaderGetDatumLength(header);
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_tableOid = InvalidOid;
	tuple.t_data = header;
	heap_deform_tuple(&tuple, desc, values, nulls);
	ReleaseTupleDesc(desc);
}

static void
mutate_invalid(const char *what)
{
	ereport(ERROR,
			(errcode(GD_ERRCODE_INVALID_COMMIT),
			 errmsg("the decision has %s", what)));
}

static GdRunTime
mutate_time(Datum value, bool isnull)
{
	GdRunTime	time = {!isnull, isnull ? 0 : DatumGetTimestampTz(value)};

	return time;
}

/*
 * mutate_propose: the proposal that a decision to commit makes.
 */
static void
mutate_propose(const Datum *decision, const bool *decision_nulls, GdRow *row,
			   GdRunProposal *proposal)
{
	Datum		run[RUN_NFIELDS];
	bool		nulls[RUN_NFIELDS];

	if (decision_nulls[DECISION_RUN])
		mutate_invalid("no run to commit");
	mutate_deform(decision[DECISION_RUN], RUN_NFIELDS, run, nulls);
	for (int i = 0; i < RUN_NFIELDS; i++)
		if (nulls[i] && i != FIELD_UPDATED_AT && i != FIELD_FINISHED_AT)
			mutate_invalid("a run with NULLs");
	if (decision_nulls[DECISION_TYPE] || decision_nulls[DECISION_SCHEDULE])
		mutate_invalid("no checkpoint_type or no schedule");
	if (!gd_text_equal(DatumGetTextPP(run[FIELD_RUN_ID]), gd_run_text(row, RUN_RUN_ID)))
		ereport(ERROR,
				(errcode(GD_ERRCODE_INVALID_COMMIT),
				 errmsg("the decision is about run \"%s\", not \"%s\"",
						gd_run_shown(DatumGetTextPP(run[FIELD_RUN_ID])),
						gd_run_shown(gd_run_text(row, RUN_RUN_ID)))));
	if (DatumGetInt64(run[FIELD_SEQ]) != gd_run_seq(row) + 1)
		ereport(ERROR,
				(errcode(GD_ERRCODE_INVALID_COMMIT),
				 errmsg("the decision has checkpoint_seq %lld, not the next one, %lld",
						(long long) DatumGetInt64(run[FIELD_SEQ]), (long long) gd_run_seq(row) + 1)));

	memset(proposal, 0, sizeof(GdRunProposal));
	proposal->expected_seq = gd_run_seq(row);
	proposal->checkpoint_type = DatumGetTextPP(decision[DECISION_TYPE]);
	proposal->schedule_name = DatumGetTextPP(decision[DECISION_SCHEDULE]);
	proposal->status_name = DatumGetTextPP(run[FIELD_STATUS]);
	proposal->step = DatumGetInt32(run[FIELD_STEP]);
	proposal->state = PointerGetDatum(PG_DETOAST_DATUM_PACKED(run[FIELD_STATE]));
	proposal->wake_at = mutate_time(decision[DECISION_WAKE_AT], decision_nulls[DECISION_WAKE_AT]);
	proposal->updated_at = mutate_time(run[FIELD_UPDATED_AT], nulls[FIELD_UPDATED_AT]);
	proposal->finished_at = mutate_time(run[FIELD_FINISHED_AT], nulls[FIELD_FINISHED_AT]);
	proposal->graph_id = DatumGetTextPP(run[FIELD_GRAPH_ID]);
	proposal->graph_hash = DatumGetTextPP(run[FIELD_GRAPH_HASH]);
	proposal->started_at = mutate_time(run[FIELD_STARTED_AT], false);
	gd_run_proposal_check(proposal);
}

/*
 * mutate_error: the function says that it cannot be done.
 */
static void
mutate_error(Datum value, bool isnull)
{
	char	   *reason = "the decision function gave no reason";

	if (!isnull)
	{
		Jsonb	   *jsonb = DatumGetJsonbP(value);
		JsonbValue	scalar;

		reason = JsonbToCString(NULL, &jsonb->root, VARSIZE(jsonb));
		if (JB_ROOT_IS_SCALAR(jsonb) && JsonbExtractScalar(&jsonb->root, &scalar) &&
			scalar.type == jbvString)
			reason = pnstrdup(scalar.val.string.val, scalar.val.string.len);
	}
	ereport(ERROR,
			(errcode(ERRCODE_RAISE_EXCEPTION),
			 errmsg("%s", reason)));
}

/*
 * mutate_decide: ask the caller's function.
 */
static void
mutate_decide(FunctionCallInfo fcinfo, Oid function, Datum run, Datum *values, bool *nulls)
{
	FmgrInfo	flinfo;
	Datum		decision;
	Oid			save_user;
	int			save_context;
	int			guc_level;

	LOCAL_FCINFO(call, 2);

	fmgr_info(function, &flinfo);
	InitFunctionCallInfoData(*call, &flinfo, 2, InvalidOid, NULL, NULL);
	call->args[0].value = run;
	call->args[0].isnull = false;
	call->args[1].value = PG_GETARG_DATUM(3);
	call->args[1].isnull = PG_ARGISNULL(3);
	if (flinfo.fn_strict && PG_ARGISNULL(3))
		mutate_invalid("no action: the function is strict, and arg is NULL");

	/* An error restores them too, with the transaction or the savepoint. */
	GetUserIdAndSecContext(&save_user, &save_context);
	guc_level = NewGUCNestLevel();
	decision = FunctionCallInvoke(call);
	AtEOXact_GUC(false, guc_level);
	SetUserIdAndSecContext(save_user, save_context);
	if (call->isnull)
		mutate_invalid("no action");
	mutate_deform(decision, DECISION_NFIELDS, values, nulls);
	if (nulls[DECISION_ACTION])
		mutate_invalid("no action");
}

/*
 * run_mutate(scope, run_id, decide, arg) -> (result, value)
 */
Datum
gd_run_mutate(PG_FUNCTION_ARGS)
{
	GdRunScope	scope;
	text	   *run_id;
	GdRuns		runs;
	TupleDesc	desc;
	Datum		decision[DECISION_NFIELDS];
	bool		nulls[DECISION_NFIELDS];
	Datum		values[2];
	bool		isnull[2] = {false};
	char	   *action;

	gd_writes("gen_durable.run_mutate()");
	gd_run_scope_read(fcinfo, 0, &scope);
	run_id = gd_arg_name(fcinfo, 1, "run_id");
	gd_arg_required(fcinfo, 2, "decide");
	mutate_check_function(PG_GETARG_OID(2));

	gd_runs_open(&runs);
	if (!gd_run_lock(&runs, &scope, run_id))
		gd_run_not_found(run_id);
	desc = lookup_rowtype_tupdesc_copy(mutate_type("run"), -1);
	mutate_decide(fcinfo, PG_GETARG_OID(2), HeapTupleGetDatum(gd_run_tuple(desc, runs.row)),
				  decision, nulls);
	action = text_to_cstring(DatumGetTextPP(decision[DECISION_ACTION]));
	if (strcmp(action, "error") == 0)
		mutate_error(decision[DECISION_VALUE], nulls[DECISION_VALUE]);
	if (strcmp(action, "commit") == 0)
	{
		GdRunProposal proposal;

		mutate_propose(decision, nulls, runs.row, &proposal);

		/* What the function did itself is to be seen by the commit's look. */
		gd_table_flush();
		gd_scan_refresh(&runs.by_run_id);
		gd_run_commit_proposal(&runs, &scope, run_id, &proposal);
	}
	else if (strcmp(action, "no_change") != 0)
		ereport(ERROR,
				(errcode(GD_ERRCODE_INVALID_COMMIT),
				 errmsg("the decision's action \"%s\" must be commit, no_change or error",
						gd_clip(action, strlen(action)))));
	gd_runs_close(&runs);

	values[0] = CStringGetTextDatum(strcmp(action, "commit") == 0 ? "committed" : "unchanged");
	values[1] = decision[DECISION_VALUE];
	isnull[1] = nulls[DECISION_VALUE];
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, isnull)));
}
