/* The stand-in driver: processes that share a GPU (STANDIN_CUDA_SHARED), at once or in turns. */
#include "standin/process.h"

#include <signal.h>
#include <unistd.h>

enum { BLOCKS = 4 }; /* all that are resident at once on two multiprocessors */

static CUfunction find_kernel(const char *name)
{
    CUmodule module;
    CUfunction kernel;
    CU(cuModuleLoadData, &module, "any image");
    CU(cuModuleGetFunction, &kernel, module, name);
    return kernel;
}

/* A kernel has the GPU's multiprocessors until the process is killed. */
static void keep(int socket)
{
    CUstream stream;
    uint32_t *words;
    process_use(0);
    CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CU(cuMemHostAlloc, (void **)&words, 2 * sizeof(*words), 0);
    CUdeviceptr started = (CUdeviceptr)(uintptr_t)words, stop = started + sizeof(*words);
    uint64_t limit_ns = UINT64_C(1000000000) * limit_s();
    CHECK(process_launch(find_kernel("probe_spin"), BLOCKS, true, stream,
                         (void *[]){&started, &stop, &limit_ns}) == CUDA_SUCCESS);
    while (!__atomic_load_n(words, __ATOMIC_ACQUIRE))
        usleep(1000);
    process_meet(socket);
    pause();
}

static process_t start_keeper(void)
{
    process_t keeper = process_start(keep);
    process_use(0);
    process_meet(keeper.socket);
    return keeper;
}

static void kill_keeper(process_t keeper)
{
    CHECK(!kill(keeper.pid, SIGKILL));
    CHECK(WIFSIGNALED(process_end(keeper)));
}

/* Launch one block that adds 1 to a word. */
static void increment(CUstream stream, CUdeviceptr word)
{
    uint64_t count = 1;
    CHECK(process_launch(find_kernel("standin_increment"), 1, false, stream, (void *[]){&word, &count}) ==
          CUDA_SUCCESS);
}

static void set_up(CUstream *stream, CUdeviceptr *word)
{
    CU(cuStreamCreate, stream, CU_STREAM_NON_BLOCKING);
    CU(cuMemAlloc, word, 8);
    CU(cuMemsetD8, *word, 0, 8);
}

static void test_a_launch_waits_for_another_process(int socket)
{
    CUstream stream;
    CUdeviceptr word;
    (void)socket;
    setenv("STANDIN_CUDA_MPS", "1", 1);
    process_t keeper = start_keeper();
    set_up(&stream, &word);
    increment(stream, word);
    usleep(100000);
    CHECK_RESULT(CUDA_ERROR_NOT_READY, cuStreamQuery, stream);
    kill_keeper(keeper); /* which gives nothing back */
    CU(cuStreamSynchronize, stream);
    CHECK(process_word(word) == 1);
}

static void test_kernels_take_turns_with_one_that_never_ends(int socket)
{
    enum { ROUNDS = 20 };
    CUstream stream;
    CUdeviceptr word;
    (void)socket;
    process_t keeper = start_keeper();
    set_up(&stream, &word);
    for (int i = 0; i < ROUNDS; i++) {
        increment(stream, word);
        CU(cuStreamSynchronize, stream);
    }
    CHECK(process_word(word) == ROUNDS);
    kill_keeper(keeper);
    increment(stream, word);
    CU(cuStreamSynchronize, stream);
}

/* The other process has its turn, and does not come to end it. */
static void test_no_kernel_runs_in_the_turn_of_another_process(int socket)
{
    CUstream stream;
    CUdeviceptr word;
    int status;
    (void)socket;
    process_t keeper = start_keeper();
    set_up(&stream, &word);
    CHECK(!kill(keeper.pid, SIGSTOP));
    CHECK(waitpid(keeper.pid, &status, WUNTRACED) == keeper.pid && WIFSTOPPED(status));
    increment(stream, word);
    usleep(100000);
    CHECK_RESULT(CUDA_ERROR_NOT_READY, cuStreamQuery, stream);
    CHECK(!kill(keeper.pid, SIGCONT));
    CU(cuStreamSynchronize, stream);
    CHECK(process_word(word) == 1);
    kill_keeper(keeper);
}

#define TEST(name, environment)                                                                              \
    {                                                                                                        \
#name, name, environment                                                                             \
    }

int main(void)
{
    static const process_test_t tests[] = {
        TEST(test_a_launch_waits_for_another_process, "STANDIN_CUDA_RESIDENCY=2"),
        TEST(test_kernels_take_turns_with_one_that_never_ends, "STANDIN_CUDA_RESIDENCY=2"),
        TEST(test_no_kernel_runs_in_the_turn_of_another_process, NULL),
    };
    char path[] = "/tmp/standin-shared-XXXXXX";
    int file = mkstemp(path);
    CHECK(file >= 0);
    setenv("STANDIN_CUDA_SHARED", path, 1);
    int failures = process_run_all(tests, sizeof(tests) / sizeof(tests[0]));
    close(file);
    unlink(path);
    return failures;
}
