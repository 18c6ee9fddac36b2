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
#include "utils/builtins.h"
#include "utils/json.h"

#include "events.h"
#include "guc.h"

/*
 * gd_event_value: a text as an event shows it: as it is if it is one plain
 * word, else quoted as in JSON, so that no text can pass for another value.
 */
char *
gd_event_value(const text *value)
{
	char	   *string;
	StringInfoData buf;

	if (!gd_log_events)
		return "";
	string = text_to_cstring(value);
	if (string[0] != '\0' &&
		strspn(string, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-") == strlen(string))
		return string;
	initStringInfo(&buf);
	escape_json(&buf, string);
	return buf.data;
}

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
