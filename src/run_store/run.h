/*
 * run.h
 *		One run's row: finding it in a scope, locking it, writing it, and
 *		returning it.
 */
#ifndef GEN_DURABLE_RUN_H
#define GEN_DURABLE_RUN_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "fmgr.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "fault.h"
#include "run_store/scope.h"
#include "table.h"

typedef enum GdRunStatus
{
	GD_RUN_RUNNING, GD_RUN_WAITING, GD_RUN_DONE, GD_RUN_FAILED, GD_RUN_CANCELLED,
	GD_RUN_NSTATUSES
} GdRunStatus;

/* The table, opened for one call. */
typedef struct GdRuns
{
	GdTable    *table;
	GdScan		by_run_id;
	GdRow	   *row;			/* the run in hand */
	TimestampTz now;
} GdRuns;

extern void gd_runs_open(GdRuns *runs);
extern void gd_runs_open_read(GdRuns *runs);
extern void gd_runs_close(GdRuns *runs);
extern bool gd_run_find(GdRuns *runs, const GdRunScope *scope, const text *run_id);
extern bool gd_run_lock(GdRuns *runs, const GdRunScope *scope, const text *run_id);
extern void gd_run_poison(GdRow *row, TimestampTz now, const char *reason);
extern bool gd_run_write(GdRow *row, TimestampTz now, bool locked);
extern void gd_run_awake(GdRow *row, TimestampTz now);
GD_NORETURN extern void gd_run_not_found(const text *run_id);
extern bool gd_run_status_read(const text *name, GdRunStatus *status);
extern GdRunStatus gd_run_status(GdRow *row);
extern const char *gd_run_status_name(GdRunStatus status);
extern bool gd_run_holds(GdRow *row, const pg_uuid_t *token);
extern char *gd_run_shown(const text *value);
extern HeapTuple gd_run_tuple(TupleDesc desc, GdRow *row);
extern Datum gd_run_return(FunctionCallInfo fcinfo, GdRow *row);
extern Datum gd_run_return_info(FunctionCallInfo fcinfo, GdRow *row);
extern TimestampTz gd_run_arg_now(FunctionCallInfo fcinfo, int argno, TimestampTz now);

static inline bool
gd_run_status_is_terminal(GdRunStatus status)
{
	return status >= GD_RUN_DONE;
}

static inline int64
gd_run_seq(GdRow *row)
{
	return DatumGetInt64(GD_VALUE(row, RUN_CHECKPOINT_SEQ));
}

static inline text *
gd_run_text(GdRow *row, GdRunColumn column)
{
	return DatumGetTextPP(GD_VALUE(row, column));
}

static inline int32
gd_run_int(GdRow *row, GdRunColumn column)
{
	return DatumGetInt32(GD_VALUE(row, column));
}

static inline bool
gd_run_is_poisoned(GdRow *row)
{
	return !GD_IS_NULL(row, RUN_POISONED_AT);
}

/* Take claim, wake and poison off, before one of them is set. */
static inline void
gd_run_clear(GdRow *row)
{
	gd_row_set_null(row, RUN_CLAIM_TOKEN);
	gd_row_set_null(row, RUN_CLAIMED_AT);
	gd_row_set_null(row, RUN_WAKE_AT);
	gd_row_set_null(row, RUN_POISONED_AT);
	gd_row_set_null(row, RUN_POISON_REASON);
}

#endif							/* GEN_DURABLE_RUN_H */
