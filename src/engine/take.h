/*
 * take.h
 *		Claiming steps, out of the scheduler's buffer where there is one.
 */
#ifndef GEN_DURABLE_TAKE_H
#define GEN_DURABLE_TAKE_H

#include "postgres.h"

#include "engine/pick.h"

extern int	gd_take_jobs(const GdPickRequest *request, GdJob **jobs);

#endif							/* GEN_DURABLE_TAKE_H */
