/*
 * The GPU memory of one context that the daemon has been told of, and where a buffer on a GPU lies. Built
 * without CUDA: no_imports.c.
 *
 * An address says nothing: memory may have been freed and other memory be there. So every use asks the driver
 * for the number of the allocation that is there now, and an import counts only if it is of that one.
 *
 * What the daemon has open stays allocated. So the application is to say what it will free
 * (imports_release()), and what it frees without is looked for: when something new is registered, when
 * somebody asks for that, and again and again by the watcher.
 */
#ifndef CLIENT_IMPORTS_H
#define CLIENT_IMPORTS_H

#include "base/list.h"
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
    list_t leaving;           /* freed ones that the daemon was told to give back; under register_lock */
    list_t releasing;         /* gpu_import_t.of_releasing; under register_lock, with … */
    pthread_cond_t released;  /* … this for when some have been */
    _Atomic bool is_promised; /* imports_release() comes before every free */
    uint64_t tended_ns;       /* the watcher's */
} imports_t;

void imports_init(imports_t *imports, gpus_t *gpus, connection_t *connection, ops_t *ops);
void imports_fini(imports_t *imports);

/** The daemon has lost all GPU memory of this client: what is registered is forgotten. Thread-safe. */
void imports_reset(imports_t *imports);

/**
 * For a communicator on host devices: refuse memory of a GPU. Errors: INVALID_ARGUMENT (names the pointer),
 * UNSUPPORTED (it is of a driver that is of no use).
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
 * OUT_OF_RANGE (it passes the end of its memory), UNSUPPORTED (it is of a driver that is of no use), SYSTEM,
 * or what the daemon refuses, but for PERMISSION and UNSUPPORTED.
 */
blink_result_t imports_place(imports_t *imports, rank_gpu_t *rank, const char *what, const void *pointer,
                             size_t bytes, import_place_t *place);

/**
 * Export GPU memory before it is used, so that what is used of it later is found; *on_device: whether it is
 * GPU memory, else nothing is done. Thread-safe. Errors: those of imports_place(); UNSUPPORTED (it has to be
 * staged; says why).
 */
blink_result_t imports_prepare(imports_t *imports, const void *pointer, size_t bytes, bool *on_device);

/** The application will call imports_release() before it frees any GPU memory. Thread-safe, as what follows.
 */
void imports_promise_release(imports_t *imports);
bool imports_is_promised(const imports_t *imports);

/** Give back what is registered and holds the address; returns when ops that use it have ended and the daemon
 * has closed it, which another thread may have asked for. Errors: DAEMON_LOST; SYSTEM, NO_MEMORY (the daemon
 * was not asked, and has it open until the connection ends). */
blink_result_t imports_release(imports_t *imports, const void *pointer);

/** The same with all that was freed without that. */
blink_result_t imports_release_freed(imports_t *imports);

/** Give freed memory back from time to time, without waiting; how often, for poll(): -1 for never. The
 * watcher's. */
void imports_tend(imports_t *imports);
int imports_period_ms(const imports_t *imports);

#endif
