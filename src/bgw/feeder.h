/*
 * feeder.h
 *		The scheduler's part that claims ahead of demand.
 */
#ifndef GEN_DURABLE_FEEDER_H
#define GEN_DURABLE_FEEDER_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "bgw/bgw.h"

extern GdFound gd_feeder_turn(bool anew, TimestampTz *next);
extern void gd_feeder_leave(void);

#endif							/* GEN_DURABLE_FEEDER_H */
