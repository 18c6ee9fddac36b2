/*
 * instance.h
 *		One instance's row: reading it, fencing it, and writing its transitions.
 */
#ifndef GEN_DURABLE_INSTANCE_H
#define GEN_DURABLE_INSTANCE_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "utils/array.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "compat.h"
#include "place.h"
#include "shmem/stats.h"
#include "table.h"

typedef enum GdFence
{
	GD_FENCE_HELD,				/* the token is the row's; the row is locked */
	GD_FENCE_CANCEL,			/* likewise, but its cancellation was asked
								 * for */
	GD_FENCE_STALE,				/* not the row's token, or no row */
	GD_FENCE_BUSY				/* held, but locked by another transaction */
} GdFence;

/* Instances, to be looked at one by one. */
typedef struct GdInstances
{
	GdTable    *table;
	GdScan		by_id;
	GdRow	   *row;			/* the one in hand */
} GdInstances;

extern void gd_instances_open(GdInstances *instances);
extern void gd_instances_open_read(GdInstances *instances);
extern void gd_instances_close(GdInstances *instances);
extern GdFence gd_instance_fence(GdScan *by_id, GdRow *row, const pg_uuid_t *token,
								 bool wait);
extern GdFence gd_instance_fence_look(GdScan *by_id, GdRow *row, const pg_uuid_t *token);
extern GdFence gd_instance_fence_at(GdScan *by_id, GdRow *row, const pg_uuid_t *token,
									const ItemPointerData *tid);
extern bool gd_instance_find(GdScan *by_id, int64 id);
extern GdLockResult gd_instance_lock(GdScan *by_id, GdRow *row, int64 id, bool wait);
extern bool gd_instance_find_key(GdTable *instances, const text *key, int64 *id,
								 bool live_only);
extern void gd_instance_write(GdRow *row, TimestampTz now);
extern bool gd_instance_try_write(GdRow *row, TimestampTz now);
extern void gd_instance_to_runnable(GdRow *row, TimestampTz eligible_at);
extern GdGauge gd_instance_gauge(GdStatus status, bool blocked, TimestampTz eligible_at,
								 TimestampTz updated_at);
extern bool gd_scope_has(ArrayType *scope, GdStatus status);

static inline GdStatus
gd_instance_status(GdRow *row)
{
	return gd_status_of(DatumGetObjectId(GD_VALUE(row, INST_STATUS)));
}

static inline void
gd_instance_set_status(GdRow *row, GdStatus status)
{
	gd_row_set(row, INST_STATUS, ObjectIdGetDatum(gd_catalog()->status[status]));
}

/* Where it stands in its queue. */
static inline GdPlace
gd_instance_place(GdRow *row)
{
	GdPlace		place;

	place.priority = DatumGetInt16(GD_VALUE(row, INST_PRIORITY));
	place.eligible_at = DatumGetTimestampTz(GD_VALUE(row, INST_ELIGIBLE_AT));
	place.id = DatumGetInt64(GD_VALUE(row, INST_ID));
	return place;
}

/* Does row a sort before row b of the same queue? */
static inline bool
gd_instance_before(GdRow *a, GdRow *b)
{
	GdPlace		at = gd_instance_place(a);
	GdPlace		bt = gd_instance_place(b);

	return gd_place_compare(&at, &bt) < 0;
}

static inline int64
gd_instance_id(GdRow *row)
{
	return DatumGetInt64(GD_VALUE(row, INST_ID));
}

/* A text column, or NULL. */
static inline text *
gd_instance_text(GdRow *row, GdInstanceColumn column)
{
	return GD_IS_NULL(row, column) ? NULL : DatumGetTextPP(GD_VALUE(row, column));
}

static inline int32
gd_instance_int(GdRow *row, GdInstanceColumn column)
{
	return DatumGetInt32(GD_VALUE(row, column));
}

#endif							/* GEN_DURABLE_INSTANCE_H */
