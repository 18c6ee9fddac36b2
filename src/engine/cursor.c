/*
 * cursor.c
 *		Where a session's picks start in a queue whose head is worn.
 *
 * Rows leave a queue at its head, and their index entries stay there until
 * vacuum: after some ten thousand steps the first live row is behind hundreds
 * of pages of dead entries, and every pick from the head would walk them all.
 *
 * So when a walk from the head has read many pages before its first row, the
 * session remembers where that was and its next picks start there.  A row
 * that becomes runnable before that place is seen when the walk is made from
 * the head again: at once when this session made it so, or rolled back, or
 * finds too few rows; else within CURSOR_MS.  Only the order among rows that
 * wait is at stake, never whether one is found.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "engine/cursor.h"
#include "names.h"

/* How long a place is trusted, in milliseconds. */
#define CURSOR_MS 100

/* Queues that a session remembers a place in. */
#define NCURSORS 8

typedef struct Cursor
{
	char		queue[GD_NAME_MAX + 1];
	GdPlace		place;
	TimestampTz until;			/* 0: not in use */
} Cursor;

static Cursor cursors[NCURSORS];
static int	next_victim = 0;

static void
cursors_forget(void)
{
	for (int i = 0; i < NCURSORS; i++)
		cursors[i].until = 0;
}

static void
cursor_xact_callback(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_ABORT)
		cursors_forget();
}

static void
cursor_subxact_callback(SubXactEvent event, SubTransactionId mine, SubTransactionId parent,
						void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		cursors_forget();
}

void
gd_cursor_init(void)
{
	RegisterXactCallback(cursor_xact_callback, NULL);
	RegisterSubXactCallback(cursor_subxact_callback, NULL);
}

static Cursor *
cursor_find(const text *queue)
{
	int			len = VARSIZE_ANY_EXHDR(queue);

	for (int i = 0; i < NCURSORS; i++)
		if (cursors[i].until != 0 && strlen(cursors[i].queue) == len &&
			memcmp(cursors[i].queue, VARDATA_ANY(queue), len) == 0)
			return &cursors[i];
	return NULL;
}

/*
 * gd_cursor_get: the place to start at; false: at the head.
 */
bool
gd_cursor_get(const text *queue, TimestampTz now, GdPlace *place)
{
	Cursor	   *cursor = cursor_find(queue);

	if (cursor && (cursor->until < now || cursor->until > now + CURSOR_MS * INT64CONST(1000)))
	{
		cursor->until = 0;
		cursor = NULL;
	}
	if (cursor == NULL)
		return false;
	*place = cursor->place;
	return true;
}

/*
 * gd_cursor_set: a walk from the head was long and ended here.
 */
void
gd_cursor_set(const text *queue, TimestampTz now, const GdPlace *place)
{
	Cursor	   *cursor = cursor_find(queue);

	if (cursor == NULL)
	{
		cursor = &cursors[next_victim];
		next_victim = (next_victim + 1) % NCURSORS;
		text_to_cstring_buffer(queue, cursor->queue, sizeof(cursor->queue));
	}
	cursor->place = *place;
	cursor->until = now + CURSOR_MS * INT64CONST(1000);
}

/*
 * gd_cursor_advance: all before this place has been taken.
 */
void
gd_cursor_advance(const text *queue, const GdPlace *place)
{
	Cursor	   *cursor = cursor_find(queue);

	if (cursor)
		cursor->place = *place;
}

/*
 * gd_cursor_runnable: this session has made a row runnable; if it sorts
 * before the place, the next pick starts at the head.
 */
void
gd_cursor_runnable(const text *queue, const GdPlace *place)
{
	Cursor	   *cursor = cursor_find(queue);

	if (cursor && gd_place_compare(place, &cursor->place) < 0)
		cursor->until = 0;
}
