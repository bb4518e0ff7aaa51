/*
 * The flags of nccl-tests that blink-perf has not by the same name: those with a counterpart set it, the
 * others are answered with what blink-perf has instead.
 */
#ifndef PERF_NCCL_TESTS_H
#define PERF_NCCL_TESTS_H

#include <argp.h>

/** A child for blink-perf's argp. Input: perf_options_t. */
extern const struct argp perf_nccl_tests_argp;

#endif
