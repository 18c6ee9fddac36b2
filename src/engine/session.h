/*
 * session.h
 *		Claims that end with the session that made them.
 */
#ifndef GEN_DURABLE_SESSION_H
#define GEN_DURABLE_SESSION_H

#include "postgres.h"

#include "utils/uuid.h"

extern void gd_session_claimed(const pg_uuid_t *token);
extern void gd_session_ended(const pg_uuid_t *token);
extern void gd_session_tidy(void);

#endif							/* GEN_DURABLE_SESSION_H */
