/*
 * expired.c
 *		Runs whose claim has expired, the oldest claim first.
 *
 * A user who sees all runs walks the index of claims by age.  For one who is
 * confined to some tenants that would be a walk past everybody else's, so
 * there is another index that leads with the tenant; the first claim of each
 * tenant is looked up, and the oldest of them is taken each time.  What that
 * costs depends on the number of the user's tenants, and on nothing of others.
 * Somebody may have dropped that index; then it is the walk.
 *
 * Locks: none; what others hold is passed over.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "names.h"
#include "run_store/expired.h"

/*
 * expired_advance: step to the next claim of a tenant whose claims the scan
 * walks, and make it the tenant's head; without one the tenant drops out.
 */
static void
expired_advance(GdRunExpired *expired, int head)
{
	TupleTableSlot *slot = expired->scan.slot;

	if (gd_scan_next(&expired->scan))
	{
		expired->heads[head].claimed_at =
			DatumGetTimestampTz(gd_slot_datum(expired->runs, slot, RUN_CLAIMED_AT));
		expired->heads[head].id = DatumGetInt64(gd_slot_datum(expired->runs, slot, RUN_ID));
		expired->standing = head;
		return;
	}
	expired->heads[head] = expired->heads[--expired->nheads];
	expired->standing = -1;
}

/*
 * expired_enter: stand at a tenant's head, or, of the first instant there is,
 * at its oldest claim.
 */
static void
expired_enter(GdRunExpired *expired, int head)
{
	static const RegProcedure compare[] = {F_TIMESTAMPTZ_CMP, F_BTINT8CMP};
	Datum		place[lengthof(compare)];

	place[0] = TimestampTzGetDatum(expired->heads[head].claimed_at);
	place[1] = Int64GetDatum(expired->heads[head].id);
	gd_scan_text(&expired->scan, 1, expired->heads[head].key);
	gd_scan_key_row(&expired->scan, 2, lengthof(compare), compare, place);
	gd_scan_key(&expired->scan, 2, BTLessStrategyNumber, F_TIMESTAMPTZ_LT,
				TimestampTzGetDatum(expired->before));
	gd_scan_start(&expired->scan);
	expired_advance(expired, head);
}

/*
 * expired_enter_all: look the oldest claim of each tenant up.
 */
static void
expired_enter_all(GdRunExpired *expired)
{
	expired->heads = palloc(sizeof(GdRunHead) * Max(expired->tenants->n, 1));
	for (int i = 0; i < expired->tenants->n; i++)
	{
		GdRunHead  *head = &expired->heads[expired->nheads++];

		head->key = expired->tenants->keys[i];
		head->claimed_at = DT_NOBEGIN;
		head->id = 0;
		expired_enter(expired, expired->nheads - 1);
	}
}

/*
 * expired_oldest: the head that comes first, or -1.
 */
static int
expired_oldest(const GdRunExpired *expired)
{
	int			oldest = -1;

	for (int i = 0; i < expired->nheads; i++)
	{
		const GdRunHead *head = &expired->heads[i];

		if (oldest < 0 || head->claimed_at < expired->heads[oldest].claimed_at ||
			(head->claimed_at == expired->heads[oldest].claimed_at &&
			 head->id < expired->heads[oldest].id))
			oldest = i;
	}
	return oldest;
}

/*
 * expired_step: step to the next claim.
 */
static bool
expired_step(GdRunExpired *expired)
{
	int			head;

	if (!expired->by_tenant)
		return gd_scan_next(&expired->scan);
	if (expired->heads == NULL)
		expired_enter_all(expired);
	else if (expired->standing >= 0)
		expired_advance(expired, expired->standing);
	while ((head = expired_oldest(expired)) >= 0 && head != expired->standing)
		expired_enter(expired, head);
	return head >= 0;
}

/*
 * gd_run_expired_begin: begin a walk of the claims that were made before an
 * instant.  The tenants must last.
 */
void
gd_run_expired_begin(GdRunExpired *expired, GdTable *runs, TimestampTz before,
					 const GdRunTenants *tenants)
{
	memset(expired, 0, sizeof(GdRunExpired));
	expired->runs = runs;
	expired->before = before;
	expired->tenants = tenants;
	expired->standing = -1;
	expired->by_tenant = tenants->confined && OidIsValid(gd_catalog()->index[GD_RUNS_TENANT_CLAIMED]);
	gd_scan_begin(&expired->scan, runs, expired->by_tenant ? GD_RUNS_TENANT_CLAIMED : GD_RUNS_CLAIMED);
	if (expired->by_tenant)
		return;
	gd_scan_key(&expired->scan, 1, BTLessStrategyNumber, F_TIMESTAMPTZ_LT, TimestampTzGetDatum(before));
	gd_scan_start(&expired->scan);
}

/*
 * gd_run_expired_step: stand at the next claim that the user may see, whoever
 * holds its run; false when there is none.
 */
bool
gd_run_expired_step(GdRunExpired *expired)
{
	while (expired_step(expired))
		if (gd_run_tenant_visible(DatumGetTextPP(gd_slot_datum(expired->runs, expired->scan.slot,
															   RUN_SCOPE_KEY))))
			return true;
	return false;
}

/*
 * gd_run_expired_next: load the next run, unlocked, unless somebody else holds
 * it; false when there is none.  hold tells what was seen of others on it.
 */
bool
gd_run_expired_next(GdRunExpired *expired, GdRow *row, GdHold *hold)
{
	while (gd_run_expired_step(expired))
	{
		*hold = gd_slot_hold(expired->scan.slot);
		if (*hold == GD_HOLD_OTHER)
			continue;
		gd_row_load(row, expired->scan.slot);
		return true;
	}
	return false;
}

void
gd_run_expired_end(GdRunExpired *expired)
{
	gd_scan_end(&expired->scan);
}
