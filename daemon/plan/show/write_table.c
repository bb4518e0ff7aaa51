/* Plans as a table for people: what was asked, what it comes to, then a row per tree or route. */
#include "plan/show/write.h"

#include "collective.h"
#include "error.h"
#include "plan/bytes/bytes.h"
#include "plan/predict.h"
#include "plan/show/phases.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH          120 /* of the page, where ids are short enough */
#define RANKS_IN_FULL  64u /* more than that: edges are counted, not listed */
#define COLUMNS_BEFORE 39  /* of the edges, but for the root's width */

static void write_plain(topo_text_t *text, const char *name)
{
    fputs(name, text->file);
}

static uint32_t path_width(const topo_t *topo, const plan_path_t *path)
{
    size_t bytes = strlen(topo->nodes[topo->links[path->links[0]].from].id);
    for (uint32_t i = 0; i < path->link_count; i++)
        bytes += 1 + strlen(topo->nodes[topo->links[path->links[i]].to].id);
    return (uint32_t)bytes;
}

static void write_path(topo_text_t *text, const topo_t *topo, const plan_path_t *path)
{
    fputs(topo->nodes[topo->links[path->links[0]].from].id, text->file);
    for (uint32_t i = 0; i < path->link_count; i++)
        fprintf(text->file, ">%s", topo->nodes[topo->links[path->links[i]].to].id);
}

/* Separated by spaces, wrapped under one another. */
static void write_edges(topo_text_t *text, const topo_t *topo, const plan_t *plan,
                        const plan_branch_t *branch, uint32_t indent)
{
    uint32_t column = indent;
    for (uint32_t place = 0; place < plan_branch_room(plan, branch); place++) {
        uint32_t index = plan_branch_edge(branch, place);
        if (index == PLAN_NONE)
            continue;
        uint32_t width = path_width(topo, &plan->paths[index]);
        if (column > indent && column + 1 + width > WIDTH) {
            fprintf(text->file, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', text->file);
            column++;
        }
        write_path(text, topo, &plan->paths[index]);
        column += width;
    }
}

static uint32_t count_edges(const plan_t *plan, const plan_branch_t *branch)
{
    uint32_t count = 0;
    for (uint32_t place = 0; place < plan_branch_room(plan, branch); place++)
        count += plan_branch_edge(branch, place) != PLAN_NONE;
    return count;
}

static int root_width(const topo_t *topo, const plan_t *plan)
{
    size_t width = 4;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        size_t bytes = strlen(plan_rank_id(topo, plan, rank));
        width = bytes > width ? bytes : width;
    }
    return (int)width;
}

static void write_branches(topo_text_t *text, const topo_t *topo, const plan_t *plan)
{
    plan_walk_t walk = {0};
    plan_branch_t branch;
    int width = root_width(topo, plan);
    fprintf(text->file, "\n%-7s  %-9s  %8s  %-*s  %5s  edges\n", "channel", "phase", "share", width, "root",
            "depth");
    while (plan_walk_next(plan, &walk, &branch)) {
        fprintf(text->file, "%7u  %-9s  %7.3f%%  %-*s  %5u  ", branch.channel, branch.phase,
                branch.share * 100.0, width, plan_rank_id(topo, plan, branch.root),
                plan_branch_depth(plan, &branch));
        if (plan->rank_count > RANKS_IN_FULL)
            fprintf(text->file, "%u", count_edges(plan, &branch));
        else
            write_edges(text, topo, plan, &branch, COLUMNS_BEFORE + (uint32_t)width);
        fputc('\n', text->file);
    }
}

/* By which a daemon names it, too; a plan that no host makes for others has none. */
static void write_name(topo_text_t *text, const topo_t *topo, const plan_t *plan)
{
    uint64_t digest;
    char name[PLAN_DIGEST_BYTES];
    if (plan_digest(topo, plan, &digest) == BLINK_OK)
        fprintf(text->file, "\nplan %s", plan_digest_text(digest, name));
}

static void write_summary(topo_text_t *text, const topo_t *topo, const plan_t *plan)
{
    plan_write_heading(text, topo, plan, write_plain);
    if (plan->channel_count == 0) {
        fputs("\nnothing moves\n", text->file);
        return;
    }
    write_name(text, topo, plan);
    uint64_t images = plan_image_count(plan), trees = plan_tree_count(plan);
    fprintf(text->file, "\n%s %" PRIu64 ", channels %" PRIu64 ", depth %u\n",
            collective_routes(plan->collective) ? "routes" : "trees", trees, images * plan->channel_count,
            plan_depth(plan));
    fprintf(text->file, "rate %.3f GB/s, bound %.3f GB/s (%.1f%%), planned in %.2f ms\n", plan->rate_GBps,
            plan->bound_GBps, plan->bound_GBps > 0.0 ? 100.0 * plan->rate_GBps / plan->bound_GBps : 100.0,
            plan->plan_ms);
    if (plan->algorithm == BLINK_ALGORITHM_MULTICAST)
        fputs("switches reduce and copy: a link carries the share of a tree once, the root's in both "
              "directions\n",
              text->file);
    if (plan->symmetry_count > 0)
        fprintf(text->file,
                "shown: %u of the channels; each stands for its %" PRIu64
                " images under the hosts' symmetry, shares are of all of them\n",
                plan->channel_count, images);
}

static void write_prediction(topo_text_t *text, const plan_t *plan, uint64_t payload_bytes,
                             double predicted_us)
{
    double algbw_GBps = (double)payload_bytes / predicted_us / 1e3;
    fprintf(text->file, "%" PRIu64 " bytes: %.1f us predicted, %.3f GB/s, busbw %.3f GB/s\n", payload_bytes,
            predicted_us, algbw_GBps,
            algbw_GBps * collective_busbw_factor(plan->collective, plan->rank_count));
}

static blink_result_t write_table(const topo_t *topo, const plan_t *plan, uint64_t payload_bytes,
                                  const char *phases, char **result)
{
    double predicted_us = 0.0;
    topo_text_t text;
    if (payload_bytes > 0)
        BLINK_TRY(plan_predict_us(topo, plan, payload_bytes, plan->protocol, 0, &predicted_us));
    BLINK_TRY(topo_text_open(&text));
    write_summary(&text, topo, plan);
    fputs(phases, text.file);
    if (payload_bytes > 0)
        write_prediction(&text, plan, payload_bytes, predicted_us);
    else if (plan->channel_count > 0)
        fputs(
            "for payloads so large that only the rate counts: --bytes SIZE plans for a size and predicts its "
            "time\n",
            text.file);
    if (plan->channel_count > 0)
        write_branches(&text, topo, plan);
    return topo_text_close(&text, result);
}

blink_result_t plan_write_table(const topo_t *topo, const plan_t *plan, uint64_t payload_bytes, char **text)
{
    char *phases;
    BLINK_TRY(plan_phases_describe(topo, plan, &phases));
    blink_result_t result = write_table(topo, plan, payload_bytes, phases, text);
    free(phases);
    return result;
}
