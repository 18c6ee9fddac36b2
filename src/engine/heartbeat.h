/*
 * heartbeat.h
 *		Keeping claims: leases that begin anew.
 */
#ifndef GEN_DURABLE_HEARTBEAT_H
#define GEN_DURABLE_HEARTBEAT_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "utils/uuid.h"

#include "table.h"

extern void gd_heartbeat_row(GdRow *row, TimestampTz expires_at);
extern TimestampTz gd_heartbeat_claims(const pg_uuid_t *tokens, int n);

#endif							/* GEN_DURABLE_HEARTBEAT_H */
