/*
 * collect.h
 *		Deleting runs that have ended long enough ago.
 */
#ifndef GEN_DURABLE_RUN_COLLECT_H
#define GEN_DURABLE_RUN_COLLECT_H

#include "postgres.h"

#include "datatype/timestamp.h"

extern int64 gd_runs_collect(TimestampTz finished_before, int max_rows);

#endif							/* GEN_DURABLE_RUN_COLLECT_H */
