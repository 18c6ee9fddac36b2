/*
 * gen_durable_hold.c
 *		For tests: a session that has loaded this stands still when its
 *		transaction is committed and seen by others, and before the extension
 *		hears of it, for as long as a file exists.
 */
#include "postgres.h"

#include <unistd.h>

#include "access/xact.h"
#include "fmgr.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

static char *hold_file = NULL;

static void
hold_xact_callback(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT && hold_file != NULL && *hold_file != '\0')
		while (access(hold_file, F_OK) == 0)
			pg_usleep(1000);
}

void
_PG_init(void)
{
	DefineCustomStringVariable("gen_durable_hold.file", "While this exists a commit stands still.", NULL,
							   &hold_file, "", PGC_SUSET, 0, NULL, NULL, NULL);
	/* Callbacks are called from the last registered to the first. */
	RegisterXactCallback(hold_xact_callback, NULL);
}
