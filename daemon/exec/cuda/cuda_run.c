/*
 * Runs of instances: as kernels or as copies, from their start to their end. See exec_cuda.h.
 */
#include "exec/cuda/exec_cuda_internal.h"

#include "error.h"
#include "names.h"

#include <stdio.h>
#include <string.h>

/* A command to a copy engine costs some 2 µs to give; a multiprocessor moves this much meanwhile. */
#define COPIES_MAX     64u
#define COPY_BYTES_MIN (64u << 10)

/* Once all lanes run, a wait lasts no longer than a few chunks take to arrive: this is for what is broken. */
#define WAIT_LIMIT_NS 30000000000u

/* Semaphores count chunks in their low half and runs in the high one. */
#define ROUND_SHIFT 32u
#define EPOCH_MAX   UINT32_MAX

/* ---- copies ---- */

static uint64_t buffer_address(const cuda_instance_t *instance, const exec_run_t *run, uint32_t channel,
                               const lane_step_t *step, const lane_operand_t *operand, lane_span_t span)
{
    const lane_geometry_t *geometry = &instance->geometry;
    bool is_input = operand->buffer == LANE_INPUT;
    const uint64_t *strides = is_input ? run->input_strides : run->output_strides;
    uint64_t stride = strides ? strides[operand->rank] : geometry->block_bytes;
    uintptr_t base =
        is_input ? (uintptr_t)run->inputs[operand->rank] : (uintptr_t)run->outputs[operand->rank];
    return base +
           lane_buffer_offset(geometry, channel, step->part, (lane_buffer_t)operand->buffer, stride, span);
}

static uint32_t add_copies(const cuda_instance_t *instance, const exec_run_t *run, uint32_t channel,
                           const lane_step_t *step, lane_span_t span, gpu_copy_t *copies)
{
    const lane_operand_t *operands = instance->program->operands;
    uint32_t count = 0;
    uint64_t src = buffer_address(instance, run, channel, step, &operands[step->src_first], span);
    for (uint32_t i = 0; i < step->dst_count; i++) {
        uint64_t dst = buffer_address(instance, run, channel, step, &operands[step->dst_first + i], span);
        if (dst != src && span.bytes > 0)
            copies[count++] = (gpu_copy_t){dst, src, span.bytes};
    }
    return count;
}

/* The whole program as copies, extent by extent; false if that is not what it is, or they are too many or too
 * small. */
static bool make_copies(const cuda_instance_t *instance, const exec_run_t *run, gpu_copy_t copies[COPIES_MAX],
                        uint32_t *count)
{
    const lane_program_t *program = instance->program;
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
            lane_span_t extent = lane_extent(&instance->geometry, lane->channel, step->part);
            *count += add_copies(instance, run, lane->channel, step, extent, &copies[*count]);
        }
    }
    for (uint32_t i = 0; i < *count; i++)
        bytes += copies[i].bytes;
    return *count > 0 && bytes / *count >= COPY_BYTES_MIN;
}

/* ---- running ---- */

static bool moves_only(const cuda_instance_t *instance, const exec_run_t *run)
{
    bool scales =
        run->redop == BLINK_PRE_MUL_SUM || (run->redop == BLINK_AVG && instance->program->rank_count > 1);
    return instance->only_moves && !scales;
}

static void name_kernel(const cuda_instance_t *instance, const exec_run_t *run,
                        char name[LANE_ABI_KERNEL_NAME_BYTES])
{
    bool adds = run->redop == BLINK_AVG || run->redop == BLINK_PRE_MUL_SUM;
    if (moves_only(instance, run))
        snprintf(name, LANE_ABI_KERNEL_NAME_BYTES, "blink_lanes_move");
    else
        snprintf(name, LANE_ABI_KERNEL_NAME_BYTES, "blink_lanes_%s_%s", blink_name_datatype(run->datatype),
                 blink_name_redop(adds ? BLINK_SUM : run->redop));
}

/* The blocks of every GPU: a lane each, or what there are items for. */
static void count_blocks(cuda_instance_t *instance)
{
    const exec_cuda_config_t *config = &instance->exec->config;
    const lane_program_t *program = instance->program;
    uint64_t items[GPU_MAX] = {0};
    for (uint32_t l = 0; l < program->lane_count; l++)
        items[instance->rank_gpu[program->lanes[l].rank]] +=
            instance->geometry.channels[program->lanes[l].channel].chunks;
    for (uint32_t gpu = 0; gpu < config->gpu_count; gpu++) {
        uint32_t most = config->gpus[gpu].resident_blocks;
        uint32_t as_items = items[gpu] < most ? (uint32_t)items[gpu] : most;
        instance->blocks[gpu] = program->independent ? as_items : instance->lane_count[gpu];
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

static void fill_ranks(const cuda_instance_t *instance, const exec_run_t *run, gpu_run_t *to)
{
    uint64_t block_bytes = instance->geometry.block_bytes;
    for (uint32_t i = 0; i < instance->program->rank_count; i++) {
        to->rank_gpu[i] = (uint8_t)instance->rank_gpu[i];
        to->run.ranks[i] = (lane_abi_rank_t){
            .input = run->inputs ? (uintptr_t)run->inputs[i] : 0,
            .output = (uintptr_t)run->outputs[i],
            .input_stride_bytes = run->input_strides ? run->input_strides[i] : block_bytes,
            .output_stride_bytes = run->output_strides ? run->output_strides[i] : block_bytes,
            .scalar = run->scalars ? run->scalars[i] : 0};
    }
}

/* Give the run epochs that no slot has seen; where that cannot be known, or they are used up, have the slots
 * emptied. */
static void advance_epochs(cuda_instance_t *instance, gpu_run_t *to)
{
    if (instance->program->protocol != BLINK_PROTOCOL_SIMPLE) {
        if (instance->scrub || instance->epoch_base + 2ull * instance->most_chunks > EPOCH_MAX) {
            to->scrub_bytes = instance->scratch_bytes;
            instance->epoch_base = 0;
        } else {
            instance->epoch_base += instance->most_chunks;
        }
        instance->scrub = false;
    }
    to->run.epoch_base = instance->epoch_base;
    to->run.semaphore_base = ++instance->rounds << ROUND_SHIFT;
}

static void fill_run(cuda_instance_t *instance, const exec_run_t *run, gpu_run_t *to)
{
    bool averages = run->redop == BLINK_AVG;
    *to = (gpu_run_t){.program = instance->program_object,
                      .binding = instance->binding_object,
                      .memory = instance->memory_object,
                      .semaphores_offset = instance->semaphores_offset,
                      .cooperative = !instance->program->independent,
                      .run = {.number = instance->number,
                              .wait_limit_ns = WAIT_LIMIT_NS,
                              .divisor = averages ? instance->program->rank_count : 1,
                              .scaled = run->redop == BLINK_PRE_MUL_SUM}};
    name_kernel(instance, run, to->kernel);
    fill_ranks(instance, run, to);
    if (instance->copied)
        return;
    advance_epochs(instance, to);
    fill_launches(instance, to);
}

static blink_result_t make_run(cuda_instance_t *instance, const exec_run_t *run)
{
    exec_cuda_t *exec = instance->exec;
    gpu_copy_t copies[COPIES_MAX];
    uint32_t copy_count = 0;
    instance->copied = exec->config.moves_by_copy_engines && instance->program->independent &&
                       moves_only(instance, run) && make_copies(instance, run, copies, &copy_count);
    if (!instance->copied)
        copy_count = 0;
    BLINK_TRY(cuda_request_make(exec, GPU_RUN, sizeof(gpu_run_t) + copy_count * sizeof(copies[0]),
                                &instance->request));
    instance->request->instance = instance;
    instance->number = ++exec->last_run;
    gpu_run_t *to = (gpu_run_t *)(void *)instance->request->room;
    fill_run(instance, run, to);
    to->copy_count = copy_count;
    to->copy_gpu = (uint32_t)__builtin_ctz(instance->gpu_mask);
    memcpy(to->copies, copies, copy_count * sizeof(copies[0]));
    return BLINK_OK;
}

void cuda_instance_launch(cuda_instance_t *instance)
{
    cuda_request_send(instance->exec, instance->request);
}

blink_result_t cuda_instance_start(cuda_instance_t *instance, const exec_run_t *run, bool *ended)
{
    exec_cuda_t *exec = instance->exec;
    uint64_t block_bytes = run->count * blink_datatype_bytes(run->datatype);
    *ended = block_bytes == 0 || instance->program->lane_count == 0;
    if (*ended)
        return BLINK_OK;
    if (!exec->attached)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "%s", exec->lost_text);
    BLINK_TRY(cuda_instance_load(instance));
    BLINK_TRY(cuda_instance_bind(instance, block_bytes));
    count_blocks(instance);
    BLINK_TRY(make_run(instance, run));
    instance->run = *run;
    instance->running = true;
    instance->abort_reason = BLINK_OK;
    if (instance->program->independent) {
        cuda_instance_launch(instance);
        return BLINK_OK;
    }
    instance->granted = !exec->waiting && cuda_grant(exec, instance);
    if (instance->granted) {
        cuda_instance_launch(instance);
    } else {
        instance->next_waiting = NULL;
        *exec->waiting_end = instance;
        exec->waiting_end = &instance->next_waiting;
    }
    return BLINK_OK;
}

static void count_links(const cuda_instance_t *instance)
{
    for (uint32_t i = 0; i < instance->load_count; i++) {
        const cuda_load_t *load = &instance->loads[i];
        exec_count_link(&instance->run, instance->exec->config.link_bytes, load->link, load->bytes);
    }
}

void cuda_instance_end(cuda_instance_t *instance, blink_result_t result, const char *text)
{
    exec_run_t run = instance->run;
    instance->running = false;
    cuda_trim_memory(instance->exec, instance);
    if (result == BLINK_OK)
        count_links(instance);
    else
        instance->scrub = true; /* half of a chunk may lie in a slot */
    if (instance->failed != BLINK_OK)
        result = BLINK_FAIL(instance->failed, "%s", instance->failed_text);
    else if (instance->abort_reason != BLINK_OK)
        result = BLINK_FAIL(instance->abort_reason, "the run was aborted");
    else if (result != BLINK_OK)
        result = BLINK_FAIL(result, "%s", text);
    run.done(run.context, result);
}

static void leave_waiting(cuda_instance_t *instance)
{
    exec_cuda_t *exec = instance->exec;
    cuda_instance_t **link = &exec->waiting;
    while (*link != instance)
        link = &(*link)->next_waiting;
    *link = instance->next_waiting;
    if (!*link)
        exec->waiting_end = link;
}

void cuda_instance_abort(cuda_instance_t *instance, blink_result_t reason)
{
    exec_cuda_t *exec = instance->exec;
    cuda_request_t *request;
    if (!instance->running || instance->abort_reason != BLINK_OK)
        return;
    instance->abort_reason = reason;
    if (!instance->program->independent && !instance->granted) {
        leave_waiting(instance);
        cuda_request_free(exec, instance->request);
        instance->request = NULL;
        cuda_instance_end(instance, reason, "");
        return;
    }
    if (cuda_request_make(exec, GPU_ABORT, 0, &request) != BLINK_OK)
        return; /* the run meets the limit of its waits */
    request->sqe.count = instance->number;
    cuda_request_send(exec, request);
}

const char *cuda_instance_transport(const cuda_instance_t *instance)
{
    return instance->copied ? "copy engine" : instance->through_host ? "host memory" : "local";
}
