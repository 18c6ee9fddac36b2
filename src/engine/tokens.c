/*
 * tokens.c
 *		An argument of many claim tokens.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"

#include "engine/tokens.h"
#include "names.h"
#include "token.h"

/*
 * token_compare: the id leads a token's bytes, so byte order is row order.
 */
static int
token_compare(const void *a, const void *b)
{
	return memcmp((*(pg_uuid_t *const *) a)->data, (*(pg_uuid_t *const *) b)->data, UUID_LEN);
}

/*
 * gd_tokens_arg: read a uuid[] argument; NULL in it is an error, and a token
 * given twice counts once.
 */
void
gd_tokens_arg(FunctionCallInfo fcinfo, int argno, GdTokens *tokens)
{
	Datum	   *elements;
	bool	   *nulls;
	int			n;

	gd_arg_required(fcinfo, argno, "tokens");
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(argno), UUIDOID, UUID_LEN, false, TYPALIGN_CHAR,
					  &elements, &nulls, &n);
	tokens->tokens = palloc(sizeof(pg_uuid_t *) * Max(n, 1));
	tokens->n = 0;
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("tokens must not contain NULL")));
		tokens->tokens[i] = DatumGetUUIDP(elements[i]);
	}
	qsort(tokens->tokens, n, sizeof(pg_uuid_t *), token_compare);
	for (int i = 0; i < n; i++)
		if (tokens->n == 0 ||
			!gd_token_equal(tokens->tokens[i], tokens->tokens[tokens->n - 1]))
			tokens->tokens[tokens->n++] = tokens->tokens[i];
}
