/*
 * version.h
 *		The version of the library, which is that of the SQL objects it serves.
 */
#ifndef GEN_DURABLE_VERSION_H
#define GEN_DURABLE_VERSION_H

#define GD_VERSION "0.1.0"

#endif							/* GEN_DURABLE_VERSION_H */
