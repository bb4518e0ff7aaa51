/* Registered memory whose pages cannot be had: the daemon lives on, and what used the memory fails. */
#include "base/guard.h"
#include "base/holes.h"
#include "control/memory/region.h"
#include "limit.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define REGION_BYTES 65536u

/* Control and client in one thread, beside a real engine. */
typedef struct fixture {
    topo_t *topo;
    exec_host_t *exec;
    engine_t *engine;
    mailbox_t mailbox;
    settings_t settings;
    control_t control;
    tenants_t tenants;
    int doorbell_fd; /* the engine's */
    tenant_t *tenant;
    client_t client;
    ring_t ring; /* the client's side */
    bool done;
} fixture_t;

static void no_wake(void *context)
{
    (void)context;
}

static void set_done(void *context)
{
    *(bool *)context = true;
}

static void await_done(fixture_t *fixture)
{
    while (!fixture->done)
        mailbox_run(&fixture->mailbox);
    fixture->done = false;
}

static void fixture_init(fixture_t *fixture)
{
    memset(fixture, 0, sizeof(*fixture));
    alarm(limit_s()); /* a hang is a failure */
    assert_int_equal(guard_install(), BLINK_OK);
    assert_int_equal(topo_load("dgx1v", &fixture->topo), BLINK_OK);
    exec_host_config_t exec_config = {.workers = 1};
    assert_int_equal(exec_host_create(&exec_config, &fixture->exec), BLINK_OK);
    mailbox_init(&fixture->mailbox, no_wake, NULL);
    engine_config_t config = {.settings = &fixture->settings,
                              .exec = fixture->exec,
                              .local = fixture->topo,
                              .topo = fixture->topo,
                              .cores = 1,
                              .control = &fixture->mailbox};
    assert_int_equal(engine_create(&config, &fixture->engine), BLINK_OK);
    fixture->settings.limits[BUDGET_REGISTERED_BYTES] = (budget_limit_t){1u << 30, (uint64_t)4 << 30};
    fixture->settings.limits[BUDGET_REGIONS] = (budget_limit_t){10, 100};
    fixture->settings.limits[BUDGET_OP_BYTES] = (budget_limit_t){1u << 20, 1u << 22};
    tenants_init(&fixture->tenants, fixture->settings.limits);
    fixture->tenant = tenant_get(&fixture->tenants, 0, "");
    assert_non_null(fixture->tenant);
    engine_client_config_t client = {.client = 1,
                                     .tenant = fixture->tenant,
                                     .doorbell_fd = eventfd(0, EFD_NONBLOCK),
                                     .completion_fd = ring_create_event()};
    fixture->doorbell_fd = client.doorbell_fd;
    int memfd;
    assert_int_equal(ring_create(8, 8, &client.ring, &memfd), BLINK_OK);
    assert_int_equal(ring_attach(memfd, &fixture->ring), BLINK_OK);
    close(memfd);
    assert_int_equal(engine_client_add(fixture->engine, &client, &fixture->client.engine), BLINK_OK);
    assert_int_equal(holes_open(&fixture->control.holes), BLINK_OK);
    fixture->control.settings = &fixture->settings;
    fixture->client.control = &fixture->control;
    fixture->client.tenant = fixture->tenant;
    list_init(&fixture->client.regions);
    list_init(&fixture->client.pending_regions);
}

static void fixture_fini(fixture_t *fixture)
{
    engine_client_remove(fixture->client.engine, (engine_done_t){set_done, &fixture->done});
    await_done(fixture);
    engine_stop(fixture->engine);
    exec_host_destroy(fixture->exec);
    engine_destroy(fixture->engine);
    while (regions_release_one(&fixture->client))
        continue;
    table_fini(&fixture->client.region_numbers);
    tenant_put(fixture->tenant);
    ring_unmap(&fixture->ring);
    close(fixture->control.holes);
    topo_destroy(fixture->topo);
    alarm(0);
}

static uint32_t register_memory(fixture_t *fixture)
{
    region_t *region;
    int fd = memfd_create("memory", MFD_ALLOW_SEALING);
    assert_int_equal(posix_fallocate(fd, 0, REGION_BYTES), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(region_register(&fixture->client, fd, 0, REGION_BYTES, &region), BLINK_OK);
    assert_int_equal(region_tell_engine(region, 0), BLINK_OK);
    close(fd);
    return region->number;
}

/* From now on an access to the last page of the newest region is a SIGBUS, as if memory could not be had. */
static void lose_last_page(fixture_t *fixture)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    const region_t *newest = LIST_FIRST(&fixture->client.regions, region_t, link);
    char *page = (char *)newest->map + REGION_BYTES - page_bytes;
    int fd = memfd_create("nothing", 0);
    assert_ptr_equal(mmap(page, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0), page);
    close(fd);
}

/* All of the region, from its first half to its second, by both ranks of the communicator. */
static ring_cqe_t allreduce(fixture_t *fixture, const uint32_t regions[2])
{
    ring_cqe_t cqe;
    engine_heartbeat(fixture->engine,
                     (engine_done_t){set_done, &fixture->done}); /* orders what was done before */
    await_done(fixture);
    for (uint32_t rank = 0; rank < 2; rank++) {
        ring_sqe_t sqe = {.opcode = RING_OP_ALLREDUCE,
                          .datatype = BLINK_FLOAT32,
                          .redop = BLINK_SUM,
                          .member = rank + 1,
                          .in_region = regions[rank],
                          .out_region = regions[rank],
                          .count = REGION_BYTES / 2 / sizeof(float),
                          .out_offset_bytes = REGION_BYTES / 2};
        assert_true(ring_submit(&fixture->ring, &sqe));
    }
    assert_int_equal(eventfd_write(fixture->doorbell_fd, 1), 0);
    while (!ring_reap(&fixture->ring, &cqe))
        usleep(100);
    while (!ring_reap(&fixture->ring, &cqe))
        usleep(100);
    return cqe;
}

static void test_pages_that_cannot_be_had_fail_the_op_and_later_ones(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_init(&fixture);
    engine_comm_t *comm;
    const engine_member_t members[] = {{fixture.client.engine, 1, 0}, {fixture.client.engine, 2, 1}};
    engine_comm_config_t config = {.comm = 1,
                                   .title = "communicator 1",
                                   .tenant = fixture.tenant,
                                   .rank_count = 2,
                                   .member_count = 2,
                                   .members = members,
                                   .nodes = fixture.topo->gpus,
                                   .op_timeout_us = 300 * 1000000ull};
    assert_int_equal(engine_comm_add(fixture.engine, &config, &comm), BLINK_OK);
    uint32_t good = register_memory(&fixture);
    uint32_t poisoned = register_memory(&fixture);
    assert_int_equal(allreduce(&fixture, (uint32_t[]){good, poisoned}).result, BLINK_OK);
    lose_last_page(&fixture);

    for (int i = 0; i < 2; i++) {
        ring_cqe_t cqe = allreduce(&fixture, (uint32_t[]){good, poisoned});
        assert_int_equal(cqe.result, BLINK_ERR_SYSTEM);
        assert_non_null(strstr(cqe.text, "rank 1: pages of region 2"));
    }
    assert_int_equal(allreduce(&fixture, (uint32_t[]){good, good}).result, BLINK_OK);

    engine_comm_leave(comm, 0, true, "the end", (engine_done_t){set_done, &fixture.done});
    await_done(&fixture);
    engine_comm_leave(comm, 1, true, "the end", (engine_done_t){set_done, &fixture.done});
    await_done(&fixture);
    engine_comm_free(comm);
    fixture_fini(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages_that_cannot_be_had_fail_the_op_and_later_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
