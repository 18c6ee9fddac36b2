/*
 * policy.c
 *		Policies of rate limits and gates: finding the one that a key is under.
 *
 * A key is under the policy named by its text before the first colon
 * (GD-010).  Policies are read under the latest snapshot as of the first look
 * of a call, and once a name.
 *
 * Locks: access share on bucket_configs; who makes counters shares a lock on the
 * policy's name, which whoever changes the policy holds alone.
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "engine/keylock.h"
#include "limiter/policy.h"
#include "names.h"

const char *const gd_limit_kinds[] = {
	[GD_GATE] = "conc",
	[GD_RATE] = "rate",
};

typedef struct FoundPolicy
{
	char		name[GD_NAME_MAX + 2];	/* its kind's first letter, its name */
	bool		exists;
	GdPolicy	policy;
} FoundPolicy;

/*
 * gd_limit_kind: which kind a text names; false if none.
 */
bool
gd_limit_kind(const char *name, int len, GdLimitKind *kind)
{
	for (int k = 0; k < lengthof(gd_limit_kinds); k++)
		if (len == strlen(gd_limit_kinds[k]) && memcmp(name, gd_limit_kinds[k], len) == 0)
		{
			*kind = k;
			return true;
		}
	return false;
}

/*
 * gd_limit_name: the name of the policy that a key is under.
 */
text *
gd_limit_name(const text *key)
{
	int			len = VARSIZE_ANY_EXHDR(key);
	const char *colon = memchr(VARDATA_ANY(key), ':', len);

	return cstring_to_text_with_len(VARDATA_ANY(key), colon ? colon - VARDATA_ANY(key) : len);
}

void
gd_policies_begin(GdPolicies *policies)
{
	memset(policies, 0, sizeof(GdPolicies));
	policies->context = CurrentMemoryContext;
}

void
gd_policies_end(GdPolicies *policies)
{
	if (policies->configs == NULL)
		return;
	gd_scan_end(&policies->scan);
	gd_table_close(policies->configs);
	hash_destroy(policies->found);
	policies->configs = NULL;
}

/*
 * gd_policy_load: the policy that a scan of bucket_configs stands on.
 */
void
gd_policy_load(GdPolicy *policy, GdTable *configs, TupleTableSlot *slot)
{
	text	   *kind = DatumGetTextPP(gd_slot_datum(configs, slot, CONF_KIND));
	bool		isnull;
	Datum		rate = gd_slot_value(configs, slot, CONF_RATE, &isnull);

	if (!gd_limit_kind(VARDATA_ANY(kind), VARSIZE_ANY_EXHDR(kind), &policy->kind))
		elog(ERROR, "unknown kind of limit");
	policy->name = DatumGetTextPCopy(gd_slot_datum(configs, slot, CONF_NAME));
	policy->rate = isnull ? 0 : DatumGetFloat8(rate);
	policy->capacity = DatumGetFloat8(gd_slot_datum(configs, slot, CONF_CAPACITY));
	policy->shards = DatumGetInt16(gd_slot_datum(configs, slot, CONF_SHARDS));
}

/*
 * gd_policy_find: the policy that a key is under, or NULL.
 */
const GdPolicy *
gd_policy_find(GdPolicies *policies, GdLimitKind kind, const text *key)
{
	MemoryContext old = MemoryContextSwitchTo(policies->context);
	text	   *name = gd_limit_name(key);
	FoundPolicy *found;
	char		hash_key[sizeof(found->name)];
	bool		known;

	if (policies->configs == NULL)
	{
		HASHCTL		ctl;

		policies->configs = gd_table_open_read(GD_BUCKET_CONFIGS);
		gd_scan_begin(&policies->scan, policies->configs, GD_BUCKET_CONFIGS_PKEY);
		ctl.keysize = sizeof(hash_key);
		ctl.entrysize = sizeof(FoundPolicy);
		ctl.hcxt = policies->context;
		policies->found = hash_create("gen_durable policies", 16, &ctl,
									  HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	}

	hash_key[0] = gd_limit_kinds[kind][0];
	text_to_cstring_buffer(name, hash_key + 1, sizeof(hash_key) - 1);
	found = hash_search(policies->found, hash_key, HASH_ENTER, &known);
	if (!known)
	{
		found->exists = false;
		gd_scan_text(&policies->scan, 1, cstring_to_text(gd_limit_kinds[kind]));
		gd_scan_text(&policies->scan, 2, name);
		gd_scan_start(&policies->scan);
		if (gd_scan_next(&policies->scan))
		{
			gd_policy_load(&found->policy, policies->configs, policies->scan.slot);
			found->exists = true;
		}
	}
	pfree(name);
	MemoryContextSwitchTo(old);
	return found->exists ? &found->policy : NULL;
}

static const char *
policy_lock_kind(GdLimitKind kind)
{
	return kind == GD_GATE ? "limit conc" : "limit rate";
}

/*
 * gd_policy_lock: keep everybody else from changing a policy, and from making
 * counters of it, until the end of the transaction.  Waits.
 */
void
gd_policy_lock(const GdPolicy *policy)
{
	gd_key_lock(policy_lock_kind(policy->kind), policy->name);
}

/*
 * gd_policy_stands: is what a key was found to be under, NULL for nothing, what
 * it is under by what has committed since?  Whoever asks this with one of the
 * key's counters locked can rely on it: a change has to lock that, too.
 */
bool
gd_policy_stands(GdLimitKind kind, const text *key, const GdPolicy *policy)
{
	GdPolicies	policies;
	const GdPolicy *found;
	bool		same;

	gd_policies_begin(&policies);
	found = gd_policy_find(&policies, kind, key);
	same = found && policy ? found->capacity == policy->capacity &&
		found->rate == policy->rate && found->shards == policy->shards :
		found == policy;
	gd_policies_end(&policies);
	return same;
}

/*
 * gd_policy_keep: the same without a counter, so that nobody changes it until
 * the end of the transaction.  Does not wait: false as well while somebody
 * changes it.
 */
bool
gd_policy_keep(GdLimitKind kind, const text *key, const GdPolicy *policy)
{
	text	   *name = gd_limit_name(key);
	bool		locked = gd_key_try_share(policy_lock_kind(kind), name);

	pfree(name);
	return locked && gd_policy_stands(kind, key, policy);
}
