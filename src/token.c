/*
 * token.c
 *		Claim tokens: proof of a claim, and the way to its row.
 *
 * A token is a UUID of version 8: 60 bits are the row's id, so that the row
 * is found by its primary key and the token needs no index, and 62 bits are
 * random, so that it cannot be guessed and no two claims share one.
 *
 *		byte 0..5   id bits 59..12
 *		byte 6      1000 | id bits 11..8      (version)
 *		byte 7      id bits 7..0
 *		byte 8..15  10 | 62 random bits       (variant)
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "token.h"

#define TOKEN_RANDOM_LEN 8

/*
 * token_random: eight strong random bytes.  They are drawn in bulk, since
 * each draw is a system call.
 */
static void
token_random(uint8 *into)
{
	static uint8 pool[64 * TOKEN_RANDOM_LEN];
	static int	left = 0;

	if (left == 0)
	{
		if (!pg_strong_random(pool, sizeof(pool)))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate random values")));
		left = lengthof(pool) / TOKEN_RANDOM_LEN;
	}
	left--;
	memcpy(into, pool + left * TOKEN_RANDOM_LEN, TOKEN_RANDOM_LEN);
}

/*
 * gd_token_new: a fresh token for a claim of row id.
 */
void
gd_token_new(int64 id, pg_uuid_t *token)
{
	uint64		bits = (uint64) id;

	if (id < 0 || bits >> 60 != 0)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("instance id %lld cannot be claimed: ids are 0 to 2^60 - 1",
						(long long) id)));
	for (int i = 0; i < 6; i++)
		token->data[i] = (bits >> (52 - 8 * i)) & 0xff;
	token->data[6] = 0x80 | ((bits >> 8) & 0x0f);
	token->data[7] = bits & 0xff;
	token_random(token->data + 8);
	token->data[8] = 0x80 | (token->data[8] & 0x3f);
}

/*
 * gd_token_id: the row that a token is for; false when no claim of ours has
 * such a token.
 */
bool
gd_token_id(const pg_uuid_t *token, int64 *id)
{
	uint64		bits = 0;

	if ((token->data[6] & 0xf0) != 0x80 || (token->data[8] & 0xc0) != 0x80)
		return false;
	for (int i = 0; i < 6; i++)
		bits = bits << 8 | token->data[i];
	bits = bits << 4 | (token->data[6] & 0x0f);
	bits = bits << 8 | token->data[7];
	*id = (int64) bits;
	return true;
}

static int
token_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/*
 * gd_token_parse: read a token from its text, the form that uuid writes.
 * False, and no error, when it is none.
 */
bool
gd_token_parse(const char *str, int len, pg_uuid_t *token)
{
	int			at = 0;

	if (len != 36)
		return false;
	for (int i = 0; i < UUID_LEN; i++)
	{
		int			high,
					low;

		if (at == 8 || at == 13 || at == 18 || at == 23)
		{
			if (str[at++] != '-')
				return false;
		}
		high = token_hex(str[at++]);
		low = token_hex(str[at++]);
		if (high < 0 || low < 0)
			return false;
		token->data[i] = high << 4 | low;
	}
	return true;
}

char *
gd_token_string(const pg_uuid_t *token)
{
	return DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(token)));
}
