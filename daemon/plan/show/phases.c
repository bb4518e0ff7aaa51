/* The phases of a plan of several hosts, written out. */
#include "plan/show/phases.h"

#include "error.h"
#include "plan/show/write.h"

#include <stdlib.h>
#include <string.h>

#define LINK_KINDS (TOPO_SHM + 1)

/* This part of the payload is all of it, but for roundings. */
#define ALL 0.9995

/* A plan of which less goes in phases has none. */
#define MOST 0.75

/* Nodes of the network's edge that are named one by one. */
#define NAMES_MAX 16u

typedef struct phases {
    const topo_t *topo;
    const plan_t *plan;
    uint32_t *host_of_rank; /* the first rank on the rank's host */
    uint32_t *entries;      /* by host: how often the tree enters it, or has its root there */
    double *loads;          /* per link, of the payload */
    /* Of the payload: what all trees have, and what those have that enter each host once. */
    double trees_share, once_share;
    bool up[LINK_KINDS], down[LINK_KINDS]; /* links within hosts of reduce trees, and of broadcast trees */
} phases_t;

/* ---- what the plan does ---- */

/* Whether each host's ranks are joined within the host, and one of them alone to other hosts' or to none. */
static bool enters_hosts_once(const phases_t *p, const plan_tree_t *tree)
{
    memset(p->entries, 0, p->plan->rank_count * sizeof(*p->entries));
    for (uint32_t rank = 0; rank < p->plan->rank_count; rank++) {
        uint32_t parent = tree->parent[rank], host = p->host_of_rank[rank];
        if (parent != PLAN_NONE && p->host_of_rank[parent] == host)
            continue;
        if (p->entries[host]++ > 0)
            return false;
    }
    return true;
}

static void note_kinds(const phases_t *p, const plan_tree_t *tree, bool *kinds)
{
    for (uint32_t rank = 0; rank < p->plan->rank_count; rank++) {
        uint32_t parent = tree->parent[rank];
        if (parent == PLAN_NONE || p->host_of_rank[parent] != p->host_of_rank[rank])
            continue;
        const plan_path_t *path = &p->plan->paths[tree->path[rank]];
        for (uint32_t i = 0; i < path->link_count; i++)
            kinds[p->topo->links[path->links[i]].kind] = true;
    }
}

/* What holds for a tree holds for its images. */
static void read_trees(phases_t *p)
{
    plan_walk_t walk = {0};
    plan_branch_t branch;
    while (plan_walk_next(p->plan, &walk, &branch)) {
        if (!branch.tree)
            continue;
        p->trees_share += branch.share;
        if (!enters_hosts_once(p, branch.tree))
            continue;
        p->once_share += branch.share;
        note_kinds(p, branch.tree, branch.phase[0] == 'r' ? p->up : p->down);
    }
}

static double part_in_phases(const phases_t *p)
{
    return p->trees_share > 0.0 ? p->once_share / p->trees_share : 0.0;
}

/* ---- in words ---- */

static bool has_ranks(const phases_t *p, uint32_t node)
{
    for (uint32_t rank = 0; rank < p->plan->rank_count; rank++)
        if (p->host_of_rank[rank] == rank &&
            strcmp(p->topo->nodes[p->plan->rank_node[rank]].host, p->topo->nodes[node].host) == 0)
            return true;
    return false;
}

/* The most that a link between this node and another host, or the network, carries; 0: it is within its host.
 */
static double load_at_edge(const phases_t *p, uint32_t node)
{
    double most = 0.0;
    for (uint32_t i = 0; i < p->topo->link_count; i++) {
        const topo_link_t *link = &p->topo->links[i];
        if ((link->from == node || link->to == node) && p->loads[i] > most &&
            strcmp(p->topo->nodes[link->from].host, p->topo->nodes[link->to].host) != 0)
            most = p->loads[i];
    }
    return most;
}

static void write_within(const topo_text_t *text, const char *verb, const bool *kinds)
{
    const char *between = " (";
    fprintf(text->file, "%s within hosts", verb);
    for (uint32_t kind = 0; kind < LINK_KINDS; kind++)
        if (kinds[kind]) {
            fprintf(text->file, "%s%s", between, topo_link_kind_name((topo_link_kind_t)kind));
            between = ", ";
        }
    fputc(')', text->file);
}

static void write_between(const topo_text_t *text, const phases_t *p)
{
    uint32_t count = 0;
    double most = 0.0;
    fputs("between hosts over ", text->file);
    for (uint32_t node = 0; node < p->topo->node_count; node++) {
        double load = load_at_edge(p, node);
        if (load <= 0.0 || !has_ranks(p, node))
            continue;
        most = load > most ? load : most;
        if (count < NAMES_MAX)
            fprintf(text->file, "%s%s", count > 0 ? ", " : "", p->topo->nodes[node].id);
        count++;
    }
    if (count > NAMES_MAX)
        fprintf(text->file, " and %u more", count - NAMES_MAX);
    fprintf(text->file, " (at most %.1f%% of the payload each way)", 100.0 * most);
}

static bool any(const bool *kinds)
{
    return memchr(kinds, true, LINK_KINDS) != NULL;
}

static void write_phases(const topo_text_t *text, const phases_t *p)
{
    fputs("phases: ", text->file);
    if (any(p->up)) {
        write_within(text, "reduce", p->up);
        fputs(", ", text->file);
    }
    write_between(text, p);
    if (any(p->down)) {
        fputs(", ", text->file);
        write_within(text, "broadcast", p->down);
    }
    if (part_in_phases(p) < ALL)
        fprintf(text->file, "; so goes %.1f%% of the payload, other trees enter hosts more than once",
                100.0 * part_in_phases(p));
    fputc('\n', text->file);
}

blink_result_t plan_phases_describe(const topo_t *topo, const plan_t *plan, char **described)
{
    phases_t p = {.topo = topo,
                  .plan = plan,
                  .host_of_rank = calloc(plan->rank_count, sizeof(*p.host_of_rank)),
                  .entries = calloc(plan->rank_count, sizeof(*p.entries)),
                  .loads = calloc(topo->link_count + 1u, sizeof(*p.loads))};
    topo_text_t text;
    blink_result_t result = BLINK_OK;
    if (!p.host_of_rank || !p.entries || !p.loads)
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the phases of a plan");
    if (result == BLINK_OK)
        result = plan_link_loads(topo, plan, p.loads);
    if (result == BLINK_OK)
        result = topo_text_open(&text);
    if (result == BLINK_OK) {
        if (plan_number_hosts(topo, plan, p.host_of_rank) > 1)
            read_trees(&p);
        if (part_in_phases(&p) >= MOST)
            write_phases(&text, &p);
        result = topo_text_close(&text, described);
    }
    free(p.loads);
    free(p.entries);
    free(p.host_of_rank);
    return result;
}
