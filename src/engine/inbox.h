/*
 * inbox.h
 *		The signals of an instance.
 *
 * What writes needs the instance's row lock, which stands for its inbox; only
 * gd_inbox_collect and what loads an inbox for a job do without.
 */
#ifndef GEN_DURABLE_INBOX_H
#define GEN_DURABLE_INBOX_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "utils/array.h"

#include "table.h"

/* An inbox as a job carries it. */
typedef struct GdInbox
{
	Datum		signals;		/* jsonb array */
	Datum		awaited;		/* jsonb array */
	ArrayType  *handed;			/* ids of all; NULL if there are none */
	ArrayType  *handed_awaited; /* ids of those in awaited; NULL likewise */
} GdInbox;

extern bool gd_inbox_store(int64 target, text *name, Datum payload, text *dedup_key,
						   TimestampTz now);
extern bool gd_inbox_load(GdScan *by_target, int64 target, ArrayType *awaits,
						  GdInbox *inbox);
extern void gd_inbox_reload(GdScan *by_target, int64 target, ArrayType *handed,
							ArrayType *awaited, GdInbox *inbox);
extern bool gd_inbox_has_news(int64 target, ArrayType *names, ArrayType *handed);
extern void gd_inbox_consume(ArrayType *ids, TimestampTz now);
extern void gd_inbox_drop(int64 target);
extern int64 gd_inbox_collect(TimestampTz consumed_before, int max_rows);
extern bool gd_names_have(ArrayType *names, const text *name);

#endif							/* GEN_DURABLE_INBOX_H */
