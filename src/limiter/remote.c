/*
 * remote.c
 *		The engine's side of a limiter outside the database.
 *
 * What happens there cannot be rolled back, and nothing may be sent while a
 * transaction commits.  So a slot that a transaction was given is given back
 * if it rolls back, and a slot that it frees is given back once it has
 * committed: both are put into shared memory, from where the maintainer sends
 * them (GD-136).  One that is lost on the way comes back when its lease ends.
 *
 * The maintainer also renews the leases of all slots that rows and leases of
 * programs hold, whatever their own leases say: the tables are the truth.  A
 * transaction that holds a new slot so long before its commit that the lease
 * might end before the first renewal is therefore not allowed to commit, and
 * where there is no maintainer nothing is admitted.
 *
 * While the limiter cannot be reached, what it would decide waits (GD-070).
 *
 * Locks: access share on instances and slot_holders.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/due.h"
#include "engine/instance.h"
#include "guc.h"
#include "limiter/remote.h"
#include "shmem/databases.h"
#include "shmem/returns.h"
#include "shmem/shmem.h"
#include "table.h"

/* Slots that are renewed or given back by one message. */
#define MESSAGE_SLOTS 500

/* Renewals within the time of one lease. */
#define RENEWALS 3

/* A slot that the transaction was given, or frees. */
typedef struct PendingSlot
{
	bool		freed;			/* else it was given */
	int			shard;
	int			level;			/* transaction nesting level */
	TimestampTz since;
	char		key[FLEXIBLE_ARRAY_MEMBER];
} PendingSlot;

/* In TopTransactionContext; NIL between transactions. */
static List *pending = NIL;

static const GdRemote *remote = NULL;
static bool attends = false;	/* this process may ask at any time */
static TimestampTz last_renewal = 0;

static void
pending_add(bool freed, const text *key, int shard)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	int			len = VARSIZE_ANY_EXHDR(key);
	PendingSlot *slot = palloc(offsetof(PendingSlot, key) + len + 1);

	slot->freed = freed;
	slot->shard = shard;
	slot->level = GetCurrentTransactionNestLevel();
	slot->since = GetCurrentTimestamp();
	text_to_cstring_buffer(key, slot->key, len + 1);
	pending = lappend(pending, slot);
	MemoryContextSwitchTo(old);
}

/*
 * remote_ready: can this database hold slots there?
 */
static bool
remote_ready(void)
{
	return remote != NULL && gd_shmem_ready() && gd_enabled &&
		(attends || gd_database_has(GD_MAINTAINER));
}

static void
remote_admit(GdEntry *entries, int nentries, TimestampTz now)
{
	bool		answered;

	for (int i = 0; i < nentries; i++)
	{
		entries[i].verdict = entries[i].gate ? GD_LACKS_SLOT : GD_LACKS_TOKENS;
		entries[i].lacks_slot = entries[i].gate != NULL;
		entries[i].shard = GD_NO_SHARD;
	}
	answered = nentries > 0 && remote_ready() && remote->admit(entries, nentries);
	for (int i = 0; i < nentries; i++)
	{
		/* What asks for nothing needs no answer. */
		if (!entries[i].gate && !entries[i].rate)
			entries[i].verdict = GD_GRANTED;
		else if (answered && entries[i].verdict == GD_GRANTED && entries[i].gate)
			pending_add(false, entries[i].gate, entries[i].shard);
	}
}

/*
 * remote_look: nothing is known without asking, which only the maintainer
 * does.
 */
static bool
remote_look(const GdPolicy *policy, const text *key, TimestampTz now,
			double *available, bool *busy)
{
	*busy = false;
	return attends && remote_ready() && remote->look(policy, key, available);
}

static void
remote_credit(const GdSlots *slots, int nslots)
{
	for (int i = 0; i < nslots; i++)
		pending_add(true, slots[i].key, slots[i].shard);
	if (nslots > 0)
		gd_due_at(gd_now());
}

static void
remote_renew(const GdSlots *slots, int nslots, TimestampTz until)
{
	/* The maintainer renews whatever the tables say. */
}

static void
remote_sync_config(const GdPolicy *policy, const GdPolicy *was)
{
	/* The policy goes with every question. */
}

static bool
remote_reconcile(int max_keys, TimestampTz now, int64 *buckets, int64 *gates)
{
	/* What nobody renews goes by itself. */
	return true;
}

const GdLimiter gd_remote_limiter = {
	.name = "redis",
	.remote = true,
	.admit = remote_admit,
	.look = remote_look,
	.credit = remote_credit,
	.renew = remote_renew,
	.sync_config = remote_sync_config,
	.reconcile = remote_reconcile,
};

/*
 * remote_check: may the transaction commit with the slots that it was given?
 */
static void
remote_check(XactEvent event)
{
	TimestampTz now = GetCurrentTimestamp();
	ListCell   *cell;

	foreach(cell, pending)
	{
		const PendingSlot *slot = lfirst(cell);

		if (slot->freed)
			continue;
		if (event == XACT_EVENT_PRE_PREPARE)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("a transaction that claimed a slot of a gate in Redis cannot be prepared")));
		if (now - slot->since > gd_redis_lease * INT64CONST(1000) / 2)
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("a slot of gate \"%s\" was claimed too long before the commit", slot->key),
					 errdetail("It may be another's by now: until the commit nobody renews its lease."),
					 errhint("Commit a claim within half of gen_durable.redis_lease.")));
	}
}

static void
remote_xact_callback(XactEvent event, void *arg)
{
	bool		committed = event == XACT_EVENT_COMMIT;
	bool		put = false;
	ListCell   *cell;

	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			remote_check(event);
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
			foreach(cell, pending)
			{
				const PendingSlot *slot = lfirst(cell);

				if (slot->freed == committed)
					put |= gd_return_put(slot->key, slot->shard);
			}
			if (put)
				gd_database_due(gd_now());
			pending = NIL;
			break;
		case XACT_EVENT_PREPARE:
			pending = NIL;		/* its slots come back when their leases end */
			break;
		default:
			break;
	}
}

/*
 * remote_subxact_callback: what a subtransaction that rolls back was given
 * comes back; what it freed is not free.
 */
static void
remote_subxact_callback(SubXactEvent event, SubTransactionId mine,
						SubTransactionId parent, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();
	bool		put = false;
	ListCell   *cell;

	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	foreach(cell, pending)
	{
		PendingSlot *slot = lfirst(cell);

		if (slot->level < level)
			continue;
		if (event == SUBXACT_EVENT_COMMIT_SUB)
			slot->level = level - 1;
		else
		{
			if (!slot->freed)
				put |= gd_return_put(slot->key, slot->shard);
			pending = foreach_delete_current(pending, cell);
		}
	}
	if (put)
		gd_database_due(gd_now());
}

/*
 * gd_remote_init: load the module that gen_durable.limiter names.  If that is
 * not there the server does not start.  Without shared memory nothing can be
 * held there, and what is limited waits.
 */
void
gd_remote_init(void)
{
	static GdRemoteHost host;
	GdRemoteOpen open;

	if (gd_limiter_kind == GD_LIMITER_TABLE)
		return;
	if (!process_shared_preload_libraries_in_progress)
	{
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("limits in Redis admit nothing here"),
				 errdetail("The library is not preloaded."),
				 errhint("Add gen_durable to shared_preload_libraries.")));
		return;
	}
	host.url = &gd_redis_url;
	host.timeout = &gd_redis_timeout;
	host.lease = &gd_redis_lease;
	host.not_before = gd_remote_not_before;
	host.failures = gd_remote_failures;
	host.read_url = gd_redis_url_read;
	open = (GdRemoteOpen) load_external_function(GD_REDIS_MODULE, GD_REDIS_OPEN, true, NULL);
	remote = open(&host);
	RegisterXactCallback(remote_xact_callback, NULL);
	RegisterSubXactCallback(remote_subxact_callback, NULL);
}

/*
 * gd_remote_attend: this process sends what is queued, and may ask when it
 * looks at a key.
 */
void
gd_remote_attend(void)
{
	attends = true;
}

/*
 * gd_remote_return: send slots that came back, at most so many; returns how
 * many.  They are lost if that fails.
 */
int64
gd_remote_return(int max_slots)
{
	GdReturn   *taken;
	GdSlots    *slots;
	int64		returned = 0;
	int			n;

	if (remote == NULL)
		return 0;
	if (GetCurrentTimestamp() < (TimestampTz) pg_atomic_read_u64(gd_remote_not_before()))
		return 0;
	taken = palloc(sizeof(GdReturn) * MESSAGE_SLOTS);
	slots = palloc0(sizeof(GdSlots) * MESSAGE_SLOTS);
	while (returned < max_slots &&
		   (n = gd_returns_take(taken, MESSAGE_SLOTS)) > 0)
	{
		bool		sent;

		for (int i = 0; i < n; i++)
		{
			slots[i].key = cstring_to_text(taken[i].key);
			slots[i].shard = taken[i].shard;
			slots[i].count = 1;
		}
		sent = remote->credit(slots, n);
		for (int i = 0; i < n; i++)
		{
			/* It is no harm to say it twice. */
			if (!sent)
				(void) gd_return_put(taken[i].key, taken[i].shard);
			pfree(unconstify(text *, slots[i].key));
		}
		if (!sent)
			break;
		returned += n;
	}
	pfree(slots);
	pfree(taken);
	return returned;
}

/*
 * renew_held: renew the slots that rows of a table hold, as an index has them.
 */
static bool
renew_held(GdTableId id, GdIndexId index, int key_column, int shard_column, GdSlots *slots)
{
	GdTable    *table = gd_table_open_read(id);
	bool		sent = true;
	int			n = 0;
	GdScan		scan;

	gd_scan_begin(&scan, table, index);
	gd_scan_start(&scan);
	while (sent && gd_scan_next(&scan))
	{
		bool		no_slot;
		Datum		shard = gd_slot_value(table, scan.slot, shard_column, &no_slot);

		if (no_slot)
			continue;
		slots[n].key = DatumGetTextPCopy(gd_slot_datum(table, scan.slot, key_column));
		slots[n].shard = DatumGetInt32(shard);
		slots[n].count = 1;
		if (++n == MESSAGE_SLOTS)
		{
			sent = remote->renew(slots, n);
			n = 0;
		}
	}
	gd_scan_end(&scan);
	gd_table_close(table);
	/* Also if there are none: it tells that the database is there. */
	return sent && remote->renew(slots, n);
}

/*
 * gd_remote_renew: if it is time, renew the leases of all slots that this
 * database says are held.
 */
void
gd_remote_renew(TimestampTz now)
{
	GdSlots    *slots;

	if (remote == NULL || gd_remote_due() > now)
		return;
	slots = palloc0(sizeof(GdSlots) * MESSAGE_SLOTS);
	if (renew_held(GD_INSTANCES, GD_INSTANCES_LEASE, INST_CONCURRENCY_KEY,
				   INST_CONCURRENCY_SHARD, slots) &&
		renew_held(GD_HOLDERS, GD_HOLDERS_KEY, HOLDER_KEY, HOLDER_SHARD, slots))
		last_renewal = now;
	pfree(slots);
}

/*
 * gd_remote_due: when the maintainer has to renew next, by the wall clock.
 */
TimestampTz
gd_remote_due(void)
{
	if (remote == NULL)
		return DT_NOEND;
	return Max(last_renewal + gd_redis_lease * INT64CONST(1000) / RENEWALS,
			   (TimestampTz) pg_atomic_read_u64(gd_remote_not_before()));
}
