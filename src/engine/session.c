/*
 * session.c
 *		Claims that end with the session that made them (D-19).
 *
 * The session keeps the tokens of its claims in its own memory, and gives
 * back what is left of them when its process ends in order: the client is
 * gone, or it was terminated.  Nothing depends on that.  Where it does not
 * come to pass the claim ends with its lease, as any other.
 *
 * A claim and its end count when their transaction commits, so each is noted
 * with the level of the (sub)transaction that it happened in.
 */
#include "postgres.h"

#include "access/xact.h"
#include "storage/ipc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "engine/instance.h"
#include "engine/leave.h"
#include "engine/session.h"
#include "guc.h"
#include "subxact.h"

/* Claims that a session remembers; those beyond end with their leases. */
#define SESSION_CLAIMS_MAX 100000

/* So many may be remembered before the first look which of them are void. */
#define SESSION_TIDY_MIN 1024

typedef struct SessionClaim
{
	pg_uuid_t	token;			/* the hash key */
	bool		fresh;			/* made by the running transaction */
	bool		ended;			/* ended by the running transaction */
} SessionClaim;

/* What the running transaction did; levels never fall along the array. */
typedef struct SessionChange
{
	int			level;			/* transaction nesting level: first, for
								 * gd_subxact_notes */
	pg_uuid_t	token;
	bool		claimed;		/* else ended */
} SessionChange;

static HTAB *claims = NULL;		/* NULL until the first claim is bound */
static long tidy_at = SESSION_TIDY_MIN;
static SessionChange *changes;
static int	nchanges = 0;
static int	changes_size = 64;

static SessionClaim *
session_find(const pg_uuid_t *token)
{
	return hash_search(claims, token, HASH_FIND, NULL);
}

static void
session_forget(const pg_uuid_t *token)
{
	(void) hash_search(claims, token, HASH_REMOVE, NULL);
}

/*
 * session_undo: what was done from a place of the array on did not happen.
 */
static void
session_undo(int from)
{
	while (nchanges > from)
	{
		SessionChange *change = &changes[--nchanges];
		SessionClaim *claim = session_find(&change->token);

		if (change->claimed)
			session_forget(&change->token);
		else if (claim)
			claim->ended = false;
	}
}

/*
 * session_xact_callback: must not fail after the commit, so it only removes.
 *
 * A prepared transaction's claims belong to no session.
 */
static void
session_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			for (int i = 0; i < nchanges; i++)
			{
				SessionClaim *claim = session_find(&changes[i].token);

				if (!changes[i].claimed)
					session_forget(&changes[i].token);
				else if (claim)
					claim->fresh = false;
			}
			nchanges = 0;
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			session_undo(0);
			break;
		default:
			break;
	}
}

static void
session_subxact_callback(SubXactEvent event, SubTransactionId mine,
						 SubTransactionId parent, void *arg)
{
	session_undo(gd_subxact_notes(event, changes, nchanges, sizeof(SessionChange)));
}

static void
session_note(const pg_uuid_t *token, bool claimed)
{
	SessionChange *change;

	if (nchanges == changes_size)
	{
		changes = repalloc_huge(changes, sizeof(SessionChange) * 2 * changes_size);
		changes_size *= 2;
	}
	change = &changes[nchanges++];
	change->token = *token;
	change->claimed = claimed;
	change->level = GetCurrentTransactionNestLevel();
}

static void
session_release(GdScan *by_id, GdRow *row, TimestampTz now)
{
	HASH_SEQ_STATUS all;
	SessionClaim *claim;

	hash_seq_init(&all, claims);
	while ((claim = hash_seq_search(&all)) != NULL)
		(void) gd_leave_release(by_id, row, &claim->token, now);
}

/*
 * session_exit: give back what this session still holds.
 */
static void
session_exit(int code, Datum arg)
{
	AbortOutOfAnyTransaction();
	gd_leave(hash_get_num_entries(claims), session_release);
}

static void
session_begin(void)
{
	HASHCTL		ctl;

	if (changes == NULL)
		changes = MemoryContextAlloc(TopMemoryContext, sizeof(SessionChange) * changes_size);
	ctl.keysize = sizeof(pg_uuid_t);
	ctl.entrysize = sizeof(SessionClaim);
	ctl.hcxt = TopMemoryContext;
	claims = hash_create("gen_durable session claims", 256, &ctl,
						 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	RegisterXactCallback(session_xact_callback, NULL);
	RegisterSubXactCallback(session_subxact_callback, NULL);
	before_shmem_exit(session_exit, (Datum) 0);
}

/*
 * gd_session_claimed: a claim was made; the setting tells whether it is
 * bound to the session.
 */
void
gd_session_claimed(const pg_uuid_t *token)
{
	SessionClaim *claim;

	if (gd_claim_scope != GD_CLAIM_SESSION)
		return;
	if (claims == NULL)
		session_begin();
	if (hash_get_num_entries(claims) >= SESSION_CLAIMS_MAX)
		return;
	session_note(token, true);
	claim = hash_search(claims, token, HASH_ENTER, NULL);
	claim->fresh = true;
	claim->ended = false;
}

/*
 * gd_session_ended: a claim, of whatever session, has ended.
 */
void
gd_session_ended(const pg_uuid_t *token)
{
	SessionClaim *claim;

	if (claims == NULL)
		return;
	claim = session_find(token);
	if (claim == NULL || claim->ended)
		return;
	session_note(token, false);
	claim->ended = true;
}

/*
 * gd_session_tidy: forget the claims that others have ended, now and then.
 *
 * What the running transaction did may yet be undone, and is left alone.
 */
void
gd_session_tidy(void)
{
	HASH_SEQ_STATUS all;
	SessionClaim *claim;
	GdInstances instances;

	if (claims == NULL || hash_get_num_entries(claims) < tidy_at)
		return;
	gd_instances_open_read(&instances);
	hash_seq_init(&all, claims);
	while ((claim = hash_seq_search(&all)) != NULL)
		if (!claim->fresh && !claim->ended &&
			gd_instance_fence_look(&instances.by_id, instances.row, &claim->token) == GD_FENCE_STALE)
			session_forget(&claim->token);
	gd_instances_close(&instances);
	tidy_at = Max(SESSION_TIDY_MIN, 2 * hash_get_num_entries(claims));
}
