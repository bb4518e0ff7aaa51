#include "control/links.h"

#include "base/clock.h"
#include "control/comms/roster.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE_MS 250u
#define SAMPLES   5u /* the window is the four intervals between them */

/* Stop after so many samples without a byte. */
#define QUIET_SAMPLES 8u

typedef struct pending_query {
    list_t link;
    connection_t *connection;
    uint64_t request;
} pending_query_t;

struct links {
    const control_t *control;
    const _Atomic uint64_t *link_bytes;
    uv_timer_t timer;
    uint64_t *bytes[SAMPLES]; /* newest first */
    uint64_t taken_ns[SAMPLES];
    uint32_t sample_count;
    uint32_t quiet_count;
    bool running;
    list_t pending; /* queries that are answered with the next sample */
};

static uint64_t link_bytes_now(const links_t *links, uint32_t link)
{
    /* Relaxed: a counter. */
    return atomic_load_explicit(&links->link_bytes[link], memory_order_relaxed);
}

static void take_sample(links_t *links)
{
    uint32_t link_count = links->control->topo->link_count;
    uint64_t *reused = links->bytes[SAMPLES - 1];
    memmove(&links->bytes[1], &links->bytes[0], (SAMPLES - 1) * sizeof(links->bytes[0]));
    memmove(&links->taken_ns[1], &links->taken_ns[0], (SAMPLES - 1) * sizeof(links->taken_ns[0]));
    links->bytes[0] = reused;
    links->taken_ns[0] = clock_ns();
    for (uint32_t i = 0; i < link_count; i++)
        reused[i] = link_bytes_now(links, i);
    if (links->sample_count < SAMPLES)
        links->sample_count++;
    bool moved =
        links->sample_count > 1 && memcmp(reused, links->bytes[1], link_count * sizeof(*reused)) != 0;
    links->quiet_count = moved ? 0 : links->quiet_count + 1;
}

/* ---- answering ---- */

/* What the roster's ranks have sent over the link. */
static uint64_t bytes_of(const roster_t *roster, uint32_t link)
{
    if (!roster->engine)
        return 0;
    /* Relaxed: a counter. */
    return atomic_load_explicit(&engine_comm_link_bytes(roster->engine)[link], memory_order_relaxed);
}

static Blinkwire__Link *describe_link(const links_t *links, uint32_t index)
{
    const topo_t *topo = links->control->topo;
    const rosters_t *rosters = links->control->rosters;
    double pace_scale = links->control->settings->pace_scale;
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
    described->capacity_gbps = link->GBps * (pace_scale > 0 ? pace_scale : 1);
    described->bytes = link_bytes_now(links, index);
    if (oldest > 0 && window_ns > 0) /* bytes per ns are GB/s */
        described->now_gbps = (double)(links->bytes[0][index] - links->bytes[oldest][index]) / window_ns;
    described->utilization = described->now_gbps / described->capacity_gbps;
    described->uses = calloc(rosters->count + 1, sizeof(*described->uses));
    LIST_FOR_EACH (item, &rosters->all) {
        const roster_t *roster = CONTAINER_OF(item, roster_t, link);
        uint64_t bytes = bytes_of(roster, index);
        Blinkwire__LinkUse *use = bytes > 0 && described->uses ? calloc(1, sizeof(*use)) : NULL;
        if (!use)
            continue;
        blinkwire__link_use__init(use);
        use->comm = roster->number;
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
    uint32_t link_count = links->control->topo->link_count;
    Blinkwire__QueryReply body = BLINKWIRE__QUERY_REPLY__INIT;
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    body.links = calloc(link_count ? link_count : 1, sizeof(*body.links));
    for (uint32_t i = 0; i < link_count && body.links; i++) {
        Blinkwire__Link *link = describe_link(links, i);
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
    LIST_FOR_EACH (link, &links->pending) {
        pending_query_t *query = CONTAINER_OF(link, pending_query_t, link);
        answer(links, query->connection, query->request);
        list_remove(link);
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
    query->connection = connection;
    query->request = request;
    list_append(&links->pending, &query->link);
}

void links_forget(links_t *links, const connection_t *connection)
{
    LIST_FOR_EACH (link, &links->pending) {
        pending_query_t *query = CONTAINER_OF(link, pending_query_t, link);
        if (query->connection != connection)
            continue;
        list_remove(link);
        free(query);
    }
}

blink_result_t links_create(control_t *control, const _Atomic uint64_t *link_bytes, links_t **links)
{
    links_t *created = calloc(1, sizeof(*created));
    if (!created)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for link samples");
    created->control = control;
    created->link_bytes = link_bytes;
    list_init(&created->pending);
    uint32_t link_count = control->topo->link_count;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        created->bytes[i] = calloc(link_count ? link_count : 1, sizeof(uint64_t));
        if (!created->bytes[i]) {
            links_destroy(created);
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for samples of %u links", link_count);
        }
    }
    uv_timer_init(&control->loop, &created->timer);
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
