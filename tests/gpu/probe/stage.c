/* What has nothing to do with CUDA: the board, the processes of a question and how they wait for one another,
 * descriptors between them, clocks and statistics. */
#include "probe.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void probe_note_error(probe_t *p, const char *format, ...)
{
    const uint32_t slot = atomic_fetch_add_explicit(&p->board->error_count, 1, memory_order_relaxed);
    if (slot >= PROBE_ERRORS)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(p->board->error[slot], sizeof(p->board->error[slot]), format, arguments);
    va_end(arguments);
}

void probe_answer(probe_t *p, probe_verdict_t verdict, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(p->board->answer, sizeof(p->board->answer), format, arguments);
    va_end(arguments);
    p->board->verdict = verdict;
}

void probe_number(probe_t *p, const char *format, ...)
{
    char *numbers = p->board->numbers;
    const size_t used = strlen(numbers), left = sizeof(p->board->numbers) - used;
    int separator = snprintf(numbers + used, left, "%s", used ? "; " : "");
    if (separator < 0 || (size_t)separator >= left)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(numbers + used + separator, left - (size_t)separator, format, arguments);
    va_end(arguments);
}

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double probe_numbers(probe_t *p, const char *what, double *samples, size_t count)
{
    if (count == 0) {
        probe_number(p, "%s: none", what);
        return 0;
    }
    qsort(samples, count, sizeof(samples[0]), compare_doubles);
    const double median = samples[count / 2];
    probe_number(p, "%s: median %.4g, p99 %.4g, min %.4g, n %zu", what, median, samples[(count * 99) / 100],
                 samples[0], count);
    return median;
}

uint64_t probe_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void probe_sleep_ms(unsigned ms)
{
    const struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&span, NULL);
}

bool probe_actor(probe_t *p, bool (*role)(probe_t *), pid_t *pid)
{
    const pid_t parent = getpid();
    *pid = fork();
    if (*pid < 0) {
        probe_note_error(p, "fork failed");
        return false;
    }
    if (*pid > 0)
        return true;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent && !role(p)) /* what it failed at is on the board */
        atomic_store_explicit(&p->board->is_actor_lost, true, memory_order_release);
    _exit(0);
}

void probe_reach(probe_t *p, unsigned stage)
{
    /* release: with the acquire in probe_await, what was written before the stage is seen after it. */
    atomic_store_explicit(&p->board->stage[stage], 1, memory_order_release);
}

bool probe_await(probe_t *p, unsigned stage, unsigned timeout_ms)
{
    const uint64_t end_ns = probe_now_ns() + timeout_ms * UINT64_C(1000000);
    while (!atomic_load_explicit(&p->board->stage[stage], memory_order_acquire)) {
        if (atomic_load_explicit(&p->board->is_actor_lost, memory_order_acquire))
            return false;
        if (probe_now_ns() > end_ns) {
            probe_note_error(p, "stage %u of the question was not reached in %u ms", stage, timeout_ms);
            return false;
        }
        probe_sleep_ms(1);
    }
    return true;
}

uint32_t probe_fetch(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE); /* pairs with a device's or another process's store */
}

void probe_store(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE); /* pairs with a stream's wait or probe_fetch */
}

bool probe_spin_until(const uint32_t *word, uint32_t value, unsigned timeout_ms)
{
    const uint64_t end_ns = probe_now_ns() + timeout_ms * UINT64_C(1000000);
    while (probe_fetch(word) < value)
        if (probe_now_ns() > end_ns)
            return false;
    return true;
}

typedef union fd_message {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
} fd_message_t;

bool probe_send_fd(probe_t *p, int fd)
{
    char byte = 0;
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    fd_message_t control = {.bytes = {0}};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    if (sendmsg(p->fd_socket[0], &message, MSG_NOSIGNAL) == 1)
        return true;
    probe_note_error(p, "sendmsg of a descriptor: %m");
    return false;
}

bool probe_receive_fd(probe_t *p, int *fd)
{
    char byte;
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    fd_message_t control = {.bytes = {0}};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    const ssize_t received = recvmsg(p->fd_socket[1], &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (received != 1 || !header || header->cmsg_type != SCM_RIGHTS) {
        probe_note_error(p, "recvmsg brought no descriptor");
        return false;
    }
    memcpy(fd, CMSG_DATA(header), sizeof(*fd));
    return true;
}

bool probe_becomes_true(const _Atomic bool *word, unsigned timeout_ms)
{
    const uint64_t end_ns = probe_now_ns() + timeout_ms * UINT64_C(1000000);
    while (!atomic_load_explicit(word, memory_order_acquire)) {
        if (probe_now_ns() > end_ns)
            return false;
        probe_sleep_ms(1);
    }
    return true;
}
