/*
 * scope.h
 *		Scopes of the run store, and the tenants that a role is confined to.
 */
#ifndef GEN_DURABLE_RUN_SCOPE_H
#define GEN_DURABLE_RUN_SCOPE_H

#include "postgres.h"

#include "fmgr.h"

/* Which runs a call is about. */
typedef struct GdRunScope
{
	bool		system;			/* those of all tenants, and of none */
	text	   *key;			/* else of this tenant, empty: of none */
} GdRunScope;

/* The tenants that the current user is confined to, by their bytes. */
typedef struct GdRunTenants
{
	bool		confined;		/* false: sees all */
	int			n;
	text	  **keys;
} GdRunTenants;

extern void gd_run_scope_init(void);
extern void gd_run_scope_read(FunctionCallInfo fcinfo, int argno, GdRunScope *scope);
extern void gd_run_scope_owner(FunctionCallInfo fcinfo, int argno, GdRunScope *scope);
extern bool gd_run_scope_sees(const GdRunScope *scope, const text *key);
extern text *gd_run_scope_of(const text *key);
extern GdRunTenants *gd_run_tenants(void);
extern bool gd_run_tenant_visible(const text *key);

/* By bytes, as the collation "C" has it. */
static inline int
gd_run_text_compare(const text *a, const text *b)
{
	int			alen = VARSIZE_ANY_EXHDR(a);
	int			blen = VARSIZE_ANY_EXHDR(b);
	int			result = memcmp(VARDATA_ANY(a), VARDATA_ANY(b), Min(alen, blen));

	return result != 0 ? result : alen - blen;
}

#endif							/* GEN_DURABLE_RUN_SCOPE_H */
