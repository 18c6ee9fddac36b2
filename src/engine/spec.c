/*
 * spec.c
 *		What a caller asks for when it creates an instance: reading it from
 *		JSON, filling in the machine's defaults, and checking its bounds.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"

#include "clock.h"
#include "engine/spec.h"
#include "events.h"
#include "json.h"
#include "names.h"
#include "shmem/stats.h"

typedef enum SpecKey
{
	KEY_FSM, KEY_STATE, KEY_STEP, KEY_FSM_VERSION, KEY_QUEUE, KEY_PRIORITY,
	KEY_CONCURRENCY_KEY, KEY_CORRELATION_KEY, KEY_CORRELATION_SCOPE,
	KEY_RATE_LIMIT, KEY_WEIGHT, KEY_ELIGIBLE_AT, KEY_SCHEDULE_IN,
	NKEYS
} SpecKey;

static const GdJsonKey spec_keys[NKEYS] = {
	[KEY_FSM] = {"fsm", GD_JSON_TEXT},
	[KEY_STATE] = {"state", GD_JSON_ANY},
	[KEY_STEP] = {"step", GD_JSON_TEXT},
	[KEY_FSM_VERSION] = {"fsm_version", GD_JSON_NUMBER},
	[KEY_QUEUE] = {"queue", GD_JSON_TEXT},
	[KEY_PRIORITY] = {"priority", GD_JSON_NUMBER},
	[KEY_CONCURRENCY_KEY] = {"concurrency_key", GD_JSON_TEXT},
	[KEY_CORRELATION_KEY] = {"correlation_key", GD_JSON_TEXT},
	[KEY_CORRELATION_SCOPE] = {"correlation_scope", GD_JSON_ARRAY},
	[KEY_RATE_LIMIT] = {"rate_limit", GD_JSON_TEXT},
	[KEY_WEIGHT] = {"weight", GD_JSON_NUMBER},
	[KEY_ELIGIBLE_AT] = {"eligible_at", GD_JSON_TEXT},
	[KEY_SCHEDULE_IN] = {"schedule_in", GD_JSON_TEXT},
};

/*
 * spec_scope: an array of status names as durable_status[].
 */
static bool
spec_scope(const GdJsonField *field, ArrayType **into, GdFault *fault)
{
	const GdCatalog *cat = gd_catalog();
	JsonbContainer *container = field->value.val.binary.data;
	int			n = JsonContainerSize(container);
	Datum	   *labels = palloc(sizeof(Datum) * Max(n, 1));

	if (n > GD_NSTATUSES)
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"\"correlation_scope\" has %d statuses, at most %d are allowed",
						n, GD_NSTATUSES);
	for (int i = 0; i < n; i++)
	{
		JsonbValue *value = getIthJsonbValueFromContainer(container, i);
		char	   *name;
		int			s;

		if (value->type != jbvString)
			return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
							"\"correlation_scope\" must hold status names, not %s",
							gd_json_type(value));
		name = pnstrdup(value->val.string.val, value->val.string.len);
		for (s = 0; s < GD_NSTATUSES && strcmp(gd_status_name(s), name) != 0; s++)
			;
		if (s == GD_NSTATUSES)
			return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
							"\"%s\" in \"correlation_scope\" is no status",
							gd_clip(name, strlen(name)));
		labels[i] = ObjectIdGetDatum(cat->status[s]);
	}
	*into = construct_array(labels, n, cat->status_type, sizeof(Oid), true, TYPALIGN_INT);
	return true;
}

/*
 * gd_spec_machine: fill in what the machine decides.  `machine` keeps the
 * machine read last, so that a batch for one machine reads it once.
 */
void
gd_spec_machine(GdSpec *spec, GdMachine *machine)
{
	if (machine->name == NULL || !gd_text_equal(machine->name, spec->fsm) ||
		(spec->fsm_version == GD_NEWEST_VERSION ? !machine->newest :
		 spec->fsm_version != machine->version))
		gd_machine_read(spec->fsm, spec->fsm_version, machine);
	spec->fsm_version = machine->version;
	if (spec->step == NULL)
		spec->step = machine->initial;
	if (spec->queue == NULL)
		spec->queue = machine->queue;
}

/*
 * gd_limit_check: a rate limit must be configured, and the weight finite,
 * above 0 and at most what the limit can ever hold (D-12).  Policies are the
 * call's, so that a batch reads each once.
 */
bool
gd_limit_check(GdPolicies *policies, const text *rate_limit, double weight, GdFault *fault)
{
	const GdPolicy *policy;

	if (!gd_check_weight(weight, fault))
		return false;
	if (rate_limit == NULL)
		return true;

	policy = gd_policy_find(policies, GD_RATE, rate_limit);
	if (policy == NULL)
	{
		text	   *name = gd_limit_name(rate_limit);

		gd_stats_count_now(NULL, GD_COUNT_RATE_UNKNOWN, 1);
		gd_event("rate_limit.unknown", "count=1 key=%s name=%s", gd_event_value(rate_limit),
				 gd_event_value(name));
		return gd_fault(fault, GD_ERRCODE_NO_LIMIT,
						"A rate limit must be configured before work can be put under it.",
						"rate limit \"%s\" is not configured", text_to_cstring(name));
	}
	if (weight > policy->capacity)
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"weight %g is above %g, the burst of rate limit \"%s\"",
						weight, policy->capacity, text_to_cstring(policy->name));
	return true;
}

/*
 * gd_spec_check: the bounds of a spec.
 */
bool
gd_spec_check(GdSpec *spec, GdPolicies *policies, GdFault *fault)
{
	if (spec->priority < PG_INT16_MIN || spec->priority > PG_INT16_MAX)
		return gd_fault(fault, ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, NULL,
						"priority %d must be from %d to %d",
						spec->priority, PG_INT16_MIN, PG_INT16_MAX);
	return gd_check_name("machine name", spec->fsm, fault) &&
		gd_check_name("step", spec->step, fault) &&
		gd_check_name("queue", spec->queue, fault) &&
		(!spec->concurrency_key ||
		 gd_check_name("concurrency key", spec->concurrency_key, fault)) &&
		(!spec->correlation_key ||
		 gd_check_name("correlation key", spec->correlation_key, fault)) &&
		(!spec->rate_limit || gd_check_name("rate limit", spec->rate_limit, fault)) &&
		gd_check_finite_time("eligible_at", spec->eligible_at, fault) &&
		gd_limit_check(policies, spec->rate_limit, spec->weight, fault);
}

static bool
spec_read(const JsonbValue *object, text *fsm, TimestampTz now, GdMachine *machine,
		  GdPolicies *policies, GdSpec *spec, GdFault *fault)
{
	GdJsonField fields[NKEYS];
	Interval	delay;

	memset(spec, 0, sizeof(GdSpec));
	if (!gd_json_read(object, "the object", spec_keys, NKEYS, fields, fault))
		return false;
	if (fsm != NULL && (fields[KEY_FSM].given || fields[KEY_FSM].null))
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"the object has the unknown key \"fsm\"");
	spec->fsm = fsm ? fsm : gd_json_text(&fields[KEY_FSM]);
	if (spec->fsm == NULL)
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"the object lacks the key \"fsm\"");
	if (!gd_check_name("machine name", spec->fsm, fault))
		return false;

	if (fields[KEY_FSM_VERSION].given)
	{
		if (!gd_json_int(&fields[KEY_FSM_VERSION], "fsm_version", &spec->fsm_version, fault))
			return false;
		if (spec->fsm_version < 1)
			return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
							"fsm_version %d must be at least 1", spec->fsm_version);
	}
	spec->step = gd_json_text(&fields[KEY_STEP]);
	spec->queue = gd_json_text(&fields[KEY_QUEUE]);
	spec->state = fields[KEY_STATE].given ? gd_json_jsonb(&fields[KEY_STATE]) :
		DirectFunctionCall1(jsonb_in, CStringGetDatum("{}"));
	if (fields[KEY_PRIORITY].given &&
		!gd_json_int(&fields[KEY_PRIORITY], "priority", &spec->priority, fault))
		return false;
	spec->concurrency_key = gd_json_text(&fields[KEY_CONCURRENCY_KEY]);
	spec->correlation_key = gd_json_text(&fields[KEY_CORRELATION_KEY]);
	if (fields[KEY_CORRELATION_SCOPE].given &&
		!spec_scope(&fields[KEY_CORRELATION_SCOPE], &spec->scope, fault))
		return false;
	spec->rate_limit = gd_json_text(&fields[KEY_RATE_LIMIT]);
	spec->weight = fields[KEY_WEIGHT].given ? gd_json_double(&fields[KEY_WEIGHT]) : 1;

	spec->eligible_at = now;
	if (fields[KEY_ELIGIBLE_AT].given)
	{
		if (!gd_parse_time("eligible_at", gd_json_cstring(&fields[KEY_ELIGIBLE_AT]),
						   &spec->eligible_at, fault))
			return false;
	}
	else if (fields[KEY_SCHEDULE_IN].given)
	{
		if (!gd_parse_interval("schedule_in", gd_json_cstring(&fields[KEY_SCHEDULE_IN]),
							   &delay, fault))
			return false;
		spec->eligible_at = gd_later(now, &delay);
	}

	gd_spec_machine(spec, machine);
	return gd_spec_check(spec, policies, fault);
}

/*
 * gd_spec_read: read a spec from JSON.
 *
 * `fsm` names the machine, or is NULL where the object must.  `what` names
 * the object in messages.
 */
bool
gd_spec_read(const JsonbValue *object, const char *what, text *fsm, TimestampTz now,
			 GdMachine *machine, GdPolicies *policies, GdSpec *spec, GdFault *fault)
{
	GdFault		inner = {0};

	if (spec_read(object, fsm, now, machine, policies, spec, &inner))
		return true;
	return gd_fault(fault, inner.sqlerrcode, inner.hint, "%s: %s", what, inner.message);
}
