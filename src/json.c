/*
 * json.c
 *		Strict reading of JSON objects, and writing of JSON values.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "miscadmin.h"
#include "utils/json.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#include "json.h"
#include "names.h"
#include "token.h"

static const char *const kind_names[] = {
	[GD_JSON_ANY] = "a value",
	[GD_JSON_TEXT] = "a string",
	[GD_JSON_NUMBER] = "a number",
	[GD_JSON_BOOL] = "a boolean",
	[GD_JSON_OBJECT] = "an object",
	[GD_JSON_ARRAY] = "an array",
};

/*
 * gd_json_type: what a value is, for messages.
 */
const char *
gd_json_type(const JsonbValue *value)
{
	switch (value->type)
	{
		case jbvNull:
			return "null";
		case jbvString:
			return "a string";
		case jbvNumeric:
			return "a number";
		case jbvBool:
			return "a boolean";
		case jbvArray:
			return "an array";
		case jbvObject:
			return "an object";
		case jbvBinary:
			if (JsonContainerIsObject(value->val.binary.data))
				return "an object";
			return JsonContainerIsScalar(value->val.binary.data) ? "a scalar" : "an array";
		default:
			return "a value";
	}
}

bool
gd_json_is_object(const JsonbValue *value)
{
	return value->type == jbvBinary && JsonContainerIsObject(value->val.binary.data);
}

static bool
json_is_kind(const JsonbValue *value, GdJsonKind kind)
{
	switch (kind)
	{
		case GD_JSON_ANY:
			return true;
		case GD_JSON_TEXT:
			return value->type == jbvString;
		case GD_JSON_NUMBER:
			return value->type == jbvNumeric;
		case GD_JSON_BOOL:
			return value->type == jbvBool;
		case GD_JSON_OBJECT:
			return gd_json_is_object(value);
		case GD_JSON_ARRAY:
			return value->type == jbvBinary && JsonContainerIsArray(value->val.binary.data) &&
				!JsonContainerIsScalar(value->val.binary.data);
	}
	return false;
}

/*
 * gd_json_read: read an object into one field for each key.
 *
 * `what` names the object in messages.  A key that is not listed, or a value
 * of another kind, is a fault.
 */
bool
gd_json_read(const JsonbValue *object, const char *what, const GdJsonKey *keys,
			 int nkeys, GdJsonField *fields, GdFault *fault)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	value;
	int			at = -1;

	memset(fields, 0, sizeof(GdJsonField) * nkeys);
	if (!gd_json_is_object(object))
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"%s must be a JSON object, not %s", what, gd_json_type(object));

	it = JsonbIteratorInit(object->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
		{
			for (at = nkeys - 1; at >= 0; at--)
				if (value.val.string.len > 0 && keys[at].name[0] == value.val.string.val[0] &&
					strlen(keys[at].name) == value.val.string.len &&
					memcmp(keys[at].name, value.val.string.val, value.val.string.len) == 0)
					break;
			if (at < 0)
				return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
								"%s has the unknown key \"%s\"", what,
								gd_clip(value.val.string.val, value.val.string.len));
		}
		else if (token == WJB_VALUE)
		{
			if (value.type == jbvNull)
				fields[at].null = true;
			else if (!json_is_kind(&value, keys[at].kind))
				return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
								"\"%s\" of %s must be %s, not %s", keys[at].name, what,
								kind_names[keys[at].kind], gd_json_type(&value));
			else
			{
				fields[at].given = true;
				fields[at].value = value;
			}
		}
	}
	return true;
}

/* A string field as text; NULL if it was not given. */
text *
gd_json_text(const GdJsonField *field)
{
	return field->given ?
		cstring_to_text_with_len(field->value.val.string.val, field->value.val.string.len) :
		NULL;
}

char *
gd_json_cstring(const GdJsonField *field)
{
	return pnstrdup(field->value.val.string.val, field->value.val.string.len);
}

/* Any field as a jsonb of its own. */
Datum
gd_json_jsonb(const GdJsonField *field)
{
	return JsonbPGetDatum(JsonbValueToJsonb(unconstify(JsonbValue *, &field->value)));
}

double
gd_json_double(const GdJsonField *field)
{
	return DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow,
											  NumericGetDatum(field->value.val.numeric)));
}

/* A number as it was written, for messages. */
static char *
json_number(const GdJsonField *field)
{
	char	   *digits = DatumGetCString(DirectFunctionCall1(numeric_out,
															 NumericGetDatum(field->value.val.numeric)));

	return gd_clip(digits, strlen(digits));
}

/*
 * gd_json_int: a number that is a whole one and fits an int.
 */
bool
gd_json_int(const GdJsonField *field, const char *what, int *into, GdFault *fault)
{
	double		number = gd_json_double(field);

	if (isnan(number) || rint(number) != number)
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"%s %s must be a whole number", what, json_number(field));
	if (number < PG_INT32_MIN || number > PG_INT32_MAX)
		return gd_fault(fault, ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, NULL,
						"%s %s is out of range for an integer", what, json_number(field));
	*into = (int) number;
	return true;
}

/*
 * gd_json_int8: a number that is a whole one and fits a bigint.
 */
bool
gd_json_int8(const GdJsonField *field, const char *what, int64 *into, GdFault *fault)
{
	char	   *digits = DatumGetCString(DirectFunctionCall1(numeric_out,
															 NumericGetDatum(field->value.val.numeric)));
	char	   *end;

	errno = 0;
	*into = strtoll(digits, &end, 10);
	if (*end != '\0' && strspn(end + 1, "0") != strlen(end + 1))
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"%s %s must be a whole number", what, json_number(field));
	if (errno == ERANGE)
		return gd_fault(fault, ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, NULL,
						"%s %s is out of range for a bigint", what, json_number(field));
	return true;
}

/*
 * gd_json_names: a non-empty array of names as text[].
 */
bool
gd_json_names(const GdJsonField *field, const char *what, ArrayType **into,
			  GdFault *fault)
{
	JsonbContainer *container = field->value.val.binary.data;
	int			nnames = JsonContainerSize(container);
	Datum	   *names = palloc(sizeof(Datum) * Max(nnames, 1));

	if (nnames == 0)
		return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
						"%s must not be empty", what);
	for (int i = 0; i < nnames; i++)
	{
		JsonbValue *value = getIthJsonbValueFromContainer(container, i);
		text	   *name;

		if (value->type != jbvString)
			return gd_fault(fault, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
							"%s must be strings, not %s", what, gd_json_type(value));
		name = cstring_to_text_with_len(value->val.string.val, value->val.string.len);
		if (!gd_check_name("signal name", name, fault))
			return false;
		names[i] = PointerGetDatum(name);
	}
	*into = construct_array(names, nnames, TEXTOID, -1, false, TYPALIGN_INT);
	return true;
}

/*
 * gd_json_arg_array: an argument that must be a JSON array; raises.
 */
Jsonb *
gd_json_arg_array(Datum arg, bool isnull, const char *what)
{
	Jsonb	   *array;

	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be NULL", what)));
	array = DatumGetJsonbP(arg);
	if (!JB_ROOT_IS_ARRAY(array) || JB_ROOT_IS_SCALAR(array))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be a JSON array, not %s", what,
						JB_ROOT_IS_OBJECT(array) ? "an object" : "a scalar")));
	return array;
}

/*
 * gd_json_key: write the key of a member, or nothing inside an array.
 */
void
gd_json_key(JsonbParseState **to, const char *key)
{
	JsonbValue	value;

	value.type = jbvString;
	value.val.string.val = unconstify(char *, key);
	value.val.string.len = strlen(key);
	pushJsonbValue(to, WJB_KEY, &value);
}

static void
json_put(JsonbParseState **to, const char *key, JsonbValue *value)
{
	gd_json_key(to, key);
	pushJsonbValue(to, WJB_VALUE, value);
}

static void
json_put_string(JsonbParseState **to, const char *key, const char *string, int len)
{
	JsonbValue	value;

	value.type = jbvString;
	value.val.string.val = unconstify(char *, string);
	value.val.string.len = len;
	json_put(to, key, &value);
}

void
gd_json_put_text(JsonbParseState **to, const char *key, const text *value)
{
	json_put_string(to, key, VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value));
}

void
gd_json_put_cstring(JsonbParseState **to, const char *key, const char *value)
{
	json_put_string(to, key, value, strlen(value));
}

void
gd_json_put_int(JsonbParseState **to, const char *key, int64 number)
{
	JsonbValue	value;

	value.type = jbvNumeric;
	value.val.numeric = int64_to_numeric(number);
	json_put(to, key, &value);
}

void
gd_json_put_double(JsonbParseState **to, const char *key, double number)
{
	JsonbValue	value;

	value.type = jbvNumeric;
	value.val.numeric = DatumGetNumeric(DirectFunctionCall1(float8_numeric,
															Float8GetDatum(number)));
	json_put(to, key, &value);
}

void
gd_json_put_bool(JsonbParseState **to, const char *key, bool boolean)
{
	JsonbValue	value;

	value.type = jbvBool;
	value.val.boolean = boolean;
	json_put(to, key, &value);
}

void
gd_json_put_null(JsonbParseState **to, const char *key)
{
	JsonbValue	value;

	value.type = jbvNull;
	json_put(to, key, &value);
}

void
gd_json_put_jsonb(JsonbParseState **to, const char *key, Datum jsonb)
{
	JsonbValue	value;

	JsonbToJsonbValue(DatumGetJsonbP(jsonb), &value);
	json_put(to, key, &value);
}

void
gd_json_put_time(JsonbParseState **to, const char *key, TimestampTz at)
{
	char		buf[MAXDATELEN + 1];

	JsonEncodeDateTime(buf, TimestampTzGetDatum(at), TIMESTAMPTZOID, NULL);
	gd_json_put_cstring(to, key, pstrdup(buf));
}

void
gd_json_put_uuid(JsonbParseState **to, const char *key, const pg_uuid_t *uuid)
{
	gd_json_put_cstring(to, key, gd_token_string(uuid));
}
