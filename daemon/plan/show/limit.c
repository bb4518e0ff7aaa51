/* What limits a plan, written out. limit_groups.c finds the facts. */
#include "plan/show/limit.h"

#include "collective.h"
#include "error.h"
#include "plan/blocks.h"
#include "plan/show/limit_groups.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX     8u   /* of priced links */
#define GROUPS_MAX    8u   /* spelt out */
#define MEMBERS_MAX   8u   /* of a group, spelt out */
#define EACH_MAX      4u   /* as many equal links are named one by one */
#define FULL          0.99 /* this much of its capacity makes a link full */
#define NUMBERS_AGREE 1e-3

/* A priced link, or two that run both ways between the same nodes and are listed as one; or a backplane. */
typedef struct entry {
    uint32_t link; /* PLAN_NONE for a backplane */
    uint32_t node; /* the backplane's */
    bool both_ways;
    double part; /* of the whole price */
} entry_t;

typedef struct report {
    FILE *out;
    const topo_t *topo;
    const plan_t *plan;
    limit_groups_t groups;
    entry_t *entries;
    uint32_t entry_count;
    double *loads; /* per link, of the payload */
} report_t;

static const topo_node_t *from_of(const report_t *r, uint32_t link)
{
    return &r->topo->nodes[r->topo->links[link].from];
}

static const topo_node_t *to_of(const report_t *r, uint32_t link)
{
    return &r->topo->nodes[r->topo->links[link].to];
}

/* ---- groups ---- */

/* The host that this group is all ranks of, if it has several and other hosts have ranks too; else NULL. */
static const char *whole_host(const report_t *r, uint32_t group)
{
    const char *host = NULL;
    uint32_t on_host = 0;
    for (uint32_t rank = 0; rank < r->plan->rank_count && !host; rank++)
        if (r->groups.group[r->plan->rank_node[rank]] == group)
            host = r->topo->nodes[r->plan->rank_node[rank]].host;
    for (uint32_t rank = 0; rank < r->plan->rank_count; rank++)
        if (strcmp(r->topo->nodes[r->plan->rank_node[rank]].host, host) == 0) {
            on_host++;
            if (r->groups.group[r->plan->rank_node[rank]] != group)
                return NULL;
        }
    bool whole = on_host > 1 && on_host == r->groups.ranks[group] && on_host < r->plan->rank_count;
    return whole ? host : NULL;
}

static void print_group(const report_t *r, uint32_t group)
{
    uint32_t listed = 0, count = r->groups.ranks[group];
    const char *host = whole_host(r, group);
    if (host) {
        fprintf(r->out, "{%u gpus of %s}", count, host);
        return;
    }
    fputc('{', r->out);
    for (uint32_t rank = 0; rank < r->plan->rank_count && listed < MEMBERS_MAX; rank++)
        if (r->groups.group[r->plan->rank_node[rank]] == group)
            fprintf(r->out, "%s%s", listed++ > 0 ? ", " : "", r->topo->nodes[r->plan->rank_node[rank]].id);
    if (count > listed)
        fprintf(r->out, " and %u more", count - listed);
    fputc('}', r->out);
}

static void print_groups(const report_t *r)
{
    const limit_groups_t *g = &r->groups;
    fputs("  groups: ", r->out);
    for (uint32_t group = 0; group < g->parties && group < GROUPS_MAX; group++) {
        fputs(group > 0 ? " | " : "", r->out);
        print_group(r, group);
    }
    if (g->parties > GROUPS_MAX)
        fprintf(r->out, " | and %u more", g->parties - GROUPS_MAX);
    fputc('\n', r->out);
}

/* Priced links crossed between two groups of ranks: one, or two by way of a relay in neither if both the way
 * in and the way out are priced; 0: it depends. */
static uint32_t links_per_crossing(const report_t *r)
{
    uint32_t links = 0;
    for (uint32_t i = 0; i < r->entry_count; i++) {
        if (r->entries[i].link == PLAN_NONE)
            return 0;
        const topo_link_t *link = &r->topo->links[r->entries[i].link];
        bool to_relay = r->groups.ranks[r->groups.group[link->from]] == 0 ||
                        r->groups.ranks[r->groups.group[link->to]] == 0;
        uint32_t these = to_relay && r->entries[i].both_ways ? 2 : 1;
        if (links != 0 && links != these)
            return 0;
        links = these;
    }
    return links;
}

static bool all_both_ways(const report_t *r)
{
    for (uint32_t i = 0; i < r->entry_count; i++)
        if (!r->entries[i].both_ways)
            return false;
    return true;
}

/* How often each byte at least crosses priced links; 0: it depends. Blocks of single ranks cross a cut of one
 * direction only from where they start to where they end. Reduce and broadcast of an allreduce count apart
 * unless each has a direction to itself. */
static double crossings(const report_t *r, bool each_way)
{
    const plan_t *plan = r->plan;
    double times = (r->groups.parties - 1) * links_per_crossing(r);
    if (plan->collective == BLINK_ALLREDUCE)
        return each_way ? times : 2.0 * times;
    if (!collective_per_rank(plan->collective) || r->groups.parties > 2 || times <= 0.0 ||
        r->entries[0].both_ways)
        return times;
    const topo_link_t *link = &r->topo->links[r->entries[0].link];
    uint32_t end = plan->collective == BLINK_ALLGATHER ? link->from : link->to;
    return times * r->groups.ranks[r->groups.group[end]] / plan->rank_count;
}

/* How the capacity between the groups makes the bound: said only if it does. */
static void print_arithmetic(const report_t *r)
{
    bool each_way = r->plan->collective == BLINK_ALLREDUCE && all_both_ways(r);
    double GBps = 0.0, times = crossings(r, each_way);
    for (uint32_t i = 0; i < r->entry_count; i++)
        if (r->entries[i].link != PLAN_NONE)
            GBps +=
                r->topo->links[r->entries[i].link].GBps * (r->entries[i].both_ways && !each_way ? 2.0 : 1.0);
    if (times <= 0.0 || fabs(GBps / times - r->plan->bound_GBps) > NUMBERS_AGREE * r->plan->bound_GBps)
        return;
    fprintf(r->out, "  every byte crosses between the %u groups at least %g time%s%s: %g / %g = %.6g GB/s\n",
            r->groups.parties, times, times > 1.0 || times < 1.0 ? "s" : "", each_way ? " each way" : "",
            GBps, times, GBps / times);
}

/* ---- priced links ---- */

static void list_link(report_t *r, uint32_t link)
{
    const topo_link_t *l = &r->topo->links[link];
    uint32_t back = topo_find_link(r->topo, l->to, l->from);
    bool both_ways = back != TOPO_NONE && r->groups.part[back] > 0.0 &&
                     fabs(r->topo->links[back].GBps - l->GBps) <= NUMBERS_AGREE * l->GBps;
    uint32_t from_ranks = r->groups.ranks[r->groups.group[l->from]];
    uint32_t to_ranks = r->groups.ranks[r->groups.group[l->to]];
    /* Of two directions the one out of the smaller group of ranks stands for both. */
    bool out_of_smaller = from_ranks != to_ranks ? to_ranks == 0 || (from_ranks != 0 && from_ranks < to_ranks)
                                                 : l->from < l->to;
    if (both_ways && !out_of_smaller)
        return;
    double part = r->groups.part[link] + (both_ways ? r->groups.part[back] : 0.0);
    r->entries[r->entry_count++] = (entry_t){.link = link, .both_ways = both_ways, .part = part};
}

static void list_priced(report_t *r)
{
    for (uint32_t link = 0; link < r->topo->link_count; link++)
        if (r->groups.part[link] > 0.0)
            list_link(r, link);
    for (uint32_t node = 0; node < r->topo->node_count; node++)
        if (r->groups.part[r->topo->link_count + node] > 0.0)
            r->entries[r->entry_count++] = (entry_t){
                .link = PLAN_NONE, .node = node, .part = r->groups.part[r->topo->link_count + node]};
}

static int compare_doubles(double one, double other)
{
    return (one > other) - (one < other);
}

/* Equal links stand together: same ends by kind, same link, same directions. Backplanes are each their own.
 */
static int compare_links(const report_t *r, const entry_t *a, const entry_t *b)
{
    if (a->link == PLAN_NONE || b->link == PLAN_NONE)
        return (a->link == PLAN_NONE) - (b->link == PLAN_NONE) + (a->node > b->node) - (a->node < b->node);
    const topo_link_t *one = &r->topo->links[a->link], *other = &r->topo->links[b->link];
    int differ = compare_doubles(one->GBps, other->GBps);
    if (differ == 0)
        differ = compare_doubles(one->unit_GBps, other->unit_GBps);
    if (differ == 0)
        differ = (int)one->kind - (int)other->kind;
    if (differ == 0)
        differ = (int)from_of(r, a->link)->kind - (int)from_of(r, b->link)->kind;
    if (differ == 0)
        differ = (int)to_of(r, a->link)->kind - (int)to_of(r, b->link)->kind;
    return differ != 0 ? differ : (int)a->both_ways - (int)b->both_ways;
}

static int compare_entries(const void *a, const void *b, void *context)
{
    const entry_t *one = a, *other = b;
    int differ = compare_links(context, one, other);
    return differ != 0 ? differ : (one->link > other->link) - (one->link < other->link);
}

/* A run of equal entries. */
typedef struct bundle {
    uint32_t first, count;
    double part;
} bundle_t;

static int compare_parts(const void *a, const void *b)
{
    const bundle_t *one = a, *other = b;
    int differ = compare_doubles(other->part, one->part);
    return differ != 0 ? differ : (one->first > other->first) - (one->first < other->first);
}

static uint32_t find_bundles(report_t *r, bundle_t *bundles)
{
    uint32_t count = 0;
    qsort_r(r->entries, r->entry_count, sizeof(*r->entries), compare_entries, r);
    for (uint32_t i = 0; i < r->entry_count; i++) {
        if (i == 0 || compare_links(r, &r->entries[i - 1], &r->entries[i]) != 0)
            bundles[count++] = (bundle_t){.first = i};
        bundles[count - 1].count++;
        bundles[count - 1].part += r->entries[i].part;
    }
    qsort(bundles, count, sizeof(*bundles), compare_parts);
    return count;
}

static void print_width(const report_t *r, const topo_link_t *link)
{
    double units = link->GBps / link->unit_GBps;
    if (units < 1.5)
        fprintf(r->out, "single %g GB/s", link->GBps);
    else if (units < 2.5)
        fprintf(r->out, "double %g GB/s", link->GBps);
    else
        fprintf(r->out, "%.0f-fold %g GB/s", units, link->GBps);
}

static void print_entry(const report_t *r, const entry_t *entry)
{
    if (entry->link == PLAN_NONE) {
        fprintf(r->out, "  %s's backplane of %g GB/s", r->topo->nodes[entry->node].id,
                r->topo->nodes[entry->node].total_GBps);
    } else {
        fprintf(r->out, "  %s's ", from_of(r, entry->link)->id);
        print_width(r, &r->topo->links[entry->link]);
        fprintf(r->out, " link to %s%s", to_of(r, entry->link)->id, entry->both_ways ? ", both ways" : "");
    }
    fprintf(r->out, ": %.1f%% of the price\n", entry->part * 100.0);
}

/* An end of many links: by name if it is one node, else by kind. */
static const char *end_name(const report_t *r, const bundle_t *bundle, bool far)
{
    const topo_link_t *first = &r->topo->links[r->entries[bundle->first].link];
    uint32_t node = far ? first->to : first->from;
    for (uint32_t i = 1; i < bundle->count; i++) {
        const topo_link_t *link = &r->topo->links[r->entries[bundle->first + i].link];
        if ((far ? link->to : link->from) != node)
            return topo_node_kind_name(r->topo->nodes[node].kind);
    }
    return r->topo->nodes[node].id;
}

static void print_bundle(const report_t *r, const bundle_t *bundle)
{
    const entry_t *first = &r->entries[bundle->first];
    fprintf(r->out, "  %u x %s%s%s links of %g GB/s: %.1f%% of the price\n", bundle->count,
            end_name(r, bundle, false), first->both_ways ? "<->" : "->", end_name(r, bundle, true),
            r->topo->links[first->link].GBps, bundle->part * 100.0);
}

static void print_bundles(const report_t *r, const bundle_t *bundles, uint32_t count)
{
    uint32_t lines = 0, left = r->entry_count;
    for (uint32_t s = 0; s < count && lines < LINES_MAX; s++) {
        if (bundles[s].count > EACH_MAX) {
            print_bundle(r, &bundles[s]);
            left -= bundles[s].count;
            lines++;
            continue;
        }
        for (uint32_t i = 0; i < bundles[s].count && lines < LINES_MAX; i++, lines++, left--)
            print_entry(r, &r->entries[bundles[s].first + i]);
    }
    if (left > 0)
        fprintf(r->out, "  and %u more\n", left);
}

/* The prices are of plans that leave it to ranks to reduce and copy. */
static void print_multicast_bound(const report_t *r)
{
    fprintf(r->out, "No plan exceeds %.3f GB/s, although switches reduce and copy\n", r->plan->bound_GBps);
}

static blink_result_t print_prices(report_t *r)
{
    bundle_t *bundles = calloc(r->entry_count + 1u, sizeof(*bundles));
    if (!bundles)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to list %u links", r->entry_count);
    uint32_t count = find_bundles(r, bundles);
    fprintf(r->out, "No plan exceeds %.3f GB/s: %s\n", r->plan->bound_GBps,
            r->entry_count == 0     ? "no link has a price"
            : r->groups.parties > 1 ? "these links part the ranks"
                                    : "these links are all in use");
    if (r->groups.parties > 1) {
        print_groups(r);
        print_arithmetic(r);
    }
    print_bundles(r, bundles, count);
    free(bundles);
    return BLINK_OK;
}

/* ---- loads ---- */

static void print_loads(const report_t *r)
{
    uint32_t links = 0, full = 0, idle = 0, least = PLAN_NONE;
    double least_used = INFINITY;
    for (uint32_t link = 0; link < r->topo->link_count; link++) {
        double used = r->loads[link] * r->plan->rate_GBps / r->topo->links[link].GBps;
        if (!limit_link_usable(&r->groups, link))
            continue;
        links++;
        full += used >= FULL;
        idle += used <= 0.0;
        if (used > 0.0 && used < least_used) {
            least_used = used;
            least = link;
        }
    }
    fprintf(r->out, "At %.3f GB/s this plan fills %u of %u links to 99%% or more", r->plan->rate_GBps, full,
            links);
    if (idle > 0)
        fprintf(r->out, " and leaves %u idle", idle);
    if (least != PLAN_NONE && least_used < FULL)
        fprintf(r->out, "; the least used of the others, %s -> %s, carries %.1f%%", from_of(r, least)->id,
                to_of(r, least)->id, least_used * 100.0);
    fputc('\n', r->out);
}

/* ---- blocks ---- */

static blink_result_t print_blocks(const report_t *r)
{
    const plan_t *plan = r->plan;
    plan_t of_links = *plan;
    plan_blocks_t blocks;
    double links_GBps;
    if (!(plan->block_GBps > 0.0))
        return BLINK_OK;
    of_links.block_GBps = 0.0;
    BLINK_TRY(plan_rate_GBps(r->topo, &of_links, &links_GBps));
    BLINK_TRY(plan_count_blocks(plan, &blocks));
    uint64_t count = plan_blocks_under(&blocks, plan->protocol);
    if (plan->rate_GBps < links_GBps * (1.0 - NUMBERS_AGREE))
        fprintf(r->out,
                "Blocks limit this plan: of the %" PRIu64
                " on a GPU the busiest moves %g GB/s, which is all that a block can; links alone would allow "
                "%.3f GB/s\n",
                count, plan->block_GBps, links_GBps);
    else
        fprintf(r->out,
                "It takes %" PRIu64
                " blocks of a GPU at most, of which the busiest moves %.1f of the %g GB/s that a block can\n",
                count, blocks.busiest * plan->rate_GBps, plan->block_GBps);
    return BLINK_OK;
}

static blink_result_t print_report(report_t *r)
{
    BLINK_TRY(limit_groups_init(&r->groups, r->topo, r->plan));
    r->entries = calloc((size_t)r->topo->link_count + r->topo->node_count, sizeof(*r->entries));
    r->loads = calloc(r->topo->link_count + 1u, sizeof(*r->loads));
    if (!r->entries || !r->loads)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u links", r->topo->link_count);
    BLINK_TRY(plan_link_loads(r->topo, r->plan, r->loads));
    if (r->plan->algorithm == BLINK_ALGORITHM_MULTICAST) {
        print_multicast_bound(r);
    } else {
        list_priced(r);
        BLINK_TRY(print_prices(r));
    }
    print_loads(r);
    return print_blocks(r);
}

blink_result_t plan_limit_describe(const topo_t *topo, const plan_t *plan, char **text)
{
    report_t r = {.topo = topo, .plan = plan};
    size_t bytes = 0;
    *text = NULL;
    r.out = open_memstream(text, &bytes);
    if (!r.out)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to say what limits a plan");
    blink_result_t result = BLINK_OK;
    if (plan->rate_GBps > 0.0)
        result = print_report(&r);
    else
        fputs("Nothing moves, so nothing limits\n", r.out);
    bool failed = ferror(r.out) != 0;
    if ((fclose(r.out) != 0 || failed) && result == BLINK_OK)
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to say what limits a plan");
    free(r.entries);
    free(r.loads);
    limit_groups_fini(&r.groups);
    if (result != BLINK_OK) {
        free(*text);
        *text = NULL;
    }
    return result;
}
