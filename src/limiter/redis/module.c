/*
 * module.c
 *		The module gen_durable_redis: rate limits and gates that are counted in
 *		a Redis server, so that several databases, and programs outside
 *		PostgreSQL, share them (GD-145..148).
 *
 * Each question is one script (the .lua files beside this one), which decides
 * by the clock of the Redis server.  A gate is a sorted set of the tickets of
 * its holders by the end of their leases; a rate limit is a hash of its tokens
 * and the instant that they are of.  The engine's side is remote.c.
 *
 * Takes no locks.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"

#include "compat.h"
#include "limiter/redis/connection.h"
#include "names.h"
#include "version.h"

GD_MODULE_MAGIC("gen_durable_redis", GD_VERSION);

#define GATE_PREFIX "gen_durable:gate:"
#define RATE_PREFIX "gen_durable:rate:"

/* What a script answers for an entry; else it is a ticket. */
#define ANSWER_NO_SLOT (-1)
#define ANSWER_NO_TOKENS (-2)
#define ANSWER_WITHOUT_SLOT 0

/* A key of a batch. */
typedef struct BatchKey
{
	char		name[GD_NAME_MAX + sizeof(GATE_PREFIX)];	/* in Redis */
	int			place;			/* among the keys, from 1 */
} BatchKey;

/* The limits of a batch, each once. */
typedef struct Batch
{
	HTAB	   *keys;
	BatchKey  **sorted;			/* by place */
	const GdPolicy **policies;
	int			n;
} Batch;

extern PGDLLEXPORT const GdRemote *gd_redis_open(const GdRemoteHost *host);

static void
key_name(char *name, size_t size, GdLimitKind kind, const text *key)
{
	strlcpy(name, kind == GD_GATE ? GATE_PREFIX : RATE_PREFIX, size);
	text_to_cstring_buffer(key, name + strlen(name), size - strlen(name));
}

/*
 * batch_place: the place of a key among those of the batch; 0 for none.
 */
static int
batch_place(Batch *batch, GdLimitKind kind, const text *key, const GdPolicy *policy)
{
	char		name[sizeof(((BatchKey *) 0)->name)];
	BatchKey   *entry;
	bool		found;

	if (key == NULL || policy == NULL)
		return 0;
	key_name(name, sizeof(name), kind, key);
	entry = hash_search(batch->keys, name, HASH_ENTER, &found);
	if (!found)
	{
		batch->sorted[batch->n] = entry;
		batch->policies[batch->n] = policy;
		entry->place = ++batch->n;
	}
	return entry->place;
}

static void
put_double(GdCall *call, double value)
{
	gd_redis_text(call, psprintf("%.17g", value));
}

/*
 * answer_good: is this an answer to a batch?
 */
static bool
answer_good(const redisReply *reply, const GdEntry *entries, const int *asked, int nasked)
{
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != nasked)
		return false;
	for (int i = 0; i < nasked; i++)
	{
		const redisReply *one = reply->element[i];
		const GdEntry *entry = &entries[asked[i]];

		if (one->type != REDIS_REPLY_INTEGER || one->integer > PG_INT32_MAX)
			return false;
		if (!(one->integer == ANSWER_NO_SLOT ? entry->gate != NULL :
			  one->integer == ANSWER_NO_TOKENS ? entry->rate != NULL :
			  entry->gate ? one->integer > 0 : one->integer == ANSWER_WITHOUT_SLOT))
			return false;
	}
	return true;
}

/*
 * redis_admit: decide a batch; see remote.h.  Entries without a policy are
 * left as they are.
 */
static bool
redis_admit(GdEntry *entries, int nentries)
{
	int		   *asked = palloc(sizeof(int) * nentries);
	int		   *places = palloc(sizeof(int) * nentries * 2);
	int			nasked = 0;
	Batch		batch = {0};
	HASHCTL		ctl;
	GdCall		call;
	redisReply *reply;

	ctl.keysize = sizeof(((BatchKey *) 0)->name);
	ctl.entrysize = sizeof(BatchKey);
	ctl.hcxt = CurrentMemoryContext;
	batch.keys = hash_create("gen_durable redis batch", 64, &ctl,
							 HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	batch.sorted = palloc(sizeof(BatchKey *) * nentries * 2);
	batch.policies = palloc(sizeof(GdPolicy *) * nentries * 2);
	for (int i = 0; i < nentries; i++)
	{
		const GdEntry *entry = &entries[i];

		if ((entry->gate && !entry->gate_policy) || (entry->rate && !entry->rate_policy) ||
			(!entry->gate && !entry->rate))
			continue;
		places[nasked * 2] = batch_place(&batch, GD_GATE, entry->gate, entry->gate_policy);
		places[nasked * 2 + 1] = batch_place(&batch, GD_RATE, entry->rate, entry->rate_policy);
		asked[nasked++] = i;
	}
	if (nasked == 0)
		return true;

	gd_redis_begin(&call, GD_SCRIPT_ADMIT, batch.n, 1 + batch.n * 3 + nasked * 3);
	for (int k = 0; k < batch.n; k++)
		gd_redis_text(&call, batch.sorted[k]->name);
	gd_redis_arguments(&call);
	gd_redis_text(&call, psprintf("%d", batch.n));
	for (int k = 0; k < batch.n; k++)
	{
		gd_redis_text(&call, batch.policies[k]->kind == GD_GATE ? "g" : "r");
		put_double(&call, batch.policies[k]->capacity);
		put_double(&call, batch.policies[k]->rate);
	}
	for (int i = 0; i < nasked; i++)
	{
		gd_redis_text(&call, psprintf("%d", places[i * 2]));
		gd_redis_text(&call, psprintf("%d", places[i * 2 + 1]));
		put_double(&call, entries[asked[i]].weight);
	}
	reply = gd_redis_call(&call);
	hash_destroy(batch.keys);
	if (reply == NULL)
		return false;
	if (!answer_good(reply, entries, asked, nasked))
	{
		gd_redis_nonsense(reply, GD_SCRIPT_ADMIT);
		return false;
	}
	for (int i = 0; i < nasked; i++)
	{
		GdEntry    *entry = &entries[asked[i]];
		int			answer = reply->element[i]->integer;

		entry->verdict = answer == ANSWER_NO_SLOT ? GD_LACKS_SLOT :
			answer == ANSWER_NO_TOKENS ? GD_LACKS_TOKENS : GD_GRANTED;
		entry->lacks_slot = answer == ANSWER_NO_SLOT;
		if (answer > 0)
			entry->shard = answer;
	}
	gd_redis_done(reply);
	return true;
}

/*
 * redis_look: what a key has free; see remote.h.
 */
static bool
redis_look(const GdPolicy *policy, const text *key, double *available)
{
	char		name[sizeof(((BatchKey *) 0)->name)];
	GdCall		call;
	redisReply *reply;
	char	   *end;

	key_name(name, sizeof(name), policy->kind, key);
	gd_redis_begin(&call, GD_SCRIPT_LOOK, 1, 3);
	gd_redis_text(&call, name);
	gd_redis_arguments(&call);
	gd_redis_text(&call, policy->kind == GD_GATE ? "g" : "r");
	put_double(&call, policy->capacity);
	put_double(&call, policy->rate);
	reply = gd_redis_call(&call);
	if (reply == NULL)
		return false;
	if (reply->type == REDIS_REPLY_STRING)
	{
		*available = strtod(reply->str, &end);
		if (end != reply->str && *end == '\0' && *available <= policy->capacity)
		{
			if (policy->kind == GD_RATE)
				*available += policy->capacity * 1e-9;
			gd_redis_done(reply);
			return true;
		}
	}
	gd_redis_nonsense(reply, GD_SCRIPT_LOOK);
	return false;
}

/*
 * slots_send: tell of slots.
 */
static bool
slots_send(GdScript script, const GdSlots *slots, int nslots)
{
	GdCall		call;
	redisReply *reply;
	bool		good;

	gd_redis_begin(&call, script, nslots, nslots);
	for (int i = 0; i < nslots; i++)
	{
		char	   *name = palloc(sizeof(((BatchKey *) 0)->name));

		key_name(name, sizeof(((BatchKey *) 0)->name), GD_GATE, slots[i].key);
		gd_redis_text(&call, name);
	}
	gd_redis_arguments(&call);
	for (int i = 0; i < nslots; i++)
		gd_redis_text(&call, psprintf("%d", slots[i].shard));
	reply = gd_redis_call(&call);
	if (reply == NULL)
		return false;
	good = reply->type == REDIS_REPLY_INTEGER && reply->integer == nslots;
	if (good)
		gd_redis_done(reply);
	else
		gd_redis_nonsense(reply, script);
	return good;
}

static bool
redis_renew(const GdSlots *slots, int nslots)
{
	return slots_send(GD_SCRIPT_RENEW, slots, nslots);
}

static bool
redis_credit(const GdSlots *slots, int nslots)
{
	return slots_send(GD_SCRIPT_CREDIT, slots, nslots);
}

/*
 * gd_redis_open: called once, when the server starts.
 */
const GdRemote *
gd_redis_open(const GdRemoteHost *host)
{
	static const GdRemote remote = {
		.name = "redis",
		.admit = redis_admit,
		.look = redis_look,
		.renew = redis_renew,
		.credit = redis_credit,
	};

	gd_redis_host(host);
	return &remote;
}
