/*
 * subxact.h
 *		Work that may have to be taken back alone.
 */
#ifndef GEN_DURABLE_SUBXACT_H
#define GEN_DURABLE_SUBXACT_H

#include "postgres.h"

typedef bool (*GdSubxactBody) (void *arg);

extern bool gd_subtransaction(GdSubxactBody body, void *arg, int forgiven);

#endif							/* GEN_DURABLE_SUBXACT_H */
