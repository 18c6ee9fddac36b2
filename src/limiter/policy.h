/*
 * policy.h
 *		Policies of rate limits and gates: finding the one that a key is under.
 */
#ifndef GEN_DURABLE_POLICY_H
#define GEN_DURABLE_POLICY_H

#include "postgres.h"

#include "utils/hsearch.h"

#include "limiter/limiter.h"
#include "table.h"

/* Looks at policies within one call; each name is read once. */
typedef struct GdPolicies
{
	GdTable    *configs;		/* NULL until the first is asked for */
	GdScan		scan;
	HTAB	   *found;
	MemoryContext context;
} GdPolicies;

extern const char *const gd_limit_kinds[];
extern bool gd_limit_kind(const char *name, int len, GdLimitKind *kind);
extern text *gd_limit_name(const text *key);
extern void gd_policies_begin(GdPolicies *policies);
extern void gd_policies_end(GdPolicies *policies);
extern const GdPolicy *gd_policy_find(GdPolicies *policies, GdLimitKind kind, const text *key);
extern void gd_policy_lock(const GdPolicy *policy);
extern bool gd_policy_stands(GdLimitKind kind, const text *key, const GdPolicy *policy);
extern bool gd_policy_keep(GdLimitKind kind, const text *key, const GdPolicy *policy);
extern void gd_policy_load(GdPolicy *policy, GdTable *configs, TupleTableSlot *slot);

#endif							/* GEN_DURABLE_POLICY_H */
