/*
 * blocked.c
 *		Rows that wait for a key: marking, promotion, and who is next (D-3).
 *
 * A candidate whose key is held is marked once (blocked_on) and leaves the
 * pick index, so that no later pick meets it.  Whoever frees the key promotes
 * the first blocked row of each queue that is not paused by (priority,
 * eligible_at, id); it goes
 * back to its place in the pick index with promoted_on set, which says that
 * the key's turn has been given and to whom.
 *
 * A mark and a freeing that run at the same time may not see each other, so
 * every pick and tick rechecks some keys that rows are blocked on, going
 * round all of them.
 *
 * Locks: only rows being marked or promoted, and never waiting for one.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"

#include "engine/blocked.h"
#include "engine/effects.h"
#include "engine/instance.h"
#include "engine/queues.h"
#include "events.h"
#include "names.h"

/*
 * gd_blocked_on: the mark of a row that waits for a key.
 */
text *
gd_blocked_on(const char *kind, const text *key)
{
	return cstring_to_text(psprintf("%s:%s", kind, text_to_cstring(key)));
}

/* Is a mark one that a free concurrency key ends? */
static bool
blocked_is_conc(const char *blocked_on)
{
	return strncmp(blocked_on, GD_BLOCK_CONC ":", sizeof(GD_BLOCK_CONC ":") - 1) == 0;
}

/*
 * gd_blocked_key_held: does an executing row hold a concurrency key, as the
 * latest snapshot has it?
 */
bool
gd_blocked_key_held(GdTable *instances, const text *key)
{
	GdScan		scan;
	bool		held;

	gd_scan_begin(&scan, instances, GD_INSTANCES_KEY);
	gd_scan_text(&scan, 1, key);
	gd_scan_start(&scan);
	held = gd_scan_next(&scan);
	gd_scan_end(&scan);
	return held;
}

/*
 * blocked_first: load the first row of an index on (key, queue, ...).
 */
static bool
blocked_first(GdTable *instances, GdIndexId index, const text *blocked_on,
			  const text *queue, GdRow *row)
{
	GdScan		scan;
	bool		found;

	gd_scan_begin(&scan, instances, index);
	gd_scan_text(&scan, 1, blocked_on);
	gd_scan_text(&scan, 2, queue);
	gd_scan_start(&scan);
	found = gd_scan_next(&scan);
	if (found && row)
		gd_row_load(row, scan.slot);
	gd_scan_end(&scan);
	return found;
}

/*
 * gd_blocked_head: load the first row of a queue that is blocked on a key,
 * unlocked; false if there is none.
 */
bool
gd_blocked_head(GdTable *instances, const text *blocked_on, const text *queue, GdRow *head)
{
	return blocked_first(instances, GD_INSTANCES_BLOCKED, blocked_on, queue, head);
}

/*
 * gd_blocked_promoted: load the row of a queue that was promoted for a key
 * and is not claimed yet, unlocked; false if there is none.
 */
bool
gd_blocked_promoted(GdTable *instances, const text *blocked_on, const text *queue,
					GdRow *promoted)
{
	return blocked_first(instances, GD_INSTANCES_PROMOTED, blocked_on, queue, promoted);
}

/*
 * gd_blocked_next: load the row of a queue whose turn at a key is next,
 * unlocked: promoted for it or still blocked on it, whichever sorts first.
 */
bool
gd_blocked_next(GdTable *instances, const text *blocked_on, const text *queue, GdRow *next)
{
	GdRow	   *head = gd_row_create(instances);
	bool		found = gd_blocked_promoted(instances, blocked_on, queue, next);

	if (gd_blocked_head(instances, blocked_on, queue, head) &&
		(!found || gd_instance_before(head, next)))
	{
		gd_row_load(next, head->slot);
		found = true;
	}
	gd_row_free(head);
	return found;
}

/*
 * blocked_count: a row was refused.
 */
static void
blocked_count(GdRow *row, const char *blocked_on)
{
	bool		conc = blocked_is_conc(blocked_on);
	const text *queue = gd_instance_text(row, INST_QUEUE);

	gd_stats_count(queue, conc ? GD_COUNT_KEY_REFUSED : GD_COUNT_RATE_REFUSED, 1);
	gd_event(conc ? "concurrency.throttled" : "rate_limit.throttled",
			 conc ? "wanted=1 admitted=0 key=%s queue=%s" : "wanted=1 granted=0 key=%s queue=%s",
			 gd_event_value(gd_instance_text(row, conc ? INST_CONCURRENCY_KEY : INST_RATE_LIMIT)),
			 gd_event_value(queue));
}

/*
 * gd_blocked_mark: a locked candidate waits for its key from now on.
 *
 * The key is looked at once more at commit, since its holder may have ended
 * by then without having seen this mark.
 */
void
gd_blocked_mark(GdRow *row, text *blocked_on, TimestampTz now)
{
	gd_row_set(row, INST_BLOCKED_ON, PointerGetDatum(blocked_on));
	gd_row_set_null(row, INST_PROMOTED_ON);
	gd_instance_write(row, now);
	if (blocked_is_conc(text_to_cstring(blocked_on)))
		gd_effect_promote(GD_BLOCK_CONC, gd_instance_text(row, INST_CONCURRENCY_KEY));
	blocked_count(row, text_to_cstring(blocked_on));
}

/*
 * blocked_promote_key: if the key is free, promote the first row of each
 * queue that is not paused; returns how many.  A head that another
 * transaction has locked is left to a later recheck.
 */
static int
blocked_promote_key(GdTable *instances, const text *blocked_on, TimestampTz now)
{
	static const int prefix = sizeof(GD_BLOCK_CONC ":") - 1;
	const text *key = cstring_to_text_with_len(VARDATA_ANY(blocked_on) + prefix,
											   VARSIZE_ANY_EXHDR(blocked_on) - prefix);
	GdRow	   *row = gd_row_create(instances);
	GdRow	   *turn = gd_row_create(instances);	/* whose turn it is
													 * already */
	text	   *queue = NULL;
	int			promoted = 0;
	GdScan		scan;

	gd_scan_begin(&scan, instances, GD_INSTANCES_BLOCKED);
	for (;;)
	{
		gd_scan_text(&scan, 1, blocked_on);
		if (queue)
			gd_scan_key(&scan, 2, BTGreaterStrategyNumber, F_TEXT_GT, PointerGetDatum(queue));
		gd_scan_start(&scan);
		if (!gd_scan_next(&scan))
			break;
		if (queue == NULL && gd_blocked_key_held(instances, key))
			break;
		queue = DatumGetTextPCopy(gd_slot_datum(instances, scan.slot, INST_QUEUE));
		gd_row_load(row, scan.slot);
		if ((gd_blocked_promoted(instances, blocked_on, queue, turn) &&
			 !gd_instance_before(row, turn)) ||
			gd_queue_paused(queue, now) ||
			gd_row_lock(row, &scan.slot->tts_tid, false) != GD_LOCKED)
			continue;
		gd_row_set_null(row, INST_BLOCKED_ON);
		gd_row_set(row, INST_PROMOTED_ON, PointerGetDatum(blocked_on));
		gd_instance_write(row, now);
		promoted++;
	}
	gd_scan_end(&scan);
	gd_row_free(turn);
	gd_row_free(row);
	return promoted;
}

/*
 * gd_blocked_promote: a key may have become free in this transaction.
 */
void
gd_blocked_promote(const char *blocked_on, TimestampTz now)
{
	GdTable    *instances;

	if (!blocked_is_conc(blocked_on))
		return;
	instances = gd_table_open(GD_INSTANCES);
	blocked_promote_key(instances, cstring_to_text(blocked_on), now);
	gd_table_close(instances);
}

/*
 * blocked_next_key: the first key in byte order after `after` that a row is
 * blocked on; NULL if there is none.
 */
static text *
blocked_next_key(GdTable *instances, const text *after)
{
	GdScan		scan;
	text	   *next = NULL;

	gd_scan_begin(&scan, instances, GD_INSTANCES_BLOCKED);
	gd_scan_key(&scan, 1, BTGreaterStrategyNumber, F_TEXT_GT, PointerGetDatum(after));
	gd_scan_start(&scan);
	if (gd_scan_next(&scan))
		next = DatumGetTextPCopy(gd_slot_datum(instances, scan.slot, INST_BLOCKED_ON));
	gd_scan_end(&scan);
	return next && blocked_is_conc(text_to_cstring(next)) ? next : NULL;
}

/*
 * gd_blocked_resume: a queue hands rows out again: look, at commit, at the
 * keys that its rows are blocked on, at most so many.
 */
void
gd_blocked_resume(const text *queue, int max_keys)
{
	static const int prefix = sizeof(GD_BLOCK_CONC ":") - 1;
	GdTable    *instances = gd_table_open_read(GD_INSTANCES);
	text	   *key = cstring_to_text(GD_BLOCK_CONC ":");

	for (int n = 0; n < max_keys; n++)
	{
		CHECK_FOR_INTERRUPTS();
		key = blocked_next_key(instances, key);
		if (key == NULL)
			break;
		if (gd_blocked_head(instances, key, queue, NULL))
			gd_effect_promote(GD_BLOCK_CONC,
							  cstring_to_text_with_len(VARDATA_ANY(key) + prefix,
													   VARSIZE_ANY_EXHDR(key) - prefix));
	}
	gd_table_close(instances);
}

/*
 * gd_blocked_recheck: look at some of the keys that rows are blocked on, going
 * on where this session stopped last, and promote where a key is free.
 * Returns how many rows were promoted.
 */
int
gd_blocked_recheck(GdTable *instances, int max_keys, TimestampTz now)
{
	static char last[GD_NAME_MAX + sizeof(GD_BLOCK_CONC ":")] = GD_BLOCK_CONC ":";
	char		first[sizeof(last)];
	bool		wrapped = false;
	int			promoted = 0;

	strcpy(first, last);
	for (int n = 0; n < max_keys; n++)
	{
		text	   *key = blocked_next_key(instances, cstring_to_text(last));

		if (key == NULL)
		{
			/* Round to the beginning, once. */
			if (wrapped || strcmp(last, GD_BLOCK_CONC ":") == 0)
				break;
			wrapped = true;
			strcpy(last, GD_BLOCK_CONC ":");
			continue;
		}
		text_to_cstring_buffer(key, last, sizeof(last));
		promoted += blocked_promote_key(instances, key, now);
		if (wrapped && strcmp(last, first) >= 0)
			break;
	}
	if (promoted > 0)
		gd_table_flush();
	return promoted;
}
