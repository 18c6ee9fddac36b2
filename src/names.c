/*
 * names.c
 *		Bounds of the texts and numbers that callers give.
 */
#include "postgres.h"

#include <math.h>

#include "access/xact.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "names.h"

/*
 * gd_clip: a value as messages show it, cut to 63 bytes on a character.
 */
char *
gd_clip(const char *value, int len)
{
	int			cut = len <= 63 ? len : pg_mbcliplen(value, len, 63);

	return cut < len ? psprintf("%s...", pnstrdup(value, cut)) : pnstrdup(value, cut);
}

/*
 * gd_check_name: a name or key is 1 to GD_NAME_MAX bytes long.
 */
bool
gd_check_name(const char *what, const text *name, GdFault *fault)
{
	int			len = VARSIZE_ANY_EXHDR(name);

	if (len == 0)
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"%s must not be empty", what);
	if (len > GD_NAME_MAX)
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"%s \"%s\" is %d bytes long, at most %d are allowed",
						what, gd_clip(VARDATA_ANY(name), len), len, GD_NAME_MAX);
	return true;
}

bool
gd_check_weight(double weight, GdFault *fault)
{
	if (!(weight > 0) || isinf(weight))
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"weight %g must be a finite number above 0", weight);
	return true;
}

/*
 * gd_check_not_negative: a span of time is finite and at least zero.
 */
bool
gd_check_not_negative(const char *what, const Interval *span, GdFault *fault)
{
	static const Interval zero = {0};

	if (!GD_INTERVAL_IS_FINITE(span))
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"%s \"%s\" must be finite", what,
						DatumGetCString(DirectFunctionCall1(interval_out,
															IntervalPGetDatum(span))));
	if (DatumGetBool(DirectFunctionCall2(interval_lt, IntervalPGetDatum(span),
										 IntervalPGetDatum(&zero))))
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"%s \"%s\" must not be negative", what,
						DatumGetCString(DirectFunctionCall1(interval_out,
															IntervalPGetDatum(span))));
	if (span->month / 12.0 + span->day / 365.0 + span->time / (365.0 * USECS_PER_DAY) >
		GD_SPAN_MAX_YEARS)
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"%s \"%s\" must be at most %d years", what,
						DatumGetCString(DirectFunctionCall1(interval_out,
															IntervalPGetDatum(span))),
						GD_SPAN_MAX_YEARS);
	return true;
}

bool
gd_check_finite_time(const char *what, TimestampTz at, GdFault *fault)
{
	if (TIMESTAMP_NOT_FINITE(at))
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"%s %s must be finite", what, timestamptz_to_str(at));
	return true;
}

/*
 * gd_error_text: an error text as it is kept.  A longer one is cut on a
 * character, with a note of its length, so that a failure can always be
 * recorded and read.
 */
text *
gd_error_text(const text *error)
{
	int			len = VARSIZE_ANY_EXHDR(error);
	int			cut;

	if (len <= GD_ERROR_MAX)
		return cstring_to_text_with_len(VARDATA_ANY(error), len);
	cut = pg_mbcliplen(VARDATA_ANY(error), len, GD_ERROR_MAX - 64);
	return cstring_to_text(psprintf("%s ... (%d bytes in all)",
									pnstrdup(VARDATA_ANY(error), cut), len));
}

/*
 * gd_arg_required: raise when an argument is NULL.
 */
void
gd_arg_required(FunctionCallInfo fcinfo, int argno, const char *what)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be NULL", what)));
}

/*
 * gd_arg_name: a required name argument, checked.
 */
text *
gd_arg_name(FunctionCallInfo fcinfo, int argno, const char *what)
{
	gd_arg_required(fcinfo, argno, what);
	return gd_arg_name_or_null(fcinfo, argno, what);
}

/*
 * gd_arg_name_or_null: an optional name argument, checked; NULL when NULL.
 */
text *
gd_arg_name_or_null(FunctionCallInfo fcinfo, int argno, const char *what)
{
	text	   *name;

	if (PG_ARGISNULL(argno))
		return NULL;
	name = PG_GETARG_TEXT_PP(argno);
	gd_check_name(what, name, NULL);
	return name;
}

/*
 * gd_arg_positive: a required integer argument of at least 1.
 */
int
gd_arg_positive(FunctionCallInfo fcinfo, int argno, const char *what)
{
	int			value;

	gd_arg_required(fcinfo, argno, what);
	value = PG_GETARG_INT32(argno);
	if (value < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s %d must be at least 1", what, value)));
	return value;
}

/*
 * gd_arg_within: an optional integer argument from min to max; false when
 * NULL.
 */
bool
gd_arg_within(FunctionCallInfo fcinfo, int argno, const char *what, int min, int max)
{
	int			value;

	if (PG_ARGISNULL(argno))
		return false;
	value = PG_GETARG_INT32(argno);
	if (value < min || value > max)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s %d must be from %d to %d", what, value, min, max)));
	return true;
}

/*
 * gd_writes: refuse to write where nothing may be written.  The direct path
 * to the tables has no executor that would.
 */
void
gd_writes(const char *function)
{
	PreventCommandIfReadOnly(function);
	PreventCommandIfParallelMode(function);
}
