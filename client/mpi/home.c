/* The connection, its memory, and the calls of MPI that give and take such memory. */
#include "home.h"

#include "settings.h"

#include <mpi.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

/* Smaller pieces are MPI's: no collective that is worth it fits in them. */
#define MEMORY_LEAST_BYTES (64 << 10)

typedef struct piece {
    char *address;
    size_t bytes;
    struct piece *next;
} piece_t;

static struct {
    pthread_mutex_t lock;
    blink_context_t *context;
    piece_t *pieces;
    bool is_given_up;
} home = {.lock = PTHREAD_MUTEX_INITIALIZER};

blink_context_t *shim_home_open(void)
{
    pthread_mutex_lock(&home.lock);
    if (!home.context && !home.is_given_up && blink_open(NULL, &home.context) != BLINK_OK)
        home.is_given_up = true;
    blink_context_t *context = home.is_given_up ? NULL : home.context;
    pthread_mutex_unlock(&home.lock);
    return context;
}

void shim_home_give_up(void)
{
    pthread_mutex_lock(&home.lock);
    home.is_given_up = true;
    pthread_mutex_unlock(&home.lock);
}

void shim_home_close(void)
{
    pthread_mutex_lock(&home.lock);
    home.is_given_up = true;
    if (!home.pieces) {
        blink_close(home.context);
        home.context = NULL;
    }
    pthread_mutex_unlock(&home.lock);
}

/* Under the lock: the link to the piece that holds the address; to NULL if none does. */
static piece_t **find(const void *address)
{
    piece_t **link = &home.pieces;
    while (*link && (uintptr_t)address - (uintptr_t)(*link)->address >= (*link)->bytes)
        link = &(*link)->next;
    return link;
}

bool shim_home_has(const void *address)
{
    pthread_mutex_lock(&home.lock);
    bool has = *find(address) != NULL;
    pthread_mutex_unlock(&home.lock);
    return has;
}

static void *allocate(blink_context_t *context, size_t bytes)
{
    void *address;
    piece_t *piece = malloc(sizeof(*piece));
    if (!piece || blink_mem_alloc(context, bytes, &address) != BLINK_OK) {
        free(piece);
        return NULL;
    }
    pthread_mutex_lock(&home.lock);
    *piece = (piece_t){.address = address, .bytes = bytes, .next = home.pieces};
    home.pieces = piece;
    pthread_mutex_unlock(&home.lock);
    return address;
}

int MPI_Alloc_mem(MPI_Aint size, MPI_Info info, void *base)
{
    const bool takes = size >= MEMORY_LEAST_BYTES && !shim_settings()->is_off;
    blink_context_t *context = takes ? shim_home_open() : NULL;
    void *address = context ? allocate(context, (size_t)size) : NULL;
    if (!address)
        return PMPI_Alloc_mem(size, info, base);
    *(void **)base = address;
    return MPI_SUCCESS;
}

/* False: it is none of the daemon's. */
static bool release(void *base)
{
    pthread_mutex_lock(&home.lock);
    piece_t **link = find(base), *piece = *link;
    blink_context_t *context = home.context;
    if (piece)
        *link = piece->next;
    pthread_mutex_unlock(&home.lock);
    if (!piece)
        return false;
    (void)blink_mem_free(context, piece->address); /* a daemon that is lost keeps nothing */
    free(piece);
    return true;
}

int MPI_Free_mem(void *base)
{
    return PMPI_Free_mem(base);
}

/* Also by this name, for it is the one that Open MPI's Fortran calls, with memory that C has allocated. */
int PMPI_Free_mem(void *base)
{
    int (*free_mem)(void *base);
    if (release(base))
        return MPI_SUCCESS;
    *(void **)&free_mem = dlsym(RTLD_NEXT, "PMPI_Free_mem");
    return free_mem(base);
}
