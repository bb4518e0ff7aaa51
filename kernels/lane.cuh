/*
 * The interpreter of lanes on a GPU: one block runs a lane, or its share of the chunks of independent ones.
 * daemon/plan/lane/lane.h says what a program means, lane_abi.h how it lies in memory. The threads of a block
 * leave together and only at its end: after the last step, when the host wants the run to end, or when a wait
 * has lasted too long.
 *
 * Lanes that leave. A lane may have to leave when a wait lasts, so that others have its multiprocessor, and
 * be taken up again by a later launch. It leaves only where it waits for a semaphore, before the step has
 * moved anything, and notes chunk and step; what it waited for is still to come, or has come when it looks
 * again. Semaphores and slots stay as they are between the launches of a run.
 *
 * Order. The threads write a step's data and meet at a barrier; then one of them signals with
 * store_release(). A thread that sees the signal with load_acquire(), and after the next barrier every thread
 * of its block, on any GPU and in any process, sees those data, and so does everybody whom it tells in turn.
 * A signal that sources were read works the same way. Where flags travel in the data no semaphore says that
 * the data have arrived; move.cuh says why the flags suffice. At its end every block fences and counts down
 * (count_down()); the last one fences once more and tells the host, which then sees all that any block wrote.
 * docs/memory-model.md says what has checked this.
 */
#ifndef BLINK_KERNELS_LANE_CUH
#define BLINK_KERNELS_LANE_CUH

#include "move.cuh"

/* Chunks between two looks at whether the run is still wanted: a look is a round trip to the host. Waits look
 * more often. */
#define CHUNKS_PER_LOOK 8u

/* A run as one block makes it. */
typedef struct block_t {
    uint32_t index, count;
} block_t;

/* Lists of a program and its binding. */
template <class item_t> LANE_FUNCTION const item_t *list_at(uint64_t base, uint32_t offset)
{
    return (const item_t *)(base + offset);
}

/* One step on one chunk. */
typedef struct moment_t {
    const lane_abi_program_t *program;
    const lane_abi_binding_t *binding;
    lane_abi_step_t step;
    uint64_t chunk_bytes; /* of the channel */
    uint32_t chunk;
    uint32_t step_index; /* in the lane */
    bool by_switch;      /* a switch takes part in the step */
} moment_t;

/* ---- ranks ---- */

/* Those of the run, and LANE_ABI_HOST. Threads look up different ones, at every step. */
LANE_SHARED lane_abi_rank_t ranks[LANE_ABI_RANKS_MAX + 1];

/* Before the block's first barrier. */
LANE_FUNCTION void ranks_load(const lane_abi_run_t &run)
{
    for (uint32_t i = thread_index(); i < run.rank_count; i += BLOCK_THREADS)
        ranks[i] = run.ranks != 0 ? ((const lane_abi_rank_t *)run.ranks)[i] : run.sent_ranks[i];
    if (thread_index() == 0) {
        ranks[LANE_ABI_HOST].scratch = run.host_scratch;
        ranks[LANE_ABI_HOST].semaphores = run.host_semaphores;
    }
}

/* ---- where operands are ---- */

typedef struct span_t {
    uint64_t offset, bytes;
} span_t;

/* As lane_span(). */
LANE_FUNCTION span_t span_of(const lane_abi_part_t &part, uint64_t chunk_bytes, uint32_t chunk)
{
    uint64_t stride = chunk_bytes * part.siblings;
    uint64_t from = chunk * stride;
    if (from >= part.extent_bytes)
        return span_t{part.extent_begin + part.extent_bytes, 0};
    uint64_t bytes = part.extent_bytes - from;
    bytes = bytes < stride ? bytes : stride;
    if (part.siblings == 1)
        return span_t{part.extent_begin + from, bytes};
    uint64_t units = (bytes + 15) / 16;
    uint64_t begin = units * part.ordinal / part.siblings * 16;
    uint64_t end = units * (part.ordinal + 1) / part.siblings * 16;
    end = end < bytes ? end : bytes;
    return span_t{part.extent_begin + from + begin, end - begin};
}

/* Where the slots of an edge begin: in scratch, or in host memory that wires share. */
LANE_FUNCTION uint64_t slots_of(const lane_abi_run_t &run, const lane_abi_operand_t &operand)
{
    if (operand.buffer == LANE_ABI_SCRATCH || operand.buffer == LANE_ABI_SWITCH)
        return ranks[operand.rank].scratch;
    return ((const volatile uint64_t *)run.wire_areas)[operand.rank];
}

/* As lane_buffer_offset(), lane_scratch_offset() and lane_landing_offset(), with OPERAND_FLAGGED. */
LANE_FUNCTION uint64_t operand_of(const lane_abi_run_t &run, const moment_t &moment,
                                  const lane_abi_operand_t &operand, const lane_abi_part_t &part, span_t span)
{
    if (operand.buffer == LANE_ABI_INPUT)
        return ranks[operand.rank].input + part.in_block * ranks[operand.rank].input_stride_bytes +
               span.offset;
    if (operand.buffer == LANE_ABI_OUTPUT)
        return ranks[operand.rank].output + part.out_block * ranks[operand.rank].output_stride_bytes +
               span.offset;
    const lane_abi_edge_t &edge =
        list_at<lane_abi_edge_t>(run.binding, moment.binding->edges_offset)[operand.edge];
    uint64_t slot =
        slots_of(run, operand) + edge.scratch_offset + moment.chunk % moment.binding->slots * edge.slot_bytes;
    return moment.program->protocol == BLINK_PROTOCOL_SIMPLE ? slot : slot | OPERAND_FLAGGED;
}

/* Fill in the frame, every thread an operand. */
LANE_FUNCTION void step_lay_out(const lane_abi_run_t &run, const moment_t &moment)
{
    const lane_abi_step_t &step = moment.step;
    const lane_abi_part_t part =
        list_at<lane_abi_part_t>(run.binding, moment.binding->parts_offset)[step.part];
    span_t span = span_of(part, moment.chunk_bytes, moment.chunk);
    const lane_abi_operand_t *operands =
        list_at<lane_abi_operand_t>(run.program, moment.program->operands_offset);
    for (uint32_t i = thread_index(); i < step.src_count; i += BLOCK_THREADS) {
        const lane_abi_operand_t operand = operands[step.src_first + i];
        bool scaled = run.scaled && operand.buffer == LANE_ABI_INPUT;
        frame.srcs[i] = operand_of(run, moment, operand, part, span) | (scaled ? OPERAND_SCALED : 0);
        frame.scalars[i] = scaled ? ranks[operand.rank].scalar : 0;
    }
    for (uint32_t i = thread_index(); i < step.dst_count; i += BLOCK_THREADS)
        frame.dsts[i] = operand_of(run, moment, operands[step.dst_first + i], part, span);
    if (thread_index() != 0)
        return;
    frame.bytes = span.bytes;
    frame.epoch = run.epoch_base + moment.chunk + 1;
    frame.src_count = step.src_count;
    frame.dst_count = step.dst_count;
    frame.divisor = step.completes ? run.divisor : 1;
    frame.copies = step.src_count == 1 && frame.divisor <= 1 && !(frame.srcs[0] & OPERAND_SCALED);
}

/* Whether a switch takes part in the step. */
template <class reducing> LANE_FUNCTION bool is_by_switch(const lane_abi_run_t &run, const moment_t &moment)
{
    const lane_abi_operand_t *operands =
        list_at<lane_abi_operand_t>(run.program, moment.program->operands_offset);
    return by_switch<reducing>::IS_THERE && run.by_switch != 0 &&
           operands[moment.step.src_first].buffer == LANE_ABI_SWITCH;
}

/* All of a switch's sources are in one place, and so are its destinations: the thread that has laid out the
 * first of each takes that for the address of all. The first is that of the first rank. */
LANE_FUNCTION void step_take_switch(const lane_abi_run_t &run)
{
    if (thread_index() != 0)
        return;
    frame.srcs[0] += run.by_switch - ranks[0].scratch;
    frame.dsts[0] += run.by_switch - ranks[0].scratch;
    frame.src_count = frame.dst_count = 1;
}

/* ---- semaphores ---- */

LANE_FUNCTION uint64_t semaphore_at(const lane_abi_run_t &run, uint32_t rank, uint32_t semaphore)
{
    uint64_t semaphores = rank == LANE_ABI_WIRES ? run.wire_semaphores : ranks[rank].semaphores;
    return semaphores + (uint64_t)semaphore * LANE_ABI_SEMAPHORE_BYTES;
}

/* Returns false if the run is to end before the wait is over. */
LANE_FUNCTION bool await_semaphore(uint64_t address, uint64_t needed)
{
    patience_t patience = {0, POLLS_FIRST, 0};
    while (load_acquire(address) < needed) {
        if (patience_ends(&patience))
            return false;
    }
    return true;
}

/* Every thread waits for a semaphore. Returns false in a thread whose wait ended before its time. */
LANE_FUNCTION bool step_wait(const lane_abi_run_t &run, const moment_t &moment)
{
    const lane_abi_wait_t *waits = list_at<lane_abi_wait_t>(run.program, moment.program->waits_offset);
    uint64_t after = (uint64_t)moment.chunk + 1;
    for (uint32_t i = thread_index(); i < moment.step.wait_count; i += BLOCK_THREADS) {
        const lane_abi_wait_t wait = waits[moment.step.wait_first + i];
        bool is_full = wait.kind == LANE_ABI_FULL;
        if (is_full ? moment.program->protocol != BLINK_PROTOCOL_SIMPLE : after <= moment.binding->slots)
            continue;
        uint64_t needed = run.semaphore_base + after - (is_full ? 0 : moment.binding->slots);
        if (!await_semaphore(semaphore_at(run, wait.rank, wait.semaphore), needed))
            return false;
    }
    if (moment.by_switch && thread_index() < moment.step.wait_count)
        fence_aliases();
    return true;
}

/* After a barrier: every thread signals. */
LANE_FUNCTION void step_signal(const lane_abi_run_t &run, const moment_t &moment)
{
    const lane_abi_signal_t *signals =
        list_at<lane_abi_signal_t>(run.program, moment.program->signals_offset);
    if (moment.by_switch && thread_index() < moment.step.signal_count)
        fence_aliases();
    for (uint32_t i = thread_index(); i < moment.step.signal_count; i += BLOCK_THREADS) {
        const lane_abi_signal_t signal = signals[moment.step.signal_first + i];
        if (signal.announces_data && moment.program->protocol != BLINK_PROTOCOL_SIMPLE)
            continue; /* the data have said so */
        store_release(semaphore_at(run, signal.rank, signal.semaphore),
                      run.semaphore_base + moment.chunk + 1);
    }
}

/* ---- steps, lanes, items ---- */

/* Whether the host still wants the run; asked by one thread. */
LANE_FUNCTION bool is_aborted(const lane_abi_run_t &run)
{
    return thread_index() == 0 && load_flag(&((const lane_abi_control_t *)run.control)->abort) != 0;
}

/* Returns false in a thread whose wait ended before all had arrived. */
template <class reducing> LANE_FUNCTION bool step_move(bool is_by_switch)
{
    if constexpr (by_switch<reducing>::IS_THERE) {
        if (is_by_switch) {
            move_by_switch<reducing>();
            return true;
        }
    }
    return move_step<reducing>();
}

/* Returns false, in all threads of the block alike, if the block is to leave. */
template <class reducing>
LANE_FUNCTION bool step_run(const lane_abi_run_t &run, const moment_t &moment, bool looks)
{
    step_lay_out(run, moment);
    if (moment.by_switch)
        step_take_switch(run);
    if (block_any(!step_wait(run, moment)))
        return false;
    bool leaves = looks && is_aborted(run);
    if (frame.bytes > 0)
        leaves |= !step_move<reducing>(moment.by_switch);
    /* From here on all data are moved, and the frame may be filled anew. */
    if (block_any(leaves))
        return false;
    step_signal(run, moment);
    return true;
}

/* The steps of a lane on one chunk, from the moment's on. Returns false if the block is to leave. */
template <class reducing>
LANE_FUNCTION bool chunk_run(const lane_abi_run_t &run, moment_t &moment, const lane_abi_lane_t &lane,
                             bool looks)
{
    const lane_abi_step_t *steps = list_at<lane_abi_step_t>(run.program, moment.program->steps_offset);
    for (; moment.step_index < lane.step_count; moment.step_index++) {
        moment.step = steps[lane.step_first + moment.step_index];
        moment.by_switch = is_by_switch<reducing>(run, moment);
        if (!step_run<reducing>(run, moment, looks))
            return false;
    }
    moment.step_index = 0;
    return true;
}

/* Chunks are numbered lane by lane: the block runs those from `chunk` on, every `stride`-th. */
typedef struct portion_t {
    uint32_t lane_first, lane_count;
    uint64_t chunk;
    uint32_t stride;
} portion_t;

/* A lane, in order; or, where any order will do, the chunks of all lanes in turn with the other blocks. */
LANE_FUNCTION portion_t portion_of(const lane_abi_run_t &run, const moment_t &moment, block_t block)
{
    if (moment.program->independent)
        return portion_t{run.lane_first, run.lane_count, block.index, block.count};
    return portion_t{run.lane_first + block.index, block.index < run.lane_count ? 1u : 0u, 0, 1};
}

/* ---- lanes that leave ---- */

LANE_FUNCTION lane_abi_progress_t *progress_of(const lane_abi_run_t &run, uint32_t lane)
{
    return (lane_abi_progress_t *)run.progress + lane;
}

/* Begin where the block that ran the lane before has left it. Every thread reads that before the barrier of
 * its first step, behind which alone it is written again. */
LANE_FUNCTION void lane_take_up(const lane_abi_run_t &run, moment_t &moment, portion_t &portion)
{
    if (run.progress == 0 || portion.lane_count == 0)
        return;
    const lane_abi_progress_t *progress = progress_of(run, portion.lane_first);
    portion.chunk = load_flag(&progress->chunk);
    moment.step_index = load_flag(&progress->step);
}

/* The block's end, and the launch's, come after this (block_end()): who sees those sees the progress. */
LANE_FUNCTION void lane_leave(const lane_abi_run_t &run, const moment_t &moment, uint32_t lane,
                              uint64_t chunk)
{
    if (run.progress == 0 || thread_index() != 0)
        return;
    store_flag(&progress_of(run, lane)->chunk, (uint32_t)chunk);
    store_flag(&progress_of(run, lane)->step, moment.step_index);
}

template <class reducing>
LANE_FUNCTION void portion_run(const lane_abi_run_t &run, moment_t &moment, portion_t portion)
{
    uint32_t taken = 0;
    lane_take_up(run, moment, portion);
    for (uint32_t l = portion.lane_first; l < portion.lane_first + portion.lane_count; l++) {
        const lane_abi_lane_t lane = list_at<lane_abi_lane_t>(run.program, moment.program->lanes_offset)[l];
        const lane_abi_channel_t channel =
            list_at<lane_abi_channel_t>(run.binding, moment.binding->channels_offset)[lane.channel];
        moment.chunk_bytes = channel.chunk_bytes;
        for (; portion.chunk < channel.chunks; portion.chunk += portion.stride) {
            moment.chunk = (uint32_t)portion.chunk;
            if (!chunk_run<reducing>(run, moment, lane, ++taken % CHUNKS_PER_LOOK == 0)) {
                lane_leave(run, moment, l, portion.chunk);
                return;
            }
        }
        lane_leave(run, moment, l, portion.chunk);
        portion.chunk -= channel.chunks;
    }
}

/* The last block to end says that the run is over. */
LANE_FUNCTION void block_end(const lane_abi_run_t &run, block_t block)
{
    block_barrier();
    if (thread_index() == 0 && count_down((uint32_t *)run.blocks_left, block.count))
        store_release((uint64_t) & ((lane_abi_control_t *)run.control)->finished, run.number);
}

/* A kernel. */
template <class reducing> LANE_FUNCTION void block_run(const lane_abi_run_t &run, block_t block)
{
    moment_t moment = {};
    moment.program = (const lane_abi_program_t *)run.program;
    moment.binding = (const lane_abi_binding_t *)run.binding;
    if (thread_index() == 0) {
        frame.protocol = moment.program->protocol;
        frame.control = (lane_abi_control_t *)run.control;
        frame.wait_limit_ns = run.wait_limit_ns;
        frame.leaves = run.progress != 0;
    }
    ranks_load(run);
    block_barrier();
    portion_run<reducing>(run, moment, portion_of(run, moment, block));
    block_end(run, block);
}

#endif
