/*
 * outcome.c
 *		What a step ends with, read from its JSON.
 *
 * Everything is checked here, before anything is written.  An outcome has
 * only the keys of its kind.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/outcome.h"
#include "json.h"
#include "names.h"
#include "token.h"

typedef enum OutcomeKey
{
	KEY_OUTCOME, KEY_TOKEN, KEY_STEP, KEY_STATE, KEY_RATE_LIMIT, KEY_WEIGHT,
	KEY_CONCURRENCY_KEY, KEY_DELAY, KEY_INLINE_EXECUTION, KEY_NAMES, KEY_TIMEOUT,
	KEY_CHILDREN, KEY_RESULT, KEY_REASON, KEY_ERROR,
	NKEYS
} OutcomeKey;

static const GdJsonKey outcome_keys[NKEYS] = {
	[KEY_OUTCOME] = {"outcome", GD_JSON_TEXT},
	[KEY_TOKEN] = {"token", GD_JSON_TEXT},
	[KEY_STEP] = {"step", GD_JSON_TEXT},
	[KEY_STATE] = {"state", GD_JSON_ANY},
	[KEY_RATE_LIMIT] = {"rate_limit", GD_JSON_TEXT},
	[KEY_WEIGHT] = {"weight", GD_JSON_NUMBER},
	[KEY_CONCURRENCY_KEY] = {"concurrency_key", GD_JSON_TEXT},
	[KEY_DELAY] = {"delay", GD_JSON_TEXT},
	[KEY_INLINE_EXECUTION] = {"inline_execution", GD_JSON_BOOL},
	[KEY_NAMES] = {"names", GD_JSON_ARRAY},
	[KEY_TIMEOUT] = {"timeout", GD_JSON_TEXT},
	[KEY_CHILDREN] = {"children", GD_JSON_ARRAY},
	[KEY_RESULT] = {"result", GD_JSON_OBJECT},
	[KEY_REASON] = {"reason", GD_JSON_TEXT},
	[KEY_ERROR] = {"error", GD_JSON_TEXT},
};

const char *const gd_outcome_names[GD_NOUTCOMES] = {
	[GD_OUTCOME_NEXT] = "next",
	[GD_OUTCOME_RETRY] = "retry",
	[GD_OUTCOME_AWAIT] = "await",
	[GD_OUTCOME_CHILDREN] = "children",
	[GD_OUTCOME_DONE] = "done",
	[GD_OUTCOME_STOP] = "stop",
	[GD_OUTCOME_FAIL] = "fail",
};

#define BIT(key) (1 << (key))

/* The keys that each kind must have, and those that it may have besides. */
static const struct
{
	int			required;
	int			optional;
}			outcome_shapes[GD_NOUTCOMES] = {

	[GD_OUTCOME_NEXT] = {BIT(KEY_STEP), BIT(KEY_STATE) | BIT(KEY_RATE_LIMIT) | BIT(KEY_WEIGHT) |
	BIT(KEY_CONCURRENCY_KEY) | BIT(KEY_DELAY) | BIT(KEY_INLINE_EXECUTION)},
	[GD_OUTCOME_RETRY] = {0, BIT(KEY_DELAY) | BIT(KEY_STATE)},
	[GD_OUTCOME_AWAIT] = {BIT(KEY_NAMES) | BIT(KEY_STEP), BIT(KEY_STATE) | BIT(KEY_TIMEOUT)},
	[GD_OUTCOME_CHILDREN] = {BIT(KEY_STEP) | BIT(KEY_CHILDREN), BIT(KEY_STATE)},
	[GD_OUTCOME_DONE] = {0, BIT(KEY_RESULT)},
	[GD_OUTCOME_STOP] = {BIT(KEY_REASON), 0},
	[GD_OUTCOME_FAIL] = {BIT(KEY_ERROR), 0},
};

/*
 * outcome_kind: which kind the object is, and whether its keys are that
 * kind's.
 */
static bool
outcome_kind(const GdJsonField *fields, bool with_token, GdOutcomeKind *into,
			 GdFault *fault)
{
	char	   *name;
	int			kind;
	int			allowed;

	if (!fields[KEY_OUTCOME].given)
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE,
						"It is one of next, retry, await, children, done, stop and fail.",
						"the outcome lacks the key \"outcome\"");
	name = gd_json_cstring(&fields[KEY_OUTCOME]);
	for (kind = 0; kind < GD_NOUTCOMES && strcmp(gd_outcome_names[kind], name) != 0; kind++)
		;
	if (kind == GD_NOUTCOMES)
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE,
						"It is one of next, retry, await, children, done, stop and fail.",
						"outcome \"%s\" is unknown", gd_clip(name, strlen(name)));

	allowed = BIT(KEY_OUTCOME) | outcome_shapes[kind].required | outcome_shapes[kind].optional;
	if (with_token)
		allowed |= BIT(KEY_TOKEN);
	for (int k = 0; k < NKEYS; k++)
	{
		if ((fields[k].given || fields[k].null) && !(allowed & BIT(k)))
			return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
							"outcome \"%s\" does not take the key \"%s\"",
							name, outcome_keys[k].name);
		if (!fields[k].given && (outcome_shapes[kind].required & BIT(k)))
			return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
							"outcome \"%s\" lacks the key \"%s\"",
							name, outcome_keys[k].name);
	}
	*into = kind;
	return true;
}

static bool
outcome_interval(const GdJsonField *field, const char *what, Interval **into, GdFault *fault)
{
	if (!field->given)
		return true;
	*into = palloc(sizeof(Interval));
	return gd_parse_interval(what, gd_json_cstring(field), *into, fault);
}

static bool
outcome_next(const GdJsonField *fields, GdPolicies *policies, GdOutcome *outcome,
			 GdFault *fault)
{
	outcome->inline_execution = -1;
	if (fields[KEY_INLINE_EXECUTION].given)
		outcome->inline_execution = fields[KEY_INLINE_EXECUTION].value.val.boolean;
	outcome->rate_limit = gd_json_text(&fields[KEY_RATE_LIMIT]);
	if (outcome->rate_limit && !gd_check_name("rate limit", outcome->rate_limit, fault))
		return false;
	outcome->weight = fields[KEY_WEIGHT].given ? gd_json_double(&fields[KEY_WEIGHT]) : 1;
	if (!gd_limit_check(policies, outcome->rate_limit, outcome->weight, fault))
		return false;

	outcome->key = gd_json_text(&fields[KEY_CONCURRENCY_KEY]);
	if (outcome->key)
	{
		outcome->key_plan = GD_KEY_SWITCH;
		if (!gd_check_name("concurrency key", outcome->key, fault))
			return false;
	}
	else
		outcome->key_plan = fields[KEY_CONCURRENCY_KEY].null ? GD_KEY_RELEASE : GD_KEY_KEEP;
	return outcome_interval(&fields[KEY_DELAY], "delay", &outcome->delay, fault);
}

static bool
outcome_await(const GdJsonField *fields, GdOutcome *outcome, GdFault *fault)
{
	if (!gd_json_names(&fields[KEY_NAMES], "names", &outcome->names, fault) ||
		!outcome_interval(&fields[KEY_TIMEOUT], "timeout", &outcome->timeout, fault))
		return false;
	if (outcome->timeout &&
		gd_interval_is_zero(outcome->timeout))
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE,
						"Leave it out to wait without a deadline.",
						"timeout must be above zero");
	return true;
}

static bool
outcome_children(const GdJsonField *fields, TimestampTz now, GdPolicies *policies,
				 GdOutcome *outcome, GdFault *fault)
{
	JsonbContainer *children = fields[KEY_CHILDREN].value.val.binary.data;
	GdMachine	machine = {0};
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	child;

	outcome->children = palloc(sizeof(GdSpec) * Max(JsonContainerSize(children), 1));
	it = JsonbIteratorInit(children);
	while ((token = JsonbIteratorNext(&it, &child, true)) != WJB_DONE)
	{
		char		what[32];

		if (token != WJB_ELEM)
			continue;
		snprintf(what, sizeof(what), "child %d", outcome->nchildren + 1);
		if (!gd_spec_read(&child, what, NULL, now, &machine, policies,
						  &outcome->children[outcome->nchildren], fault))
			return false;
		outcome->nchildren++;
	}
	return true;
}

static bool
outcome_token(const GdJsonField *field, pg_uuid_t *token, GdFault *fault)
{
	if (!field->given)
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"the outcome lacks the key \"token\"");
	if (!gd_token_parse(field->value.val.string.val, field->value.val.string.len, token))
		return gd_fault(fault, ERRCODE_INVALID_TEXT_REPRESENTATION, NULL,
						"token \"%s\" is not a uuid",
						gd_clip(field->value.val.string.val, field->value.val.string.len));
	return true;
}

/*
 * gd_outcome_read: read and check an outcome; with_token, its token too.
 * Policies of limits are read once for all outcomes of a call.
 */
bool
gd_outcome_read(const JsonbValue *object, bool with_token, TimestampTz now,
				GdPolicies *policies, GdOutcome *outcome, pg_uuid_t *token, GdFault *fault)
{
	GdJsonField fields[NKEYS];

	memset(outcome, 0, sizeof(GdOutcome));
	if (!gd_json_read(object, "the outcome", outcome_keys, NKEYS, fields, fault) ||
		(with_token && !outcome_token(&fields[KEY_TOKEN], token, fault)) ||
		!outcome_kind(fields, with_token, &outcome->kind, fault))
		return false;

	outcome->step = gd_json_text(&fields[KEY_STEP]);
	if (outcome->step && !gd_check_name("step", outcome->step, fault))
		return false;
	outcome->has_state = fields[KEY_STATE].given;
	if (outcome->has_state)
		outcome->state = gd_json_jsonb(&fields[KEY_STATE]);

	switch (outcome->kind)
	{
		case GD_OUTCOME_NEXT:
			return outcome_next(fields, policies, outcome, fault);
		case GD_OUTCOME_RETRY:
			return outcome_interval(&fields[KEY_DELAY], "delay", &outcome->delay, fault);
		case GD_OUTCOME_AWAIT:
			return outcome_await(fields, outcome, fault);
		case GD_OUTCOME_CHILDREN:
			return outcome_children(fields, now, policies, outcome, fault);
		case GD_OUTCOME_DONE:
			outcome->result = fields[KEY_RESULT].given ? gd_json_jsonb(&fields[KEY_RESULT]) :
				DirectFunctionCall1(jsonb_in, CStringGetDatum("{}"));
			return true;
		case GD_OUTCOME_STOP:
			outcome->error = gd_error_text(gd_json_text(&fields[KEY_REASON]));
			return true;
		case GD_OUTCOME_FAIL:
			outcome->error = gd_error_text(gd_json_text(&fields[KEY_ERROR]));
			return true;
		case GD_NOUTCOMES:
			break;
	}
	pg_unreachable();
}
