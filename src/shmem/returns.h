/*
 * returns.h
 *		Slots of a limiter outside the database that were freed by commits, on
 *		their way to the maintainer.
 */
#ifndef GEN_DURABLE_RETURNS_H
#define GEN_DURABLE_RETURNS_H

#include "postgres.h"

#include "port/atomics.h"

#include "names.h"

typedef struct GdReturn
{
	Oid			database;
	int			shard;
	char		key[GD_NAME_MAX + 1];
} GdReturn;

extern Size gd_returns_size(void);
extern void gd_returns_attach(void *start, bool first);
extern bool gd_return_put(const char *key, int shard);
extern int	gd_returns_take(GdReturn *taken, int max);
extern void gd_returns_forget(Oid database);
extern pg_atomic_uint64 *gd_remote_not_before(void);
extern pg_atomic_uint32 *gd_remote_failures(void);

#endif							/* GEN_DURABLE_RETURNS_H */
