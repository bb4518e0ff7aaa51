/*
 * Writes blink-topology/1 so that it reads back equal: same nodes, same links in the same order, same
 * doubles.
 */
#include "topo/topo.h"

#include "error.h"
#include "topo/text.h"

static void write_node(topo_text_t *text, const topo_node_t *node)
{
    fputs("  {\"id\": ", text->file);
    topo_text_quoted(text, node->id);
    fprintf(text->file, ", \"kind\": \"%s\"", topo_node_kind_name(node->kind));
    if (*node->host) {
        fputs(", \"host\": ", text->file);
        topo_text_quoted(text, node->host);
    }
    if (node->multicast)
        fputs(", \"multicast\": true", text->file);
    if (node->reduces)
        fputs(", \"reduces\": true", text->file);
    if (node->total_GBps > 0) {
        fputs(", \"GBps_total\": ", text->file);
        topo_text_number(text, node->total_GBps);
    }
    fputc('}', text->file);
}

static void write_link(topo_text_t *text, const topo_t *topo, const topo_link_t *link, double GBps,
                       uint32_t count, bool duplex)
{
    fputs("  {\"from\": ", text->file);
    topo_text_quoted(text, topo->nodes[link->from].id);
    fputs(", \"to\": ", text->file);
    topo_text_quoted(text, topo->nodes[link->to].id);
    fputs(", \"GBps\": ", text->file);
    topo_text_number(text, GBps);
    fprintf(text->file, ", \"count\": %u, \"kind\": \"%s\", \"latency_us\": ", count,
            topo_link_kind_name(link->kind));
    topo_text_number(text, link->latency_us);
    fprintf(text->file, ", \"duplex\": %s}", duplex ? "true" : "false");
}

static void write_merged(topo_text_t *text, const topo_t *topo, const topo_link_t *link, bool duplex)
{
    double rest_GBps;
    uint32_t count = topo_link_units(link, &rest_GBps);
    write_link(text, topo, link, link->unit_GBps, count, duplex);
    if (rest_GBps > 0) {
        fputs(",\n", text->file);
        write_link(text, topo, link, rest_GBps, 1, duplex);
    }
}

/* Do links i and i + 1 come from one duplex link? Only neighbours count, or the order would not read back. */
static bool is_duplex(const topo_t *topo, uint32_t i)
{
    if (i + 1 >= topo->link_count || topo_find_mirror(topo, i) != i + 1)
        return false;
    const topo_link_t *one = &topo->links[i], *other = one + 1;
    return one->GBps == other->GBps && one->unit_GBps == other->unit_GBps;
}

/* Only where there are some, as on few machines. */
static void write_non_peers(topo_text_t *text, const topo_t *topo)
{
    for (uint32_t i = 0; i < topo->non_peer_count; i++) {
        fputs(i == 0 ? ",\n \"non_peers\": [\n  [" : ",\n  [", text->file);
        topo_text_quoted(text, topo->nodes[topo->non_peers[i].one].id);
        fputs(", ", text->file);
        topo_text_quoted(text, topo->nodes[topo->non_peers[i].other].id);
        fputc(']', text->file);
    }
    if (topo->non_peer_count > 0)
        fputs("\n ]", text->file);
}

blink_result_t topo_write_json(const topo_t *topo, char **result)
{
    topo_text_t text;
    BLINK_TRY(topo_text_open(&text));
    fputs("{\n \"schema\": \"blink-topology/1\",\n \"name\": ", text.file);
    topo_text_quoted(&text, topo->name);
    fputs(",\n \"nodes\": [\n", text.file);
    for (uint32_t i = 0; i < topo->node_count; i++) {
        write_node(&text, &topo->nodes[i]);
        fputs(i + 1 < topo->node_count ? ",\n" : "\n", text.file);
    }
    fputs(" ],\n \"links\": [\n", text.file);
    for (uint32_t i = 0; i < topo->link_count;) {
        bool duplex = is_duplex(topo, i);
        write_merged(&text, topo, &topo->links[i], duplex);
        i += duplex ? 2 : 1;
        fputs(i < topo->link_count ? ",\n" : "\n", text.file);
    }
    fputs(" ]", text.file);
    write_non_peers(&text, topo);
    fputs("\n}\n", text.file);
    return topo_text_close(&text, result);
}
