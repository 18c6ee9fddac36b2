/*
 * cursors.c
 *		Where the rows of a worn queue begin.
 *
 * Rows leave a queue at its head, and their index entries stay there until
 * vacuum takes them, which an old snapshot forbids.  After some ten thousand
 * steps the first live row is behind hundreds of pages of dead entries, and
 * every pick from the head would walk them all.
 *
 * So when a walk from the head has read many pages before its first row, the
 * queue is watched: for each priority that is worn so there is a place before
 * which no row can be claimed.  Picks start there, and move it on to the first
 * row that they did not claim.  Whoever makes a row runnable moves it back at
 * commit, and whoever claimed one at rollback.
 *
 * A walk begins with what was told of the queue by then (seq), and only after
 * that takes its snapshot.  What is told while it walks is in a ring; a place is
 * never moved on past it, and not at all if more was told than the ring holds.
 * So a row is not missed, whichever comes first.
 *
 * What nobody tells of, since it was prepared or written by SQL, is found by a
 * walk from the head now and then, the more seldom the longer it takes.  Only
 * when a row is found is at stake, never whether.
 *
 * Without shared memory each session has this for itself, and hears of its own
 * transactions only; then its walks from the head are frequent, and one that
 * starts elsewhere and does not fill its batch is repeated from the head.
 *
 * Lock: each set of queues has a spinlock, held for straight-line code.
 */
#include "postgres.h"

#include "access/xact.h"
#include "port/atomics.h"
#include "storage/spin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "shmem/cursors.h"
#include "shmem/shmem.h"
#include "subxact.h"

/* Queues that are watched: as many sets of a few each. */
#define SETS 64
#define WAYS 4

/* Worn priorities of a queue that are remembered. */
#define STARTS 8

/* What is told of a queue while a walk of it goes on. */
#define RING 64

/* Between two walks from the head, in microseconds, and times their length. */
#define HEAD_REST INT64CONST(5000000)
#define HEAD_REST_ALONE INT64CONST(100000)
#define HEAD_SHARE 200

/* So long others leave it to who has begun one. */
#define HEAD_BUSY INT64CONST(60000000)

typedef struct Start
{
	bool		used;
	GdPlace		place;			/* no row before it can be claimed */
	TimestampTz head_at;		/* of the next walk from the head */
} Start;

typedef struct Watch
{
	GdWakeKey	key;			/* 0: free */
	uint64		seq;			/* of what was told last */
	uint64		used;			/* the set's clock when it was used last */
	GdPlace		ring[RING];		/* by seq */
	Start		starts[STARTS];
} Watch;

typedef struct Set
{
	slock_t		lock;
	uint64		clock;
	Watch		ways[WAYS];
} Set;

typedef struct Cursors
{
	pg_atomic_uint32 watched;	/* how many queues */
	Set			sets[SETS];
} Cursors;

/* What the running transaction tells: at commit, or at rollback. */
typedef struct Note
{
	int			level;			/* transaction nesting level: first, for
								 * gd_subxact_notes */
	GdWakeKey	key;
	GdPlace		place;			/* the first of a queue and priority */
	bool		claimed;		/* at rollback */
} Note;

static Cursors *shared = NULL;

/* In TopTransactionContext; levels never fall along the array. */
static Note *notes = NULL;
static int	nnotes = 0;
static int	notes_size = 0;

/* Last entries that are looked at for one of the same kind. */
#define LOOK_BACK 8

Size
gd_cursors_size(void)
{
	return sizeof(Cursors);
}

void
gd_cursors_attach(void *start, bool first)
{
	shared = start;
	if (!first)
		return;
	memset(start, 0, sizeof(Cursors));
	pg_atomic_init_u32(&shared->watched, 0);
	for (int i = 0; i < SETS; i++)
		SpinLockInit(&shared->sets[i].lock);
}

/*
 * gd_cursors_hear_all: does this hear of other sessions' transactions?
 */
bool
gd_cursors_hear_all(void)
{
	return gd_shmem_ready();
}

static Set *
set_of(GdWakeKey key)
{
	return &shared->sets[key % SETS];
}

/*
 * watch_find: with the set's lock held.
 */
static Watch *
watch_find(Set *set, GdWakeKey key)
{
	for (int i = 0; i < WAYS; i++)
		if (set->ways[i].key == key)
		{
			set->ways[i].used = ++set->clock;
			return &set->ways[i];
		}
	return NULL;
}

/*
 * watch_new: watch a queue, in the place of the one used longest ago.  With
 * the set's lock held.
 */
static Watch *
watch_new(Set *set, GdWakeKey key)
{
	Watch	   *watch = &set->ways[0];
	uint64		seq;

	for (int i = 1; i < WAYS; i++)
		if (set->ways[i].used < watch->used)
			watch = &set->ways[i];
	if (watch->key == 0)
		pg_atomic_fetch_add_u32(&shared->watched, 1);
	/* What a walk has of an earlier watch is worth nothing. */
	seq = watch->seq + 2 * RING;
	memset(watch, 0, sizeof(Watch));
	watch->key = key;
	watch->seq = seq;
	watch->used = ++set->clock;
	return watch;
}

/*
 * watch_tell: a row of a queue can be claimed.
 */
static void
watch_tell(GdWakeKey key, const GdPlace *place)
{
	Set		   *set = set_of(key);
	Watch	   *watch;

	SpinLockAcquire(&set->lock);
	watch = watch_find(set, key);
	if (watch)
	{
		watch->ring[++watch->seq % RING] = *place;
		for (int i = 0; i < STARTS; i++)
		{
			Start	   *start = &watch->starts[i];

			if (start->used && start->place.priority == place->priority &&
				gd_place_compare(place, &start->place) < 0)
				start->place = *place;
		}
	}
	SpinLockRelease(&set->lock);
}

/*
 * gd_cursor_begin: a pick of a queue begins.  Its snapshot is taken later.
 */
void
gd_cursor_begin(const text *queue, GdCursor *cursor)
{
	Set		   *set;
	Watch	   *watch;

	cursor->key = gd_wake_queue(queue);
	cursor->known = cursor->own = false;
	cursor->seq = 0;
	if (shared == NULL || pg_atomic_read_u32(&shared->watched) == 0)
		return;
	set = set_of(cursor->key);
	SpinLockAcquire(&set->lock);
	watch = watch_find(set, cursor->key);
	if (watch)
	{
		cursor->known = true;
		cursor->seq = watch->seq;
	}
	SpinLockRelease(&set->lock);
}

/*
 * cursor_own: start no later than at a row that this transaction has made
 * runnable.
 */
static void
cursor_own(GdCursor *cursor, GdPlace *place)
{
	cursor->own = false;
	for (int i = 0; i < nnotes; i++)
		if (!notes[i].claimed && notes[i].key == cursor->key &&
			notes[i].place.priority == place->priority &&
			gd_place_compare(&notes[i].place, place) < 0)
		{
			*place = notes[i].place;
			cursor->own = true;
		}
}

/*
 * gd_cursor_next: the next worn priority from one on, and the place to start
 * at; false if there is none.  A place at the beginning of time asks for a
 * walk from the head.
 *
 * The snapshot of the walk is to be taken after this.
 */
bool
gd_cursor_next(GdCursor *cursor, int priority, TimestampTz now, GdPlace *place)
{
	Set		   *set;
	Start	   *next = NULL;
	Watch	   *watch;

	if (!cursor->known)
		return false;
	set = set_of(cursor->key);
	SpinLockAcquire(&set->lock);
	watch = watch_find(set, cursor->key);
	for (int i = 0; watch && i < STARTS; i++)
	{
		Start	   *start = &watch->starts[i];

		if (start->used && start->place.priority >= priority &&
			(next == NULL || start->place.priority < next->place.priority))
			next = start;
	}
	if (next)
	{
		*place = next->place;
		cursor->seq = watch->seq;
		if (now >= next->head_at || next->head_at > now + 2 * HEAD_BUSY)
		{
			next->head_at = now + HEAD_BUSY;
			place->eligible_at = DT_NOBEGIN;
			place->id = 0;
		}
	}
	SpinLockRelease(&set->lock);
	if (next)
		cursor_own(cursor, place);
	return next != NULL;
}

/*
 * gd_cursor_walked: a walk of one priority has found that no row before a place
 * can be claimed by others.  from_head: it was from the head, and took so long
 * (microseconds); worn: it was long.
 */
void
gd_cursor_walked(const GdCursor *cursor, const GdPlace *place, bool from_head, bool worn,
				 int64 took, TimestampTz now)
{
	Set		   *set;
	GdPlace		target = *place;
	Start	   *start = NULL;
	Start	   *free = NULL;
	Watch	   *watch;

	if (!worn && !cursor->known)
		return;
	/* Without shared memory this process has its own. */
	if (shared == NULL)
		gd_cursors_attach(MemoryContextAlloc(TopMemoryContext, sizeof(Cursors)), true);
	set = set_of(cursor->key);
	SpinLockAcquire(&set->lock);
	watch = watch_find(set, cursor->key);
	if (watch == NULL && worn)
		(void) watch_new(set, cursor->key); /* the next such walk is told */
	for (int i = 0; watch && i < STARTS; i++)
	{
		if (!watch->starts[i].used)
			free = &watch->starts[i];
		else if (watch->starts[i].place.priority == place->priority)
			start = &watch->starts[i];
	}
	if (watch && cursor->known && watch->seq >= cursor->seq &&
		watch->seq - cursor->seq <= RING)
	{
		for (uint64 seq = cursor->seq + 1; seq <= watch->seq; seq++)
		{
			const GdPlace *told = &watch->ring[seq % RING];

			if (told->priority == target.priority && gd_place_compare(told, &target) < 0)
				target = *told;
		}
		if (from_head && worn && start == NULL && free)
		{
			start = free;
			start->used = true;
			start->place = target;
		}
		if (start && (from_head ? worn : gd_place_compare(&start->place, &target) < 0) &&
			!cursor->own)
			start->place = target;
	}
	if (start && from_head)
	{
		/* Not worn any more: it was vacuumed. */
		start->used = worn;
		start->head_at = now + Max(gd_cursors_hear_all() ? HEAD_REST : HEAD_REST_ALONE,
								   took * HEAD_SHARE);
	}
	SpinLockRelease(&set->lock);
}

/*
 * note: a row is to be told of, at commit or at rollback.
 */
static void
note(GdWakeKey key, const GdPlace *place, bool claimed)
{
	int			level = GetCurrentTransactionNestLevel();

	for (int i = nnotes - 1; i >= 0 && i >= nnotes - LOOK_BACK; i--)
		if (notes[i].key == key && notes[i].level == level && notes[i].claimed == claimed &&
			notes[i].place.priority == place->priority)
		{
			if (gd_place_compare(place, &notes[i].place) < 0)
				notes[i].place = *place;
			return;
		}
	if (nnotes == notes_size)
	{
		int			size = Max(2 * notes_size, 16);

		if (notes == NULL)
			notes = MemoryContextAlloc(TopTransactionContext, sizeof(Note) * size);
		else
			notes = repalloc_huge(notes, sizeof(Note) * size);
		notes_size = size;
	}
	notes[nnotes].key = key;
	notes[nnotes].place = *place;
	notes[nnotes].claimed = claimed;
	notes[nnotes].level = level;
	nnotes++;
}

/*
 * gd_cursor_runnable: this transaction has made a row runnable.
 */
void
gd_cursor_runnable(const text *queue, const GdPlace *place)
{
	note(gd_wake_queue(queue), place, false);
}

/*
 * gd_cursor_claimed: this transaction has claimed a row, or marked it.
 */
void
gd_cursor_claimed(const GdCursor *cursor, const GdPlace *place)
{
	if (cursor->known)
		note(cursor->key, place, true);
}

static void
notes_forget(void)
{
	notes = NULL;				/* its memory goes with the transaction */
	nnotes = notes_size = 0;
}

/*
 * notes_tell: what is told at a commit, or at a rollback, from a place of the
 * array on.
 */
static void
notes_tell(int from, bool claimed)
{
	if (shared == NULL || pg_atomic_read_u32(&shared->watched) == 0)
		return;
	for (int i = from; i < nnotes; i++)
		if (notes[i].claimed == claimed)
			watch_tell(notes[i].key, &notes[i].place);
}

static void
cursors_xact_callback(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;
	if (nnotes > 0)
	{
		/* What we wrote is to be seen before we look who is watched. */
		pg_memory_barrier();
		if (event != XACT_EVENT_PREPARE)
			notes_tell(0, event == XACT_EVENT_ABORT);
	}
	notes_forget();
}

static void
cursors_subxact_callback(SubXactEvent event, SubTransactionId mine, SubTransactionId parent,
						 void *arg)
{
	int			kept = gd_subxact_notes(event, notes, nnotes, sizeof(Note));

	notes_tell(kept, true);
	nnotes = kept;
}

void
gd_cursors_init(void)
{
	RegisterXactCallback(cursors_xact_callback, NULL);
	RegisterSubXactCallback(cursors_subxact_callback, NULL);
}
