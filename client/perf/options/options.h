/*
 * What blink-perf was asked to do: its command line, and which rank a launcher says that it is.
 */
#ifndef PERF_OPTIONS_H
#define PERF_OPTIONS_H

#include "check/facts.h"

#include "blink/types.h"

#include <stdbool.h>

#define PERF_RANKS_MAX     1024u
#define PERF_GPUS_MAX      64u
#define PERF_DATATYPES_MAX 16u
#define PERF_REDOPS_MAX    8u

/* Exit statuses, documented in --help. */
enum { PERF_EXIT_FAILED = 1, PERF_EXIT_USAGE = 2, PERF_EXIT_NO_DAEMON = 3 };

/* What memory ops work on. */
typedef enum perf_memory {
    PERF_MEMORY_REGISTERED, /* the daemon's */
    PERF_MEMORY_ORDINARY,   /* malloc's */
    PERF_MEMORY_DEVICE      /* a GPU's */
} perf_memory_t;

/* How a GPU's memory is made. */
typedef enum perf_gpu_memory { PERF_GPU_MALLOC, PERF_GPU_VMM, PERF_GPU_POOL } perf_gpu_memory_t;

/* What orders ops. */
typedef enum perf_order { PERF_ORDER_HOST, PERF_ORDER_STREAM, PERF_ORDER_GRAPH } perf_order_t;

typedef struct perf_options {
    const char *replay; /* the trace whose ops are submitted once more, instead of measuring; NULL: none */
    bool no_gaps;       /* of it: nothing but ops takes time */
    perf_collective_t collective;
    uint64_t min_bytes, max_bytes, step_factor;
    uint64_t step_bytes; /* 0: sizes grow by the factor */
    uint32_t iterations, warmup;
    double seconds; /* for all sizes; 0: as many iterations as said, which are else the most that there are */
    blink_datatype_t datatypes[PERF_DATATYPES_MAX];
    blink_redop_t redops[PERF_REDOPS_MAX]; /* one, which means nothing, where nothing is reduced */
    uint32_t datatype_count, redop_count;
    uint32_t root;
    const char *root_node; /* NULL: `root` is said; else it is the rank whose device this is */
    bool placements[2];    /* out of place, in place: whether to measure it */
    bool check, json;
    perf_memory_t memory;
    perf_gpu_memory_t gpu_memory;
    perf_order_t order;
    uint32_t group_count; /* ops in the group of an iteration */
    uint32_t comm_count;  /* communicators at work at a time */
    bool threads;         /* ranks are threads of one process */
    blink_algorithm_t algorithm;
    uint32_t rank_count;   /* 0: as many as there are devices */
    uint32_t device_count; /* 0: rank r is on device r; else as many as ranks */
    uint32_t devices[PERF_RANKS_MAX];
    uint32_t gpu_count; /* 0: a rank's memory is on the GPU of its device; else by rank, round robin */
    uint32_t gpus[PERF_GPUS_MAX];
    bool joins; /* this process is rank `join_rank`, started by someone else */
    uint32_t join_rank;
    const char *id_file;     /* NULL: the ranks meet as the launcher says */
    const char *socket_path; /* NULL: the environment's or the default */
    bool private_daemon;
    const char *topology; /* of the private daemon; NULL: its default */
    bool paced;
    const char *pace_scale; /* NULL: its default */
} perf_options_t;

/** Parse and check. Exits on bad usage and after --help, as argp does. */
void perf_parse_options(int argc, char **argv, perf_options_t *options);

/** Ops under way at a time. */
uint32_t perf_op_count(const perf_options_t *options);

/** Device of a rank. */
uint32_t perf_device(const perf_options_t *options, uint32_t rank);

/** As --device-memory=KIND takes it. */
const char *perf_gpu_memory_name(perf_gpu_memory_t kind);

/** "stream" or "graph"; NULL: neither. */
const char *perf_order_name(perf_order_t order);

#endif
