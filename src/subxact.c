/*
 * subxact.c
 *		Work that may have to be taken back alone.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "subxact.h"

/*
 * gd_subtransaction: do work in a subtransaction, which stays if body returns
 * true and is rolled back, with its writes and locks, if it returns false.
 * An error with the SQLSTATE `forgiven` (0: none) counts as false.
 *
 * Whatever else is raised, the subtransaction ends here before it goes on:
 * the caller's exception block would otherwise roll back this one for its own.
 * The body must leave no pin, snapshot or scan open.
 */
bool
gd_subtransaction(GdSubxactBody body, void *arg, int forgiven)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool kept = false;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		kept = body(arg);
		if (kept)
			ReleaseCurrentSubTransaction();
		else
			RollbackAndReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		if (forgiven == 0 || error->sqlerrcode != forgiven)
			ReThrowError(error);
		FreeErrorData(error);
		kept = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return kept;
}
