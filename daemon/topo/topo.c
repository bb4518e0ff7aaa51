/*
 * A finished topology: its names, look-ups and end of life. How one comes to be is build.c's business.
 */
#include "topo/topo.h"

#include "error.h"
#include "topo/source.h"

#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char *const node_kinds[] = {
    [TOPO_DEVICE] = "gpu", [TOPO_SWITCH] = "switch", [TOPO_NIC] = "nic", [TOPO_CPU] = "cpu"};
static const char *const link_kinds[] = {
    [TOPO_NVLINK] = "nvlink", [TOPO_NVSWITCH] = "nvswitch", [TOPO_PCIE] = "pcie", [TOPO_QPI] = "qpi",
    [TOPO_NIC_LINK] = "nic",  [TOPO_NET] = "net",           [TOPO_SHM] = "shm"};

static bool find_name(const char *const *names, size_t count, const char *name, size_t *index)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            *index = i;
            return true;
        }
    }
    return false;
}

const char *topo_node_kind_name(topo_node_kind_t kind)
{
    return (size_t)kind < COUNT_OF(node_kinds) ? node_kinds[kind] : "unknown";
}

const char *topo_link_kind_name(topo_link_kind_t kind)
{
    return (size_t)kind < COUNT_OF(link_kinds) ? link_kinds[kind] : "unknown";
}

bool topo_parse_node_kind(const char *name, topo_node_kind_t *kind)
{
    size_t index;
    if (!find_name(node_kinds, COUNT_OF(node_kinds), name, &index))
        return false;
    *kind = (topo_node_kind_t)index;
    return true;
}

bool topo_parse_link_kind(const char *name, topo_link_kind_t *kind)
{
    size_t index;
    if (!find_name(link_kinds, COUNT_OF(link_kinds), name, &index))
        return false;
    *kind = (topo_link_kind_t)index;
    return true;
}

bool topo_is_plain_memory(const topo_t *topo)
{
    for (uint32_t i = 0; i < topo->link_count; i++) {
        if (topo->links[i].kind != TOPO_SHM)
            return false;
    }
    return topo->link_count > 0;
}

uint32_t topo_find_node(const topo_t *topo, const char *id)
{
    uint32_t low = 0, high = topo->node_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(topo->nodes[topo->nodes_by_id[middle]].id, id);
        if (order == 0)
            return topo->nodes_by_id[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return TOPO_NONE;
}

static int compare_pairs(const void *one, const void *other)
{
    const topo_pair_t *a = one, *b = other;
    if (a->one != b->one)
        return a->one < b->one ? -1 : 1;
    return a->other < b->other ? -1 : a->other > b->other;
}

static topo_pair_t ordered_pair(uint32_t one, uint32_t other)
{
    return one < other ? (topo_pair_t){one, other} : (topo_pair_t){other, one};
}

bool topo_are_peers(const topo_t *topo, uint32_t one, uint32_t other)
{
    const topo_pair_t pair = ordered_pair(one, other);
    return topo->non_peer_count == 0 ||
           !bsearch(&pair, topo->non_peers, topo->non_peer_count, sizeof(pair), compare_pairs);
}

blink_result_t topo_add_non_peers(topo_t *topo, const topo_pair_t *pairs, uint32_t count)
{
    uint32_t kept = 0, all = topo->non_peer_count + count;
    if (count == 0)
        return BLINK_OK;
    topo_pair_t *grown = realloc(topo->non_peers, all * sizeof(*grown));
    if (!grown)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, TOPO_SHOWN ": out of memory", topo->name);
    topo->non_peers = grown;
    for (uint32_t i = 0; i < count; i++)
        grown[topo->non_peer_count + i] = ordered_pair(pairs[i].one, pairs[i].other);
    qsort(grown, all, sizeof(*grown), compare_pairs);
    for (uint32_t i = 0; i < all; i++)
        if (i == 0 || compare_pairs(&grown[i], &grown[kept - 1]) != 0)
            grown[kept++] = grown[i];
    topo->non_peer_count = kept;
    return BLINK_OK;
}

uint32_t topo_find_link(const topo_t *topo, uint32_t from, uint32_t to)
{
    if (from >= topo->node_count)
        return TOPO_NONE;
    /* The builder sorts the links that leave a node by where they lead. */
    uint32_t low = topo->out_first[from], high = topo->out_first[from + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint32_t link = topo->out_links[middle];
        if (topo->links[link].to == to)
            return link;
        if (topo->links[link].to < to)
            low = middle + 1;
        else
            high = middle;
    }
    return TOPO_NONE;
}

uint32_t topo_find_mirror(const topo_t *topo, uint32_t link)
{
    const topo_link_t *one = &topo->links[link];
    uint32_t back = topo_find_link(topo, one->to, one->from);
    if (back == TOPO_NONE)
        return TOPO_NONE;
    const topo_link_t *other = &topo->links[back];
    return one->kind == other->kind && one->latency_us == other->latency_us ? back : TOPO_NONE;
}

uint32_t topo_link_units(const topo_link_t *link, double *rest_GBps)
{
    uint32_t count = (uint32_t)(link->GBps / link->unit_GBps + 0.5);
    if (count > 1 && link->unit_GBps * count > link->GBps)
        count--;
    *rest_GBps = link->GBps - link->unit_GBps * count;
    return count;
}

double topo_largest_GBps(const topo_t *topo)
{
    double largest = 0;
    for (uint32_t i = 0; i < topo->link_count; i++) {
        if (topo->links[i].GBps > largest)
            largest = topo->links[i].GBps;
    }
    return largest > 0 ? largest : 1;
}

void topo_destroy(topo_t *topo)
{
    if (!topo)
        return;
    for (uint32_t i = 0; i < topo->node_count; i++) {
        free(topo->nodes[i].id);
        free(topo->nodes[i].host);
    }
    free(topo->notes);
    free(topo->non_peers);
    free(topo->nodes_by_id);
    free(topo->out_links);
    free(topo->out_first);
    free(topo->gpus);
    free(topo->links);
    free(topo->nodes);
    free(topo->name);
    free(topo);
}

double topo_fastest_GBps(const topo_t *topo, uint32_t node)
{
    double fastest = 0;
    for (uint32_t j = topo->out_first[node]; j < topo->out_first[node + 1]; j++) {
        const topo_link_t *link = &topo->links[topo->out_links[j]];
        if (link->GBps > fastest)
            fastest = link->GBps;
    }
    return fastest;
}

bool topo_has_reducing_switch(const topo_t *topo)
{
    for (uint32_t node = 0; node < topo->node_count; node++)
        if (topo->nodes[node].reduces)
            return true;
    return false;
}

bool topo_is_pcie_switch(const topo_t *topo, uint32_t node)
{
    for (uint32_t j = topo->out_first[node]; j < topo->out_first[node + 1]; j++) {
        const topo_link_t *link = &topo->links[topo->out_links[j]];
        if (link->kind == TOPO_PCIE && topo->nodes[link->to].kind == TOPO_DEVICE)
            return topo->nodes[node].kind == TOPO_SWITCH;
    }
    return false;
}
