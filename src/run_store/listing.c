/*
 * listing.c
 *		What lists are ordered and filtered by: a row for each run.
 *
 * A claim and most commits change nothing that a list is ordered by, yet they
 * write a new version of the run, which gets an entry in every index of its
 * table.  So the indexes of the lists stand on a table of their own, which is
 * written when a run begins, when its status changes, and when it is deleted.
 * What SQL does to the runs comes here by a trigger.
 *
 * A listing that somebody took away is made anew by the next change of the
 * run's status.
 *
 * Locks: the listing's row is written under the lock of its run's.
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "names.h"
#include "run_store/listing.h"

PG_FUNCTION_INFO_V1(gd_run_listed);

/* Where a listing's columns come from. */
static const GdRunColumn listing_sources[LISTING_NCOLUMNS] = {
	[LISTING_STARTED_AT] = RUN_STARTED_AT,
	[LISTING_STATUS] = RUN_STATUS,
	[LISTING_RUN_ID] = RUN_RUN_ID,
	[LISTING_SCOPE_KEY] = RUN_SCOPE_KEY,
	[LISTING_GRAPH_ID] = RUN_GRAPH_ID,
	[LISTING_GRAPH_HASH] = RUN_GRAPH_HASH,
};

/* The columns of one run's listing. */
typedef Datum Listing[LISTING_NCOLUMNS];

static void
listing_of_row(GdRow *run, Listing listing)
{
	for (int c = 0; c < LISTING_NCOLUMNS; c++)
		listing[c] = GD_VALUE(run, listing_sources[c]);
}

static void
listing_insert(GdTable *table, const Listing listing)
{
	GdRow	   *row = gd_row_create(table);

	for (int c = 0; c < LISTING_NCOLUMNS; c++)
		gd_row_set(row, c, listing[c]);
	gd_row_insert(row);
	gd_row_free(row);
}

/*
 * listing_lock: load and lock a run's listing, as it is with a status.
 */
static bool
listing_lock(GdRow *row, const Listing listing, Datum status)
{
	bool		found = false;
	GdScan		scan;

	gd_scan_begin(&scan, row->table, GD_LISTINGS_TENANT);
	gd_scan_key(&scan, 1, BTEqualStrategyNumber, F_TEXTEQ, listing[LISTING_SCOPE_KEY]);
	gd_scan_key(&scan, 2, BTEqualStrategyNumber, F_TEXTEQ, status);
	gd_scan_key(&scan, 3, BTEqualStrategyNumber, F_TIMESTAMPTZ_EQ, listing[LISTING_STARTED_AT]);
	gd_scan_key(&scan, 4, BTEqualStrategyNumber, F_TEXTEQ, listing[LISTING_RUN_ID]);
	gd_scan_start(&scan);
	if (gd_scan_next(&scan))
		found = gd_row_lock(row, &scan.slot->tts_tid, true) == GD_LOCKED;
	gd_scan_end(&scan);
	return found;
}

static void
listing_move(const Listing listing, Datum from)
{
	GdTable    *table = gd_table_open(GD_RUN_LISTINGS);
	GdRow	   *row = gd_row_create(table);

	if (listing_lock(row, listing, from))
	{
		gd_row_set(row, LISTING_STATUS, listing[LISTING_STATUS]);
		gd_row_update(row);
	}
	else
		listing_insert(table, listing);
	gd_row_free(row);
	gd_table_close(table);
}

static void
listing_add(const Listing listing)
{
	GdTable    *table = gd_table_open(GD_RUN_LISTINGS);

	listing_insert(table, listing);
	gd_table_close(table);
}

static void
listing_remove(const Listing listing)
{
	GdTable    *table = gd_table_open(GD_RUN_LISTINGS);
	GdRow	   *row = gd_row_create(table);

	if (listing_lock(row, listing, listing[LISTING_STATUS]))
		gd_row_delete(row);
	gd_row_free(row);
	gd_table_close(table);
}

/*
 * gd_run_listing_add: a run was inserted.
 */
void
gd_run_listing_add(GdRow *run)
{
	Listing		listing;

	listing_of_row(run, listing);
	listing_add(listing);
}

/*
 * gd_run_listing_move: a run was written whose status was another before.
 */
void
gd_run_listing_move(GdRow *run, GdRunStatus from)
{
	Listing		listing;

	listing_of_row(run, listing);
	listing_move(listing, CStringGetTextDatum(gd_run_status_name(from)));
}

/*
 * gd_run_listing_remove: a run was deleted.
 */
void
gd_run_listing_remove(GdRow *run)
{
	Listing		listing;

	listing_of_row(run, listing);
	listing_remove(listing);
}

/*
 * listing_of_slot: the listing of a row that a trigger is called with.
 */
static void
listing_of_slot(TupleTableSlot *slot, Listing listing)
{
	const AttrNumber *attno = gd_catalog()->attno[GD_RUNS];

	for (int c = 0; c < LISTING_NCOLUMNS; c++)
	{
		bool		isnull;

		listing[c] = slot_getattr(slot, attno[listing_sources[c]], &isnull);
		if (isnull)
			elog(ERROR, "a run without a value in column %d", attno[listing_sources[c]]);
	}
}

/*
 * run_listed: SQL has inserted, deleted or changed a run.
 */
Datum
gd_run_listed(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	Listing		listing;
	Listing		old;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ||
		!TRIGGER_FIRED_AFTER(trigger->tg_event) ||
		RelationGetRelid(trigger->tg_relation) != gd_catalog()->table[GD_RUNS])
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("gen_durable.run_listed is the function of a row trigger on gen_durable.runs")));
	listing_of_slot(trigger->tg_trigslot, listing);
	if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		listing_add(listing);
	else if (TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
		listing_remove(listing);
	else
	{
		memcpy(old, listing, sizeof(Listing));
		listing_of_slot(trigger->tg_newslot, listing);
		if (!gd_text_equal(DatumGetTextPP(old[LISTING_STATUS]), DatumGetTextPP(listing[LISTING_STATUS])))
			listing_move(listing, old[LISTING_STATUS]);
	}
	PG_RETURN_POINTER(NULL);
}
