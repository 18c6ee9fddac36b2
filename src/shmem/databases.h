/*
 * databases.h
 *		The databases that have, or may have, processes of the extension.
 */
#ifndef GEN_DURABLE_DATABASES_H
#define GEN_DURABLE_DATABASES_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* The kinds of processes that a database has one each of. */
typedef enum GdProcess
{
	GD_MAINTAINER,
	GD_SCHEDULER,
	GD_NPROCESSES
} GdProcess;

/* What is said of a database, to be read by all its sessions: bits. */
#define GD_NEWS_WANTED 0x1		/* its scheduler wants to hear of news */
#define GD_NEWS_ALL 0x2			/* there are some of queues that are not said */

/* One launch of a database's process. */
typedef struct GdLaunch
{
	int			slot;
	GdProcess	process;
	uint32		generation;
	Oid			database;
} GdLaunch;

extern Size gd_databases_size(void);
extern void gd_databases_attach(void *start, bool first);

/* For every backend; what is safe in a commit callback says so. */
extern bool gd_database_request(Oid database, bool restart);
extern void gd_databases_rescan(void);
extern bool gd_database_hold(Oid database);
extern void gd_database_unhold(Oid database);
extern bool gd_database_is_quiet(Oid database, pid_t pids[GD_NPROCESSES]);
extern bool gd_database_has(GdProcess process);
extern bool gd_database_flag(uint32 flag);
extern bool gd_database_set_flag(uint32 flag, bool on);
extern void gd_database_tell(GdProcess process);
extern void gd_database_tell_of(Oid database, GdProcess process);
extern bool gd_database_is_held(Oid database);
extern void gd_database_due(TimestampTz due);

/* For the launcher. */
extern void gd_launcher_attach(void);
extern void gd_launcher_detach(void);
extern bool gd_databases_take_rescan(void);
extern bool gd_databases_launch(TimestampTz now, GdLaunch *launch, TimestampTz *wake_at);
extern void gd_database_unlaunch(const GdLaunch *launch, TimestampTz not_before);
extern void gd_database_forget(const GdLaunch *launch);
extern bool gd_database_not_attached(const GdLaunch *launch);

/* For a database's process. */
extern bool gd_database_attach(GdLaunch *launch);
extern void gd_database_detach(const GdLaunch *launch, bool failed);
extern bool gd_database_must_stop(const GdLaunch *launch);
extern void gd_database_want(const GdLaunch *launch, GdProcess wanted);
extern uint32 gd_database_requests(const GdLaunch *launch);
extern void gd_database_unwanted(const GdLaunch *launch, uint32 requests);
extern void gd_database_due_reset(const GdLaunch *launch);
extern TimestampTz gd_database_due_known(const GdLaunch *launch, TimestampTz due);

#endif							/* GEN_DURABLE_DATABASES_H */
