/*
 * channel.c
 *		channel: the channel on which listeners hear of a queue (D-23).
 *
 * It is "gen_durable." and the queue's name.  A channel's name has less room
 * than a queue's: of one that does not fit it is "gen_durable#" and a hash of
 * the name.  Two queues with the same hash would share a channel, which costs
 * their listeners a look for nothing.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "fmgr.h"
#include "utils/builtins.h"

#include "engine/channel.h"
#include "names.h"

#define CHANNEL_OF_NAME "gen_durable."
#define CHANNEL_OF_HASH "gen_durable#"

PG_FUNCTION_INFO_V1(gd_channel);

/*
 * gd_channel_name: the channel of a queue; allocated.
 */
const char *
gd_channel_name(const text *queue)
{
	const char *name = VARDATA_ANY(queue);
	int			len = VARSIZE_ANY_EXHDR(queue);

	if (len + strlen(CHANNEL_OF_NAME) < NAMEDATALEN)
		return psprintf(CHANNEL_OF_NAME "%.*s", len, name);
	return psprintf(CHANNEL_OF_HASH "%016llx",
					(unsigned long long) hash_bytes_extended((const unsigned char *) name, len, 0));
}

/*
 * channel(queue) -> text
 */
Datum
gd_channel(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(gd_channel_name(gd_arg_name(fcinfo, 0, "queue"))));
}
