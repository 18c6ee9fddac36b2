/*
 * blocked.h
 *		Rows that wait for a key: marking, promotion, and who is next.
 */
#ifndef GEN_DURABLE_BLOCKED_H
#define GEN_DURABLE_BLOCKED_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "table.h"

extern text *gd_blocked_on(const char *kind, const text *key);
extern bool gd_blocked_key_held(GdTable *instances, const text *key);
extern bool gd_blocked_head(GdTable *instances, const text *blocked_on,
							const text *queue, GdRow *head);
extern bool gd_blocked_next(GdTable *instances, const text *blocked_on,
							const text *queue, GdRow *next);
extern void gd_blocked_mark(GdRow *row, text *blocked_on, TimestampTz refill_at,
							TimestampTz now);
extern void gd_blocked_promote(const char *blocked_on, TimestampTz now);
extern void gd_blocked_resume(const text *queue, int max_keys);
extern void gd_blocked_of_policy(const char *kind, const text *name, int max_keys);
extern int	gd_blocked_recheck(GdTable *instances, int max_keys, TimestampTz now);

#endif							/* GEN_DURABLE_BLOCKED_H */
