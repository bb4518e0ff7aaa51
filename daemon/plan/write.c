/* Plans as text: blink-plan/1 for tools, a table for people. */
#include "error.h"
#include "names.h"
#include "plan/internal.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static const char *algorithm_name(const plan_t *plan)
{
    return plan->algorithm == BLINK_ALGORITHM_TREES ? "packed-trees" : blink_name_algorithm(plan->algorithm);
}

/* Append to an array or object; NULL, from whatever failed, is caught here. Steals the value. */
static bool put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static json_t *write_path(const topo_t *topo, const plan_path_t *path)
{
    json_t *nodes = json_array();
    bool ok =
        json_array_append_new(nodes, json_string(topo->nodes[topo->links[path->links[0]].from].id)) == 0;
    for (uint32_t i = 0; ok && i < path->link_count; i++)
        ok = json_array_append_new(nodes, json_string(topo->nodes[topo->links[path->links[i]].to].id)) == 0;
    json_t *edge = json_object();
    if (put(edge, "path", nodes) && ok)
        return edge;
    json_decref(edge);
    return NULL;
}

static json_t *write_tree(const topo_t *topo, const plan_t *plan, const plan_tree_t *tree, const char *phase,
                          uint32_t root, double share)
{
    json_t *edges = json_array(), *object = json_object();
    bool ok = true;
    for (uint32_t rank = 0; ok && rank < plan->rank_count; rank++)
        if (tree->path[rank] != PLAN_NONE)
            ok = json_array_append_new(edges, write_path(topo, &plan->paths[tree->path[rank]])) == 0;
    ok = put(object, "phase", json_string(phase)) && ok;
    ok = put(object, "root", json_string(topo->nodes[plan->rank_node[root]].id)) && ok;
    ok = put(object, "share", json_real(share)) && ok;
    ok = put(object, "edges", edges) && ok;
    if (ok)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *write_route(const topo_t *topo, const plan_t *plan, const plan_route_t *route, double share)
{
    json_t *edges = json_array(), *object = json_object();
    uint32_t from = plan->rank_node[route->ranks[0]], to = plan->rank_node[route->ranks[route->hop_count]];
    bool ok = true;
    for (uint32_t i = 0; ok && i < route->hop_count; i++)
        ok = json_array_append_new(edges, write_path(topo, &plan->paths[route->paths[i]])) == 0;
    ok = put(object, "phase", json_string("route")) && ok;
    ok = put(object, "from", json_string(topo->nodes[from].id)) && ok;
    ok = put(object, "to", json_string(topo->nodes[to].id)) && ok;
    ok = put(object, "share", json_real(share)) && ok;
    ok = put(object, "edges", edges) && ok;
    if (ok)
        return object;
    json_decref(object);
    return NULL;
}

static bool write_part(const topo_t *topo, const plan_t *plan, const plan_part_t *part, double share,
                       json_t *trees)
{
    if (part->reduce.parent != NULL &&
        json_array_append_new(trees, write_tree(topo, plan, &part->reduce, "reduce", part->root, share)) != 0)
        return false;
    if (part->broadcast.parent != NULL &&
        json_array_append_new(trees,
                              write_tree(topo, plan, &part->broadcast, "broadcast", part->root, share)) != 0)
        return false;
    return part->route.hop_count == 0 ||
           json_array_append_new(trees, write_route(topo, plan, &part->route, share)) == 0;
}

static json_t *write_trees(const topo_t *topo, const plan_t *plan)
{
    json_t *trees = json_array();
    for (uint32_t c = 0; c < plan->channel_count; c++) {
        const plan_channel_t *channel = &plan->channels[c];
        for (uint32_t i = 0; i < channel->part_count; i++)
            if (!write_part(topo, plan, &channel->parts[i], channel->share / channel->part_count, trees)) {
                json_decref(trees);
                return NULL;
            }
    }
    return trees;
}

static json_t *write_ranks(const topo_t *topo, const plan_t *plan)
{
    json_t *ranks = json_array();
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        if (json_array_append_new(ranks, json_string(topo->nodes[plan->rank_node[rank]].id)) != 0) {
            json_decref(ranks);
            return NULL;
        }
    return ranks;
}

static blink_result_t write_json(const topo_t *topo, const plan_t *plan, char **text)
{
    json_t *object = json_object();
    json_t *root =
        plan->root == PLAN_NONE ? json_null() : json_string(topo->nodes[plan->rank_node[plan->root]].id);
    bool ok = put(object, "schema", json_string("blink-plan/1"));
    ok = put(object, "collective", json_string(blink_name_collective(plan->collective))) && ok;
    ok = put(object, "topology", json_string(topo->name)) && ok;
    ok = put(object, "ranks", write_ranks(topo, plan)) && ok;
    ok = put(object, "root", root) && ok;
    ok = put(object, "algorithm", json_string(algorithm_name(plan))) && ok;
    ok = put(object, "rate_GBps", json_real(plan->rate_GBps)) && ok;
    ok = put(object, "bound_GBps", json_real(plan->bound_GBps)) && ok;
    ok = put(object, "plan_ms", json_real(plan->plan_ms)) && ok;
    ok = put(object, "trees", write_trees(topo, plan)) && ok;
    *text = ok ? json_dumps(object, JSON_INDENT(1)) : NULL;
    json_decref(object);
    if (*text == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to print a plan of %u channels",
                          plan->channel_count);
    return BLINK_OK;
}

blink_result_t plan_write_json(const topo_t *topo, const plan_t *plan, char **text)
{
    plan_t *expanded = NULL;
    if (plan->turn_count == 0)
        return write_json(topo, plan, text);
    BLINK_TRY(plan_expand(topo, plan, &expanded));
    blink_result_t result = write_json(topo, expanded, text);
    plan_destroy(expanded);
    return result;
}

static uint32_t tree_depth(const plan_t *plan, const plan_tree_t *tree)
{
    uint32_t deepest = 0;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        uint32_t depth = 0;
        for (uint32_t at = rank; tree->parent[at] != PLAN_NONE; at = tree->parent[at])
            depth++;
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest;
}

static void print_path(FILE *out, const topo_t *topo, const plan_path_t *path)
{
    fprintf(out, " %s", topo->nodes[topo->links[path->links[0]].from].id);
    for (uint32_t i = 0; i < path->link_count; i++)
        fprintf(out, ">%s", topo->nodes[topo->links[path->links[i]].to].id);
}

static void print_tree(FILE *out, const topo_t *topo, const plan_t *plan, const plan_tree_t *tree,
                       const char *phase, uint32_t root, double share)
{
    fprintf(out, "%-9s %7.3f%%  %-8s %5u ", phase, share * 100.0, topo->nodes[plan->rank_node[root]].id,
            tree_depth(plan, tree));
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        if (tree->path[rank] != PLAN_NONE)
            print_path(out, topo, &plan->paths[tree->path[rank]]);
    fputc('\n', out);
}

static void print_route(FILE *out, const topo_t *topo, const plan_t *plan, const plan_route_t *route,
                        double share)
{
    fprintf(out, "%-9s %7.3f%%  %-8s %5u ", "route", share * 100.0,
            topo->nodes[plan->rank_node[route->ranks[0]]].id, route->hop_count);
    for (uint32_t i = 0; i < route->hop_count; i++)
        print_path(out, topo, &plan->paths[route->paths[i]]);
    fputc('\n', out);
}

static void print_plan(FILE *out, const topo_t *topo, const plan_t *plan)
{
    fprintf(out, "%s on %s, %u ranks: %s, %u channels\n", blink_name_collective(plan->collective), topo->name,
            plan->rank_count, algorithm_name(plan), plan->channel_count);
    fprintf(out, "rate %.3f GB/s, bound %.3f GB/s (%.1f%%), planned in %.2f ms\n", plan->rate_GBps,
            plan->bound_GBps, plan->bound_GBps > 0.0 ? 100.0 * plan->rate_GBps / plan->bound_GBps : 100.0,
            plan->plan_ms);
    if (plan->turn_count > 0)
        fprintf(out,
                "each channel stands for its %" PRIu64 " images under the hosts' symmetry; shares are of all "
                "of them\n",
                plan_image_count(plan));
    if (plan->channel_count > 0)
        fprintf(out, "%-9s %8s  %-8s %5s  %s\n", "phase", "share", "root", "depth", "edges");
    for (uint32_t c = 0; c < plan->channel_count; c++) {
        const plan_channel_t *channel = &plan->channels[c];
        for (uint32_t i = 0; i < channel->part_count; i++) {
            const plan_part_t *part = &channel->parts[i];
            double share = channel->share / channel->part_count;
            if (part->reduce.parent != NULL)
                print_tree(out, topo, plan, &part->reduce, "reduce", part->root, share);
            if (part->broadcast.parent != NULL)
                print_tree(out, topo, plan, &part->broadcast, "broadcast", part->root, share);
            if (part->route.hop_count > 0)
                print_route(out, topo, plan, &part->route, share);
        }
    }
}

blink_result_t plan_write_table(const topo_t *topo, const plan_t *plan, char **text)
{
    size_t bytes = 0;
    *text = NULL;
    FILE *out = open_memstream(text, &bytes);
    if (out == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to print a plan");
    print_plan(out, topo, plan);
    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        free(*text);
        *text = NULL;
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to print a plan of %u channels",
                          plan->channel_count);
    }
    return BLINK_OK;
}
