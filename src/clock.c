/*
 * clock.c
 *		The engine's clock, and reading instants and spans from text.
 *
 * The clock is the wall clock, not the transaction's: a lease must not begin
 * in the past because its transaction is old.  A call reads it once, so that
 * the instants that it stores are equal.  gen_durable.clock_offset moves it,
 * so that tests of time need not wait.
 */
#include "postgres.h"

#include <math.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "compat.h"
#include "guc.h"
#include "names.h"

TimestampTz
gd_now(void)
{
	return GetCurrentTimestamp() + (int64) rint(gd_clock_offset * 1000.0);
}

/*
 * gd_later: from + span, by the session's time zone as + does it.
 */
TimestampTz
gd_later(TimestampTz from, const Interval *span)
{
	return DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval,
												   TimestampTzGetDatum(from),
												   IntervalPGetDatum(span)));
}

/*
 * gd_earlier: from - span, or before all instants where that is too early for
 * one.  There a month counts as 31 days, which no month is longer than.
 */
TimestampTz
gd_earlier(TimestampTz from, const Interval *span)
{
	double		most = ((double) span->month * 31 + span->day) * USECS_PER_DAY + span->time;

	if ((double) from - most < (double) MIN_TIMESTAMP + USECS_PER_DAY)
		return DT_NOBEGIN;
	return DatumGetTimestampTz(DirectFunctionCall2(timestamptz_mi_interval,
												   TimestampTzGetDatum(from),
												   IntervalPGetDatum(span)));
}

/*
 * gd_interval_from_ms: a setting in milliseconds as a span.
 */
Interval *
gd_interval_from_ms(double ms)
{
	Interval   *span = palloc0(sizeof(Interval));

	span->time = (TimeOffset) rint(ms * 1000.0);
	return span;
}

/*
 * gd_interval_to_ms: a span in milliseconds, a month counted as 30 days.
 */
double
gd_interval_to_ms(const Interval *span)
{
	return (span->time + (span->day + 30.0 * span->month) * USECS_PER_DAY) / 1000.0;
}

/*
 * gd_parse_interval: read a span, PostgreSQL text or ISO 8601, that is not
 * negative.  Unlike interval's input function it can report instead of raise.
 */
bool
gd_parse_interval(const char *what, const char *str, Interval *into, GdFault *fault)
{
	struct pg_itm_in itm = {0};
	char	   *field[MAXDATEFIELDS];
	int			ftype[MAXDATEFIELDS];
	char		work[256];
	int			nfields;
	int			dtype;
	int			err;

	err = ParseDateTime(str, work, sizeof(work), field, ftype, MAXDATEFIELDS, &nfields);
	if (err == 0)
		err = DecodeInterval(field, ftype, nfields, INTERVAL_FULL_RANGE, &dtype, &itm);
	if (err == DTERR_BAD_FORMAT)
		err = DecodeISO8601Interval(unconstify(char *, str), &dtype, &itm);
	if (err == DTERR_FIELD_OVERFLOW || err == DTERR_INTERVAL_OVERFLOW)
		return gd_fault(fault, ERRCODE_DATETIME_VALUE_OUT_OF_RANGE, NULL,
						"%s \"%s\" is out of range", what, gd_clip(str, strlen(str)));
	if (err != 0)
		return gd_fault(fault, ERRCODE_INVALID_DATETIME_FORMAT,
						"An interval is written like 1 minute 30 seconds, or PT1M30S.",
						"%s \"%s\" is not an interval", what, gd_clip(str, strlen(str)));
	if (dtype != DTK_DELTA)
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"%s must be finite", what);
	if (itmin2interval(&itm, into) != 0)
		return gd_fault(fault, ERRCODE_DATETIME_VALUE_OUT_OF_RANGE, NULL,
						"%s \"%s\" is out of range", what, gd_clip(str, strlen(str)));
	return gd_check_not_negative(what, into, fault);
}

/*
 * gd_parse_time: read a finite instant, able to report instead of raise.
 */
bool
gd_parse_time(const char *what, const char *str, TimestampTz *into, GdFault *fault)
{
	struct pg_tm tm;
	fsec_t		fsec;
	int			tz;
	char	   *field[MAXDATEFIELDS];
	int			ftype[MAXDATEFIELDS];
	char		work[MAXDATELEN + MAXDATEFIELDS];
	int			nfields;
	int			dtype;
	int			err;

	err = ParseDateTime(str, work, sizeof(work), field, ftype, MAXDATEFIELDS, &nfields);
	if (err == 0)
		err = gd_decode_datetime(field, ftype, nfields, &dtype, &tm, &fsec, &tz);
	if (err != 0)
		return gd_fault(fault, ERRCODE_INVALID_DATETIME_FORMAT, NULL,
						"%s \"%s\" is not a timestamp", what, gd_clip(str, strlen(str)));
	switch (dtype)
	{
		case DTK_DATE:
			if (tm2timestamp(&tm, fsec, &tz, into) != 0)
				return gd_fault(fault, ERRCODE_DATETIME_VALUE_OUT_OF_RANGE, NULL,
								"%s \"%s\" is out of range", what,
								gd_clip(str, strlen(str)));
			return true;
		case DTK_EPOCH:
			*into = SetEpochTimestamp();
			return true;
		default:
			return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
							"%s must be finite", what);
	}
}

/*
 * gd_interval_iso: a span as ISO 8601, whatever the session's interval style.
 */
char *
gd_interval_iso(Interval *span)
{
	struct pg_itm itm;
	char		buf[MAXDATELEN + 1];

	interval2itm(*span, &itm);
	EncodeInterval(&itm, INTSTYLE_ISO_8601, buf);
	return pstrdup(buf);
}
