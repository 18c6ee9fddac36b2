/*
 * admit.c
 *		May a candidate be claimed?
 *
 * A row without keys and limits may.  One with a concurrency key may if the
 * key is free and no row of its key and queue that waits for it or was given
 * its turn sorts before it; the answer is found under a lock on the key that
 * is never waited for (D-4).  What a pick has learnt about a key it does not
 * ask again.
 *
 * A rate limit refuses as long as nothing hands out its tokens: the row is
 * blocked on it, as it is when a policy was dropped (D-12).
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "engine/admit.h"
#include "engine/blocked.h"
#include "engine/effects.h"
#include "engine/instance.h"
#include "engine/keylock.h"
#include "names.h"

typedef enum AdmitKeyState
{
	ADMIT_KEY_UNKNOWN,
	ADMIT_KEY_HELD,				/* by another claim, or by one of this pick */
	ADMIT_KEY_BUSY				/* another transaction is at it */
} AdmitKeyState;

typedef struct AdmitKey
{
	char		name[GD_NAME_MAX + 1];
	AdmitKeyState state;
} AdmitKey;

void
gd_admission_begin(GdAdmission *admission, GdTable *instances)
{
	admission->instances = instances;
	admission->keys = NULL;
	admission->head = NULL;
}

void
gd_admission_end(GdAdmission *admission)
{
	if (admission->keys)
		hash_destroy(admission->keys);
	if (admission->head)
		gd_row_free(admission->head);
}

static AdmitKey *
admit_key(GdAdmission *admission, const text *key)
{
	char		name[GD_NAME_MAX + 1];
	AdmitKey   *entry;
	bool		found;

	if (admission->keys == NULL)
	{
		HASHCTL		ctl;

		ctl.keysize = sizeof(name);
		ctl.entrysize = sizeof(AdmitKey);
		ctl.hcxt = CurrentMemoryContext;
		admission->keys = hash_create("gen_durable pick keys", 64, &ctl,
									  HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	}
	text_to_cstring_buffer(key, name, sizeof(name));
	entry = hash_search(admission->keys, name, HASH_ENTER, &found);
	if (!found)
		entry->state = ADMIT_KEY_UNKNOWN;
	return entry;
}

/*
 * admit_conc: the concurrency key's answer.
 */
static GdAdmitResult
admit_conc(GdAdmission *admission, GdRow *row, const text *key, text *blocked_on)
{
	AdmitKey   *entry = admit_key(admission, key);

	if (entry->state == ADMIT_KEY_UNKNOWN && !gd_key_try_lock(GD_BLOCK_CONC, key))
		entry->state = ADMIT_KEY_BUSY;
	if (entry->state == ADMIT_KEY_BUSY)
		return GD_PASS;
	if (entry->state == ADMIT_KEY_UNKNOWN && gd_blocked_key_held(admission->instances, key))
		entry->state = ADMIT_KEY_HELD;
	if (entry->state == ADMIT_KEY_HELD)
		return GD_REFUSE;

	entry->state = ADMIT_KEY_HELD;
	if (admission->head == NULL)
		admission->head = gd_row_create(admission->instances);
	if (gd_blocked_next(admission->instances, blocked_on,
						gd_instance_text(row, INST_QUEUE), admission->head) &&
		gd_instance_before(admission->head, row))
	{
		ItemPointerData tid = admission->head->tid;

		if (gd_row_lock(admission->head, &tid, false) == GD_LOCKED)
			return GD_ADMIT_HEAD;
		entry->state = ADMIT_KEY_BUSY;
		return GD_PASS;
	}
	return GD_ADMIT;
}

/*
 * gd_admit_busy: has this pick met the row's key, and another transaction at
 * it?  Then the row need not even be locked.
 */
bool
gd_admit_busy(GdAdmission *admission, GdRow *row)
{
	text	   *key = gd_instance_text(row, INST_CONCURRENCY_KEY);

	return key != NULL && admission->keys != NULL &&
		GD_IS_NULL(row, INST_RATE_LIMIT) &&
		admit_key(admission, key)->state == ADMIT_KEY_BUSY;
}

/*
 * gd_admit_free: is there nothing to ask, whoever else is claiming?
 */
bool
gd_admit_free(GdRow *row)
{
	return GD_IS_NULL(row, INST_CONCURRENCY_KEY) && GD_IS_NULL(row, INST_RATE_LIMIT);
}

/*
 * gd_admit: may a locked candidate be claimed?  Where not, *blocked_on is the
 * mark that it gets.
 */
GdAdmitResult
gd_admit(GdAdmission *admission, GdRow *row, text **blocked_on)
{
	text	   *key = gd_instance_text(row, INST_CONCURRENCY_KEY);
	text	   *rate_limit = gd_instance_text(row, INST_RATE_LIMIT);

	if (rate_limit)
	{
		*blocked_on = gd_blocked_on(GD_BLOCK_RATE, rate_limit);
		return GD_REFUSE;
	}
	if (key == NULL)
		return GD_ADMIT;
	*blocked_on = gd_blocked_on(GD_BLOCK_CONC, key);
	return admit_conc(admission, row, key, *blocked_on);
}
