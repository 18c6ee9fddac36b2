/*
 * limit_counts.h
 *		What limits admitted and refused since the server started.
 */
#ifndef GEN_DURABLE_LIMIT_COUNTS_H
#define GEN_DURABLE_LIMIT_COUNTS_H

#include "postgres.h"

#include "limiter/limiter.h"

extern Size gd_limit_counts_size(void);
extern void gd_limit_counts_attach(void *start, bool first);
extern void gd_limit_count(GdLimitKind kind, const text *name, int64 admitted, int64 refused);
extern bool gd_limit_counted(GdLimitKind kind, const text *name, int64 *admitted, int64 *refused);

#endif							/* GEN_DURABLE_LIMIT_COUNTS_H */
