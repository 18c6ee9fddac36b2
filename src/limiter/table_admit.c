/*
 * table_admit.c
 *		The table backend: deciding a batch (GD-110..130).
 *
 * All counters of each key are locked that can be, then the entries are
 * decided one after the other against what was locked, then what was granted
 * is taken off.
 *
 * Locks: those of table_grant.c.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/hsearch.h"

#include "limiter/counters.h"
#include "limiter/policy.h"
#include "names.h"

/* One key of the batch. */
typedef struct Wanted
{
	char		name[GD_NAME_MAX + 2];	/* its kind's first letter, its key;
										 * the hash key */
	const text *key;
	const GdPolicy *policy;
	GdGrantKey *grant;
} Wanted;

/*
 * wanted_key: what the batch wants of a key.  Most entries want the same as
 * the one before them, which *last remembers.
 */
static Wanted *
wanted_key(HTAB *all, Wanted **last, GdLimitKind kind, const text *key, const GdPolicy *policy)
{
	char		name[sizeof(((Wanted *) 0)->name)];
	Wanted	   *wanted;
	bool		found;

	if (*last && gd_text_equal((*last)->key, key))
		return *last;
	name[0] = gd_limit_kinds[kind][0];
	text_to_cstring_buffer(key, name + 1, sizeof(name) - 1);
	wanted = hash_search(all, name, HASH_ENTER, &found);
	if (!found)
	{
		wanted->key = key;
		wanted->policy = policy;
		wanted->grant = NULL;
	}
	*last = wanted;
	return wanted;
}

static int
wanted_compare(const void *a, const void *b)
{
	const Wanted *x = *(Wanted *const *) a;
	const Wanted *y = *(Wanted *const *) b;

	return strcmp(x->name, y->name);
}

/*
 * entry_decide: everything that an entry asks for, or nothing.
 */
static void
entry_decide(GdEntry *entry, Wanted *gate, Wanted *rate)
{
	int			none;

	entry->shard = GD_NO_SHARD;
	entry->lacks_slot = false;
	entry->verdict = GD_GRANTED;
	if (gate)
	{
		entry->verdict = gd_table_take(gate->grant, 1, &entry->shard);
		entry->lacks_slot = entry->verdict != GD_GRANTED;
	}
	if (entry->verdict != GD_GRANTED || entry->rate == NULL)
		return;
	entry->verdict = rate ? gd_table_take(rate->grant, entry->weight, &none) : GD_LACKS_TOKENS;
	if (entry->verdict != GD_GRANTED && gate)
	{
		gd_table_untake(gate->grant, 1, entry->shard);
		entry->shard = GD_NO_SHARD;
	}
}

/*
 * gd_table_admit: see limiter.h.
 */
void
gd_table_admit(GdEntry *entries, int nentries, TimestampTz now)
{
	Wanted	  **sorted;
	HASHCTL		ctl;
	HASH_SEQ_STATUS seq;
	HTAB	   *all;
	Wanted	   *wanted;
	Wanted	   *gate = NULL;
	Wanted	   *rate = NULL;
	GdGrants   *grants;
	int			n = 0;

	ctl.keysize = sizeof(wanted->name);
	ctl.entrysize = sizeof(Wanted);
	ctl.hcxt = CurrentMemoryContext;
	all = hash_create("gen_durable admission", 64, &ctl,
					  HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	for (int i = 0; i < nentries; i++)
	{
		if (entries[i].gate)
			(void) wanted_key(all, &gate, GD_GATE, entries[i].gate, entries[i].gate_policy);
		if (entries[i].rate && entries[i].rate_policy)
			(void) wanted_key(all, &rate, GD_RATE, entries[i].rate, entries[i].rate_policy);
	}

	sorted = palloc(sizeof(Wanted *) * Max(hash_get_num_entries(all), 1));
	hash_seq_init(&seq, all);
	while ((wanted = hash_seq_search(&seq)) != NULL)
		sorted[n++] = wanted;
	qsort(sorted, n, sizeof(Wanted *), wanted_compare);
	grants = gd_table_begin(now);
	for (int i = 0; i < n; i++)
	{
		sorted[i]->grant = gd_table_key(grants, sorted[i]->policy, sorted[i]->key);
		gd_table_spread(sorted[i]->grant);
	}

	for (int i = 0; i < nentries; i++)
		entry_decide(&entries[i],
					 entries[i].gate ?
					 wanted_key(all, &gate, GD_GATE, entries[i].gate, NULL) : NULL,
					 entries[i].rate && entries[i].rate_policy ?
					 wanted_key(all, &rate, GD_RATE, entries[i].rate, NULL) : NULL);

	gd_table_end(grants);
	hash_destroy(all);
	pfree(sorted);
}
