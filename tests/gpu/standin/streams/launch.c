/* Modules, functions and launches: a block of a kernel is a thread. */
#include "standin/memory/memory.h"
#include "standin/streams/builtins.h"
#include "standin/streams/share.h"
#include "standin/streams/stream.h"

#include "host_kernels.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { RESIDENT_BLOCKS_MAX = STANDIN_MULTIPROCESSORS * STANDIN_BLOCKS_PER_MULTIPROCESSOR };

/* Any image will do: all modules have the same kernels. They live as long as the process. */
struct CUmod_st {
    CUmodule next;
    CUcontext context;
    CUfunction functions;
};

struct CUfunc_st {
    CUfunction next;
    CUmodule module;
    host_kernel_t *kernel; /* or */
    const builtin_t *builtin;
};

struct launch {
    _Atomic unsigned references; /* by queued operations and graphs */
    CUfunction function;
    uint32_t block_count;
    bool is_cooperative;
    alignas(max_align_t) unsigned char parameters[]; /* every one at a multiple of 8 bytes */
};

static pthread_mutex_t modules_lock = PTHREAD_MUTEX_INITIALIZER;
static CUmodule modules;

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    STANDIN_ENTER(cuModuleLoadData, CONTEXT);
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    STANDIN_TRY(capture_check_unsafe());
    CUmodule made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->context = standin_context();
    pthread_mutex_lock(&modules_lock);
    made->next = modules;
    modules = made;
    pthread_mutex_unlock(&modules_lock);
    *module = made;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    STANDIN_ENTER(cuModuleGetFunction, CONTEXT);
    if (!function || !module || !name)
        return CUDA_ERROR_INVALID_VALUE;
    host_kernel_t *kernel = host_kernel_find(name);
    const builtin_t *builtin = builtin_find(name);
    if (!kernel && !builtin)
        return CUDA_ERROR_NOT_FOUND;
    CUfunction made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&modules_lock);
    *made = (struct CUfunc_st){module->functions, module, kernel, builtin};
    module->functions = made;
    pthread_mutex_unlock(&modules_lock);
    *function = made;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    STANDIN_ENTER(cuFuncGetAttribute, CONTEXT);
    if (!value || !function || attribute >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = STANDIN_BLOCK_THREADS_MAX;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 32;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = 90;
        break;
    default:
        *value = 0;
    }
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block_threads,
                                                     size_t shared_bytes)
{
    STANDIN_ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor, CONTEXT);
    (void)shared_bytes;
    if (!blocks || !function || block_threads <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    *blocks = block_threads <= STANDIN_BLOCK_THREADS_MAX ? STANDIN_BLOCKS_PER_MULTIPROCESSOR : 0;
    return CUDA_SUCCESS;
}

static uint32_t resident_blocks(void)
{
    return standin_settings()->multiprocessors * STANDIN_BLOCKS_PER_MULTIPROCESSOR;
}

static CUdevice ordinal_of(const launch_t *launch)
{
    return launch->function->module->context->ordinal;
}

/* ---- launches ---- */

/* The threads of one launch: none begins before all are there, for blocks may wait for each other. */
typedef struct crowd {
    const launch_t *launch;
    _Atomic uint32_t next_block;
    pthread_mutex_t lock;
    pthread_cond_t decided;
    enum { CROWD_GATHERS, CROWD_RUNS, CROWD_LEAVES } state;
} crowd_t;

static void run_blocks(crowd_t *crowd)
{
    const launch_t *launch = crowd->launch;
    const CUfunction function = launch->function;
    uint32_t block;
    if (!launch->is_cooperative)
        room_take(ordinal_of(launch), 1, resident_blocks());
    slice_enter(ordinal_of(launch));
    while ((block = atomic_fetch_add(&crowd->next_block, 1)) < launch->block_count) {
        if (function->kernel)
            function->kernel((const lane_abi_run_t *)(const void *)launch->parameters, block,
                             launch->block_count);
        else
            function->builtin->run((const uint64_t *)(const void *)launch->parameters, block,
                                   launch->block_count);
    }
    slice_leave(ordinal_of(launch));
    if (!launch->is_cooperative)
        room_give(ordinal_of(launch), 1);
}

static void *run_resident(void *argument)
{
    crowd_t *crowd = argument;
    standin_use(crowd->launch->function->module->context);
    pthread_mutex_lock(&crowd->lock);
    while (crowd->state == CROWD_GATHERS)
        pthread_cond_wait(&crowd->decided, &crowd->lock);
    bool runs = crowd->state == CROWD_RUNS;
    pthread_mutex_unlock(&crowd->lock);
    if (runs)
        run_blocks(crowd);
    return NULL;
}

/* Whether the kernel's GPU reaches all that it is told to touch; of this library's own kernels the first
 * bytes. */
static bool is_within_reach(const launch_t *launch)
{
    const CUfunction function = launch->function;
    CUdevice ordinal = ordinal_of(launch);
    const uint64_t *parameters = (const uint64_t *)(const void *)launch->parameters;
    if (function->kernel)
        return reach_holds_run(ordinal, (const lane_abi_run_t *)(const void *)launch->parameters);
    bool within = true;
    for (uint32_t i = 0; i < BUILTIN_PARAMETERS_MAX; i++)
        if (function->builtin->addresses >> i & 1)
            within &= memory_is_reached(ordinal, parameters[i]);
    return within;
}

/* As many blocks at a time as are resident on a GPU; the stream's own thread takes its part. */
static void run_launch(const op_t *op)
{
    if (!is_within_reach(op->launch)) {
        stream_lose(op->launch->function->module->context, CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
    }
    crowd_t crowd = {
        .launch = op->launch, .lock = PTHREAD_MUTEX_INITIALIZER, .decided = PTHREAD_COND_INITIALIZER};
    uint32_t blocks = op->launch->block_count;
    uint32_t resident = blocks < resident_blocks() ? blocks : resident_blocks();
    pthread_t threads[RESIDENT_BLOCKS_MAX];
    uint32_t count = 0;
    while (count + 1 < resident && !pthread_create(&threads[count], NULL, run_resident, &crowd))
        count++;
    bool all_are_there = count + 1 == resident;
    if (op->launch->is_cooperative)
        room_take(ordinal_of(op->launch), resident, resident_blocks());
    pthread_mutex_lock(&crowd.lock);
    crowd.state = all_are_there ? CROWD_RUNS : CROWD_LEAVES;
    pthread_cond_broadcast(&crowd.decided);
    pthread_mutex_unlock(&crowd.lock);
    if (all_are_there)
        run_blocks(&crowd);
    for (uint32_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    if (op->launch->is_cooperative)
        room_give(ordinal_of(op->launch), resident);
    pthread_cond_destroy(&crowd.decided);
    pthread_mutex_destroy(&crowd.lock);
    if (!all_are_there)
        stream_lose(op->launch->function->module->context, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
}

static void keep_launch(const op_t *op)
{
    atomic_fetch_add(&op->launch->references, 1);
}

static void drop_launch(const op_t *op)
{
    if (atomic_fetch_sub(&op->launch->references, 1) == 1)
        free(op->launch);
}

static const op_type_t launch_type = {
    .run = run_launch, .keep = keep_launch, .drop = drop_launch, .is_launch = true};

static size_t padded(size_t bytes)
{
    return (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
}

/* Copy the parameters, as CUDA does before a launch returns. NULL: no memory. */
static launch_t *create_launch(CUfunction function, uint32_t block_count, void **parameters)
{
    const size_t run_only[] = {sizeof(lane_abi_run_t), 0};
    const size_t *bytes = function->kernel ? run_only : function->builtin->parameters;
    size_t total = 0;
    for (unsigned i = 0; bytes[i]; i++)
        total += padded(bytes[i]);
    launch_t *launch = calloc(1, sizeof(*launch) + total);
    if (!launch)
        return NULL;
    atomic_init(&launch->references, 1);
    launch->function = function;
    launch->block_count = block_count;
    unsigned char *to = launch->parameters;
    for (unsigned i = 0; bytes[i]; i++) {
        memcpy(to, parameters[i], bytes[i]);
        to += padded(bytes[i]);
    }
    return launch;
}

/* Whether a stream's context is the function's. */
static CUresult check_stream(CUfunction function, CUstream handle)
{
    CUstream stream;
    pthread_mutex_lock(&stream_lock);
    CUresult result = stream_find(handle, &stream);
    if (result == CUDA_SUCCESS && stream->context != function->module->context)
        result = CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_unlock(&stream_lock);
    return result;
}

/* STANDIN_CUDA_MEET. */
static void meet_others(void)
{
    static struct {
        pthread_mutex_t lock;
        pthread_cond_t complete;
        uint32_t there, meetings;
    } meeting = {.lock = PTHREAD_MUTEX_INITIALIZER, .complete = PTHREAD_COND_INITIALIZER};
    if (standin_settings()->meeting == 0)
        return;
    pthread_mutex_lock(&meeting.lock);
    const uint32_t mine = meeting.meetings;
    if (++meeting.there >= standin_settings()->meeting) {
        meeting.there = 0;
        meeting.meetings++;
        pthread_cond_broadcast(&meeting.complete);
    }
    while (meeting.meetings == mine)
        pthread_cond_wait(&meeting.complete, &meeting.lock);
    pthread_mutex_unlock(&meeting.lock);
}

static CUresult submit(CUfunction function, uint32_t block_count, bool is_cooperative, void **parameters,
                       CUstream stream)
{
    if (!stream_is_captured(stream))
        meet_others();
    if (!stream_is_captured(stream) && standin_launch_is_fatal()) {
        stream_lose(function->module->context, CUDA_ERROR_ILLEGAL_ADDRESS);
        return CUDA_SUCCESS; /* the calls that follow tell */
    }
    launch_t *launch = create_launch(function, block_count, parameters);
    if (!launch)
        return CUDA_ERROR_OUT_OF_MEMORY;
    launch->is_cooperative = is_cooperative;
    STANDIN_TRY(stream_submit(stream, &(op_t){.type = &launch_type, .launch = launch}));
    bool blocks = standin_settings()->launches_block && !stream_is_captured(stream);
    return blocks ? cuStreamSynchronize(stream) : CUDA_SUCCESS;
}

/* Grids and blocks have one dimension here. */
static CUresult check_shape(const unsigned grid[3], const unsigned block[3])
{
    if (!grid[0] || !grid[1] || !grid[2] || !block[0] || !block[1] || !block[2])
        return CUDA_ERROR_INVALID_VALUE;
    if (grid[1] != 1 || grid[2] != 1 || block[1] != 1 || block[2] != 1)
        return CUDA_ERROR_NOT_SUPPORTED;
    return block[0] <= STANDIN_BLOCK_THREADS_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult launch_checked(CUfunction function, const unsigned grid[3], const unsigned block[3],
                               bool is_cooperative, void **parameters, CUstream stream)
{
    STANDIN_TRY(check_shape(grid, block));
    if (is_cooperative && grid[0] > resident_blocks())
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    STANDIN_TRY(check_stream(function, stream));
    return submit(function, grid[0], is_cooperative, parameters, stream);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z,
                        unsigned int shared_bytes, CUstream stream, void **parameters, void **extra)
{
    STANDIN_ENTER(cuLaunchKernel, CONTEXT);
    (void)shared_bytes;
    if (!function || !parameters)
        return CUDA_ERROR_INVALID_VALUE;
    if (extra)
        return CUDA_ERROR_NOT_SUPPORTED;
    return launch_checked(function, (unsigned[]){grid_x, grid_y, grid_z},
                          (unsigned[]){block_x, block_y, block_z}, false, parameters, stream);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                   void **parameters)
{
    STANDIN_ENTER(cuLaunchCooperativeKernel, CONTEXT);
    (void)shared_bytes;
    if (!function || !parameters)
        return CUDA_ERROR_INVALID_VALUE;
    return launch_checked(function, (unsigned[]){grid_x, grid_y, grid_z},
                          (unsigned[]){block_x, block_y, block_z}, true, parameters, stream);
}

/* Of an attribute that this driver knows; others are refused. */
static CUresult read_attribute(const CUlaunchAttribute *attribute, bool *is_cooperative, bool *is_remote)
{
    switch (attribute->id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        *is_cooperative = attribute->value.cooperative != 0;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        *is_remote = attribute->value.memSyncDomain == CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
        if (!*is_remote && attribute->value.memSyncDomain != CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT)
            return CUDA_ERROR_INVALID_VALUE;
        return standin_settings()->domains > 1 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
    bool is_cooperative = false, is_remote = false;
    STANDIN_ENTER(cuLaunchKernelEx, CONTEXT);
    if (!config || !function || !parameters || (config->numAttrs > 0 && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    if (extra)
        return CUDA_ERROR_NOT_SUPPORTED;
    for (unsigned i = 0; i < config->numAttrs; i++)
        STANDIN_TRY(read_attribute(&config->attrs[i], &is_cooperative, &is_remote));
    if (function->kernel && standin_settings()->domains > 1 && !is_remote)
        return CUDA_ERROR_INVALID_VALUE;
    return launch_checked(function, (unsigned[]){config->gridDimX, config->gridDimY, config->gridDimZ},
                          (unsigned[]){config->blockDimX, config->blockDimY, config->blockDimZ},
                          is_cooperative, parameters, config->hStream);
}
