/*
 * due.c
 *		Instants that the running transaction makes due: ends of leases, await
 *		deadlines, and refills of tokens that rows wait for.
 *
 * The earliest of them is told to the database's maintainer after commit, so
 * that it can sleep until the next instant that matters and no longer (D-18).
 * Instants of a subtransaction that rolls back stay: they cost a look for
 * nothing.  A prepared transaction tells nobody, which the maintainer's
 * interval makes up for.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/timestamp.h"

#include "engine/due.h"
#include "shmem/databases.h"
#include "shmem/shmem.h"

static TimestampTz earliest = DT_NOEND;

/*
 * gd_due_at: the running transaction writes a row that is due at an instant.
 */
void
gd_due_at(TimestampTz at)
{
	earliest = Min(earliest, at);
}

static void
due_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			if (earliest != DT_NOEND && gd_shmem_ready())
				gd_database_due(earliest);
			earliest = DT_NOEND;
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			earliest = DT_NOEND;
			break;
		default:
			break;
	}
}

void
gd_due_init(void)
{
	RegisterXactCallback(due_xact_callback, NULL);
}
