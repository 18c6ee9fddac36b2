/*
 * release.h
 *		Taking rows out of their claims without an outcome.
 */
#ifndef GEN_DURABLE_RELEASE_H
#define GEN_DURABLE_RELEASE_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "shmem/stats.h"
#include "utils/uuid.h"

#include "table.h"

extern void gd_release_claim(const pg_uuid_t *token);
extern void gd_release_row(GdRow *row, TimestampTz now, GdCounter counter);

#endif							/* GEN_DURABLE_RELEASE_H */
