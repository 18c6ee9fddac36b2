/*
 * dispatched.h
 *		What the running transaction does to dispatched claims.
 */
#ifndef GEN_DURABLE_DISPATCHED_H
#define GEN_DURABLE_DISPATCHED_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "utils/uuid.h"

#include "shmem/dispatch.h"

extern void gd_dispatched_init(void);
extern bool gd_dispatched_take(GdWakeKey key, const text *worker, TimestampTz now,
							   GdTaken *taken);
extern bool gd_dispatched_recall(const pg_uuid_t *token, TimestampTz now);
extern void gd_dispatched_register(GdWakeKey key, const pg_uuid_t *token, const text *worker,
								   TimestampTz now);
extern void gd_dispatched_ended(const pg_uuid_t *token);
extern void gd_dispatched_settings(void);

#endif							/* GEN_DURABLE_DISPATCHED_H */
