/*
 * workers.c
 *		waiters: the sessions that wait, a part of the view `workers`.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "shmem/shmem.h"
#include "shmem/waiters.h"

PG_FUNCTION_INFO_V1(gd_waiters);

/*
 * workers_queues: the queues of a waiter, as far as their names are kept.
 */
static Datum
workers_queues(const GdWaiter *waiter)
{
	Datum	   *names = palloc(sizeof(Datum) * (waiter->nnames + 1));
	const char *at = waiter->names;
	int			n = waiter->nnames;

	for (int i = 0; i < n; i++)
	{
		int			len = (unsigned char) *at++;

		names[i] = PointerGetDatum(cstring_to_text_with_len(at, len));
		at += len;
	}
	if (n < waiter->nqueues)
		names[n++] = CStringGetTextDatum(psprintf("... and %d more", waiter->nqueues - waiter->nnames));
	return PointerGetDatum(construct_array(names, n, TEXTOID, -1, false, TYPALIGN_INT));
}

/*
 * waiters() -> setof (pid, queues, instance, since)
 */
Datum
gd_waiters(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *out = (ReturnSetInfo *) fcinfo->resultinfo;
	GdWaiter   *waiters;
	int			n;

	InitMaterializedSRF(fcinfo, 0);
	if (!gd_shmem_ready())
		return (Datum) 0;
	n = gd_waiters_read(&waiters);
	for (int i = 0; i < n; i++)
	{
		Datum		values[4];
		bool		nulls[4] = {false};

		values[0] = Int32GetDatum(waiters[i].pid);
		nulls[1] = waiters[i].nqueues == 0;
		values[1] = nulls[1] ? (Datum) 0 : workers_queues(&waiters[i]);
		values[2] = Int64GetDatum(waiters[i].instance);
		nulls[2] = waiters[i].instance == 0;
		values[3] = TimestampTzGetDatum(waiters[i].since);
		tuplestore_putvalues(out->setResult, out->setDesc, values, nulls);
	}
	return (Datum) 0;
}
