/*
 * held.h
 *		The table backend: who holds slots of gates.
 */
#ifndef GEN_DURABLE_HELD_H
#define GEN_DURABLE_HELD_H

#include "postgres.h"

#include "utils/hsearch.h"
#include "utils/snapshot.h"

#include "limiter/policy.h"

/* Slots held of all keys, as one snapshot has them. */
typedef struct GdHeld
{
	Snapshot	snapshot;
	GdPolicies *policies;
	HTAB	   *keys;
} GdHeld;

extern void gd_held_begin(GdHeld *held, GdPolicies *policies);
extern void gd_held_end(GdHeld *held);
extern bool gd_held_any(const GdHeld *held, const text *key);
extern void gd_held_slots(const GdHeld *held, const text *key, const GdPolicy *policy,
						  int64 *slots);
extern void gd_held_of(const text *key, const GdPolicy *policy, Snapshot snapshot, int64 *slots);
extern void gd_held_cold(const text *key, const GdPolicy *policy, Snapshot snapshot, int64 *slots);

#endif							/* GEN_DURABLE_HELD_H */
