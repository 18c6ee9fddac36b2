/*
 * release.c
 *		release: giving claimed steps back untouched.
 *
 * In the order of the rows' ids, skipping rows that another transaction has
 * locked (GD-250).  Attempt and eligible_at stay, so the row keeps its place.
 * A row whose cancellation was asked for is cancelled (D-15).
 */
#include "postgres.h"

#include "fmgr.h"

#include "clock.h"
#include "engine/instance.h"
#include "engine/release.h"
#include "engine/tokens.h"
#include "names.h"

PG_FUNCTION_INFO_V1(gd_release);

/*
 * gd_release_row: take a locked executing row out of its claim, and count it.
 */
void
gd_release_row(GdRow *row, TimestampTz now, GdCounter counter)
{
	gd_instance_set_status(row, GD_IS_NULL(row, INST_CANCEL_REQUESTED_AT) ?
						   GD_RUNNABLE : GD_CANCELLED);
	gd_instance_write(row, now);
	gd_stats_count(gd_instance_text(row, INST_QUEUE), counter, 1);
}

/*
 * gd_release_claim: give one claim back, if it is held.
 */
void
gd_release_claim(const pg_uuid_t *token)
{
	TimestampTz now = gd_now();
	GdInstances instances;
	GdFence		fence;

	gd_instances_open(&instances);
	fence = gd_instance_fence(&instances.by_id, instances.row, token, true);
	if (fence == GD_FENCE_HELD || fence == GD_FENCE_CANCEL)
		gd_release_row(instances.row, now, GD_COUNT_RELEASED);
	gd_instances_close(&instances);
}

/*
 * release(tokens) -> how many were held
 */
Datum
gd_release(PG_FUNCTION_ARGS)
{
	TimestampTz now = gd_now();
	GdTokens	tokens;
	GdInstances instances;
	int64		released = 0;

	gd_writes("gen_durable.release()");
	gd_tokens_arg(fcinfo, 0, &tokens);

	gd_instances_open(&instances);
	for (int i = 0; i < tokens.n; i++)
	{
		GdFence		fence = gd_instance_fence(&instances.by_id, instances.row, tokens.tokens[i], false);

		if (fence == GD_FENCE_HELD || fence == GD_FENCE_CANCEL)
		{
			gd_release_row(instances.row, now, GD_COUNT_RELEASED);
			released++;
		}
	}
	gd_instances_close(&instances);
	PG_RETURN_INT64(released);
}
