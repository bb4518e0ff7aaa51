/*
 * A run is made by kernels or by copies.
 */
#include "exec/cuda/run.h"

#include "base/clock.h"
#include "error.h"
#include "exec/cuda/grant.h"
#include "names.h"

#include <stdio.h>
#include <string.h>

/* A command to a copy engine costs some 2 µs to give; a multiprocessor moves this much meanwhile. */
#define COPIES_MAX     64u
#define COPY_BYTES_MIN (64u << 10)

/* Once all lanes run, a wait lasts as long as a few chunks take to arrive: one that meets this limit shows
 * that something is broken. */
#define WAIT_LIMIT_NS 30000000000u

/* A lane of a program with wires that has waited for so long leaves. Longer than a chunk takes over fast
 * networks, and not much longer than it takes to launch the lanes again. */
#define LEAVE_NS 100000u

/* ---- copies ---- */

/* By the engines of the lane's GPU, which reads or writes memory of its own: through those of a third one the
 * data would cross that one's links in both directions. */
static uint32_t add_copies(const cuda_instance_t *instance, const lane_t *lane, const lane_step_t *step,
                           lane_span_t span, gpu_copy_t *copies)
{
    const uint32_t channel = lane->channel;
    const lane_operand_t *srcs = &instance->base.program->operands[step->src_first];
    const lane_operand_t *dsts = &instance->base.program->operands[step->dst_first];
    uint32_t count = 0;
    uint64_t src = exec_operand_address(&instance->base, channel, step->part, srcs, span);
    for (uint32_t i = 0; i < step->dst_count; i++) {
        uint64_t dst = exec_operand_address(&instance->base, channel, step->part, &dsts[i], span);
        if (dst != src && span.bytes > 0)
            copies[count++] = (gpu_copy_t){dst, src, span.bytes, instance->rank_gpu[lane->rank]};
    }
    return count;
}

/* The whole program as copies, extent by extent. False if the program does more than copy, or if the copies
 * are too many or too small. */
static bool make_copies(const cuda_instance_t *instance, gpu_copy_t copies[COPIES_MAX], uint32_t *count)
{
    const lane_program_t *program = instance->base.program;
    uint64_t bytes = 0;
    *count = 0;
    for (uint32_t l = 0; l < program->lane_count; l++) {
        const lane_t *lane = &program->lanes[l];
        for (uint32_t s = lane->step_first; s < lane->step_first + lane->step_count; s++) {
            const lane_step_t *step = &program->steps[s];
            const lane_part_t *part =
                &program->parts[program->channels[lane->channel].part_first + step->part];
            if (part->siblings != 1 || *count + step->dst_count > COPIES_MAX)
                return false;
            lane_span_t extent = lane_extent(&instance->base.geometry, lane->channel, step->part);
            *count += add_copies(instance, lane, step, extent, &copies[*count]);
        }
    }
    for (uint32_t i = 0; i < *count; i++)
        bytes += copies[i].bytes;
    return *count > 0 && bytes / *count >= COPY_BYTES_MIN;
}

/* ---- running ---- */

static bool moves_only(const cuda_instance_t *instance)
{
    const exec_run_t *run = &instance->base.run;
    bool scales = run->redop == BLINK_PRE_MUL_SUM ||
                  (run->redop == BLINK_AVG && instance->base.program->rank_count > 1);
    return instance->only_moves && !scales;
}

static void name_kernel(const cuda_instance_t *instance, char name[LANE_ABI_KERNEL_NAME_BYTES])
{
    const exec_run_t *run = &instance->base.run;
    bool adds = run->redop == BLINK_AVG || run->redop == BLINK_PRE_MUL_SUM;
    if (moves_only(instance))
        snprintf(name, LANE_ABI_KERNEL_NAME_BYTES, "blink_lanes_move");
    else
        snprintf(name, LANE_ABI_KERNEL_NAME_BYTES, "blink_lanes_%s_%s", blink_name_datatype(run->datatype),
                 blink_name_redop(adds ? BLINK_SUM : run->redop));
}

/* The blocks of every GPU: one for each lane, or as many as there are items for. */
static void count_blocks(cuda_instance_t *instance)
{
    const exec_cuda_config_t *config = &instance->exec->config;
    const lane_program_t *program = instance->base.program;
    uint64_t items[GPU_MAX] = {0};
    for (uint32_t l = 0; l < program->lane_count - program->wire_count; l++)
        items[instance->rank_gpu[program->lanes[l].rank]] +=
            instance->base.geometry.channels[program->lanes[l].channel].chunks;
    for (uint32_t gpu = 0; gpu < config->gpu_count; gpu++) {
        uint32_t most = config->gpus[gpu].resident_blocks;
        uint32_t as_items = items[gpu] < most ? (uint32_t)items[gpu] : most;
        instance->blocks[gpu] = program->independent ? as_items : instance->lane_count[gpu];
        uint32_t resident = program->independent ? 0 : instance->lane_count[gpu];
        instance->resident[gpu] = resident < most ? resident : most; /* fewer with wires alone */
    }
}

static void fill_launches(const cuda_instance_t *instance, gpu_run_t *to)
{
    for (uint32_t gpu = 0; gpu < instance->exec->config.gpu_count; gpu++) {
        if (instance->lane_count[gpu] > 0)
            to->launches[to->launch_count++] = (gpu_launch_t){
                gpu, instance->lane_first[gpu], instance->lane_count[gpu], instance->blocks[gpu]};
    }
}

/* As image_program() numbers them. */
static void fill_ranks(const cuda_instance_t *instance, gpu_run_t *to)
{
    for (uint32_t i = 0; i < instance->base.program->rank_count; i++) {
        const exec_rank_t *rank = &instance->base.ranks[i];
        if (instance->rank_gpu[i] == GPU_NONE)
            continue;
        to->rank_gpu[to->rank_count] = (uint8_t)instance->rank_gpu[i];
        to->ranks[to->rank_count++] = (lane_abi_rank_t){.input = rank->input,
                                                        .output = rank->output,
                                                        .input_stride_bytes = rank->input_stride_bytes,
                                                        .output_stride_bytes = rank->output_stride_bytes,
                                                        .scalar = rank->scalar};
    }
}

/* Epochs and semaphores that tell what this run writes from what earlier runs left. */
static void begin_round(cuda_instance_t *instance, gpu_run_t *to)
{
    bool scrubs = exec_instance_advance_epochs(&instance->base);
    to->scrub_bytes = scrubs ? instance->memory.scratch_bytes : 0;
    to->host_scrub_bytes = scrubs ? instance->host_memory.scratch_bytes : 0;
    to->run.epoch_base = instance->base.epoch_base;
    ++instance->rounds;
}

static void fill_run(cuda_instance_t *instance, gpu_run_t *to)
{
    const exec_run_t *run = &instance->base.run;
    bool averages = run->redop == BLINK_AVG;
    *to = (gpu_run_t){.program = instance->program_object,
                      .binding = instance->bound->object,
                      .memory = instance->memory.object,
                      .host_memory = instance->host_memory.object,
                      .semaphores_offset = instance->memory.semaphores_offset,
                      .host_semaphores_offset = instance->host_memory.semaphores_offset,
                      .cooperative = !instance->base.program->independent && !instance->wires.wires,
                      .run = {.number = instance->number,
                              .wait_limit_ns = instance->wires.wires ? LEAVE_NS : WAIT_LIMIT_NS,
                              .divisor = averages ? instance->base.program->rank_count : 1,
                              .scaled = run->redop == BLINK_PRE_MUL_SUM}};
    name_kernel(instance, to->kernel);
    fill_ranks(instance, to);
    if (instance->copied)
        return;
    if (instance->stage == CUDA_RUN_NONE)
        begin_round(instance, to);
    to->run.semaphore_base = instance->rounds << CUDA_ROUND_SHIFT;
    fill_launches(instance, to);
    if (instance->wires.wires)
        cuda_wires_fill(&instance->wires, to);
}

static blink_result_t make_run(cuda_instance_t *instance)
{
    exec_cuda_t *exec = instance->exec;
    gpu_copy_t copies[COPIES_MAX];
    uint32_t copy_count = 0;
    instance->copied = exec->config.moves_by_copy_engines && instance->base.program->independent &&
                       moves_only(instance) && make_copies(instance, copies, &copy_count);
    if (!instance->copied)
        copy_count = 0;
    BLINK_TRY(cuda_request_make(exec, GPU_RUN, sizeof(gpu_run_t) + copy_count * sizeof(copies[0]),
                                &instance->request));
    instance->request->instance = instance;
    instance->number = ++exec->last_run;
    gpu_run_t *to = (gpu_run_t *)(void *)instance->request->data;
    fill_run(instance, to);
    to->copy_count = copy_count;
    memcpy(to->copies, copies, copy_count * sizeof(copies[0]));
    return BLINK_OK;
}

/* ---- from start to end ---- */

static uint32_t count_lanes(const cuda_instance_t *instance)
{
    uint32_t count = 0;
    for (uint32_t gpu = 0; gpu < instance->exec->config.gpu_count; gpu++)
        count += instance->lane_count[gpu];
    return count;
}

blink_result_t cuda_instance_start(exec_instance_t *base, uint64_t block_bytes, bool *under_way)
{
    cuda_instance_t *instance = (cuda_instance_t *)base;
    exec_cuda_t *exec = instance->exec;
    (void)block_bytes;
    if (!exec->attached)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "%s", exec->lost_text);
    BLINK_TRY(cuda_instance_load(instance));
    count_blocks(instance);
    instance->abort_reason = BLINK_OK;
    BLINK_TRY(make_run(instance));
    if (instance->wires.wires) {
        blink_result_t result = cuda_wires_begin(&instance->wires, count_lanes(instance), instance->rounds);
        if (result != BLINK_OK) {
            cuda_request_free(exec, instance->request);
            return result;
        }
        cuda_wires_look(&instance->wires);
    }
    *under_way = true;
    grant_ask(instance);
    return BLINK_OK;
}

/* ---- lanes that leave ---- */

static void launch_again(cuda_instance_t *instance)
{
    cuda_wires_launched(&instance->wires);
    if (make_run(instance) == BLINK_OK)
        grant_ask(instance);
    else
        cuda_instance_end(instance, BLINK_ERR_NO_MEMORY, blink_error_text());
}

void cuda_instance_left(cuda_instance_t *instance)
{
    instance->request = NULL;
    grant_return(instance);
    instance->stage = CUDA_RUN_PARKED;
    if (cuda_wires_may_go_on(&instance->wires))
        launch_again(instance);
}

/* The run's lanes are parked, and the network has done something since they were launched. */
static bool may_be_launched(const cuda_instance_t *instance)
{
    /* Acquire: pairs with the addition when the network raises a semaphore. */
    return instance->stage == CUDA_RUN_PARKED &&
           atomic_load_explicit(&instance->wires.events, memory_order_acquire) != instance->wires.seen;
}

bool cuda_instance_has_news(cuda_instance_t *instance)
{
    return may_be_launched(instance) || cuda_wires_may_tell(&instance->wires);
}

void cuda_instance_look(cuda_instance_t *instance)
{
    cuda_wires_look(&instance->wires);
    if (may_be_launched(instance)) {
        atomic_store_explicit(&instance->wires.parked, false,
                              memory_order_relaxed); /* only saves a wake-up */
        launch_again(instance);
    }
}

/* ---- the end ---- */

static void count_links(const cuda_instance_t *instance)
{
    for (uint32_t i = 0; i < instance->load_count; i++) {
        const cuda_load_t *load = &instance->loads[i];
        exec_count_link(&instance->base, load->first_link, load->link, load->bytes);
    }
}

void cuda_instance_end(cuda_instance_t *instance, blink_result_t result, const char *text)
{
    instance->request = NULL;
    grant_return(instance);
    cuda_trim_memory(instance->exec, instance);
    if (result == BLINK_OK)
        count_links(instance);
    else
        instance->base.scrub = true; /* half of a chunk may lie in a slot */
    if (instance->failed != BLINK_OK) {
        result = instance->failed;
        text = instance->failed_text;
    } else if (instance->abort_reason != BLINK_OK) {
        result = instance->abort_reason;
        text = "the run was aborted";
    }
    instance->end = exec_instance_end(&instance->base, result);
    snprintf(instance->end_text, sizeof(instance->end_text), "%s", result != BLINK_OK ? text : "");
    list_remove(&instance->queued);
    if (!instance->wires.wires) {
        list_append(&instance->exec->ended, &instance->queued);
    } else if (cuda_wires_end(&instance->wires, &instance->end, instance->end_text)) {
        instance->end = instance->wires.end;
        memcpy(instance->end_text, instance->wires.end_text, sizeof(instance->end_text));
        list_append(&instance->exec->ended, &instance->queued);
    }
}

void cuda_instance_abort(exec_instance_t *base, blink_result_t reason)
{
    cuda_instance_t *instance = (cuda_instance_t *)base;
    exec_cuda_t *exec = instance->exec;
    cuda_request_t *request;
    bool has_wires = instance->wires.wires; /* whose moves may be under way when lanes have ended */
    if ((instance->stage == CUDA_RUN_NONE && !has_wires) || instance->abort_reason != BLINK_OK)
        return;
    instance->abort_reason = reason;
    if (has_wires)
        cuda_wires_abort(&instance->wires, reason);
    if (instance->stage == CUDA_RUN_NONE)
        return;
    if (instance->stage != CUDA_RUN_GRANTED) {
        if (instance->request)
            cuda_request_free(exec, instance->request);
        cuda_instance_end(instance, reason, "");
        return;
    }
    instance->aborted_us = clock_us();
    list_append(&exec->aborted, &instance->queued);
    if (cuda_request_make(exec, GPU_ABORT, 0, &request) != BLINK_OK)
        return; /* the run meets the limit of its waits */
    request->sqe.count = instance->number;
    cuda_request_send(exec, request);
}

const char *cuda_instance_transport(const exec_instance_t *base)
{
    const cuda_instance_t *instance = (const cuda_instance_t *)base;
    if (instance->copied)
        return "copy engine";
    if (instance->base.program->multicast && !instance->memory.lacks_switch)
        return "switch";
    if (!instance->reach.by_host)
        return "local";
    return instance->reach.by_peers ? "local, host memory" : "host memory";
}
