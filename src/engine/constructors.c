/*
 * constructors.c
 *		The outcome constructors: SQL functions that build an outcome's JSON.
 *
 * They check what they are given as early as the author of a step can see
 * it; complete checks again.  Intervals are written as ISO 8601, so that the
 * result does not depend on the session.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/outcome.h"
#include "json.h"
#include "names.h"

PG_FUNCTION_INFO_V1(gd_outcome_next);
PG_FUNCTION_INFO_V1(gd_outcome_retry);
PG_FUNCTION_INFO_V1(gd_outcome_await);
PG_FUNCTION_INFO_V1(gd_outcome_children);
PG_FUNCTION_INFO_V1(gd_outcome_done);
PG_FUNCTION_INFO_V1(gd_outcome_stop);
PG_FUNCTION_INFO_V1(gd_outcome_fail);

static JsonbParseState *
outcome_begin(GdOutcomeKind kind)
{
	JsonbParseState *to = NULL;

	pushJsonbValue(&to, WJB_BEGIN_OBJECT, NULL);
	gd_json_put_cstring(&to, "outcome", gd_outcome_names[kind]);
	return to;
}

static Datum
outcome_end(JsonbParseState **to)
{
	return JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(to, WJB_END_OBJECT, NULL)));
}

static void
outcome_put_jsonb(JsonbParseState **to, const char *key, FunctionCallInfo fcinfo, int argno)
{
	if (!PG_ARGISNULL(argno))
		gd_json_put_jsonb(to, key, PG_GETARG_DATUM(argno));
}

static void
outcome_put_interval(JsonbParseState **to, const char *key, FunctionCallInfo fcinfo, int argno)
{
	if (PG_ARGISNULL(argno))
		return;
	gd_check_not_negative(key, PG_GETARG_INTERVAL_P(argno), NULL);
	gd_json_put_cstring(to, key, gd_interval_iso(PG_GETARG_INTERVAL_P(argno)));
}

/*
 * next_step(step, state, rate_limit, weight, concurrency_key, release_key,
 *			 delay, inline_execution)
 */
Datum
gd_outcome_next(PG_FUNCTION_ARGS)
{
	text	   *step = gd_arg_name(fcinfo, 0, "step");
	text	   *rate_limit = gd_arg_name_or_null(fcinfo, 2, "rate limit");
	text	   *key = gd_arg_name_or_null(fcinfo, 4, "concurrency key");
	bool		release = !PG_ARGISNULL(5) && PG_GETARG_BOOL(5);
	double		weight = PG_ARGISNULL(3) ? 1 : PG_GETARG_FLOAT8(3);
	JsonbParseState *to = outcome_begin(GD_OUTCOME_NEXT);

	gd_check_weight(weight, NULL);
	if (key && release)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("concurrency_key and release_key exclude each other")));
	gd_json_put_text(&to, "step", step);
	outcome_put_jsonb(&to, "state", fcinfo, 1);
	if (rate_limit)
		gd_json_put_text(&to, "rate_limit", rate_limit);
	if (weight != 1)
		gd_json_put_double(&to, "weight", weight);
	if (key)
		gd_json_put_text(&to, "concurrency_key", key);
	else if (release)
		gd_json_put_null(&to, "concurrency_key");
	outcome_put_interval(&to, "delay", fcinfo, 6);
	if (!PG_ARGISNULL(7))
		gd_json_put_bool(&to, "inline_execution", PG_GETARG_BOOL(7));
	return outcome_end(&to);
}

/*
 * retry(delay, state)
 */
Datum
gd_outcome_retry(PG_FUNCTION_ARGS)
{
	JsonbParseState *to = outcome_begin(GD_OUTCOME_RETRY);

	outcome_put_interval(&to, "delay", fcinfo, 0);
	outcome_put_jsonb(&to, "state", fcinfo, 1);
	return outcome_end(&to);
}

/*
 * await_signal(names, step, state, timeout)
 */
Datum
gd_outcome_await(PG_FUNCTION_ARGS)
{
	JsonbParseState *to = outcome_begin(GD_OUTCOME_AWAIT);
	text	   *step;
	Datum	   *names;
	bool	   *nulls;
	int			nnames;

	gd_arg_required(fcinfo, 0, "names");
	step = gd_arg_name(fcinfo, 1, "step");
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), TEXTOID, -1, false, TYPALIGN_INT,
					  &names, &nulls, &nnames);
	if (nnames == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("names must not be empty")));
	gd_json_key(&to, "names");
	pushJsonbValue(&to, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < nnames; i++)
	{
		text	   *name = nulls[i] ? NULL : DatumGetTextPP(names[i]);
		JsonbValue	value;

		if (name == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("names must not contain NULL")));
		gd_check_name("signal name", name, NULL);
		value.type = jbvString;
		value.val.string.val = VARDATA_ANY(name);
		value.val.string.len = VARSIZE_ANY_EXHDR(name);
		pushJsonbValue(&to, WJB_ELEM, &value);
	}
	pushJsonbValue(&to, WJB_END_ARRAY, NULL);
	gd_json_put_text(&to, "step", step);
	outcome_put_jsonb(&to, "state", fcinfo, 2);
	if (!PG_ARGISNULL(3) &&
		gd_interval_is_zero(PG_GETARG_INTERVAL_P(3)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("timeout must be above zero"),
				 errhint("Leave it out to wait without a deadline.")));
	outcome_put_interval(&to, "timeout", fcinfo, 3);
	return outcome_end(&to);
}

/*
 * schedule_children(step, children, state)
 */
Datum
gd_outcome_children(PG_FUNCTION_ARGS)
{
	JsonbParseState *to = outcome_begin(GD_OUTCOME_CHILDREN);
	text	   *step = gd_arg_name(fcinfo, 0, "step");

	(void) gd_json_arg_array(PG_GETARG_DATUM(1), PG_ARGISNULL(1), "children");
	gd_json_put_text(&to, "step", step);
	gd_json_put_jsonb(&to, "children", PG_GETARG_DATUM(1));
	outcome_put_jsonb(&to, "state", fcinfo, 2);
	return outcome_end(&to);
}

/*
 * done(result)
 */
Datum
gd_outcome_done(PG_FUNCTION_ARGS)
{
	JsonbParseState *to = outcome_begin(GD_OUTCOME_DONE);

	if (!PG_ARGISNULL(0))
	{
		JsonbValue	value;

		JsonbToJsonbValue(PG_GETARG_JSONB_P(0), &value);
		if (!gd_json_is_object(&value))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("result must be a JSON object, not %s", gd_json_type(&value))));
		outcome_put_jsonb(&to, "result", fcinfo, 0);
	}
	return outcome_end(&to);
}

static Datum
outcome_with_text(FunctionCallInfo fcinfo, GdOutcomeKind kind, const char *key)
{
	JsonbParseState *to = outcome_begin(kind);

	gd_arg_required(fcinfo, 0, key);
	gd_json_put_text(&to, key, gd_error_text(PG_GETARG_TEXT_PP(0)));
	return outcome_end(&to);
}

/*
 * stop(reason)
 */
Datum
gd_outcome_stop(PG_FUNCTION_ARGS)
{
	return outcome_with_text(fcinfo, GD_OUTCOME_STOP, "reason");
}

/*
 * fail(error)
 */
Datum
gd_outcome_fail(PG_FUNCTION_ARGS)
{
	return outcome_with_text(fcinfo, GD_OUTCOME_FAIL, "error");
}
