/* Starting, watching and ending rank processes. */
#include "ranks/processes.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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
        sigprocmask(SIG_SETMASK, &signals->before, NULL);
    }
    return BLINK_OK;
}

/* Take the ranks that have ended out of pids[]. Returns the exit status of the first that failed. */
static int reap(pid_t *pids, uint32_t count, int options, uint32_t *left)
{
    int failure = EXIT_SUCCESS;
    for (uint32_t rank = 0; rank < count; rank++) {
        int status;
        if (pids[rank] == 0 || waitpid(pids[rank], &status, options) != pids[rank])
            continue;
        pids[rank] = 0;
        --*left;
        if (failure != EXIT_SUCCESS)
            continue;
        if (WIFEXITED(status)) {
            failure = WEXITSTATUS(status);
        } else {
            failure = PERF_EXIT_FAILED;
            if (WTERMSIG(status) == SIGPIPE)
                continue; /* who read what it prints has gone, and knows */
            fprintf(stderr, "blink-perf: rank %u was ended by signal %d (%s)\n", rank, WTERMSIG(status),
                    strsignal(WTERMSIG(status)));
        }
    }
    return failure;
}

static void end_all(pid_t *pids, uint32_t count)
{
    for (uint32_t rank = 0; rank < count; rank++)
        if (pids[rank] > 0)
            kill(pids[rank], SIGKILL);
    for (uint32_t rank = 0; rank < count; rank++)
        if (pids[rank] > 0)
            waitpid(pids[rank], NULL, 0);
}

static int watch(pid_t *pids, uint32_t count, perf_signals_t *signals)
{
    uint32_t left = count;
    while (left > 0) {
        perf_signals_wait(signals, -1);
        if (signals->caught != 0)
            return PERF_EXIT_FAILED;
        int failure = reap(pids, count, WNOHANG, &left);
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
    end_all(pids, count);
    return status;
}
