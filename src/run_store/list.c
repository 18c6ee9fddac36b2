/*
 * list.c
 *		run_list: a page of runs, the youngest first, without their documents.
 *
 * The order is started_at, then run_id, both descending (DK-041).  The indexes
 * of the listings (listing.c) lead with the status, so a page is merged from
 * one range a status that is asked for, and of each tenant where the user is
 * confined to some; each range is entered behind the cursor, whatever its
 * depth.  The runs of the page are then looked up, all under one snapshot.
 * The document's column is not touched, so a list never reads what is stored
 * out of line.
 *
 * Locks: none.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "names.h"
#include "run_store/run.h"

#define LIST_MAX_ROWS 1000
#define LIST_NCOLUMNS 11

PG_FUNCTION_INFO_V1(gd_run_list);

/* What is asked for. */
typedef struct ListQuery
{
	GdRunScope	scope;
	int			max_rows;
	bool		has_cursor;
	TimestampTz before_started_at;
	text	   *before_run_id;
	text	   *graph_id;		/* or NULL */
	text	   *graph_hash;		/* or NULL */
	bool		statuses[GD_RUN_NSTATUSES];
} ListQuery;

/* One range of an index, at its next row. */
typedef struct ListRange
{
	GdScan		scan;
	bool		left;			/* a row is in the scan's slot */
	TimestampTz started_at;
	text	   *run_id;
} ListRange;

typedef struct ListMerge
{
	const ListQuery *query;
	GdTable    *listings;
	GdTable    *runs;
	GdScan		by_run_id;
	Snapshot	snapshot;
	ListRange  *ranges;
	int			nranges;
} ListMerge;

static void
list_read_statuses(FunctionCallInfo fcinfo, int argno, ListQuery *query)
{
	Datum	   *elements;
	bool	   *nulls;
	int			n;

	for (int s = 0; s < GD_RUN_NSTATUSES; s++)
		query->statuses[s] = PG_ARGISNULL(argno);
	if (PG_ARGISNULL(argno))
		return;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(argno), TEXTOID, -1, false, TYPALIGN_INT,
					  &elements, &nulls, &n);
	if (n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("statuses must name at least one status"),
				 errhint("Leave it out for all.")));
	for (int i = 0; i < n; i++)
	{
		GdRunStatus status;

		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("statuses must not contain NULL")));
		if (!gd_run_status_read(DatumGetTextPP(elements[i]), &status))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("status \"%s\" must be running, waiting, done, failed or cancelled",
							gd_run_shown(DatumGetTextPP(elements[i])))));
		query->statuses[status] = true;
	}
}

static void
list_read(FunctionCallInfo fcinfo, ListQuery *query)
{
	gd_run_scope_read(fcinfo, 0, &query->scope);
	query->max_rows = gd_arg_positive(fcinfo, 1, "max_rows");
	if (query->max_rows > LIST_MAX_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_rows %d must be at most %d", query->max_rows, LIST_MAX_ROWS)));
	query->has_cursor = !PG_ARGISNULL(2);
	if (PG_ARGISNULL(2) != PG_ARGISNULL(3))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("before_started_at and before_run_id must be given together"),
				 errhint("They are those of the last row of the page before.")));
	if (query->has_cursor)
	{
		query->before_started_at = PG_GETARG_TIMESTAMPTZ(2);
		gd_check_finite_time("before_started_at", query->before_started_at, NULL);
		query->before_run_id = gd_arg_name(fcinfo, 3, "before_run_id");
	}
	query->graph_id = gd_arg_name_or_null(fcinfo, 4, "graph_id");
	query->graph_hash = gd_arg_name_or_null(fcinfo, 5, "graph_hash");
	list_read_statuses(fcinfo, 6, query);
}

/*
 * range_next: step to the range's next row.
 */
static void
range_next(ListMerge *list, ListRange *range)
{
	range->left = gd_scan_next(&range->scan);
	if (!range->left)
		return;
	range->started_at = DatumGetTimestampTz(gd_slot_datum(list->listings, range->scan.slot, LISTING_STARTED_AT));
	range->run_id = DatumGetTextPP(gd_slot_datum(list->listings, range->scan.slot, LISTING_RUN_ID));
}

/*
 * list_add_range: the runs of one status, of one tenant or, with NULL, of all.
 */
static void
list_add_range(ListMerge *list, GdRunStatus status, const text *key)
{
	static const RegProcedure compare[] = {F_TIMESTAMPTZ_CMP, F_BTTEXTCMP};
	ListRange  *range = &list->ranges[list->nranges++];
	int			column = 1;

	gd_scan_begin_snapshot(&range->scan, list->listings, key ? GD_LISTINGS_TENANT : GD_LISTINGS_ALL,
						   list->snapshot);
	if (key)
		gd_scan_text(&range->scan, column++, key);
	gd_scan_text(&range->scan, column++, cstring_to_text(gd_run_status_name(status)));
	if (list->query->has_cursor)
	{
		Datum		values[lengthof(compare)];

		values[0] = TimestampTzGetDatum(list->query->before_started_at);
		values[1] = PointerGetDatum(list->query->before_run_id);
		gd_scan_key_row_less(&range->scan, column, lengthof(compare), compare, values);
	}
	gd_scan_start(&range->scan);
	range_next(list, range);
}

/*
 * list_begin: enter every range that the page can have rows from.
 */
static void
list_begin(ListMerge *list, const ListQuery *query)
{
	const GdRunTenants *tenants = gd_run_tenants();
	int			nkeys = query->scope.system && tenants->confined ? tenants->n : 1;
	text	  **keys = palloc0(sizeof(text *) * Max(nkeys, 1));

	if (query->scope.system && tenants->confined)
		for (int i = 0; i < nkeys; i++)
			keys[i] = tenants->keys[i];
	else if (!query->scope.system)
		keys[0] = query->scope.key;
	if (keys[0] && !gd_run_tenant_visible(keys[0]))
		nkeys = 0;

	list->query = query;
	list->runs = gd_table_open_read(GD_RUNS);
	list->listings = gd_table_open_read(GD_RUN_LISTINGS);
	list->snapshot = RegisterSnapshot(GetLatestSnapshot());
	gd_scan_begin_snapshot(&list->by_run_id, list->runs, GD_RUNS_PKEY, list->snapshot);
	list->ranges = palloc0(sizeof(ListRange) * Max(nkeys * GD_RUN_NSTATUSES, 1));
	list->nranges = 0;
	for (int i = 0; i < nkeys; i++)
		for (int s = 0; s < GD_RUN_NSTATUSES; s++)
			if (query->statuses[s])
				list_add_range(list, (GdRunStatus) s, keys[i]);
}

static void
list_end(ListMerge *list)
{
	for (int i = 0; i < list->nranges; i++)
		gd_scan_end(&list->ranges[i].scan);
	gd_scan_end(&list->by_run_id);
	UnregisterSnapshot(list->snapshot);
	gd_table_close(list->listings);
	gd_table_close(list->runs);
}

/*
 * list_first: the range whose row comes next, or NULL.
 */
static ListRange *
list_first(ListMerge *list)
{
	ListRange  *first = NULL;

	for (int i = 0; i < list->nranges; i++)
	{
		ListRange  *range = &list->ranges[i];

		if (range->left &&
			(first == NULL || range->started_at > first->started_at ||
			 (range->started_at == first->started_at &&
			  gd_run_text_compare(range->run_id, first->run_id) > 0)))
			first = range;
	}
	return first;
}

static bool
list_wants(const ListMerge *list, TupleTableSlot *slot)
{
	const ListQuery *query = list->query;

	return (query->graph_id == NULL ||
			gd_text_equal(query->graph_id, DatumGetTextPP(gd_slot_datum(list->listings, slot, LISTING_GRAPH_ID)))) &&
		(query->graph_hash == NULL ||
		 gd_text_equal(query->graph_hash, DatumGetTextPP(gd_slot_datum(list->listings, slot, LISTING_GRAPH_HASH))));
}

/*
 * list_look_up: the run that a listing is about, in the scan's slot.
 */
static bool
list_look_up(ListMerge *list, const text *run_id)
{
	gd_scan_text(&list->by_run_id, 1, run_id);
	gd_scan_start(&list->by_run_id);
	return gd_scan_next(&list->by_run_id);
}

/*
 * list_put: a row of the result.
 */
static void
list_put(ReturnSetInfo *out, Datum *values, bool *nulls, bool has_more)
{
	values[LIST_NCOLUMNS - 1] = BoolGetDatum(has_more);
	nulls[LIST_NCOLUMNS - 1] = false;
	tuplestore_putvalues(out->setResult, out->setDesc, values, nulls);
}

/*
 * run_list(scope, max_rows, before_started_at, before_run_id, graph_id,
 *			graph_hash, statuses) -> setof a run's row, with has_more
 *
 * One more row than asked for is looked for, which only tells has_more; so the
 * rows are kept until that is known.
 */
Datum
gd_run_list(PG_FUNCTION_ARGS)
{
	static const GdRunColumn columns[LIST_NCOLUMNS - 1] = {
		RUN_RUN_ID, RUN_TENANT_ID, RUN_GRAPH_ID, RUN_GRAPH_HASH, RUN_STATUS,
		RUN_STEP, RUN_CHECKPOINT_SEQ, RUN_STARTED_AT, RUN_UPDATED_AT, RUN_FINISHED_AT,
	};
	ReturnSetInfo *out = (ReturnSetInfo *) fcinfo->resultinfo;
	ListQuery	query;
	ListMerge	list;
	ListRange  *range;
	Datum	   *values;
	bool	   *nulls;
	int			n = 0;
	bool		has_more = false;

	list_read(fcinfo, &query);
	InitMaterializedSRF(fcinfo, 0);
	values = palloc(sizeof(Datum) * LIST_NCOLUMNS * query.max_rows);
	nulls = palloc(sizeof(bool) * LIST_NCOLUMNS * query.max_rows);
	list_begin(&list, &query);
	while (!has_more && (range = list_first(&list)) != NULL)
	{
		if (list_wants(&list, range->scan.slot) && list_look_up(&list, range->run_id))
		{
			has_more = n == query.max_rows;
			for (int c = 0; !has_more && c < LIST_NCOLUMNS - 1; c++)
			{
				Datum		value;
				bool		text_column = columns[c] <= RUN_STATUS;

				value = gd_slot_value(list.runs, list.by_run_id.slot, columns[c],
									  &nulls[n * LIST_NCOLUMNS + c]);
				if (text_column && !nulls[n * LIST_NCOLUMNS + c])
					value = PointerGetDatum(DatumGetTextPCopy(value));
				values[n * LIST_NCOLUMNS + c] = value;
			}
			n += !has_more;
		}
		range_next(&list, range);
	}
	list_end(&list);
	for (int i = 0; i < n; i++)
		list_put(out, &values[i * LIST_NCOLUMNS], &nulls[i * LIST_NCOLUMNS], has_more);
	return (Datum) 0;
}
