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
	GdTable    *instances = gd_table_open(GD_INSTANCES);
	GdRow	   *row = gd_row_create(instances);
	GdScan		by_id;
	GdFence		fence;

	gd_scan_begin(&by_id, instances, GD_INSTANCES_PKEY);
	fence = gd_instance_fence(&by_id, row, token, true);
	if (fence == GD_FENCE_HELD || fence == GD_FENCE_CANCEL)
		gd_release_row(row, now, GD_COUNT_RELEASED);
	gd_scan_end(&by_id);
	gd_row_free(row);
	gd_table_close(instances);
	gd_table_flush();
}

/*
 * release(tokens) -> how many were held
 */
Datum
gd_release(PG_FUNCTION_ARGS)
{
	TimestampTz now = gd_now();
	GdTokens	tokens;
	GdTable    *instances;
	GdRow	   *row;
	GdScan		by_id;
	int64		released = 0;

	gd_writes("gen_durable.release()");
	gd_tokens_arg(fcinfo, 0, &tokens);

	instances = gd_table_open(GD_INSTANCES);
	row = gd_row_create(instances);
	gd_scan_begin(&by_id, instances, GD_INSTANCES_PKEY);
	for (int i = 0; i < tokens.n; i++)
	{
		GdFence		fence = gd_instance_fence(&by_id, row, tokens.tokens[i], false);

		if (fence == GD_FENCE_HELD || fence == GD_FENCE_CANCEL)
		{
			gd_release_row(row, now, GD_COUNT_RELEASED);
			released++;
		}
	}
	gd_scan_end(&by_id);
	gd_row_free(row);
	gd_table_close(instances);
	gd_table_flush();
	PG_RETURN_INT64(released);
}
