/*
 * tokens.h
 *		An argument of many claim tokens.
 */
#ifndef GEN_DURABLE_TOKENS_H
#define GEN_DURABLE_TOKENS_H

#include "postgres.h"

#include "fmgr.h"
#include "utils/uuid.h"

typedef struct GdTokens
{
	pg_uuid_t **tokens;			/* in the order of the rows that they claim,
								 * once each */
	int			n;
} GdTokens;

extern void gd_tokens_arg(FunctionCallInfo fcinfo, int argno, GdTokens *tokens);

#endif							/* GEN_DURABLE_TOKENS_H */
