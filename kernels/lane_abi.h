/*
 * What the daemon hands to the lane interpreter on a GPU: a program, its binding to a payload, and the
 * arguments of a run. The lane IR (daemon/plan/lane/lane.h) says what a program means; here it only lies
 * flat, so that it can be copied into device memory and read by every block. C, C++ and CUDA.
 *
 * Addresses are those of the process that launches. `offset` fields count bytes from the beginning of their
 * own block of memory.
 */
#ifndef BLINK_LANE_ABI_H
#define BLINK_LANE_ABI_H

#include <stdint.h>

#define LANE_ABI_THREADS      512u /* of a block, on a GPU */
#define LANE_ABI_RANKS_MAX    64u  /* of a run */
#define LANE_ABI_RANKS_SENT   16u  /* most of them that are among a kernel's arguments, 56 bytes each */
#define LANE_ABI_OPERANDS_MAX 128u /* sources of a step, and destinations: a program with more cannot run */

/* Ranks are those whose lanes GPUs of this host run, numbered in their order from 0. Lanes touch memory of no
 * other rank: what goes to other hosts and comes from there lies in areas of host memory. */

/* From one semaphore to the next: writer and waiter are different multiprocessors. */
#define LANE_ABI_SEMAPHORE_BYTES 64u

/* In the place of a rank: memory of the host that all GPUs of the run reach. It has slots and semaphores of
 * ranks whose GPUs cannot reach one another's memory. */
#define LANE_ABI_HOST LANE_ABI_RANKS_MAX

enum {
    LANE_ABI_INPUT,
    LANE_ABI_OUTPUT,
    LANE_ABI_SCRATCH,
    LANE_ABI_SEND,
    LANE_ABI_LANDING,
    LANE_ABI_SWITCH
}; /* as lane_buffer_t; slots that a switch may touch are LANE_ABI_SWITCH in a step that touches those of all
      ranks, and LANE_ABI_SCRATCH where a rank alone uses its own */
enum { LANE_ABI_FULL, LANE_ABI_FREE }; /* as lane_wait_kind_t */

/* In the place of the rank that waits for a semaphore: a wire lane waits for it, or signals it. Such
 * semaphores lie in host memory. */
#define LANE_ABI_WIRES UINT32_MAX

typedef struct lane_abi_operand {
    uint32_t buffer;
    uint32_t rank; /* input, output: whose. scratch, switch: the receiver, in whose scratch the edge's slots
                      are, or LANE_ABI_HOST. send, landing: the number of the area of host memory in which
                      they are */
    uint32_t edge; /* of the binding; none of an input or output */
} lane_abi_operand_t;

typedef struct lane_abi_wait {
    uint32_t semaphore;
    uint32_t rank; /* that waits: its memory holds the semaphore; LANE_ABI_HOST; or LANE_ABI_WIRES */
    uint32_t kind;
} lane_abi_wait_t;

typedef struct lane_abi_signal {
    uint32_t semaphore;
    uint32_t rank;           /* as of a wait */
    uint32_t announces_data; /* 1: the arrival of a destination. Not sent where that travels in the data */
} lane_abi_signal_t;

typedef struct lane_abi_step {
    uint32_t part; /* of the binding */
    uint32_t src_first, src_count;
    uint32_t dst_first, dst_count;
    uint32_t wait_first, wait_count;
    uint32_t signal_first, signal_count;
    uint32_t completes; /* the result holds every contribution: an average is divided here */
} lane_abi_step_t;

typedef struct lane_abi_lane {
    uint32_t channel;
    uint32_t rank;
    uint32_t step_first, step_count;
} lane_abi_lane_t;

/* The beginning of a program's block. */
typedef struct lane_abi_program {
    uint32_t protocol;    /* blink_protocol_t: format of the scratch slots */
    uint32_t independent; /* no step waits or signals, and no scratch: chunks in any order, by any block */
    uint32_t lane_count, step_count, operand_count, wait_count, signal_count;
    uint32_t lanes_offset, steps_offset, operands_offset, waits_offset, signals_offset;
} lane_abi_program_t;

typedef struct lane_abi_channel {
    uint64_t chunk_bytes; /* as lane_geometry_t's cut */
    uint32_t chunks;
    uint32_t reserved;
} lane_abi_channel_t;

/* As lane_part_t; the extent is in bytes. */
typedef struct lane_abi_part {
    uint64_t extent_begin, extent_bytes;
    uint32_t in_block, out_block;
    uint32_t ordinal, siblings;
} lane_abi_part_t;

typedef struct lane_abi_edge {
    uint64_t scratch_offset; /* of its slots, in the receiver's scratch or in their area */
    uint64_t slot_bytes;
} lane_abi_edge_t;

/* The beginning of a binding's block. */
typedef struct lane_abi_binding {
    uint32_t slots; /* of every edge */
    uint32_t channel_count, part_count, edge_count;
    uint32_t channels_offset, parts_offset, edges_offset;
    uint32_t reserved;
} lane_abi_binding_t;

/* In host memory that the GPU maps; one per launch. On a line of its own. */
typedef struct lane_abi_control {
    uint32_t abort;    /* not 0: end. Written by the host */
    uint32_t failed;   /* a wait met its deadline. Written by the kernel */
    uint64_t finished; /* the run's number, once the last block has ended and all it wrote is visible to
                          everybody */
    uint64_t reserved[6];
} lane_abi_control_t;

/* How far a lane has come: the chunk and the step that it takes next. A lane whose chunk is that behind its
 * last one has ended. */
typedef struct lane_abi_progress {
    uint32_t chunk, step;
} lane_abi_progress_t;

typedef struct lane_abi_rank {
    uint64_t input, output;                           /* 0 where the run does not use it */
    uint64_t input_stride_bytes, output_stride_bytes; /* from one block of the payload to the next */
    uint64_t scratch, semaphores;
    uint64_t scalar; /* PRE_MUL_SUM: the bits of an element that the rank's input is multiplied by */
} lane_abi_rank_t;

/* The only argument of every kernel. */
typedef struct lane_abi_run {
    uint64_t program, binding, control; /* addresses */
    uint64_t blocks_left;    /* address of a uint32 in device memory: 0 before and after every launch */
    uint64_t number;         /* of the run; grows. Not 0 */
    uint64_t semaphore_base; /* what a semaphore holds after chunk c is semaphore_base + c + 1; larger than
                                anything that earlier runs left there */
    uint64_t
        epoch_base; /* LL, LL128: the epoch of chunk c is epoch_base + c + 1; the low 32 bits are never 0 */
    uint64_t wait_limit_ns; /* how long a wait may last */
    uint64_t progress; /* address of a lane_abi_progress_t for each lane of the program: lanes begin where
                          that says and leave it where they end, as they also do, without a failure, when a
                          wait has lasted for so long; another launch takes them up again. Under Simple, of
                          programs that are not independent. 0: lanes begin at the beginning, and such a
                          wait is a failure */
    uint64_t ranks;    /* address of a lane_abi_rank_t for each rank, in host memory that the GPU maps;
                          0: they are in sent_ranks */
    uint64_t host_scratch, host_semaphores; /* of LANE_ABI_HOST */
    uint64_t by_switch;  /* address at which a switch reaches the scratch of all ranks at once: a step whose
                            sources are LANE_ABI_SWITCH reads them there, and writes its destinations there,
                            which are too; 0: it reads and writes one after the other */
    uint64_t wire_areas; /* address of the areas' addresses, and … */
    uint64_t wire_semaphores;        /* … of the semaphores of wires; 0: the program has none */
    uint32_t lane_first, lane_count; /* of the program's: those of this GPU */
    uint32_t divisor;                /* AVG: the number of ranks; else 1 */
    uint32_t scaled;                 /* PRE_MUL_SUM: inputs are multiplied as they are read */
    uint32_t rank_count;
    uint32_t reserved;
    lane_abi_rank_t sent_ranks[LANE_ABI_RANKS_SENT];
} lane_abi_run_t;

/*
 * Kernels. blink_lanes_<type>_<operator>, with the types as blink_name_datatype() spells them and the
 * operators sum (AVG and PRE_MUL_SUM too), prod, max, min; and blink_lanes_move, for programs all of whose
 * steps have one source: it copies bytes. Programs that are independent run on any number of blocks. Of
 * others each lane is one block, in order, and all blocks of a launch must be resident at once. 1-dimensional
 * grids, LANE_ABI_THREADS threads, no dynamic shared memory.
 */
#define LANE_ABI_KERNEL_NAME_BYTES 64

#endif
