/*
 * subxact.c
 *		Work that may have to be taken back alone, and what is noted of it.
 */
#include "postgres.h"

#include "utils/memutils.h"
#include "utils/resowner.h"

#include "subxact.h"

/*
 * subxact_forgives: is an error's SQLSTATE the forgiven one, or of its class?
 */
static bool
subxact_forgives(int forgiven, int sqlerrcode)
{
	if (forgiven == 0)
		return false;
	return sqlerrcode == forgiven ||
		(ERRCODE_IS_CATEGORY(forgiven) && ERRCODE_TO_CATEGORY(sqlerrcode) == forgiven);
}

/*
 * gd_subtransaction: do work in a subtransaction, which stays if body returns
 * true and is rolled back, with its writes and locks, if it returns false.
 * An error with the SQLSTATE `forgiven` (0: none), or of it if it is a class,
 * counts as false.
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
		if (!subxact_forgives(forgiven, error->sqlerrcode))
			ReThrowError(error);
		FreeErrorData(error);
		kept = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return kept;
}

/*
 * gd_subxact_notes: a subtransaction ends; an array has notes of what the
 * transaction did, each of `size` bytes that begin with an int, the nesting
 * level that made it, in the order of these.  Returns how many notes stay: all,
 * which are then the parent's, or those of before a subtransaction that is
 * rolled back, which the caller has to undo from there on.
 *
 * Called in a callback: allocates nothing and cannot fail.
 */
int
gd_subxact_notes(SubXactEvent event, void *notes, int nnotes, Size size)
{
	int			level = GetCurrentTransactionNestLevel();
	int			from = nnotes;

	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return nnotes;
	for (; from > 0; from--)
	{
		int		   *note_level = (int *) ((char *) notes + (from - 1) * size);

		if (*note_level < level)
			break;
		if (event == SUBXACT_EVENT_COMMIT_SUB)
			*note_level = level - 1;
	}
	return event == SUBXACT_EVENT_ABORT_SUB ? from : nnotes;
}
