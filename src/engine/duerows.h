/*
 * duerows.h
 *		How many rows of a queue are due, and when the next one is.
 */
#ifndef GEN_DURABLE_DUEROWS_H
#define GEN_DURABLE_DUEROWS_H

#include "postgres.h"

#include "datatype/timestamp.h"

extern int	gd_due_rows(const text *queue, int max, TimestampTz now, TimestampTz *next);

#endif							/* GEN_DURABLE_DUEROWS_H */
