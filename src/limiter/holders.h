/*
 * holders.h
 *		Slots that programs hold by a lease.
 */
#ifndef GEN_DURABLE_HOLDERS_H
#define GEN_DURABLE_HOLDERS_H

#include "postgres.h"

#include "datatype/timestamp.h"

extern int64 gd_holders_expire(int max_rows);

#endif							/* GEN_DURABLE_HOLDERS_H */
