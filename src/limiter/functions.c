/*
 * functions.c
 *		admit, credit, renew, reconcile: the limiter for programs that want
 *		only that (D-32).
 *
 * A slot that a program is given is a lease: a row of slot_holders, which
 * counts as an executing instance does.  It ends when it is credited, or by
 * its time, whichever is first; a second credit of it frees nothing.
 *
 * Locks: those of the limiter; rows of slot_holders by id, which credit and
 * renew wait for and expiry does not.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/due.h"
#include "engine/effects.h"
#include "guc.h"
#include "json.h"
#include "limiter/holders.h"
#include "limiter/limiter.h"
#include "limiter/policy.h"
#include "names.h"
#include "shmem/limit_counts.h"
#include "table.h"

PG_FUNCTION_INFO_V1(gd_admit_entries);
PG_FUNCTION_INFO_V1(gd_credit_slots);
PG_FUNCTION_INFO_V1(gd_renew_slots);
PG_FUNCTION_INFO_V1(gd_reconcile);
PG_FUNCTION_INFO_V1(gd_limit_counts);

/* Leases that an admission ends before it asks. */
#define EXPIRE_ROWS 1000

typedef enum EntryKey
{
	KEY_ID, KEY_RATE, KEY_CONC,
	NENTRY_KEYS
} EntryKey;

static const GdJsonKey entry_keys[NENTRY_KEYS] = {
	[KEY_ID] = {"id", GD_JSON_NUMBER},
	[KEY_RATE] = {"rate", GD_JSON_OBJECT},
	[KEY_CONC] = {"conc", GD_JSON_TEXT},
};

typedef enum RateKey
{
	KEY_KEY, KEY_WEIGHT,
	NRATE_KEYS
} RateKey;

static const GdJsonKey rate_keys[NRATE_KEYS] = {
	[KEY_KEY] = {"key", GD_JSON_TEXT},
	[KEY_WEIGHT] = {"weight", GD_JSON_NUMBER},
};

typedef enum SlotKey
{
	KEY_SLOT_KEY, KEY_SHARD, KEY_HOLDER,
	NSLOT_KEYS
} SlotKey;

static const GdJsonKey slot_keys[NSLOT_KEYS] = {
	[KEY_SLOT_KEY] = {"key", GD_JSON_TEXT},
	[KEY_SHARD] = {"shard", GD_JSON_NUMBER},
	[KEY_HOLDER] = {"holder", GD_JSON_NUMBER},
};

static bool
lacks(const char *key, GdFault *fault)
{
	return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
					"the object lacks the key \"%s\"", key);
}

/*
 * entry_read: read an entry, and find the policies of its keys.
 */
static bool
entry_read(const JsonbValue *object, GdPolicies *policies, GdEntry *entry, GdFault *fault)
{
	GdJsonField fields[NENTRY_KEYS];
	GdJsonField rate[NRATE_KEYS];

	memset(entry, 0, sizeof(GdEntry));
	entry->weight = 1;
	if (!gd_json_read(object, "the object", entry_keys, NENTRY_KEYS, fields, fault))
		return false;
	if (!fields[KEY_ID].given)
		return lacks("id", fault);
	if (!gd_json_int8(&fields[KEY_ID], "id", &entry->id, fault))
		return false;
	if (fields[KEY_CONC].given)
	{
		text	   *gate = gd_json_text(&fields[KEY_CONC]);

		if (!gd_check_name("\"conc\"", gate, fault))
			return false;
		entry->gate = gate;
		entry->gate_policy = gd_policy_find(policies, GD_GATE, gate);
	}
	if (fields[KEY_RATE].given)
	{
		text	   *key;

		if (!gd_json_read(&fields[KEY_RATE].value, "\"rate\"", rate_keys, NRATE_KEYS, rate, fault))
			return false;
		if (!rate[KEY_KEY].given)
			return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
							"\"rate\" lacks the key \"key\"");
		key = gd_json_text(&rate[KEY_KEY]);
		if (!gd_check_name("rate limit", key, fault))
			return false;
		if (rate[KEY_WEIGHT].given)
			entry->weight = gd_json_double(&rate[KEY_WEIGHT]);
		if (!gd_check_weight(entry->weight, fault))
			return false;
		entry->rate = key;
		entry->rate_policy = gd_policy_find(policies, GD_RATE, key);
		if (entry->rate_policy && entry->weight > entry->rate_policy->capacity)
			return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
							"weight %g is above %g, the burst of rate limit \"%s\"",
							entry->weight, entry->rate_policy->capacity,
							text_to_cstring(entry->rate_policy->name));
	}
	return true;
}

/*
 * holder_add: a program holds a slot from now on; returns the lease's id.
 */
static int64
holder_add(GdTable *holders, const GdEntry *entry, TimestampTz expires_at)
{
	GdRow	   *row = gd_row_create(holders);
	int64		id = gd_table_next_id(holders);

	gd_row_set(row, HOLDER_ID, Int64GetDatum(id));
	gd_row_set(row, HOLDER_KEY, PointerGetDatum(entry->gate));
	gd_row_set(row, HOLDER_SHARD, Int32GetDatum(entry->shard));
	gd_row_set(row, HOLDER_HELD_FOR, Int64GetDatum(entry->id));
	gd_row_set(row, HOLDER_EXPIRES_AT, TimestampTzGetDatum(expires_at));
	gd_row_insert(row);
	gd_row_free(row);
	return id;
}

/*
 * entry_count: count the answer, at the limits that gave it.
 */
static void
entry_count(const GdEntry *entry)
{
	bool		granted = entry->verdict == GD_GRANTED;

	if (entry->gate_policy && (granted || entry->lacks_slot))
		gd_limit_count(GD_GATE, entry->gate_policy->name, granted, !granted);
	if (entry->rate_policy && (granted || !entry->lacks_slot))
		gd_limit_count(GD_RATE, entry->rate_policy->name, granted, !granted);
}

static Datum
slot_jsonb(const GdEntry *entry, int64 holder)
{
	JsonbParseState *to = NULL;

	pushJsonbValue(&to, WJB_BEGIN_OBJECT, NULL);
	gd_json_put_text(&to, "key", entry->gate);
	gd_json_put_int(&to, "shard", entry->shard);
	gd_json_put_int(&to, "holder", holder);
	return JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&to, WJB_END_OBJECT, NULL)));
}

/*
 * admit(entries) -> setof (id, admitted, slot)
 */
Datum
gd_admit_entries(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *out = (ReturnSetInfo *) fcinfo->resultinfo;
	Jsonb	   *array = gd_json_arg_array(PG_GETARG_DATUM(0), PG_ARGISNULL(0), "entries");
	int			nentries = JB_ROOT_COUNT(array);
	GdEntry    *entries = palloc(sizeof(GdEntry) * Max(nentries, 1));
	GdEntry    *asked = palloc(sizeof(GdEntry) * Max(nentries, 1));
	int			nasked = 0;
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	value;
	GdPolicies	policies;
	GdTable    *holders;
	TimestampTz now = gd_now();
	TimestampTz expires_at;
	int			n = 0;

	gd_writes("gen_durable.admit()");
	InitMaterializedSRF(fcinfo, 0);
	if (nentries == 0)
		return (Datum) 0;
	gd_policies_begin(&policies);
	it = JsonbIteratorInit(&array->root);
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		GdFault		fault = {0};

		if (token != WJB_ELEM)
			continue;
		if (!entry_read(&value, &policies, &entries[n], &fault))
			gd_fault(NULL, fault.sqlerrcode, fault.hint, "entry %d: %s", n + 1, fault.message);
		n++;
	}

	(void) gd_holders_expire(EXPIRE_ROWS);
	gd_effects_apply();
	expires_at = gd_later(now, gd_interval_from_ms(gd_lease_ttl));

	/* A gate that is not configured lets nothing through. */
	for (int i = 0; i < n; i++)
	{
		entries[i].verdict = GD_LACKS_SLOT;
		entries[i].lacks_slot = true;
		if (!entries[i].gate || entries[i].gate_policy)
			asked[nasked++] = entries[i];
	}
	gd_limiter()->admit(asked, nasked, now);

	holders = gd_table_open(GD_HOLDERS);
	for (int i = 0, a = 0; i < n; i++)
	{
		Datum		values[3];
		bool		nulls[3] = {false, false, true};

		if (!entries[i].gate || entries[i].gate_policy)
			entries[i] = asked[a++];
		entry_count(&entries[i]);
		values[0] = Int64GetDatum(entries[i].id);
		values[1] = BoolGetDatum(entries[i].verdict == GD_GRANTED);
		if (entries[i].verdict == GD_GRANTED && entries[i].gate)
		{
			values[2] = slot_jsonb(&entries[i], holder_add(holders, &entries[i], expires_at));
			nulls[2] = false;
			gd_due_at(expires_at);
		}
		tuplestore_putvalues(out->setResult, out->setDesc, values, nulls);
	}
	gd_table_close(holders);
	gd_table_flush();
	gd_policies_end(&policies);
	return (Datum) 0;
}

/* A slot as a program hands it back. */
typedef struct Slot
{
	text	   *key;
	int			shard;
	int64		holder;
} Slot;

static bool
slot_read(const JsonbValue *object, Slot *slot, GdFault *fault)
{
	GdJsonField fields[NSLOT_KEYS];

	if (!gd_json_read(object, "the object", slot_keys, NSLOT_KEYS, fields, fault))
		return false;
	for (int k = 0; k < NSLOT_KEYS; k++)
		if (!fields[k].given)
			return lacks(slot_keys[k].name, fault);
	slot->key = gd_json_text(&fields[KEY_SLOT_KEY]);
	return gd_check_name("\"key\"", slot->key, fault) &&
		gd_json_int(&fields[KEY_SHARD], "shard", &slot->shard, fault) &&
		gd_json_int8(&fields[KEY_HOLDER], "holder", &slot->holder, fault);
}

static int
slot_compare(const void *a, const void *b)
{
	const Slot *x = a;
	const Slot *y = b;

	return (x->holder > y->holder) - (x->holder < y->holder);
}

/*
 * slots_arg: an array of slots, sorted; nulls, which rate-only entries got,
 * are left out.  Returns how many.
 */
static int
slots_arg(FunctionCallInfo fcinfo, Slot **slots)
{
	Jsonb	   *array = gd_json_arg_array(PG_GETARG_DATUM(0), PG_ARGISNULL(0), "slots");
	JsonbIterator *it = JsonbIteratorInit(&array->root);
	JsonbIteratorToken token;
	JsonbValue	value;
	int			ord = 0;
	int			n = 0;

	*slots = palloc(sizeof(Slot) * Max(JB_ROOT_COUNT(array), 1));
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		GdFault		fault = {0};

		if (token != WJB_ELEM)
			continue;
		ord++;
		if (value.type == jbvNull)
			continue;
		if (!slot_read(&value, &(*slots)[n], &fault))
			gd_fault(NULL, fault.sqlerrcode, fault.hint, "slot %d: %s", ord, fault.message);
		n++;
	}
	qsort(*slots, n, sizeof(Slot), slot_compare);
	return n;
}

/*
 * holder_lock: lock the lease that a slot names; false if it has ended, or
 * never was.
 */
static bool
holder_lock(GdScan *by_id, GdRow *row, const Slot *slot)
{
	gd_scan_refresh(by_id);
	gd_scan_int8(by_id, 1, slot->holder);
	gd_scan_start(by_id);
	return gd_scan_next(by_id) &&
		gd_row_lock(row, &by_id->slot->tts_tid, true) == GD_LOCKED &&
		gd_text_equal(DatumGetTextPP(GD_VALUE(row, HOLDER_KEY)), slot->key) &&
		DatumGetInt32(GD_VALUE(row, HOLDER_SHARD)) == slot->shard;
}

static void
holder_end(GdRow *row)
{
	text	   *key = DatumGetTextPP(GD_VALUE(row, HOLDER_KEY));

	gd_row_delete(row);
	gd_effect_credit(key, DatumGetInt32(GD_VALUE(row, HOLDER_SHARD)));
	gd_effect_promote(GD_BLOCK_CONC, key);
}

/*
 * credit(slots) -> how many were held
 */
Datum
gd_credit_slots(PG_FUNCTION_ARGS)
{
	int64		held = 0;
	GdTable    *holders;
	GdRow	   *row;
	GdScan		by_id;
	Slot	   *slots;
	int			n;

	gd_writes("gen_durable.credit()");
	n = slots_arg(fcinfo, &slots);
	if (n == 0)
		PG_RETURN_INT64(0);
	holders = gd_table_open(GD_HOLDERS);
	row = gd_row_create(holders);
	gd_scan_begin(&by_id, holders, GD_HOLDERS_PKEY);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!holder_lock(&by_id, row, &slots[i]))
			continue;
		holder_end(row);
		gd_table_flush();
		held++;
	}
	gd_scan_end(&by_id);
	gd_row_free(row);
	gd_table_close(holders);
	PG_RETURN_INT64(held);
}

/*
 * renew(slots) -> how many are held on; a lease is never made shorter
 * (GD-097)
 */
Datum
gd_renew_slots(PG_FUNCTION_ARGS)
{
	int64		held = 0;
	TimestampTz until;
	GdTable    *holders;
	GdRow	   *row;
	GdScan		by_id;
	Slot	   *slots;
	int			n;

	gd_writes("gen_durable.renew()");
	n = slots_arg(fcinfo, &slots);
	if (n == 0)
		PG_RETURN_INT64(0);
	until = gd_later(gd_now(), gd_interval_from_ms(gd_lease_ttl));
	holders = gd_table_open(GD_HOLDERS);
	row = gd_row_create(holders);
	gd_scan_begin(&by_id, holders, GD_HOLDERS_PKEY);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!holder_lock(&by_id, row, &slots[i]))
			continue;
		held++;
		if (DatumGetTimestampTz(GD_VALUE(row, HOLDER_EXPIRES_AT)) >= until)
			continue;
		gd_row_set(row, HOLDER_EXPIRES_AT, TimestampTzGetDatum(until));
		gd_row_update(row);
		gd_table_flush();
	}
	gd_scan_end(&by_id);
	gd_row_free(row);
	gd_table_close(holders);
	PG_RETURN_INT64(held);
}

/*
 * gd_holders_expire: take back the slots whose lease has run out, at most so
 * many; returns how many.
 */
int64
gd_holders_expire(int max_rows)
{
	GdTable    *holders = gd_table_open(GD_HOLDERS);
	GdRow	   *row = gd_row_create(holders);
	int64		expired = 0;
	GdScan		scan;

	gd_scan_begin(&scan, holders, GD_HOLDERS_EXPIRY);
	gd_scan_key(&scan, 1, BTLessStrategyNumber, F_TIMESTAMPTZ_LT, TimestampTzGetDatum(gd_now()));
	gd_scan_start(&scan);
	while (expired < max_rows && gd_scan_next(&scan))
	{
		if (gd_row_lock(row, &scan.slot->tts_tid, false) != GD_LOCKED)
			continue;
		holder_end(row);
		expired++;
	}
	gd_scan_end(&scan);
	gd_row_free(row);
	gd_table_close(holders);
	gd_table_flush();
	return expired;
}

/*
 * reconcile() -> (buckets, gates)
 */
Datum
gd_reconcile(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	int64		buckets = 0;
	int64		gates = 0;
	Datum		values[2];
	bool		nulls[2] = {false};

	gd_writes("gen_durable.reconcile()");
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	gd_effects_apply();
	(void) gd_limiter()->reconcile(GD_ALL_KEYS, gd_now(), &buckets, &gates);
	values[0] = Int64GetDatum(buckets);
	values[1] = Int64GetDatum(gates);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/*
 * limit_counts() -> setof (kind, name, admitted, refused)
 */
Datum
gd_limit_counts(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *out = (ReturnSetInfo *) fcinfo->resultinfo;
	GdTable    *configs;
	GdScan		scan;

	InitMaterializedSRF(fcinfo, 0);
	configs = gd_table_open_read(GD_BUCKET_CONFIGS);
	gd_scan_begin(&scan, configs, GD_BUCKET_CONFIGS_PKEY);
	gd_scan_key(&scan, 1, BTGreaterEqualStrategyNumber, F_TEXT_GE,
				PointerGetDatum(cstring_to_text("")));
	gd_scan_start(&scan);
	while (gd_scan_next(&scan))
	{
		Datum		values[4];
		bool		nulls[4] = {false};
		int64		admitted;
		int64		refused;
		GdPolicy	policy;

		gd_policy_load(&policy, configs, scan.slot);
		values[0] = CStringGetTextDatum(gd_limit_kinds[policy.kind]);
		values[1] = PointerGetDatum(policy.name);
		nulls[2] = nulls[3] = !gd_limit_counted(policy.kind, policy.name, &admitted, &refused);
		values[2] = Int64GetDatum(admitted);
		values[3] = Int64GetDatum(refused);
		tuplestore_putvalues(out->setResult, out->setDesc, values, nulls);
	}
	gd_scan_end(&scan);
	gd_table_close(configs);
	return (Datum) 0;
}
