/*
 * The GPU memory of one context that the daemon has been told of, and where a buffer on a GPU lies. Built
 * without CUDA: no_imports.c.
 *
 * An address says nothing: memory may have been freed and other memory be there. So every use asks the driver
 * for the number of the allocation that is there now, and an import counts only if it is of that one. What
 * nobody can name any more is given back when something new is registered, so that the daemon does not keep
 * freed memory for ever.
 */
#ifndef CLIENT_IMPORTS_H
#define CLIENT_IMPORTS_H

#include "base/vec.h"
#include "gpu/rank_gpu.h"
#include "submit/connection.h"
#include "submit/ops.h"

typedef struct imports {
    gpus_t *gpus;
    connection_t *connection;
    ops_t *ops;
    pthread_rwlock_t lock;
    pthread_mutex_t register_lock;  /* one thread at a time exports; taken first */
    VEC(struct gpu_import *) cache; /* under the lock */
} imports_t;

void imports_init(imports_t *imports, gpus_t *gpus, connection_t *connection, ops_t *ops);
void imports_fini(imports_t *imports);

/** The daemon has lost all GPU memory of this client: what is registered is forgotten. Thread-safe. */
void imports_reset(imports_t *imports);

/**
 * For a communicator on host devices: refuse memory of a GPU. Errors: INVALID_ARGUMENT (names the pointer).
 */
blink_result_t imports_refuse(imports_t *imports, const char *what, const void *pointer);

/** Where a buffer is. */
typedef struct import_place {
    bool on_device;  /* in GPU memory, or managed memory */
    uint32_t region; /* the daemon's; 0: it has to be staged */
    uint64_t offset_bytes;
} import_place_t;

/**
 * Find a buffer of a rank on a GPU; memory that the daemon does not know is exported to it. Visiting, where
 * there is a GPU to visit. Thread-safe. Errors: INVALID_ARGUMENT (memory of another GPU; names both),
 * OUT_OF_RANGE (it passes the end of its memory), SYSTEM, or what the daemon refuses, but for PERMISSION and
 * UNSUPPORTED.
 */
blink_result_t imports_place(imports_t *imports, rank_gpu_t *rank, const char *what, const void *pointer,
                             size_t bytes, import_place_t *place);

#endif
