/*
 * Trees for payloads whose time is latency. The packer under a limit: first no rank is further from its root
 * than it must be, then a hop further at a time. Links of one class are enough where they join the ranks: a
 * way over PCIe has the latency of several over NVLink.
 */
#include "error.h"
#include "names.h"
#include "plan/internal.h"
#include "plan/predict.h"
#include "plan/trees/pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Limits that are tried; those that gain nothing over the one before are left out. */
#define LIMITS_MOST 10u

/* How many limits in a row may gain nothing before the search ends. */
#define IDLE_MOST 2u

/* A limit is a hop higher than the one before, or this part of that one, whichever is more. */
#define STEPS 4.0

/* What a higher limit must gain. */
#define LEAST_GAIN 1.01

typedef struct shallow {
    const topo_t *topo;
    const plan_t *head;
    bool *allowed; /* per link: NVLink */
    bool layer;    /* the packer has those alone, and there are others */
    packer_t packer;
    pack_limit_t limit;
    plan_t **plans;
    uint32_t count;
} shallow_t;

/* ---- links ---- */

/* Set up over NVLink alone, or over all links if that leaves somebody out. */
static blink_result_t choose_links(shallow_t *s)
{
    uint32_t others = 0;
    s->allowed = calloc(s->topo->link_count + 1u, sizeof(*s->allowed));
    if (!s->allowed)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a layer of %u links", s->topo->link_count);
    for (uint32_t link = 0; link < s->topo->link_count; link++) {
        s->allowed[link] = topo_is_nvlink(&s->topo->links[link]);
        others += !s->allowed[link];
    }
    BLINK_TRY(pack_init(&s->packer, s->topo, s->head, s->allowed));
    BLINK_TRY(pack_limit_init(&s->limit, &s->packer));
    s->layer = others > 0 && pack_check_reachable(&s->packer) == BLINK_OK;
    if (others == 0 || s->layer)
        return BLINK_OK;
    pack_limit_fini(&s->limit);
    s->limit = (pack_limit_t){0};
    pack_fini(&s->packer);
    BLINK_TRY(pack_init(&s->packer, s->topo, s->head, NULL));
    return pack_limit_init(&s->limit, &s->packer);
}

/* ---- limits ---- */

static double least_from(shallow_t *s, uint32_t root)
{
    double least_us = 0.0;
    if (collective_broadcasts(s->head->collective))
        least_us = pack_limit_least_us(&s->packer, &s->limit, root, false);
    if (collective_reduces(s->head->collective))
        least_us = fmax(least_us, pack_limit_least_us(&s->packer, &s->limit, root, true));
    return least_us;
}

/* The lowest limit that the collective can keep: from its root, from the best one, or from every rank. */
static double least_limit(shallow_t *s)
{
    bool every = collective_per_rank(s->head->collective);
    double limit_us = every ? 0.0 : INFINITY;
    if (collective_has_root(s->head->collective))
        return least_from(s, s->head->root);
    for (uint32_t root = 0; root < s->packer.n; root++)
        limit_us = every ? fmax(limit_us, least_from(s, root)) : fmin(limit_us, least_from(s, root));
    return limit_us;
}

static double shortest_hop(const shallow_t *s)
{
    double least_us = INFINITY;
    size_t n = s->packer.n;
    for (size_t pair = 0; pair < n * n; pair++)
        if (pair / n != pair % n)
            least_us = fmin(least_us, s->limit.hop_us[pair]);
    return least_us;
}

/* ---- plans ---- */

static blink_result_t copy_symmetries(const shallow_t *s, plan_t *plan)
{
    const packer_t *p = &s->packer;
    plan->symmetries = calloc(p->master.symmetry_count + 1u, sizeof(*plan->symmetries));
    if (!plan->symmetries)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u symmetries", p->master.symmetry_count);
    for (uint32_t i = 0; i < p->master.symmetry_count; i++) {
        plan_symmetry_t *copy = &plan->symmetries[plan->symmetry_count++];
        size_t ranks = p->n * sizeof(*copy->rank_image),
               links = s->topo->link_count * sizeof(*copy->link_image);
        *copy = (plan_symmetry_t){p->master.symmetries[i].order, malloc(ranks), malloc(links)};
        if (!copy->rank_image || !copy->link_image)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a symmetry of %u ranks", p->n);
        memcpy(copy->rank_image, p->master.symmetries[i].rank_image, ranks);
        memcpy(copy->link_image, p->master.symmetries[i].link_image, links);
    }
    return BLINK_OK;
}

static blink_result_t place(shallow_t *s)
{
    plan_t **plan = &s->plans[s->count++];
    BLINK_TRY(plan_copy_head(s->topo, s->head, plan));
    BLINK_TRY(pack_place(&s->packer, *plan));
    plan_normalise_shares(*plan);
    BLINK_TRY(copy_symmetries(s, *plan));
    return plan_rate_GBps(s->topo, *plan, &(*plan)->rate_GBps);
}

/* What the layer's links can do at best. */
static blink_result_t add_unlimited(shallow_t *s, double rate)
{
    s->packer.limit = NULL;
    BLINK_TRY(pack_optimise(&s->packer));
    return pack_rate(&s->packer) < LEAST_GAIN * rate ? BLINK_OK : place(s);
}

static blink_result_t fill(shallow_t *s)
{
    double rate = 0.0;
    BLINK_TRY(choose_links(s));
    double limit_us = least_limit(s), hop_us = shortest_hop(s);
    s->packer.limit = &s->limit;
    for (uint32_t i = 0, idle = 0; i < LIMITS_MOST && idle < IDLE_MOST && s->count + 1 < PLAN_SHALLOW_MOST;
         i++, idle++) {
        s->limit.most_us = limit_us;
        limit_us += fmax(hop_us, limit_us / STEPS);
        BLINK_TRY(pack_optimise_limited(&s->packer));
        if (pack_rate(&s->packer) <= 0.0 || pack_rate(&s->packer) < LEAST_GAIN * rate)
            continue;
        idle = 0;
        rate = pack_rate(&s->packer);
        BLINK_TRY(place(s));
    }
    return s->layer ? add_unlimited(s, rate) : BLINK_OK;
}

blink_result_t plan_shallow_trees(const topo_t *topo, const plan_t *head, plan_t *plans[PLAN_SHALLOW_MOST],
                                  uint32_t *count)
{
    shallow_t s = {.topo = topo, .head = head, .plans = plans};
    memset(plans, 0, PLAN_SHALLOW_MOST * sizeof(plans[0]));
    *count = 0;
    if (collective_routes(head->collective))
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "%s has no trees", blink_name_collective(head->collective));
    blink_result_t result = fill(&s);
    pack_limit_fini(&s.limit);
    pack_fini(&s.packer);
    free(s.allowed);
    *count = s.count;
    return result;
}

/* ---- the one for a payload ---- */

static blink_result_t find_fastest(const topo_t *topo, uint64_t bytes, plan_t *const *plans, uint32_t count,
                                   uint32_t *fastest)
{
    double least_us = INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        double us = 0.0;
        BLINK_TRY(plan_predict_us(topo, plans[i], bytes, BLINK_PROTOCOL_LL, 0, &us));
        if (us < least_us)
            *fastest = i;
        least_us = fmin(least_us, us);
    }
    return BLINK_OK;
}

/* Exchange what the two plans hold. */
static void exchange(plan_t *one, plan_t *other)
{
    plan_t kept = *one;
    *one = *other;
    *other = kept;
}

blink_result_t plan_shallowest_trees(const topo_t *topo, uint64_t bytes, plan_t *plan)
{
    plan_t *plans[PLAN_SHALLOW_MOST];
    uint32_t count = 0, fastest = 0;
    blink_result_t result = plan_shallow_trees(topo, plan, plans, &count);
    if (result == BLINK_OK)
        result = find_fastest(topo, bytes, plans, count, &fastest);
    if (result == BLINK_OK)
        exchange(plan, plans[fastest]);
    for (uint32_t i = 0; i < count; i++)
        plan_destroy(plans[i]);
    return result;
}
