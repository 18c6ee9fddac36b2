/*
 * configure.c
 *		set_rate_limit, set_concurrency_limit, drop_limit, sync_config: the
 *		policies of limits.
 *
 * A change takes effect on counters in the same transaction, and on blocked
 * rows at its commit.  Rows that execute keep what they hold: a gate that is
 * made smaller admits nothing until enough have ended, and a key whose gate is
 * made or dropped may have rows of both kinds execute at once until the older
 * ones have ended (GD-065).
 *
 * Locks: the policy's name, in a lock space of the extension's own, then its
 * row, then its counters; all of them are waited for.  The name is shared by
 * those who make counters, which a change would not see before they commit.
 */
#include "postgres.h"

#include <math.h>

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/blocked.h"
#include "json.h"
#include "limiter/limiter.h"
#include "limiter/policy.h"
#include "names.h"

PG_FUNCTION_INFO_V1(gd_set_rate_limit);
PG_FUNCTION_INFO_V1(gd_set_concurrency_limit);
PG_FUNCTION_INFO_V1(gd_drop_limit);
PG_FUNCTION_INFO_V1(gd_sync_config);

/* Blocked keys that a change looks at itself; the rest is left to the recheck. */
#define CHANGE_KEYS 10000


/*
 * config_lock: keep others from changing a policy or making it.  True if there
 * is one, which the row then holds, locked.
 */
static bool
config_lock(const GdPolicy *policy, GdTable **configs, GdRow **row)
{
	const char *kind = gd_limit_kinds[policy->kind];
	GdScan		scan;
	bool		found;

	gd_policy_lock(policy);
	*configs = gd_table_open(GD_BUCKET_CONFIGS);
	*row = gd_row_create(*configs);
	gd_scan_begin(&scan, *configs, GD_BUCKET_CONFIGS_PKEY);
	gd_scan_text(&scan, 1, cstring_to_text(kind));
	gd_scan_text(&scan, 2, policy->name);
	gd_scan_start(&scan);
	found = gd_scan_next(&scan) && gd_row_lock(*row, &scan.slot->tts_tid, true) == GD_LOCKED;
	gd_scan_end(&scan);
	return found;
}

static void
config_changed(const GdPolicy *policy, const GdPolicy *was)
{
	gd_table_flush();
	gd_limiter()->sync_config(policy, was);
	gd_blocked_of_policy(gd_limit_kinds[policy->kind], policy->name, CHANGE_KEYS);
}

/*
 * config_store: make or change a policy.  One that is as it was is left alone,
 * so that every start of a program may say what it needs.
 */
static void
config_store(const GdPolicy *policy)
{
	GdTable    *configs;
	GdRow	   *row;
	bool		found = config_lock(policy, &configs, &row);
	bool		same = false;
	GdPolicy	was;

	if (found)
	{
		gd_policy_load(&was, configs, row->slot);
		same = was.capacity == policy->capacity && was.shards == policy->shards &&
			was.rate == policy->rate;
	}
	if (policy->kind == GD_RATE)
		gd_row_set(row, CONF_RATE, Float8GetDatum(policy->rate));
	gd_row_set(row, CONF_CAPACITY, Float8GetDatum(policy->capacity));
	gd_row_set(row, CONF_SHARDS, Int16GetDatum(policy->shards));
	if (!found)
	{
		gd_row_set(row, CONF_KIND,
				   PointerGetDatum(cstring_to_text(gd_limit_kinds[policy->kind])));
		gd_row_set(row, CONF_NAME, PointerGetDatum(policy->name));
		gd_row_insert(row);
	}
	else if (!same)
		gd_row_update(row);
	gd_row_free(row);
	gd_table_close(configs);
	if (!same)
		config_changed(policy, found ? &was : NULL);
}

static bool
config_check_name(const text *name, GdFault *fault)
{
	if (!gd_check_name("limit name", name, fault))
		return false;
	if (memchr(VARDATA_ANY(name), ':', VARSIZE_ANY_EXHDR(name)) != NULL)
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE,
						"A key is under the limit named by its text before the first colon.",
						"limit name \"%s\" must not contain a colon",
						gd_clip(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name)));
	return true;
}

static bool
config_check_shards(int shards, GdFault *fault)
{
	if (shards < 1 || shards > GD_SHARDS_MAX)
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"shards %d must be from 1 to %d", shards, GD_SHARDS_MAX);
	return true;
}

/*
 * config_rate: a rate limit, checked; burst is NULL where it is not given
 * (GD-100).
 */
static bool
config_rate(GdPolicy *policy, int allowed, const Interval *period, const double *burst,
			int shards, GdFault *fault)
{
	double		seconds;

	policy->kind = GD_RATE;
	if (!config_check_name(policy->name, fault))
		return false;
	if (allowed < 1)
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"allowed %d must be at least 1", allowed);
	if (!gd_check_not_negative("period", period, fault))
		return false;
	seconds = (period->time + (period->day + 30.0 * period->month) * USECS_PER_DAY) / USECS_PER_SEC;
	if (seconds <= 0)
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"period must be above 0");
	if (burst && (!(*burst > 0) || isinf(*burst)))
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"burst %g must be a finite number above 0", *burst);
	if (!config_check_shards(shards, fault))
		return false;
	policy->rate = allowed / seconds;
	policy->capacity = burst ? *burst : allowed;
	policy->shards = shards;
	return true;
}

/*
 * config_gate: a gate, checked.  More shards than slots would be empty ones
 * (GD-101).
 */
static bool
config_gate(GdPolicy *policy, int capacity, int shards, GdFault *fault)
{
	policy->kind = GD_GATE;
	policy->rate = 0;
	if (!config_check_name(policy->name, fault))
		return false;
	if (capacity < 1)
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"capacity %d must be at least 1", capacity);
	if (!config_check_shards(shards, fault))
		return false;
	if (shards > capacity)
	{
		ereport(NOTICE,
				(errmsg("concurrency limit \"%s\" has %d shards, not %d: no more than its capacity",
						text_to_cstring(policy->name), capacity, shards)));
		shards = capacity;
	}
	policy->capacity = capacity;
	policy->shards = shards;
	return true;
}

/*
 * set_rate_limit(name, allowed, period, burst, shards)
 */
Datum
gd_set_rate_limit(PG_FUNCTION_ARGS)
{
	GdPolicy	policy;
	double		burst;

	gd_writes("gen_durable.set_rate_limit()");
	gd_arg_required(fcinfo, 0, "name");
	gd_arg_required(fcinfo, 1, "allowed");
	gd_arg_required(fcinfo, 2, "period");
	gd_arg_required(fcinfo, 4, "shards");
	policy.name = PG_GETARG_TEXT_PP(0);
	if (!PG_ARGISNULL(3))
		burst = PG_GETARG_FLOAT8(3);
	(void) config_rate(&policy, PG_GETARG_INT32(1), PG_GETARG_INTERVAL_P(2),
					   PG_ARGISNULL(3) ? NULL : &burst, PG_GETARG_INT32(4), NULL);
	config_store(&policy);
	PG_RETURN_VOID();
}

/*
 * set_concurrency_limit(name, capacity, shards)
 */
Datum
gd_set_concurrency_limit(PG_FUNCTION_ARGS)
{
	GdPolicy	policy;

	gd_writes("gen_durable.set_concurrency_limit()");
	gd_arg_required(fcinfo, 0, "name");
	gd_arg_required(fcinfo, 1, "capacity");
	gd_arg_required(fcinfo, 2, "shards");
	policy.name = PG_GETARG_TEXT_PP(0);
	(void) config_gate(&policy, PG_GETARG_INT32(1), PG_GETARG_INT32(2), NULL);
	config_store(&policy);
	PG_RETURN_VOID();
}

static GdLimitKind
config_kind(const text *kind)
{
	GdLimitKind result;

	if (!gd_limit_kind(VARDATA_ANY(kind), VARSIZE_ANY_EXHDR(kind), &result))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("kind \"%s\" must be rate or conc",
						gd_clip(VARDATA_ANY(kind), VARSIZE_ANY_EXHDR(kind)))));
	return result;
}

/*
 * drop_limit(kind, name)
 */
Datum
gd_drop_limit(PG_FUNCTION_ARGS)
{
	GdPolicy	policy = {0};
	GdTable    *configs;
	GdRow	   *row;

	gd_writes("gen_durable.drop_limit()");
	gd_arg_required(fcinfo, 0, "kind");
	policy.kind = config_kind(PG_GETARG_TEXT_PP(0));
	policy.name = gd_arg_name(fcinfo, 1, "limit name");
	if (!config_lock(&policy, &configs, &row))
		ereport(ERROR,
				(errcode(GD_ERRCODE_NO_LIMIT),
				 errmsg("%s limit \"%s\" is not configured",
						policy.kind == GD_GATE ? "concurrency" : "rate",
						text_to_cstring(policy.name))));
	gd_row_delete(row);
	gd_row_free(row);
	gd_table_close(configs);
	config_changed(&policy, NULL);
	PG_RETURN_VOID();
}

typedef enum ConfigKey
{
	KEY_KIND, KEY_NAME, KEY_ALLOWED, KEY_PERIOD, KEY_BURST, KEY_CAPACITY, KEY_SHARDS,
	NKEYS
} ConfigKey;

static const GdJsonKey config_keys[NKEYS] = {
	[KEY_KIND] = {"kind", GD_JSON_TEXT},
	[KEY_NAME] = {"name", GD_JSON_TEXT},
	[KEY_ALLOWED] = {"allowed", GD_JSON_NUMBER},
	[KEY_PERIOD] = {"period", GD_JSON_TEXT},
	[KEY_BURST] = {"burst", GD_JSON_NUMBER},
	[KEY_CAPACITY] = {"capacity", GD_JSON_NUMBER},
	[KEY_SHARDS] = {"shards", GD_JSON_NUMBER},
};

/* What each kind must have, and what it may not. */
static const struct
{
	uint32		required;
	uint32		refused;
}			config_shape[] = {
	[GD_GATE] = {1 << KEY_CAPACITY, 1 << KEY_ALLOWED | 1 << KEY_PERIOD | 1 << KEY_BURST},
	[GD_RATE] = {1 << KEY_ALLOWED | 1 << KEY_PERIOD, 1 << KEY_CAPACITY},
};

static bool
config_read(const JsonbValue *object, GdPolicy *policy, GdFault *fault)
{
	GdJsonField fields[NKEYS];
	int			shards = 1;
	int			number;
	double		burst;
	Interval	period;

	if (!gd_json_read(object, "the object", config_keys, NKEYS, fields, fault))
		return false;
	for (int k = KEY_KIND; k <= KEY_NAME; k++)
		if (!fields[k].given)
			return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
							"the object lacks the key \"%s\"", config_keys[k].name);
	if (!gd_limit_kind(fields[KEY_KIND].value.val.string.val,
					   fields[KEY_KIND].value.val.string.len, &policy->kind))
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"kind \"%s\" must be rate or conc",
						gd_clip(fields[KEY_KIND].value.val.string.val,
								fields[KEY_KIND].value.val.string.len));
	policy->name = gd_json_text(&fields[KEY_NAME]);
	for (int k = 0; k < NKEYS; k++)
	{
		if (!fields[k].given && (config_shape[policy->kind].required & (1 << k)))
			return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
							"the object lacks the key \"%s\"", config_keys[k].name);
		if (fields[k].given && (config_shape[policy->kind].refused & (1 << k)))
			return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
							"a limit of kind \"%s\" has no key \"%s\"",
							gd_limit_kinds[policy->kind], config_keys[k].name);
	}
	if (fields[KEY_SHARDS].given && !gd_json_int(&fields[KEY_SHARDS], "shards", &shards, fault))
		return false;
	if (policy->kind == GD_GATE)
		return gd_json_int(&fields[KEY_CAPACITY], "capacity", &number, fault) &&
			config_gate(policy, number, shards, fault);

	if (!gd_json_int(&fields[KEY_ALLOWED], "allowed", &number, fault) ||
		!gd_parse_interval("period", gd_json_cstring(&fields[KEY_PERIOD]), &period, fault))
		return false;
	if (fields[KEY_BURST].given)
		burst = gd_json_double(&fields[KEY_BURST]);
	return config_rate(policy, number, &period, fields[KEY_BURST].given ? &burst : NULL,
					   shards, fault);
}

static int
config_compare(const void *a, const void *b)
{
	const GdPolicy *x = a;
	const GdPolicy *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return strcmp(text_to_cstring(x->name), text_to_cstring(y->name));
}

/*
 * sync_config(configs): make or change policies in the order of their names,
 * so that two callers do not wait for each other; what is not named is left
 * alone (GD-098).
 */
Datum
gd_sync_config(PG_FUNCTION_ARGS)
{
	Jsonb	   *configs = gd_json_arg_array(PG_GETARG_DATUM(0), PG_ARGISNULL(0), "configs");
	GdPolicy   *policies = palloc(sizeof(GdPolicy) * Max(JB_ROOT_COUNT(configs), 1));
	JsonbIterator *it = JsonbIteratorInit(&configs->root);
	JsonbIteratorToken token;
	JsonbValue	value;
	int			n = 0;

	gd_writes("gen_durable.sync_config()");
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		GdFault		fault = {0};

		if (token != WJB_ELEM)
			continue;
		if (!config_read(&value, &policies[n], &fault))
			gd_fault(NULL, fault.sqlerrcode, fault.hint, "config %d: %s", n + 1, fault.message);
		n++;
	}
	qsort(policies, n, sizeof(GdPolicy), config_compare);
	for (int i = 1; i < n; i++)
		if (config_compare(&policies[i - 1], &policies[i]) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("configs name %s limit \"%s\" twice",
							gd_limit_kinds[policies[i].kind], text_to_cstring(policies[i].name))));
	for (int i = 0; i < n; i++)
		config_store(&policies[i]);
	PG_RETURN_VOID();
}
