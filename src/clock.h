/*
 * clock.h
 *		The engine's clock, and reading instants and spans from text.
 */
#ifndef GEN_DURABLE_CLOCK_H
#define GEN_DURABLE_CLOCK_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "fault.h"

extern TimestampTz gd_now(void);
extern TimestampTz gd_later(TimestampTz from, const Interval *span);
extern TimestampTz gd_earlier(TimestampTz from, const Interval *span);
extern Interval *gd_interval_from_ms(double ms);
extern double gd_interval_to_ms(const Interval *span);
extern bool gd_parse_interval(const char *what, const char *str, Interval *into,
							  GdFault *fault);
extern bool gd_parse_time(const char *what, const char *str, TimestampTz *into,
						  GdFault *fault);
extern char *gd_interval_iso(Interval *span);

#endif							/* GEN_DURABLE_CLOCK_H */
