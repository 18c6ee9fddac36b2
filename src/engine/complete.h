/*
 * complete.h
 *		Committing outcomes.
 */
#ifndef GEN_DURABLE_COMPLETE_H
#define GEN_DURABLE_COMPLETE_H

#include "postgres.h"

#include "utils/jsonb.h"

/* What became of one outcome of a batch. */
typedef struct GdResult
{
	int64		id;				/* the instance; 0 if the token names none */
	const char *result;			/* committed, stale, or invalid: and why */
	int			sqlerrcode;		/* 0 if committed */
	const char *hint;			/* or NULL */
} GdResult;

extern int	gd_complete_batch(Jsonb *outcomes, GdResult **results);

#endif							/* GEN_DURABLE_COMPLETE_H */
