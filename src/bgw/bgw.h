/*
 * bgw.h
 *		The background processes: what they share.  README.md has the states.
 */
#ifndef GEN_DURABLE_BGW_H
#define GEN_DURABLE_BGW_H

#include "postgres.h"

#include "datatype/timestamp.h"

extern void gd_bgw_init(void);
extern void gd_ddl_init(void);

extern void gd_bgw_begin(void);
extern void gd_bgw_connect(Oid database);
extern bool gd_bgw_interrupts(int exit_code);
extern void gd_bgw_sleep(TimestampTz until, const char *wait_event);

extern PGDLLEXPORT void gd_launcher_main(Datum arg);
extern PGDLLEXPORT void gd_maintainer_main(Datum arg);
extern PGDLLEXPORT void gd_vacuum_main(Datum arg);

#endif							/* GEN_DURABLE_BGW_H */
