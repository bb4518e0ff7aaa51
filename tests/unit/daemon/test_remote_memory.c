/*
 * A host that runs out of memory in the middle of what several hosts do: whichever allocation fails, every op
 * ends on every host, and what is charged is given back.
 */
#include "engine/loop.h"
#include "engines.h"
#include "unit/harness/short_memory.h"

static const uint32_t one_each[] = {1, 1};

/* No rank waits for another one so long if nothing fails. */
static uint64_t short_us(void)
{
    return 1000000;
}

static ring_sqe_t op_of(const test_comm_t *comm, uint32_t rank, uint8_t opcode, uint64_t count)
{
    bool reduces = opcode == RING_OP_ALLREDUCE;
    return (ring_sqe_t){.opcode = opcode,
                        .datatype = BLINK_FLOAT32,
                        .redop = reduces ? BLINK_SUM : 0,
                        .root = reduces ? 0 : 1 - rank,
                        .member = comm->number * MEMBERS_OF_COMM + rank,
                        .in_region = opcode == RING_OP_RECV ? 0 : REGION,
                        .out_region = opcode == RING_OP_SEND ? 0 : REGION,
                        .count = count,
                        .out_offset_bytes = HALF_BYTES};
}

static void submit(engines_t *engines, const test_comm_t *comm, uint32_t rank, uint8_t opcode, uint64_t count)
{
    ring_sqe_t sqe = op_of(comm, rank, opcode, count);
    rank_submit(&engines->ranks[rank], &sqe);
}

static void await(engines_t *engines, uint32_t ops)
{
    for (uint32_t r = 0; r < 2; r++) {
        for (uint32_t i = 0; i < ops; i++) {
            ring_cqe_t cqe = rank_await(engines, r);
            if (cqe.result != BLINK_OK && cqe.result != BLINK_ERR_NO_MEMORY &&
                cqe.result != BLINK_ERR_PEER_LOST && cqe.result != BLINK_ERR_TIMEOUT)
                fail_msg("rank %u, op %u: %u, %s", r, i, cqe.result, cqe.text);
        }
    }
}

/* A communicator's life, while a thread gets no memory at one moment of it. Whether there was that moment. */
static bool live(engines_t *engines, pthread_t thread, uint32_t nth)
{
    engines_beat(engines);
    short_memory_begin(thread, nth);
    test_comm_t *comm = comm_add(engines, short_us());
    for (uint32_t r = 0; r < 2; r++) {
        submit(engines, comm, r, RING_OP_ALLREDUCE, 100);
        submit(engines, comm, r, RING_OP_ALLREDUCE, 100000);
        submit(engines, comm, r, r == 0 ? RING_OP_SEND : RING_OP_RECV, 100000);
        submit(engines, comm, r, RING_OP_ALLREDUCE, 200);
    }
    await(engines, 4);
    for (uint32_t r = 0; r < 2; r++)
        rank_leave(engines, comm, r, false);
    engines_beat(engines);
    return short_memory_end();
}

static pthread_t engine_of(const test_host_t *host)
{
    return host->engine->thread;
}

static pthread_t proxy_of(const test_host_t *host)
{
    return host->data->thread;
}

static void check_thread(pthread_t (*thread_of)(const test_host_t *host))
{
    for (uint32_t host = 0; host < 2; host++) {
        bool was_refused = true;
        for (uint32_t nth = 1; was_refused; nth++) {
            engines_t engines;
            engines_init(&engines, one_each, 2);
            was_refused = live(&engines, thread_of(&engines.hosts[host]), nth);
            engines_fini(&engines);
        }
    }
}

static void test_an_engine_without_memory_at_any_moment(void **state)
{
    (void)state;
    check_thread(engine_of);
}

static void test_a_proxy_without_memory_at_any_moment(void **state)
{
    (void)state;
    check_thread(proxy_of);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_engine_without_memory_at_any_moment),
        cmocka_unit_test(test_a_proxy_without_memory_at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
