/*
 * census.h
 *		Counting all rows, to set the gauges of the statistics right.
 */
#ifndef GEN_DURABLE_CENSUS_H
#define GEN_DURABLE_CENSUS_H

#include "postgres.h"

/* Is the count to be given up? */
typedef bool (*GdGiveUp) (void);

extern int64 gd_census(GdGiveUp give_up);

#endif							/* GEN_DURABLE_CENSUS_H */
