/*
 * dispatched.c
 *		What the running transaction does to dispatched claims (D-25).
 *
 * A claim that a transaction has taken out of a buffer is its own at once,
 * and spent if the transaction, or the subtransaction that took it, rolls
 * back: its token may have been seen, so nobody else gets it.  That a claim has
 * ended counts at commit.
 *
 * A prepared transaction's claims count as taken; whatever becomes of it, the
 * scheduler finds out from the rows.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "engine/dispatched.h"
#include "shmem/databases.h"
#include "shmem/dispatch.h"
#include "shmem/shmem.h"
#include "subxact.h"
#include "token.h"

PG_FUNCTION_INFO_V1(gd_dispatched);

typedef enum NoteKind
{
	NOTE_TAKEN,					/* out of a buffer */
	NOTE_REGISTERED,			/* claimed, and told of */
	NOTE_ENDED
} NoteKind;

typedef struct Note
{
	int			level;			/* transaction nesting level: first, for
								 * gd_subxact_notes */
	pg_uuid_t	token;
	NoteKind	kind;
} Note;

/* In TopMemoryContext; levels never fall along the array. */
static Note *notes = NULL;
static int	nnotes = 0;
static int	notes_size = 0;

static bool settings_changed = false;

/*
 * note_room: so that noting cannot fail when the thing is done.
 */
static void
note_room(void)
{
	int			size = Max(2 * notes_size, 64);

	if (nnotes < notes_size)
		return;
	if (notes == NULL)
		notes = MemoryContextAlloc(TopMemoryContext, sizeof(Note) * size);
	else
		notes = repalloc_huge(notes, sizeof(Note) * size);
	notes_size = size;
}

static void
note_add(const pg_uuid_t *token, NoteKind kind)
{
	notes[nnotes].token = *token;
	notes[nnotes].kind = kind;
	notes[nnotes].level = GetCurrentTransactionNestLevel();
	nnotes++;
}

/*
 * notes_undo: what was done from a place of the array on did not happen.
 */
static void
notes_undo(int from)
{
	for (int i = from; i < nnotes; i++)
	{
		if (notes[i].kind == NOTE_TAKEN)
			gd_dispatch_spend(&notes[i].token);
		else if (notes[i].kind == NOTE_REGISTERED)
			gd_dispatch_remove(&notes[i].token);
	}
	nnotes = from;
}

static void
dispatched_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			for (int i = 0; i < nnotes; i++)
				if (notes[i].kind == NOTE_ENDED)
					gd_dispatch_remove(&notes[i].token);
			nnotes = 0;
			if (settings_changed && gd_shmem_ready())
				(void) gd_database_request(MyDatabaseId, false);
			settings_changed = false;
			break;
		case XACT_EVENT_ABORT:
			notes_undo(0);
			settings_changed = false;
			break;
		case XACT_EVENT_PREPARE:
			nnotes = 0;
			settings_changed = false;
			break;
		default:
			break;
	}
}

static void
dispatched_subxact_callback(SubXactEvent event, SubTransactionId mine,
							SubTransactionId parent, void *arg)
{
	notes_undo(gd_subxact_notes(event, notes, nnotes, sizeof(Note)));
}

void
gd_dispatched_init(void)
{
	RegisterXactCallback(dispatched_xact_callback, NULL);
	RegisterSubXactCallback(dispatched_subxact_callback, NULL);
}

/*
 * gd_dispatched_take: take the first claim of a queue's buffer; false if there
 * is none.
 */
bool
gd_dispatched_take(GdWakeKey key, const text *worker, TimestampTz now, GdTaken *taken)
{
	note_room();
	if (!gd_dispatch_take(key, worker, now, taken))
		return false;
	note_add(&taken->token, NOTE_TAKEN);
	return true;
}

/*
 * gd_dispatched_recall: keep a claim from being taken, so that this
 * transaction can end it; false if a worker has it, or it is not known.
 */
bool
gd_dispatched_recall(const pg_uuid_t *token, TimestampTz now)
{
	note_room();
	if (!gd_dispatch_recall(token, now))
		return false;
	note_add(token, NOTE_TAKEN);
	return true;
}

/*
 * gd_dispatched_register: this transaction has claimed a row of a fed queue by
 * itself.
 */
void
gd_dispatched_register(GdWakeKey key, const pg_uuid_t *token, const text *worker,
					   TimestampTz now)
{
	if (!gd_feed_is_open(key))
		return;
	note_room();
	if (gd_dispatch_register(key, token, worker, now))
		note_add(token, NOTE_REGISTERED);
}

/*
 * gd_dispatched_ended: a claim, dispatched or not, has ended.
 */
void
gd_dispatched_ended(const pg_uuid_t *token)
{
	if (gd_dispatch_find(token, NULL) == GD_DISPATCH_NONE)
		return;
	note_room();
	note_add(token, NOTE_ENDED);
}

/*
 * gd_dispatched_settings: what a queue says of how it is fed changes with
 * this transaction.
 */
void
gd_dispatched_settings(void)
{
	settings_changed = true;
}

/*
 * dispatched() -> setof (id, queue, worker, pid, since)
 *
 * worker and pid are NULL while nobody has taken the claim.
 */
Datum
gd_dispatched(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *out = (ReturnSetInfo *) fcinfo->resultinfo;
	GdDispatched *all;
	int			n;

	InitMaterializedSRF(fcinfo, 0);
	n = gd_dispatch_read(&all);
	for (int i = 0; i < n; i++)
	{
		const GdDispatched *claim = &all[i];
		Datum		values[5];
		bool		nulls[5] = {false};
		int64		id;

		if (!gd_token_id(&claim->token, &id))
			continue;
		values[0] = Int64GetDatum(id);
		values[1] = PointerGetDatum(cstring_to_text_with_len(claim->queue, claim->queue_len));
		nulls[2] = nulls[3] = claim->state != GD_DISPATCH_TAKEN || claim->holder.pid == 0;
		values[2] = nulls[2] ? (Datum) 0 :
			PointerGetDatum(cstring_to_text_with_len(claim->holder.worker, claim->holder.worker_len));
		values[3] = Int32GetDatum(claim->holder.pid);
		values[4] = TimestampTzGetDatum(claim->holder.since);
		tuplestore_putvalues(out->setResult, out->setDesc, values, nulls);
	}
	return (Datum) 0;
}
