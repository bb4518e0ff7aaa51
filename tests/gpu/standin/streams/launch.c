/* Modules, functions and launches: a block of a kernel is a thread. */
#include "standin/memory/memory.h"
#include "standin/streams/stream.h"

#include "host_kernels.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    RESIDENT_BLOCKS = STANDIN_MULTIPROCESSORS * STANDIN_BLOCKS_PER_MULTIPROCESSOR,
    PARAMETERS_MAX = 2,
    MEET_NAP_NS = 20000
};

/* Any image will do: all modules have the same kernels. They live as long as the process. */
struct CUmod_st {
    CUmodule next;
    CUcontext context;
    CUfunction functions;
};

/* A kernel of this library's own. */
typedef struct builtin {
    const char *name;
    size_t parameters[PARAMETERS_MAX + 1]; /* their bytes, then 0 */
    void (*run)(const uint64_t *parameters, uint32_t block, uint32_t block_count);
} builtin_t;

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
    alignas(max_align_t) unsigned char parameters[]; /* every one at a multiple of 8 bytes */
};

/* standin_increment(uint64_t *words, uint64_t count): adds 1 to each of them. */
static void increment(const uint64_t *parameters, uint32_t block, uint32_t block_count)
{
    uint64_t *words = memory_pointer(parameters[0]);
    for (uint64_t i = block; i < parameters[1]; i += block_count)
        __atomic_fetch_add(&words[i], 1, __ATOMIC_RELAXED);
}

/* standin_meet(uint64_t *word): adds 1, and ends once all blocks have. The word must be 0. */
static void meet(const uint64_t *parameters, uint32_t block, uint32_t block_count)
{
    (void)block;
    const struct timespec nap = {0, MEET_NAP_NS};
    uint64_t *word = memory_pointer(parameters[0]);
    __atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < block_count && standin_health() == CUDA_SUCCESS)
        nanosleep(&nap, NULL); /* threads that yield for long may starve the rest of the machine */
}

static const builtin_t builtins[] = {
    {"standin_increment", {sizeof(CUdeviceptr), sizeof(uint64_t)}, increment},
    {"standin_meet", {sizeof(CUdeviceptr)}, meet},
};

static const builtin_t *find_builtin(const char *name)
{
    for (size_t i = 0; i < sizeof(builtins) / sizeof(builtins[0]); i++) {
        if (!strcmp(builtins[i].name, name))
            return &builtins[i];
    }
    return NULL;
}

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
    const builtin_t *builtin = find_builtin(name);
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
    while ((block = atomic_fetch_add(&crowd->next_block, 1)) < launch->block_count) {
        if (function->kernel)
            function->kernel((const lane_abi_run_t *)(const void *)launch->parameters, block,
                             launch->block_count);
        else
            function->builtin->run((const uint64_t *)(const void *)launch->parameters, block,
                                   launch->block_count);
    }
}

static void *run_resident(void *argument)
{
    crowd_t *crowd = argument;
    pthread_mutex_lock(&crowd->lock);
    while (crowd->state == CROWD_GATHERS)
        pthread_cond_wait(&crowd->decided, &crowd->lock);
    bool runs = crowd->state == CROWD_RUNS;
    pthread_mutex_unlock(&crowd->lock);
    if (runs)
        run_blocks(crowd);
    return NULL;
}

/* As many blocks at a time as are resident on a GPU; the stream's own thread takes its part. */
static void run_launch(const op_t *op)
{
    crowd_t crowd = {
        .launch = op->launch, .lock = PTHREAD_MUTEX_INITIALIZER, .decided = PTHREAD_COND_INITIALIZER};
    uint32_t blocks = op->launch->block_count;
    uint32_t resident = blocks < RESIDENT_BLOCKS ? blocks : RESIDENT_BLOCKS;
    pthread_t threads[RESIDENT_BLOCKS];
    uint32_t count = 0;
    while (count + 1 < resident && !pthread_create(&threads[count], NULL, run_resident, &crowd))
        count++;
    bool all_are_there = count + 1 == resident;
    pthread_mutex_lock(&crowd.lock);
    crowd.state = all_are_there ? CROWD_RUNS : CROWD_LEAVES;
    pthread_cond_broadcast(&crowd.decided);
    pthread_mutex_unlock(&crowd.lock);
    if (all_are_there)
        run_blocks(&crowd);
    for (uint32_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    pthread_cond_destroy(&crowd.decided);
    pthread_mutex_destroy(&crowd.lock);
    if (!all_are_there)
        stream_lose(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
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

/* Copy the parameters, as CUDA does before a launch returns. NULL: no memory. */
static launch_t *create_launch(CUfunction function, uint32_t block_count, void **parameters)
{
    const size_t run_only[] = {sizeof(lane_abi_run_t), 0};
    const size_t *bytes = function->kernel ? run_only : function->builtin->parameters;
    size_t total = 0;
    for (unsigned i = 0; bytes[i]; i++)
        total += bytes[i];
    launch_t *launch = malloc(sizeof(*launch) + total);
    if (!launch)
        return NULL;
    atomic_init(&launch->references, 1);
    launch->function = function;
    launch->block_count = block_count;
    unsigned char *to = launch->parameters;
    for (unsigned i = 0; bytes[i]; i++) {
        memcpy(to, parameters[i], bytes[i]);
        to += bytes[i];
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

static CUresult submit(CUfunction function, uint32_t block_count, void **parameters, CUstream stream)
{
    if (!stream_is_captured(stream) && standin_launch_is_fatal()) {
        stream_lose(CUDA_ERROR_ILLEGAL_ADDRESS);
        return CUDA_SUCCESS; /* the calls that follow tell */
    }
    launch_t *launch = create_launch(function, block_count, parameters);
    if (!launch)
        return CUDA_ERROR_OUT_OF_MEMORY;
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
    STANDIN_TRY(check_shape((unsigned[]){grid_x, grid_y, grid_z}, (unsigned[]){block_x, block_y, block_z}));
    STANDIN_TRY(check_stream(function, stream));
    return submit(function, grid_x, parameters, stream);
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
    STANDIN_TRY(check_shape((unsigned[]){grid_x, grid_y, grid_z}, (unsigned[]){block_x, block_y, block_z}));
    if (grid_x > RESIDENT_BLOCKS)
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    STANDIN_TRY(check_stream(function, stream));
    return submit(function, grid_x, parameters, stream);
}
