/*
 * heartbeat.c
 *		heartbeat: keeping claims, and hearing of cancellation.
 *
 * By token alone (D-31), in the order of the rows' ids.  A row that another
 * transaction has locked at this instant keeps its lease until the next beat.
 * updated_at does not move (D-10).
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/due.h"
#include "engine/heartbeat.h"
#include "engine/instance.h"
#include "engine/pick.h"
#include "engine/queues.h"
#include "engine/tokens.h"
#include "names.h"
#include "shmem/dispatch.h"

PG_FUNCTION_INFO_V1(gd_heartbeat);

/* Who has a claim whose taker's name was lost in a crash. */
#define UNKNOWN_NAME "unknown worker"

/* The lease of the queue asked for last. */
typedef struct QueueTtl
{
	text	   *queue;			/* NULL at first */
	Interval	ttl;
} QueueTtl;

/*
 * heartbeat_ttl: how long a row's new lease lasts where the call does not say.
 */
static const Interval *
heartbeat_ttl(GdRow *row, TimestampTz now, QueueTtl *last)
{
	text	   *queue = gd_instance_text(row, INST_QUEUE);
	GdQueue		settings;

	if (last->queue == NULL || !gd_text_equal(last->queue, queue))
	{
		last->queue = DatumGetTextPCopy(PointerGetDatum(queue));
		gd_queue_read(queue, now, &settings);
		last->ttl = settings.lease_ttl;
	}
	return &last->ttl;
}

/*
 * gd_heartbeat_row: a locked row's claim lasts until an instant.
 */
void
gd_heartbeat_row(GdRow *row, TimestampTz expires_at)
{
	gd_row_set(row, INST_LEASE_EXPIRES_AT, TimestampTzGetDatum(expires_at));
	gd_row_update(row);
	gd_due_at(expires_at);
}

/*
 * gd_heartbeat_claims: extend the leases of claims, each by its queue's lease;
 * returns the first end of them, or DT_NOEND.
 */
TimestampTz
gd_heartbeat_claims(const pg_uuid_t *tokens, int n)
{
	TimestampTz now = gd_now();
	TimestampTz first = DT_NOEND;
	QueueTtl	last = {NULL};
	GdInstances instances;

	gd_instances_open(&instances);
	for (int i = 0; i < n; i++)
	{
		GdFence		fence = gd_instance_fence(&instances.by_id, instances.row, &tokens[i], false);
		TimestampTz expires_at;

		if (fence != GD_FENCE_HELD && fence != GD_FENCE_CANCEL)
			continue;
		expires_at = gd_later(now, heartbeat_ttl(instances.row, now, &last));
		gd_heartbeat_row(instances.row, expires_at);
		first = Min(first, expires_at);
	}
	gd_instances_close(&instances);
	return first;
}

/*
 * heartbeat_holder: write down who took a claim out of the buffer, or, if the
 * buffer was lost in a crash, that somebody has it.
 */
static void
heartbeat_holder(GdRow *row, const pg_uuid_t *token)
{
	GdDispatchState state;
	GdHolder	holder;
	text	   *name = NULL;

	state = gd_dispatch_find(token, &holder);
	if (state == GD_DISPATCH_TAKEN)
		name = cstring_to_text_with_len(holder.worker, holder.worker_len);
	else if (state == GD_DISPATCH_NONE && !GD_IS_NULL(row, INST_LOCKED_BY) &&
			 gd_text_equal(gd_instance_text(row, INST_LOCKED_BY),
						   cstring_to_text(GD_SCHEDULER_NAME)))
		name = cstring_to_text(UNKNOWN_NAME);
	if (name)
		gd_row_set(row, INST_LOCKED_BY, PointerGetDatum(name));
}

/*
 * heartbeat(tokens, lease_ttl) -> setof (token, held, cancel_requested)
 */
Datum
gd_heartbeat(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *out = (ReturnSetInfo *) fcinfo->resultinfo;
	TimestampTz now = gd_now();
	Interval   *ttl = NULL;
	QueueTtl	last = {NULL};
	GdTokens	tokens;
	GdInstances instances;

	gd_writes("gen_durable.heartbeat()");
	gd_tokens_arg(fcinfo, 0, &tokens);
	if (!PG_ARGISNULL(1))
	{
		ttl = PG_GETARG_INTERVAL_P(1);
		gd_check_not_negative("lease_ttl", ttl, NULL);
	}
	InitMaterializedSRF(fcinfo, 0);

	gd_instances_open(&instances);
	for (int i = 0; i < tokens.n; i++)
	{
		GdFence		fence = gd_instance_fence(&instances.by_id, instances.row, tokens.tokens[i], false);
		Datum		values[3];
		bool		nulls[3] = {false};

		if (fence == GD_FENCE_HELD || fence == GD_FENCE_CANCEL)
		{
			const Interval *lease = ttl ? ttl : heartbeat_ttl(instances.row, now, &last);
			TimestampTz expires_at = gd_later(now, lease);

			heartbeat_holder(instances.row, tokens.tokens[i]);
			gd_heartbeat_row(instances.row, expires_at);
		}
		values[0] = UUIDPGetDatum(tokens.tokens[i]);
		values[1] = BoolGetDatum(fence != GD_FENCE_STALE);
		values[2] = BoolGetDatum(fence == GD_FENCE_CANCEL);
		tuplestore_putvalues(out->setResult, out->setDesc, values, nulls);
	}
	gd_instances_close(&instances);
	return (Datum) 0;
}
