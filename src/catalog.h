/*
 * catalog.h
 *		Where the extension's tables, indexes, columns and statuses are.
 *
 * Everything is found by name once per session and again after any change to
 * one of the tables, so that no OID or attribute number is ever stale.
 */
#ifndef GEN_DURABLE_CATALOG_H
#define GEN_DURABLE_CATALOG_H

#include "postgres.h"

#include "access/attnum.h"

/* Columns, in the order of the arrays in catalog.c. */
typedef enum GdInstanceColumn
{
	INST_ID, INST_FSM, INST_FSM_VERSION, INST_STEP, INST_STATUS, INST_STATE,
	INST_RESULT, INST_AWAITS, INST_QUEUE, INST_PRIORITY, INST_CONCURRENCY_KEY,
	INST_CONCURRENCY_SHARD, INST_ELIGIBLE_AT, INST_ATTEMPT, INST_CRASHES,
	INST_LAST_ERROR, INST_AWAIT_DEADLINE, INST_RATE_LIMIT, INST_WEIGHT,
	INST_LOCKED_BY, INST_LEASE_EXPIRES_AT, INST_TOKEN, INST_HANDED,
	INST_HANDED_AWAITED, INST_BLOCKED_ON, INST_PROMOTED_ON, INST_CANCEL_REQUESTED_AT,
	INST_PARENT_ID, INST_BARRIER, INST_JOINS_BARRIER, INST_CHILDREN_PENDING,
	INST_CORRELATION_KEY, INST_CORRELATION_SCOPE, INST_CORRELATION_GUARD,
	INST_REFILL_AT, INST_INSERTED_AT, INST_UPDATED_AT, INST_FINISHED_AT,
	INST_NCOLUMNS
} GdInstanceColumn;

typedef enum GdSignalColumn
{
	SIG_ID, SIG_TARGET_ID, SIG_NAME, SIG_PAYLOAD, SIG_DEDUP_KEY,
	SIG_INSERTED_AT, SIG_CONSUMED_AT,
	SIG_NCOLUMNS
} GdSignalColumn;

typedef enum GdFsmColumn
{
	FSM_NAME, FSM_VERSION, FSM_OWNER, FSM_QUEUE, FSM_INITIAL, FSM_MAX_ATTEMPTS,
	FSM_BACKOFF_BASE, FSM_BACKOFF_CAP, FSM_MAX_CRASHES, FSM_INLINE_EXECUTION,
	FSM_HANDLER, FSM_STEP_HANDLERS, FSM_ON_ERROR, FSM_STATEMENT_TIMEOUT,
	FSM_REGISTERED_AT,
	FSM_NCOLUMNS
} GdFsmColumn;

typedef enum GdQueueColumn
{
	QUEUE_NAME, QUEUE_CONCURRENCY, QUEUE_PREFETCH, QUEUE_MIN_DEMAND, QUEUE_LEASE_TTL,
	QUEUE_PAUSED_AT, QUEUE_PAUSED_UNTIL, QUEUE_PAUSE_REASON,
	QUEUE_NCOLUMNS
} GdQueueColumn;

typedef enum GdBucketConfigColumn
{
	CONF_KIND, CONF_NAME, CONF_RATE, CONF_CAPACITY, CONF_SHARDS,
	CONF_NCOLUMNS
} GdBucketConfigColumn;

typedef enum GdBucketColumn
{
	BUCKET_KIND, BUCKET_KEY, BUCKET_SHARD, BUCKET_CAPACITY, BUCKET_AVAILABLE,
	BUCKET_DEBT, BUCKET_LAST_REFILL,
	BUCKET_NCOLUMNS
} GdBucketColumn;

typedef enum GdCreditColumn
{
	CREDIT_KEY, CREDIT_SHARD, CREDIT_SLOTS,
	CREDIT_NCOLUMNS
} GdCreditColumn;

typedef enum GdHolderColumn
{
	HOLDER_ID, HOLDER_KEY, HOLDER_SHARD, HOLDER_HELD_FOR, HOLDER_EXPIRES_AT,
	HOLDER_NCOLUMNS
} GdHolderColumn;

#define GD_MAX_COLUMNS 64
StaticAssertDecl(INST_NCOLUMNS <= GD_MAX_COLUMNS, "raise GD_MAX_COLUMNS");

typedef enum GdTableId
{
	GD_INSTANCES, GD_SIGNALS, GD_FSMS, GD_QUEUES, GD_BUCKET_CONFIGS,
	GD_BUCKETS, GD_CREDITS, GD_HOLDERS,
	GD_NTABLES
} GdTableId;

typedef enum GdIndexId
{
	GD_INSTANCES_PKEY, GD_INSTANCES_PICK, GD_INSTANCES_BLOCKED,
	GD_INSTANCES_PROMOTED, GD_INSTANCES_REFILL, GD_INSTANCES_SLOTS,
	GD_INSTANCES_LEASE, GD_INSTANCES_DEADLINE, GD_INSTANCES_KEY,
	GD_INSTANCES_CORRELATION, GD_INSTANCES_PARENT, GD_INSTANCES_FINISHED,
	GD_SIGNALS_PKEY, GD_SIGNALS_DEDUP, GD_SIGNALS_INBOX, GD_SIGNALS_TOMBSTONES,
	GD_FSMS_PKEY, GD_QUEUES_PKEY, GD_BUCKET_CONFIGS_PKEY,
	GD_BUCKETS_PKEY, GD_CREDITS_KEY, GD_HOLDERS_PKEY, GD_HOLDERS_KEY, GD_HOLDERS_EXPIRY,
	GD_NINDEXES
} GdIndexId;

/* Statuses, in the order of the enum type. */
typedef enum GdStatus
{
	GD_RUNNABLE, GD_EXECUTING, GD_AWAITING_SIGNAL, GD_AWAITING_CHILDREN,
	GD_DONE, GD_FAILED, GD_CANCELLED,
	GD_NSTATUSES
} GdStatus;

typedef struct GdCatalog
{
	Oid			table[GD_NTABLES];
	Oid			index[GD_NINDEXES];
	Oid			sequence[GD_NTABLES];	/* of the id column, where there is
										 * one */
	AttrNumber	attno[GD_NTABLES][GD_MAX_COLUMNS];
	Oid			status_type;
	Oid			status[GD_NSTATUSES];	/* the labels' OIDs */
	uint64		generation;		/* changes whenever this was read anew */
} GdCatalog;

extern void gd_catalog_init(void);
extern const GdCatalog *gd_catalog(void);
extern bool gd_catalog_has_column(GdTableId table, AttrNumber attno);
extern GdStatus gd_status_of(Oid label);
extern const char *gd_status_name(GdStatus status);

/* A terminal status is left only by revive. */
static inline bool
gd_status_is_terminal(GdStatus status)
{
	return status >= GD_DONE;
}

#endif							/* GEN_DURABLE_CATALOG_H */
