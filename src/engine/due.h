/*
 * due.h
 *		Instants that the running transaction makes due.
 */
#ifndef GEN_DURABLE_DUE_H
#define GEN_DURABLE_DUE_H

#include "postgres.h"

#include "datatype/timestamp.h"

extern void gd_due_init(void);
extern void gd_due_at(TimestampTz at);

#endif							/* GEN_DURABLE_DUE_H */
