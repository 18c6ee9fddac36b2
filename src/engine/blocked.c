/*
 * blocked.c
 *		Rows that wait for a key: marking, promotion, and who is next (D-3).
 *
 * A candidate that its key, gate or rate limit refuses is marked once
 * (blocked_on) and leaves the pick index, so that no later pick meets it.
 * Whoever frees the key promotes the first blocked rows by (priority,
 * eligible_at, id) of each queue that is not paused: one of a key of size one,
 * as many as there are slots of a gate.  They go back to their places in the
 * pick index with promoted_on set, which says that the turn has been given and
 * to whom.
 *
 * Tokens come by themselves.  The first row of a queue that waits for a rate
 * limit knows when there will be enough for it (refill_at); at that instant
 * the maintainer, or else the next pick or tick, promotes as many rows as the
 * tokens then cover, and the next one learns its instant.
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

#include "clock.h"
#include "engine/blocked.h"
#include "engine/due.h"
#include "engine/effects.h"
#include "engine/instance.h"
#include "engine/queues.h"
#include "guc.h"
#include "limiter/arithmetic.h"
#include "limiter/policy.h"
#include "names.h"

/* Rows of one queue that a single freeing promotes. */
#define PROMOTE_MAX 1000

/* An instant that is off by less is left as it is, in microseconds. */
#define REFILL_SLACK 1000

/*
 * gd_blocked_on: the mark of a row that waits for a key.
 */
text *
gd_blocked_on(const char *kind, const text *key)
{
	return cstring_to_text(psprintf("%s:%s", kind, text_to_cstring(key)));
}

/*
 * blocked_parse: the kind and the key of a mark; false if it is none.
 */
static bool
blocked_parse(const text *mark, GdLimitKind *kind, text **key)
{
	const char *start = VARDATA_ANY(mark);
	const char *colon = memchr(start, ':', VARSIZE_ANY_EXHDR(mark));

	if (colon == NULL || !gd_limit_kind(start, colon - start, kind))
		return false;
	*key = cstring_to_text_with_len(colon + 1, VARSIZE_ANY_EXHDR(mark) - (colon + 1 - start));
	return true;
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
 * blocked_promoted: load the row of a queue that was promoted for a key
 * and is not claimed yet, unlocked; false if there is none.
 */
static bool
blocked_promoted(GdTable *instances, const text *blocked_on, const text *queue,
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
	bool		found = blocked_promoted(instances, blocked_on, queue, next);

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
blocked_count(GdRow *row, GdLimitKind kind)
{
	gd_stats_count(gd_instance_text(row, INST_QUEUE),
				   kind == GD_GATE ? GD_COUNT_KEY_REFUSED : GD_COUNT_RATE_REFUSED, 1);
}

/*
 * gd_blocked_mark: a locked candidate waits for a key from now on; refill_at
 * is when there will be tokens for it, or DT_NOEND.
 *
 * The key is looked at once more at commit, since what it waits for may have
 * come by then from one who has not seen this mark.  A turn at another key
 * that the row had been given passes on.
 */
void
gd_blocked_mark(GdRow *row, text *blocked_on, TimestampTz refill_at, TimestampTz now)
{
	text	   *turn = gd_instance_text(row, INST_PROMOTED_ON);
	GdLimitKind kind;
	text	   *key;

	if (turn == NULL)
		turn = gd_instance_text(row, INST_BLOCKED_ON);
	if (turn && !gd_text_equal(turn, blocked_on) && blocked_parse(turn, &kind, &key))
		gd_effect_promote(gd_limit_kinds[kind], key);
	if (blocked_parse(blocked_on, &kind, &key))
	{
		gd_effect_promote(gd_limit_kinds[kind], key);
		blocked_count(row, kind);
	}

	gd_row_set(row, INST_BLOCKED_ON, PointerGetDatum(blocked_on));
	gd_row_set_null(row, INST_PROMOTED_ON);
	if (refill_at == DT_NOEND)
		gd_row_set_null(row, INST_REFILL_AT);
	else
	{
		gd_row_set(row, INST_REFILL_AT, TimestampTzGetDatum(refill_at));
		gd_due_at(refill_at);
	}
	gd_instance_write(row, now);
}

/*
 * blocked_promote_row: the locked blocked row is a candidate again.
 */
static void
blocked_promote_row(GdRow *row, const text *mark, TimestampTz now)
{
	gd_row_set_null(row, INST_BLOCKED_ON);
	gd_row_set_null(row, INST_REFILL_AT);
	gd_row_set(row, INST_PROMOTED_ON, PointerGetDatum(mark));
	gd_instance_write(row, now);
}

/*
 * blocked_next_queue: the first queue after `after` (NULL: the first) that has
 * rows blocked on a key, and its first row; NULL if there is none.
 */
static text *
blocked_next_queue(GdTable *instances, GdScan *scan, const text *mark, const text *after,
				   GdRow *head)
{
	gd_scan_text(scan, 1, mark);
	if (after)
		gd_scan_key(scan, 2, BTGreaterStrategyNumber, F_TEXT_GT, PointerGetDatum(after));
	gd_scan_start(scan);
	if (!gd_scan_next(scan))
		return NULL;
	gd_row_load(head, scan->slot);
	return DatumGetTextPCopy(gd_slot_datum(instances, scan->slot, INST_QUEUE));
}

/*
 * promote_head: a key of size one is free: it is the turn of a queue's first
 * row, unless that was given already; returns how many were promoted.
 */
static int
promote_head(GdTable *instances, const text *mark, const text *queue, GdRow *head,
			 TimestampTz now)
{
	GdRow	   *turn = gd_row_create(instances);
	ItemPointerData tid = head->tid;
	bool		given = blocked_promoted(instances, mark, queue, turn) &&
	!gd_instance_before(head, turn);

	gd_row_free(turn);
	if (given || gd_row_lock(head, &tid, false) != GD_LOCKED)
		return 0;
	blocked_promote_row(head, mark, now);
	return 1;
}

static double
promote_cost(GdTable *instances, TupleTableSlot *slot, GdLimitKind kind)
{
	return kind == GD_GATE ? 1 : DatumGetFloat8(gd_slot_datum(instances, slot, INST_WEIGHT));
}

/*
 * promote_refill: the first row of a queue that still waits lacks so many
 * tokens: let it know when they will be there.
 */
static void
promote_refill(GdRow *head, const GdPolicy *policy, double lacks, TimestampTz now)
{
	/* Who frees a slot that is counted elsewhere tells nobody here. */
	TimestampTz at = now + (policy->kind == GD_RATE ? gd_refill_time(policy, lacks) :
							gd_poll_interval * INT64CONST(1000));
	ItemPointerData tid = head->tid;

	if (!GD_IS_NULL(head, INST_REFILL_AT))
	{
		TimestampTz known = DatumGetTimestampTz(GD_VALUE(head, INST_REFILL_AT));

		if (known > now && known <= at + REFILL_SLACK)
			return;
	}
	if (gd_row_lock(head, &tid, false) != GD_LOCKED)
		return;
	gd_row_set(head, INST_REFILL_AT, TimestampTzGetDatum(at));
	gd_due_at(at);
	gd_instance_write(head, now);
}

/*
 * promote_covered: promote a queue's first rows, as many as what is available
 * covers beside those that were promoted before; returns how many.
 */
static int
promote_covered(GdTable *instances, const text *mark, const text *queue,
				const GdPolicy *policy, double available, TimestampTz now)
{
	GdRow	   *row = gd_row_create(instances);
	int			promoted = 0;
	GdScan		scan;

	gd_scan_begin(&scan, instances, GD_INSTANCES_PROMOTED);
	gd_scan_text(&scan, 1, mark);
	gd_scan_text(&scan, 2, queue);
	gd_scan_start(&scan);
	while (available > 0 && gd_scan_next(&scan))
		available -= promote_cost(instances, scan.slot, policy->kind);
	gd_scan_end(&scan);

	gd_scan_begin(&scan, instances, GD_INSTANCES_BLOCKED);
	gd_scan_text(&scan, 1, mark);
	gd_scan_text(&scan, 2, queue);
	gd_scan_start(&scan);
	while (gd_scan_next(&scan))
	{
		double		cost = promote_cost(instances, scan.slot, policy->kind);

		if (cost > available || promoted == PROMOTE_MAX)
		{
			gd_row_load(row, scan.slot);
			if (policy->kind == GD_RATE || gd_limiter()->remote)
				promote_refill(row, policy, Max(cost - available, 0), now);
			break;
		}
		if (gd_row_lock(row, &scan.slot->tts_tid, false) != GD_LOCKED)
			continue;
		blocked_promote_row(row, mark, now);
		available -= cost;
		promoted++;
	}
	gd_scan_end(&scan);
	gd_row_free(row);
	return promoted;
}

/*
 * blocked_promote_key: promote, in each queue that is not paused, those rows
 * blocked on a key whose turn it is; returns how many.  A head that another
 * transaction has locked is left to a later recheck.
 */
static int
blocked_promote_key(GdTable *instances, const text *mark, TimestampTz now)
{
	GdRow	   *head = gd_row_create(instances);
	text	   *queue = NULL;
	const GdPolicy *policy = NULL;
	int			promoted = 0;
	double		available = 0;
	bool		busy;
	GdPolicies	policies;
	GdLimitKind kind;
	text	   *key;
	GdScan		scan;

	if (!blocked_parse(mark, &kind, &key))
		return 0;
	gd_policies_begin(&policies);
	gd_scan_begin(&scan, instances, GD_INSTANCES_BLOCKED);
	for (;;)
	{
		bool		first = queue == NULL;

		queue = blocked_next_queue(instances, &scan, mark, queue, head);
		if (queue == NULL)
			break;
		if (first)
		{
			/* Nobody waits for most keys, so this is asked for here. */
			policy = gd_policy_find(&policies, kind, key);
			if (policy == NULL ?
				kind == GD_RATE || gd_blocked_key_held(instances, key) :
				!gd_limiter()->look(policy, key, now, &available, &busy))
				break;
		}
		if (gd_queue_paused(queue, now))
			continue;
		if (policy == NULL)
			promoted += promote_head(instances, mark, queue, head, now);
		else if (kind == GD_RATE || available >= 1 || gd_limiter()->remote)
			promoted += promote_covered(instances, mark, queue, policy, available, now);
	}
	gd_scan_end(&scan);
	gd_policies_end(&policies);
	gd_row_free(head);
	gd_table_flush();			/* the key may be looked at again */
	return promoted;
}

/*
 * gd_blocked_promote: a key may have become free in this transaction.
 */
void
gd_blocked_promote(const char *blocked_on, TimestampTz now)
{
	GdTable    *instances = gd_table_open(GD_INSTANCES);

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
	return next;
}

/*
 * gd_blocked_of_policy: a policy has changed: look, at commit, at the keys
 * under it that rows are blocked on, at most so many.
 */
void
gd_blocked_of_policy(const char *kind, const text *name, int max_keys)
{
	GdTable    *instances = gd_table_open_read(GD_INSTANCES);
	text	   *own = gd_blocked_on(kind, name);
	text	   *prefix = cstring_to_text(psprintf("%s:", text_to_cstring(own)));
	int			len = VARSIZE_ANY_EXHDR(prefix);
	text	   *mark = prefix;
	GdLimitKind which;
	text	   *key;

	gd_effect_promote(kind, name);
	if (gd_limiter()->remote)
		gd_due_at(gd_now());	/* only the maintainer can tell what is free */
	for (int n = 0; n < max_keys; n++)
	{
		CHECK_FOR_INTERRUPTS();
		mark = blocked_next_key(instances, mark);
		if (mark == NULL || VARSIZE_ANY_EXHDR(mark) < len ||
			memcmp(VARDATA_ANY(mark), VARDATA_ANY(prefix), len) != 0)
			break;
		if (blocked_parse(mark, &which, &key))
			gd_effect_promote(kind, key);
	}
	gd_table_close(instances);
}

/*
 * gd_blocked_resume: a queue hands rows out again: look, at commit, at the
 * keys that its rows are blocked on, at most so many.
 */
void
gd_blocked_resume(const text *queue, int max_keys)
{
	GdTable    *instances = gd_table_open_read(GD_INSTANCES);
	text	   *mark = cstring_to_text("");
	GdLimitKind kind;
	text	   *key;

	if (gd_limiter()->remote)
		gd_due_at(gd_now());
	for (int n = 0; n < max_keys; n++)
	{
		CHECK_FOR_INTERRUPTS();
		mark = blocked_next_key(instances, mark);
		if (mark == NULL)
			break;
		if (gd_blocked_head(instances, mark, queue, NULL) && blocked_parse(mark, &kind, &key))
			gd_effect_promote(gd_limit_kinds[kind], key);
	}
	gd_table_close(instances);
}

/*
 * blocked_is_head: is the row in hand the first of its queue that is blocked
 * on its key?
 */
static bool
blocked_is_head(GdTable *instances, GdRow *row)
{
	GdRow	   *head = gd_row_create(instances);
	bool		is_head = gd_blocked_head(instances, gd_instance_text(row, INST_BLOCKED_ON),
										  gd_instance_text(row, INST_QUEUE), head) &&
	gd_instance_id(head) == gd_instance_id(row);

	gd_row_free(head);
	return is_head;
}

/*
 * blocked_refill: promote what waits for tokens that should be there by
 * now, of at most so many rows that know it; returns how many were dealt with.
 */
static int
blocked_refill(GdTable *instances, int max_rows, TimestampTz now)
{
	GdRow	   *row = gd_row_create(instances);
	int			dealt = 0;
	GdScan		scan;

	gd_scan_begin(&scan, instances, GD_INSTANCES_REFILL);
	gd_scan_key(&scan, 1, BTLessEqualStrategyNumber, F_TIMESTAMPTZ_LE, TimestampTzGetDatum(now));
	gd_scan_start(&scan);
	while (dealt < max_rows && gd_scan_next(&scan))
	{
		gd_row_load(row, scan.slot);
		if (gd_slot_hold(scan.slot) != GD_HOLD_NONE)
			continue;
		if (!GD_IS_NULL(row, INST_BLOCKED_ON) && blocked_is_head(instances, row))
			blocked_promote_key(instances, gd_instance_text(row, INST_BLOCKED_ON), now);
		else if (gd_row_lock(row, &scan.slot->tts_tid, false) == GD_LOCKED)
		{
			/* Another has come before it, and waits for its own instant. */
			gd_row_set_null(row, INST_REFILL_AT);
			gd_instance_write(row, now);
		}
		dealt++;
	}
	gd_scan_end(&scan);
	gd_row_free(row);
	gd_table_flush();
	return dealt;
}

/*
 * gd_blocked_recheck: look at some of the keys that rows are blocked on, going
 * on where this session stopped last, and promote where it is their turn.
 * Returns how many rows were promoted.
 */
int
gd_blocked_recheck(GdTable *instances, int max_keys, TimestampTz now)
{
	static char last[GD_NAME_MAX + 8] = "";
	char		first[sizeof(last)];
	bool		wrapped = false;
	int			promoted = 0;
	int			looked = 0;

	strcpy(first, last);
	for (int n = 0; n < max_keys; n++)
	{
		text	   *mark = blocked_next_key(instances, cstring_to_text(last));

		if (mark == NULL)
		{
			/* Round to the beginning, once. */
			if (wrapped || last[0] == '\0')
				break;
			wrapped = true;
			last[0] = '\0';
			continue;
		}
		looked++;
		text_to_cstring_buffer(mark, last, sizeof(last));
		promoted += blocked_promote_key(instances, mark, now);
		if (wrapped && strcmp(last, first) >= 0)
			break;
	}
	if (looked > 0)
		promoted += blocked_refill(instances, max_keys, now);
	return promoted;
}
