/*
 * events.c
 *		Events of the engine, one structured line each in the server's log
 *		when gen_durable.log_events is on.
 *
 * An event is logged when it happens; if its transaction rolls back, the line
 * stays, as with every other line of the log.
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "events.h"
#include "guc.h"

/*
 * gd_event: name=value pairs after the event's name.  Costs nothing while
 * logging is off.
 */
void
gd_event(const char *event, const char *fmt,...)
{
	StringInfoData buf;

	if (!gd_log_events)
		return;
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
	ereport(LOG,
			(errmsg_internal("gen_durable event=%s %s", event, buf.data),
			 errhidestmt(true), errhidecontext(true)));
	pfree(buf.data);
}
