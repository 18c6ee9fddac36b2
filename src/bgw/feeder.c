/*
 * feeder.c
 *		The scheduler's part that claims ahead of demand.
 *
 * A queue is fed if it has a concurrency or a prefetch (set_queue, or
 * gen_durable.prefetch) and somebody takes from it.  Its demand is how many
 * more steps its workers could run beyond those that they run, and the
 * prefetch, less what the buffer has (shmem/dispatch.c).  A take or an outcome
 * that makes demand has it filled at once; rows that come while there is
 * demand, and nobody waits who would take them himself, have it filled a
 * moment later, so that many of them are claimed at a time.  A queue that had
 * nothing more is looked at again when rows come, and by polls.
 *
 * Claims of rows without a key or a limit need not be durable before they are
 * handed out: if a crash takes one back, its row is runnable again, and an
 * outcome that was committed is behind its claim in the log.
 *
 * What lies in the buffer keeps its lease from here; it is released when the
 * queue is paused or fed no more, when nobody takes from it, and at the end of
 * the process.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "bgw/feeder.h"
#include "clock.h"
#include "engine/heartbeat.h"
#include "engine/leave.h"
#include "engine/pick.h"
#include "engine/queues.h"
#include "engine/release.h"
#include "guc.h"
#include "shmem/dispatch.h"
#include "shmem/shmem.h"

/* What one pass claims, renews or releases at most. */
#define PASS_CLAIMS 1000

/* Rows that come are claimed so long after the first of them (GD-305). */
#define DEBOUNCE_MS 10

/* What others have locked is tried again after so long. */
#define RETRY_MS 100

/* A taken claim is looked after as often, or as often as its lease. */
#define VERIFY_MS 60000

#define MS INT64CONST(1000)

/* One pass over claims of a feed, or one that makes some. */
typedef struct FeedPass
{
	const GdFeed *feed;
	TimestampTz now;
	pg_uuid_t  *tokens;
	GdPlace    *places;			/* of claims that were made, as is the next */
	ItemPointerData *tids;
	int			n;
	int			durable;		/* synchronous_commit, as it is set */
} FeedPass;

static pg_uuid_t tokens[PASS_CLAIMS];
static GdPlace places[PASS_CLAIMS];
static ItemPointerData tids[PASS_CLAIMS];

/*
 * settle_queue: a queue of the table says how it is to be fed.
 */
static void
settle_queue(const text *name, const GdQueue *queue, void *arg)
{
	TimestampTz *next = arg;
	GdFeedSettings settings;

	/* Where all queues are fed, it must be known which are not. */
	if (queue->concurrency + queue->prefetch == 0 && gd_prefetch == 0)
		return;
	settings.concurrency = queue->concurrency;
	settings.prefetch = queue->prefetch;
	settings.min_demand = queue->min_demand;
	settings.lease = gd_later(0, &queue->lease_ttl);
	settings.paused_until = queue->paused ? queue->paused_until : DT_NOBEGIN;
	if (queue->paused)
		*next = Min(*next, queue->paused_until);
	if (gd_dispatch_buffer > 0)
		(void) gd_feed_set(name, &settings);
}

/*
 * pass_settle: say all feeds anew; next is when to do so again.
 */
static int64
pass_settle(void *arg)
{
	TimestampTz now = gd_now();
	int			slot = 0;
	GdFeed		feed;

	gd_feeds_settle_begin();
	gd_queues_visit(now, settle_queue, arg);
	/* Where all queues are fed, those that takes have come to as well. */
	while (gd_prefetch > 0 && gd_feeds_next(&slot, &feed))
	{
		text	   *name = cstring_to_text_with_len(feed.name, feed.name_len);
		GdQueue		queue;

		gd_queue_read(name, now, &queue);
		if (feed.observed || feed.taken > 0 || feed.last_take > now - VERIFY_MS * MS)
			settle_queue(name, &queue, arg);
	}
	gd_feeds_settle_end();
	return 0;
}

/*
 * pass_fill: claim what a feed wants.
 */
static int64
pass_fill(void *arg)
{
	FeedPass   *pass = arg;
	GdPickRequest request = {0};
	GdJob	   *jobs;

	request.queue = cstring_to_text_with_len(pass->feed->name, pass->feed->name_len);
	request.worker = cstring_to_text(GD_SCHEDULER_NAME);
	request.batch = pass->n;
	request.ahead = true;
	synchronous_commit = SYNCHRONOUS_COMMIT_OFF;
	pass->n = gd_pick_jobs(&request, &jobs);
	for (int i = 0; i < pass->n; i++)
	{
		pass->tokens[i] = *DatumGetUUIDP(jobs[i].values[JOB_TOKEN]);
		pass->places[i] = jobs[i].place;
		pass->tids[i] = jobs[i].tid;
		if (!jobs[i].plain)
			synchronous_commit = pass->durable;
	}
	return pass->n;
}

/*
 * pass_release: give spent claims back.
 */
static int64
pass_release(void *arg)
{
	FeedPass   *pass = arg;
	GdInstances instances;
	int			released = 0;

	synchronous_commit = SYNCHRONOUS_COMMIT_OFF;
	gd_instances_open(&instances);
	for (int i = 0; i < pass->n; i++)
	{
		GdFence		fence = gd_instance_fence(&instances.by_id, instances.row, &pass->tokens[i], false);

		if (fence == GD_FENCE_STALE)
			gd_dispatch_remove(&pass->tokens[i]);
		else if (fence != GD_FENCE_BUSY)
			gd_release_row(instances.row, pass->now, GD_COUNT_RELEASED);
		released += fence != GD_FENCE_BUSY;
	}
	gd_instances_close(&instances);
	return released;
}

/*
 * pass_renew: give claims that wait for a take a new lease.
 */
static int64
pass_renew(void *arg)
{
	FeedPass   *pass = arg;
	TimestampTz expires_at = pass->now + pass->feed->settings.lease;
	GdInstances instances;

	synchronous_commit = SYNCHRONOUS_COMMIT_OFF;
	gd_instances_open(&instances);
	for (int i = 0; i < pass->n; i++)
	{
		switch (gd_instance_fence(&instances.by_id, instances.row, &pass->tokens[i], false))
		{
			case GD_FENCE_HELD:
				gd_heartbeat_row(instances.row, expires_at);
				gd_dispatch_renew(&pass->tokens[i], &instances.row->tid, pass->now);
				break;
			case GD_FENCE_CANCEL:
				if (gd_dispatch_recall(&pass->tokens[i], pass->now))
					gd_dispatch_spend(&pass->tokens[i]);
				break;
			case GD_FENCE_STALE:
				gd_dispatch_remove(&pass->tokens[i]);
				break;
			case GD_FENCE_BUSY:
				break;
		}
	}
	gd_instances_close(&instances);
	return pass->n;
}

/*
 * pass_verify: forget taken claims that have ended without our hearing of it.
 */
static int64
pass_verify(void *arg)
{
	FeedPass   *pass = arg;
	GdInstances instances;

	gd_instances_open_read(&instances);
	for (int i = 0; i < pass->n; i++)
	{
		if (gd_instance_fence_look(&instances.by_id, instances.row, &pass->tokens[i]) == GD_FENCE_STALE)
			gd_dispatch_remove(&pass->tokens[i]);
		else
			gd_dispatch_renew(&pass->tokens[i], NULL, pass->now);
	}
	gd_instances_close(&instances);
	return pass->n;
}

/*
 * feeder_run: a pass whose commit may be less than durable.
 */
static GdFound
feeder_run(GdPass function, FeedPass *pass)
{
	int64		done;
	GdFound		found;

	pass->durable = synchronous_commit;
	found = gd_work_run(function, pass, &done);
	synchronous_commit = pass->durable;
	return found;
}

/*
 * feeder_each: a pass over the claims of a feed in a state that were renewed
 * before an instant.
 */
static GdFound
feeder_each(GdPass function, const GdFeed *feed, GdDispatchState state, TimestampTz before,
			TimestampTz now)
{
	FeedPass	pass = {feed, now, tokens, places, tids};

	pass.n = gd_dispatch_list(state, feed->slot, before, tokens, PASS_CLAIMS);
	return pass.n == 0 ? GD_FOUND_EXTENSION : feeder_run(function, &pass);
}

/*
 * feeder_fill: claim what a feed wants, and tell those who wait of it.
 */
static GdFound
feeder_fill(GdFeed *feed, TimestampTz now)
{
	FeedPass	pass = {feed, now, tokens, places, tids};
	int			wanted = Min(feed->demand, Min(gd_dispatch_room(), PASS_CLAIMS));
	GdFound		found;
	int			added = 0;

	if (wanted <= 0)
	{
		feed->fill_at = now + RETRY_MS * MS;
		gd_feed_filled(feed);
		return GD_FOUND_EXTENSION;
	}
	pass.n = wanted;
	found = feeder_run(pass_fill, &pass);
	if (found != GD_FOUND_EXTENSION)
		return found;
	for (; added < pass.n; added++)
	{
		GdTaken		made = {tokens[added], tids[added]};

		if (!gd_dispatch_add(feed->slot, &made, &places[added], now))
			break;
	}
	if (added > 0)
		(void) gd_wake_waiters(feed->key, added);
	if (added < pass.n)
	{
		/* The feed was closed, or others took the room. */
		FeedPass	rest = {feed, now, tokens + added, places, tids, pass.n - added};

		found = feeder_run(pass_release, &rest);
	}

	/* The poll is for rows that nobody tells of (GD-302). */
	if (pass.n > 0 || feed->taken + feed->buffered > 0 || feed->poll_ms == 0)
		feed->poll_ms = gd_poll_interval;
	else
		feed->poll_ms = Min(2 * (int64) feed->poll_ms, Max(gd_poll_interval, gd_max_poll_interval));
	feed->dry = pass.n < wanted;
	if (feed->dry)
		feed->fill_at = now + feed->poll_ms * MS;
	else
		feed->fill_at = wanted < feed->demand ? now : DT_NOEND;
	gd_feed_filled(feed);
	return found;
}

/*
 * feeder_feed: do for a feed what is due; next is lowered to when it is due
 * again.
 */
static GdFound
feeder_feed(GdFeed *feed, TimestampTz now, TimestampTz *next)
{
	const GdFeedSettings *settings = &feed->settings;
	int64		tend = Max(settings->lease / 3, MS);
	int64		verify = Max(settings->lease, VERIFY_MS * MS);
	bool		active = feed->taken > 0 || feed->last_take > now - tend;
	GdFound		found = GD_FOUND_EXTENSION;

	if (!active && feed->buffered > 0)
	{
		feed->spent += gd_dispatch_spend_all(feed->slot);
		feed->buffered = 0;
	}
	if (feed->spent > 0)
	{
		found = feeder_each(pass_release, feed, GD_DISPATCH_SPENT, DT_NOEND, now);
		*next = Min(*next, now + RETRY_MS * MS);
	}
	if (found == GD_FOUND_EXTENSION && feed->buffered > 0)
	{
		found = feeder_each(pass_renew, feed, GD_DISPATCH_BUFFERED, now - tend, now);
		*next = Min(*next, now + tend / 2);
	}
	if (found == GD_FOUND_EXTENSION && feed->taken > 0)
	{
		found = feeder_each(pass_verify, feed, GD_DISPATCH_TAKEN, now - verify, now);
		*next = Min(*next, now + verify);
	}
	if (found != GD_FOUND_EXTENSION || !feed->open || !active || feed->demand == 0 ||
		settings->paused_until != DT_NOBEGIN)
		return found;

	if (feed->wants)
		feed->fill_at = now;
	else if (feed->poked)
		feed->fill_at = Min(feed->fill_at, now + DEBOUNCE_MS * MS);
	if (feed->fill_at <= now)
		found = feeder_fill(feed, now);
	else
		gd_feed_filled(feed);
	*next = Min(*next, feed->fill_at);
	return found;
}

/*
 * gd_feeder_turn: do for all feeds what is due; anew: what the queues say may
 * have changed.  next is when to come again, by the engine's clock.
 */
GdFound
gd_feeder_turn(bool anew, TimestampTz *next)
{
	static TimestampTz settle_at;
	GdFound		found = GD_FOUND_EXTENSION;
	int			slot = 0;
	int64		done;
	GdFeed		feed;

	if (anew || gd_now() >= settle_at)
	{
		settle_at = DT_NOEND;
		found = gd_work_run(pass_settle, &settle_at, &done);
	}
	*next = settle_at;
	while (found == GD_FOUND_EXTENSION && gd_feeds_next(&slot, &feed))
	{
		if (feed.observed)
			*next = settle_at = 0;
		found = feeder_feed(&feed, gd_now(), next);
		gd_work_interrupts();
	}
	return found;
}

/*
 * feeder_give_back: release what nobody has taken, as much as can be done in
 * the time.
 */
static void
feeder_give_back(GdScan *by_id, GdRow *row, TimestampTz now)
{
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), gd_drain_timeout);
	int			slot = 0;
	GdFeed		feed;

	while (gd_feeds_next(&slot, &feed))
	{
		int			n;

		while ((n = gd_dispatch_list(GD_DISPATCH_SPENT, feed.slot, now, tokens, PASS_CLAIMS)) > 0)
			for (int i = 0; i < n; i++)
			{
				if (GetCurrentTimestamp() >= until)
					return;
				(void) gd_leave_release(by_id, row, &tokens[i], now);
				gd_dispatch_renew(&tokens[i], NULL, now);	/* not again */
			}
	}
}

/*
 * gd_feeder_leave: the process ends; nothing is to lie in a buffer that nobody
 * looks after.
 */
void
gd_feeder_leave(void)
{
	int			slot = 0;
	long		n = 0;
	GdFeed		feed;

	while (gd_feeds_next(&slot, &feed))
		n += gd_dispatch_spend_all(feed.slot) + feed.spent;
	gd_leave(n, feeder_give_back);
}
