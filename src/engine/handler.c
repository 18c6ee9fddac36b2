/*
 * handler.c
 *		The functions that the server runs steps with: checked when they are
 *		registered, and found again when they are called.
 *
 * A handler is stored as schema-qualified text, since a function's OID would
 * stop pg_upgrade.  What it was when it was registered need not hold when it
 * is called: it may have been dropped, replaced, or taken away from the
 * machine's owner.  So all of it is checked again, and the error is the
 * step's.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "parser/parse_func.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/regproc.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#include "compat.h"
#include "engine/handler.h"

/* Handlers that a session keeps ready; beyond, all are forgotten. */
#define KEEP_HANDLERS 64

/* One that is ready to be called. */
typedef struct Ready
{
	char	   *handler;
	GdHandlerKind kind;
	Oid			owner;
	FmgrInfo	function;
} Ready;

static MemoryContext context = NULL;
static Ready *ready[KEEP_HANDLERS];
static int	nready = 0;
static bool stale = false;
static bool callbacks_registered = false;

Oid
gd_job_type(void)
{
	Oid			schema = get_namespace_oid("gen_durable", false);
	Oid			type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum("job"),
									   ObjectIdGetDatum(schema));

	if (!OidIsValid(type))
		elog(ERROR, "type gen_durable.job does not exist");
	return type;
}

static int
handler_arguments(GdHandlerKind kind, Oid *types)
{
	types[0] = gd_job_type();
	types[1] = JSONBOID;
	return kind == GD_HANDLER_STEP ? 1 : 2;
}

/*
 * handler_check_shape: is the function one that a step can be run with?
 */
static void
handler_check_shape(Oid function, GdHandlerKind kind)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Form_pg_proc proc;
	Oid			types[2];
	int			ntypes = handler_arguments(kind, types);
	bool		fits;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function with OID %u does not exist", function)));
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	fits = proc->prokind == PROKIND_FUNCTION && !proc->proretset &&
		proc->prorettype == JSONBOID && proc->pronargs == ntypes;
	for (int i = 0; fits && i < ntypes; i++)
		fits = proc->proargtypes.values[i] == types[i];
	ReleaseSysCache(tuple);
	if (!fits)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_FUNCTION_DEFINITION),
				 errmsg("%s cannot be the handler of %s", format_procedure(function),
						kind == GD_HANDLER_STEP ? "a step" : "an error"),
				 errdetail(kind == GD_HANDLER_STEP ?
						   "A handler takes (gen_durable.job) and returns jsonb: the step's outcome." :
						   "A handler of errors takes (gen_durable.job, jsonb) and returns jsonb: the step's outcome, or NULL.")));
}

/*
 * handler_check_rights: may the owner call the function?
 */
static void
handler_check_rights(Oid function, Oid owner)
{
	Oid			schema = get_func_namespace(function);

	if (gd_namespace_aclcheck(schema, owner, ACL_USAGE) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("role \"%s\" lacks USAGE on schema \"%s\" of handler %s",
						GetUserNameFromId(owner, true), get_namespace_name(schema),
						format_procedure(function)),
				 errdetail("A step runs as the owner of its machine.")));
	if (gd_proc_aclcheck(function, owner, ACL_EXECUTE) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("role \"%s\" lacks EXECUTE on handler %s",
						GetUserNameFromId(owner, true), format_procedure(function)),
				 errdetail("A step runs as the owner of its machine.")));
}

/*
 * gd_handler_check: may a function be registered as a handler for machines of
 * an owner?  Returns how it is stored.
 */
text *
gd_handler_check(Oid function, GdHandlerKind kind, Oid owner)
{
	handler_check_shape(function, kind);
	if (isAnyTempNamespace(get_func_namespace(function)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_FUNCTION_DEFINITION),
				 errmsg("temporary function %s cannot be a handler", format_procedure(function)),
				 errhint("It goes with its session; create it in a schema.")));
	handler_check_rights(function, owner);
	return cstring_to_text(format_procedure_qualified(function));
}

/*
 * handlers_forget: syscache callback for functions and schemas: may only flip
 * flags.
 */
static void
handlers_forget(Datum arg, int cacheid, uint32 hash)
{
	stale = true;
}

/*
 * handler_find: the function whose signature a stored handler names.
 */
static Oid
handler_find(const char *handler, GdHandlerKind kind)
{
	char	   *name = pstrdup(handler);
	char	   *arguments = strrchr(name, '(');
	Oid			types[2];
	int			ntypes = handler_arguments(kind, types);
	Oid			function;

	if (arguments)
		*arguments = '\0';
	function = LookupFuncName(gd_qualified_name_list(name), ntypes, types, true);
	if (!OidIsValid(function))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("handler %s does not exist", handler),
				 errhint("Create it again, or register the machine with another handler.")));
	pfree(name);
	return function;
}

/*
 * gd_handler_get: a stored handler, ready to be called by its owner.
 */
FmgrInfo *
gd_handler_get(const char *handler, GdHandlerKind kind, Oid owner)
{
	Ready	   *found;
	Oid			function;

	if (!callbacks_registered)
	{
		context = AllocSetContextCreate(TopMemoryContext, "gen_durable handlers",
										ALLOCSET_DEFAULT_SIZES);
		CacheRegisterSyscacheCallback(PROCOID, handlers_forget, (Datum) 0);
		CacheRegisterSyscacheCallback(NAMESPACEOID, handlers_forget, (Datum) 0);
		CacheRegisterSyscacheCallback(AUTHOID, handlers_forget, (Datum) 0);
		callbacks_registered = true;
	}
	if (stale || nready == KEEP_HANDLERS)
	{
		nready = 0;
		MemoryContextReset(context);
		stale = false;
	}
	for (int i = 0; i < nready; i++)
		if (ready[i]->owner == owner && ready[i]->kind == kind &&
			strcmp(ready[i]->handler, handler) == 0)
			return &ready[i]->function;

	function = handler_find(handler, kind);
	handler_check_shape(function, kind);
	handler_check_rights(function, owner);
	found = MemoryContextAllocZero(context, sizeof(Ready));
	found->handler = MemoryContextStrdup(context, handler);
	found->kind = kind;
	found->owner = owner;
	fmgr_info_cxt(function, &found->function, context);
	ready[nready++] = found;
	return &found->function;
}
