/* A context: the connection to the daemon with everything that hangs off it. */
#ifndef CLIENT_CONTEXT_H
#define CLIENT_CONTEXT_H

#include "submit/connection.h"
#include "submit/ops.h"
#include "submit/regions.h"

struct blink_context {
    control_t control;
    ops_t ops;
    regions_t regions;
    _Atomic(struct gpus *) gpus; /* NULL until the application has loaded a CUDA driver, and we have looked */
    _Atomic(struct streams *) streams; /* NULL until one is used */
    uint32_t device_count;             /* constant */
};

#endif
