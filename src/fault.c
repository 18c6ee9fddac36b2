/*
 * fault.c
 *		Raise an error of the contract, or note it for the row that it concerns.
 */
#include "postgres.h"

#include "fault.h"
#include "lib/stringinfo.h"

/*
 * gd_fault: something is wrong with the input.
 *
 * Raises when fault is NULL.  Otherwise notes the first fault and returns
 * false, so that a validator can `return gd_fault(...)`.
 */
bool
gd_fault(GdFault *fault, int sqlerrcode, const char *hint, const char *fmt,...)
{
	GdFault		raised = {0};
	GdFault    *into = fault ? fault : &raised;
	StringInfoData buf;

	initStringInfo(&buf);
	for (;;)
	{
		va_list		args;
		int			needed;

		va_start(args, fmt);
		needed = appendStringInfoVA(&buf, fmt, args);
		va_end(args);
		if (needed == 0)
			break;
		enlargeStringInfo(&buf, needed);
	}

	if (into->sqlerrcode == 0)
	{
		into->sqlerrcode = sqlerrcode;
		into->message = buf.data;
		into->hint = hint ? pstrdup(hint) : NULL;
	}
	if (fault == NULL)
		gd_fault_raise(&raised);
	return false;
}

/*
 * gd_fault_raise: raise a fault that was noted.
 */
void
gd_fault_raise(const GdFault *fault)
{
	Assert(fault->sqlerrcode != 0);
	ereport(ERROR,
			(errcode(fault->sqlerrcode),
			 errmsg_internal("%s", fault->message),
			 fault->hint ? errhint("%s", fault->hint) : 0));
	pg_unreachable();
}
