/*
 * cursor.h
 *		Where a session's picks start in a queue whose head is worn.
 */
#ifndef GEN_DURABLE_CURSOR_H
#define GEN_DURABLE_CURSOR_H

#include "postgres.h"

#include "datatype/timestamp.h"

extern void gd_cursor_init(void);
extern bool gd_cursor_get(const text *queue, TimestampTz now, int16 *priority,
						  TimestampTz *eligible_at);
extern void gd_cursor_set(const text *queue, TimestampTz now, int16 priority,
						  TimestampTz eligible_at);
extern void gd_cursor_advance(const text *queue, int16 priority, TimestampTz eligible_at);
extern void gd_cursor_runnable(const text *queue, int16 priority, TimestampTz eligible_at);

#endif							/* GEN_DURABLE_CURSOR_H */
