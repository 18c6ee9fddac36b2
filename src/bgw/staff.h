/*
 * staff.h
 *		What a scheduler does for the executors of its database.
 */
#ifndef GEN_DURABLE_STAFF_H
#define GEN_DURABLE_STAFF_H

#include "postgres.h"

#include "bgw/bgw.h"

extern GdFound gd_staff_turn(TimestampTz *wake_at);

#endif							/* GEN_DURABLE_STAFF_H */
