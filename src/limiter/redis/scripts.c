/*
 * scripts.c
 *		The scripts that the Redis server runs: the .lua files beside this one,
 *		as the build makes them into text, each after common.lua.
 *
 * Takes no locks.
 */
#include "postgres.h"

#include "limiter/redis/connection.h"

#include "lua_text.h"

const char *const gd_redis_scripts[GD_NSCRIPTS] = {
	[GD_SCRIPT_ADMIT] = lua_common lua_admit,
	[GD_SCRIPT_LOOK] = lua_common lua_look,
	[GD_SCRIPT_RENEW] = lua_common lua_renew,
	[GD_SCRIPT_CREDIT] = lua_common lua_credit,
};
