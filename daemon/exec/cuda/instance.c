#include "exec/cuda/instance.h"

#include "error.h"
#include "exec/cuda/grant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Independent programs: as many chunks as keep every resident block busy a few times over, so that the last
 * ones end together, but none smaller than what a block moves in one go. */
#define ITEMS_PER_BLOCK 4u
#define ITEM_BYTES_MIN  (8u << 10)

#define SEMAPHORES_ALIGNMENT 128u

/* What an instance keeps beyond twice what it needs: to allocate memory of GPUs takes long. */
#define MEMORY_SPARE_BYTES (1u << 20)

/* Scratch that is kept for the next run of a program, on all GPUs together: it is the applications' memory.
 */
#define KEPT_MEMORY_BYTES (256u << 20)

/* ---- making ---- */

static blink_result_t check_residence(const cuda_instance_t *instance)
{
    const exec_cuda_config_t *config = &instance->exec->config;
    if (instance->base.program->independent || instance->wires.wires)
        return BLINK_OK; /* no lane waits for ever for another */
    for (uint32_t gpu = 0; gpu < config->gpu_count; gpu++) {
        if (instance->lane_count[gpu] > config->gpus[gpu].resident_blocks)
            return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                              "the plan has %u lanes on GPU %u, which can run %u blocks at the same time",
                              instance->lane_count[gpu], gpu, config->gpus[gpu].resident_blocks);
    }
    return BLINK_OK;
}

bool cuda_needs_host(const exec_t *base, const uint32_t *nodes, uint32_t rank_count)
{
    const exec_cuda_t *exec = (const exec_cuda_t *)base;
    uint32_t mask = 0, peers = UINT32_MAX;
    for (uint32_t rank = 0; rank < rank_count; rank++) {
        if (nodes[rank] == TOPO_NONE)
            continue;
        uint32_t gpu = exec->config.gpu_of_node[nodes[rank]];
        mask |= 1u << gpu;
        peers &= exec->config.gpus[gpu].peers;
    }
    return (mask & peers) != mask;
}

static blink_result_t check_operands(const cuda_instance_t *instance, uint32_t gpu, uint32_t first,
                                     uint32_t count)
{
    const gpu_facts_t *gpus = instance->exec->config.gpus;
    for (uint32_t i = first; i < first + count; i++) {
        const lane_operand_t *operand = &instance->base.program->operands[i];
        bool on_host =
            operand->buffer > LANE_SCRATCH || (instance->through_host && operand->buffer == LANE_SCRATCH);
        if (on_host)
            continue;
        uint32_t other = instance->rank_gpu[operand->rank];
        if (!(gpus[gpu].peers & 1u << other))
            return BLINK_FAIL(
                BLINK_ERR_UNREACHABLE,
                "GPU %u (%s) cannot read and write the memory of GPU %u (%s): the driver allows no "
                "peer access",
                gpu, gpus[gpu].pci, other, gpus[other].pci);
    }
    return BLINK_OK;
}

static blink_result_t check_reach(const cuda_instance_t *instance)
{
    const lane_program_t *program = instance->base.program;
    for (uint32_t l = 0; l < program->lane_count - program->wire_count; l++) {
        const lane_t *lane = &program->lanes[l];
        uint32_t gpu = instance->rank_gpu[lane->rank];
        for (uint32_t s = lane->step_first; s < lane->step_first + lane->step_count; s++) {
            const lane_step_t *step = &program->steps[s];
            BLINK_TRY(check_operands(instance, gpu, step->src_first, step->src_count));
            BLINK_TRY(check_operands(instance, gpu, step->dst_first, step->dst_count));
        }
    }
    return BLINK_OK;
}

static blink_result_t instance_init(cuda_instance_t *instance, exec_cuda_t *exec,
                                    const lane_program_t *program, const uint32_t *nodes)
{
    const exec_cuda_config_t *config = &exec->config;
    instance->exec = exec;
    list_append(&exec->instances, &instance->link);
    list_init(&instance->queued);
    list_init(&instance->wires.link);
    BLINK_TRY(exec_instance_init(&instance->base, &exec->base, program));
    instance->rank_gpu = calloc(program->rank_count, sizeof(*instance->rank_gpu));
    instance->loads = calloc(program->path_link_count + 1u, sizeof(*instance->loads));
    if (!instance->rank_gpu || !instance->loads)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ranks", program->rank_count);
    for (uint32_t rank = 0; rank < program->rank_count; rank++) {
        bool is_own = nodes[rank] != TOPO_NONE;
        instance->rank_gpu[rank] = is_own ? config->gpu_of_node[nodes[rank]] : GPU_NONE;
        instance->gpu_mask |= is_own ? 1u << instance->rank_gpu[rank] : 0;
    }
    instance->only_moves = image_only_moves(program);
    instance->through_host =
        program->wire_count == 0 && cuda_needs_host(&exec->base, nodes, program->rank_count);
    BLINK_TRY(cuda_wires_init(&instance->wires, exec, &instance->base, &instance->image, &instance->binding));
    BLINK_TRY(check_reach(instance));
    BLINK_TRY(image_program(program, &instance->wires.image, instance->rank_gpu, config->gpu_count,
                            instance->lane_first, instance->lane_count, &instance->image));
    return check_residence(instance);
}

static void instance_free(cuda_instance_t *instance)
{
    list_remove(&instance->link);
    cuda_wires_fini(&instance->wires);
    exec_instance_fini(&instance->base);
    free(instance->loads);
    free(instance->binding.bytes);
    free(instance->image.bytes);
    free(instance->rank_gpu);
    free(instance);
}

blink_result_t cuda_instance_create(exec_t *exec, const lane_program_t *program, const uint32_t *nodes,
                                    exec_instance_t **created)
{
    cuda_instance_t *instance = calloc(1, sizeof(*instance));
    if (!instance)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for an executor instance");
    blink_result_t result = instance_init(instance, (exec_cuda_t *)exec, program, nodes);
    if (result != BLINK_OK) {
        instance_free(instance);
        return result;
    }
    instance->base.need.bytes = sizeof(*instance) + instance->image.byte_count;
    *created = &instance->base;
    return BLINK_OK;
}

/* ---- objects of the worker ---- */

static bool has_objects(const cuda_instance_t *instance)
{
    return instance->exec->attached && instance->generation == instance->exec->generation;
}

static void free_object(cuda_instance_t *instance, uint32_t *object)
{
    cuda_request_t *request;
    uint32_t number = *object;
    *object = 0;
    if (number == 0 || !has_objects(instance))
        return;
    if (cuda_request_make(instance->exec, GPU_FREE, 0, &request) != BLINK_OK)
        return; /* without memory for a message the object stays until the worker ends */
    request->sqe.member = number;
    cuda_request_send(instance->exec, request);
}

static blink_result_t load_object(cuda_instance_t *instance, const image_block_t *block, uint32_t *object)
{
    exec_cuda_t *exec = instance->exec;
    cuda_request_t *request;
    BLINK_TRY(cuda_request_make(exec, GPU_LOAD, block->byte_count, &request));
    memcpy(request->data, block->bytes, block->byte_count);
    *object = request->object = request->sqe.member = ++exec->last_object;
    request->sqe.root = instance->gpu_mask;
    cuda_request_send(exec, request);
    return BLINK_OK;
}

static blink_result_t alloc_object(cuda_instance_t *instance, uint64_t bytes, uint32_t *object)
{
    exec_cuda_t *exec = instance->exec;
    cuda_request_t *request;
    BLINK_TRY(cuda_request_make(exec, GPU_ALLOC, 0, &request));
    *object = request->object = request->sqe.member = ++exec->last_object;
    request->sqe.root = instance->gpu_mask;
    request->sqe.flags = instance->through_host ? GPU_ALLOC_HOST : 0;
    request->sqe.count = bytes;
    cuda_request_send(exec, request);
    return BLINK_OK;
}

static uint64_t on_all_gpus(const cuda_instance_t *instance, uint64_t bytes)
{
    return bytes * (uint32_t)__builtin_popcount(instance->gpu_mask);
}

static void free_memory(cuda_instance_t *instance)
{
    free_object(instance, &instance->memory_object);
    instance->exec->memory_bytes -= on_all_gpus(instance, instance->memory_bytes);
    instance->memory_bytes = 0;
}

void cuda_trim_memory(exec_cuda_t *exec, const cuda_instance_t *recent)
{
    LIST_FOR_EACH (link, &exec->instances) {
        cuda_instance_t *instance = CONTAINER_OF(link, cuda_instance_t, link);
        if (exec->memory_bytes <= KEPT_MEMORY_BYTES)
            return;
        if (instance->stage == CUDA_RUN_NONE && instance != recent)
            free_memory(instance);
    }
}

/* Forget what an earlier worker had, and objects that could not be made. */
static void forget_objects(cuda_instance_t *instance)
{
    free_object(instance, &instance->program_object);
    free_object(instance, &instance->binding_object);
    free_memory(instance);
    instance->failed = BLINK_OK;
    instance->generation = 0;
}

void cuda_instance_destroy(exec_instance_t *base)
{
    cuda_instance_t *instance = (cuda_instance_t *)base;
    forget_objects(instance);
    instance_free(instance);
}

/* ---- binding ---- */

static uint64_t item_bytes(const cuda_instance_t *instance, uint64_t block_bytes)
{
    const exec_cuda_config_t *config = &instance->exec->config;
    uint32_t busiest = 0;
    for (uint32_t gpu = 1; gpu < config->gpu_count; gpu++)
        busiest = instance->lane_count[gpu] > instance->lane_count[busiest] ? gpu : busiest;
    uint64_t items = (uint64_t)ITEMS_PER_BLOCK * config->gpus[busiest].resident_blocks;
    uint64_t chunks = items / instance->lane_count[busiest];
    chunks = chunks > 0 ? chunks : 1;
    uint64_t bytes = block_bytes / instance->base.program->channel_count / chunks;
    if (bytes < ITEM_BYTES_MIN)
        return ITEM_BYTES_MIN;
    return bytes < LANE_CHUNK_MAX_BYTES ? bytes : LANE_CHUNK_MAX_BYTES;
}

/* By link: there is space for the loads of all links. */
static void add_load(cuda_instance_t *instance, const lane_operand_t *operand, uint64_t bytes)
{
    const lane_program_t *program = instance->base.program;
    if (operand->path == PLAN_NONE)
        return;
    const lane_path_t *path = &program->paths[operand->path];
    uint32_t first = program->path_links[path->link_first];
    for (uint32_t l = 0; l < path->link_count; l++) {
        uint32_t link = program->path_links[path->link_first + l], i = 0;
        while (i < instance->load_count &&
               (instance->loads[i].link != link || instance->loads[i].first_link != first))
            i++;
        if (i == instance->load_count)
            instance->loads[instance->load_count++] = (cuda_load_t){.link = link, .first_link = first};
        instance->loads[i].bytes += bytes;
    }
}

/* What a run carries over links, and what it costs the GPUs. */
static void count_loads(cuda_instance_t *instance)
{
    const lane_program_t *program = instance->base.program;
    instance->load_count = 0;
    memset(instance->cost_bytes, 0, sizeof(instance->cost_bytes));
    for (uint32_t l = 0; l < program->lane_count; l++) {
        const lane_t *lane = &program->lanes[l];
        for (uint32_t s = lane->step_first; s < lane->step_first + lane->step_count; s++) {
            const lane_step_t *step = &program->steps[s];
            uint64_t bytes = image_part_bytes(&instance->base.geometry, lane->channel, step->part);
            if (image_is_processors(lane))
                instance->cost_bytes[instance->rank_gpu[lane->rank]] +=
                    bytes * (step->src_count + step->dst_count);
            for (uint32_t i = 0; i < step->src_count; i++)
                add_load(instance, &program->operands[step->src_first + i], bytes);
            for (uint32_t i = 0; i < step->dst_count; i++)
                add_load(instance, &program->operands[step->dst_first + i], bytes);
        }
    }
    for (uint32_t gpu = 0; gpu < instance->exec->config.gpu_count; gpu++) {
        if (instance->cost_bytes[gpu] < GRANT_LEAST_BYTES)
            instance->cost_bytes[gpu] = GRANT_LEAST_BYTES;
    }
}

/* Of the memory: where the scratch ends and the semaphores begin. */
static uint64_t semaphores_offset(const cuda_instance_t *instance)
{
    return (instance->scratch_bytes + SEMAPHORES_ALIGNMENT - 1) / SEMAPHORES_ALIGNMENT * SEMAPHORES_ALIGNMENT;
}

/* Memory that is there is kept while it is large enough, and not much too large: all of it is charged. */
static void size_memory(cuda_instance_t *instance)
{
    uint64_t offset = semaphores_offset(instance);
    instance->needed_bytes =
        offset + (uint64_t)instance->base.program->semaphore_count * LANE_ABI_SEMAPHORE_BYTES;
    if (instance->needed_bytes > instance->memory_bytes || offset > instance->semaphores_offset ||
        instance->memory_bytes > 2 * instance->needed_bytes + MEMORY_SPARE_BYTES)
        free_memory(instance);
    uint64_t held_bytes = instance->memory_bytes > 0 ? instance->memory_bytes : instance->needed_bytes;
    instance->base.need.gpu_bytes = on_all_gpus(instance, held_bytes);
}

/* Nothing of it needs a worker. */
blink_result_t cuda_instance_bind(exec_instance_t *base, uint64_t block_bytes)
{
    cuda_instance_t *instance = (cuda_instance_t *)base;
    const lane_program_t *program = base->program;
    base->bound = false;
    free(instance->binding.bytes);
    instance->binding = (image_block_t){0};
    free_object(instance, &instance->binding_object);
    uint64_t chunk_bytes = program->independent ? item_bytes(instance, block_bytes) : 0;
    BLINK_TRY(exec_instance_set_geometry(base, block_bytes, chunk_bytes, base->slots));
    uint64_t send_bytes;
    BLINK_TRY(image_binding(&base->geometry, instance->through_host ? NULL : instance->rank_gpu,
                            instance->exec->config.gpu_count, &instance->scratch_bytes, &send_bytes,
                            &instance->binding));
    cuda_wires_bind(&instance->wires, send_bytes);
    base->need.bytes = sizeof(*instance) + instance->image.byte_count + instance->wires.block_bytes;
    size_memory(instance);
    count_loads(instance);
    base->bound = true;
    return BLINK_OK;
}

static blink_result_t load_memory(cuda_instance_t *instance)
{
    free_memory(instance);
    instance->rounds = 0;
    instance->base.scrub = true;
    instance->memory_bytes = instance->needed_bytes;
    instance->semaphores_offset = semaphores_offset(instance);
    instance->exec->memory_bytes += on_all_gpus(instance, instance->memory_bytes);
    return alloc_object(instance, instance->memory_bytes, &instance->memory_object);
}

blink_result_t cuda_instance_load(cuda_instance_t *instance)
{
    if (!has_objects(instance) || instance->failed != BLINK_OK)
        forget_objects(instance);
    instance->generation = instance->exec->generation;
    if (instance->program_object == 0)
        BLINK_TRY(load_object(instance, &instance->image, &instance->program_object));
    if (instance->binding_object == 0)
        BLINK_TRY(load_object(instance, &instance->binding, &instance->binding_object));
    BLINK_TRY(cuda_wires_load(&instance->wires));
    return instance->memory_object == 0 && instance->needed_bytes > 0 ? load_memory(instance) : BLINK_OK;
}
