/*
 * url.h
 *		Where a Redis server is, as gen_durable.redis_url says it.
 */
#ifndef GEN_DURABLE_REDIS_URL_H
#define GEN_DURABLE_REDIS_URL_H

#include "postgres.h"

#define GD_REDIS_PART_MAX 256

typedef struct GdRedisTarget
{
	bool		tls;
	char		path[GD_REDIS_PART_MAX];	/* of a Unix socket; "": none */
	char		host[GD_REDIS_PART_MAX];
	int			port;
	char		user[GD_REDIS_PART_MAX];	/* "": none */
	char		password[GD_REDIS_PART_MAX];	/* "": none */
	int			database;
	char		ca[GD_REDIS_PART_MAX];	/* TLS: a file of certificates; "":
										 * the system's */
} GdRedisTarget;

/* Returns NULL, or what is wrong, which names no secret. */
extern const char *gd_redis_url_read(const char *url, GdRedisTarget *target);

#endif							/* GEN_DURABLE_REDIS_URL_H */
