/*
 * names.h
 *		Bounds of the texts and numbers that callers give.
 */
#ifndef GEN_DURABLE_NAMES_H
#define GEN_DURABLE_NAMES_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "fmgr.h"

#include "compat.h"
#include "fault.h"

/* Longest name or key, in bytes. */
#define GD_NAME_MAX 255

/* Longest span of time, in years. */
#define GD_SPAN_MAX_YEARS 1000

/* Longest error text that is kept, in bytes. */
#define GD_ERROR_MAX (64 * 1024)

extern bool gd_check_name(const char *what, const text *name, GdFault *fault);
extern bool gd_check_weight(double weight, GdFault *fault);
extern bool gd_check_not_negative(const char *what, const Interval *span,
								  GdFault *fault);
extern bool gd_check_finite_time(const char *what, TimestampTz at, GdFault *fault);
extern char *gd_clip(const char *value, int len);
extern text *gd_error_text(const text *error);

extern text *gd_arg_name(FunctionCallInfo fcinfo, int argno, const char *what);
extern text *gd_arg_name_or_null(FunctionCallInfo fcinfo, int argno, const char *what);
extern int	gd_arg_positive(FunctionCallInfo fcinfo, int argno, const char *what);
extern bool gd_arg_within(FunctionCallInfo fcinfo, int argno, const char *what, int min, int max);
extern void gd_arg_required(FunctionCallInfo fcinfo, int argno, const char *what);
extern void gd_writes(const char *function);

static inline bool
gd_interval_is_zero(const Interval *span)
{
	return span->time == 0 && span->day == 0 && span->month == 0;
}

/* Two texts with the same bytes. */
static inline bool
gd_text_equal(const text *a, const text *b)
{
	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

#endif							/* GEN_DURABLE_NAMES_H */
