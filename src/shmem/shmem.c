/*
 * shmem.c
 *		The library's piece of shared memory: one part for each room that
 *		keeps something there.
 *
 * It exists where the library is preloaded, and holds hints only: tables
 * decide.  Without it the functions work, and what would have been a wake-up
 * is found by polling.
 *
 * All parts have a fixed size that follows from settings that only a server
 * start can change.  Each room says beside its structs how they are locked.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "shmem/cursors.h"
#include "shmem/databases.h"
#include "shmem/dispatch.h"
#include "shmem/limit_counts.h"
#include "shmem/executors.h"
#include "shmem/news.h"
#include "shmem/returns.h"
#include "shmem/shmem.h"
#include "shmem/stats.h"
#include "shmem/waiters.h"
#include "shmem/timers.h"
#include "shmem/turn.h"
#include "shmem/wake.h"

/* A room's part. */
typedef struct ShmemPart
{
	const char *name;
	Size		(*size) (void);
	void		(*attach) (void *start, bool first);	/* first: set it up */
} ShmemPart;

static const ShmemPart parts[] = {
	{"gen_durable wake-ups", gd_wake_size, gd_wake_attach},
	{"gen_durable cursors", gd_cursors_size, gd_cursors_attach},
	{"gen_durable databases", gd_databases_size, gd_databases_attach},
	{"gen_durable executors", gd_executors_size, gd_executors_attach},
	{"gen_durable timers", gd_timers_size, gd_timers_attach},
	{"gen_durable news", gd_news_size, gd_news_attach},
	{"gen_durable dispatch", gd_dispatch_size, gd_dispatch_attach},
	{"gen_durable statistics", gd_stats_size, gd_stats_attach},
	{"gen_durable waiters", gd_waiters_size, gd_waiters_attach},
	{"gen_durable limits", gd_limit_counts_size, gd_limit_counts_attach},
	{"gen_durable turns", gd_turn_size, gd_turn_attach},
	{"gen_durable returns", gd_returns_size, gd_returns_attach},
};

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;
static bool attached = false;

static void
shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	for (int i = 0; i < lengthof(parts); i++)
		RequestAddinShmemSpace(parts[i].size());
}

static void
shmem_startup(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	for (int i = 0; i < lengthof(parts); i++)
	{
		bool		found;
		void	   *start = ShmemInitStruct(parts[i].name, parts[i].size(), &found);

		parts[i].attach(start, !found);
	}
	LWLockRelease(AddinShmemInitLock);
	attached = true;
}

/*
 * gd_shmem_ready: is there shared memory?  Only where the library was
 * preloaded.
 */
bool
gd_shmem_ready(void)
{
	return attached;
}

void
gd_shmem_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = shmem_startup;
}
