/*
 * listing.h
 *		What lists are ordered and filtered by: a row for each run.
 */
#ifndef GEN_DURABLE_RUN_LISTING_H
#define GEN_DURABLE_RUN_LISTING_H

#include "postgres.h"

#include "run_store/run.h"
#include "table.h"

/* The trigger that sees to the listing where SQL writes runs. */
#define GD_LISTING_TRIGGER "run_listed"

extern void gd_run_listing_add(GdRow *run);
extern void gd_run_listing_move(GdRow *run, GdRunStatus from);
extern void gd_run_listing_remove(GdRow *run);

#endif							/* GEN_DURABLE_RUN_LISTING_H */
