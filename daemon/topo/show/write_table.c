/*
 * Prints a topology for people: what there is, then every node with what it can move, then every link, both
 * directions of a pair in one row.
 */
#include "topo/topo.h"

#include "error.h"
#include "topo/text.h"

#include <stdlib.h>
#include <string.h>

typedef struct widths {
    int id, host;
} widths_t;

static int wider(int width, const char *string)
{
    int bytes = (int)strlen(string);
    return bytes > width ? bytes : width;
}

static widths_t measure(const topo_t *topo)
{
    widths_t widths = {4, 4};
    for (uint32_t i = 0; i < topo->node_count; i++) {
        widths.id = wider(widths.id, topo->nodes[i].id);
        widths.host = wider(widths.host, topo->nodes[i].host);
    }
    return widths;
}

static void write_summary(topo_text_t *text, const topo_t *topo)
{
    uint32_t counts[] = {[TOPO_DEVICE] = 0, [TOPO_SWITCH] = 0, [TOPO_NIC] = 0, [TOPO_CPU] = 0};
    for (uint32_t i = 0; i < topo->node_count; i++)
        counts[topo->nodes[i].kind]++;
    fprintf(text->file, "%s: %u gpu, %u switch, %u nic, %u cpu, %u directed links\n\n", topo->name,
            counts[TOPO_DEVICE], counts[TOPO_SWITCH], counts[TOPO_NIC], counts[TOPO_CPU], topo->link_count);
}

static void write_nodes(topo_text_t *text, const topo_t *topo, const widths_t *widths, const double *in_GBps)
{
    fprintf(text->file, "%-*s  %-6s  %-*s  %10s  %10s\n", widths->id, "node", "kind", widths->host, "host",
            "out GB/s", "in GB/s");
    for (uint32_t i = 0; i < topo->node_count; i++) {
        const topo_node_t *node = &topo->nodes[i];
        char out[TOPO_HUMAN_BYTES], in[TOPO_HUMAN_BYTES], total[TOPO_HUMAN_BYTES];
        double out_GBps = 0;
        for (uint32_t j = topo->out_first[i]; j < topo->out_first[i + 1]; j++)
            out_GBps += topo->links[topo->out_links[j]].GBps;
        fprintf(text->file, "%-*s  %-6s  %-*s  %10s  %10s", widths->id, node->id,
                topo_node_kind_name(node->kind), widths->host, *node->host ? node->host : "-",
                topo_human(out_GBps, out), topo_human(in_GBps[i], in));
        if (node->total_GBps > 0)
            fprintf(text->file, "  at most %s in all", topo_human(node->total_GBps, total));
        fputs(node->reduces     ? "  multicast, reduces\n"
              : node->multicast ? "  multicast\n"
                                : "\n",
              text->file);
    }
}

static void write_links(topo_text_t *text, const topo_t *topo, const widths_t *widths)
{
    fprintf(text->file, "\n%-*s  %-*s  %-8s  %10s  %10s  %10s\n", widths->id, "from", widths->id, "to",
            "kind", "GB/s ->", "GB/s <-", "latency us");
    for (uint32_t i = 0; i < topo->link_count; i++) {
        uint32_t mirror = topo_find_mirror(topo, i);
        if (mirror != TOPO_NONE && mirror < i)
            continue;
        const topo_link_t *link = &topo->links[i];
        char there[TOPO_HUMAN_BYTES], back[TOPO_HUMAN_BYTES], latency[TOPO_HUMAN_BYTES];
        fprintf(text->file, "%-*s  %-*s  %-8s  %10s  %10s  %10s\n", widths->id, topo->nodes[link->from].id,
                widths->id, topo->nodes[link->to].id, topo_link_kind_name(link->kind),
                topo_human(link->GBps, there),
                mirror == TOPO_NONE ? "-" : topo_human(topo->links[mirror].GBps, back),
                topo_human(link->latency_us, latency));
    }
}

/* Each device in the row of the pair's first. */
static void write_non_peers(topo_text_t *text, const topo_t *topo, const widths_t *widths)
{
    if (topo->non_peer_count > 0)
        fprintf(text->file, "\n%-*s  no peers: what they send goes through memory of the host", widths->id,
                "gpu");
    for (uint32_t i = 0; i < topo->non_peer_count; i++) {
        const topo_pair_t *pair = &topo->non_peers[i];
        if (i == 0 || pair->one != pair[-1].one)
            fprintf(text->file, "\n%-*s ", widths->id, topo->nodes[pair->one].id);
        fprintf(text->file, " %s", topo->nodes[pair->other].id);
    }
    if (topo->non_peer_count > 0)
        fputc('\n', text->file);
}

blink_result_t topo_write_table(const topo_t *topo, char **result)
{
    double *in_GBps = calloc(topo->node_count, sizeof(*in_GBps));
    if (!in_GBps)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "out of memory printing a topology");
    for (uint32_t i = 0; i < topo->link_count; i++)
        in_GBps[topo->links[i].to] += topo->links[i].GBps;
    topo_text_t text;
    blink_result_t opened = topo_text_open(&text);
    if (opened != BLINK_OK) {
        free(in_GBps);
        return opened;
    }
    widths_t widths = measure(topo);
    write_summary(&text, topo);
    write_nodes(&text, topo, &widths, in_GBps);
    write_links(&text, topo, &widths);
    write_non_peers(&text, topo, &widths);
    free(in_GBps);
    return topo_text_close(&text, result);
}
