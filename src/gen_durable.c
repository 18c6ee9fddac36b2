/*
 * gen_durable.c
 *		Entry point of the library: each room sets itself up.
 *
 * A durable-execution engine inside the database.  An instance of a state
 * machine is a row; a worker claims a step of it, does its work, and commits
 * an outcome.  docs/internals.md tells how the rooms hang together.
 */
#include "postgres.h"

#include "fmgr.h"

#include "bgw/bgw.h"
#include "catalog.h"
#include "compat.h"
#include "engine/dispatched.h"
#include "engine/due.h"
#include "engine/effects.h"
#include "engine/runners.h"
#include "guc.h"
#include "limiter/remote.h"
#include "run_store/scope.h"
#include "shmem/executors.h"
#include "shmem/shmem.h"
#include "shmem/stats.h"
#include "shmem/cursors.h"
#include "shmem/wake.h"
#include "version.h"

GD_MODULE_MAGIC("gen_durable", GD_VERSION);

PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	gd_guc_init();
	gd_catalog_init();
	gd_runners_init();
	/* Callbacks before a commit run in the opposite order: this one is last. */
	gd_stats_init();
	gd_effects_init();
	gd_cursors_init();
	gd_dispatched_init();
	gd_due_init();
	gd_run_scope_init();
	gd_shmem_init();
	gd_wake_init();
	gd_executors_init();
	gd_bgw_init();
	gd_remote_init();
}
