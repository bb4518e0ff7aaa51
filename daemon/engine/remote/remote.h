/*
 * Ops whose ranks are on several hosts. Every host starts its part as soon as its own ranks have come to the
 * op, and tells its neighbours in the op's program one thing, BEGIN: what it runs, and where they may write.
 * An op that fails on a host is told to the others by FAIL; it ends here only once nothing that was sent for
 * it can still come, and nobody reads or writes its memory.
 *
 * Ops have the same names on all hosts (proto/begin.h): collectives are counted by communicator, transfers by
 * their two ranks. What other hosts say of an op that has not begun here is kept until it does.
 *
 * Everything here is the engine thread's, but for the calls of the data plane in engine.h, which post to it.
 */
#ifndef BLINK_ENGINE_REMOTE_H
#define BLINK_ENGINE_REMOTE_H

#include "base/table.h"
#include "begin.h"
#include "engine/op/op.h"
#include "engine/remote/early.h"
#include "net/data/data.h"

static_assert(BEGIN_KEYS == DATA_MOVE_STREAMS_LEAST && BEGIN_KEYS + BEGIN_MORE_KEYS == DATA_MOVE_STREAMS_MOST,
              "BEGIN has a key for each connection for moves");

#define HOST_VERSION_BYTES 32

/* What hosts have said of ops that they or this host did not agree about later. */
#define REMOTE_PAST_OPS 64u

/* A collective that has ended here. */
typedef struct remote_past {
    uint64_t number;
    bool is_set, succeeded;
    op_signature_t signature;
    uint32_t rank; /* whose signature it is */
} remote_past_t;

/* A host that owes an answer which depends on none of its ranks is lost after so many times as long as one
 * may give no sign of life. */
#define REMOTE_SILENT_TIMEOUTS 4

/* So much longer than a host waits for its own ranks it waits for others, which know better what they lack.
 */
#define REMOTE_GRACE_US 1000000u

/* A communicator's side of it. */
struct remote_comm {
    engine_comm_t *comm;
    table_link_t of_names; /* remotes_t.comms */
    list_t of_all;         /* remotes_t.all */
    list_t of_kept;        /* remotes_t.with_kept, while `kept` has something */
    uint64_t home;
    uint32_t number, host_count, own_host;
    uint32_t *host_of_rank;
    data_endpoint_t **endpoints;          /* by host, NULL for this one; held */
    char (*versions)[HOST_VERSION_BYTES]; /* by host: of its daemon */
    list_t asks;        /* engine/plans/answer.c: other hosts' asks for plans that are being made */
    table_t live;       /* remote_op_t.of_live: ops that have not ended here */
    table_t kept;       /* kept_t.of_ops: words about ops without a run */
    list_t kept_by_age; /* kept_t.of_age, oldest first */
    list_t *sweep;      /* the next of them that remote_sweep() looks at; kept_by_age: none */
    table_t pairs;      /* names.c: how many transfers of two ranks have begun here */
    struct pair *first_pair;
    uint64_t collectives; /* that have begun here */
    list_t unended;       /* remote_op_t.of_unended: of these, in their order */
    data_standing_t *standing;
    bool *asking;    /* by host: it has left, and is to hear when nothing more goes to its landings */
    list_t of_asked; /* remotes_t.asked, while there are such hosts */
    remote_past_t past[REMOTE_PAST_OPS];
};

/* What is between this host and another one for an op. */
enum remote_flag {
    REMOTE_JOINED = 1 << 0,      /* the program moves something between the two */
    REMOTE_HEARD_BEGIN = 1 << 1, /* and it agrees */
    REMOTE_HEARD_FAIL = 1 << 2,
    REMOTE_TOLD_FAIL = 1 << 3,
};

/* An op's side of it, from its first submission until it ends. */
struct remote_op {
    comm_op_t *op;
    remote_comm_t *remote;
    table_link_t of_live;
    list_t of_unended; /* of a collective */
    list_t of_failing; /* remotes_t.failing, from its failure until it is settled or hosts were lost by it */
    uint64_t failing_us;
    op_name_t name;
    data_run_t *run; /* NULL: not begun, or ended */
    uint64_t begun_us;
    uint32_t joined_count, heard_count; /* hosts with REMOTE_JOINED, and of these REMOTE_HEARD_BEGIN */
    bool run_ended, settles, settled;
    bool has_failed, heard_fail;
    blink_result_t code; /* of its failure, as the text */
    char text[BLINK_ERROR_TEXT_BYTES];
    exec_end_t end; /* of the executor's run */
    mailbox_item_t settled_item, aborted_item;
    _Atomic bool abort_posted; /* the data plane's; from then on the next two are the engine's */
    bool abort_taken;
    blink_result_t abort_code;
    char abort_text[BLINK_ERROR_TEXT_BYTES];
    uint8_t flags[]; /* by host: remote_flag; of a barrier the bytes that are added up come behind them */
};

/* What the engine does when ops or communicators of several hosts begin or come to an end: op/run.h,
 * comm/comm.h, plans/plans.h. */
typedef struct remote_calls {
    void (*end)(engine_comm_t *comm, comm_ender_t ender, blink_result_t reason, const char *text);
    void (*over)(comm_op_t *op, const exec_end_t *end, const char *text);
    void (*fail)(comm_op_t *op, blink_result_t code, const char *reason);
    void (*fail_as)(comm_op_t *op, blink_result_t code, const char *text);
    void (*due)(comm_op_t *op);
} remote_calls_t;

/* A communicator that has ended here, or never was, and what is said of it to hosts that begin ops of it. */
typedef struct remote_ended {
    list_t link; /* remotes_t.ended */
    uint64_t home;
    uint32_t number;
    blink_result_t code;
    char text[BLINK_ERROR_TEXT_BYTES];
} remote_ended_t;

/* What has been said of landings of a communicator that has left this host: other hosts may send there. */
typedef struct remote_left {
    list_t link; /* remotes_t.left */
    struct remotes *remotes;
    uint64_t home;
    uint32_t number;
    uint64_t since_us;
    data_standing_t *standing;
} remote_left_t;

/* All communicators with other hosts, and what has come for those that this host does not know yet. */
typedef struct remotes {
    remote_calls_t calls;
    table_t comms;    /* by name */
    list_t all;       /* remote_comm_t.of_all */
    list_t with_kept; /* remote_comm_t.of_kept */
    early_t early;    /* frames, and asks for plans, of communicators that are not known yet */
    list_t losses;    /* inbox.c: endpoints that are lost, the first of which is being looked at */
    list_t ended;     /* remote_ended_t.link, oldest first */
    uint32_t ended_count;
    list_t left; /* remote_left_t.link */
    size_t left_count;
    list_t asked;        /* remote_comm_t.of_asked */
    list_t failing;      /* remote_op_t.of_failing, the first to fail first */
    uint32_t large_runs; /* of ops that move more than fits standing landings */
    bool watches;        /* the engine's thread takes in what comes: data_watch() */
} remotes_t;

/* ---- communicators ---- */

void remotes_init(remotes_t *remotes, const remote_calls_t *calls);
void remotes_fini(remotes_t *remotes);

/* The side of a new communicator; the control thread makes it, and it is used once remote_comm_enter() has
 * been called by the engine thread. Errors: NO_MEMORY. */
blink_result_t remote_comm_create(engine_comm_t *comm, const engine_remote_config_t *config,
                                  remote_comm_t **remote);
void remote_comm_enter(remote_comm_t *remote);

/* A rank of this host leaves: hosts that have begun ops which it will not come to hear so, slice by slice in
 * remote_sweep(), which returns whether all have heard. */
void remote_rank_leaves(remote_comm_t *remote);
bool remote_sweep(remote_comm_t *remote);

/* The communicator has no ranks here any more: first what is kept of ops to come is answered and forgotten,
 * slice by slice. Returns whether nothing is left. */
bool remote_forget_some(remote_comm_t *remote);
void remote_comm_leave(remote_comm_t *remote);

/* On any thread, after it has left or if it never entered. NULL is ignored. */
void remote_comm_destroy(remote_comm_t *remote);

/* The communicator of this name; NULL: there is none. And how one has ended, not long ago; NULL: none has. */
remote_comm_t *remote_find(const remotes_t *remotes, uint64_t home, uint32_t number);
const remote_ended_t *remote_find_ended(const remotes_t *remotes, uint64_t home, uint32_t number);

/* End the communicator, on this host and by that everywhere. */
void remote_end(const remote_comm_t *remote, blink_result_t reason, const char *text);

/* Which host an endpoint leads to; UINT32_MAX: none of the communicator's. */
uint32_t remote_host_of(const remote_comm_t *remote, const data_endpoint_t *endpoint);

/* A host sends nothing more to standing landings of the communicator, and perhaps has left. */
void remotes_heed_left(remotes_t *remotes, data_endpoint_t *endpoint, const left_t *left);

/* Tell a host that this one sends nothing more to its standing landings. */
void remote_tell_left(data_endpoint_t *endpoint, uint64_t home, uint32_t number, uint32_t flags);

/* The communicator leaves this host. Without memory to remember its landings they are closed at once, and a
 * host that still sends is lost by it. */
void remote_leave_landings(remote_comm_t *remote);

/* Tell hosts that have left and wait for that. Lose hosts that do not say it for too long. Returns when to
 * look again (µs), or UINT64_MAX. */
uint64_t remotes_check_left(engine_t *engine, uint64_t now_us);

/* An endpoint is lost: nothing comes by it to the landings of a communicator that has left, which may be gone
 * afterwards. */
void remote_left_lost(remote_left_t *left, const data_endpoint_t *lost);

void remotes_remember_ended(remotes_t *remotes, const remote_ended_t *ended);
void remotes_forget_ended(remotes_t *remotes);

/* Take in what has come, if that is this thread's: while small ops are under way, and no others, so that each
 * goes on where it is waited for. True if there was anything. */
bool remotes_poll(engine_t *engine);

/* This thread is about to sleep: what comes is the proxy's. */
void remotes_rest(engine_t *engine);

/* Heed some of what has come for communicators before they were known or had ended, and end some of those
 * that have lost a host. True if there was anything. */
bool remotes_work(engine_t *engine);
bool remotes_have_work(const remotes_t *remotes);

/* "n2, with rank 4, 5". */
void remote_name_host(const remote_comm_t *remote, uint32_t host, char *text, size_t bytes);

/* The host's endpoint is lost, and so the communicator ends. */
void remote_lose_host(const remote_comm_t *remote, uint32_t host);

/* End communicators whose ranks here do not come to an op that others have begun. Returns when to look again
 * (µs), or UINT64_MAX. */
uint64_t remotes_check_timeouts(engine_t *engine, uint64_t now_us);

/* Lose hosts with which ops that have failed here do not come to an end. Returns as above. */
uint64_t remotes_check_failing(engine_t *engine, uint64_t now_us);

/* ---- ops ---- */

/* An op of such a communicator has been created. Errors: NO_MEMORY. */
blink_result_t remote_op_create(comm_op_t *op);

/* Whether others have said that it has failed, or begin something else by its name. Errors: theirs, MISMATCH.
 */
blink_result_t remote_op_check(const comm_op_t *op);

/* Whether the op is to begin later, once fewer collectives of its communicator are under way: then it becomes
 * due by itself. */
bool remote_holds(const comm_op_t *op);

/* The op's result is there: others hear of a failure that is this host's. `code` BLINK_OK: it has succeeded.
 */
void remote_op_end(comm_op_t *op, blink_result_t code, const char *text);

/* Whether moves of the op's program, which is there, go between hosts. */
bool remote_crosses(const comm_op_t *op);

/* Whether the op has nothing to move and is to be run all the same, so that all ranks have come to it when it
 * ends. Its run adds up a byte of each rank. */
bool remote_is_barrier(const comm_op_t *op);

/* engine_comm_network(). */
const char *remote_network(const remote_comm_t *remote);

/* Where a rank of this host has its byte of a barrier; the sum comes behind it. */
uint8_t *remote_barrier_bytes(const comm_op_t *op, const op_entry_t *entry);

/* The op, which has been lent its instance, is to run: lend landings, and tell the neighbours BEGIN. *wires
 * is for exec_start(), which must follow. Errors: those of data_run_create(). */
blink_result_t remote_begin(comm_op_t *op, void *const *outputs, const uint64_t *output_bytes,
                            const exec_wires_t **wires);

/* exec_start() has returned, with an end if it returned true. */
void remote_started(comm_op_t *op, const exec_end_t *end);

/* The executor's run has ended; text: why it failed, NULL: nobody knows. calls.over() is called once
 * nothing of the op is under way any more. */
void remote_run_ended(comm_op_t *op, const exec_end_t *end, const char *text);

/* The op, which is running, is to end with this reason; no other host is told but for those that it moves
 * something from or to. */
void remote_cancel(comm_op_t *op, blink_result_t code, const char *text);

/* Since when the op has waited for other hosts to begin (µs); UINT64_MAX: all have. `missing`: which of them.
 */
uint64_t remote_waits_since_us(const comm_op_t *op);
void remote_name_missing(const comm_op_t *op, char *text, size_t bytes);

/* ---- between the files of this folder ---- */

uint64_t remote_name_hash(const op_name_t *name);
bool remote_name_equals(const op_name_t *a, const op_name_t *b);

/* Give the next op of its kind its name, by which it is found. Errors: NO_MEMORY, and the name is another
 * one's. */
blink_result_t remote_name_op(remote_op_t *of);

/* Whether the op of this name takes ranks of the host. */
bool remote_takes_part(const remote_comm_t *remote, const op_name_t *name, uint32_t host);

/* So many collectives of the communicator have ended here, the first ones. */
uint64_t remote_count_ended(const remote_comm_t *remote);

/* The op that has begun and not ended here; NULL: there is none. */
remote_op_t *remote_find_live(const remote_comm_t *remote, const op_name_t *name);

/* Whether the op has begun here; it may have ended. */
bool remote_has_begun(const remote_comm_t *remote, const op_name_t *name);

/* The op ends. */
void remote_remember(const remote_op_t *of, blink_result_t code);

/* What this host gave to an op that has ended here, and well; false: nobody knows any more. A transfer that
 * has ended before the other host's BEGIN came had no elements here. */
bool remote_find_past(const remote_comm_t *remote, const begin_t *begin, remote_past_t *past);

void remote_pairs_free(remote_comm_t *remote);

typedef struct kept {
    table_link_t of_ops;
    list_t of_age;
    uint64_t since_us;
    bool is_begin;
    begin_t begin; /* of a FAIL the op alone */
    blink_result_t code;
    char text[];
} kept_t;

void remote_keep(remote_comm_t *remote, const begin_t *begin, blink_result_t code, const char *text);
kept_t *remote_find_kept(const remote_comm_t *remote, const op_name_t *name, const kept_t *after);
void remote_forget_kept(remote_comm_t *remote, kept_t *kept);

/* True if the host that has begun the op has been told that it will not begin here. */
bool remote_refuse_begin(const remote_comm_t *remote, const begin_t *begin);

/* A checked word of a host about an op. Errors: PROTOCOL. */
blink_result_t remote_heed_begin(remote_comm_t *remote, const begin_t *begin);
void remote_heed_fail(remote_comm_t *remote, const fail_t *fail, const uint32_t *sent, const char *text);

/* Answer a BEGIN or FAIL of an op that has not begun or has ended here. */
void remote_answer(data_endpoint_t *endpoint, const op_name_t *name, uint32_t own_host, blink_result_t code,
                   const char *text);
void remote_answer_begin(const remote_comm_t *remote, const begin_t *begin, blink_result_t code,
                         const char *text);

/* The op's run begins: tell a host BEGIN. */
void remote_tell_begin(const remote_op_t *of, uint32_t host);

/* The op has failed: tell a host FAIL, once. */
void remote_tell_fail(remote_op_t *of, uint32_t host);

/* The same to several. Who failed first tells `all` hosts that take part; others need to tell only those with
 * whom they move something, so that both know what is still to come. */
void remote_tell_hosts(remote_op_t *of, bool all);

#endif
