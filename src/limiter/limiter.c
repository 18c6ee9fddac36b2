/*
 * limiter.c
 *		Which limiter is used.
 *
 * The table backend is built in.  Others are modules named
 * gen_durable_<name>, which leave their struct of functions in the rendezvous
 * variable of their name when they are loaded.
 */
#include "postgres.h"

#include "fmgr.h"

#include "guc.h"
#include "limiter/counters.h"
#include "limiter/limiter.h"

static void
table_renew(const GdSlots *slots, int nslots, TimestampTz until)
{
	/* A held slot is the executing row itself, or a lease in slot_holders. */
}

const GdLimiter gd_table_limiter = {
	.name = "table",
	.admit = gd_table_admit,
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
	return &gd_table_limiter;
}
