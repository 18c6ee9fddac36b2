/*
 * job.c
 *		A claimed step as a worker gets it: type gen_durable.job.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "fmgr.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/datum.h"

#include "engine/children.h"
#include "engine/instance.h"
#include "engine/job.h"
#include "json.h"

void
gd_job_loader_begin(GdJobLoader *loader, GdTable *instances)
{
	loader->signals = gd_table_open_read(GD_SIGNALS);
	gd_scan_begin(&loader->inboxes, loader->signals, GD_SIGNALS_INBOX);
	gd_scan_begin(&loader->children, instances, GD_INSTANCES_PARENT);
	gd_job_loader_refresh(loader);
	loader->none = DirectFunctionCall1(jsonb_in, CStringGetDatum("[]"));
}

/*
 * gd_job_loader_refresh: see what was committed since.
 *
 * To be called after each snapshot under which candidates are looked for: a
 * row that a signal or its last child has woken must be handed that signal
 * and that child.
 */
void
gd_job_loader_refresh(GdJobLoader *loader)
{
	gd_scan_refresh(&loader->inboxes);
	gd_scan_refresh(&loader->children);
	loader->any_signals = RelationGetNumberOfBlocks(loader->signals->rel) > 0;
}

void
gd_job_loader_end(GdJobLoader *loader)
{
	gd_scan_end(&loader->children);
	gd_scan_end(&loader->inboxes);
	gd_table_close(loader->signals);
}

static void
job_set_lists(GdJobLoader *loader, GdRow *row, const GdInbox *inbox, GdJob *job)
{
	job->values[JOB_SIGNALS] = inbox->signals;
	job->values[JOB_AWAITED] = inbox->awaited;
	job->values[JOB_CHILDREN] = gd_instance_int(row, INST_BARRIER) == 0 ? loader->none :
		gd_children_load(&loader->children, gd_instance_id(row), loader->none);
}

/*
 * gd_job_load: load the inbox and the children of a row about to be claimed,
 * and note on the row which signals the claim is handed.
 */
void
gd_job_load(GdJobLoader *loader, GdRow *row, GdJob *job)
{
	ArrayType  *awaits = GD_IS_NULL(row, INST_AWAITS) ? NULL :
	DatumGetArrayTypeP(GD_VALUE(row, INST_AWAITS));
	GdInbox		inbox = {loader->none, loader->none, NULL, NULL};

	if (loader->any_signals && gd_inbox_load(&loader->inboxes, gd_instance_id(row), awaits, &inbox))
	{
		gd_row_set(row, INST_HANDED, PointerGetDatum(inbox.handed));
		if (inbox.handed_awaited)
			gd_row_set(row, INST_HANDED_AWAITED, PointerGetDatum(inbox.handed_awaited));
	}
	job_set_lists(loader, row, &inbox, job);
}

/*
 * gd_job_load_claimed: likewise for a row that is claimed: what its claim was
 * handed.
 */
void
gd_job_load_claimed(GdJobLoader *loader, GdRow *row, GdJob *job)
{
	GdInbox		inbox = {loader->none, loader->none, NULL, NULL};

	if (!GD_IS_NULL(row, INST_HANDED))
		gd_inbox_reload(&loader->inboxes, gd_instance_id(row),
						DatumGetArrayTypeP(GD_VALUE(row, INST_HANDED)),
						GD_IS_NULL(row, INST_HANDED_AWAITED) ? NULL :
						DatumGetArrayTypeP(GD_VALUE(row, INST_HANDED_AWAITED)), &inbox);
	job_set_lists(loader, row, &inbox, job);
}

static void
job_copy(GdRow *row, GdJob *job, GdJobColumn to, GdInstanceColumn from, bool byval, int len)
{
	job->nulls[to] = GD_IS_NULL(row, from);
	job->values[to] = job->nulls[to] ? (Datum) 0 : datumCopy(GD_VALUE(row, from), byval, len);
}

/*
 * gd_job_finish: copy what the claimed row says.
 */
void
gd_job_finish(GdRow *row, GdJob *job)
{
	job_copy(row, job, JOB_TOKEN, INST_TOKEN, false, UUID_LEN);
	job_copy(row, job, JOB_ID, INST_ID, true, sizeof(int64));
	job_copy(row, job, JOB_FSM, INST_FSM, false, -1);
	job_copy(row, job, JOB_FSM_VERSION, INST_FSM_VERSION, true, sizeof(int32));
	job_copy(row, job, JOB_STEP, INST_STEP, false, -1);
	job_copy(row, job, JOB_STATE, INST_STATE, false, -1);
	job_copy(row, job, JOB_ATTEMPT, INST_ATTEMPT, true, sizeof(int32));
	job_copy(row, job, JOB_QUEUE, INST_QUEUE, false, -1);
	job_copy(row, job, JOB_CONCURRENCY_KEY, INST_CONCURRENCY_KEY, false, -1);
	job_copy(row, job, JOB_LEASE_EXPIRES_AT, INST_LEASE_EXPIRES_AT, true, sizeof(TimestampTz));
	job->nulls[JOB_AWAITED] = false;
	job->nulls[JOB_SIGNALS] = false;
	job->nulls[JOB_CHILDREN] = false;
	job->place = gd_instance_place(row);
	job->tid = row->tid;
	job->plain = GD_IS_NULL(row, INST_CONCURRENCY_KEY) && GD_IS_NULL(row, INST_RATE_LIMIT);
}

/*
 * gd_job_size: bytes of the large parts of a job.
 */
Size
gd_job_size(const GdJob *job)
{
	return toast_raw_datum_size(job->values[JOB_STATE]) +
		toast_raw_datum_size(job->values[JOB_AWAITED]) +
		toast_raw_datum_size(job->values[JOB_SIGNALS]) +
		toast_raw_datum_size(job->values[JOB_CHILDREN]);
}

static int
job_compare(const void *a, const void *b)
{
	return gd_place_compare(&((const GdJob *) a)->place, &((const GdJob *) b)->place);
}

/*
 * gd_jobs_sort: most urgent first, by (priority, eligible_at, id).
 */
void
gd_jobs_sort(GdJob *jobs, int njobs)
{
	qsort(jobs, njobs, sizeof(GdJob), job_compare);
}

static void
job_put_text(JsonbParseState **to, const char *key, const GdJob *job, GdJobColumn column)
{
	if (job->nulls[column])
		gd_json_put_null(to, key);
	else
		gd_json_put_text(to, key, DatumGetTextPP(job->values[column]));
}

/*
 * gd_jobs_jsonb: jobs as an array of objects, keyed as the type's attributes.
 */
Datum
gd_jobs_jsonb(GdJob *jobs, int njobs)
{
	JsonbParseState *to = NULL;

	pushJsonbValue(&to, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < njobs; i++)
	{
		GdJob	   *job = &jobs[i];

		pushJsonbValue(&to, WJB_BEGIN_OBJECT, NULL);
		gd_json_put_uuid(&to, "token", DatumGetUUIDP(job->values[JOB_TOKEN]));
		gd_json_put_int(&to, "id", DatumGetInt64(job->values[JOB_ID]));
		job_put_text(&to, "fsm", job, JOB_FSM);
		gd_json_put_int(&to, "fsm_version", DatumGetInt32(job->values[JOB_FSM_VERSION]));
		job_put_text(&to, "step", job, JOB_STEP);
		gd_json_put_jsonb(&to, "state", job->values[JOB_STATE]);
		gd_json_put_int(&to, "attempt", DatumGetInt32(job->values[JOB_ATTEMPT]));
		gd_json_put_jsonb(&to, "awaited", job->values[JOB_AWAITED]);
		gd_json_put_jsonb(&to, "signals", job->values[JOB_SIGNALS]);
		gd_json_put_jsonb(&to, "children", job->values[JOB_CHILDREN]);
		job_put_text(&to, "queue", job, JOB_QUEUE);
		job_put_text(&to, "concurrency_key", job, JOB_CONCURRENCY_KEY);
		gd_json_put_time(&to, "lease_expires_at",
						 DatumGetTimestampTz(job->values[JOB_LEASE_EXPIRES_AT]));
		pushJsonbValue(&to, WJB_END_OBJECT, NULL);
	}
	return JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&to, WJB_END_ARRAY, NULL)));
}
