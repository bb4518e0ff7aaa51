/* Plans as blink-plan/1. Written piece by piece, not as a tree of JSON values: a plan of a thousand ranks has
 * hundreds of thousands of edges. */
#include "plan/show/write.h"

#include "error.h"
#include "names.h"
#include "plan/bytes/bytes.h"

#include <math.h>
#include <string.h>

static void write_member(topo_text_t *text, const char *key, const char *value)
{
    fprintf(text->file, "\"%s\": ", key);
    topo_text_quoted(text, value);
}

/* Always with a point or an exponent, so that readers that tell integers from reals get a real. */
static void write_real(topo_text_t *text, const char *key, double value)
{
    fprintf(text->file, "\"%s\": ", key);
    topo_text_number(text, value);
    if (value == floor(value) && fabs(value) < 1e15)
        fputs(".0", text->file);
}

static void write_path(topo_text_t *text, const topo_t *topo, const plan_path_t *path)
{
    fputs("{\"path\": [", text->file);
    topo_text_quoted(text, topo->nodes[topo->links[path->links[0]].from].id);
    for (uint32_t i = 0; i < path->link_count; i++) {
        fputs(", ", text->file);
        topo_text_quoted(text, topo->nodes[topo->links[path->links[i]].to].id);
    }
    fputs("]}", text->file);
}

/* The switch in which the edges of a tree by multicast meet. */
static uint32_t meeting_of(const topo_t *topo, const plan_t *plan, const plan_branch_t *branch)
{
    return topo->links[plan->paths[branch->tree->path[branch->root]].links[0]].to;
}

static void write_branch(topo_text_t *text, const topo_t *topo, const plan_t *plan,
                         const plan_branch_t *branch)
{
    fputs("  {", text->file);
    write_member(text, "phase", branch->phase);
    fputs(", ", text->file);
    write_member(text, branch->tree ? "root" : "from", plan_rank_id(topo, plan, branch->root));
    if (!branch->tree) {
        fputs(", ", text->file);
        write_member(text, "to", plan_rank_id(topo, plan, branch->to));
    }
    fputs(", ", text->file);
    write_real(text, "share", branch->share);
    if (plan->algorithm == BLINK_ALGORITHM_MULTICAST) {
        fputs(", ", text->file);
        write_member(text, "switch", topo->nodes[meeting_of(topo, plan, branch)].id);
    }
    fputs(", \"edges\": [", text->file);
    const char *separator = "\n   ";
    for (uint32_t place = 0; place < plan_branch_room(plan, branch); place++) {
        uint32_t path = plan_branch_edge(branch, place);
        if (path == PLAN_NONE)
            continue;
        fputs(separator, text->file);
        write_path(text, topo, &plan->paths[path]);
        separator = ",\n   ";
    }
    fputs("]}", text->file);
}

/* Left out of a plan that is too large to be shipped. */
static void write_digest(topo_text_t *text, const topo_t *topo, const plan_t *plan)
{
    uint64_t digest;
    char name[PLAN_DIGEST_BYTES];
    if (plan_digest(topo, plan, &digest) != BLINK_OK)
        return;
    fputs(",\n ", text->file);
    write_member(text, "plan", plan_digest_text(digest, name));
}

/* `plan` with all its images. */
static void write_head(topo_text_t *text, const topo_t *topo, const plan_t *plan)
{
    fputs("{\n ", text->file);
    write_member(text, "schema", "blink-plan/1");
    fputs(",\n ", text->file);
    write_member(text, "collective", blink_name_collective(plan->collective));
    fputs(",\n ", text->file);
    write_member(text, "topology", topo->name);
    fputs(",\n \"ranks\": [", text->file);
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        fputs(rank > 0 ? ", " : "", text->file);
        topo_text_quoted(text, plan_rank_id(topo, plan, rank));
    }
    fputs("],\n ", text->file);
    if (plan->root == PLAN_NONE)
        fputs("\"root\": null", text->file);
    else
        write_member(text, "root", plan_rank_id(topo, plan, plan->root));
    fputs(",\n ", text->file);
    write_member(text, "algorithm", plan_algorithm_label(plan));
    fputs(",\n ", text->file);
    write_real(text, "rate_GBps", plan->rate_GBps);
    fputs(",\n ", text->file);
    write_real(text, "bound_GBps", plan->bound_GBps);
    fputs(",\n ", text->file);
    write_real(text, "plan_ms", plan->plan_ms);
}

blink_result_t plan_write_json(const topo_t *topo, const plan_t *plan, char **result)
{
    const plan_t *all;
    topo_text_t text;
    BLINK_TRY(plan_acquire_images(topo, plan, &all));
    blink_result_t status = topo_text_open(&text);
    if (status == BLINK_OK) {
        plan_walk_t walk = {0};
        plan_branch_t branch;
        const char *separator = "\n";
        write_head(&text, topo, all);
        write_digest(&text, topo, plan);
        fputs(",\n \"trees\": [", text.file);
        for (; plan_walk_next(all, &walk, &branch); separator = ",\n") {
            fputs(separator, text.file);
            write_branch(&text, topo, all, &branch);
        }
        fputs("]\n}\n", text.file);
        status = topo_text_close(&text, result);
    }
    plan_release_images(plan, all);
    return status;
}
