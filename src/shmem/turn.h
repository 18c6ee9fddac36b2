/*
 * turn.h
 *		Whose turn it is: the tenant that claims of runs have served last.
 */
#ifndef GEN_DURABLE_TURN_H
#define GEN_DURABLE_TURN_H

#include "postgres.h"

extern Size gd_turn_size(void);
extern void gd_turn_attach(void *start, bool first);

extern text *gd_turn_last(void);
extern void gd_turn_set(const text *tenant);

#endif							/* GEN_DURABLE_TURN_H */
