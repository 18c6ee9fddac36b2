/*
 * shmem.h
 *		The library's piece of shared memory.
 */
#ifndef GEN_DURABLE_SHMEM_H
#define GEN_DURABLE_SHMEM_H

#include "postgres.h"

extern void gd_shmem_init(void);
extern bool gd_shmem_ready(void);

#endif							/* GEN_DURABLE_SHMEM_H */
