#include "run/watch.h"

#include "base/clock.h"
#include "run/options.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* So long children have after they were asked to end; and those that are asked over a wire once more. */
#define GRACE_NS UINT64_C(5000000000)

/* ssh's own. */
#define SSH_FAILED 255

/* How all are being ended. */
typedef struct ending {
    int asked;       /* the signal; 0: nobody has been asked */
    sigset_t sent;   /* it and those before it */
    uint64_t due_ns; /* of what is harder: SIGKILL, then SIGKILL to whoever runs a command elsewhere */
} ending_t;

static uint32_t count_alive(const watch_t *watch)
{
    uint32_t alive = 0;
    for (uint32_t i = 0; i < watch->child_count; i++)
        alive += watch->children[i].pid != 0;
    return alive;
}

static void ask_all(watch_t *watch, ending_t *ending, int number)
{
    for (uint32_t i = 0; i < watch->child_count; i++)
        child_signal(&watch->children[i], number);
    ending->asked = number;
    sigaddset(&ending->sent, number);
    ending->due_ns = clock_ns() + GRACE_NS;
}

static void be_harder(watch_t *watch, ending_t *ending)
{
    if (ending->asked != SIGKILL) {
        ask_all(watch, ending, SIGKILL);
        return;
    }
    for (uint32_t i = 0; i < watch->child_count; i++)
        child_kill(&watch->children[i]);
}

/* Somebody asks to end, for the first time or again. */
static void heard(watch_t *watch, ending_t *ending, int number)
{
    bool is_urgent = watch->caught != 0 || number == SIGKILL;
    if (watch->caught == 0)
        watch->caught = number;
    ask_all(watch, ending, is_urgent ? SIGKILL : number);
}

/* ---- what comes ---- */

static void take_signals(watch_t *watch, ending_t *ending)
{
    struct signalfd_siginfo info;
    while (read(watch->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo != SIGCHLD)
            heard(watch, ending, (int)info.ssi_signo);
    }
}

/* The blinkrun that has started this one is gone, or says what it was told. */
static void take_control(watch_t *watch, ending_t *ending)
{
    unsigned char number;
    ssize_t got = read(watch->control, &number, 1);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got <= 0)
        watch->control = -1;
    heard(watch, ending, got > 0 && number > 0 && number < NSIG ? number : SIGTERM);
}

static void tell_failure(const watch_t *watch, const ending_t *ending, const child_t *child, int status)
{
    const char *others = count_alive(watch) == 0 || ending->asked != 0 ? ""
                         : watch->keeps_going                          ? "; the others go on"
                                                                       : "; the others are ended";
    if (WIFSIGNALED(status))
        fprintf(stderr, "blinkrun: %s was ended by signal %d (%s)%s\n", child->name, WTERMSIG(status),
                strsignal(WTERMSIG(status)), others);
    else if (child->is_host && WEXITSTATUS(status) == SSH_FAILED)
        fprintf(stderr, "blinkrun: %s cannot be reached, or is lost%s\n", child->name, others);
    else
        fprintf(stderr, "blinkrun: %s ended with exit status %d%s\n", child->name, WEXITSTATUS(status),
                others);
}

static int exit_status(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : RUN_EXIT_SIGNAL + WTERMSIG(status);
}

/* Whether a rank was ended by a signal that was not sent from here: here, or where its blinkrun says so. A
 * rank may abort because it is asked to end, or because its ops fail. */
static bool was_killed(const child_t *child, int status, const ending_t *ending)
{
    int number = exit_status(status) - RUN_EXIT_SIGNAL;
    return (WIFSIGNALED(status) || child->is_host) && number > 0 && number < NSIG && number != SIGABRT &&
           sigismember(&ending->sent, number) == 0;
}

/* The first failure counts, and whoever was asked to end need not say how. But of a killed rank the kernel
 * tells when it has taken its memory apart: others may have failed of its end by then. */
static void reap(watch_t *watch, ending_t *ending, int *failure)
{
    int status;
    for (uint32_t i = 0; i < watch->child_count; i++) {
        child_t *child = &watch->children[i];
        if (!child_reap(child, &status) || status == 0)
            continue;
        bool asked = ending->asked != 0;
        if (asked && !was_killed(child, status, ending))
            continue;
        if (*failure == 0 || (asked && *failure < RUN_EXIT_SIGNAL))
            *failure = exit_status(status);
        tell_failure(watch, ending, child, status);
        if (!asked && !watch->keeps_going)
            ask_all(watch, ending, SIGTERM);
    }
}

/* ---- the loop ---- */

static uint32_t list_descriptors(const watch_t *watch, struct pollfd *polled)
{
    uint32_t count = 0;
    polled[count++] = (struct pollfd){.fd = watch->signals, .events = POLLIN};
    polled[count++] = (struct pollfd){.fd = watch->control, .events = POLLIN};
    for (uint32_t i = 0; i < watch->child_count; i++) {
        polled[count++] = (struct pollfd){.fd = watch->children[i].out.from, .events = POLLIN};
        polled[count++] = (struct pollfd){.fd = watch->children[i].err.from, .events = POLLIN};
    }
    return count;
}

static int time_left_ms(const ending_t *ending)
{
    uint64_t now_ns = clock_ns();
    if (ending->asked == 0)
        return -1;
    return ending->due_ns > now_ns ? (int)((ending->due_ns - now_ns) / 1000000) + 1 : 0;
}

static void turn(watch_t *watch, struct pollfd *polled, ending_t *ending, int *failure)
{
    if (poll(polled, list_descriptors(watch, polled), time_left_ms(ending)) < 0)
        return; /* interrupted: all of it is looked at again */
    for (uint32_t i = 0; i < watch->child_count; i++) {
        lines_move(&watch->children[i].out);
        lines_move(&watch->children[i].err);
    }
    if (polled[0].revents)
        take_signals(watch, ending);
    if (polled[1].revents)
        take_control(watch, ending);
    reap(watch, ending, failure);
    if (time_left_ms(ending) == 0)
        be_harder(watch, ending);
}

int watch_run(watch_t *watch)
{
    ending_t ending = {0};
    int failure = 0;
    sigemptyset(&ending.sent);
    struct pollfd *polled = calloc(2 + 2 * (size_t)watch->child_count, sizeof(*polled));
    if (!polled) {
        fprintf(stderr, "blinkrun: no memory for %u children\n", watch->child_count);
        watch_end(watch);
        return RUN_EXIT_FAILED;
    }
    while (count_alive(watch) > 0)
        turn(watch, polled, &ending, &failure);
    free(polled);
    if (failure == 0 && watch->caught != 0)
        failure = RUN_EXIT_SIGNAL + watch->caught;
    return failure;
}

void watch_end(watch_t *watch)
{
    for (uint32_t i = 0; i < watch->child_count; i++)
        child_kill(&watch->children[i]);
}

/* ---- beginning and end ---- */

blink_result_t watch_open(watch_t *watch)
{
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        sigaddset(&set, numbers[i]);
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    watch->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return watch->signals < 0 ? BLINK_FAIL_ERRNO("signalfd") : BLINK_OK;
}

void watch_close(watch_t *watch)
{
    close(watch->signals);
}
