/*
 * orphans.h
 *		Claims that a scheduler before this one made ahead, and that nobody
 *		took.
 */
#ifndef GEN_DURABLE_ORPHANS_H
#define GEN_DURABLE_ORPHANS_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "bgw/bgw.h"

extern GdFound gd_orphans_turn(bool anew, TimestampTz *next);

#endif							/* GEN_DURABLE_ORPHANS_H */
