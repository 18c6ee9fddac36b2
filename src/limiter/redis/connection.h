/*
 * connection.h
 *		This process's connection to the Redis server.
 */
#ifndef GEN_DURABLE_REDIS_CONNECTION_H
#define GEN_DURABLE_REDIS_CONNECTION_H

#include "postgres.h"

#include <hiredis/hiredis.h>

#include "limiter/remote.h"

typedef enum GdScript
{
	GD_SCRIPT_ADMIT,
	GD_SCRIPT_LOOK,
	GD_SCRIPT_RENEW,
	GD_SCRIPT_CREDIT,
	GD_NSCRIPTS
} GdScript;

/* The words of a command that runs a script. */
typedef struct GdCall
{
	GdScript	script;
	int			nkeys;
	int			n;
	int			size;
	const char **words;
	size_t	   *lens;
} GdCall;

extern const char *const gd_redis_scripts[GD_NSCRIPTS];

extern void gd_redis_begin(GdCall *call, GdScript script, int nkeys, int nargs);
extern void gd_redis_text(GdCall *call, const char *text);
extern void gd_redis_arguments(GdCall *call);
extern redisReply *gd_redis_call(const GdCall *call);
extern void gd_redis_done(redisReply *reply);
extern void gd_redis_nonsense(redisReply *reply, GdScript script);
extern void gd_redis_host(const GdRemoteHost *given);

#endif							/* GEN_DURABLE_REDIS_CONNECTION_H */
