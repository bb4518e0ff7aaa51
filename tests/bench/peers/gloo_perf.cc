/* gloo's collectives, timed as blink-perf times blinkd's: of each iteration the slowest rank from a barrier
 * to the end of the call, of the iterations the median. Ranks are processes of this one that meet in a file
 * store and speak TCP over the loopback interface, which is what gloo offers processes of one host. Where
 * PEER_NETWORKS names files of network namespaces, with commas between them, each is a host with an equal
 * share of the ranks, which speak TCP over its eth0. In C++ because gloo has no C API.
 *
 *     gloo_perf RANKS COLLECTIVE ITERATIONS WARMUP ordinary|huge BYTES… */
#include "peer.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <memory>
#include <sched.h>
#include <signal.h>
#include <sstream>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace
{

using context_t = std::shared_ptr<gloo::rendezvous::Context>;

/* A call that runs the collective once. The buffers are registered here, once, as gloo's users may. */
std::function<void()> prepare(const context_t &context, peer_job_t &job)
{
    switch (job.collective) {
    case PEER_ALLREDUCE: {
        auto options = std::make_shared<gloo::AllreduceOptions>(context);
        options->setInput(job.input, job.count);
        options->setOutput(job.output, job.count);
        options->setReduceFunction(
            static_cast<void (*)(void *, const void *, const void *, size_t)>(gloo::sum<float>));
        return [options] { gloo::allreduce(*options); };
    }
    case PEER_BROADCAST: {
        auto options = std::make_shared<gloo::BroadcastOptions>(context);
        options->setOutput(job.output, job.count);
        options->setRoot(0);
        return [options] { gloo::broadcast(*options); };
    }
    case PEER_ALLGATHER: {
        auto options = std::make_shared<gloo::AllgatherOptions>(context);
        options->setInput(job.input, job.block);
        options->setOutput(job.output, job.count);
        return [options] { gloo::allgather(*options); };
    }
    case PEER_REDUCESCATTER: {
        /* The only one: in place, and the result at the front. It adds to what the last run left; the first
         * is checked. */
        std::memcpy(job.output, job.input, job.count * sizeof(float));
        auto algorithm = std::make_shared<gloo::ReduceScatterHalvingDoubling<float>>(
            context, std::vector<float *>{job.output}, static_cast<int>(job.count),
            std::vector<int>(static_cast<size_t>(job.ranks), static_cast<int>(job.block)));
        return [algorithm] { algorithm->run(); };
    }
    default: {
        auto options = std::make_shared<gloo::AlltoallOptions>(context);
        options->setInput(job.input, job.count);
        options->setOutput(job.output, job.count);
        return [options] { gloo::alltoall(*options); };
    }
    }
}

void meet(const context_t &context)
{
    gloo::BarrierOptions options(context);
    gloo::barrier(options);
}

/* `board_us` is shared: a row of times by iteration for each rank. */
bool measure(const context_t &context, peer_job_t &job, const peer_wish_t &wish, double *board_us)
{
    const std::function<void()> run_once = prepare(context, job);
    for (int i = -wish.warmup; i < wish.iterations; i++) {
        meet(context);
        double start_us = peer_now_us();
        run_once();
        if (i >= 0)
            board_us[static_cast<ptrdiff_t>(job.rank) * wish.iterations + i] = peer_now_us() - start_us;
        if (i == -wish.warmup && !peer_check(&job))
            return false;
    }
    meet(context);
    if (job.rank == 0) {
        for (int rank = 1; rank < job.ranks; rank++)
            for (int i = 0; i < wish.iterations; i++)
                board_us[i] =
                    std::max(board_us[i], board_us[static_cast<ptrdiff_t>(rank) * wish.iterations + i]);
        peer_print(&job, board_us, wish.iterations);
    }
    meet(context);
    return true;
}

std::vector<std::string> networks()
{
    std::vector<std::string> files;
    const char *named = std::getenv("PEER_NETWORKS");
    std::istringstream words(named ? named : "");
    for (std::string file; std::getline(words, file, ',');)
        files.push_back(file);
    return files;
}

/* Go to the host of this rank. Returns the interface by which the others can be reached from there. */
const char *enter_host(int rank, int ranks)
{
    const std::vector<std::string> files = networks();
    if (files.empty())
        return "lo";
    const std::string &file = files[static_cast<size_t>(rank) * files.size() / static_cast<size_t>(ranks)];
    int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0)
        throw std::runtime_error(file + ": " + std::strerror(errno));
    close(fd);
    return "eth0";
}

bool run_rank(int rank, int ranks, const peer_wish_t &wish, const std::string &directory, double *board_us)
{
    gloo::transport::tcp::attr attributes;
    attributes.iface = enter_host(rank, ranks);
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(directory);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    context->connectFullMesh(store, device);
    for (int i = 0; i < wish.size_count; i++) {
        peer_job_t job;
        bool good = peer_open(&job, &wish, rank, ranks, wish.sizes[i]);
        if (!good)
            std::fprintf(stderr, "gloo_perf: %s bytes: no memory, or not a block for each rank\n",
                         wish.sizes[i]);
        good = good && measure(context, job, wish, board_us);
        peer_close(&job);
        if (!good)
            return false;
    }
    return true;
}

int be_rank(int rank, int ranks, const peer_wish_t &wish, const std::string &directory, double *board_us)
{
    try {
        return run_rank(rank, ranks, wish, directory, board_us) ? EXIT_SUCCESS : EXIT_FAILURE;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "gloo_perf: rank %d: %s\n", rank, error.what());
        return EXIT_FAILURE;
    }
}

/* The first rank that fails ends the others. */
int run_ranks(int ranks, const peer_wish_t &wish, const std::string &directory, double *board_us)
{
    std::vector<pid_t> children;
    for (int rank = 0; rank < ranks; rank++) {
        pid_t child = fork();
        if (child == 0)
            _exit(be_rank(rank, ranks, wish, directory, board_us));
        children.push_back(child);
    }
    int result = EXIT_SUCCESS, status;
    for (int left = ranks; left > 0; left--) {
        pid_t child = wait(&status);
        for (pid_t &known : children)
            known = known == child ? -1 : known;
        if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS)
            continue;
        result = EXIT_FAILURE;
        for (pid_t other : children)
            if (other > 0)
                kill(other, SIGKILL);
    }
    return result;
}

} // namespace

int main(int argc, char **argv)
{
    peer_wish_t wish;
    const int ranks = argc > 1 ? std::atoi(argv[1]) : 0;
    if (ranks < 1 || !peer_parse(argc - 2, argv + 2, &wish)) {
        std::fprintf(stderr, "usage: gloo_perf RANKS COLLECTIVE ITERATIONS WARMUP ordinary|huge BYTES...\n");
        return 2;
    }
    char directory[] = "/tmp/gloo_perf.XXXXXX";
    const size_t board_bytes =
        static_cast<size_t>(ranks) * static_cast<size_t>(wish.iterations) * sizeof(double);
    void *board = mmap(nullptr, board_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED || !mkdtemp(directory)) {
        std::perror("gloo_perf");
        return EXIT_FAILURE;
    }
    int result = run_ranks(ranks, wish, directory, static_cast<double *>(board));
    std::filesystem::remove_all(directory);
    return result;
}
