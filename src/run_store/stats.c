/*
 * stats.c
 *		What the view `run_stats` is made of: the counters of the run store, and
 *		the first entries of its indexes.
 *
 * The counters are of all tenants together, so a user who is confined to some
 * is shown none.  The heads are of the runs that the user may see; they cost
 * what the number of tenants with due runs asks for, not that of the runs.
 *
 * Locks: none.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "run_store/expired.h"
#include "run_store/run.h"
#include "shmem/stats.h"

PG_FUNCTION_INFO_V1(gd_run_counters);
PG_FUNCTION_INFO_V1(gd_run_heads);

static TupleDesc
stats_result(FunctionCallInfo fcinfo, int ncolumns)
{
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE || desc->natts != ncolumns)
		elog(ERROR, "return type must be a row of %d columns", ncolumns);
	return BlessTupleDesc(desc);
}

static bool
stats_is_time(GdRunCounter counter)
{
	return counter == GD_RUNS_SCAN_TIME || counter == GD_RUNS_REFRESH_TIME ||
		counter == GD_RUNS_RELEASE_TIME || counter == GD_RUNS_ABANDON_TIME ||
		counter == GD_RUNS_RECOVERY_TIME;
}

/*
 * run_counters() -> one column for each counter, and since; all NULL without
 * the preload, and for who may not see all runs
 */
Datum
gd_run_counters(PG_FUNCTION_ARGS)
{
	TupleDesc	desc = stats_result(fcinfo, GD_NRUN_COUNTERS + 1);
	int64		counters[GD_NRUN_COUNTERS] = {0};
	TimestampTz since = 0;
	Datum		values[GD_NRUN_COUNTERS + 1];
	bool		nulls[GD_NRUN_COUNTERS + 1];

	memset(nulls, gd_run_tenants()->confined || !gd_stats_read_runs(counters, &since), sizeof(nulls));
	for (int c = 0; c < GD_NRUN_COUNTERS; c++)
	{
		Interval   *time;

		values[c] = Int64GetDatum(counters[c]);
		if (!stats_is_time((GdRunCounter) c))
			continue;
		time = palloc0(sizeof(Interval));
		time->time = counters[c];
		values[c] = IntervalPGetDatum(time);
	}
	values[GD_NRUN_COUNTERS] = TimestampTzGetDatum(since);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, nulls)));
}

/* Where the run store stands. */
typedef struct Heads
{
	TimestampTz now;
	TimestampTz oldest;			/* since when the oldest ready run is due */
	TimestampTz next;			/* when the next one is */
	TimestampTz claimed;		/* the oldest claim; each DT_NOEND: none */
} Heads;

/*
 * heads_step: count the run that a scan comes to, if any; true if it is due.
 */
static bool
heads_step(Heads *heads, GdScan *scan)
{
	TimestampTz wake_at;

	if (!gd_scan_next(scan))
		return false;
	wake_at = DatumGetTimestampTz(gd_slot_datum(scan->table, scan->slot, RUN_WAKE_AT));
	if (wake_at <= heads->now)
		heads->oldest = Min(heads->oldest, wake_at);
	else
		heads->next = Min(heads->next, wake_at);
	return wake_at <= heads->now;
}

/*
 * heads_tenant: the first run of a tenant, and the first that is not due yet.
 */
static void
heads_tenant(Heads *heads, GdScan *scan, const text *key)
{
	for (bool later = false;; later = true)
	{
		gd_scan_text(scan, 1, key);
		if (later)
			gd_scan_key(scan, 2, BTGreaterStrategyNumber, F_TIMESTAMPTZ_GT,
						TimestampTzGetDatum(heads->now));
		gd_scan_start(scan);
		if (!heads_step(heads, scan) || later)
			return;
	}
}

/*
 * heads_all: each tenant with due runs, and the sleeping runs of all.
 */
static void
heads_all(Heads *heads, GdTable *runs)
{
	const text *key = NULL;
	GdScan		scan;

	gd_scan_begin(&scan, runs, GD_RUNS_READY);
	for (;;)
	{
		if (key)
			gd_scan_key(&scan, 1, BTGreaterStrategyNumber, F_TEXT_GT, PointerGetDatum(key));
		gd_scan_start(&scan);
		if (!gd_scan_next(&scan))
			break;
		key = DatumGetTextPCopy(gd_slot_datum(runs, scan.slot, RUN_SCOPE_KEY));
		heads_tenant(heads, &scan, key);
	}
	gd_scan_end(&scan);

	gd_scan_begin(&scan, runs, GD_RUNS_SLEEPING);
	gd_scan_start(&scan);
	if (heads_step(heads, &scan))
	{
		gd_scan_key(&scan, 1, BTGreaterStrategyNumber, F_TIMESTAMPTZ_GT, TimestampTzGetDatum(heads->now));
		gd_scan_start(&scan);
		(void) heads_step(heads, &scan);
	}
	gd_scan_end(&scan);
}

static void
heads_confined(Heads *heads, GdTable *runs, const GdRunTenants *tenants)
{
	static const GdIndexId indexes[] = {GD_RUNS_READY, GD_RUNS_TENANT_SLEEPING};

	for (int x = 0; x < lengthof(indexes); x++)
	{
		GdScan		scan;

		gd_scan_begin(&scan, runs, indexes[x]);
		for (int i = 0; i < tenants->n; i++)
			heads_tenant(heads, &scan, tenants->keys[i]);
		gd_scan_end(&scan);
	}
}

/*
 * heads_claims: the oldest claim that the user may see.
 */
static void
heads_claims(Heads *heads, GdTable *runs, const GdRunTenants *tenants)
{
	GdRunExpired expired;

	/* All claims are older than the end of time. */
	gd_run_expired_begin(&expired, runs, DT_NOEND, tenants);
	if (gd_run_expired_step(&expired))
		heads->claimed = DatumGetTimestampTz(gd_slot_datum(runs, expired.scan.slot, RUN_CLAIMED_AT));
	gd_run_expired_end(&expired);
}

/*
 * run_heads() -> (oldest_due, due_next, oldest_claim), of the runs that the
 * user may see
 */
Datum
gd_run_heads(PG_FUNCTION_ARGS)
{
	TupleDesc	desc = stats_result(fcinfo, 3);
	GdTable    *runs = gd_table_open_read(GD_RUNS);
	Heads		heads = {gd_now(), DT_NOEND, DT_NOEND, DT_NOEND};
	const GdRunTenants *tenants = gd_run_tenants();
	Datum		values[3];
	bool		nulls[3];

	if (tenants->confined)
		heads_confined(&heads, runs, tenants);
	else
		heads_all(&heads, runs);
	heads_claims(&heads, runs, tenants);
	gd_table_close(runs);

	values[0] = TimestampTzGetDatum(heads.oldest);
	values[1] = TimestampTzGetDatum(heads.next);
	values[2] = TimestampTzGetDatum(heads.claimed);
	for (int i = 0; i < 3; i++)
		nulls[i] = DatumGetTimestampTz(values[i]) == DT_NOEND;
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, nulls)));
}
