/*
 * json.h
 *		Strict reading of JSON objects, and writing of JSON values.
 *
 * An object may have only the keys that the reader lists, each of its kind.
 * A JSON null is the same as leaving the key out, and told apart only by
 * GdJsonField.null.
 */
#ifndef GEN_DURABLE_JSON_H
#define GEN_DURABLE_JSON_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "utils/array.h"
#include "utils/jsonb.h"
#include "utils/uuid.h"

#include "fault.h"

typedef enum GdJsonKind
{
	GD_JSON_ANY,
	GD_JSON_TEXT,
	GD_JSON_NUMBER,
	GD_JSON_BOOL,
	GD_JSON_OBJECT,
	GD_JSON_ARRAY
} GdJsonKind;

typedef struct GdJsonKey
{
	const char *name;
	GdJsonKind	kind;
} GdJsonKey;

typedef struct GdJsonField
{
	bool		given;			/* present and not null */
	bool		null;			/* present and null */
	JsonbValue	value;
} GdJsonField;

extern bool gd_json_read(const JsonbValue *object, const char *what,
						 const GdJsonKey *keys, int nkeys, GdJsonField *fields,
						 GdFault *fault);
extern bool gd_json_is_object(const JsonbValue *value);
extern text *gd_json_text(const GdJsonField *field);
extern char *gd_json_cstring(const GdJsonField *field);
extern Datum gd_json_jsonb(const GdJsonField *field);
extern bool gd_json_int(const GdJsonField *field, const char *what, int *into, GdFault *fault);
extern bool gd_json_int8(const GdJsonField *field, const char *what, int64 *into,
						 GdFault *fault);
extern double gd_json_double(const GdJsonField *field);
extern bool gd_json_names(const GdJsonField *field, const char *what, ArrayType **into,
						  GdFault *fault);

extern Jsonb *gd_json_arg_array(Datum arg, bool isnull, const char *what);
extern const char *gd_json_type(const JsonbValue *value);

/* Writing.  Texts and jsonb are kept by reference until the value is finished. */
extern void gd_json_key(JsonbParseState **to, const char *key);
extern void gd_json_put_text(JsonbParseState **to, const char *key, const text *value);
extern void gd_json_put_cstring(JsonbParseState **to, const char *key, const char *value);
extern void gd_json_put_int(JsonbParseState **to, const char *key, int64 value);
extern void gd_json_put_double(JsonbParseState **to, const char *key, double value);
extern void gd_json_put_bool(JsonbParseState **to, const char *key, bool value);
extern void gd_json_put_null(JsonbParseState **to, const char *key);
extern void gd_json_put_jsonb(JsonbParseState **to, const char *key, Datum value);
extern void gd_json_put_time(JsonbParseState **to, const char *key, TimestampTz value);
extern void gd_json_put_uuid(JsonbParseState **to, const char *key, const pg_uuid_t *value);

#endif							/* GEN_DURABLE_JSON_H */
