/*
 * guc.c
 *		Settings, in alphabetical order.
 */
#include "postgres.h"

#include <limits.h>

#include "miscadmin.h"
#include "utils/guc.h"

#include "guc.h"
#include "limiter/redis/url.h"

#define SECONDS_PER_DAY 86400

int			gd_claim_scope = GD_CLAIM_LEASE;
double		gd_clock_offset = 0;
int			gd_commit_group = 1;
int			gd_dedup_retention = 7 * SECONDS_PER_DAY;
bool		gd_defer_effects = true;
int			gd_dispatch_buffer = 4096;
int			gd_drain_timeout = 5000;
bool		gd_enabled = true;
int			gd_executor_idle_timeout = 10000;
int			gd_executors_limit = 2;
int			gd_gc_batch = 10000;
int			gd_gc_interval = 60000;
int			gd_gc_retention = SECONDS_PER_DAY;
int			gd_heartbeat_interval = 20000;
int			gd_job_rows = 1000;
int			gd_lease_ttl = 60000;
int			gd_limiter_kind = GD_LIMITER_TABLE;
bool		gd_log_events = false;
int			gd_max_databases = 64;
int			gd_max_executors = 16;
int			gd_max_poll_interval = 5000;
int			gd_max_queues = 1024;
int			gd_min_demand = 1;
bool		gd_notify = false;
int			gd_poll_interval = 1000;
int			gd_prefetch = 0;
int			gd_reaper_interval = 30000;
int			gd_redis_lease = 30000;
int			gd_redis_timeout = 250;
char	   *gd_redis_url = NULL;
int			gd_stats_interval = 600000;
int			gd_vacuum_churn = 10;

static const struct config_enum_entry claim_scopes[] = {
	{"lease", GD_CLAIM_LEASE, false},
	{"session", GD_CLAIM_SESSION, false},
	{NULL, 0, false}
};

static const struct config_enum_entry limiter_kinds[] = {
	{"table", GD_LIMITER_TABLE, false},
	{"redis", GD_LIMITER_REDIS, false},
	{NULL, 0, false}
};

static bool
redis_url_check(char **url, void **extra, GucSource source)
{
	GdRedisTarget target;
	const char *wrong;

	if (*url == NULL || **url == '\0')
		return true;
	wrong = gd_redis_url_read(*url, &target);
	explicit_bzero(&target, sizeof(target));
	if (wrong)
		GUC_check_errdetail("%s", wrong);
	return wrong == NULL;
}

void
gd_guc_init(void)
{
	DefineCustomEnumVariable("gen_durable.claim_scope",
							 "What a claim ends with: its lease, or the session that made it if that is sooner.",
							 NULL,
							 &gd_claim_scope, GD_CLAIM_LEASE, claim_scopes,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomRealVariable("gen_durable.clock_offset",
							 "Milliseconds added to the engine's clock.",
							 "For tests of leases, delays and deadlines.",
							 &gd_clock_offset, 0, -1e14, 1e14,
							 PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomIntVariable("gen_durable.commit_group",
							"How many short steps an executor commits together at most.",
							"Each handler runs in a subtransaction of its own then. 1 commits each step by itself.",
							&gd_commit_group, 1, 1, 60,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("gen_durable.dedup_retention",
							"How long a signal's dedup key is remembered after the signal was consumed.",
							"It is forgotten sooner when the instance ends.",
							&gd_dedup_retention, 7 * SECONDS_PER_DAY, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomBoolVariable("gen_durable.defer_effects",
							 "Applies effects on other rows at commit.",
							 "When off each is applied at once, for tests that look inside one transaction.",
							 &gd_defer_effects, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	if (process_shared_preload_libraries_in_progress)
		DefineCustomIntVariable("gen_durable.dispatch_buffer",
								"How many claims of fed queues there is a place for in shared memory.",
								"0: no queue is fed.",
								&gd_dispatch_buffer, 4096, 0, 1000000,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("gen_durable.drain_timeout",
							"How long the scheduler takes at its end to release what nobody has taken.",
							"What remains is left to its lease.",
							&gd_drain_timeout, 5000, 0, INT_MAX,
							PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomBoolVariable("gen_durable.enabled",
							 "Runs the background processes.",
							 "Off for one database by ALTER DATABASE ... SET.",
							 &gd_enabled, true,
							 PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("gen_durable.executor_idle_timeout",
							"How long an executor without work stays.",
							NULL,
							&gd_executor_idle_timeout, 10000, 0, INT_MAX,
							PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("gen_durable.executors",
							"How many processes run the SQL steps of a queue, for each owner of machines, where the queue does not say.",
							"0 runs none.",
							&gd_executors_limit, 2, 0, 10000,
							PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("gen_durable.gc_batch",
							"How many instances one pass of gc deletes at most.",
							NULL,
							&gd_gc_batch, 10000, 1, INT_MAX,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("gen_durable.gc_interval",
							"How often the maintainer deletes what ended long enough ago.",
							NULL,
							&gd_gc_interval, 60000, 100, INT_MAX,
							PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("gen_durable.gc_retention",
							"How long an instance is kept after it ended.",
							NULL,
							&gd_gc_retention, SECONDS_PER_DAY, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("gen_durable.heartbeat_interval",
							"How often workers beat at least.",
							"A claim that was made ahead before a crash, and is without two beats, is nobody's.",
							&gd_heartbeat_interval, 20000, 1, INT_MAX,
							PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("gen_durable.job_rows",
							"How many signals and how many children a job carries at most.",
							"inbox() and children() page through the rest.",
							&gd_job_rows, 1000, 1, 1000000,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("gen_durable.lease_ttl",
							"How long a claim lasts without a heartbeat.",
							NULL,
							&gd_lease_ttl, 60000, 1, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	/* Sessions that would count in different places would admit too much. */
	DefineCustomEnumVariable("gen_durable.limiter",
							 "Where rate limits and gates are counted: in tables, or in a Redis server.",
							 NULL,
							 &gd_limiter_kind, GD_LIMITER_TABLE, limiter_kinds,
							 process_shared_preload_libraries_in_progress ? PGC_POSTMASTER : PGC_SIGHUP,
							 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("gen_durable.log_events",
							 "Writes each event of the engine to the server's log.",
							 NULL,
							 &gd_log_events, false,
							 PGC_SUSET, 0, NULL, NULL, NULL);
	if (process_shared_preload_libraries_in_progress)
		DefineCustomIntVariable("gen_durable.max_databases",
								"For how many databases with the extension there is a place in shared memory.",
								NULL,
								&gd_max_databases, 64, 1, 10000,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);
	if (process_shared_preload_libraries_in_progress)
		DefineCustomIntVariable("gen_durable.max_executors",
								"How many executors of SQL steps the server runs at most.",
								NULL,
								&gd_max_executors, 16, 1, 1000,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("gen_durable.max_poll_interval",
							"How long a wait sleeps at most before it looks again.",
							"Where wake-ups arrive this only matters for what cannot wake.",
							&gd_max_poll_interval, 5000, 1, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	if (process_shared_preload_libraries_in_progress)
		DefineCustomIntVariable("gen_durable.max_queues",
								"For how many queues, of all databases, there are statistics.",
								"The rest of a database's queues share an entry.",
								&gd_max_queues, 1024, 16, 100000,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("gen_durable.min_demand",
							"From how many on steps are claimed ahead for a queue that has some.",
							"For queues that set_queue gives no other.",
							&gd_min_demand, 1, 1, GD_FEED_MAX,
							PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("gen_durable.notify",
							 "Has the scheduler send a NOTIFY for each queue that gets work.",
							 "On the channel that channel(queue) names, for listeners that cannot wait in a connection.",
							 &gd_notify, false,
							 PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("gen_durable.poll_interval",
							"How long a wait sleeps before it looks again the first time.",
							"It doubles up to max_poll_interval while nothing comes.",
							&gd_poll_interval, 1000, 1, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("gen_durable.prefetch",
							"How many steps are claimed ahead for a queue beyond what its workers run.",
							"For queues that set_queue gives no other; 0 feeds only those that it gives a concurrency or prefetch.",
							&gd_prefetch, 0, 0, GD_FEED_MAX,
							PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("gen_durable.reaper_interval",
							"How long the maintainer sleeps at most.",
							"It wakes by itself when a lease or an await ends.",
							&gd_reaper_interval, 30000, 100, INT_MAX,
							PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("gen_durable.redis_lease",
							"How long Redis keeps a slot for a database that does not renew it.",
							"The same in all databases that share limits.",
							&gd_redis_lease, 30000, 1000, 86400000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("gen_durable.redis_timeout",
							"How long one exchange with Redis may take.",
							NULL,
							&gd_redis_timeout, 250, 1, 60000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomStringVariable("gen_durable.redis_url",
							   "The Redis server that counts limits: redis://[[user]:password@]host[:port][/database], or unix:///path.",
							   NULL,
							   &gd_redis_url, "",
							   PGC_SIGHUP, GUC_SUPERUSER_ONLY, redis_url_check, NULL, NULL);
	DefineCustomIntVariable("gen_durable.stats_interval",
							"How often the maintainer counts all instances, to set the statistics right.",
							"A long count is made more seldom; -1: only when the maintainer starts.",
							&gd_stats_interval, 600000, -1, INT_MAX,
							PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("gen_durable.vacuum_churn",
							"How many row versions may die for each live row before the maintainer vacuums the instances.",
							"0 leaves it to autovacuum, as does autovacuum = off.",
							&gd_vacuum_churn, 10, 0, 10000,
							PGC_SUSET, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("gen_durable");
}
