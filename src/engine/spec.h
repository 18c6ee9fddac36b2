/*
 * spec.h
 *		What a caller asks for when it creates an instance.
 */
#ifndef GEN_DURABLE_SPEC_H
#define GEN_DURABLE_SPEC_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "utils/array.h"
#include "utils/jsonb.h"

#include "engine/machines.h"
#include "fault.h"
#include "limiter/policy.h"

typedef struct GdSpec
{
	text	   *fsm;
	int			fsm_version;
	text	   *step;
	text	   *queue;
	Datum		state;			/* jsonb */
	int			priority;
	text	   *concurrency_key;	/* or NULL, as the next three */
	text	   *correlation_key;
	ArrayType  *scope;			/* correlation scope; NULL: the live statuses */
	text	   *rate_limit;
	double		weight;
	TimestampTz eligible_at;
} GdSpec;

extern bool gd_spec_read(const JsonbValue *object, const char *what, text *fsm,
						 TimestampTz now, GdMachine *machine, GdPolicies *policies,
						 GdSpec *spec, GdFault *fault);
extern bool gd_spec_check(GdSpec *spec, GdPolicies *policies, GdFault *fault);
extern void gd_spec_machine(GdSpec *spec, GdMachine *machine);
extern bool gd_limit_check(GdPolicies *policies, const text *rate_limit, double weight,
						   GdFault *fault);

#endif							/* GEN_DURABLE_SPEC_H */
