#include "control/links.h"

#include "base/clock.h"
#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE_MS 250u
#define SAMPLES   5u /* the window is the four intervals between them */

/* Stop after so many samples without a byte. */
#define QUIET_SAMPLES 8u

/* A page of an answer takes so many steps, or what the last communicator in it takes. Looking at so many
 * counters is a step. */
#define PAGE_STEPS     128u
#define LINKS_PER_STEP 64u

typedef struct pending_query {
    list_t link;
    asker_t asker; /* held: it has one query here at most */
    uint64_t page;
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

static void describe_link(const links_t *links, uint32_t index, Blinkwire__Link *described)
{
    const topo_t *topo = links->control->topo;
    double pace_scale = links->control->settings->pace_scale;
    const topo_link_t *link = &topo->links[index];
    uint32_t oldest = links->sample_count - 1;
    double window_ns = (double)(links->taken_ns[0] - links->taken_ns[oldest]);
    blinkwire__link__init(described);
    described->index = index;
    described->from = topo->nodes[link->from].id;
    described->to = topo->nodes[link->to].id;
    described->kind = (char *)(uintptr_t)topo_link_kind_name(link->kind);
    described->capacity_gbps = link->GBps * (pace_scale > 0 ? pace_scale : 1);
    described->bytes = link_bytes_now(links, index);
    if (oldest > 0 && window_ns > 0) /* bytes per ns are GB/s */
        described->now_gbps = (double)(links->bytes[0][index] - links->bytes[oldest][index]) / window_ns;
    described->utilization = described->now_gbps / described->capacity_gbps;
}

/* One page: links first, each once, and then their uses, communicator by communicator. */
typedef struct links_page {
    Blinkwire__QueryReply body;
    VEC(Blinkwire__Link *) items;
    uint32_t steps;
} links_page_t;

/* NULL: no memory. */
static Blinkwire__Link *add_link(links_page_t *page)
{
    Blinkwire__Link *link = calloc(1, sizeof(*link));
    if (!link || !vec_push(&page->items, link)) {
        free(link);
        return NULL;
    }
    blinkwire__link__init(link);
    return link;
}

static void add_use(links_page_t *page, uint32_t index, uint32_t comm, uint64_t bytes)
{
    Blinkwire__Link *link = add_link(page);
    Blinkwire__LinkUse *use = calloc(1, sizeof(*use));
    if (!link || !use || !(link->uses = calloc(1, sizeof(*link->uses)))) {
        free(use);
        return;
    }
    blinkwire__link_use__init(use);
    use->comm = comm;
    use->bytes = bytes;
    link->index = index;
    link->uses[link->n_uses++] = use;
}

static void add_uses(links_page_t *page, const roster_t *roster, uint32_t link_count)
{
    page->steps += 1 + link_count / LINKS_PER_STEP;
    for (uint32_t i = 0; i < link_count; i++) {
        uint64_t bytes = bytes_of(roster, i);
        if (bytes == 0)
            continue;
        page->steps++;
        add_use(page, i, roster->number, bytes);
    }
}

/* A page begins at a link, or behind the links with so many communicators left. */
static void fill_page(const links_t *links, const view_t *view, uint64_t number, links_page_t *page)
{
    uint32_t link_count = links->control->topo->link_count;
    const bag_t *rosters = view_rosters(view);
    for (; number < link_count && page->steps < PAGE_STEPS; number++, page->steps++) {
        Blinkwire__Link *link = add_link(page);
        if (link)
            describe_link(links, (uint32_t)number, link);
    }
    uint64_t left = number > link_count ? number - link_count : rosters->count;
    if (left > rosters->count)
        left = rosters->count;
    if (number < link_count) {
        page->body.next_page = number;
        return;
    }
    for (; left > 0 && page->steps < PAGE_STEPS; left--) {
        const roster_t *roster = view_roster(view, rosters->items[left - 1]);
        page->steps++;
        if (roster && roster->rank_count > 1)
            add_uses(page, roster, link_count);
    }
    page->body.next_page = left > 0 ? link_count + left : 0;
}

static void free_page(links_page_t *page)
{
    for (size_t i = 0; i < page->items.count; i++) {
        Blinkwire__Link *link = page->items.items[i];
        if (link->n_uses > 0)
            free(link->uses[0]);
        free(link->uses);
        free(link);
    }
    vec_free(&page->items);
}

static void answer(links_t *links, const asker_t *asker, uint64_t number)
{
    links_page_t page = {.body = BLINKWIRE__QUERY_REPLY__INIT};
    fill_page(links, &asker->view, number, &page);
    page.body.links = page.items.items;
    page.body.n_links = page.items.count;
    page.body.window_s = (double)(links->taken_ns[0] - links->taken_ns[links->sample_count - 1]) / 1e9;
    turns_count(&asker->view.control->turns, page.steps);
    asker_answer(asker, &page.body);
    free_page(&page);
}

/* Who has asked goes on with the next question, in slices of its own. */
static void answer_pending(links_t *links)
{
    LIST_FOR_EACH (link, &links->pending) {
        pending_query_t *query = CONTAINER_OF(link, pending_query_t, link);
        list_remove(link);
        answer(links, &query->asker, query->page);
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

void links_query(links_t *links, const asker_t *asker, uint64_t page)
{
    links_wake(links);
    pending_query_t *query = links->sample_count > 1 ? NULL : malloc(sizeof(*query));
    if (!query) {
        answer(links, asker, page);
        return;
    }
    *query = (pending_query_t){.asker = *asker, .page = page};
    list_append(&links->pending, &query->link);
    asker->calls->hold(asker->context);
}

void links_forget(links_t *links, const void *context)
{
    LIST_FOR_EACH (link, &links->pending) {
        pending_query_t *query = CONTAINER_OF(link, pending_query_t, link);
        if (query->asker.context != context)
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
