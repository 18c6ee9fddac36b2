/*
 * remote.h
 *		A limiter whose counters are outside the database: what the engine and
 *		the module that talks to it need from each other.
 *
 * A slot of such a limiter is a lease, which the maintainer renews for as long
 * as the database says that it is held.  It comes back after the commit that
 * frees it, or when its lease ends.
 */
#ifndef GEN_DURABLE_REMOTE_H
#define GEN_DURABLE_REMOTE_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "port/atomics.h"

#include "limiter/limiter.h"
#include "limiter/redis/url.h"

/* What the module is given. */
typedef struct GdRemoteHost
{
	char	  **url;
	const int  *timeout;		/* of one exchange, milliseconds */
	const int  *lease;			/* milliseconds */
	/* Until when nobody tries, for all processes, and how often it failed. */
	pg_atomic_uint64 *(*not_before) (void);
	pg_atomic_uint32 *(*failures) (void);
	const char *(*read_url) (const char *url, GdRedisTarget *target);
} GdRemoteHost;

/*
 * What the module gives.  Each may wait for the server up to the timeout,
 * answers interrupts meanwhile, and returns false, having written to the log,
 * if it got no answer that it understands.
 */
typedef struct GdRemote
{
	const char *name;
	bool		(*admit) (GdEntry *entries, int nentries);
	bool		(*look) (const GdPolicy *policy, const text *key, double *available);
	bool		(*renew) (const GdSlots *slots, int nslots);
	bool		(*credit) (const GdSlots *slots, int nslots);
} GdRemote;

typedef const GdRemote *(*GdRemoteOpen) (const GdRemoteHost *host);

/* The function of that type in module gen_durable_redis. */
#define GD_REDIS_MODULE "gen_durable_redis"
#define GD_REDIS_OPEN "gd_redis_open"

extern const GdLimiter gd_remote_limiter;
extern void gd_remote_init(void);

/* For the maintainer. */
extern void gd_remote_attend(void);
extern int64 gd_remote_return(int max_slots);
extern void gd_remote_renew(TimestampTz now);
extern TimestampTz gd_remote_due(void);

#endif							/* GEN_DURABLE_REMOTE_H */
