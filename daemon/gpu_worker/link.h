/*
 * Between the service process and its GPU worker, the child process in which CUDA lives: both are the same
 * blinkd binary, so these are plain structures. Two ways lead to the worker:
 *
 * - A SOCK_SEQPACKET socket for what is rare: the start, and memory that comes and goes. The service sends
 * gpu_start_t with GPU_START_FDS descriptors, the worker answers gpu_hello_t, and one for every GPU before
 * that, whose kernels the driver may have to compile; then gpu_request_t, each
 * answered in order by a gpu_reply_t. The end of the socket is the end of the worker, and of the service.
 * - A ring (ring.h) for runs, in which the service's engine is the client and the worker the daemon. Its SQEs
 * are gpu_opcode_t with other meanings of the fields, below. What does not fit lies in the arena, shared
 * memory that the service manages; it is the worker's until the entry's completion.
 *
 * The worker trusts the service; neither trusts what a client said, so the worker checks what it imports
 * against what the driver says of it.
 */
#ifndef BLINK_GPU_LINK_H
#define BLINK_GPU_LINK_H

#include "error.h"
#include "kernels/lane_abi.h"

#include <stdbool.h>

#define GPU_MAX         32u /* of a node */
#define GPU_NONE        UINT32_MAX
#define GPU_UUID_BYTES  16u
#define GPU_EXTENTS_MAX 64u /* of a request */

/* ---- start ---- */

/* In this order: the ring's memfd, its doorbell (eventfd, blocking or not), its completion event, the arena's
 * memfd, that of what GPUs and the network share. */
#define GPU_START_FDS 5u

/* What GPUs and the network share is pinned in segments, when a run uses one of them for the first time. */
#define GPU_WIRE_SEGMENT_BYTES (UINT64_C(8) << 20)
#define GPU_WIRE_SEGMENTS      1024u
#define GPU_WIRE_BYTES         (GPU_WIRE_SEGMENTS * GPU_WIRE_SEGMENT_BYTES)

typedef struct gpu_start {
    uint64_t arena_bytes;
    uint32_t legacy_ipc; /* accept CUDA IPC handles */
    uint32_t is_mps;     /* be a client of MPS; else make sure not to be one */
    uint32_t exports;    /* have memory on each GPU that devices of the network may write to */
    uint32_t processors; /* that the process may use */
} gpu_start_t;

/* So much memory on each GPU. */
#define GPU_EXPORT_BYTES (UINT64_C(64) << 20)

/* One GPU as the driver describes it. */
typedef struct gpu_facts {
    uint8_t uuid[GPU_UUID_BYTES];
    char name[64];
    char pci[16];        /* "0000:06:00.0" */
    uint32_t capability; /* 90 for 9.0 */
    uint32_t multiprocessors;
    uint32_t resident_blocks; /* of LANE_ABI_THREADS threads, of any kernel, on the whole GPU at once */
    uint32_t copy_engines;
    double memory_GBps; /* by clock and width; 0: unknown */
    uint64_t memory_bytes;
    uint32_t peers; /* a bit for each GPU whose memory this one can read and write, itself included */
    /* What is written to its exported memory by others than GPUs, whichever GPU reads it, or it alone, needs
     * no flush. */
    bool orders_for_all, orders_for_itself;
    bool has_switch; /* NVSwitches reduce and copy for it, the driver says, and the kernels know how */
    uint64_t exported_address; /* where GPUs find the exported memory; 0: it has none */
} gpu_facts_t;

/* Whether each of two GPUs can read and write the memory of the other. */
static inline bool gpu_are_peers(const gpu_facts_t *gpus, uint32_t one, uint32_t other)
{
    return (gpus[one].peers >> other & 1) && (gpus[other].peers >> one & 1);
}

/* With it come dma-bufs of exported memory, of those GPUs that have some, in their order. */
typedef struct gpu_hello {
    uint32_t result; /* blink_result_t: NOT_FOUND (no driver, no GPU), SYSTEM, … */
    bool is_opening; /* no hello yet, but a sign of life: the worker is at the next GPU now */
    char text[BLINK_ERROR_TEXT_BYTES];
    uint32_t gpu_count;
    uint32_t is_mps;           /* as the driver says */
    gpu_facts_t gpus[GPU_MAX]; /* by the driver's number */
    uint64_t wire_address;     /* where GPUs find what they share with the network */
} gpu_hello_t;

/* ---- memory ---- */

typedef enum gpu_request_kind {
    GPU_IMPORT,      /* extents that adjoin, on `gpu`; a descriptor for each VMM or POOL extent, in order */
    GPU_IMPORT_MORE, /* extents that follow those which `token` imported; after an error it stays to release
                      */
    GPU_MAP_HOST,    /* `bytes` of the memfd that comes along, from `offset_bytes` on, for all GPUs */
    GPU_RELEASE,     /* what `token` of an earlier request imported or mapped */
    GPU_PING,        /* nothing: whether the worker answers */
} gpu_request_kind_t;

/* As Blinkwire__GpuExtentKind. */
typedef enum gpu_extent_kind { GPU_EXTENT_VMM, GPU_EXTENT_POOL, GPU_EXTENT_IPC } gpu_extent_kind_t;

typedef struct gpu_extent {
    uint32_t kind; /* gpu_extent_kind_t */
    uint64_t allocation_bytes, offset_bytes, bytes;
    uint8_t handle[64]; /* POOL: CUmemPoolPtrExportData; IPC: CUipcMemHandle */
    /* POOL: by which client and number the pool is told from others, as long as memory of it is imported;
     * number 0: it is not. */
    uint64_t pool;
    uint32_t client;
} gpu_extent_t;

typedef struct gpu_request {
    uint32_t kind;                /* gpu_request_kind_t */
    uint32_t gpu;                 /* IMPORT, IMPORT_MORE */
    uint64_t token;               /* names what is imported or mapped; unique, not 0 */
    uint64_t bytes, offset_bytes; /* MAP_HOST: whole pages */
    bool keep_holes;              /* MAP_HOST: fail where a page is not there, instead of adding one */
    uint64_t following_bytes;     /* IMPORT, IMPORT_MORE: of all extents that further requests bring */
    uint32_t extent_count;        /* IMPORT, IMPORT_MORE; only as many of the next are sent */
    gpu_extent_t extents[GPU_EXTENTS_MAX];
} gpu_request_t;

/*
 * Errors of IMPORT and IMPORT_MORE: INVALID_ARGUMENT (memory of another GPU; less memory than the extent
 * says), PERMISSION (an IPC handle where they are not accepted), UNSUPPORTED (what the driver does not take:
 * a handle that is none, stale, the worker's own, or of a process in another PID namespace, such as a
 * container's; memory that GPUs here may not use; several extents that cannot be mapped side by side, which
 * only VMM can), NO_MEMORY, SYSTEM. The text names the extent. With extents of several requests all must be
 * whole allocations.
 */
typedef struct gpu_reply {
    uint64_t token;
    uint64_t address; /* where GPUs find the first byte */
    uint32_t result;
    char text[BLINK_ERROR_TEXT_BYTES];
} gpu_reply_t;

/* ---- runs ---- */

/*
 * Fields of an SQE: `member` is an object's number, chosen by the service, not 0; `root` a mask of GPUs;
 * `in_offset_bytes` and `count` a range of the arena. user_data comes back in the completion.
 */
typedef enum gpu_opcode {
    GPU_LOAD = 1, /* copy the range into device memory of each GPU of the mask, as object `member` */
    GPU_ALLOC, /* `count` bytes of zeros on each GPU of the mask, as object `member`; with GPU_ALLOC_HOST in
                  `flags`, once in host memory that all of them map; with GPU_ALLOC_SWITCH, where a switch
                  reaches all of them at once. Where that cannot be had the object is there all the same, as
                  without the flag, and the completion tells UNSUPPORTED and why. Such an object can be asked
                  for again, with the same mask and bytes, while nothing runs that uses it: it becomes zeros,
                  and moves to where a switch reaches it, if that can be had now */
    GPU_FREE,  /* the object; nothing runs that uses it */
    GPU_RUN,   /* the gpu_run_t at the range's beginning, `count` bytes with its copies */
    GPU_ABORT, /* the run whose number is `count`, if it is still under way; its completion tells ABORTED */
} gpu_opcode_t;

/* Not RING_SQE_MORE. */
enum { GPU_ALLOC_HOST = 2, GPU_ALLOC_SWITCH = 4 };

/* What a switch reaches comes in pieces of so many bytes, or of the driver's if these are more. */
#define GPU_SWITCH_GRAIN_BYTES (UINT64_C(2) << 20)

typedef struct gpu_launch {
    uint32_t gpu;
    uint32_t lane_first, lane_count;
    uint32_t blocks;
} gpu_launch_t;

typedef struct gpu_copy {
    uint64_t dst, src, bytes; /* addresses */
    uint32_t gpu;             /* whose copy engines */
} gpu_copy_t;

/*
 * A run is either launches, one for each GPU, or copies, which the copy engines make. It completes with OK
 * once everything is done and visible; with TIMEOUT if a wait met its deadline; ABORTED; or what the driver
 * said (SYSTEM), after which the worker ends if its contexts are lost.
 */
typedef struct gpu_run {
    char kernel[LANE_ABI_KERNEL_NAME_BYTES];
    uint32_t program, binding; /* objects */
    uint32_t memory;           /* object: scratch, then semaphores; 0: the program needs none */
    uint32_t host_memory;      /* the same in host memory (GPU_ALLOC_HOST), as LANE_ABI_HOST */
    uint64_t semaphores_offset, host_semaphores_offset;
    uint64_t scrub_bytes, host_scrub_bytes; /* of the scratch, to be zeroed before; 0: as it is */
    uint32_t
        cooperative; /* the lanes wait for one another: all blocks must be resident, or the launch fails */
    uint32_t launch_count;
    gpu_launch_t launches[GPU_MAX];
    uint32_t copy_count;
    uint32_t rank_count; /* of this host, as the program numbers them */
    uint8_t rank_gpu[LANE_ABI_RANKS_MAX];
    /* Of a program with wires: a bit for each segment that the run uses, and semaphores, where the worker
     * finds them, on whose changes it rings the completion event, too. */
    uint64_t wire_segments[GPU_WIRE_SEGMENTS / 64];
    uint64_t watched_address;
    uint32_t watched_count;
    lane_abi_run_t run; /* the worker enters program, binding, control, blocks_left, lane_first, lane_count
                           and all about ranks and the switch; the service all else */
    lane_abi_rank_t ranks[LANE_ABI_RANKS_MAX]; /* rank_count; the worker enters scratch and semaphores */
    gpu_copy_t copies[];                       /* copy_count */
} gpu_run_t;

/* ---- the worker ---- */

/* The worker's whole life, on the socket it was given; returns the exit status. */
int gpu_worker_main(int socket_fd);

#endif
