/*
 * handler.h
 *		The functions that the server runs steps with.
 */
#ifndef GEN_DURABLE_HANDLER_H
#define GEN_DURABLE_HANDLER_H

#include "postgres.h"

#include "fmgr.h"

typedef enum GdHandlerKind
{
	GD_HANDLER_STEP,			/* (gen_durable.job) returns jsonb */
	GD_HANDLER_ERROR			/* (gen_durable.job, jsonb) returns jsonb */
} GdHandlerKind;

extern text *gd_handler_check(Oid function, GdHandlerKind kind, Oid owner);
extern FmgrInfo * gd_handler_get(const char *handler, GdHandlerKind kind, Oid owner);
extern Oid	gd_job_type(void);

#endif							/* GEN_DURABLE_HANDLER_H */
