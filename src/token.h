/*
 * token.h
 *		Claim tokens: proof of a claim, and the way to its row.
 */
#ifndef GEN_DURABLE_TOKEN_H
#define GEN_DURABLE_TOKEN_H

#include "postgres.h"

#include "utils/uuid.h"

/* Ids that fit into a token. */
#define GD_ID_MAX ((INT64CONST(1) << 60) - 1)

extern void gd_token_new(int64 id, pg_uuid_t *token);
extern bool gd_token_id(const pg_uuid_t *token, int64 *id);
extern bool gd_token_parse(const char *str, int len, pg_uuid_t *token);
extern char *gd_token_string(const pg_uuid_t *token);

static inline bool
gd_token_equal(const pg_uuid_t *a, const pg_uuid_t *b)
{
	return memcmp(a->data, b->data, UUID_LEN) == 0;
}

#endif							/* GEN_DURABLE_TOKEN_H */
