#include "exec/cuda/wires.h"

#include "error.h"
#include "exec/wire_lane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a rank that has no buffer, which nobody looks into: a barrier's. */
#define BLANK_BYTES 16u

static uint32_t first_wire(const cuda_wires_t *wires)
{
    return wires->base->program->lane_count - wires->base->program->wire_count;
}

static cuda_wire_t *wire_of(const cuda_wires_t *wires, uint32_t lane)
{
    return &wires->wires[lane - first_wire(wires)];
}

static const lane_step_t *step_of(const cuda_wires_t *wires, const cuda_wire_t *wire, uint32_t sequence)
{
    return wire_lane_step(wires->base->program, wire->lane, sequence);
}

/* ---- making ---- */

blink_result_t cuda_wires_init(cuda_wires_t *wires, exec_cuda_t *exec, exec_instance_t *base,
                               const image_block_t *program_image, const image_block_t *binding)
{
    const lane_program_t *program = base->program;
    wires->exec = exec;
    wires->base = base;
    wires->program = program_image;
    wires->binding = binding;
    list_init(&wires->link);
    pthread_mutex_init(&wires->mutex, NULL);
    BLINK_TRY(image_wires_init(program, &wires->image));
    if (program->wire_count == 0)
        return BLINK_OK;
    if (program->protocol != BLINK_PROTOCOL_SIMPLE)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "a plan with flags, under which lanes cannot leave while they "
                          "wait for another host");
    wires->wires = calloc(program->wire_count, sizeof(*wires->wires));
    if (!wires->wires)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u wire lanes", program->wire_count);
    for (uint32_t i = 0; i < program->wire_count; i++) {
        const lane_t *lane = &program->lanes[first_wire(wires) + i];
        wires->wires[i] =
            (cuda_wire_t){.lane = lane, .outgoing = program->rank_host[lane->rank] == program->host};
    }
    return BLINK_OK;
}

static void give_block(cuda_wires_t *wires)
{
    if (!wires->block)
        return;
    exec_instance_memory_gone(wires->base);
    wire_memory_give(wires->exec->config.wires, wires->block, wires->block_bytes);
    wires->block = NULL;
}

void cuda_wires_fini(cuda_wires_t *wires)
{
    give_block(wires);
    list_remove(&wires->link);
    image_wires_fini(&wires->image);
    free(wires->wires);
    pthread_mutex_destroy(&wires->mutex);
}

static uint32_t own_rank_count(const lane_program_t *program)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < program->rank_count; i++)
        count += program->rank_host[i] == program->host;
    return count;
}

static uint64_t add(uint64_t *end, uint64_t bytes)
{
    uint64_t at = *end;
    *end = (at + bytes + LANE_LANDING_ALIGNMENT - 1) / LANE_LANDING_ALIGNMENT * LANE_LANDING_ALIGNMENT;
    return at;
}

void cuda_wires_bind(cuda_wires_t *wires, uint64_t send_bytes)
{
    const lane_program_t *program = wires->base->program;
    uint64_t end = 0;
    if (!wires->wires)
        return;
    (void)add(&end, (uint64_t)wires->image.count * LANE_ABI_SEMAPHORE_BYTES);
    wires->progress_offset = add(&end, program->lane_count * sizeof(lane_abi_progress_t));
    wires->areas_offset = add(&end, (program->landing_count + 1) * sizeof(uint64_t));
    wires->blanks_offset = add(&end, (uint64_t)own_rank_count(program) * 2 * BLANK_BYTES);
    wires->send_offset = add(&end, send_bytes);
    if (end != wires->block_bytes)
        give_block(wires);
    wires->block_bytes = end;
}

blink_result_t cuda_wires_load(cuda_wires_t *wires)
{
    if (!wires->wires || wires->block)
        return BLINK_OK;
    wires->block = wire_memory_take(wires->exec->config.wires, wires->block_bytes);
    return wires->block
               ? BLINK_OK
               : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory that the network and GPUs share is left");
}

/* ---- beginning ---- */

static uint64_t gpu_address(const cuda_wires_t *wires, const void *address)
{
    return wires->exec->channel.wire_address + wire_memory_offset(wires->exec->config.wires, address);
}

/* Where landings of this host are; those of others have none. */
static blink_result_t enter_areas(cuda_wires_t *wires)
{
    const lane_program_t *program = wires->base->program;
    const uint64_t *device_landings = wires->base->run.wires->device_landings;
    uint64_t *areas = (uint64_t *)(void *)(wires->block + wires->areas_offset);
    for (uint32_t i = 0; i < program->landing_count; i++) {
        const void *landing = wires->base->run.wires->landings[i];
        areas[i] = 0;
        if (!landing)
            continue;
        if (wire_memory_offset(wires->exec->config.wires, landing) == UINT64_MAX)
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "landing %u is not in memory that GPUs reach", i);
        bool is_on_device = device_landings && device_landings[i];
        areas[i] = is_on_device ? device_landings[i] : gpu_address(wires, landing);
    }
    areas[program->landing_count] = gpu_address(wires, wires->block + wires->send_offset);
    return BLINK_OK;
}

blink_result_t cuda_wires_begin(cuda_wires_t *wires, uint32_t lane_count, uint64_t rounds)
{
    wires->lane_count = lane_count;
    wires->rounds = rounds;
    uint32_t with_moves = 0;
    BLINK_TRY(enter_areas(wires));
    memset(wires->block, 0, wires->areas_offset); /* semaphores and progress */
    for (uint32_t i = 0; i < wires->base->program->wire_count; i++) {
        cuda_wire_t *wire = &wires->wires[i];
        wire->moves = exec_wire_moves(wires->base, first_wire(wires) + i);
        wire->told = wire->finished = 0;
        with_moves += wire->moves > 0;
    }
    /* Relaxed: nothing of the run is under way. */
    atomic_store_explicit(&wires->users, 1 + with_moves, memory_order_relaxed);
    atomic_store_explicit(&wires->events, 0, memory_order_relaxed);
    atomic_store_explicit(&wires->parked, false, memory_order_relaxed);
    wires->seen = wires->came = 0;
    pthread_mutex_lock(&wires->mutex);
    wires->running = true;
    wires->aborted = false;
    pthread_mutex_unlock(&wires->mutex);
    list_append(&wires->exec->wired, &wires->link);
    return BLINK_OK;
}

static void use_segments(const cuda_wires_t *wires, const void *address, uint64_t bytes, gpu_run_t *to)
{
    uint64_t first = wire_memory_offset(wires->exec->config.wires, address);
    for (uint64_t segment = first / GPU_WIRE_SEGMENT_BYTES; segment * GPU_WIRE_SEGMENT_BYTES < first + bytes;
         segment++)
        to->wire_segments[segment / 64] |= UINT64_C(1) << segment % 64;
}

static void fill_blanks(const cuda_wires_t *wires, gpu_run_t *to)
{
    uint64_t blanks = gpu_address(wires, wires->block + wires->blanks_offset);
    for (uint32_t i = 0; i < to->rank_count; i++) {
        lane_abi_rank_t *rank = &to->ranks[i];
        rank->input = rank->input ? rank->input : blanks + 2 * i * BLANK_BYTES;
        rank->output = rank->output ? rank->output : blanks + (2 * i + 1) * BLANK_BYTES;
    }
}

void cuda_wires_fill(const cuda_wires_t *wires, gpu_run_t *to)
{
    const lane_program_t *program = wires->base->program;
    uint64_t block = gpu_address(wires, wires->block);
    to->run.wire_semaphores = block;
    to->run.progress = block + wires->progress_offset;
    to->run.wire_areas = block + wires->areas_offset;
    to->watched_address = block;
    to->watched_count = wires->image.watched;
    use_segments(wires, wires->block, wires->block_bytes, to);
    for (uint32_t i = 0; i < program->landing_count; i++) {
        const void *landing = wires->base->run.wires->landings[i];
        if (landing)
            use_segments(wires, landing, wires->base->geometry.landing_bytes[i], to);
    }
    fill_blanks(wires, to);
}

/* ---- telling the network ---- */

static uint64_t *semaphore_at(const cuda_wires_t *wires, uint32_t semaphore)
{
    return (uint64_t *)(void *)(wires->block +
                                (size_t)wires->image.place[semaphore] * LANE_ABI_SEMAPHORE_BYTES);
}

/* What a semaphore holds when all chunks before this one are through. */
static uint64_t value_of(const cuda_wires_t *wires, uint32_t chunk)
{
    return (wires->rounds << CUDA_ROUND_SHIFT) + chunk;
}

static bool is_blocked(const cuda_wires_t *wires, const lane_wait_t *wait, uint32_t chunk)
{
    uint32_t after = chunk + 1, slots = wires->base->geometry.slots;
    if (wait->kind == LANE_FREE && after <= slots)
        return false;
    uint64_t needed = value_of(wires, wait->kind == LANE_FREE ? after - slots : after);
    /* Acquire: pairs with store_release() of a kernel, and with raise(): what was written before may be read.
     */
    return __atomic_load_n(semaphore_at(wires, wait->semaphore), __ATOMIC_ACQUIRE) < needed;
}

static bool may_tell(const cuda_wires_t *wires, const cuda_wire_t *wire)
{
    const lane_step_t *step = step_of(wires, wire, wire->told);
    for (uint32_t i = step->wait_first; i < step->wait_first + step->wait_count; i++) {
        const lane_wait_t *wait = &wires->base->program->waits[i];
        if (wire_lane_waits(wait, wire->outgoing) &&
            is_blocked(wires, wait, wire_lane_chunk(wire->lane, wire->told)))
            return false;
    }
    return true;
}

void cuda_wires_look(cuda_wires_t *wires)
{
    const exec_wires_t *network = wires->base->run.wires;
    pthread_mutex_lock(&wires->mutex);
    for (uint32_t i = 0; wires->running && !wires->aborted && i < wires->base->program->wire_count; i++) {
        cuda_wire_t *wire = &wires->wires[i];
        uint32_t told = wire->told;
        while (wire->told < wire->moves && may_tell(wires, wire))
            wire->told++;
        if (wire->told > told)
            network->ready(network->context, first_wire(wires) + i, wire->told);
    }
    pthread_mutex_unlock(&wires->mutex);
}

bool cuda_wires_may_tell(cuda_wires_t *wires)
{
    bool may = false;
    pthread_mutex_lock(&wires->mutex);
    for (uint32_t i = 0; wires->running && !wires->aborted && i < wires->base->program->wire_count; i++) {
        const cuda_wire_t *wire = &wires->wires[i];
        may |= wire->told < wire->moves && may_tell(wires, wire);
    }
    pthread_mutex_unlock(&wires->mutex);
    return may;
}

/* ---- lanes that leave ---- */

static const lane_abi_progress_t *progress_of(const cuda_wires_t *wires)
{
    return (const lane_abi_progress_t *)(const void *)(wires->block + wires->progress_offset);
}

/* In the order of the image: lanes of one GPU after those of another. */
static uint64_t count_progress(const cuda_wires_t *wires)
{
    const lane_abi_progress_t *progress = progress_of(wires);
    uint64_t sum = 0;
    for (uint32_t lane = 0; lane < first_wire(wires); lane++)
        sum += ((uint64_t)progress[lane].chunk << 32) + progress[lane].step;
    return sum;
}

bool cuda_wires_lanes_ended(const cuda_wires_t *wires)
{
    const lane_abi_program_t *program = wires->program->bytes;
    const lane_abi_lane_t *lanes =
        (const void *)((const char *)wires->program->bytes + program->lanes_offset);
    const lane_abi_progress_t *progress = progress_of(wires);
    uint32_t lane = 0;
    while (lane < wires->lane_count &&
           progress[lane].chunk >= wires->base->geometry.channels[lanes[lane].channel].chunks)
        lane++;
    return lane == wires->lane_count;
}

void cuda_wires_launched(cuda_wires_t *wires)
{
    wires->came = count_progress(wires);
    /* Acquire: pairs with the addition in raised(). */
    wires->seen = atomic_load_explicit(&wires->events, memory_order_acquire);
}

/* If no lane has got further since the launch, and the network has raised nothing, then all wait for what the
 * network has to do. */
bool cuda_wires_may_go_on(cuda_wires_t *wires)
{
    if (count_progress(wires) != wires->came)
        return true;
    /* seq_cst: this store and the load after it pair with raised(), which adds first and looks at `parked`
     * then: one side sees what the other has stored. */
    atomic_store_explicit(&wires->parked, true, memory_order_seq_cst);
    if (atomic_load_explicit(&wires->events, memory_order_seq_cst) == wires->seen)
        return false;
    atomic_store_explicit(&wires->parked, false, memory_order_seq_cst);
    return true;
}

static void raised(cuda_wires_t *wires)
{
    atomic_fetch_add_explicit(&wires->events, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&wires->parked, memory_order_seq_cst))
        cuda_wake(wires->exec);
}

/* ---- the end ---- */

void cuda_wires_abort(cuda_wires_t *wires, blink_result_t reason)
{
    const exec_wires_t *network = wires->base->run.wires;
    pthread_mutex_lock(&wires->mutex);
    if (wires->running && !wires->aborted) {
        wires->aborted = true;
        wires->abort_reason = reason;
        network->aborted(network->context);
    }
    pthread_mutex_unlock(&wires->mutex);
}

/* True for the last: the run has ended, and its result is in wires->end. */
static bool leave(cuda_wires_t *wires, uint32_t users)
{
    /* Acquire and release, pairing with one another: what the others did comes before the end. */
    if (atomic_fetch_sub_explicit(&wires->users, users, memory_order_acq_rel) != users)
        return false;
    pthread_mutex_lock(&wires->mutex);
    wires->running = false;
    if (wires->end.result == BLINK_OK && wires->aborted) {
        wires->end.result = wires->abort_reason;
        snprintf(wires->end_text, sizeof(wires->end_text), "the run was aborted");
    }
    pthread_mutex_unlock(&wires->mutex);
    return true;
}

bool cuda_wires_end(cuda_wires_t *wires, const exec_end_t *end, const char *text)
{
    wires->end = *end;
    snprintf(wires->end_text, sizeof(wires->end_text), "%s", text);
    if (end->result != BLINK_OK)
        cuda_wires_abort(wires, end->result);
    cuda_wires_look(wires);
    list_remove(&wires->link);
    return leave(wires, 1);
}

/* On a thread of the network's. */
static void drop(cuda_wires_t *wires, uint32_t users)
{
    if (!leave(wires, users))
        return;
    exec_end_t end = wires->end;
    if (end.result != BLINK_OK)
        end.result = BLINK_FAIL(end.result, "%s", wires->end_text);
    wires->base->run.done(&end);
}

/* ---- being told ---- */

static const char *slot_of(const cuda_wires_t *wires, const cuda_wire_t *wire, const lane_operand_t *operand,
                           uint32_t chunk)
{
    const lane_geometry_t *geometry = &wires->base->geometry;
    if (operand->buffer == LANE_LANDING) {
        const char *landing = wires->base->run.wires->landings[wires->image.area[operand->edge]];
        return landing + lane_landing_offset(geometry, wire->lane->channel, operand->edge, chunk);
    }
    const lane_abi_binding_t *binding = wires->binding->bytes;
    const lane_abi_edge_t *edges =
        (const void *)((const char *)wires->binding->bytes + binding->edges_offset);
    return wires->block + wires->send_offset + edges[operand->edge].scratch_offset +
           chunk % geometry->slots * edges[operand->edge].slot_bytes;
}

bool cuda_wires_memory(const cuda_wires_t *wires, void **memory, uint64_t *bytes)
{
    *memory = wires->block + wires->send_offset;
    *bytes = wires->block_bytes - wires->send_offset;
    return *bytes > 0;
}

wire_place_t cuda_wires_place(const cuda_wires_t *wires, uint32_t lane, uint32_t sequence)
{
    const cuda_wire_t *wire = wire_of(wires, lane);
    const lane_step_t *step = step_of(wires, wire, sequence);
    const lane_operand_t *operand = wire_lane_end(wires->base->program, step, wire->outgoing);
    uint32_t chunk = wire_lane_chunk(wire->lane, sequence);
    bool lands = operand->buffer == LANE_LANDING;
    return (wire_place_t){.address = (void *)(uintptr_t)slot_of(wires, wire, operand, chunk),
                          .bytes =
                              lane_span(&wires->base->geometry, wire->lane->channel, step->part, chunk).bytes,
                          .buffer = operand->buffer,
                          .rank = operand->rank,
                          .landing = lands ? wires->image.area[operand->edge] : PLAN_NONE};
}

/* Raise what tells that a move was sent, or has come, on this host. */
static void raise_for(cuda_wires_t *wires, const cuda_wire_t *wire, uint32_t sequence)
{
    const lane_step_t *step = step_of(wires, wire, sequence);
    for (uint32_t i = step->signal_first; i < step->signal_first + step->signal_count; i++) {
        const lane_signal_t *signal = &wires->base->program->signals[i];
        /* Release: pairs with is_blocked(), and load_acquire() of a kernel. */
        if (wire_lane_signals(signal, wire->outgoing))
            __atomic_store_n(semaphore_at(wires, signal->semaphore),
                             value_of(wires, wire_lane_chunk(wire->lane, sequence) + 1), __ATOMIC_RELEASE);
    }
}

void cuda_wires_finish(cuda_wires_t *wires, uint32_t lane, uint32_t sequence)
{
    cuda_wire_t *wire = wire_of(wires, lane);
    for (; wire->finished < sequence; wire->finished++)
        raise_for(wires, wire, wire->finished);
    cuda_wires_look(wires);
    raised(wires);
    if (wire->finished == wire->moves)
        drop(wires, 1);
}

void cuda_wires_settle(cuda_wires_t *wires)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < wires->base->program->wire_count; i++)
        open += wires->wires[i].finished < wires->wires[i].moves;
    if (open > 0)
        drop(wires, open);
}
