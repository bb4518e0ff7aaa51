#include "exec/cuda/instance.h"

#include "base/clock.h"
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
 * Large AllReduces on eight GPUs take 360 MB. */
#define KEPT_MEMORY_BYTES (512u << 20)

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
    instance->host_memory.on_host = true;
    BLINK_TRY(cuda_wires_init(&instance->wires, exec, &instance->base, &instance->image, &instance->binding));
    BLINK_TRY(cuda_reach_init(program, config->gpus, instance->rank_gpu, &instance->reach));
    BLINK_TRY(image_program(program, &instance->wires.image, &instance->reach, instance->rank_gpu,
                            config->gpu_count, instance->lane_first, instance->lane_count, &instance->image));
    return check_residence(instance);
}

static void instance_free(cuda_instance_t *instance)
{
    list_remove(&instance->link);
    cuda_wires_fini(&instance->wires);
    cuda_reach_fini(&instance->reach);
    exec_instance_fini(&instance->base);
    free(instance->loads);
    free(instance->binding.bytes);
    free(instance->image.bytes);
    free(instance->rank_gpu);
    free(instance);
}

/* Of this process, whatever it is bound to. */
static uint64_t own_bytes(const cuda_instance_t *instance)
{
    const lane_program_t *program = instance->base.program;
    return sizeof(*instance) + instance->image.byte_count +
           program->edge_count * sizeof(*instance->reach.edges) +
           program->semaphore_count * sizeof(*instance->reach.semaphores);
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
    instance->base.need.bytes = own_bytes(instance);
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

/* An object, or again the one that is there, since no switch has reached it. */
static blink_result_t alloc_object(cuda_instance_t *instance, cuda_memory_t *memory)
{
    exec_cuda_t *exec = instance->exec;
    cuda_request_t *request;
    BLINK_TRY(cuda_request_make(exec, GPU_ALLOC, 0, &request));
    if (memory->object == 0)
        memory->object = ++exec->last_object;
    request->object = request->sqe.member = memory->object;
    memory->lacks_switch = false;
    request->sqe.root = instance->gpu_mask;
    if (memory->on_host)
        request->sqe.flags = GPU_ALLOC_HOST;
    else if (instance->base.program->multicast)
        request->sqe.flags = GPU_ALLOC_SWITCH;
    request->sqe.count = memory->bytes;
    cuda_request_send(exec, request);
    return BLINK_OK;
}

/* All that it takes, with so many bytes in each place. */
static uint64_t in_all_places(const cuda_instance_t *instance, const cuda_memory_t *memory, uint64_t bytes)
{
    return memory->on_host ? bytes : bytes * (uint32_t)__builtin_popcount(instance->gpu_mask);
}

static void free_memory(cuda_instance_t *instance, cuda_memory_t *memory)
{
    free_object(instance, &memory->object);
    instance->exec->memory_bytes -= in_all_places(instance, memory, memory->bytes);
    memory->bytes = 0;
}

static void free_memories(cuda_instance_t *instance)
{
    free_memory(instance, &instance->memory);
    free_memory(instance, &instance->host_memory);
}

void cuda_trim_memory(exec_cuda_t *exec, const cuda_instance_t *recent)
{
    LIST_FOR_EACH (link, &exec->instances) {
        cuda_instance_t *instance = CONTAINER_OF(link, cuda_instance_t, link);
        if (exec->memory_bytes <= KEPT_MEMORY_BYTES)
            return;
        if (instance->stage == CUDA_RUN_NONE && instance != recent)
            free_memories(instance);
    }
}

/* Forget what an earlier worker had, and objects that could not be made. */
static void forget_objects(cuda_instance_t *instance)
{
    free_object(instance, &instance->program_object);
    for (uint32_t i = 0; i < CUDA_BINDINGS; i++)
        free_object(instance, &instance->bindings[i].object);
    free_memories(instance);
    instance->failed = BLINK_OK;
    instance->generation = 0;
}

void cuda_instance_destroy(exec_instance_t *base)
{
    cuda_instance_t *instance = (cuda_instance_t *)base;
    forget_objects(instance);
    instance_free(instance);
}

device_memory_t *cuda_instance_device(const cuda_instance_t *instance, bool *ordered)
{
    const gpu_facts_t *gpus = instance->exec->config.gpus;
    uint32_t first = (uint32_t)__builtin_ctz(instance->gpu_mask);
    for (uint32_t mask = instance->gpu_mask; mask; mask &= mask - 1) {
        if (!gpu_are_peers(gpus, first, (uint32_t)__builtin_ctz(mask)))
            return NULL;
    }
    bool is_alone = instance->gpu_mask == 1u << first;
    *ordered = gpus[first].orders_for_all || (is_alone && gpus[first].orders_for_itself);
    return instance->exec->exported[first];
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
    const lane_path_t path = lane_loaded_path(program, operand);
    uint32_t first = program->path_links[path.link_first];
    for (uint32_t l = 0; l < path.link_count; l++) {
        uint32_t link = program->path_links[path.link_first + l], i = 0;
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
            bool is_switch = program->multicast && step->src_count > 1; /* one load and one store for all */
            if (image_is_processors(lane))
                instance->cost_bytes[instance->rank_gpu[lane->rank]] +=
                    bytes * (is_switch ? 2 : step->src_count + step->dst_count);
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

static uint64_t whole_grains(uint64_t bytes)
{
    return (bytes + GPU_SWITCH_GRAIN_BYTES - 1) / GPU_SWITCH_GRAIN_BYTES * GPU_SWITCH_GRAIN_BYTES;
}

/* Memory that is there is kept while it is large enough, and not much too large: all of it is charged.
 * Returns what is charged. */
static uint64_t size_memory(cuda_instance_t *instance, cuda_memory_t *memory, uint64_t scratch_bytes)
{
    uint64_t offset =
        (scratch_bytes + SEMAPHORES_ALIGNMENT - 1) / SEMAPHORES_ALIGNMENT * SEMAPHORES_ALIGNMENT;
    memory->scratch_bytes = scratch_bytes;
    memory->needed_bytes =
        offset + (uint64_t)instance->base.program->semaphore_count * LANE_ABI_SEMAPHORE_BYTES;
    if (memory->on_host && !instance->reach.by_host)
        memory->needed_bytes = 0;
    if (!memory->on_host && instance->base.program->multicast)
        memory->needed_bytes = whole_grains(memory->needed_bytes);
    if (memory->needed_bytes > memory->bytes || offset > memory->semaphores_offset ||
        memory->bytes > 2 * memory->needed_bytes + MEMORY_SPARE_BYTES)
        free_memory(instance, memory);
    uint64_t held_bytes = memory->bytes > 0 ? memory->bytes : memory->needed_bytes;
    return in_all_places(instance, memory, held_bytes);
}

/* That of the size, or in the place of the one that was used least lately. */
static cuda_binding_t *find_binding(cuda_instance_t *instance, uint64_t block_bytes)
{
    cuda_binding_t *found = &instance->bindings[0];
    uint32_t slots = instance->base.slots;
    for (uint32_t i = 0; i < CUDA_BINDINGS; i++) {
        cuda_binding_t *binding = &instance->bindings[i];
        bool same = binding->number > 0 && binding->block_bytes == block_bytes && binding->slots == slots;
        if (same || binding->number < found->number)
            found = binding;
        if (same)
            break;
    }
    if (found->block_bytes != block_bytes || found->slots != slots)
        free_object(instance, &found->object);
    found->block_bytes = block_bytes;
    found->slots = slots;
    found->number = ++instance->binds;
    return found;
}

/* Nothing of it needs a worker. */
blink_result_t cuda_instance_bind(exec_instance_t *base, uint64_t block_bytes)
{
    cuda_instance_t *instance = (cuda_instance_t *)base;
    const lane_program_t *program = base->program;
    base->bound = false;
    free(instance->binding.bytes);
    instance->binding = (image_block_t){0};
    instance->bound = find_binding(instance, block_bytes);
    uint64_t chunk_bytes = program->independent ? item_bytes(instance, block_bytes) : 0;
    BLINK_TRY(exec_instance_set_geometry(base, block_bytes, chunk_bytes, base->slots));
    image_slots_t slots;
    BLINK_TRY(image_binding(&base->geometry, &instance->reach, instance->rank_gpu,
                            instance->exec->config.gpu_count, &slots, &instance->binding));
    cuda_wires_bind(&instance->wires, slots.send_bytes);
    base->need.gpu_bytes = size_memory(instance, &instance->memory, slots.gpu_bytes);
    base->need.bytes = own_bytes(instance) + instance->wires.block_bytes +
                       size_memory(instance, &instance->host_memory, slots.host_bytes);
    count_loads(instance);
    base->bound = true;
    return BLINK_OK;
}

static blink_result_t load_memory(cuda_instance_t *instance, cuda_memory_t *memory)
{
    if (memory->needed_bytes == 0)
        return BLINK_OK;
    memory->bytes = memory->needed_bytes;
    memory->semaphores_offset =
        memory->needed_bytes - (uint64_t)instance->base.program->semaphore_count * LANE_ABI_SEMAPHORE_BYTES;
    instance->exec->memory_bytes += in_all_places(instance, memory, memory->bytes);
    return alloc_object(instance, memory);
}

static bool is_loaded(const cuda_memory_t *memory)
{
    return memory->needed_bytes == 0 || memory->object != 0;
}

/* What no switch reaches is asked for again once the pause is over. The memory on GPUs is all that such a
 * program has: by multicast all of them are peers. */
static bool asks_again(const cuda_instance_t *instance)
{
    return instance->memory.lacks_switch && !switch_pause_holds(&instance->exec->switch_pause, clock_us());
}

/* All semaphores count the same rounds, so that new ones in one place are new ones in both. */
static blink_result_t load_memories(cuda_instance_t *instance)
{
    const bool is_there = is_loaded(&instance->memory) && is_loaded(&instance->host_memory);
    if (is_there && !asks_again(instance))
        return BLINK_OK;
    instance->rounds = 0;
    instance->base.scrub = true;
    if (is_there)
        return alloc_object(instance, &instance->memory);
    free_memories(instance);
    BLINK_TRY(load_memory(instance, &instance->memory));
    return load_memory(instance, &instance->host_memory);
}

blink_result_t cuda_instance_load(cuda_instance_t *instance)
{
    if (!has_objects(instance) || instance->failed != BLINK_OK)
        forget_objects(instance);
    instance->generation = instance->exec->generation;
    if (instance->program_object == 0)
        BLINK_TRY(load_object(instance, &instance->image, &instance->program_object));
    if (instance->bound->object == 0)
        BLINK_TRY(load_object(instance, &instance->binding, &instance->bound->object));
    BLINK_TRY(cuda_wires_load(&instance->wires));
    return load_memories(instance);
}
