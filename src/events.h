/*
 * events.h
 *		Events of the engine, for the server's log.
 */
#ifndef GEN_DURABLE_EVENTS_H
#define GEN_DURABLE_EVENTS_H

#include "postgres.h"

extern char *gd_event_value(const text *value);
extern void gd_event(const char *event, const char *fmt,...) pg_attribute_printf(2, 3);

#endif							/* GEN_DURABLE_EVENTS_H */
