/*
 * What the tests of topologies share: loading, comparing, and looking at links by their ends' ids. Include
 * after cmocka's headers.
 */
#ifndef BLINK_TOPO_CHECK_H
#define BLINK_TOPO_CHECK_H

#include "error.h"
#include "topo/topo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static inline topo_t *load(const char *what)
{
    topo_t *topo = NULL;
    if (topo_load(what, &topo) != BLINK_OK)
        fail_msg("%s: %s", what, blink_error_text());
    return topo;
}

static inline void assert_text_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("expected \"%s\" in: %s", part, text);
}

static inline bool linked(const topo_t *topo, const char *from, const char *to)
{
    return topo_find_link(topo, topo_find_node(topo, from), topo_find_node(topo, to)) != TOPO_NONE;
}

static inline const topo_link_t *link_between(const topo_t *topo, const char *from, const char *to)
{
    uint32_t link = topo_find_link(topo, topo_find_node(topo, from), topo_find_node(topo, to));
    if (link == TOPO_NONE)
        fail_msg("%s: no link %s to %s", topo->name, from, to);
    return &topo->links[link];
}

static inline void assert_link(const topo_t *topo, const char *from, const char *to, topo_link_kind_t kind,
                               double GBps)
{
    const topo_link_t *link = link_between(topo, from, to);
    assert_string_equal(topo_link_kind_name(link->kind), topo_link_kind_name(kind));
    if (fabs(link->GBps - GBps) > 1e-9)
        fail_msg("%s to %s: %g GB/s, expected %g", from, to, link->GBps, GBps);
}

/* The same in both directions. */
static inline void assert_duplex(const topo_t *topo, const char *one, const char *other,
                                 topo_link_kind_t kind, double GBps)
{
    assert_link(topo, one, other, kind, GBps);
    assert_link(topo, other, one, kind, GBps);
}

static inline uint32_t count_kind(const topo_t *topo, topo_node_kind_t kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < topo->node_count; i++)
        count += topo->nodes[i].kind == kind;
    return count;
}

static inline void assert_reduces(const topo_t *topo, const char *id, bool reduces)
{
    const topo_node_t *node = &topo->nodes[topo_find_node(topo, id)];
    assert_int_equal(node->reduces, reduces);
    assert_int_equal(node->multicast, reduces);
}

static inline topo_t *parse(const char *json)
{
    topo_t *topo = NULL;
    if (topo_parse_json(json, strlen(json), "test.json", &topo) != BLINK_OK)
        fail_msg("%s: %s", json, blink_error_text());
    return topo;
}

static inline void assert_equal(const topo_t *one, const topo_t *other)
{
    assert_string_equal(one->name, other->name);
    assert_int_equal(one->node_count, other->node_count);
    assert_int_equal(one->link_count, other->link_count);
    assert_int_equal(one->gpu_count, other->gpu_count);
    for (uint32_t i = 0; i < one->node_count; i++) {
        const topo_node_t *a = &one->nodes[i], *b = &other->nodes[i];
        assert_string_equal(a->id, b->id);
        assert_string_equal(a->host, b->host);
        assert_int_equal(a->kind, b->kind);
        assert_int_equal(a->multicast, b->multicast);
        assert_int_equal(a->reduces, b->reduces);
        assert_true(a->total_GBps == b->total_GBps);
    }
    for (uint32_t i = 0; i < one->link_count; i++) {
        const topo_link_t *a = &one->links[i], *b = &other->links[i];
        assert_int_equal(a->from, b->from);
        assert_int_equal(a->to, b->to);
        assert_int_equal(a->kind, b->kind);
        assert_true(a->GBps == b->GBps);
        assert_true(a->unit_GBps == b->unit_GBps);
        assert_true(a->latency_us == b->latency_us);
    }
    assert_int_equal(one->non_peer_count, other->non_peer_count);
    for (uint32_t i = 0; i < one->non_peer_count; i++) {
        assert_int_equal(one->non_peers[i].one, other->non_peers[i].one);
        assert_int_equal(one->non_peers[i].other, other->non_peers[i].other);
    }
}

static inline void assert_reads_back_equal(const topo_t *topo)
{
    char *text = NULL;
    assert_int_equal(topo_write_json(topo, &text), BLINK_OK);
    topo_t *again = parse(text);
    assert_equal(topo, again);
    topo_destroy(again);
    free(text);
}

/* Every way to get at a link agrees with the list of links. */
static inline void assert_indexed(const topo_t *topo)
{
    assert_int_equal(topo->out_first[topo->node_count], topo->link_count);
    for (uint32_t i = 0; i < topo->link_count; i++)
        assert_int_equal(topo_find_link(topo, topo->links[i].from, topo->links[i].to), i);
    for (uint32_t node = 0; node < topo->node_count; node++) {
        assert_int_equal(topo_find_node(topo, topo->nodes[node].id), node);
        for (uint32_t j = topo->out_first[node]; j < topo->out_first[node + 1]; j++)
            assert_int_equal(topo->links[topo->out_links[j]].from, node);
    }
    for (uint32_t i = 0; i < topo->gpu_count; i++)
        assert_int_equal(topo->nodes[topo->gpus[i]].kind, TOPO_DEVICE);
}

#endif
