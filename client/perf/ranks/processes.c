/* Starting, watching and ending rank processes. */
#include "ranks/processes.h"

#include "base/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What is asked to end is killed after this time. */
#define GRACE_NS UINT64_C(5000000000)

void perf_signals_block(perf_signals_t *signals)
{
    static const int watched[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
    *signals = (perf_signals_t){0};
    sigemptyset(&signals->watched);
    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++)
        sigaddset(&signals->watched, watched[i]);
    sigprocmask(SIG_BLOCK, &signals->watched, &signals->before);
}

void perf_signals_wait(perf_signals_t *signals, int timeout_ms)
{
    struct timespec limit = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
    int number =
        timeout_ms < 0 ? sigwaitinfo(&signals->watched, NULL) : sigtimedwait(&signals->watched, NULL, &limit);
    if (number > 0 && number != SIGCHLD)
        signals->caught = number;
}

blink_result_t perf_fork(const perf_signals_t *signals, int death_signal, pid_t *pid)
{
    pid_t parent = getpid();
    fflush(NULL); /* or the child would print it again */
    *pid = fork();
    if (*pid < 0)
        return BLINK_FAIL_ERRNO("fork");
    if (*pid == 0) {
        prctl(PR_SET_PDEATHSIG, death_signal);
        if (getppid() != parent)
            _exit(PERF_EXIT_FAILED);
        sigset_t mask = signals->before;
        sigdelset(&mask, SIGTERM);
        signal(SIGTERM, SIG_DFL);
        sigprocmask(SIG_SETMASK, &mask, NULL);
    }
    return BLINK_OK;
}

/* Of a rank that has ended. A rank that fails by itself has said why; SIGPIPE ends one whose reader has gone,
 * who knows. */
static void tell_signal(uint32_t rank, int status)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGPIPE)
        fprintf(stderr, "blink-perf: rank %u was ended by signal %d (%s)\n", rank, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
}

/* Take the ranks that have ended out of pids[]. Returns the exit status of the first that failed. */
static int reap(pid_t *pids, uint32_t count, uint32_t *left)
{
    int failure = EXIT_SUCCESS;
    for (uint32_t rank = 0; rank < count; rank++) {
        int status;
        if (pids[rank] == 0 || waitpid(pids[rank], &status, WNOHANG) != pids[rank])
            continue;
        pids[rank] = 0;
        --*left;
        tell_signal(rank, status);
        if (failure == EXIT_SUCCESS)
            failure = WIFEXITED(status) ? WEXITSTATUS(status) : PERF_EXIT_FAILED;
    }
    return failure;
}

static void send_all(const pid_t *pids, uint32_t count, int number)
{
    for (uint32_t rank = 0; rank < count; rank++)
        if (pids[rank] > 0)
            kill(pids[rank], number);
}

/* Of ranks that were asked to end. Returns how many have not yet. */
static uint32_t reap_asked(pid_t *pids, uint32_t count, int options, bool tells)
{
    uint32_t left = 0;
    for (uint32_t rank = 0; rank < count; rank++) {
        int status;
        if (pids[rank] == 0)
            continue;
        if (waitpid(pids[rank], &status, options) != pids[rank]) {
            left++;
            continue;
        }
        pids[rank] = 0;
        if (tells && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM))
            tell_signal(rank, status);
    }
    return left;
}

/* Not by SIGKILL at once: a rank that has another signal was killed before. The kernel tells of that when it
 * has taken the rank's memory apart, and the others may have failed of its end by then. */
static void end_all(pid_t *pids, uint32_t count, perf_signals_t *signals)
{
    bool tells = signals->caught == 0;
    uint64_t due_ns = clock_ns() + GRACE_NS;
    send_all(pids, count, SIGTERM);
    send_all(pids, count, SIGCONT); /* they may be stopped */
    while (reap_asked(pids, count, WNOHANG, tells) > 0 && clock_ns() < due_ns)
        perf_signals_wait(signals, 100);
    send_all(pids, count, SIGKILL);
    reap_asked(pids, count, 0, false);
}

static int watch(pid_t *pids, uint32_t count, perf_signals_t *signals)
{
    uint32_t left = count;
    while (left > 0) {
        perf_signals_wait(signals, -1);
        if (signals->caught != 0)
            return PERF_EXIT_FAILED;
        int failure = reap(pids, count, &left);
        if (failure != EXIT_SUCCESS)
            return failure;
    }
    return EXIT_SUCCESS;
}

int perf_processes_run(uint32_t count, perf_process_t *process, const void *context, perf_signals_t *signals)
{
    pid_t pids[PERF_RANKS_MAX] = {0};
    int status = EXIT_SUCCESS;
    for (uint32_t rank = 0; rank < count && status == EXIT_SUCCESS; rank++) {
        pid_t pid;
        if (perf_fork(signals, SIGKILL, &pid) != BLINK_OK) {
            fprintf(stderr, "blink-perf: rank %u: %s\n", rank, blink_error_text());
            status = PERF_EXIT_FAILED;
        } else if (pid == 0) {
            exit(process(context, rank));
        } else {
            pids[rank] = pid;
        }
    }
    if (status == EXIT_SUCCESS)
        status = watch(pids, count, signals);
    end_all(pids, count, signals);
    return status;
}
