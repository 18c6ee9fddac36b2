/*
 * The processor time that this session has used: what a claim costs, whatever else the machine is busy with.
 *
 * Takes no locks and touches no table.
 */
#include "postgres.h"

#include <time.h>

#include "fmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(cpu_clock);

/* bench.cpu_clock() returns float8: microseconds */
Datum
cpu_clock(PG_FUNCTION_ARGS)
{
	struct timespec now;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0)
		elog(ERROR, "could not read the processor time: %m");
	PG_RETURN_FLOAT8(now.tv_sec * 1e6 + now.tv_nsec / 1e3);
}
