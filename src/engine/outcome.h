/*
 * outcome.h
 *		What a step ends with, read from its JSON.
 */
#ifndef GEN_DURABLE_OUTCOME_H
#define GEN_DURABLE_OUTCOME_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "utils/array.h"
#include "utils/jsonb.h"
#include "utils/uuid.h"

#include "engine/spec.h"
#include "fault.h"

typedef enum GdOutcomeKind
{
	GD_OUTCOME_NEXT, GD_OUTCOME_RETRY, GD_OUTCOME_AWAIT, GD_OUTCOME_CHILDREN,
	GD_OUTCOME_DONE, GD_OUTCOME_STOP, GD_OUTCOME_FAIL,
	GD_NOUTCOMES
} GdOutcomeKind;

/* What "next" does with the concurrency key. */
typedef enum GdKeyPlan
{
	GD_KEY_KEEP, GD_KEY_RELEASE, GD_KEY_SWITCH
} GdKeyPlan;

typedef struct GdOutcome
{
	GdOutcomeKind kind;
	text	   *step;			/* next, await, children */
	bool		has_state;		/* next, retry, await, children; else it is
								 * kept */
	Datum		state;
	text	   *rate_limit;		/* next */
	double		weight;			/* next */
	GdKeyPlan	key_plan;		/* next */
	text	   *key;			/* next, if it switches */
	int			inline_execution;	/* next; -1: as the machine has it */
	Interval   *delay;			/* next, retry; NULL for none */
	ArrayType  *names;			/* await */
	Interval   *timeout;		/* await; NULL for none */
	GdSpec	   *children;		/* children */
	int			nchildren;
	Datum		result;			/* done */
	text	   *error;			/* stop, fail; clipped */
	bool		consumes_nothing;	/* decided by a handler of errors, which
									 * was handed no signals */
} GdOutcome;

extern const char *const gd_outcome_names[GD_NOUTCOMES];

extern bool gd_outcome_read(const JsonbValue *object, bool with_token, TimestampTz now,
							GdPolicies *policies, GdOutcome *outcome, pg_uuid_t *token,
							GdFault *fault);

#endif							/* GEN_DURABLE_OUTCOME_H */
