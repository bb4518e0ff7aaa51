/*
 * What graphs hold of a context's stored ops. It outlives the context if graphs do: a graph lets go of an op
 * on a thread of the driver, at any time.
 */
#ifndef CLIENT_KEEPER_H
#define CLIENT_KEEPER_H

#include <pthread.h>
#include <stdint.h>

struct stream_window;
struct stream_keeper;

/** A stored op, as long as graphs hold it. */
typedef struct stream_stored {
    struct stream_stored *next;
    struct stream_keeper *keeper;
    struct stream_window *window;
} stream_stored_t;

typedef struct stream_keeper {
    pthread_mutex_t lock;      /* for what follows */
    int pump_fd;               /* wakes the context's watcher; -1 once the context is closed */
    stream_stored_t *released; /* by their graphs */
    uint32_t references;       /* the context's, and the stored ops' */
} stream_keeper_t;

/** NULL if memory ran out. The context's share in it ends with keeper_close(). */
stream_keeper_t *keeper_create(int pump_fd);
void keeper_close(stream_keeper_t *keeper);

/** A stored op that a graph is to hold; NULL if memory ran out. keeper_drop() it if no graph takes it. */
stream_stored_t *keeper_add(stream_keeper_t *keeper, struct stream_window *window);
void keeper_drop(stream_stored_t *stored);

/** The last graph that held it is gone. On a thread of the driver, which must not be called here. */
void keeper_release(stream_stored_t *stored);

/** What graphs have released, chained by next, to be freed by the caller. */
stream_stored_t *keeper_take_released(stream_keeper_t *keeper);

#endif
