/*
 * limiter.c
 *		Which limiter is used.
 *
 * The table backend is built in.  What is outside the database is reached
 * through remote.c, which loads the module that talks to it.
 */
#include "postgres.h"

#include "fmgr.h"

#include "guc.h"
#include "limiter/counters.h"
#include "limiter/limiter.h"
#include "limiter/remote.h"

static void
table_renew(const GdSlots *slots, int nslots, TimestampTz until)
{
	/* A held slot is the executing row itself, or a lease in slot_holders. */
}

const GdLimiter gd_table_limiter = {
	.name = "table",
	.admit = gd_table_admit,
	.begin = gd_table_begin,
	.key = gd_table_key,
	.take = gd_table_take,
	.untake = gd_table_untake,
	.end = gd_table_end,
	.look = gd_table_look,
	.credit = gd_table_credit,
	.renew = table_renew,
	.sync_config = gd_table_sync_config,
	.reconcile = gd_table_reconcile,
};

/*
 * gd_limiter: the one that gen_durable.limiter names.
 */
const GdLimiter *
gd_limiter(void)
{
	return gd_limiter_kind == GD_LIMITER_REDIS ? &gd_remote_limiter : &gd_table_limiter;
}
