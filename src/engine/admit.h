/*
 * admit.h
 *		May a candidate be claimed?
 */
#ifndef GEN_DURABLE_ADMIT_H
#define GEN_DURABLE_ADMIT_H

#include "postgres.h"

#include "utils/hsearch.h"

#include "table.h"

typedef enum GdAdmitResult
{
	GD_ADMIT,					/* claim it */
	GD_ADMIT_HEAD,				/* another row's turn: claim that one, block
								 * this one */
	GD_REFUSE,					/* block it */
	GD_PASS						/* leave it as it is; another pick is at its
								 * key */
} GdAdmitResult;

/* What one pick learnt about keys. */
typedef struct GdAdmission
{
	GdTable    *instances;
	HTAB	   *keys;			/* NULL until the first keyed candidate */
	GdRow	   *head;			/* the row whose turn it is, locked */
} GdAdmission;

extern void gd_admission_begin(GdAdmission *admission, GdTable *instances);
extern void gd_admission_end(GdAdmission *admission);
extern bool gd_admit_busy(GdAdmission *admission, GdRow *row);
extern bool gd_admit_free(GdRow *row);
extern GdAdmitResult gd_admit(GdAdmission *admission, GdRow *row, text **blocked_on);

#endif							/* GEN_DURABLE_ADMIT_H */
