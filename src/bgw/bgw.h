/*
 * bgw.h
 *		The background processes: what they share.  README.md has the states.
 */
#ifndef GEN_DURABLE_BGW_H
#define GEN_DURABLE_BGW_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "postmaster/bgworker.h"

#include "shmem/databases.h"

typedef enum GdFound
{
	GD_FOUND_NOTHING,			/* the extension is not here */
	GD_FOUND_OTHER_VERSION,		/* in another version than the library's */
	GD_FOUND_EXTENSION
} GdFound;

/* One pass of a database's process; returns how much it did. */
typedef int64 (*GdPass) (void *arg);

extern void gd_bgw_init(void);
extern void gd_ddl_init(void);

extern BackgroundWorkerHandle *gd_bgw_start(const char *type, const char *name,
											const char *function, Datum arg,
											const void *extra, Size extra_len);
extern bool gd_bgw_shortage(TimestampTz *last, TimestampTz now);
extern void gd_bgw_begin(void);
extern void gd_bgw_set(const char *name, const char *value);
extern void gd_bgw_connect(Oid database);
extern bool gd_bgw_interrupts(int exit_code);
extern bool gd_bgw_sleep(TimestampTz until, const char *wait_event);

extern void gd_work_begin(GdProcess process, Datum arg, GdLaunch *launch);
extern bool gd_work_interrupts(void);
extern GdFound gd_work_run(GdPass pass, void *arg, int64 *done);

extern PGDLLEXPORT void gd_executor_main(Datum arg);
extern PGDLLEXPORT void gd_launcher_main(Datum arg);
extern PGDLLEXPORT void gd_maintainer_main(Datum arg);
extern PGDLLEXPORT void gd_scheduler_main(Datum arg);
extern PGDLLEXPORT void gd_vacuum_main(Datum arg);

#endif							/* GEN_DURABLE_BGW_H */
