/*
 * channel.h
 *		The channel on which listeners hear of a queue.
 */
#ifndef GEN_DURABLE_CHANNEL_H
#define GEN_DURABLE_CHANNEL_H

#include "postgres.h"

extern const char *gd_channel_name(const text *queue);

#endif							/* GEN_DURABLE_CHANNEL_H */
