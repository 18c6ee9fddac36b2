/*
 * scope.c
 *		Scopes of the run store, and the tenants that a role is confined to.
 *
 * A scope is given with each call: 'system', 'tenantless' or 'tenant:<id>'.
 * A malformed one raises; a run outside of it is as if it were not there.
 *
 * A role that grant_tenant has named, and every role that has its privileges,
 * sees the runs of its tenants only, whatever scope it gives.  Others need the
 * right to see all, which is that to execute run_all_tenants; so a role that
 * is renamed, and not found in run_tenants any more, sees none.  Superusers
 * and admins see all.  The answer is kept per session until run_tenants, a
 * membership or a role changes; a trigger on run_tenants sees to the first.
 *
 * Locks: none but the share of run_tenants while it is read.
 */
#include "postgres.h"

#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "catalog.h"
#include "compat.h"
#include "engine/machines.h"
#include "names.h"
#include "run_store/scope.h"
#include "table.h"

#define TENANT_PREFIX "tenant:"

PG_FUNCTION_INFO_V1(gd_run_visible);
PG_FUNCTION_INFO_V1(gd_run_all_tenants);
PG_FUNCTION_INFO_V1(gd_run_tenants_changed);

static GdRunTenants tenants;
static bool tenants_valid = false;
static Oid	tenants_user;		/* whose they are */
static uint64 tenants_generation;	/* of the catalog then */
static MemoryContext tenants_context = NULL;

/*
 * Syscache callback: may only flip the flag.
 */
static void
tenants_forget(Datum arg, int cacheid, uint32 hashvalue)
{
	tenants_valid = false;
}

void
gd_run_scope_init(void)
{
	CacheRegisterSyscacheCallback(AUTHOID, tenants_forget, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, tenants_forget, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, tenants_forget, (Datum) 0);
}

static int
tenants_compare(const void *a, const void *b)
{
	return gd_run_text_compare(*(text *const *) a, *(text *const *) b);
}

/*
 * tenants_may_see_all: has the current user the right to see the runs of all
 * tenants, which the levels give and grant_tenant does not?
 */
static bool
tenants_may_see_all(void)
{
	Oid			function = LookupFuncName(list_make2(makeString("gen_durable"),
													 makeString("run_all_tenants")),
										  0, NULL, false);

	return gd_proc_aclcheck(function, GetUserId(), ACL_EXECUTE) == ACLCHECK_OK;
}

/*
 * tenants_read: the tenants that the current user is confined to.
 */
static void
tenants_read(void)
{
	GdTable    *table = gd_table_open_read(GD_RUN_TENANTS);
	bool		exempt = superuser() || gd_machine_admin();
	int			size = 16;
	int			distinct = 0;
	GdScan		scan;

	tenants.confined = !exempt && !tenants_may_see_all();
	tenants.n = 0;
	tenants.keys = MemoryContextAlloc(tenants_context, sizeof(text *) * size);
	gd_scan_begin(&scan, table, GD_RUN_TENANTS_PKEY);
	gd_scan_start(&scan);
	while (!exempt && gd_scan_next(&scan))
	{
		char	   *name = TextDatumGetCString(gd_slot_datum(table, scan.slot, RUN_TENANT_ROLE));
		Oid			role = get_role_oid(name, true);
		MemoryContext old;

		if (!OidIsValid(role) || !has_privs_of_role(GetUserId(), role))
			continue;
		if (tenants.n == size)
		{
			size *= 2;
			tenants.keys = repalloc(tenants.keys, sizeof(text *) * size);
		}
		tenants.confined = true;
		old = MemoryContextSwitchTo(tenants_context);
		tenants.keys[tenants.n++] = DatumGetTextPCopy(gd_slot_datum(table, scan.slot, RUN_TENANT_TENANT));
		MemoryContextSwitchTo(old);
	}
	gd_scan_end(&scan);
	gd_table_close(table);

	qsort(tenants.keys, tenants.n, sizeof(text *), tenants_compare);
	for (int i = 0; i < tenants.n; i++)
		if (distinct == 0 || !gd_text_equal(tenants.keys[distinct - 1], tenants.keys[i]))
			tenants.keys[distinct++] = tenants.keys[i];
	tenants.n = distinct;
}

/*
 * tenants_get: the tenants that the current user is confined to.  The
 * answer holds until the next call.
 *
 * What is read may change while it is read, and is then read again.  Where
 * something changes all the time - with debug_discard_caches it always does -
 * the second answer serves this call, as one would that came a moment before
 * the change, and the next call reads anew.
 */
static const GdRunTenants *
tenants_get(void)
{
	uint64		generation = gd_catalog()->generation;

	for (int tries = 0; tries < 2; tries++)
	{
		if (tenants_valid && tenants_user == GetUserId() && tenants_generation == generation)
			break;
		if (tenants_context == NULL)
			tenants_context = AllocSetContextCreate(TopMemoryContext, "gen_durable tenants",
													ALLOCSET_SMALL_SIZES);
		MemoryContextReset(tenants_context);

		/*
		 * The flag is set before, so that a change takes it away.  Should the
		 * reading fail, the user will not match.
		 */
		tenants_user = InvalidOid;
		tenants_valid = true;
		tenants_read();
		tenants_user = GetUserId();
		tenants_generation = generation;
		generation = gd_catalog()->generation;
	}
	return &tenants;
}

/*
 * gd_run_tenants: a copy that holds whatever changes.
 */
GdRunTenants *
gd_run_tenants(void)
{
	const GdRunTenants *mine = tenants_get();
	GdRunTenants *copy = palloc(sizeof(GdRunTenants));

	*copy = *mine;
	copy->keys = palloc(sizeof(text *) * Max(mine->n, 1));
	for (int i = 0; i < mine->n; i++)
		copy->keys[i] = (text *) pg_detoast_datum_copy((struct varlena *) mine->keys[i]);
	return copy;
}

/*
 * gd_run_tenant_visible: may the current user see the runs with this key?
 */
bool
gd_run_tenant_visible(const text *key)
{
	const GdRunTenants *mine = tenants_get();

	return !mine->confined ||
		bsearch(&key, mine->keys, mine->n, sizeof(text *), tenants_compare) != NULL;
}

/*
 * gd_run_scope_read: a call's scope.
 */
void
gd_run_scope_read(FunctionCallInfo fcinfo, int argno, GdRunScope *scope)
{
	const text *arg;
	const char *str;
	int			len;

	gd_arg_required(fcinfo, argno, "scope");
	arg = PG_GETARG_TEXT_PP(argno);
	str = VARDATA_ANY(arg);
	len = VARSIZE_ANY_EXHDR(arg);
	scope->system = false;
	scope->key = NULL;
	if (len == strlen("system") && memcmp(str, "system", len) == 0)
		scope->system = true;
	else if (len == strlen("tenantless") && memcmp(str, "tenantless", len) == 0)
		scope->key = cstring_to_text("");
	else if (len >= strlen(TENANT_PREFIX) && memcmp(str, TENANT_PREFIX, strlen(TENANT_PREFIX)) == 0)
	{
		scope->key = cstring_to_text_with_len(str + strlen(TENANT_PREFIX), len - strlen(TENANT_PREFIX));
		gd_check_name("tenant", scope->key, NULL);
	}
	else
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("scope \"%s\" must be system, tenantless or tenant:<id>", gd_clip(str, len))));
}

/*
 * gd_run_scope_owner: the scope of a call that creates, which names the owner.
 */
void
gd_run_scope_owner(FunctionCallInfo fcinfo, int argno, GdRunScope *scope)
{
	gd_run_scope_read(fcinfo, argno, scope);
	if (scope->system)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("scope \"system\" cannot own a run"),
				 errhint("Give tenantless or tenant:<id>.")));
	if (!gd_run_tenant_visible(scope->key))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("role \"%s\" is confined to other tenants than that of scope \"%s\"",
						GetUserNameFromId(GetUserId(), false),
						gd_clip(VARDATA_ANY(gd_run_scope_of(scope->key)),
								VARSIZE_ANY_EXHDR(gd_run_scope_of(scope->key)))),
				 errhint("grant_tenant gives a role a tenant.")));
}

/*
 * gd_run_scope_sees: are runs with this key in the scope, and the user's to
 * see?
 */
bool
gd_run_scope_sees(const GdRunScope *scope, const text *key)
{
	return (scope->system || gd_text_equal(scope->key, key)) && gd_run_tenant_visible(key);
}

/*
 * gd_run_scope_of: the scope that owns the runs with a key.
 */
text *
gd_run_scope_of(const text *key)
{
	int			len = VARSIZE_ANY_EXHDR(key);

	if (len == 0)
		return cstring_to_text("tenantless");
	return cstring_to_text(psprintf(TENANT_PREFIX "%s", pnstrdup(VARDATA_ANY(key), len)));
}

/*
 * run_visible(tenant) -> may the current user see that tenant's runs, or with
 * NULL those of none?  For the policy on the table.
 */
Datum
gd_run_visible(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0))
		PG_RETURN_BOOL(!tenants_get()->confined);
	PG_RETURN_BOOL(gd_run_tenant_visible(PG_GETARG_TEXT_PP(0)));
}

/*
 * run_all_tenants() -> may the current user see the runs of all tenants?
 */
Datum
gd_run_all_tenants(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!tenants_get()->confined);
}

/*
 * run_tenants_changed: has every session read run_tenants anew, once the
 * change commits.
 */
Datum
gd_run_tenants_changed(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("gen_durable.run_tenants_changed is a trigger's function")));
	CacheInvalidateRelcache(((TriggerData *) fcinfo->context)->tg_relation);
	PG_RETURN_POINTER(NULL);
}
