/*
 * runners.h
 *		Who runs a step: a client's program, or the server as the machine's
 *		owner.
 */
#ifndef GEN_DURABLE_RUNNERS_H
#define GEN_DURABLE_RUNNERS_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "table.h"

/* What a step that the server runs is run with. */
typedef struct GdRunner
{
	Oid			owner;			/* InvalidOid: the role does not exist */
	const char *owner_name;
	const char *handler;		/* schema-qualified, with its arguments */
	const char *on_error;		/* likewise, or NULL */
	int			timeout_ms;		/* 0: the session's statement_timeout */
} GdRunner;

typedef enum GdClaimantKind
{
	GD_CLAIMS_FOR_CLIENT,		/* steps without a handler */
	GD_CLAIMS_FOR_OWNER,		/* steps with a handler, of one owner */
	GD_CLAIMS_FOR_CALLER		/* steps with a handler that the current role
								 * may run */
} GdClaimantKind;

/* For whom steps are claimed.  All zero: for a client's program. */
typedef struct GdClaimant
{
	GdClaimantKind kind;
	Oid			owner;			/* GD_CLAIMS_FOR_OWNER */
} GdClaimant;

extern void gd_runners_init(void);
extern void gd_runners_changed(void);
extern bool gd_runner_find(const text *fsm, int version, const text *step, GdRunner *runner);
extern bool gd_runner_inline(const text *fsm, int version);
extern bool gd_runners_any(void);
extern void gd_runner_announce(const text *fsm, int version, const text *step,
							   const text *queue, TimestampTz eligible_at, TimestampTz now);
extern bool gd_runner_claims(const GdClaimant *claimant, const text *fsm, int version,
							 const text *step);

#endif							/* GEN_DURABLE_RUNNERS_H */
