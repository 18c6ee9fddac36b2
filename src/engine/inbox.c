/*
 * inbox.c
 *		The signals of an instance.
 *
 * A signal is stored under its target's row lock and read under it, so a
 * delivery and a park can never both miss (GD-195): whichever comes second
 * waits for the first and sees what it did.
 *
 * A consumed signal that has a dedup key leaves a tombstone (consumed_at),
 * which no inbox shows and which keeps its key taken (D-11).
 */
#include "postgres.h"

#include "access/detoast.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"

#include "engine/inbox.h"
#include "engine/instance.h"
#include "engine/job.h"
#include "guc.h"
#include "json.h"
#include "names.h"

/*
 * gd_names_have: is a name in a text array?
 */
bool
gd_names_have(ArrayType *names, const text *name)
{
	Datum	   *elements;
	bool	   *nulls;
	int			nelements;
	bool		found = false;

	deconstruct_array(names, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &nelements);
	for (int i = 0; i < nelements && !found; i++)
		found = !nulls[i] && gd_text_equal(DatumGetTextPP(elements[i]), name);
	pfree(elements);
	pfree(nulls);
	return found;
}

static int
id_compare(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return (x > y) - (x < y);
}

/* Is an id in an array of ids in ascending order? */
static bool
ids_have(ArrayType *ids, int64 id)
{
	return ids != NULL &&
		bsearch(&id, ARR_DATA_PTR(ids), ArrayGetNItems(ARR_NDIM(ids), ARR_DIMS(ids)),
				sizeof(int64), id_compare) != NULL;
}

static ArrayType *
ids_array(Datum *ids, int nids)
{
	return nids == 0 ? NULL :
		construct_array(ids, nids, INT8OID, sizeof(int64), true, TYPALIGN_DOUBLE);
}

/*
 * gd_inbox_store: put a signal into an inbox, unless its dedup key was used
 * before for this target; then false.
 */
bool
gd_inbox_store(int64 target, text *name, Datum payload, text *dedup_key, TimestampTz now)
{
	GdTable    *signals = gd_table_open(GD_SIGNALS);
	GdRow	   *row = gd_row_create(signals);
	bool		stored = true;

	if (dedup_key)
	{
		GdScan		scan;

		gd_scan_begin(&scan, signals, GD_SIGNALS_DEDUP);
		gd_scan_int8(&scan, 1, target);
		gd_scan_text(&scan, 2, dedup_key);
		gd_scan_start(&scan);
		stored = !gd_scan_next(&scan);
		gd_scan_end(&scan);
	}
	if (stored)
	{
		gd_row_set(row, SIG_ID, Int64GetDatum(gd_table_next_id(signals)));
		gd_row_set(row, SIG_TARGET_ID, Int64GetDatum(target));
		gd_row_set(row, SIG_NAME, PointerGetDatum(name));
		gd_row_set(row, SIG_PAYLOAD, payload);
		if (dedup_key)
			gd_row_set(row, SIG_DEDUP_KEY, PointerGetDatum(dedup_key));
		gd_row_set(row, SIG_INSERTED_AT, TimestampTzGetDatum(now));
		gd_row_insert(row);
	}
	gd_row_free(row);
	gd_table_close(signals);
	return stored;
}

/*
 * inbox_put: list a signal, unless it would take the list above its bytes;
 * then false, and no other signal is listed either.
 *
 * The first is listed whatever its size: it could not be consumed otherwise,
 * and would hide all that come after it.
 */
static bool
inbox_put(JsonbParseState **to, GdTable *signals, TupleTableSlot *slot, Size *bytes)
{
	bool		first = *bytes == 0;

	*bytes += toast_raw_datum_size(gd_slot_datum(signals, slot, SIG_PAYLOAD)) + GD_NAME_MAX;
	if (*bytes > GD_JOB_BYTES && !first)
		return false;

	pushJsonbValue(to, WJB_BEGIN_OBJECT, NULL);
	gd_json_put_int(to, "id", DatumGetInt64(gd_slot_datum(signals, slot, SIG_ID)));
	/* Copies: what is put is read when the scan has long left the page. */
	gd_json_put_text(to, "name", DatumGetTextPCopy(gd_slot_datum(signals, slot, SIG_NAME)));
	gd_json_put_jsonb(to, "payload",
					  JsonbPGetDatum(DatumGetJsonbPCopy(gd_slot_datum(signals, slot, SIG_PAYLOAD))));
	gd_json_put_time(to, "at", DatumGetTimestampTz(gd_slot_datum(signals, slot, SIG_INSERTED_AT)));
	pushJsonbValue(to, WJB_END_OBJECT, NULL);
	return true;
}

/*
 * gd_inbox_load: an inbox as a job carries it; false, and inbox untouched, if
 * it is empty.
 *
 * by_target scans the inbox index.  At most job_rows signals of at most
 * GD_JOB_BYTES are listed; all
 * count as handed, since inbox() pages through the rest, but only the awaited
 * ones that are listed will be consumed.
 */
bool
gd_inbox_load(GdScan *by_target, int64 target, ArrayType *awaits, GdInbox *inbox)
{
	GdTable    *signals = by_target->table;
	JsonbParseState *all = NULL;
	JsonbParseState *awaited = NULL;
	int			size = 16;
	Datum	   *ids;
	Datum	   *awaited_ids;
	int			nids = 0;
	int			nawaited = 0;
	Size		bytes = 0;
	Size		awaited_bytes = 0;

	gd_scan_int8(by_target, 1, target);
	gd_scan_start(by_target);
	if (!gd_scan_next(by_target))
		return false;

	ids = palloc(sizeof(Datum) * size);
	awaited_ids = palloc(sizeof(Datum) * gd_job_rows);
	pushJsonbValue(&all, WJB_BEGIN_ARRAY, NULL);
	pushJsonbValue(&awaited, WJB_BEGIN_ARRAY, NULL);
	do
	{
		TupleTableSlot *slot = by_target->slot;
		Datum		id = gd_slot_datum(signals, slot, SIG_ID);

		if (nids == size)
		{
			size *= 2;
			ids = repalloc_huge(ids, sizeof(Datum) * size);
		}
		if (nids < gd_job_rows)
			(void) inbox_put(&all, signals, slot, &bytes);
		if (awaits && nawaited < gd_job_rows &&
			gd_names_have(awaits, DatumGetTextPP(gd_slot_datum(signals, slot, SIG_NAME))) &&
			inbox_put(&awaited, signals, slot, &awaited_bytes))
			awaited_ids[nawaited++] = id;
		ids[nids++] = id;
	} while (gd_scan_next(by_target));

	inbox->signals = JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&all, WJB_END_ARRAY, NULL)));
	inbox->awaited = JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&awaited, WJB_END_ARRAY, NULL)));
	inbox->handed = ids_array(ids, nids);
	inbox->handed_awaited = ids_array(awaited_ids, nawaited);
	return true;
}

/*
 * gd_inbox_reload: what a claim that was made before was handed, as its job
 * carries it: the signals with these ids, and none that came since.
 */
void
gd_inbox_reload(GdScan *by_target, int64 target, ArrayType *handed, ArrayType *awaited,
				GdInbox *inbox)
{
	GdTable    *signals = by_target->table;
	JsonbParseState *all = NULL;
	JsonbParseState *parked_for = NULL;
	Size		bytes = 0;
	Size		awaited_bytes = 0;
	int			listed = 0;

	pushJsonbValue(&all, WJB_BEGIN_ARRAY, NULL);
	pushJsonbValue(&parked_for, WJB_BEGIN_ARRAY, NULL);
	gd_scan_int8(by_target, 1, target);
	gd_scan_start(by_target);
	while (gd_scan_next(by_target))
	{
		TupleTableSlot *slot = by_target->slot;
		int64		id = DatumGetInt64(gd_slot_datum(signals, slot, SIG_ID));

		if (!ids_have(handed, id))
			continue;
		if (listed++ < gd_job_rows)
			(void) inbox_put(&all, signals, slot, &bytes);
		if (ids_have(awaited, id))
			(void) inbox_put(&parked_for, signals, slot, &awaited_bytes);
	}
	inbox->signals = JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&all, WJB_END_ARRAY, NULL)));
	inbox->awaited = JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&parked_for, WJB_END_ARRAY, NULL)));
}

/*
 * gd_inbox_has_news: is there a signal of one of these names that the parking
 * step was not handed?  (GD-192, 193: a set of ids, since ids commit out of
 * order.)
 */
bool
gd_inbox_has_news(int64 target, ArrayType *names, ArrayType *handed)
{
	GdTable    *signals = gd_table_open_read(GD_SIGNALS);
	GdScan		scan;
	bool		found = false;

	gd_scan_begin(&scan, signals, GD_SIGNALS_INBOX);
	gd_scan_int8(&scan, 1, target);
	gd_scan_start(&scan);
	while (!found && gd_scan_next(&scan))
		found = !ids_have(handed, DatumGetInt64(gd_slot_datum(signals, scan.slot, SIG_ID))) &&
			gd_names_have(names, DatumGetTextPP(gd_slot_datum(signals, scan.slot, SIG_NAME)));
	gd_scan_end(&scan);
	gd_table_close(signals);
	return found;
}

/*
 * gd_inbox_consume: take the signals with these ids out of the inbox.
 */
void
gd_inbox_consume(ArrayType *ids, TimestampTz now)
{
	GdTable    *signals = gd_table_open(GD_SIGNALS);
	GdRow	   *row = gd_row_create(signals);
	int			nids = ArrayGetNItems(ARR_NDIM(ids), ARR_DIMS(ids));
	int64	   *id = (int64 *) ARR_DATA_PTR(ids);
	GdScan		by_id;

	gd_scan_begin(&by_id, signals, GD_SIGNALS_PKEY);
	for (int i = 0; i < nids; i++)
	{
		gd_scan_int8(&by_id, 1, id[i]);
		gd_scan_start(&by_id);
		if (!gd_scan_next(&by_id) ||
			gd_row_lock(row, &by_id.slot->tts_tid, true) != GD_LOCKED)
			continue;
		if (GD_IS_NULL(row, SIG_DEDUP_KEY))
			gd_row_delete(row);
		else if (GD_IS_NULL(row, SIG_CONSUMED_AT))
		{
			gd_row_set(row, SIG_CONSUMED_AT, TimestampTzGetDatum(now));
			gd_row_update(row);
		}
	}
	gd_scan_end(&by_id);
	gd_row_free(row);
	gd_table_close(signals);
}

/*
 * gd_inbox_drop: delete all of an instance's signals and tombstones.
 *
 * Most instances have none, so this looks first with the light lock of a
 * reader.
 */
void
gd_inbox_drop(int64 target)
{
	GdTable    *signals = gd_table_open_read(GD_SIGNALS);
	GdRow	   *row;
	GdScan		scan;
	bool		any;

	gd_scan_begin(&scan, signals, GD_SIGNALS_DEDUP);
	gd_scan_int8(&scan, 1, target);
	gd_scan_start(&scan);
	any = gd_scan_next(&scan);
	gd_scan_end(&scan);
	gd_table_close(signals);
	if (!any)
		return;

	signals = gd_table_open(GD_SIGNALS);
	row = gd_row_create(signals);
	gd_scan_begin(&scan, signals, GD_SIGNALS_DEDUP);
	gd_scan_int8(&scan, 1, target);
	gd_scan_start(&scan);
	while (gd_scan_next(&scan))
		if (gd_row_lock(row, &scan.slot->tts_tid, true) == GD_LOCKED)
			gd_row_delete(row);
	gd_scan_end(&scan);
	gd_row_free(row);
	gd_table_close(signals);
}

/*
 * gd_inbox_collect: forget tombstones that are old enough, oldest first,
 * skipping those that others hold; returns how many.
 */
int64
gd_inbox_collect(TimestampTz consumed_before, int max_rows)
{
	GdTable    *signals = gd_table_open(GD_SIGNALS);
	GdRow	   *row = gd_row_create(signals);
	GdScan		scan;
	int64		collected = 0;

	gd_scan_begin(&scan, signals, GD_SIGNALS_TOMBSTONES);
	gd_scan_key(&scan, 1, BTLessStrategyNumber, F_TIMESTAMPTZ_LT,
				TimestampTzGetDatum(consumed_before));
	gd_scan_start(&scan);
	while (collected < max_rows && gd_scan_next(&scan))
		if (gd_row_lock(row, &scan.slot->tts_tid, false) == GD_LOCKED)
		{
			gd_row_delete(row);
			collected++;
		}
	gd_scan_end(&scan);
	gd_row_free(row);
	gd_table_close(signals);
	return collected;
}
