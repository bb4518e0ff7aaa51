/*
 * Which elements of an output are compared with the reference: all of a small one, of a large one a sample
 * that no missing piece of some size escapes, so that checks stay quick.
 */
#ifndef PERF_CHECK_H
#define PERF_CHECK_H

#include "check/reference.h"

/** How many of the elements compared are wrong. */
uint64_t perf_check_output(const perf_reference_t *reference, const perf_shape_t *shape, const void *output);

#endif
