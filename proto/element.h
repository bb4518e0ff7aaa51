/*
 * One element of any datatype as a number: what references and tests compute with, on either side of the
 * socket. The executors have fast loops of their own (daemon/exec/host/reduce/reduce.h).
 */
#ifndef BLINK_ELEMENT_H
#define BLINK_ELEMENT_H

#include "blink/types.h"

/** The element's value. 64-bit integers beyond 2^53 lose their low bits. */
double element_load(blink_datatype_t datatype, const void *element);

/** Store the value, rounded to the nearest element, ties to even. Floats of 16 bits overflow to infinity,
 * those of 8 bits to their largest finite value; NaN is kept. Integers: the value must be one of the type's.
 */
void element_store(blink_datatype_t datatype, double value, void *element);

#endif
