/*
 * announcer.h
 *		The scheduler's part that tells listeners of queues that have work.
 */
#ifndef GEN_DURABLE_ANNOUNCER_H
#define GEN_DURABLE_ANNOUNCER_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "bgw/bgw.h"

extern GdFound gd_announcer_turn(TimestampTz *next);
extern void gd_announcer_leave(void);

#endif							/* GEN_DURABLE_ANNOUNCER_H */
