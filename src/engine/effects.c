/*
 * effects.c
 *		What a transaction does to rows other than those it was called for.
 *
 * A child's end counts into its parent's barrier; a freed key wakes who waits
 * for it.  Those rows are shared by many transactions, so they are touched
 * last (D-26): effects are queued, and applied just before commit or prepare
 * in one global order, parents by id descending, then slots of gates and keys
 * in byte order.  A long transaction after complete() thus holds no shared row, and two
 * transactions with crossed parents cannot deadlock.
 *
 * A pick in the same transaction applies what is queued first, since it must
 * see it.  If that happened in a subtransaction that is rolled back, the
 * effects of the levels above it are due again: each effect knows the level
 * that queued it and the level that applied it.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "clock.h"
#include "engine/blocked.h"
#include "engine/children.h"
#include "engine/effects.h"
#include "engine/limits.h"
#include "guc.h"

typedef enum GdEffectKind
{
	EFFECT_JOIN,
	EFFECT_CREDIT,
	EFFECT_PROMOTE
} GdEffectKind;

typedef struct GdEffect
{
	GdEffectKind kind;
	int64		parent_id;		/* join */
	int			barrier;		/* join */
	int			count;			/* join: children that ended; credit: slots */
	char	   *blocked_on;		/* promote; credit: the gate's key */
	int			shard;			/* credit */
	int			queued_level;	/* transaction nesting level */
	int			applied_level;	/* likewise; 0 while it is due */
} GdEffect;

/* In TopTransactionContext; NIL between transactions. */
static List *effects = NIL;

static GdEffect *
effect_add(GdEffectKind kind)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	GdEffect   *effect = palloc0(sizeof(GdEffect));

	effect->kind = kind;
	effect->queued_level = GetCurrentTransactionNestLevel();
	effects = lappend(effects, effect);
	MemoryContextSwitchTo(old);
	return effect;
}

/*
 * gd_effect_join: one more child of a barrier has ended.
 */
void
gd_effect_join(int64 parent_id, int barrier)
{
	GdEffect   *effect = effects == NIL ? NULL : llast(effects);

	if (effect && effect->kind == EFFECT_JOIN && effect->applied_level == 0 &&
		effect->parent_id == parent_id && effect->barrier == barrier &&
		effect->queued_level == GetCurrentTransactionNestLevel())
		effect->count++;
	else
	{
		effect = effect_add(EFFECT_JOIN);
		effect->parent_id = parent_id;
		effect->barrier = barrier;
		effect->count = 1;
	}
	if (!gd_defer_effects)
		gd_effects_apply();
}

/* Effects that a new one is compared with. */
#define EFFECTS_ALIKE 4

/*
 * effect_alike: one of the last effects that is for the same key (and shard)
 * and that this level has queued and nobody applied; NULL if there is none.
 */
static GdEffect *
effect_alike(GdEffectKind kind, const char *prefix, const text *key, int shard)
{
	int			level = GetCurrentTransactionNestLevel();
	int			len = strlen(prefix);

	for (int i = list_length(effects) - 1; i >= 0 && i >= list_length(effects) - EFFECTS_ALIKE; i--)
	{
		GdEffect   *effect = list_nth(effects, i);

		if (effect->kind == kind && effect->applied_level == 0 && effect->shard == shard &&
			effect->queued_level == level &&
			strncmp(effect->blocked_on, prefix, len) == 0 &&
			strlen(effect->blocked_on) == len + VARSIZE_ANY_EXHDR(key) &&
			memcmp(effect->blocked_on + len, VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key)) == 0)
			return effect;
	}
	return NULL;
}

/*
 * gd_effect_credit: a slot of a gate comes back.
 */
void
gd_effect_credit(const text *key, int shard)
{
	GdEffect   *effect = effect_alike(EFFECT_CREDIT, "", key, shard);
	MemoryContext old;

	if (effect)
	{
		effect->count++;
		return;
	}
	effect = effect_add(EFFECT_CREDIT);
	old = MemoryContextSwitchTo(TopTransactionContext);

	effect->blocked_on = text_to_cstring(key);
	effect->shard = shard;
	effect->count = 1;
	MemoryContextSwitchTo(old);
	if (!gd_defer_effects)
		gd_effects_apply();
}

/*
 * gd_effect_promote: a key may have become free.
 */
void
gd_effect_promote(const char *kind, const text *key)
{
	char		prefix[16];
	GdEffect   *effect;
	MemoryContext old;

	snprintf(prefix, sizeof(prefix), "%s:", kind);
	if (effect_alike(EFFECT_PROMOTE, prefix, key, 0))
		return;
	effect = effect_add(EFFECT_PROMOTE);
	old = MemoryContextSwitchTo(TopTransactionContext);
	effect->blocked_on = psprintf("%s:%s", kind, text_to_cstring(key));
	MemoryContextSwitchTo(old);
	if (!gd_defer_effects)
		gd_effects_apply();
}

/*
 * Joins first, parents by id descending; then slots by key and shard; then
 * keys in byte order.
 */
static int
effect_compare(const ListCell *a, const ListCell *b)
{
	const GdEffect *x = lfirst(a);
	const GdEffect *y = lfirst(b);

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->kind == EFFECT_PROMOTE)
		return strcmp(x->blocked_on, y->blocked_on);
	if (x->kind == EFFECT_CREDIT)
	{
		int			result = strcmp(x->blocked_on, y->blocked_on);

		return result != 0 ? result : (x->shard > y->shard) - (x->shard < y->shard);
	}
	if (x->parent_id != y->parent_id)
		return x->parent_id > y->parent_id ? -1 : 1;
	return (x->barrier > y->barrier) - (x->barrier < y->barrier);
}

static void
effects_apply_sorted(List *due)
{
	TimestampTz now = gd_now();
	int			level = GetCurrentTransactionNestLevel();
	int			count = 0;
	ListCell   *cell;

	foreach(cell, due)
	{
		GdEffect   *effect = lfirst(cell);
		const GdEffect *next = lnext(due, cell) ? lfirst(lnext(due, cell)) : NULL;

		effect->applied_level = level;
		count += effect->count;
		if (next && effect_compare(cell, lnext(due, cell)) == 0)
			continue;			/* the same row: once, with the sum */
		if (effect->kind == EFFECT_JOIN)
			gd_children_join(effect->parent_id, effect->barrier, count, now);
		else if (effect->kind == EFFECT_CREDIT)
			gd_limits_credit(effect->blocked_on, effect->shard, count);
		else
			gd_blocked_promote(effect->blocked_on, now);
		count = 0;
	}
}

/*
 * effect_settled: can it never be due again?  What was applied at the level
 * that queued it, or at one above, goes or stays with its queueing.
 */
static bool
effect_settled(const GdEffect *effect)
{
	return effect->applied_level != 0 && effect->applied_level <= effect->queued_level;
}

static void
effect_free(GdEffect *effect)
{
	if (effect->blocked_on)
		pfree(effect->blocked_on);
	pfree(effect);
}

/*
 * gd_effects_apply: apply what is due.
 *
 * May wait for a parent's row lock; never for a key.
 */
void
gd_effects_apply(void)
{
	MemoryContext context;
	MemoryContext old;
	List	   *due = NIL;
	ListCell   *cell;

	foreach(cell, effects)
	{
		if (((GdEffect *) lfirst(cell))->applied_level == 0)
			due = lappend(due, lfirst(cell));
	}
	if (due == NIL)
		return;

	context = AllocSetContextCreate(CurrentMemoryContext, "gen_durable effects",
									ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	list_sort(due, effect_compare);
	CommandCounterIncrement();
	PushActiveSnapshot(GetLatestSnapshot());
	effects_apply_sorted(due);
	PopActiveSnapshot();
	CommandCounterIncrement();
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	list_free(due);

	foreach(cell, effects)
	{
		if (effect_settled(lfirst(cell)))
		{
			effect_free(lfirst(cell));
			effects = foreach_delete_current(effects, cell);
		}
	}
}

static void
effects_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			gd_effects_apply();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			effects = NIL;		/* its memory goes with the transaction */
			break;
		default:
			break;
	}
}

/*
 * effects_subxact_callback: a subtransaction's effects go to its parent when
 * it commits, and when it rolls back they go, and what it applied is due
 * again.
 */
static void
effects_subxact_callback(SubXactEvent event, SubTransactionId mine,
						 SubTransactionId parent, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();
	ListCell   *cell;

	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	foreach(cell, effects)
	{
		GdEffect   *effect = lfirst(cell);

		if (event == SUBXACT_EVENT_COMMIT_SUB)
		{
			/* Others may be being applied right now, and are left alone. */
			if (effect->queued_level < level && effect->applied_level < level)
				continue;
			effect->queued_level = Min(effect->queued_level, level - 1);
			effect->applied_level = Min(effect->applied_level, level - 1);
			if (effect_settled(effect))
			{
				effects = foreach_delete_current(effects, cell);
				effect_free(effect);
			}
		}
		else if (effect->queued_level >= level)
			effects = foreach_delete_current(effects, cell);
		else if (effect->applied_level >= level)
			effect->applied_level = 0;
	}
}

void
gd_effects_init(void)
{
	RegisterXactCallback(effects_xact_callback, NULL);
	RegisterSubXactCallback(effects_subxact_callback, NULL);
}
