/*
 * fault.h
 *		Errors of the contract, and validation that can report instead of raise.
 *
 * A batch of outcomes reports each bad entry on its own row, so everything
 * that validates input takes a GdFault.  With NULL it raises; else it fills
 * the fault in and returns false, and nothing was thrown.
 */
#ifndef GEN_DURABLE_FAULT_H
#define GEN_DURABLE_FAULT_H

#include "postgres.h"

#include "compat.h"

#define GD_ERRCODE_STALE_CLAIM	MAKE_SQLSTATE('G', 'D', '0', '0', '1')
#define GD_ERRCODE_NOT_FOUND	MAKE_SQLSTATE('G', 'D', '0', '0', '2')
#define GD_ERRCODE_TERMINAL		MAKE_SQLSTATE('G', 'D', '0', '0', '3')
#define GD_ERRCODE_NO_LIMIT		MAKE_SQLSTATE('G', 'D', '0', '0', '4')
#define GD_ERRCODE_INVALID_COMMIT	MAKE_SQLSTATE('G', 'D', '0', '0', '5')
#define GD_ERRCODE_STALE_FENCE	MAKE_SQLSTATE('G', 'D', '0', '0', '6')
#define GD_ERRCODE_CLAIM_LOST	MAKE_SQLSTATE('G', 'D', '0', '0', '7')

typedef struct GdFault
{
	int			sqlerrcode;		/* 0 while nothing is wrong */
	char	   *message;		/* names the thing, its value and its bound */
	char	   *hint;			/* what to do, or NULL */
} GdFault;

extern bool gd_fault(GdFault *fault, int sqlerrcode, const char *hint,
					 const char *fmt,...) pg_attribute_printf(4, 5);
GD_NORETURN extern void gd_fault_raise(const GdFault *fault);

#endif							/* GEN_DURABLE_FAULT_H */
