/*
 * What the files of blink-rank share: a session is one rank's way through its steps; patterns are the data it
 * sends and expects; every step ends in one reported line.
 */
#ifndef RANK_H
#define RANK_H

#include "names.h"

#include <blink/blink.h>
#include <stdbool.h>

#define COMMS_MAX   256
#define PENDING_MAX 1024

/* Bytes after each receive buffer that must stay as they are. */
#define GUARD_BYTES 64

/* A collective as a step names it. */
typedef struct job {
    blink_collective_t collective;
    size_t count;
    blink_datatype_t datatype;
    blink_redop_t redop;
    int root;
    bool in_place;
    bool rough; /* values whose sum depends on the order of adding */
} job_t;

/* A collective submitted, its memory, and what it should deliver. */
typedef struct pending {
    job_t job;
    blink_op_t *op;
    char *memory; /* one allocation: [send] recv guard; NULL for a count of 0 */
    char *send, *recv;
} pending_t;

typedef struct session {
    blink_context_t *context;
    int rank;       /* as the process was told; of communicator 0 */
    int comm_index; /* of the communicator that steps act on */
    int comm_count;
    const char *comm_name; /* of the communicators that are joined; NULL: none */
    blink_comm_t *comms[COMMS_MAX];
    int comm_rank[COMMS_MAX], comm_size[COMMS_MAX];
    bool in_group; /* submissions give no op of their own */
    int pending_count, failed_count;
    pending_t pending[PENDING_MAX];
    pending_t failed[PENDING_MAX]; /* kept, overwritten, to see whether anybody still writes to them */
} session_t;

/* Join a communicator and make it the current one; reports the step "init". */
bool session_join(session_t *session, const char *id_hex, int rank_count, int rank, int device,
                  blink_algorithm_t algorithm, unsigned init_timeout_ms);

/* Do one step and report it. */
void session_step(session_t *session, const char *step);

/* Give back what the steps left. */
void session_end(session_t *session);

/* Collective of the current communicator from its step, "allreduce:1000:float32:sum[:inplace][:rough]". */
bool job_parse(const char *text, job_t *job);
size_t job_bytes(const job_t *job);

/* What rank `rank` sends; what everybody must receive from `rank_count` ranks: elements that differ. */
void pattern_fill(const job_t *job, int rank, void *buffer);
size_t pattern_wrong(const job_t *job, int rank_count, const void *received);

/* FNV-1a, to compare results between ranks. */
uint64_t pattern_digest(const void *bytes, size_t byte_count);

/* Print the line of a step. Thread-safe. */
void report(int rank, const char *step, blink_result_t result, const char *text, size_t wrong,
            uint64_t digest);

#endif
