/*
 * The steps of blink-rank about memory: collectives on buffers that must be refused, and registration of
 * memory that the process made itself, well and badly.
 */
#include "steps.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES 4096u
#define COUNT      256u /* float32 elements: a quarter of a page */

typedef struct call {
    void *send, *recv;
    size_t count;
    int datatype, redop, root;
    bool broadcasts;
} call_t;

/* The good call, changed in one thing. */
static bool spoil(call_t *call, const char *kind, char *page)
{
    if (strcmp(kind, "past-region") == 0)
        call->recv = page + PAGE_BYTES - COUNT * sizeof(float) + sizeof(float);
    else if (strcmp(kind, "misaligned") == 0)
        call->recv = page + 2 * COUNT * sizeof(float) + 1;
    else if (strcmp(kind, "overlap") == 0)
        call->recv = page + sizeof(float);
    else if (strcmp(kind, "null") == 0)
        call->recv = NULL;
    else if (strcmp(kind, "datatype") == 0)
        call->datatype = 77;
    else if (strcmp(kind, "redop") == 0)
        call->redop = 9;
    else if (strcmp(kind, "root") == 0)
        call->broadcasts = true, call->root = 64;
    else if (strcmp(kind, "negative-root") == 0)
        call->broadcasts = true, call->root = -1;
    else if (strcmp(kind, "count-overflow") == 0)
        call->count = SIZE_MAX / 2;
    else
        return false;
    return true;
}

static blink_result_t submit_call(const call_t *call, blink_comm_t *comm, blink_op_t **op)
{
    if (call->broadcasts)
        return blink_broadcast(call->send, call->recv, call->count, (blink_datatype_t)call->datatype,
                               call->root, comm, op);
    return blink_all_reduce(call->send, call->recv, call->count, (blink_datatype_t)call->datatype,
                            (blink_redop_t)call->redop, comm, op);
}

outcome_t step_fault(session_t *session, const char *kind)
{
    void *page = NULL;
    blink_op_t *op = NULL;
    outcome_t outcome = outcome_of(blink_mem_alloc(session->context, PAGE_BYTES, &page));
    if (outcome.result != BLINK_OK)
        return outcome;
    call_t call = {.send = page,
                   .recv = (char *)page + 2 * COUNT * sizeof(float),
                   .count = COUNT,
                   .datatype = BLINK_FLOAT32,
                   .redop = BLINK_SUM};
    if (!spoil(&call, kind, page))
        outcome = outcome_bad("no such fault");
    else
        outcome = outcome_of(submit_call(&call, session->comms[session->comm_index], &op));
    if (op) {
        blink_wait(op);
        outcome = outcome_bad("the submission was accepted");
    }
    blink_mem_free(session->context, page);
    return outcome;
}

/* ---- memory of one's own ---- */

static int make_memory(const char *kind, size_t bytes)
{
    int fd = memfd_create("own", MFD_CLOEXEC | MFD_ALLOW_SEALING), seals = F_SEAL_SHRINK;
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        abort();
    if (strcmp(kind, "unsealed") == 0)
        seals = 0;
    if (strcmp(kind, "write-sealed") == 0)
        seals |= F_SEAL_FUTURE_WRITE;
    if (fcntl(fd, F_ADD_SEALS, seals) != 0)
        abort();
    return fd;
}

/* An allreduce in place in the registered memory, at an offset into it. */
static outcome_t reduce_in(session_t *session, char *memory)
{
    job_t job = {.collective = BLINK_ALLREDUCE, .count = 1000, .datatype = BLINK_FLOAT32, .redop = BLINK_SUM};
    blink_op_t *op;
    char *at = memory + 64;
    pattern_fill(&job, session->comm_rank[session->comm_index], at);
    outcome_t outcome = outcome_of(blink_all_reduce(at, at, job.count, job.datatype, job.redop,
                                                    session->comms[session->comm_index], &op));
    if (outcome.result == BLINK_OK)
        outcome = outcome_of(blink_wait(op));
    if (outcome.result == BLINK_OK)
        outcome.wrong = pattern_wrong(&job, session->comm_size[session->comm_index], at);
    return outcome;
}

static outcome_t use_registered(session_t *session, const char *kind, char *memory, size_t bytes, int fd)
{
    outcome_t outcome = {0};
    if (strcmp(kind, "twice") == 0) {
        outcome = outcome_of(blink_mem_register(session->context, memory, bytes, fd, PAGE_BYTES));
        blink_mem_deregister(session->context, memory);
        return outcome;
    }
    if (strcmp(kind, "inner-deregister") == 0)
        outcome = outcome_of(blink_mem_deregister(session->context, memory + PAGE_BYTES));
    else
        outcome = reduce_in(session, memory);
    outcome_t left = outcome_of(blink_mem_deregister(session->context, memory));
    if (left.result != BLINK_OK)
        return left;
    left = outcome_of(blink_mem_deregister(session->context, memory));
    if (left.result != BLINK_ERR_NOT_REGISTERED)
        return outcome_bad("deregistered twice: %s", blink_result_name(left.result));
    return outcome;
}

outcome_t step_memfd(session_t *session, const char *kind)
{
    size_t bytes = 4 * PAGE_BYTES, offset = PAGE_BYTES;
    int pipe_fds[2] = {-1, -1}, fd = make_memory(kind, bytes + offset), passed = fd;
    char *memory = mmap(NULL, bytes, PROT_READ | (strcmp(kind, "write-sealed") == 0 ? 0 : PROT_WRITE),
                        MAP_SHARED, fd, (off_t)offset);
    if (memory == MAP_FAILED || pipe(pipe_fds) != 0)
        abort();
    if (strcmp(kind, "pipe") == 0)
        passed = pipe_fds[0];
    if (strcmp(kind, "closed") == 0)
        passed = -1;
    size_t told_bytes = strcmp(kind, "too-long") == 0 ? bytes + PAGE_BYTES : bytes;
    size_t told_offset = strcmp(kind, "misaligned-offset") == 0 ? offset + 8 : offset;
    outcome_t outcome =
        outcome_of(blink_mem_register(session->context, memory, told_bytes, passed, told_offset));
    if (outcome.result == BLINK_OK)
        outcome = use_registered(session, kind, memory, bytes, passed);
    munmap(memory, bytes);
    close(fd);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    return outcome;
}

outcome_t step_free(session_t *session, const char *job_text)
{
    job_t job;
    pending_t pending;
    if (!job_parse(job_text, &job))
        return outcome_bad("no collective");
    outcome_t outcome = pending_submit(session, &job, &pending);
    if (outcome.result != BLINK_OK)
        return outcome;
    outcome = outcome_of(blink_mem_free(session->context, pending.memory));
    outcome_t ended = outcome_of(blink_wait(pending.op));
    return outcome.result == BLINK_OK ? ended : outcome;
}
