/*
 * Draws a topology for Graphviz: one cluster per host, one edge per pair of nodes that are linked both ways.
 */
#include "topo/topo.h"

#include "error.h"
#include "topo/text.h"

#include <stdlib.h>
#include <string.h>

static void write_node(topo_text_t *text, const topo_node_t *node)
{
    static const char *const shapes[] = {
        [TOPO_DEVICE] = "box", [TOPO_SWITCH] = "ellipse", [TOPO_NIC] = "cds", [TOPO_CPU] = "octagon"};
    fputs("  ", text->file);
    topo_text_quoted(text, node->id);
    fprintf(text->file, " [shape=%s];\n", shapes[node->kind]);
}

static int compare_hosts(const void *one, const void *other, void *topology)
{
    const topo_t *topo = topology;
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    int order = strcmp(topo->nodes[a].host, topo->nodes[b].host);
    return order ? order : (a > b) - (a < b);
}

/* Chain the nodes of every host in the order of the file: next[i] is the node after i on its host, or
 * TOPO_NONE. first[i] says whether i is where such a chain begins. `sorted` holds node_count nodes. */
static void chain_hosts(const topo_t *topo, uint32_t *sorted, uint32_t *next, bool *first)
{
    for (uint32_t i = 0; i < topo->node_count; i++)
        sorted[i] = i;
    qsort_r(sorted, topo->node_count, sizeof(*sorted), compare_hosts, (void *)topo);
    for (uint32_t i = 0; i < topo->node_count; i++) {
        bool same = i > 0 && strcmp(topo->nodes[sorted[i - 1]].host, topo->nodes[sorted[i]].host) == 0;
        first[sorted[i]] = !same;
        next[sorted[i]] = TOPO_NONE;
        if (same)
            next[sorted[i - 1]] = sorted[i];
    }
}

static void write_host(topo_text_t *text, const topo_t *topo, uint32_t first, const uint32_t *next)
{
    bool cluster = *topo->nodes[first].host != '\0';
    if (cluster) {
        fprintf(text->file, " subgraph cluster_%u {\n  label=", first);
        topo_text_quoted(text, topo->nodes[first].host);
        fputs(";\n", text->file);
    }
    for (uint32_t i = first; i != TOPO_NONE; i = next[i])
        write_node(text, &topo->nodes[i]);
    if (cluster)
        fputs(" }\n", text->file);
}

static blink_result_t write_nodes(topo_text_t *text, const topo_t *topo)
{
    blink_result_t result = BLINK_OK;
    uint32_t *sorted = calloc(topo->node_count, sizeof(*sorted));
    uint32_t *next = calloc(topo->node_count, sizeof(*next));
    bool *first = calloc(topo->node_count, sizeof(*first));
    if (!sorted || !next || !first) {
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "out of memory printing a topology");
        goto release;
    }
    chain_hosts(topo, sorted, next, first);
    for (uint32_t i = 0; i < topo->node_count; i++) {
        if (first[i])
            write_host(text, topo, i, next);
    }
release:
    free(first);
    free(next);
    free(sorted);
    return result;
}

static void write_link(topo_text_t *text, const topo_t *topo, uint32_t index, uint32_t mirror,
                       double largest_GBps)
{
    const topo_link_t *link = &topo->links[index];
    char GBps[TOPO_HUMAN_BYTES], back_GBps[TOPO_HUMAN_BYTES];
    fputs(" ", text->file);
    topo_text_quoted(text, topo->nodes[link->from].id);
    fputs(" -> ", text->file);
    topo_text_quoted(text, topo->nodes[link->to].id);
    fprintf(text->file, " [label=\"%s %s", topo_link_kind_name(link->kind), topo_human(link->GBps, GBps));
    if (mirror != TOPO_NONE && topo->links[mirror].GBps != link->GBps)
        fprintf(text->file, " / %s", topo_human(topo->links[mirror].GBps, back_GBps));
    fprintf(text->file, "\", penwidth=%.2f%s];\n", 1 + 4 * link->GBps / largest_GBps,
            mirror != TOPO_NONE ? ", dir=both" : "");
}

static void write_links(topo_text_t *text, const topo_t *topo)
{
    double largest_GBps = topo_largest_GBps(topo);
    for (uint32_t i = 0; i < topo->link_count; i++) {
        uint32_t mirror = topo_find_mirror(topo, i);
        if (mirror == TOPO_NONE || i < mirror)
            write_link(text, topo, i, mirror, largest_GBps);
    }
}

blink_result_t topo_write_dot(const topo_t *topo, char **result)
{
    topo_text_t text;
    BLINK_TRY(topo_text_open(&text));
    fputs("digraph ", text.file);
    topo_text_quoted(&text, topo->name);
    fputs(" {\n node [fontname=\"sans-serif\"];\n edge [fontname=\"sans-serif\", fontsize=9];\n", text.file);
    blink_result_t written = write_nodes(&text, topo);
    write_links(&text, topo);
    fputs("}\n", text.file);
    char *dot = NULL;
    blink_result_t closed = topo_text_close(&text, &dot);
    if (written != BLINK_OK || closed != BLINK_OK) {
        free(dot);
        return BLINK_ERR_NO_MEMORY;
    }
    *result = dot;
    return BLINK_OK;
}
