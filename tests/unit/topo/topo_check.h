/*
 * What the tests of topologies share: loading by name and looking at links by their ends' ids. Include after
 * cmocka's headers.
 */
#ifndef BLINK_TOPO_CHECK_H
#define BLINK_TOPO_CHECK_H

#include "error.h"
#include "topo/topo.h"

#include <math.h>
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

#endif
