/*
 * The lane IR: what a plan is compiled into and every executor interprets. A plan is made of one kind of
 * step,
 *
 *     wait(semaphores…);   dst₁ … dst_k  ←  src₁ ⊕ … ⊕ src_m;   signal(semaphores…)
 *
 * grouped in lanes: one sequential program per (channel, rank, phase), whose body runs once per chunk c = 0 …
 * C-1. A program holds shares, never bytes: lane_geometry_t binds it to a payload when an op starts.
 *
 * Blocks. The payload is block_count equal blocks (collective.h). A part carries a piece of one block:
 * the channels that carry a block share it in extents, and the parts of one channel that carry the same
 * block, its siblings, are dealt every chunk of their extent in turn.
 *
 * Buffers. An operand is (rank, input | output | slots of an edge). Input and output are addressed by
 * lane_buffer_offset() at the span that lane_span() gives for (channel, part, chunk). Scratch belongs to one
 * edge of a reduce tree, or to an edge into a relay of a route, lives at the receiver, and is `slots` slots
 * of chunk_bytes; chunk c uses slot c mod slots. An edge of fewer chunks has as many slots as chunks, so
 * scratch is never more than the payload on each edge.
 *
 * Direct edges. An edge through memory that both ends share (TOPO_SHM links only) needs no scratch and no
 * semaphore at a leaf: its parent in a reduce tree reads its input, its parent in a broadcast tree writes its
 * output. A star of such edges is one step at the root, which reads every input and writes every output, each
 * element once. A program all of whose steps neither wait nor signal is `independent`: its chunks may run in
 * any order and at once.
 *
 * Peers. Of two ranks whose devices are no peers (topo_are_peers()) neither touches an input or output of the
 * other: every edge between them ends in scratch, and its receiver copies on. An executor puts such slots,
 * and the semaphores between the two, where both devices reach them.
 *
 * Formats. Under Simple only reduce trees and relays go through scratch; broadcast trees and the last hop of
 * a route write into the output, and a semaphore says so. Under LL and LL128 the flag travels in the data, so
 * every edge that is not direct ends in scratch and its receiver copies on into its output; the `full`
 * semaphore of a scratch edge then only says what the data say too. A wait names its operand, so that a step
 * may have sources with flags (LANE_SCRATCH alone) and without.
 *
 * Semaphores. Each is a u64 with one writer and one waiter, starts at 0, and is stored, never added: after
 * chunk c it holds c + 1. A `full` wait for chunk c is for value >= c + 1. A `free` wait is for value >= c +
 * 1 - slots (so the first `slots` chunks do not wait). A direct write to a user's output needs no `free`: an
 * op starts only when all its ranks have submitted.
 *
 * Hosts. Where ranks are on several hosts, each with a daemon of its own, a step of a processor touches
 * memory of its own host alone. What it would write to another host is moved by *wire lanes*: one for each
 * processor lane and each rank on another host that this lane sends to, with one step for each of these
 * moves, in the order of the processor lane. A network's proxy runs wire lanes. A step of a wire lane has one
 * source, on the host of the lane's rank, and one destination, memory of the rank `to_rank`. Its source is
 * the first of these that fits:
 *   - the only source of the processor's step, if that is an input that is not scaled, an output, or slots
 *     that nobody else reads; a step of a processor that has nothing left to write vanishes;
 *   - the rank's output, if the processor's step writes it (a root's result);
 *   - send slots: a scratch edge from the processor's lane to the wire lane, both on the same host.
 * Its destination is an output or slots in the *landing* of the host of to_rank. Its semaphores are
 *   - `full` of the source, which the wire waits for: written by the processor, or raised by the arrival of
 *     what another wire lane moved here. An input needs none;
 *   - `free` of the source, where that is slots, which the wire signals when its bytes may be overwritten;
 *   - `full` of the destination, for each that waits for it: raised at the receiver when the bytes have come;
 *   - `free` of the destination, where that is slots, which the wire waits for: written at the receiver, and
 *     brought to the sender as credit.
 * The sender's host does the waits for `full` and the signals that sources were read (dst PLAN_NONE). The
 * receiver's host does the signals of a dst, and raises what the wire waits for as `free`. The receiver may
 * be a wire lane too, which passes on what has come. Moves of a wire lane are numbered chunk × step_count +
 * step, from 0. Where the destination is an output, nothing has to become free: the receiver's permission to
 * write into it is enough. How far ahead of what has come the network sends is the network's business either
 * way.
 *
 * Switches. By multicast (plan.h) a rank's block reads and writes the memory of all ranks at once, where each
 * has a slot in the same place: LANE_SHARED. Such slots are edges like others, one at every rank: n of them,
 * numbered by rank, are what one instruction touches. A part takes three steps for a chunk, where m and o are
 * n edges each and r is the part's root:
 *   - up, each rank i: m[i] <- its input, on its own device;
 *   - up, rank r: o[0 … n-1] <- m[0] + … + m[n-1], by the switch; the way there of each operand is its path,
 *     which for r's own leads to the switch and back;
 *   - down, each rank i: its output <- o[i], on its own device.
 * What the switch does has all n slots of one place for sources and those of another for destinations, in the
 * order of the ranks. Slots hold plain bytes: a switch would add up flags.
 *
 * A landing is the memory of one host for what one other host sends it, in slots of plain bytes. Wire lanes
 * from one host to another stand together, and so do their edges in the landing of the two: both ends count
 * both from the beginning of that landing alike, and exchange no tables. A wire carries plain bytes under
 * every protocol: send slots and landings have no flags.
 *
 * Payloads of up to LANE_LANDS_IN_SLOTS_BYTES may take a program of their own, which `lands_in_slots`: there
 * every move ends in a landing, from where the receiver copies it to its output, so that data may come before
 * the receiver has started. Its payload is one chunk, so each move has a slot of its own and nothing waits
 * for credit.
 *
 * Where a network cannot reach inputs and outputs, as it cannot those on GPUs, a program `keeps_to_slots`:
 * wires then send from send slots and landings alone, and end in landings. Payloads of all sizes take such a
 * program, in as many chunks as others, and wait for credit as others do.
 */
#ifndef BLINK_LANE_H
#define BLINK_LANE_H

#include "plan/plan.h"

typedef enum lane_buffer {
    LANE_INPUT,
    LANE_OUTPUT,
    LANE_SCRATCH, /* slots in the program's format, between processors of one host */
    LANE_SEND,    /* slots of plain bytes in the same scratch, which a wire lane reads */
    LANE_LANDING, /* slots of plain bytes in a landing, which a wire lane writes */
    LANE_SHARED,  /* slots of plain bytes in scratch, in the same place at every rank */
} lane_buffer_t;
typedef enum lane_phase { LANE_UP, LANE_DOWN } lane_phase_t;
typedef enum lane_wait_kind { LANE_FULL, LANE_FREE } lane_wait_kind_t;

typedef struct lane_operand {
    uint32_t buffer; /* lane_buffer_t */
    uint32_t rank;   /* whose memory it is */
    uint32_t edge;   /* whose slots: one of edge_count (scratch, send) or landing_edge_count (landing); else
                        PLAN_NONE */
    uint32_t
        path; /* memory of another rank: the path its bytes cross (to a dst, from a src); else PLAN_NONE */
} lane_operand_t;

typedef struct lane_wait {
    uint32_t semaphore;
    uint32_t kind;    /* lane_wait_kind_t */
    uint32_t operand; /* FULL: the src of this step that has come, PLAN_NONE if the wait is for something
                         else; FREE: the dst of this step whose slot is free */
} lane_wait_t;

typedef struct lane_signal {
    uint32_t semaphore;
    uint32_t dst; /* the dst of this step whose arrival it announces; PLAN_NONE: that the step's sources were
                     read */
} lane_signal_t;

/* Every list is a run in the program's pools. src_count >= 1 and dst_count >= 1; sources are combined in
 * order. */
typedef struct lane_step {
    uint32_t part; /* of the channel */
    uint32_t src_first, src_count;
    uint32_t dst_first, dst_count;
    uint32_t wait_first, wait_count;
    uint32_t signal_first, signal_count;
    uint32_t completes; /* 1: the result holds every contribution (an average is divided here); else 0 */
} lane_step_t;

typedef struct lane {
    uint32_t channel;
    uint32_t rank;    /* whose processor executes it, or sends what a wire lane moves */
    uint32_t to_rank; /* a wire lane's: the rank on another host whose memory it writes; else PLAN_NONE */
    uint32_t phase;   /* lane_phase_t */
    uint32_t step_first, step_count;
} lane_t;

/* A piece of one block. */
typedef struct lane_part {
    uint32_t block;
    uint32_t in_block, out_block; /* where the block stands in an input and an output, counted in blocks */
    uint32_t ordinal, siblings;   /* the part's place among the parts of its channel with the same block, and
                                     how many they are: the same for every block of a channel */
    double begin, end;            /* the channel's extent of the block, as fractions of it */
} lane_part_t;

typedef struct lane_channel {
    double share;                    /* of the payload */
    uint32_t part_first, part_count; /* run in parts */
    uint32_t edge_first, edge_count; /* edges of this channel that have scratch */
} lane_channel_t;

/* What one host sends to another. */
typedef struct lane_landing {
    uint32_t from_host, to_host;
    uint32_t lane_first, lane_count; /* run in lanes */
    uint32_t edge_first, edge_count; /* of the landing edges */
} lane_landing_t;

typedef struct lane_path {
    uint32_t link_first, link_count; /* run in path_links: topology links in travelling order */
    uint32_t from_rank, to_rank;     /* on the nodes at its ends; PLAN_NONE if no rank is there */
} lane_path_t;

typedef struct lane_program {
    blink_collective_t collective;
    uint32_t rank_count;
    uint32_t root, peer; /* as in plan_t */
    uint32_t block_count;
    blink_protocol_t protocol; /* format of the scratch slots */
    bool independent;          /* no step waits or signals, and no lane is a wire's */
    bool multicast;            /* switches reduce and copy */
    bool lands_in_slots;       /* nothing that comes over a wire lands in an output */
    uint32_t depth;            /* edges a byte crosses one after the other, as plan_depth() */
    uint64_t bdp_bytes;        /* largest capacity × latency of any path */
    double latency_us;         /* largest latency of any path, its hop in the plan's protocol included */
    double rate_GBps;          /* of the plan */
    double block_GBps;         /* as in plan_t */
    uint32_t host;             /* whose part of a program of several hosts this is; PLAN_NONE: all of it */
    uint64_t digest;     /* what hosts compare before they run their parts of one program; 0: one host */
    uint32_t edge_count; /* edges that own scratch slots */
    uint32_t landing_edge_count;
    uint32_t semaphore_count;
    uint32_t channel_count, part_count, lane_count, step_count, operand_count, wait_count, signal_count;
    uint32_t path_count, path_link_count;
    uint32_t wire_count; /* of the lanes; these are the last */
    uint32_t landing_count;
    lane_channel_t *channels;
    lane_part_t *parts;
    lane_t *lanes;
    lane_step_t *steps;
    lane_operand_t *operands;
    lane_wait_t *waits;
    lane_signal_t *signals;
    lane_path_t *paths;
    uint32_t *path_links;
    lane_landing_t *landings; /* sorted by from_host, then to_host; their lanes are all the wire lanes */
    uint32_t *rank_host;      /* NULL: one host */
} lane_program_t;

/* How ranks are spread over hosts. */
typedef struct lane_hosts {
    const uint32_t *of_rank; /* any number for each host */
    bool lands_in_slots;     /* for payloads of up to LANE_LANDS_IN_SLOTS_BYTES; see above */
    bool scales_inputs;      /* runs multiply inputs (PRE_MUL_SUM), so that no input is sent as it is */
    bool keeps_to_slots;     /* no wire reads or writes an input or output, whatever the payload */
} lane_hosts_t;

#define LANE_LANDS_IN_SLOTS_BYTES (16u << 10)

/* Compile. `hosts` NULL: one daemon has all ranks. The program is self-contained (plan, topology and hosts
 * may go) and the caller's: lane_program_destroy(). A one-rank plan compiles to a single lane that copies
 * input to output; a plan with symmetries is expanded. Errors: NO_MEMORY; INTERNAL (no part carries a
 * block, which is named; parts of one channel differ in number from block to block; a path is none; a plan by
 * multicast has another protocol than Simple, or hosts). */
blink_result_t lane_compile(const topo_t *topo, const plan_t *plan, const lane_hosts_t *hosts,
                            lane_program_t **program);
void lane_program_destroy(lane_program_t *program);

/* Compile one host's part: the program that lane_compile() and lane_program_keep() make, without making the
 * lanes of ranks on hosts that this one does not exchange anything with. Errors: as of lane_compile(). */
blink_result_t lane_compile_part(const topo_t *topo, const plan_t *plan, const lane_hosts_t *hosts,
                                 uint32_t host, lane_program_t **program);

/*
 * Keep one host's part of a program of several: the lanes of its ranks and the wire lanes from and to them,
 * with what these use. Edges, semaphores, lanes and paths are numbered anew; those of a landing keep their
 * order, so that both its hosts count them alike. Channels, parts and what the choice of chunks and slots
 * goes by stay: every host binds a payload alike. A semaphore may then have one end only, the other being at
 * another host; and slots on another host, from which a wire lane sends to this one, are edge PLAN_NONE. On
 * failure the program is as it was. Errors: NO_MEMORY.
 */
blink_result_t lane_program_keep(lane_program_t *program, uint32_t host);

/* The links of an operand with a path that its bytes cross on its account: all of the path's, but of a slot
 * that a switch touches those at the operand's own rank. The root's link carries all n of them once, and is
 * on the account of its own slot. */
lane_path_t lane_loaded_path(const lane_program_t *program, const lane_operand_t *operand);

/* Memory that a program keeps. */
uint64_t lane_program_bytes(const lane_program_t *program);

/* Fill in ordinal, siblings, begin and end of every part, from the parts' blocks and the channels' shares:
 * the channels that carry a block divide it in proportion to what they carry of it. lane_compile() does this.
 * Errors: NO_MEMORY; INTERNAL as above. */
blink_result_t lane_divide_blocks(lane_program_t *program);

/* Where one part of one chunk of a channel lies in its block. */
typedef struct lane_span {
    uint64_t offset_bytes;
    uint64_t bytes; /* may be 0: the step then moves nothing but still waits and signals */
} lane_span_t;

/*
 * A program bound to a payload: the exact split of every block in units of 16 bytes, the last channel that
 * carries it taking the tail. All channels are cut into about as many chunks, so chunk sizes are as the
 * shares: links that serve chunks in turn then give every channel the part of their capacity that the plan
 * meant for it.
 */
typedef struct lane_geometry {
    const lane_program_t *program;
    uint64_t block_bytes;
    uint64_t scratch_bytes; /* of all slots that the payload needs but those of landings */
    uint32_t slots;
    uint64_t *landing_offsets; /* by landing edge: where its slots begin in its landing */
    uint64_t *landing_bytes;   /* by landing: of its slots; both NULL without landings */
    struct lane_cut {
        uint64_t chunk_bytes; /* most bytes of one span; a multiple of 16 */
        uint64_t
            slot_bytes; /* of a scratch slot, in the program's format; a multiple of 128 where it has flags */
        uint64_t scratch_offset; /* where the slots of this channel's edges begin in the scratch */
        uint32_t chunks;         /* C of this channel: those of its largest extent; 0 if all are empty */
        uint32_t slots;          /* that an edge of this channel has memory for: no more than chunks */
    } * channels;
} lane_geometry_t;

/* Most bytes one step may move, and so the largest chunk. */
#define LANE_CHUNK_MAX_BYTES (256u << 10)
#define LANE_UNIT_BYTES      16u

/* Landings begin at multiples of this, and so do their slots. */
#define LANE_LANDING_ALIGNMENT 128u

/* Bytes that a chunk takes in a scratch slot and on a link: twice as many under LL (4 bytes of flag to 4 of
 * data), 128 for each 120 under LL128. */
uint64_t lane_format_bytes(blink_protocol_t protocol, uint64_t bytes);

/* Bind to a payload of block_count × block_bytes. `chunk_bytes` is the chunk of the channel with the largest
 * share per part, rounded up to a unit; 0 lets lane_choose_chunk() decide. No chunk is larger than what there
 * is to cut. `slots` 0 lets lane_choose_slots() decide. geometry borrows program. Errors: NO_MEMORY. */
blink_result_t lane_geometry_init(const lane_program_t *program, uint64_t block_bytes, uint64_t chunk_bytes,
                                  uint32_t slots, lane_geometry_t *geometry);
void lane_geometry_fini(lane_geometry_t *geometry);

/* Memory that a geometry of the program keeps, whatever the payload is. */
uint64_t lane_geometry_bytes(const lane_program_t *program);

/* The chunk that keeps the cost of filling the pipeline (depth steps) at a few percent and links busy in
 * spite of their latency. Small payloads cannot have both: under LL, chunks are then small enough that deep
 * trees fill soon. A program that lands in slots has one chunk. `bytes` is the whole payload. A function of
 * program and payload alone, as lane_choose_slots() is: the hosts of a program cut alike. */
uint64_t lane_choose_chunk(const lane_program_t *program, uint64_t bytes);

/* The slots per edge that keep the longest path busy for its whole latency, if the largest channel is cut in
 * chunks of chunk_bytes per part. */
uint32_t lane_choose_slots(const lane_program_t *program, uint64_t chunk_bytes);

/* The extent of a block that a part and its siblings are dealt, chunk by chunk. */
lane_span_t lane_extent(const lane_geometry_t *geometry, uint32_t channel, uint32_t part);

lane_span_t lane_span(const lane_geometry_t *geometry, uint32_t channel, uint32_t part, uint32_t chunk);

/* Where a part's span begins in a rank's input or output, whose blocks stand `stride_bytes` apart. */
uint64_t lane_buffer_offset(const lane_geometry_t *geometry, uint32_t channel, uint32_t part,
                            lane_buffer_t buffer, uint64_t stride_bytes, lane_span_t span);

/* Where the slot of a channel's edge (scratch or send) for this chunk begins in the scratch. */
uint64_t lane_scratch_offset(const lane_geometry_t *geometry, uint32_t channel, uint32_t edge,
                             uint32_t chunk);

/* The same of a landing edge in its landing. */
uint64_t lane_landing_offset(const lane_geometry_t *geometry, uint32_t channel, uint32_t edge,
                             uint32_t chunk);

#endif
