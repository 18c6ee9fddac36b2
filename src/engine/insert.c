/*
 * insert.c
 *		insert and insert_all: creating instances.
 *
 * A row with a correlation key is inserted as INSERT ... ON CONFLICT DO
 * NOTHING does it, in byte order of the keys, so that two batches with the
 * same new keys cannot deadlock (GD-036).  An uncommitted rival is waited
 * for: only its end tells whether the key is taken.  The rest go in many a
 * page.  No other table is written (GD-030).
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "engine/insert.h"
#include "engine/instance.h"
#include "engine/runners.h"
#include "json.h"
#include "names.h"
#include "shmem/cursors.h"
#include "shmem/stats.h"

/* Rows that are formed before they are written together. */
#define INSERT_CHUNK 500

PG_FUNCTION_INFO_V1(gd_insert);
PG_FUNCTION_INFO_V1(gd_insert_all);

/*
 * insert_live_scope: the default correlation scope, every live status.
 */
static ArrayType *
insert_live_scope(void)
{
	const GdCatalog *cat = gd_catalog();
	Datum		labels[GD_DONE];

	for (int s = 0; s < GD_DONE; s++)
		labels[s] = ObjectIdGetDatum(cat->status[s]);
	return construct_array(labels, GD_DONE, cat->status_type, sizeof(Oid), true, TYPALIGN_INT);
}

static void
insert_set_text(GdRow *row, GdInstanceColumn column, text *value)
{
	if (value)
		gd_row_set(row, column, PointerGetDatum(value));
}

/*
 * insert_fill: the row of an item.
 */
static void
insert_fill(GdRow *row, const GdInsertItem *item, ArrayType *live_scope, TimestampTz now)
{
	const GdSpec *spec = item->spec;
	ArrayType  *scope = spec->scope ? spec->scope : live_scope;

	gd_row_clear(row);
	gd_row_set(row, INST_ID, Int64GetDatum(item->id));
	gd_row_set(row, INST_FSM, PointerGetDatum(spec->fsm));
	gd_row_set(row, INST_FSM_VERSION, Int32GetDatum(spec->fsm_version));
	gd_row_set(row, INST_STEP, PointerGetDatum(spec->step));
	gd_instance_set_status(row, GD_RUNNABLE);
	gd_row_set(row, INST_STATE, spec->state);
	gd_row_set(row, INST_QUEUE, PointerGetDatum(spec->queue));
	gd_row_set(row, INST_PRIORITY, Int16GetDatum((int16) spec->priority));
	insert_set_text(row, INST_CONCURRENCY_KEY, spec->concurrency_key);
	gd_row_set(row, INST_ELIGIBLE_AT, TimestampTzGetDatum(spec->eligible_at));
	gd_row_set(row, INST_ATTEMPT, Int32GetDatum(0));
	gd_row_set(row, INST_CRASHES, Int32GetDatum(0));
	insert_set_text(row, INST_RATE_LIMIT, spec->rate_limit);
	gd_row_set(row, INST_WEIGHT, Float8GetDatum(spec->weight));
	if (item->parent_id != 0)
		gd_row_set(row, INST_PARENT_ID, Int64GetDatum(item->parent_id));
	gd_row_set(row, INST_JOINS_BARRIER, Int32GetDatum(item->barrier));
	gd_row_set(row, INST_BARRIER, Int32GetDatum(0));
	gd_row_set(row, INST_CHILDREN_PENDING, Int32GetDatum(0));
	insert_set_text(row, INST_CORRELATION_KEY, spec->correlation_key);
	gd_row_set(row, INST_CORRELATION_SCOPE, PointerGetDatum(scope));
	if (spec->correlation_key && gd_scope_has(scope, GD_RUNNABLE))
		insert_set_text(row, INST_CORRELATION_GUARD, spec->correlation_key);
	gd_row_set(row, INST_INSERTED_AT, TimestampTzGetDatum(now));
	gd_row_set(row, INST_UPDATED_AT, TimestampTzGetDatum(now));
}

/*
 * insert_keyed: insert a row that holds its correlation key, or find who does.
 */
static void
insert_keyed(GdRow *row, GdInsertItem *item)
{
	GdRow	   *occupant = gd_row_create(row->table);
	ItemPointerData conflict;

	while (!(item->created = gd_row_insert_unless(row, GD_INSTANCES_CORRELATION, &conflict)))
	{
		/* It can be gone by now; then the key is free. */
		if (gd_row_fetch_any(occupant, &conflict))
		{
			item->id = gd_instance_id(occupant);
			break;
		}
	}
	gd_row_free(occupant);
}

typedef struct InsertOrder
{
	const text *key;
	int			index;
} InsertOrder;

static int
insert_order_compare(const void *a, const void *b)
{
	const InsertOrder *x = a;
	const InsertOrder *y = b;
	int			xlen = VARSIZE_ANY_EXHDR(x->key);
	int			ylen = VARSIZE_ANY_EXHDR(y->key);
	int			result = memcmp(VARDATA_ANY(x->key), VARDATA_ANY(y->key), Min(xlen, ylen));

	if (result == 0)
		result = xlen - ylen;
	return result != 0 ? result : x->index - y->index;
}

/*
 * insert_created: a row that is there once the transaction commits.
 */
static void
insert_created(const GdSpec *spec, TimestampTz now)
{
	const text *queue = spec->queue;
	TimestampTz eligible_at = spec->eligible_at;

	gd_runner_announce(spec->fsm, spec->fsm_version, spec->step, queue, eligible_at, now);
	gd_stats_move(queue, GD_GAUGE_NONE, gd_instance_gauge(GD_RUNNABLE, false, eligible_at, now));
	gd_stats_count(queue, GD_COUNT_INSERTED, 1);
}

/*
 * gd_insert_items: create an instance for each item, or find who occupies its
 * correlation key.
 */
void
gd_insert_items(GdTable *instances, GdInsertItem *items, int nitems, TimestampTz now)
{
	ArrayType  *live_scope = insert_live_scope();
	int			chunk_size = Min(Max(nitems, 1), INSERT_CHUNK);
	GdRow	  **chunk = palloc(sizeof(GdRow *) * chunk_size);
	InsertOrder *keyed = palloc(sizeof(InsertOrder) * Max(nitems, 1));
	int			nchunk = 0;
	int			nkeyed = 0;

	for (int i = 0; i < chunk_size; i++)
		chunk[i] = gd_row_create(instances);

	/* Those that hold no key wait for nobody and hinder nobody. */
	for (int i = 0; i < nitems; i++)
	{
		GdPlace		place;

		CHECK_FOR_INTERRUPTS();
		items[i].id = gd_table_next_id(instances);
		items[i].created = true;
		insert_fill(chunk[nchunk], &items[i], live_scope, now);
		place = gd_instance_place(chunk[nchunk]);
		gd_cursor_runnable(items[i].spec->queue, &place);
		if (!GD_IS_NULL(chunk[nchunk], INST_CORRELATION_GUARD))
		{
			keyed[nkeyed].key = items[i].spec->correlation_key;
			keyed[nkeyed++].index = i;
		}
		else
		{
			insert_created(items[i].spec, now);
			if (++nchunk == chunk_size)
			{
				gd_rows_insert(instances, chunk, nchunk);
				nchunk = 0;
			}
		}
	}
	if (nchunk == 1)
		gd_row_insert(chunk[0]);
	else if (nchunk > 1)
		gd_rows_insert(instances, chunk, nchunk);

	qsort(keyed, nkeyed, sizeof(InsertOrder), insert_order_compare);
	for (int k = 0; k < nkeyed; k++)
	{
		GdInsertItem *item = &items[keyed[k].index];

		insert_fill(chunk[0], item, live_scope, now);
		insert_keyed(chunk[0], item);
		if (item->created)
			insert_created(item->spec, now);
		else
			gd_stats_count(item->spec->queue, GD_COUNT_DUPLICATES, 1);
	}

	for (int i = 0; i < chunk_size; i++)
		gd_row_free(chunk[i]);
	pfree(chunk);
	pfree(keyed);
}

/*
 * insert_arg_scope: the correlation scope, without NULLs.
 */
static ArrayType *
insert_arg_scope(FunctionCallInfo fcinfo, int argno)
{
	ArrayType  *scope;

	if (PG_ARGISNULL(argno))
		return NULL;
	scope = PG_GETARG_ARRAYTYPE_P(argno);
	if (ARR_HASNULL(scope) && array_contains_nulls(scope))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("correlation_scope must not contain NULL")));
	if (ARR_NDIM(scope) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("correlation_scope must have one dimension, not %d", ARR_NDIM(scope))));
	if (ArrayGetNItems(ARR_NDIM(scope), ARR_DIMS(scope)) > GD_NSTATUSES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("correlation_scope has %d statuses, at most %d are allowed",
						ArrayGetNItems(ARR_NDIM(scope), ARR_DIMS(scope)), GD_NSTATUSES)));
	if (ARR_HASNULL(scope))
	{
		/* A null bitmap that marks nothing; store it without. */
		Datum	   *labels;
		bool	   *nulls;
		int			n;

		deconstruct_array(scope, ARR_ELEMTYPE(scope), sizeof(Oid), true, TYPALIGN_INT,
						  &labels, &nulls, &n);
		scope = construct_array(labels, n, ARR_ELEMTYPE(scope), sizeof(Oid), true, TYPALIGN_INT);
	}
	return scope;
}

/*
 * insert(fsm, state, step, fsm_version, queue, priority, concurrency_key,
 *		  correlation_key, correlation_scope, rate_limit, weight, eligible_at,
 *		  schedule_in) -> (id, created)
 */
Datum
gd_insert(PG_FUNCTION_ARGS)
{
	TimestampTz now = gd_now();
	GdMachine	machine = {0};
	GdPolicies	policies;
	GdSpec		spec = {0};
	GdInsertItem item = {.spec = &spec};
	GdTable    *instances;
	TupleDesc	desc;
	Datum		values[2];
	bool		nulls[2] = {false};

	gd_writes("gen_durable.insert()");
	spec.fsm = gd_arg_name(fcinfo, 0, "machine name");
	spec.state = PG_ARGISNULL(1) ? DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")) :
		PG_GETARG_DATUM(1);
	spec.step = gd_arg_name_or_null(fcinfo, 2, "step");
	spec.fsm_version = PG_ARGISNULL(3) ? GD_NEWEST_VERSION :
		gd_arg_positive(fcinfo, 3, "fsm_version");
	spec.queue = gd_arg_name_or_null(fcinfo, 4, "queue");
	spec.priority = PG_ARGISNULL(5) ? 0 : PG_GETARG_INT32(5);
	spec.concurrency_key = gd_arg_name_or_null(fcinfo, 6, "concurrency key");
	spec.correlation_key = gd_arg_name_or_null(fcinfo, 7, "correlation key");
	spec.scope = insert_arg_scope(fcinfo, 8);
	spec.rate_limit = gd_arg_name_or_null(fcinfo, 9, "rate limit");
	spec.weight = PG_ARGISNULL(10) ? 1 : PG_GETARG_FLOAT8(10);
	spec.eligible_at = now;
	if (!PG_ARGISNULL(11))
		spec.eligible_at = PG_GETARG_TIMESTAMPTZ(11);
	else if (!PG_ARGISNULL(12))
	{
		gd_check_not_negative("schedule_in", PG_GETARG_INTERVAL_P(12), NULL);
		spec.eligible_at = gd_later(now, PG_GETARG_INTERVAL_P(12));
	}
	gd_spec_machine(&spec, &machine);
	gd_policies_begin(&policies);
	gd_spec_check(&spec, &policies, NULL);
	gd_policies_end(&policies);

	instances = gd_table_open(GD_INSTANCES);
	gd_insert_items(instances, &item, 1, now);
	gd_table_close(instances);
	gd_table_flush();

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = Int64GetDatum(item.id);
	values[1] = BoolGetDatum(item.created);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/*
 * insert_all(fsm, entries) -> setof (ord, id, created)
 */
Datum
gd_insert_all(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *out = (ReturnSetInfo *) fcinfo->resultinfo;
	TimestampTz now = gd_now();
	text	   *fsm = gd_arg_name(fcinfo, 0, "machine name");
	Jsonb	   *entries = gd_json_arg_array(PG_GETARG_DATUM(1), PG_ARGISNULL(1), "entries");
	int			nentries = JB_ROOT_COUNT(entries);
	GdSpec	   *specs = palloc(sizeof(GdSpec) * Max(nentries, 1));
	GdInsertItem *items = palloc0(sizeof(GdInsertItem) * Max(nentries, 1));
	GdMachine	machine = {0};
	GdPolicies	policies;
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	entry;
	GdTable    *instances;
	int			n = 0;

	gd_writes("gen_durable.insert_all()");
	InitMaterializedSRF(fcinfo, 0);

	gd_policies_begin(&policies);
	it = JsonbIteratorInit(&entries->root);
	while ((token = JsonbIteratorNext(&it, &entry, true)) != WJB_DONE)
	{
		char		what[32];

		if (token != WJB_ELEM)
			continue;
		snprintf(what, sizeof(what), "entry %d", n + 1);
		gd_spec_read(&entry, what, fsm, now, &machine, &policies, &specs[n], NULL);
		items[n].spec = &specs[n];
		n++;
	}
	gd_policies_end(&policies);
	Assert(n == nentries);

	instances = gd_table_open(GD_INSTANCES);
	gd_insert_items(instances, items, n, now);
	gd_table_close(instances);
	gd_table_flush();

	for (int i = 0; i < n; i++)
	{
		Datum		values[3];
		bool		nulls[3] = {false};

		values[0] = Int32GetDatum(i + 1);
		values[1] = Int64GetDatum(items[i].id);
		values[2] = BoolGetDatum(items[i].created);
		tuplestore_putvalues(out->setResult, out->setDesc, values, nulls);
	}
	return (Datum) 0;
}
