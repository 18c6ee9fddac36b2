/*
 * turn.c
 *		Whose turn it is: the tenant that claims of runs have served last.
 *
 * A claim goes on behind the tenant that the last claim in the database ended
 * with, whichever session made it.  Without shared memory each session knows
 * its own last one.  It is a hint: a claim that begins elsewhere finds the
 * same runs in another order.
 *
 * Shared memory: a place for each database's tenant, found by the database's
 * OID, under a spinlock of its own.  Two databases with the same place put
 * each other's tenant out, and a session then goes by its own.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/builtins.h"

#include "compat.h"
#include "names.h"
#include "shmem/shmem.h"
#include "shmem/turn.h"

/* Places; a prime, since OIDs of databases come in rows. */
#define TURN_PLACES 127

typedef struct TurnPlace
{
	slock_t		mutex;
	Oid			database;		/* or InvalidOid */
	int			len;
	char		tenant[GD_NAME_MAX];
} TurnPlace;

static TurnPlace *places = NULL;

/* This session's last tenant. */
static bool mine_known = false;
static int	mine_len = 0;
static char mine[GD_NAME_MAX];

Size
gd_turn_size(void)
{
	return mul_size(TURN_PLACES, sizeof(TurnPlace));
}

void
gd_turn_attach(void *start, bool first)
{
	places = start;
	if (!first)
		return;
	memset(start, 0, gd_turn_size());
	for (int i = 0; i < TURN_PLACES; i++)
		SpinLockInit(&places[i].mutex);
}

/*
 * gd_turn_last: the tenant that was served last, or NULL where that is not
 * known.
 */
text *
gd_turn_last(void)
{
	if (gd_shmem_ready())
	{
		TurnPlace  *place = &places[MyDatabaseId % TURN_PLACES];

		SpinLockAcquire(&place->mutex);
		if (place->database == MyDatabaseId)
		{
			mine_known = true;
			mine_len = place->len;
			memcpy(mine, place->tenant, place->len);
		}
		SpinLockRelease(&place->mutex);
	}
	return mine_known ? cstring_to_text_with_len(mine, mine_len) : NULL;
}

/*
 * gd_turn_set: this tenant was served last.
 */
void
gd_turn_set(const text *tenant)
{
	mine_known = true;
	mine_len = Min(VARSIZE_ANY_EXHDR(tenant), GD_NAME_MAX);
	memcpy(mine, VARDATA_ANY(tenant), mine_len);
	if (gd_shmem_ready())
	{
		TurnPlace  *place = &places[MyDatabaseId % TURN_PLACES];

		SpinLockAcquire(&place->mutex);
		place->database = MyDatabaseId;
		place->len = mine_len;
		memcpy(place->tenant, mine, mine_len);
		SpinLockRelease(&place->mutex);
	}
}
