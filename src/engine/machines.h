/*
 * machines.h
 *		Registered machines: the settings that instances fall under.
 */
#ifndef GEN_DURABLE_MACHINES_H
#define GEN_DURABLE_MACHINES_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "table.h"

/* A machine as it is registered, or the defaults where it is not. */
typedef struct GdMachine
{
	text	   *name;
	int			version;
	bool		newest;			/* was it asked for as the newest? */
	text	   *queue;
	text	   *initial;
	int			max_attempts;
	Interval	backoff_base;
	Interval	backoff_cap;
	int			max_crashes;	/* -1: unbounded */
} GdMachine;

/* Stands for the newest version. */
#define GD_NEWEST_VERSION 0

extern bool gd_machine_find(GdScan *scan, const text *name, int version);
extern bool gd_machine_admin(void);
extern void gd_machine_read(const text *name, int version, GdMachine *machine);
extern Interval *gd_machine_backoff(const GdMachine *machine, int attempt);

#endif							/* GEN_DURABLE_MACHINES_H */
