/*
 * How fast each link is going: the byte counters sampled four times a second over a sliding window of one
 * second, but only while something moves or somebody looks, so that an idle daemon sleeps.
 */
#include "control/internal.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE_MS 250u
#define SAMPLES   5u /* the window is the four intervals between them */

/* Stop after so many samples without a byte. */
#define QUIET_SAMPLES 8u

typedef struct pending_query {
    struct pending_query *next;
    connection_t *connection;
    uint64_t request;
} pending_query_t;

struct links {
    server_t *server;
    uv_timer_t timer;
    uint64_t *bytes[SAMPLES]; /* newest first */
    uint64_t taken_ns[SAMPLES];
    uint32_t sample_count;
    uint32_t quiet_count;
    bool running;
    pending_query_t *pending; /* answered with the next sample */
};

static uint64_t link_bytes_now(const links_t *links, uint32_t link)
{
    /* Relaxed: a counter. */
    return atomic_load_explicit(&links->server->link_bytes[link], memory_order_relaxed);
}

static void take_sample(links_t *links)
{
    uint32_t link_count = links->server->config.topo->link_count;
    uint64_t *reused = links->bytes[SAMPLES - 1];
    memmove(&links->bytes[1], &links->bytes[0], (SAMPLES - 1) * sizeof(links->bytes[0]));
    memmove(&links->taken_ns[1], &links->taken_ns[0], (SAMPLES - 1) * sizeof(links->taken_ns[0]));
    links->bytes[0] = reused;
    links->taken_ns[0] = uv_hrtime();
    for (uint32_t i = 0; i < link_count; i++)
        reused[i] = link_bytes_now(links, i);
    if (links->sample_count < SAMPLES)
        links->sample_count++;
    bool moved =
        links->sample_count > 1 && memcmp(reused, links->bytes[1], link_count * sizeof(*reused)) != 0;
    links->quiet_count = moved ? 0 : links->quiet_count + 1;
}

/* ---- answering ---- */

static Blinkwire__Link *describe_link(const links_t *links, uint32_t index, uint32_t comm_count)
{
    const server_t *server = links->server;
    const topo_t *topo = server->config.topo;
    const topo_link_t *link = &topo->links[index];
    uint32_t oldest = links->sample_count - 1;
    double window_ns = (double)(links->taken_ns[0] - links->taken_ns[oldest]);
    Blinkwire__Link *described = calloc(1, sizeof(*described));
    if (!described)
        return NULL;
    blinkwire__link__init(described);
    described->from = topo->nodes[link->from].id;
    described->to = topo->nodes[link->to].id;
    described->kind = (char *)(uintptr_t)topo_link_kind_name(link->kind);
    described->capacity_gbps =
        link->GBps * (server->config.settings->pace_scale > 0 ? server->config.settings->pace_scale : 1);
    described->bytes = link_bytes_now(links, index);
    if (oldest > 0 && window_ns > 0) /* bytes per ns are GB/s */
        described->now_gbps = (double)(links->bytes[0][index] - links->bytes[oldest][index]) / window_ns;
    described->utilization = described->now_gbps / described->capacity_gbps;
    described->uses = calloc(comm_count ? comm_count : 1, sizeof(*described->uses));
    for (const comm_t *comm = server->comms; comm && described->uses; comm = comm->next) {
        if (comm->state == COMM_JOINING)
            continue;
        /* Relaxed: a counter. */
        uint64_t bytes =
            atomic_load_explicit(&engine_comm_link_bytes(comm->engine)[index], memory_order_relaxed);
        Blinkwire__LinkUse *use = bytes ? calloc(1, sizeof(*use)) : NULL;
        if (!use)
            continue;
        blinkwire__link_use__init(use);
        use->comm = comm->comm;
        use->bytes = bytes;
        described->uses[described->n_uses++] = use;
    }
    return described;
}

static void free_link(Blinkwire__Link *link)
{
    for (size_t i = 0; i < link->n_uses; i++)
        free(link->uses[i]);
    free(link->uses);
    free(link);
}

static void answer(links_t *links, connection_t *connection, uint64_t request)
{
    const server_t *server = links->server;
    uint32_t link_count = server->config.topo->link_count;
    Blinkwire__QueryReply body = BLINKWIRE__QUERY_REPLY__INIT;
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    body.links = calloc(link_count ? link_count : 1, sizeof(*body.links));
    for (uint32_t i = 0; i < link_count && body.links; i++) {
        Blinkwire__Link *link = describe_link(links, i, server->comm_count);
        if (link)
            body.links[body.n_links++] = link;
    }
    body.window_s = (double)(links->taken_ns[0] - links->taken_ns[links->sample_count - 1]) / 1e9;
    reply.id = request;
    reply.body_case = BLINKWIRE__REPLY__BODY_QUERY;
    reply.query = &body;
    connection_send(connection, &reply, NULL, 0);
    for (size_t i = 0; i < body.n_links; i++)
        free_link(body.links[i]);
    free(body.links);
}

static void answer_pending(links_t *links)
{
    while (links->pending) {
        pending_query_t *query = links->pending;
        links->pending = query->next;
        answer(links, query->connection, query->request);
        free(query);
    }
}

/* ---- sampling ---- */

static void on_timer(uv_timer_t *timer)
{
    links_t *links = timer->data;
    take_sample(links);
    answer_pending(links);
    if (links->quiet_count >= QUIET_SAMPLES) {
        uv_timer_stop(timer);
        links->running = false;
        links->sample_count = 0;
    }
}

void links_wake(links_t *links)
{
    links->quiet_count = 0;
    if (links->running)
        return;
    links->running = true;
    take_sample(links);
    uv_timer_start(&links->timer, on_timer, SAMPLE_MS, SAMPLE_MS);
}

void links_query(links_t *links, connection_t *connection, uint64_t request)
{
    links_wake(links);
    if (links->sample_count > 1) {
        answer(links, connection, request);
        return;
    }
    pending_query_t *query = malloc(sizeof(*query));
    if (!query) {
        answer(links, connection, request);
        return;
    }
    *query = (pending_query_t){links->pending, connection, request};
    links->pending = query;
}

void links_forget(links_t *links, const connection_t *connection)
{
    for (pending_query_t **link = &links->pending; *link;) {
        pending_query_t *query = *link;
        if (query->connection != connection) {
            link = &query->next;
            continue;
        }
        *link = query->next;
        free(query);
    }
}

blink_result_t links_create(server_t *server, links_t **links)
{
    links_t *created = calloc(1, sizeof(*created));
    if (!created)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for link samples");
    created->server = server;
    uint32_t link_count = server->config.topo->link_count;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        created->bytes[i] = calloc(link_count ? link_count : 1, sizeof(uint64_t));
        if (!created->bytes[i]) {
            links_destroy(created);
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for samples of %u links", link_count);
        }
    }
    uv_timer_init(&server->loop, &created->timer);
    created->timer.data = created;
    *links = created;
    return BLINK_OK;
}

void links_destroy(links_t *links)
{
    if (!links)
        return;
    for (uint32_t i = 0; i < SAMPLES; i++)
        free(links->bytes[i]);
    free(links);
}
