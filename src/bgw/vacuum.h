/*
 * vacuum.h
 *		Vacuums the instances when the steps ask for it.
 */
#ifndef GEN_DURABLE_VACUUM_H
#define GEN_DURABLE_VACUUM_H

#include "postgres.h"

extern void gd_vacuum_look(Oid table);
extern void gd_vacuum_stop(void);

#endif							/* GEN_DURABLE_VACUUM_H */
