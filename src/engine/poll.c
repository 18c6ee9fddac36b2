/*
 * poll.c
 *		How long a wait sleeps between two looks.
 *
 * Where wake-ups arrive the poll is for what cannot wake, and slow.  Without
 * shared memory it is all there is, and quick.
 */
#include "postgres.h"

#include "engine/poll.h"
#include "guc.h"
#include "shmem/shmem.h"
#include "shmem/wake.h"

/* Milliseconds without shared memory, from the first sleep to the last. */
#define BARE_POLL_MIN 2
#define BARE_POLL_MAX 50

void
gd_poll_begin(GdPoll *poll)
{
	if (gd_shmem_ready())
	{
		poll->ms = gd_poll_interval;
		poll->max_ms = Max(gd_poll_interval, gd_max_poll_interval);
	}
	else
	{
		poll->ms = BARE_POLL_MIN;
		poll->max_ms = BARE_POLL_MAX;
	}
}

/*
 * gd_poll_wait: sleep until it is time to look again, or at most max_ms; true
 * if a wake-up ended it.  An interrupt is served at once.
 */
bool
gd_poll_wait(GdPoll *poll, long max_ms)
{
	if (gd_wake_wait(Min(poll->ms, max_ms)))
		return true;
	if (max_ms >= poll->ms)
		poll->ms = Min(poll->ms * 2, poll->max_ms);
	return false;
}
