/* The links that one set of Blink's trees may use, as a topology of its own: trees over NVLink and over PCIe
 * are packed apart, and so are the servers. */
#include "error.h"
#include "plan/baseline/blink/blink_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool blink_in_class(const topo_link_t *link, blink_links_t links)
{
    return links == BLINK_LINKS_ANY || topo_is_nvlink(link) == (links == BLINK_LINKS_NVLINK);
}

static bool on_host(const topo_t *topo, uint32_t node, const char *host)
{
    return !host || (topo->nodes[node].host && strcmp(topo->nodes[node].host, host) == 0);
}

static bool in_scope(const topo_t *topo, const topo_link_t *link, const blink_scope_t *scope)
{
    return blink_in_class(link, scope->links) && on_host(topo, link->from, scope->host) &&
           on_host(topo, link->to, scope->host);
}

/* The link as the view has it; false if it has none. */
static bool view_link(const topo_t *topo, uint32_t index, const blink_scope_t *scope, topo_link_t *link)
{
    *link = topo->links[index];
    if (!in_scope(topo, link, scope))
        return false;
    uint32_t back = topo_find_link(topo, link->to, link->from);
    if (scope->flow == BLINK_FLOW_BOTH) {
        if (back == TOPO_NONE || !in_scope(topo, &topo->links[back], scope))
            return false;
        link->GBps = fmin(link->GBps, topo->links[back].GBps);
    } else if (scope->flow == BLINK_FLOW_TO_ROOT) {
        link->from = topo->links[index].to;
        link->to = topo->links[index].from;
    }
    return true;
}

static int by_ends(const void *one, const void *other)
{
    const topo_link_t *a = one, *b = other;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->to < b->to ? -1 : a->to > b->to;
}

/* topo_find_link() wants the links that leave a node together and sorted by where they lead. */
static void index_view(topo_t *view)
{
    qsort(view->links, view->link_count, sizeof(*view->links), by_ends);
    for (uint32_t link = 0; link < view->link_count; link++) {
        view->out_first[view->links[link].from + 1]++;
        view->out_links[link] = link;
    }
    for (uint32_t node = 0; node < view->node_count; node++)
        view->out_first[node + 1] += view->out_first[node];
}

blink_result_t blink_view_create(const topo_t *topo, const blink_scope_t *scope, topo_t **out)
{
    topo_t *view = malloc(sizeof(*view));
    if (!view)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a part of %s", topo->name);
    *view = *topo;
    view->link_count = 0;
    view->links = calloc(topo->link_count + 1u, sizeof(*view->links));
    view->out_first = calloc(topo->node_count + 1u, sizeof(*view->out_first));
    view->out_links = calloc(topo->link_count + 1u, sizeof(*view->out_links));
    if (!view->links || !view->out_first || !view->out_links) {
        blink_view_destroy(view);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u links of %s", topo->link_count, topo->name);
    }
    for (uint32_t link = 0; link < topo->link_count; link++)
        view->link_count += view_link(topo, link, scope, &view->links[view->link_count]);
    index_view(view);
    *out = view;
    return BLINK_OK;
}

void blink_view_destroy(topo_t *view)
{
    if (!view)
        return;
    free(view->links);
    free(view->out_first);
    free(view->out_links);
    free(view);
}
