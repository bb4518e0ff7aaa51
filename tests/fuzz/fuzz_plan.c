/*
 * Fuzzes plans as bytes, as another host sends them: whatever is read must be a plan that can be compiled,
 * bound to a payload and written again. The first byte says for which collective and with which root.
 */
#include "plan/bytes/bytes.h"

#include "collective.h"
#include "plan/lane/lane.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Two hosts of two devices each. */
static topo_t *load_topo(void)
{
    static const char text[] =
        "{\"schema\":\"blink-topology/1\",\"name\":\"t\",\"nodes\":["
        "{\"id\":\"a\",\"kind\":\"gpu\",\"host\":\"n0\"},{\"id\":\"b\",\"kind\":\"gpu\",\"host\":\"n0\"},"
        "{\"id\":\"c\",\"kind\":\"gpu\",\"host\":\"n1\"},{\"id\":\"d\",\"kind\":\"gpu\",\"host\":\"n1\"},"
        "{\"id\":\"m\",\"kind\":\"switch\",\"host\":\"n0\"},{\"id\":\"n\",\"kind\":\"switch\",\"host\":"
        "\"n1\"}],"
        "\"links\":[{\"from\":\"a\",\"to\":\"m\",\"GBps\":10,\"kind\":\"shm\"},"
        "{\"from\":\"b\",\"to\":\"m\",\"GBps\":10,\"kind\":\"shm\"},"
        "{\"from\":\"c\",\"to\":\"n\",\"GBps\":10,\"kind\":\"shm\"},"
        "{\"from\":\"d\",\"to\":\"n\",\"GBps\":10,\"kind\":\"shm\"},"
        "{\"from\":\"m\",\"to\":\"n\",\"GBps\":1,\"kind\":\"net\"}]}";
    topo_t *topo = NULL;
    if (topo_parse_json(text, sizeof(text) - 1, "fuzz", &topo) != BLINK_OK)
        abort();
    return topo;
}

static void compile(const topo_t *topo, const plan_t *plan)
{
    static const uint32_t of_rank[] = {0, 0, 1, 1};
    const lane_hosts_t hosts = {.of_rank = of_rank};
    lane_program_t *program = NULL;
    lane_geometry_t geometry;
    if (lane_compile_part(topo, plan, &hosts, 1, &program) != BLINK_OK)
        return; /* no part carries a block */
    if (lane_geometry_init(program, 100000, 0, 0, &geometry) != BLINK_OK)
        abort();
    lane_geometry_fini(&geometry);
    lane_program_destroy(program);
}

static void write_again(const topo_t *topo, const plan_t *plan)
{
    uint8_t *written = NULL;
    size_t written_bytes;
    if (plan_to_bytes(topo, plan, &written, &written_bytes) != BLINK_OK)
        abort();
    free(written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static topo_t *topo;
    plan_t *plan = NULL;
    if (!topo)
        topo = load_topo();
    if (bytes == 0)
        return 0;
    plan_request_t request = {.collective = (blink_collective_t)(data[0] % (BLINK_SENDRECV + 1)),
                              .rank_node = topo->gpus,
                              .rank_count = topo->gpu_count,
                              .root = data[0] / 16 % 4,
                              .peer = data[0] / 64};
    if (plan_from_bytes(topo, &request, data + 1, bytes - 1, &plan) != BLINK_OK)
        return 0;
    compile(topo, plan);
    write_again(topo, plan);
    plan_destroy(plan);
    return 0;
}
