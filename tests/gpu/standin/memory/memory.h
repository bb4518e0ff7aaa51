/*
 * What there is in memory: the GPU's, which lies in memfds so that other processes can map it, where it is
 * mapped, and what is known of host memory.
 */
#ifndef STANDIN_MEMORY_H
#define STANDIN_MEMORY_H

#include "standin/standin.h"

#include <pthread.h>
#include <sys/types.h>

#define MEMORY_PAGE_BYTES        ((size_t)4096)
#define MEMORY_GRANULARITY_BYTES ((size_t)2 << 20)

/** Guards all that is here. Never held together with stream_lock. */
extern pthread_mutex_t memory_lock;

typedef enum memory_kind {
    MEMORY_LEGACY = 1, /* cuMemAlloc() */
    MEMORY_VIRTUAL,    /* cuMemCreate() */
    MEMORY_POOL,       /* no memory itself: the file that a pool's lies in */
    MEMORY_POOLED,
    MEMORY_MULTICAST, /* no memory itself: an object of cuMulticastCreate() */
} memory_kind_t;

/** What is bound to a multicast object, as a whole. */
typedef struct memory_team {
    uint32_t device_count;                   /* that it is for */
    uint32_t devices;                        /* mask, by ordinal: that have been added */
    struct memory *pieces[STANDIN_GPUS_MAX]; /* by ordinal; referenced. NULL: nothing is bound */
    char *views[STANDIN_GPUS_MAX];           /* where this library itself finds them */
} memory_team_t;

/** The page before the memory in its file: how an importer knows what it was given. */
typedef struct memory_header {
    uint64_t magic;
    uint64_t cookie; /* random: no other memory's */
    uint64_t bytes;
    uint32_t kind;
    uint32_t gpu;               /* of the machine */
    uint32_t ordinal, reserved; /* the GPU's in the process that made the memory */
    uint64_t handle_types;
} memory_header_t;

/** Memory of a GPU, of this process's making or imported. */
typedef struct memory {
    struct memory *next;
    unsigned references; /* handles and mappings */
    int file;
    off_t offset; /* of the header in the file */
    memory_header_t header;
    bool is_own;                /* counts towards what this process may allocate */
    struct memory *pool;        /* MEMORY_POOLED: in whose file it lies; referenced */
    off_t end;                  /* MEMORY_POOL: of what has ever been used of the file */
    uint32_t accessors;         /* MEMORY_POOL: other devices by ordinal that may use it */
    uint64_t release_threshold; /* MEMORY_POOL: as it was set */
    bool was_exported;          /* MEMORY_POOL: as a descriptor; before that none of its memory can be */
    unsigned
        handles; /* MEMORY_VIRTUAL, MEMORY_POOL, MEMORY_MULTICAST: of the references, the application's */
    memory_team_t *team; /* MEMORY_MULTICAST */
    bool is_held;        /* it was freed, and another process has it still (STANDIN_CUDA_FAULTS) */
} memory_t;

typedef enum range_kind {
    RANGE_LEGACY,
    RANGE_IPC,
    RANGE_VIRTUAL,
    RANGE_POOLED,
    RANGE_HOST,
    RANGE_REGISTERED
} range_kind_t;

/** A stretch of addresses that CUDA knows. */
typedef struct range {
    struct range *next; /* by address */
    uintptr_t address;
    size_t bytes; /* as asked for; the last page may go on */
    range_kind_t kind;
    uint64_t number;           /* the buffer id */
    memory_t *memory;          /* NULL: host memory. Referenced */
    CUcontext context;         /* in which it was made; NULL: that says nothing (virtual, pooled) */
    unsigned opened;           /* RANGE_IPC: how many times */
    bool freed;                /* RANGE_POOLED: a stream will, so nothing may be asked about it */
    uint32_t readers, writers; /* RANGE_VIRTUAL: devices by ordinal */
} range_t;

static inline void *memory_pointer(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

static inline size_t memory_round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Without the lock. */
/** Whether CUDA knows all of it; nothing at all is known. */
bool memory_is_known(CUdeviceptr address, size_t bytes);
/** Whether kernels of a device may use what lies there. */
bool memory_is_reached(CUdevice ordinal, CUdeviceptr address);

/* With the lock held. */
/** Make memory, or a pool. */
CUresult memory_create(memory_kind_t kind, int gpu, size_t bytes, uint64_t handle_types, memory_t **memory);
/** Make memory in a pool's file. */
CUresult memory_create_in(memory_t *pool, size_t bytes, memory_t **memory);
/** Make a multicast object, which has a team. */
CUresult memory_create_multicast(size_t bytes, uint32_t device_count, memory_t **memory);
/** What memory_put() does for the last reference to one. */
void memory_free_team(memory_team_t *team, size_t bytes);
/** Memory of another process: what its header, at an offset in a file, says it is. The file is duplicated.
 * INVALID_VALUE: it is none of that kind. INVALID_DEVICE: its GPU is not visible. All three make one
 * reference. */
CUresult memory_import(int file, off_t offset, memory_kind_t kind, memory_t **memory);
memory_t *memory_get(memory_t *memory);
void memory_put(memory_t *memory);
/** Whether an application's handle is one, of this kind. */
bool memory_is(const memory_t *memory, memory_kind_t kind);
/** The device that it belongs to. */
int memory_ordinal(const memory_t *memory);
/** What of a GPU this process has allocated, or has freed while others had it imported. */
uint64_t memory_used(int gpu);

/** Map all of a memory somewhere and take a reference: a new range. */
CUresult range_map(memory_t *memory, range_kind_t kind, CUcontext context, range_t **range);
/** Note a range; the caller has mapped it. A reference of the caller's passes over, unless it fails. */
CUresult range_add(const range_t *range, range_t **added);
/** The range that an address lies in; NULL: none. */
range_t *range_find(uintptr_t address);
/** The first range that has an address in this stretch; NULL: none. */
range_t *range_first_in(uintptr_t address, size_t bytes);
/** Whether kernels of a device reach it. */
bool range_is_reached(CUdevice ordinal, const range_t *range);
/** Forget it; its addresses are the caller's to unmap. */
void range_remove(range_t *range);
/** Forget it, unmap it and free its addresses. */
void range_unmap(range_t *range);
/** Whether cuMemFreeAsync() has freed what was at this address last. */
bool range_is_freed(uintptr_t address);

/* The addresses of GPU memory (arena.c): its own part of the address space, where what is not in use cannot
 * be read, and what was freed is used again first. */
/** `wanted` if it is free, or 0. 0: there is no room. */
uintptr_t arena_take(size_t bytes, size_t alignment, uintptr_t wanted);
/** Only what was taken, as a whole. */
void arena_give(uintptr_t address);
/** Whether this was taken as a whole. */
bool arena_is_taken(uintptr_t address, size_t bytes);
/** Whether this is part of something taken. */
bool arena_holds(uintptr_t address, size_t bytes);
/** Map a file there; protection as mmap's. false: the system refused. */
bool arena_map(uintptr_t address, size_t bytes, int protection, int file, off_t offset);
/** Nothing can be read there any more. */
void arena_unmap(uintptr_t address, size_t bytes);

#endif
