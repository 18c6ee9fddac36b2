/*
 * subxact.h
 *		Work that may have to be taken back alone, and what is noted of it.
 */
#ifndef GEN_DURABLE_SUBXACT_H
#define GEN_DURABLE_SUBXACT_H

#include "postgres.h"

#include "access/xact.h"

typedef bool (*GdSubxactBody) (void *arg);

extern bool gd_subtransaction(GdSubxactBody body, void *arg, int forgiven);
extern int	gd_subxact_notes(SubXactEvent event, void *notes, int nnotes, Size size);

#endif							/* GEN_DURABLE_SUBXACT_H */
