/*
 * Draws a topology for Graphviz: one cluster per host, one edge per pair of nodes that are linked both ways.
 */
#include "topo/internal.h"

#include "error.h"

#include <string.h>

static void write_node(topo_text_t *text, const topo_node_t *node)
{
    static const char *const shapes[] = {
        [TOPO_GPU] = "box", [TOPO_SWITCH] = "ellipse", [TOPO_NIC] = "cds", [TOPO_CPU] = "octagon"};
    fputs("  ", text->file);
    topo_text_quoted(text, node->id);
    fprintf(text->file, " [shape=%s];\n", shapes[node->kind]);
}

static bool same_host(const topo_t *topo, uint32_t one, uint32_t other)
{
    return strcmp(topo->nodes[one].host, topo->nodes[other].host) == 0;
}

static bool first_of_host(const topo_t *topo, uint32_t node)
{
    uint32_t first = 0;
    while (!same_host(topo, first, node))
        first++;
    return first == node;
}

static void write_nodes(topo_text_t *text, const topo_t *topo)
{
    for (uint32_t i = 0; i < topo->node_count; i++) {
        if (!first_of_host(topo, i))
            continue;
        bool cluster = *topo->nodes[i].host != '\0';
        if (cluster) {
            fprintf(text->file, " subgraph cluster_%u {\n  label=", i);
            topo_text_quoted(text, topo->nodes[i].host);
            fputs(";\n", text->file);
        }
        for (uint32_t j = i; j < topo->node_count; j++) {
            if (same_host(topo, i, j))
                write_node(text, &topo->nodes[j]);
        }
        if (cluster)
            fputs(" }\n", text->file);
    }
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

blink_result_t topo_write_dot(const topo_t *topo, char **result)
{
    topo_text_t text;
    BLINK_TRY(topo_text_open(&text));
    fputs("digraph ", text.file);
    topo_text_quoted(&text, topo->name);
    fputs(" {\n node [fontname=\"sans-serif\"];\n edge [fontname=\"sans-serif\", fontsize=9];\n", text.file);
    write_nodes(&text, topo);
    double largest_GBps = topo_largest_GBps(topo);
    for (uint32_t i = 0; i < topo->link_count; i++) {
        uint32_t mirror = topo_find_mirror(topo, i);
        if (mirror == TOPO_NONE || i < mirror)
            write_link(&text, topo, i, mirror, largest_GBps);
    }
    fputs("}\n", text.file);
    return topo_text_close(&text, result);
}
