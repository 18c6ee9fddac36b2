/*
 * runners.c
 *		Who runs a step: a client's program, or the server as the machine's
 *		owner.
 *
 * A step that has a handler, of its own or its machine's, is the server's, and
 * no client is handed it; all others are the clients'.  That is asked of every
 * row that is claimed or made runnable, so what the machines say is kept per
 * session.
 *
 * register_fsm tells all sessions, as a change of a table does.  SQL that
 * writes the table itself tells nobody, so what is kept is trusted for no
 * longer than KEEP_MS.  A row that is handed to the wrong kind meanwhile fails
 * that try, as it does when its handler is taken away while it is claimed.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/runners.h"
#include "names.h"
#include "shmem/executors.h"
#include "shmem/wake.h"

#define KEEP_MS 1000

/* Machines that are kept; beyond, all are forgotten. */
#define KEEP_MACHINES 1000

typedef struct MachineKey
{
	char		name[GD_NAME_MAX + 1];
	int			version;
} MachineKey;

typedef struct StepHandler
{
	char	   *step;
	char	   *handler;
} StepHandler;

typedef struct Machine
{
	MachineKey	key;
	bool		inline_execution;
	char	   *owner;			/* NULL: it is not registered */
	Oid			owner_id;
	char	   *handler;		/* of all steps without their own, or NULL */
	StepHandler *steps;
	int			nsteps;
	char	   *on_error;
	int			timeout_ms;
} Machine;

static MemoryContext context = NULL;
static HTAB *machines = NULL;	/* NULL: nothing is known */
static int	any = -1;			/* has any machine a handler?  -1: not known */
static TimestampTz known_since;
static bool stale = false;
static Oid	fsms_id = InvalidOid;	/* the table, as it was last read */

/*
 * runners_forget: relcache callback: may only flip flags.  InvalidOid stands
 * for all.
 */
static void
runners_forget(Datum arg, Oid relid)
{
	if (relid == InvalidOid || relid == fsms_id)
		stale = true;
}

/*
 * runners_forget_roles: syscache callback: an owner may have come or gone.
 */
static void
runners_forget_roles(Datum arg, int cacheid, uint32 hash)
{
	stale = true;
}

void
gd_runners_init(void)
{
	CacheRegisterSyscacheCallback(AUTHOID, runners_forget_roles, (Datum) 0);
	CacheRegisterRelcacheCallback(runners_forget, (Datum) 0);
}

/*
 * gd_runners_changed: the running transaction has changed a machine: all
 * sessions look again, this one at once and the others at its commit.
 */
void
gd_runners_changed(void)
{
	CacheInvalidateRelcacheByRelid(gd_catalog()->table[GD_FSMS]);
}

/*
 * runners_check: begin anew where what is known may not hold any more.
 */
static void
runners_check(void)
{
	TimestampTz now = GetCurrentTimestamp();
	HASHCTL		ctl;

	if (machines && !stale && now - known_since < KEEP_MS * INT64CONST(1000) &&
		now >= known_since && hash_get_num_entries(machines) < KEEP_MACHINES)
		return;
	if (context == NULL)
		context = AllocSetContextCreate(TopMemoryContext, "gen_durable runners",
										ALLOCSET_DEFAULT_SIZES);
	machines = NULL;
	MemoryContextReset(context);
	stale = false;
	any = -1;
	known_since = now;
	fsms_id = gd_catalog()->table[GD_FSMS];
	ctl.keysize = sizeof(MachineKey);
	ctl.entrysize = sizeof(Machine);
	ctl.hcxt = context;
	machines = hash_create("gen_durable runners", 64, &ctl,
						   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/*
 * machine_steps: read {"step": "handler"}.
 */
static void
machine_steps(Machine *machine, Jsonb *handlers)
{
	JsonbIterator *it = JsonbIteratorInit(&handlers->root);
	JsonbIteratorToken token;
	JsonbValue	value;
	int			size = JB_ROOT_COUNT(handlers);

	machine->steps = palloc0(sizeof(StepHandler) * Max(size, 1));
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			machine->steps[machine->nsteps].step = pnstrdup(value.val.string.val, value.val.string.len);
		else if (token == WJB_VALUE && value.type == jbvString && machine->nsteps < size)
			machine->steps[machine->nsteps++].handler =
				pnstrdup(value.val.string.val, value.val.string.len);
	}
}

static char *
slot_string(GdScan *scan, int column)
{
	bool		isnull;
	Datum		value = gd_slot_value(scan->table, scan->slot, column, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

/*
 * machine_fill: what the row that a scan stands on says.  The role of the
 * owner is looked up now and again, since roles come and go.
 */
static void
machine_fill(Machine *machine, GdScan *scan)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	bool		isnull;
	Datum		value;

	machine->owner = slot_string(scan, FSM_OWNER);
	machine->owner_id = get_role_oid(machine->owner, true);
	machine->handler = slot_string(scan, FSM_HANDLER);
	machine->on_error = slot_string(scan, FSM_ON_ERROR);
	machine_steps(machine, DatumGetJsonbPCopy(gd_slot_datum(scan->table, scan->slot,
															FSM_STEP_HANDLERS)));
	machine->inline_execution = DatumGetBool(gd_slot_datum(scan->table, scan->slot,
														   FSM_INLINE_EXECUTION));
	value = gd_slot_value(scan->table, scan->slot, FSM_STATEMENT_TIMEOUT, &isnull);
	if (!isnull)
		machine->timeout_ms = (int) gd_interval_to_ms(DatumGetIntervalP(value));
	MemoryContextSwitchTo(old);
}

static const Machine *
machine_get(const text *fsm, int version)
{
	MachineKey	key;
	Machine		read = {0};
	Machine    *machine;
	bool		found;
	GdTable    *fsms;
	GdScan		scan;

	runners_check();
	memset(&key, 0, sizeof(key));
	memcpy(key.name, VARDATA_ANY(fsm), Min(VARSIZE_ANY_EXHDR(fsm), GD_NAME_MAX));
	key.version = version;
	machine = hash_search(machines, &key, HASH_FIND, NULL);
	if (machine)
		return machine;

	fsms = gd_table_open_read(GD_FSMS);
	gd_scan_begin(&scan, fsms, GD_FSMS_PKEY);
	gd_scan_text(&scan, 1, fsm);
	gd_scan_key(&scan, 2, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(version));
	gd_scan_start(&scan);
	if (gd_scan_next(&scan))
		machine_fill(&read, &scan);
	gd_scan_end(&scan);
	gd_table_close(fsms);

	machine = hash_search(machines, &key, HASH_ENTER, &found);
	read.key = key;
	*machine = read;
	return machine;
}

static const char *
machine_handler(const Machine *machine, const text *step)
{
	int			len = VARSIZE_ANY_EXHDR(step);

	for (int i = 0; i < machine->nsteps; i++)
		if (strncmp(machine->steps[i].step, VARDATA_ANY(step), len) == 0 &&
			machine->steps[i].step[len] == '\0')
			return machine->steps[i].handler;
	return machine->handler;
}

/*
 * gd_runner_find: with what does the server run a step?  False if a client's
 * program runs it.  What it returns is good until the next call of this room.
 */
bool
gd_runner_find(const text *fsm, int version, const text *step, GdRunner *runner)
{
	const Machine *machine = machine_get(fsm, version);
	const char *handler = machine_handler(machine, step);

	if (handler == NULL)
		return false;
	runner->owner = machine->owner_id;
	runner->owner_name = machine->owner;
	runner->handler = handler;
	runner->on_error = machine->on_error;
	runner->timeout_ms = machine->timeout_ms;
	return true;
}

/*
 * gd_runner_inline: may the steps of a machine run on in the same claim
 * (GD-325)?
 */
bool
gd_runner_inline(const text *fsm, int version)
{
	return machine_get(fsm, version)->inline_execution;
}

/*
 * gd_runners_any: has any machine of the database a handler?
 */
bool
gd_runners_any(void)
{
	GdTable    *fsms;
	GdScan		scan;
	bool		found = false;

	runners_check();
	if (any >= 0)
		return any > 0;
	fsms = gd_table_open_read(GD_FSMS);
	gd_scan_begin(&scan, fsms, GD_FSMS_PKEY);
	gd_scan_start(&scan);
	while (!found && gd_scan_next(&scan))
	{
		bool		no_handler;

		(void) gd_slot_value(fsms, scan.slot, FSM_HANDLER, &no_handler);
		found = !no_handler ||
			JB_ROOT_COUNT(DatumGetJsonbP(gd_slot_datum(fsms, scan.slot, FSM_STEP_HANDLERS))) > 0;
	}
	gd_scan_end(&scan);
	gd_table_close(fsms);
	any = found;
	return found;
}

/*
 * gd_runner_claims: does a claimant claim this step?
 */
bool
gd_runner_claims(const GdClaimant *claimant, const text *fsm, int version, const text *step)
{
	GdRunner	runner;

	if (!gd_runner_find(fsm, version, step, &runner))
		return claimant->kind == GD_CLAIMS_FOR_CLIENT;
	switch (claimant->kind)
	{
		case GD_CLAIMS_FOR_CLIENT:
			return false;
		case GD_CLAIMS_FOR_OWNER:
			return OidIsValid(runner.owner) && runner.owner == claimant->owner;
		case GD_CLAIMS_FOR_CALLER:
			return OidIsValid(runner.owner) && has_privs_of_role(GetUserId(), runner.owner);
	}
	return false;
}

/*
 * gd_runner_announce: the running transaction makes a step runnable: who runs
 * it is told at commit.
 */
void
gd_runner_announce(const text *fsm, int version, const text *step, const text *queue,
				   TimestampTz eligible_at, TimestampTz now)
{
	GdRunner	runner;

	if (gd_runner_find(fsm, version, step, &runner))
		gd_executors_runnable(runner.owner, queue, eligible_at, now);
	else
		gd_wake_runnable(queue, eligible_at, now);
}
