/*
 * announcer.c
 *		The scheduler's part that tells listeners of queues that have work
 *		(D-23, gen_durable.notify).
 *
 * A NOTIFY takes a lock at commit that all who notify share, so clients'
 * transactions send none.  They tell of their queues in shared memory
 * (shmem/news.c); the scheduler looks whether there is work still, and sends one
 * NOTIFY, without a payload, for each queue that has some: the first at once,
 * further ones as often as GD_NEWS_WINDOW lets it (GD-306).  One transaction
 * sends all that are to be sent.  Rows of the future are told of when they are
 * due.
 *
 * When it begins, and where commits had no place to say which queue it was, it
 * looks through all queues that have rows, and tells of those that have work.
 */
#include "postgres.h"

#include "commands/async.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "bgw/announcer.h"
#include "clock.h"
#include "engine/channel.h"
#include "engine/duerows.h"
#include "engine/instance.h"
#include "guc.h"
#include "shmem/dispatch.h"
#include "shmem/news.h"

/* Of the server's queue of notifications; beyond, NOTIFY may soon fail for all. */
#define QUEUE_USAGE_MAX 0.5

/* So long nothing is sent then. */
#define HELD_BACK_MS 1000

/* So many times its own length lies between two looks at all queues. */
#define LOOK_SHARE 10

#define MS INT64CONST(1000)

typedef struct Announce
{
	TimestampTz now;
	bool		all;			/* look at all queues */
	TimestampTz next_all;		/* the first row of the future of a queue that
								 * there is no place for */
} Announce;

static bool attending = false;
static bool look_all = false;	/* is owed */
static TimestampTz look_all_at; /* not before */
static TimestampTz held_until = DT_NOBEGIN;
static bool said_held = false;	/* since it was last held back */

/*
 * announce: tell the listeners of a queue, if it has work; due is the first row
 * of the future.
 */
static bool
announce(const text *queue, GdWakeKey key, TimestampTz now, TimestampTz *due)
{
	bool		has_work = gd_due_rows(queue, 1, now, due) > 0 || gd_dispatch_has(key);

	if (has_work)
		Async_Notify(gd_channel_name(queue), "");
	return has_work;
}

/*
 * announce_all: look at all queues that have rows to be claimed, now or later.
 */
static void
announce_all(Announce *pass)
{
	GdTable    *instances = gd_table_open_read(GD_INSTANCES);
	text	   *queue = cstring_to_text("");
	MemoryContext each = AllocSetContextCreate(CurrentMemoryContext, "queue",
											   ALLOCSET_SMALL_SIZES);
	GdScan		scan;

	gd_scan_begin(&scan, instances, GD_INSTANCES_PICK);
	for (;;)
	{
		TimestampTz due;
		MemoryContext old;
		GdWakeKey	key;

		CHECK_FOR_INTERRUPTS();
		gd_scan_key(&scan, 1, BTGreaterStrategyNumber, F_TEXT_GT, PointerGetDatum(queue));
		gd_scan_start(&scan);
		if (!gd_scan_next(&scan))
			break;
		pfree(queue);
		queue = DatumGetTextPCopy(gd_slot_datum(instances, scan.slot, INST_QUEUE));
		key = gd_wake_queue(queue);
		old = MemoryContextSwitchTo(each);
		(void) announce(queue, key, pass->now, &due);
		MemoryContextSwitchTo(old);
		MemoryContextReset(each);
		if (!gd_news_keep(key, queue, due))
			pass->next_all = Min(pass->next_all, due);
	}
	gd_scan_end(&scan);
	gd_table_close(instances);
}

/*
 * announce_held: is the server's queue of notifications so full that others
 * should have what is left?
 */
static bool
announce_held(TimestampTz now)
{
	double		usage = DatumGetFloat8(OidFunctionCall0(F_PG_NOTIFICATION_QUEUE_USAGE));

	if (usage <= QUEUE_USAGE_MAX)
	{
		said_held = false;
		return false;
	}
	if (!said_held)
		ereport(LOG,
				(errmsg("gen_durable sends no notifications while the server's queue of them is more than half full"),
				 errhint("A session that listens has been in a transaction for too long; pg_notification_queue_usage() tells when it is over.")));
	said_held = true;
	held_until = now + HELD_BACK_MS * MS;
	return true;
}

/*
 * pass_announce: tell of all queues that there are news of.
 */
static int64
pass_announce(void *arg)
{
	Announce   *pass = arg;
	GdNews		news = {0};
	int64		n = 0;

	if (announce_held(pass->now))
		return 0;
	synchronous_commit = SYNCHRONOUS_COMMIT_OFF;
	while (gd_news_take(pass->now, &news))
	{
		text	   *queue = cstring_to_text_with_len(news.name, news.len);
		TimestampTz due;
		bool		told = announce(queue, news.key, pass->now, &due);

		gd_news_sent(&news, told ? pass->now : DT_NOBEGIN, due);
		n += told;
	}
	if (pass->all)
		announce_all(pass);
	return n;
}

/*
 * gd_announcer_turn: tell of what is to be told; next is lowered to when to
 * come again, by the engine's clock.
 *
 * An error ends the process.  What was not told then is found by the look with
 * which the next one begins.
 */
GdFound
gd_announcer_turn(TimestampTz *next)
{
	TimestampTz now = gd_now();
	Announce	pass = {now, false, DT_NOEND};
	GdFound		found = GD_FOUND_EXTENSION;
	int			durable = synchronous_commit;
	int64		told;

	if (gd_notify != attending)
	{
		attending = gd_notify;
		look_all = false;
		look_all_at = DT_NOBEGIN;
		gd_news_attend(attending);
	}
	if (!attending)
		return found;

	look_all |= gd_news_take_all();
	pass.all = look_all && look_all_at <= now;
	if (held_until <= now && (pass.all || gd_news_next() <= now))
	{
		found = gd_work_run(pass_announce, &pass, &told);
		synchronous_commit = durable;
		if (pass.all && held_until <= now)
		{
			TimestampTz end = gd_now();

			look_all = pass.next_all != DT_NOEND;
			look_all_at = Max(look_all ? pass.next_all : DT_NOBEGIN,
							  end + Max((end - now) * LOOK_SHARE, GD_NEWS_WINDOW));
		}
	}
	*next = Min(*next, Max(held_until, Min(gd_news_next(), look_all ? look_all_at : DT_NOEND)));
	return found;
}

/*
 * gd_announcer_leave: the process ends.
 */
void
gd_announcer_leave(void)
{
	if (attending)
		gd_news_attend(false);
}
