/* Plans for Graphviz: an edge per tree and link, in the tree's colour, as wide as what the tree sends there.
 */
#include "plan/show/write.h"

#include "error.h"

#include <stdlib.h>
#include <string.h>

#define WIDEST 6.0 /* pen width of the busiest edge */

static void write_escaped(topo_text_t *text, const char *name)
{
    for (const char *c = name; *c; c++) {
        if (*c == '"' || *c == '\\')
            fputc('\\', text->file);
        fputc(*c, text->file);
    }
}

static void write_nodes(topo_text_t *text, const topo_t *topo, const plan_t *plan, const bool *used)
{
    for (uint32_t node = 0; node < topo->node_count; node++) {
        if (!used[node])
            continue;
        bool gpu = topo->nodes[node].kind == TOPO_DEVICE;
        bool root = plan->root != PLAN_NONE && plan->rank_node[plan->root] == node;
        fputs(" ", text->file);
        topo_text_quoted(text, topo->nodes[node].id);
        fprintf(text->file, " [shape=%s%s];\n", gpu ? "ellipse" : "box", root ? ", penwidth=3" : "");
    }
}

/* How often the branch crosses each link, into crossings[]. */
static void count_crossings(const topo_t *topo, const plan_t *plan, const plan_branch_t *branch,
                            uint32_t *crossings)
{
    memset(crossings, 0, topo->link_count * sizeof(*crossings));
    for (uint32_t place = 0; place < plan_branch_room(plan, branch); place++) {
        uint32_t index = plan_branch_edge(branch, place);
        if (index == PLAN_NONE)
            continue;
        for (uint32_t i = 0; i < plan->paths[index].link_count; i++)
            crossings[plan->paths[index].links[i]]++;
    }
}

static void write_edge(topo_text_t *text, const topo_t *topo, const plan_t *plan, const plan_branch_t *branch,
                       uint32_t link, uint32_t crossings, const char *style)
{
    fputs(" ", text->file);
    topo_text_quoted(text, topo->nodes[topo->links[link].from].id);
    fputs(" -> ", text->file);
    topo_text_quoted(text, topo->nodes[topo->links[link].to].id);
    fprintf(text->file, " [%s, tooltip=\"", style);
    plan_write_branch(text, topo, plan, branch, write_escaped);
    fprintf(text->file, ": %.3f%%", 100.0 * branch->share);
    if (crossings > 1)
        fprintf(text->file, " times %u", crossings);
    fputs("\"];\n", text->file);
}

/* The largest load that one branch puts on one link, and the nodes that carry anything. */
static double survey(const topo_t *topo, const plan_t *plan, uint32_t *crossings, bool *used)
{
    plan_walk_t walk = {0};
    plan_branch_t branch;
    double largest = 0.0;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        used[plan->rank_node[rank]] = true;
    while (plan_walk_next(plan, &walk, &branch)) {
        count_crossings(topo, plan, &branch, crossings);
        for (uint32_t link = 0; link < topo->link_count; link++) {
            if (crossings[link] == 0)
                continue;
            used[topo->links[link].from] = used[topo->links[link].to] = true;
            largest = branch.share * crossings[link] > largest ? branch.share * crossings[link] : largest;
        }
    }
    return largest;
}

static void write_graph(topo_text_t *text, const topo_t *topo, const plan_t *plan, uint32_t *crossings,
                        bool *used)
{
    plan_walk_t walk = {0};
    plan_branch_t branch;
    char colour[PLAN_COLOUR_BYTES], style[64];
    uint32_t count = (uint32_t)plan_tree_count(plan);
    double largest = survey(topo, plan, crossings, used);
    fputs("digraph plan {\n label=\"", text->file);
    plan_write_heading(text, topo, plan, write_escaped);
    fprintf(text->file,
            "\\nrate %.3f GB/s, bound %.3f GB/s\";\n node [fontname=\"sans-serif\"];\n"
            " edge [fontname=\"sans-serif\", fontsize=9];\n",
            plan->rate_GBps, plan->bound_GBps);
    write_nodes(text, topo, plan, used);
    for (uint32_t index = 0; plan_walk_next(plan, &walk, &branch); index++) {
        count_crossings(topo, plan, &branch, crossings);
        for (uint32_t link = 0; link < topo->link_count; link++) {
            if (crossings[link] == 0)
                continue;
            snprintf(style, sizeof(style), "color=\"%s\", penwidth=%.2f", plan_colour(index, count, colour),
                     0.3 + WIDEST * branch.share * crossings[link] / largest);
            write_edge(text, topo, plan, &branch, link, crossings[link], style);
        }
    }
    fputs("}\n", text->file);
}

blink_result_t plan_write_dot(const topo_t *topo, const plan_t *plan, char **result)
{
    const plan_t *all;
    topo_text_t text;
    BLINK_TRY(plan_acquire_images(topo, plan, &all));
    blink_result_t status = BLINK_OK;
    uint32_t *crossings = calloc(topo->link_count + 1u, sizeof(*crossings));
    bool *used = calloc(topo->node_count, sizeof(*used));
    if (!crossings || !used)
        status = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to draw %u links", topo->link_count);
    if (status == BLINK_OK)
        status = topo_text_open(&text);
    if (status == BLINK_OK) {
        write_graph(&text, topo, all, crossings, used);
        status = topo_text_close(&text, result);
    }
    free(used);
    free(crossings);
    plan_release_images(plan, all);
    return status;
}
