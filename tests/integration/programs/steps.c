/*
 * The steps of blink-rank: what each word on its command line does, and the line that tells how it went. A
 * step that is itself a collective ("allreduce:1000:float32:sum") is submitted, waited for and checked.
 */
#include "steps.h"

#include "unique_id.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 16

static pthread_mutex_t report_mutex = PTHREAD_MUTEX_INITIALIZER;

void report(int rank, const char *step, blink_result_t result, const char *text, size_t wrong,
            uint64_t digest)
{
    pthread_mutex_lock(&report_mutex);
    printf("{\"rank\": %d, \"step\": \"%s\", \"result\": \"%s\", \"text\": \"", rank, step,
           blink_result_name(result));
    for (; *text; text++)
        printf((unsigned char)*text < ' ' || *text == '"' || *text == '\\' ? "\\u%04x" : "%c",
               (unsigned char)*text);
    printf("\", \"wrong\": %zu, \"digest\": \"%016lx\"}\n", wrong, (unsigned long)digest);
    fflush(stdout);
    pthread_mutex_unlock(&report_mutex);
}

outcome_t outcome_of(blink_result_t result)
{
    outcome_t outcome = {.result = result};
    if (result != BLINK_OK)
        snprintf(outcome.text, sizeof(outcome.text), "%s", blink_last_error());
    return outcome;
}

outcome_t outcome_bad(const char *format, ...)
{
    outcome_t outcome = {.wrong = 1};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(outcome.text, sizeof(outcome.text), format, arguments);
    va_end(arguments);
    return outcome;
}

static void sleep_ms(long milliseconds)
{
    struct timespec duration = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&duration, NULL);
}

/* ---- communicators ---- */

bool session_join(session_t *session, const char *id_hex, int rank_count, int rank, int device,
                  blink_algorithm_t algorithm, unsigned init_timeout_ms)
{
    unique_id_t parsed;
    blink_unique_id_t id;
    blink_comm_config_t config = BLINK_COMM_CONFIG_INIT;
    int index = session->comm_count, seen_rank = -1, seen_size = -1, seen_device = -1;
    config.device = device;
    config.algorithm = algorithm;
    config.init_timeout_ms = init_timeout_ms;
    config.name = session->comm_name;
    outcome_t outcome = outcome_bad("no id, or too many communicators");
    if (index < COMMS_MAX && unique_id_parse(id_hex, "the id", &parsed) == BLINK_OK) {
        memcpy(&id, &parsed, sizeof(id));
        outcome = outcome_of(
            blink_comm_init_rank(session->context, &id, rank_count, rank, &config, &session->comms[index]));
    }
    bool joined = outcome.result == BLINK_OK && outcome.wrong == 0;
    if (joined) {
        blink_comm_rank(session->comms[index], &seen_rank);
        blink_comm_size(session->comms[index], &seen_size);
        blink_comm_device(session->comms[index], &seen_device);
        /* Without a device the rank has that of its number, unless other hosts have ranks, too. */
        int expected = device < 0 && parsed.port == 0 ? rank : device < 0 ? seen_device : device;
        if (seen_rank != rank || seen_size != rank_count || seen_device != expected)
            outcome = outcome_bad("the communicator says rank %d of %d on device %d", seen_rank, seen_size,
                                  seen_device);
        session->comm_rank[index] = rank;
        session->comm_size[index] = rank_count;
        session->comm_index = index;
        session->comm_count++;
    }
    report(session->rank, "init", outcome.result, outcome.text, outcome.wrong, 0);
    return joined;
}

/* "id": a new id of this daemon, which the report tells. */
static outcome_t step_id(session_t *session, const char *argument)
{
    unique_id_t made;
    blink_unique_id_t id;
    (void)argument;
    outcome_t outcome = outcome_of(blink_get_unique_id(session->context, &id));
    memcpy(&made, &id, sizeof(made));
    if (outcome.result == BLINK_OK)
        unique_id_write(&made, outcome.text);
    return outcome;
}

/* "join:HEX:RANKS:RANK:DEVICE[:INIT_TIMEOUT_MS]" */
static outcome_t step_join(session_t *session, const char *argument)
{
    char hex[UNIQUE_ID_TEXT_BYTES];
    int rank_count, rank, device;
    unsigned timeout_ms = 0;
    if (sscanf(argument, "%128[0-9a-f]:%d:%d:%d:%u", hex, &rank_count, &rank, &device, &timeout_ms) < 4)
        return outcome_bad("join needs HEX:RANKS:RANK:DEVICE");
    session_join(session, hex, rank_count, rank, device, BLINK_ALGORITHM_AUTO, timeout_ms);
    return (outcome_t){0};
}

static outcome_t step_use(session_t *session, const char *argument)
{
    session->comm_index = (int)strtol(argument, NULL, 10);
    return (outcome_t){0};
}

/* "split:COLOR": the new communicator is the current one. */
static outcome_t step_split(session_t *session, const char *argument)
{
    int index = session->comm_count, old = session->comm_index;
    if (index == COMMS_MAX)
        return outcome_bad("too many communicators");
    outcome_t outcome = outcome_of(blink_comm_split(session->comms[old], (int)strtol(argument, NULL, 10), 0,
                                                    NULL, &session->comms[index]));
    if (outcome.result != BLINK_OK)
        return outcome;
    blink_comm_rank(session->comms[index], &session->comm_rank[index]);
    blink_comm_size(session->comms[index], &session->comm_size[index]);
    session->comm_index = index;
    session->comm_count++;
    return outcome;
}

/* "split-choice:COLOR": what blink_comm_split() tells the other ranks, and not what it does then. */
static outcome_t step_split_choice(session_t *session, const char *argument)
{
    struct {
        int32_t color, key;
        blink_unique_id_t id;
    } own = {.color = (int32_t)strtol(argument, NULL, 10)}, all[16];
    blink_op_t *op;
    blink_get_unique_id(session->context, &own.id);
    if (session->comm_size[session->comm_index] > 16)
        return outcome_bad("at most 16 ranks");
    outcome_t outcome = outcome_of(
        blink_all_gather(&own, all, sizeof(own), BLINK_UINT8, session->comms[session->comm_index], &op));
    return outcome.result == BLINK_OK ? outcome_of(blink_wait(op)) : outcome;
}

static outcome_t step_destroy(session_t *session, const char *argument)
{
    (void)argument;
    blink_comm_t *comm = session->comms[session->comm_index];
    session->comms[session->comm_index] = NULL;
    return outcome_of(blink_comm_destroy(comm));
}

static outcome_t step_abort(session_t *session, const char *argument)
{
    (void)argument;
    return outcome_of(blink_comm_abort(session->comms[session->comm_index]));
}

static outcome_t step_finalize(session_t *session, const char *argument)
{
    (void)argument;
    return outcome_of(blink_comm_finalize(session->comms[session->comm_index]));
}

static outcome_t step_async_error(session_t *session, const char *argument)
{
    (void)argument;
    blink_result_t lost = BLINK_OK;
    outcome_t outcome = outcome_of(blink_comm_async_error(session->comms[session->comm_index], &lost));
    return outcome.result != BLINK_OK ? outcome : outcome_of(lost);
}

/* Until the communicator is lost, however long that takes: the harness limits it. */
static outcome_t step_await_lost(session_t *session, const char *argument)
{
    outcome_t outcome = {0};
    while (outcome.result == BLINK_OK) {
        sleep_ms(5);
        outcome = step_async_error(session, argument);
    }
    return outcome;
}

/* ---- collectives ---- */

outcome_t pending_submit(session_t *session, const job_t *job, pending_t *pending)
{
    size_t bytes = job_bytes(job), element = blink_datatype_bytes(job->datatype);
    int rank = session->comm_rank[session->comm_index];
    blink_comm_t *comm = session->comms[session->comm_index];
    *pending = (pending_t){.job = *job};
    if (bytes > 0) {
        void *memory;
        size_t buffers = job->in_place ? 1 : 2;
        outcome_t outcome = outcome_of(
            blink_mem_alloc(session->context, buffers * bytes + 7 * element + GUARD_BYTES, &memory));
        if (outcome.result != BLINK_OK)
            return outcome;
        pending->memory = memory;
        pending->send = pending->memory + 3 * element;
        pending->recv = job->in_place ? pending->send : pending->send + bytes + 2 * element;
        memset(pending->recv, 0xEE, bytes + GUARD_BYTES);
        pattern_fill(job, rank, pending->send);
    }
    bool sends = job->collective == BLINK_ALLREDUCE || job->root == rank;
    const void *send = sends ? pending->send : NULL;
    blink_op_t **op = session->in_group ? NULL : &pending->op;
    blink_result_t result =
        job->collective == BLINK_ALLREDUCE
            ? blink_all_reduce(send, pending->recv, job->count, job->datatype, job->redop, comm, op)
            : blink_broadcast(send, pending->recv, job->count, job->datatype, job->root, comm, op);
    outcome_t outcome = outcome_of(result);
    if (result != BLINK_OK)
        blink_mem_free(session->context, pending->memory);
    return outcome;
}

/* Wrong elements received, guard bytes written and, out of place, elements of the input changed. */
static outcome_t pending_check(session_t *session, pending_t *pending)
{
    const job_t *job = &pending->job;
    size_t bytes = job_bytes(job);
    outcome_t outcome = {0};
    if (bytes == 0)
        return outcome;
    outcome.wrong = pattern_wrong(job, session->comm_size[session->comm_index], pending->recv);
    if (job->rough)
        outcome.digest = pattern_digest(pending->recv, bytes);
    for (int i = 0; i < GUARD_BYTES; i++)
        outcome.wrong += (unsigned char)pending->recv[bytes + (size_t)i] != 0xEE;
    char *original = malloc(bytes);
    if (!original)
        return outcome_bad("no memory to check with");
    if (pending->send != pending->recv) {
        pattern_fill(job, session->comm_rank[session->comm_index], original);
        outcome.wrong += memcmp(original, pending->send, bytes) != 0;
    }
    free(original);
    return outcome;
}

/* After the op has ended: check and free; a failed op's memory is kept for the step "untouched". */
outcome_t pending_finish(session_t *session, pending_t *pending, blink_result_t result)
{
    outcome_t outcome = outcome_of(result);
    if (result != BLINK_OK && pending->memory && session->failed_count < PENDING_MAX) {
        memset(pending->recv, 0xA5, job_bytes(&pending->job));
        session->failed[session->failed_count++] = *pending;
        return outcome;
    }
    if (result == BLINK_OK)
        outcome = pending_check(session, pending);
    blink_mem_free(session->context, pending->memory);
    return outcome;
}

static outcome_t step_job(session_t *session, const char *argument)
{
    job_t job;
    pending_t pending;
    if (!job_parse(argument, &job))
        return outcome_bad("no step and no collective");
    outcome_t outcome = pending_submit(session, &job, &pending);
    if (outcome.result != BLINK_OK)
        return outcome;
    return pending_finish(session, &pending, blink_wait(pending.op));
}

static outcome_t step_submit(session_t *session, const char *argument)
{
    job_t job;
    if (!job_parse(argument, &job) || session->pending_count == PENDING_MAX)
        return outcome_bad("no collective, or too many");
    outcome_t outcome = pending_submit(session, &job, &session->pending[session->pending_count]);
    session->pending_count += outcome.result == BLINK_OK;
    return outcome;
}

/* All that is pending, in order: the first failure, and wrong elements in all. group: the op that they all
 * are; NULL: each is one. */
static outcome_t finish_pending(session_t *session, blink_op_t *group)
{
    outcome_t total = {0};
    blink_result_t of_group = group ? blink_wait(group) : BLINK_OK;
    for (int i = 0; i < session->pending_count; i++) {
        pending_t *pending = &session->pending[i];
        outcome_t outcome = pending_finish(session, pending, group ? of_group : blink_wait(pending->op));
        outcome.wrong += total.wrong;
        if (total.result != BLINK_OK)
            total.wrong = outcome.wrong;
        else
            total = outcome;
    }
    session->pending_count = 0;
    return total;
}

static outcome_t step_wait(session_t *session, const char *argument)
{
    (void)argument;
    return finish_pending(session, NULL);
}

/* "group:N:JOB": so many of the collective, submitted as one. */
static outcome_t step_group(session_t *session, const char *argument)
{
    char *job_text;
    blink_op_t *op = NULL;
    long count = strtol(argument, &job_text, 10);
    outcome_t outcome = outcome_of(blink_group_start());
    session->in_group = true;
    for (long i = 0; i < count && *job_text == ':' && outcome.result == BLINK_OK && outcome.wrong == 0; i++)
        outcome = step_submit(session, job_text + 1);
    session->in_group = false;
    blink_result_t ended = blink_group_end(&op);
    if (outcome.result != BLINK_OK || outcome.wrong > 0 || ended != BLINK_OK)
        return outcome.result != BLINK_OK || outcome.wrong > 0 ? outcome : outcome_of(ended);
    return op ? finish_pending(session, op) : outcome_bad("no group");
}

/* Wrong: receive buffers of failed ops in which somebody has written since. */
static outcome_t step_untouched(session_t *session, const char *argument)
{
    (void)argument;
    outcome_t outcome = {0};
    sleep_ms(200);
    for (int i = 0; i < session->failed_count; i++) {
        const char *recv = session->failed[i].recv;
        bool is_filled = (unsigned char)recv[0] == 0xA5 &&
                         memcmp(recv, recv + 1, job_bytes(&session->failed[i].job) - 1) == 0;
        outcome.wrong += !is_filled;
    }
    if (session->failed_count == 0)
        outcome = outcome_bad("no op has failed");
    return outcome;
}

/* "wait-for:MS:JOB": so long at a time, which is reported the first time that it was too short. */
static outcome_t step_wait_for(session_t *session, const char *argument)
{
    job_t job;
    pending_t pending;
    char *job_text;
    unsigned milliseconds = (unsigned)strtoul(argument, &job_text, 10);
    if (*job_text != ':' || !job_parse(job_text + 1, &job))
        return outcome_bad("no collective");
    outcome_t outcome = pending_submit(session, &job, &pending);
    if (outcome.result != BLINK_OK)
        return outcome;
    blink_result_t result = blink_wait_for(&pending.op, milliseconds);
    if (pending.op)
        report(session->rank, "timed-out", BLINK_OK, "", result != BLINK_ERR_TIMEOUT, 0);
    while (pending.op)
        result = blink_wait_for(&pending.op, milliseconds);
    return pending_finish(session, &pending, result);
}

static outcome_t step_test(session_t *session, const char *argument)
{
    job_t job;
    pending_t pending;
    bool done = false;
    if (!job_parse(argument, &job))
        return outcome_bad("no collective");
    outcome_t outcome = pending_submit(session, &job, &pending);
    if (outcome.result != BLINK_OK)
        return outcome;
    blink_result_t result = BLINK_OK;
    while (!done) {
        result = blink_test(pending.op, &done);
        sched_yield();
    }
    return pending_finish(session, &pending, result);
}

static outcome_t step_poll(session_t *session, const char *argument)
{
    job_t job;
    pending_t pending;
    int fd;
    bool done = false;
    if (!job_parse(argument, &job))
        return outcome_bad("no collective");
    outcome_t outcome = outcome_of(blink_poll_fd(session->context, &fd));
    if (outcome.result == BLINK_OK)
        outcome = pending_submit(session, &job, &pending);
    if (outcome.result != BLINK_OK)
        return outcome;
    blink_result_t result = blink_test(pending.op, &done);
    while (!done) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        uint64_t events;
        if (poll(&poll_fd, 1, -1) != 1 || read(fd, &events, sizeof(events)) != (ssize_t)sizeof(events))
            return outcome_bad("poll or read of the descriptor failed");
        result = blink_test(pending.op, &done);
    }
    return pending_finish(session, &pending, result);
}

/* ---- nops ---- */

/* "nop:N": N at once, then wait for all. */
static outcome_t step_nop(session_t *session, const char *argument)
{
    long count = strtol(argument, NULL, 10);
    blink_op_t **ops = calloc((size_t)count, sizeof(blink_op_t *));
    outcome_t outcome = {0};
    long submitted = 0;
    while (ops && submitted < count && outcome.result == BLINK_OK)
        outcome = outcome_of(blink_nop(session->context, &ops[submitted++]));
    submitted -= outcome.result != BLINK_OK;
    for (long i = 0; i < submitted; i++) {
        outcome_t ended = outcome_of(blink_wait(ops[i]));
        if (outcome.result == BLINK_OK)
            outcome = ended;
    }
    free(ops);
    return outcome;
}

typedef struct nop_thread {
    pthread_t thread;
    session_t *session;
    outcome_t outcome;
} nop_thread_t;

static void *nop_thread_main(void *argument)
{
    nop_thread_t *own = argument;
    for (int i = 0; i < 200 && own->outcome.result == BLINK_OK; i++)
        own->outcome = step_nop(own->session, i % 10 == 0 ? "20" : "1");
    return NULL;
}

/* "threads:N": N threads share the context and submit nops, one at a time and twenty at once. */
static outcome_t step_threads(session_t *session, const char *argument)
{
    int count = (int)strtol(argument, NULL, 10);
    nop_thread_t threads[THREADS_MAX];
    outcome_t outcome = {0};
    if (count > THREADS_MAX)
        return outcome_bad("at most %d threads", THREADS_MAX);
    for (int i = 0; i < count; i++) {
        threads[i] = (nop_thread_t){.session = session};
        if (pthread_create(&threads[i].thread, NULL, nop_thread_main, &threads[i]) != 0)
            abort();
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i].thread, NULL);
        if (outcome.result == BLINK_OK)
            outcome = threads[i].outcome;
    }
    return outcome;
}

/* ---- the rest ---- */

static outcome_t step_sleep(session_t *session, const char *argument)
{
    (void)session;
    sleep_ms(strtol(argument, NULL, 10));
    return (outcome_t){0};
}

/* Wait for a line on standard input: the test says when to go on. */
static outcome_t step_gate(session_t *session, const char *argument)
{
    char line[16];
    report(session->rank, "at-gate", BLINK_OK, argument, 0, 0);
    if (!fgets(line, sizeof(line), stdin))
        return outcome_bad("standard input ended");
    return (outcome_t){0};
}

static outcome_t step_kill(session_t *session, const char *argument)
{
    (void)session;
    (void)argument;
    kill(getpid(), SIGKILL);
    return (outcome_t){0};
}

/* "fork": a child that holds everything of this process open, the socket above all, until standard input
 * ends. */
static outcome_t step_fork(session_t *session, const char *argument)
{
    (void)session;
    (void)argument;
    pid_t child = fork();
    if (child != 0)
        return child > 0 ? (outcome_t){0} : outcome_bad("fork failed");
    char line[16];
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    while (read(STDIN_FILENO, line, sizeof(line)) > 0)
        continue;
    _exit(0);
}

static outcome_t step_times(session_t *session, const char *argument)
{
    long count = strtol(argument, NULL, 10);
    const char *step = strchr(argument, ':');
    outcome_t total = {0};
    for (long i = 0; step && i < count && total.result == BLINK_OK; i++) {
        outcome_t outcome = session_do(session, step + 1);
        outcome.wrong += total.wrong;
        total = outcome;
    }
    return total;
}

static const struct {
    const char *name;
    outcome_t (*run)(session_t *session, const char *argument);
} STEPS[] = {
    {"id", step_id},
    {"join", step_join},
    {"begin", step_begin},
    {"ready", step_ready},
    {"abort-awaited", step_abort_awaited},
    {"launched", step_launched},
    {"use", step_use},
    {"destroy", step_destroy},
    {"abort", step_abort},
    {"kill", step_kill},
    {"async-error", step_async_error},
    {"submit", step_submit},
    {"await-lost", step_await_lost},
    {"wait", step_wait},
    {"group", step_group},
    {"untouched", step_untouched},
    {"test", step_test},
    {"poll", step_poll},
    {"nop", step_nop},
    {"threads", step_threads},
    {"sleep", step_sleep},
    {"gate", step_gate},
    {"times", step_times},
    {"fault", step_fault},
    {"memfd", step_memfd},
    {"round", step_round},
    {"script", step_script},
    {"free", step_free},
    {"fork", step_fork},
    {"split", step_split},
    {"split-choice", step_split_choice},
    {"shrink", step_shrink},
    {"outlive", step_outlive},
    {"finalize", step_finalize},
    {"wait-for", step_wait_for},
};

outcome_t session_do(session_t *session, const char *step)
{
    size_t length = strcspn(step, ":");
    const char *argument = step[length] ? step + length + 1 : "";
    for (size_t i = 0; i < sizeof(STEPS) / sizeof(STEPS[0]); i++) {
        if (strlen(STEPS[i].name) == length && strncmp(STEPS[i].name, step, length) == 0)
            return STEPS[i].run(session, argument);
    }
    return step_job(session, step);
}

void session_step(session_t *session, const char *step)
{
    outcome_t outcome = session_do(session, step);
    report(session->rank, step, outcome.result, outcome.text, outcome.wrong, outcome.digest);
}

void session_end(session_t *session)
{
    for (int i = 0; i < session->failed_count; i++)
        blink_mem_free(session->context, session->failed[i].memory);
    for (int i = 0; i < session->comm_count; i++)
        blink_comm_destroy(session->comms[i]);
}
