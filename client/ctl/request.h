/*
 * What is to be planned: topology, ranks, collective, root, peer, algorithms, bytes. One parser and one
 * meaning for plan, simulate and explain. The topology is the running daemon's unless another is named.
 */
#ifndef CTL_REQUEST_H
#define CTL_REQUEST_H

#include "ctl.h"
#include "error.h"
#include "plan/plan.h"

#define REQUEST_ALGORITHMS_MAX 8u

typedef struct request {
    const ctl_options_t *common; /* whose daemon is asked for its topology */
    bool is_given;               /* any of what follows was named, be it by its default */
    const char *topology;        /* NULL: the daemon's */
    const char *ranks;           /* NULL: all devices */
    blink_collective_t collective;
    blink_algorithm_t algorithms[REQUEST_ALGORITHMS_MAX]; /* AUTO unless named */
    uint32_t algorithm_count;
    const char *root, *peer; /* ranks, by number or by the node's id; NULL: 0 and 1 */
    uint64_t bytes;          /* 0: not given */
    double plan_seconds;     /* 0: no limit */
    bool wires;              /* hosts have daemons of their own */
    bool gpus;               /* the machine that is named as its GPUs use it (topo/reached.h) */
    uint32_t peers_most;     /* other hosts that one may exchange data with; 0: any number */
    bool multicast;          /* whoever runs the plan makes switches reduce and copy */
} request_t;

/** Allreduce over all devices, root 0, peer 1. */
extern const request_t request_default;

/** A child for a command's argp. Input: request_t, set to request_default but for `common`. Takes the keys t,
 * c, r, a and 1000 to 1099. Its --help names the built-in topologies. Exits on bad usage, as argp does. */
extern const struct argp request_argp;

/** Load a topology by its name, and say on stderr what of its file is not in it. Errors: topo_load()'s. */
blink_result_t request_load(const char *what, topo_t **topo);

/** Ask the daemon that the options name for its topology, or for that of a communicator's hosts. Errors:
 * those of ctl_ask_for() and topo_parse_json(). */
blink_result_t request_load_daemons(const ctl_options_t *options, uint32_t comm, topo_t **topo);

/** argp's help filter that appends the names of the built-in topologies. */
char *request_help(int key, const char *text, void *input);

/** A request made concrete. */
typedef struct request_case {
    topo_t *topo;
    plan_request_t plan;            /* of the first algorithm; borrows from here */
    uint32_t nodes[PLAN_RANKS_MAX]; /* behind plan.rank_node where ranks were named */
} request_case_t;

/**
 * Load the topology and find the ranks. *opened stays where it is (it points into itself) until
 * request_close(). Errors: those of topo_load() and request_load_daemons(), NOT_FOUND (a rank's device, root
 * or peer), INVALID_ARGUMENT (too many ranks).
 */
blink_result_t request_open(const request_t *request, request_case_t *opened);
void request_close(request_case_t *opened);

#endif
