/*
 * compat.h
 *		The differences between PostgreSQL versions, and the only file that
 *		names PG_VERSION_NUM.  Each macro says which change forced it.
 */
#ifndef GEN_DURABLE_COMPAT_H
#define GEN_DURABLE_COMPAT_H

#include "postgres.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/datetime.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000
#error "gen_durable needs PostgreSQL 15 or newer"
#endif

/* 18 lets a module tell its name and version. */
#if PG_VERSION_NUM >= 180000
#define GD_MODULE_MAGIC(name_, version_) \
	PG_MODULE_MAGIC_EXT(.name = (name_), .version = (version_))
#else
#define GD_MODULE_MAGIC(name_, version_) PG_MODULE_MAGIC
#endif

/* 16 moved the macros of variable-length data out of postgres.h. */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* 18 writes it before a declaration, and has no macro for after it. */
#if PG_VERSION_NUM >= 180000
#define GD_NORETURN pg_noreturn
#else
#define GD_NORETURN pg_attribute_noreturn()
#endif

/* 16 has one privilege check for all kinds of objects. */
#if PG_VERSION_NUM >= 160000
#define gd_proc_aclcheck(proc, role, mode) \
	object_aclcheck(ProcedureRelationId, proc, role, mode)
#else
#define gd_proc_aclcheck(proc, role, mode) pg_proc_aclcheck(proc, role, mode)
#endif

#if PG_VERSION_NUM >= 160000
#define gd_namespace_aclcheck(schema, role, mode) \
	object_aclcheck(NamespaceRelationId, schema, role, mode)
#else
#define gd_namespace_aclcheck(schema, role, mode) pg_namespace_aclcheck(schema, role, mode)
#endif

/* 16 lets it report instead of raise. */
#if PG_VERSION_NUM >= 160000
#define gd_qualified_name_list(name) stringToQualifiedNameList(name, NULL)
#else
#define gd_qualified_name_list(name) stringToQualifiedNameList(name)
#endif

/* 17 lets a background worker run as a role that may not log in. */
#if PG_VERSION_NUM >= 170000
#define GD_EXECUTOR_NEEDS_LOGIN false
#define GD_EXECUTOR_CONNECT BGWORKER_BYPASS_ROLELOGINCHECK
#else
#define GD_EXECUTOR_NEEDS_LOGIN true
#define GD_EXECUTOR_CONNECT 0
#endif

/* 18 adds an instrumentation argument. */
#if PG_VERSION_NUM >= 180000
#define gd_index_beginscan(heap, index, snapshot, nkeys) \
	index_beginscan(heap, index, snapshot, NULL, nkeys, 0)
#else
#define gd_index_beginscan(heap, index, snapshot, nkeys) \
	index_beginscan(heap, index, snapshot, nkeys, 0)
#endif

/* 16 has it know the table; 17 has no snapshot that is too old. */
#if PG_VERSION_NUM >= 170000
#define gd_bt_search(index, heap, key, buffer, access) \
	_bt_search(index, heap, key, buffer, access)
#elif PG_VERSION_NUM >= 160000
#define gd_bt_search(index, heap, key, buffer, access) \
	_bt_search(index, heap, key, buffer, access, NULL)
#else
#define gd_bt_search(index, heap, key, buffer, access) \
	_bt_search(index, key, buffer, access, NULL)
#endif

/* 18 lets the caller exclude a tuple of its own from the check. */
#if PG_VERSION_NUM >= 180000
#define gd_check_index_constraints(rri, slot, estate, tid, arbiters) \
	ExecCheckIndexConstraints(rri, slot, estate, tid, NULL, arbiters)
#else
#define gd_check_index_constraints(rri, slot, estate, tid, arbiters) \
	ExecCheckIndexConstraints(rri, slot, estate, tid, arbiters)
#endif

/* 16 tells summarizing indexes (BRIN) from the rest after an update. */
#if PG_VERSION_NUM >= 160000
typedef TU_UpdateIndexes GdUpdateIndexes;
#define GD_UPDATE_NO_INDEX TU_None
#define gd_exec_insert_index_tuples(rri, slot, estate, update, nodup, conflict, arbiters, which) \
	ExecInsertIndexTuples(rri, slot, estate, update, nodup, conflict, arbiters, \
						  (which) == TU_Summarizing)
#define GD_UPDATE_ALL_INDEXES TU_All
#else
typedef bool GdUpdateIndexes;
#define GD_UPDATE_NO_INDEX false
#define GD_UPDATE_ALL_INDEXES true
#define gd_exec_insert_index_tuples(rri, slot, estate, update, nodup, conflict, arbiters, which) \
	ExecInsertIndexTuples(rri, slot, estate, update, nodup, conflict, arbiters)
#endif

/* 16 tells more about a date that it cannot read. */
#if PG_VERSION_NUM >= 160000
static inline int
gd_decode_datetime(char **field, int *ftype, int nf, int *dtype,
				   struct pg_tm *tm, fsec_t *fsec, int *tz)
{
	DateTimeErrorExtra extra;

	return DecodeDateTime(field, ftype, nf, dtype, tm, fsec, tz, &extra);
}
#else
#define gd_decode_datetime(field, ftype, nf, dtype, tm, fsec, tz) \
	DecodeDateTime(field, ftype, nf, dtype, tm, fsec, tz)
#endif

/* 16 has one check of ownership for all kinds of objects. */
#if PG_VERSION_NUM >= 160000
#define gd_database_ownercheck(database, role) \
	object_ownercheck(DatabaseRelationId, database, role)
#else
#define gd_database_ownercheck(database, role) pg_database_ownercheck(database, role)
#endif

/* 16 (and minor versions of 15) mark a database whose DROP was interrupted. */
#ifdef DATCONNLIMIT_INVALID_DB
#define GD_DATABASE_INVALID DATCONNLIMIT_INVALID_DB
#else
#define GD_DATABASE_INVALID (-2)
#endif

/* 17 has infinite intervals. */
#if PG_VERSION_NUM >= 170000
#define GD_INTERVAL_IS_ENDLESS(i) INTERVAL_IS_NOEND(i)
#define GD_INTERVAL_IS_FINITE(i) (!INTERVAL_NOT_FINITE(i))
#else
#define GD_INTERVAL_IS_ENDLESS(i) false
#define GD_INTERVAL_IS_FINITE(i) true
#endif

/* 17 numbers processes by a variable of its own. */
#if PG_VERSION_NUM >= 170000
#define gd_my_procno() MyProcNumber
#else
#define gd_my_procno() (MyProc->pgprocno)
#endif

/* 16 shortened the names of a table's statistics. */
#if PG_VERSION_NUM >= 160000
#define gd_stat_live_tuples(stats) ((stats)->live_tuples)
#define gd_stat_dead_tuples(stats) ((stats)->dead_tuples)
#else
#define gd_stat_live_tuples(stats) ((stats)->n_live_tuples)
#define gd_stat_dead_tuples(stats) ((stats)->n_dead_tuples)
#endif

/* 17 lets an extension name its wait events. */
#if PG_VERSION_NUM >= 170000
static inline uint32
gd_wait_event(const char *name)
{
	static uint32 event = 0;

	if (event == 0)
		event = WaitEventExtensionNew(name);
	return event;
}
#else
#define gd_wait_event(name) PG_WAIT_EXTENSION
#endif

#endif							/* GEN_DURABLE_COMPAT_H */
