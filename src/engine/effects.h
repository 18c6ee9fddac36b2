/*
 * effects.h
 *		What a transaction does to rows other than those it was called for.
 */
#ifndef GEN_DURABLE_EFFECTS_H
#define GEN_DURABLE_EFFECTS_H

#include "postgres.h"

/* What a row can be blocked on; blocked_on is <kind>:<key>. */
#define GD_BLOCK_CONC "conc"
#define GD_BLOCK_RATE "rate"

extern void gd_effects_init(void);
extern void gd_effect_join(int64 parent_id, int barrier);
extern void gd_effect_promote(const char *kind, const text *key);
extern void gd_effect_credit(const text *key, int shard);
extern void gd_effects_apply(void);

#endif							/* GEN_DURABLE_EFFECTS_H */
