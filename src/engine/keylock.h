/*
 * keylock.h
 *		Transaction-level locks on keys, in a lock space of our own.
 */
#ifndef GEN_DURABLE_KEYLOCK_H
#define GEN_DURABLE_KEYLOCK_H

#include "postgres.h"

extern void gd_key_lock(const char *kind, const text *key);
extern bool gd_key_try_lock(const char *kind, const text *key);
extern bool gd_key_try_share(const char *kind, const text *key);

#endif							/* GEN_DURABLE_KEYLOCK_H */
