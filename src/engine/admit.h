/*
 * admit.h
 *		May a candidate be claimed?
 */
#ifndef GEN_DURABLE_ADMIT_H
#define GEN_DURABLE_ADMIT_H

#include "postgres.h"

#include "utils/hsearch.h"

#include "engine/limits.h"
#include "engine/runners.h"
#include "table.h"

typedef enum GdAdmitResult
{
	GD_ADMIT,					/* claim it */
	GD_ADMIT_GRANTED,			/* claim it with what its limits granted */
	GD_ADMIT_HEAD,				/* another row's turn: claim that one, block
								 * this one */
	GD_REFUSE,					/* block it */
	GD_PASS,					/* leave it as it is; another pick is at its
								 * key */
	GD_READY,					/* it is held ready for its limits to decide;
								 * the row is the admission's now */
	GD_DECIDE					/* what is held ready must be decided first */
} GdAdmitResult;

/* Why and until when a row is blocked. */
typedef struct GdRefusal
{
	text	   *blocked_on;
	TimestampTz refill_at;		/* when there are tokens; DT_NOEND: not told */
} GdRefusal;

/* What one pick learnt about keys. */
typedef struct GdAdmission
{
	GdTable    *instances;
	HTAB	   *keys;			/* NULL until the first keyed candidate */
	GdRow	   *head;			/* the row whose turn it is, locked */
	GdGrant		grant;			/* of the row that was admitted last */
	const GdClaimant *claimant; /* for whom the pick claims */
	GdLimits	limits;
} GdAdmission;

extern void gd_admission_begin(GdAdmission *admission, GdTable *instances, const text *queue,
							   const GdClaimant *claimant, TimestampTz now);
extern void gd_admission_end(GdAdmission *admission);
extern bool gd_admit_busy(GdAdmission *admission, GdRow *row);
extern bool gd_admit_free(GdRow *row);
extern bool gd_admit_unlocked(GdAdmission *admission, GdRow *row);
extern GdAdmitResult gd_admit(GdAdmission *admission, GdRow *row, int room,
							  GdRefusal *refusal);

#endif							/* GEN_DURABLE_ADMIT_H */
