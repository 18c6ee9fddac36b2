/*
 * wait.h
 *		What procedures that wait have in common.
 */
#ifndef GEN_DURABLE_WAIT_H
#define GEN_DURABLE_WAIT_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "fmgr.h"

extern void gd_wait_check(FunctionCallInfo fcinfo, const char *procedure);
extern void gd_wait_let_go(const char *procedure);
extern TimestampTz gd_wait_deadline(FunctionCallInfo fcinfo, int argno);

#endif							/* GEN_DURABLE_WAIT_H */
