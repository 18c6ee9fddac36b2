/*
 * executor_news.c
 *		What a transaction tells the executors at its commit: steps that it has
 *		made runnable, and claims whose cancellation it asks for.
 *
 * After a commit nothing may be allocated, waited for or raised, so what will
 * be told is noted before.  PREPARE TRANSACTION tells nobody: the scheduler's
 * looks find the work.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "shmem/databases.h"
#include "shmem/executors.h"
#include "shmem/shmem.h"
#include "subxact.h"

/* Crews and cancellations that one transaction tells of. */
#define PENDING_MAX 256

/* What the running transaction tells at commit; in TopTransactionContext. */
typedef struct PendingCrew
{
	Oid			owner;
	uint32		hash;
	int			len;
	char		queue[GD_NAME_MAX];
	int			count;			/* of steps that are due */
	TimestampTz due;			/* of the first of the future, or DT_NOEND */
} PendingCrew;

/* A claim whose step is ended at commit. */
typedef struct PendingCancel
{
	int			level;			/* transaction nesting level: first, for
								 * gd_subxact_notes */
	pg_uuid_t	token;
} PendingCancel;

static PendingCrew *pending = NULL;
static int	npending = 0;
static int	pending_size = 0;
static PendingCancel *cancels = NULL;
static int	ncancels = 0;
static int	cancels_size = 0;
static bool look = false;

static void
executors_forget_pending(void)
{
	pending = NULL;
	cancels = NULL;
	npending = pending_size = ncancels = cancels_size = 0;
	look = false;
}

/*
 * executors_xact_callback: tell what the transaction has brought about.  Steps
 * that a subtransaction had made runnable before it rolled back cost a look for
 * nothing; a step that it had asked to be cancelled goes on.
 */
static void
executors_xact_callback(XactEvent event, void *arg)
{
	bool		tell = look;

	if (event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		executors_forget_pending();
	if (event != XACT_EVENT_COMMIT)
		return;
	if (look)
		gd_executors_want_look();
	for (int i = 0; i < npending; i++)
		if (pending[i].count > 0 || pending[i].due != DT_NOEND)
			tell |= gd_executors_tell(pending[i].owner, pending[i].hash, pending[i].queue,
									  pending[i].len, pending[i].count, pending[i].due);
	for (int i = 0; i < ncancels; i++)
		gd_executors_cancel_now(&cancels[i].token);
	executors_forget_pending();
	if (tell)
		gd_database_tell(GD_SCHEDULER);
}

static void
executors_subxact_callback(SubXactEvent event, SubTransactionId mine, SubTransactionId parent,
						   void *arg)
{
	ncancels = gd_subxact_notes(event, cancels, ncancels, sizeof(PendingCancel));
}

void
gd_executors_init(void)
{
	RegisterXactCallback(executors_xact_callback, NULL);
	RegisterSubXactCallback(executors_subxact_callback, NULL);
}

/*
 * pending_find: what the running transaction tells of a crew, or NULL.
 */
static PendingCrew *
pending_find(Oid owner, const text *queue, uint32 hash, int len)
{
	for (int i = npending - 1; i >= 0; i--)
		if (pending[i].owner == owner && pending[i].hash == hash && pending[i].len == len &&
			memcmp(pending[i].queue, VARDATA_ANY(queue), len) == 0)
			return &pending[i];
	return NULL;
}

/*
 * gd_executors_owed: does the running transaction tell of any steps?
 */
bool
gd_executors_owed(void)
{
	return npending > 0;
}

/*
 * gd_executors_claimed: the running transaction has itself claimed a step that
 * it had made runnable.
 */
void
gd_executors_claimed(Oid owner, const text *queue)
{
	int			len = Min(VARSIZE_ANY_EXHDR(queue), GD_NAME_MAX);
	uint32		hash = hash_bytes((const unsigned char *) VARDATA_ANY(queue), len);
	PendingCrew *crew = pending_find(owner, queue, hash, len);

	if (crew && crew->count > 0)
		crew->count--;
}

/*
 * gd_executors_runnable: the running transaction makes a step of an owner's
 * machine runnable.
 */
void
gd_executors_runnable(Oid owner, const text *queue, TimestampTz eligible_at, TimestampTz now)
{
	int			len = Min(VARSIZE_ANY_EXHDR(queue), GD_NAME_MAX);
	uint32		hash = hash_bytes((const unsigned char *) VARDATA_ANY(queue), len);
	PendingCrew *crew = pending_find(owner, queue, hash, len);

	if (!gd_shmem_ready() || !OidIsValid(owner))
		return;
	if (crew == NULL && npending == PENDING_MAX)
	{
		look = true;
		return;
	}
	if (crew == NULL)
	{
		if (pending == NULL)
		{
			pending_size = 4;
			pending = MemoryContextAlloc(TopTransactionContext, sizeof(PendingCrew) * pending_size);
		}
		else if (npending == pending_size)
		{
			pending = repalloc(pending, sizeof(PendingCrew) * pending_size * 2);
			pending_size *= 2;
		}
		crew = &pending[npending];
		crew->owner = owner;
		crew->hash = hash;
		crew->len = len;
		memcpy(crew->queue, VARDATA_ANY(queue), len);
		crew->count = 0;
		crew->due = DT_NOEND;
		npending++;
	}
	if (eligible_at <= now)
		crew->count++;
	else
		crew->due = Min(crew->due, eligible_at);
}

/*
 * gd_executors_cancel: the cancellation of a claimed step is asked for by the
 * running transaction.
 */
void
gd_executors_cancel(const pg_uuid_t *token)
{
	if (!gd_shmem_ready())
		return;
	if (cancels == NULL)
	{
		cancels_size = 4;
		cancels = MemoryContextAlloc(TopTransactionContext, sizeof(PendingCancel) * cancels_size);
	}
	else if (ncancels == cancels_size)
	{
		cancels = repalloc_huge(cancels, sizeof(PendingCancel) * cancels_size * 2);
		cancels_size *= 2;
	}
	cancels[ncancels].level = GetCurrentTransactionNestLevel();
	cancels[ncancels].token = *token;
	ncancels++;
}

/*
 * gd_executors_look: the running transaction changes what can be run in a way
 * that only a look at the tables tells.
 */
void
gd_executors_look(void)
{
	look = gd_shmem_ready();
}
