/* The collectives whose blocks differ in length: counts of zero, gaps between blocks, in place, in ordinary
 * memory and in groups, and ranks that disagree. */
#include "api.h"

#include <stdlib.h>
#include <string.h>

/* How long the block of a rank is, and where it begins: not in the order of ranks, with gaps, another way on
 * each rank. Rank 1 has none. */
static size_t length_of(int rank)
{
    return rank == 1 ? 0 : (size_t)rank * 700 + 3;
}

enum { APART = 5000, UNTOUCHED = -77 };

typedef struct layout {
    size_t *counts, *offsets;
    size_t total; /* elements that the buffer has */
} layout_t;

static layout_t lay_out(const player_t *p)
{
    size_t ranks = (size_t)p->rank_count;
    layout_t layout = {.counts = calloc(2 * ranks, sizeof(size_t)), .total = APART * ranks};
    layout.offsets = layout.counts + ranks;
    for (size_t rank = 0; rank < ranks; rank++) {
        layout.counts[rank] = length_of((int)rank);
        layout.offsets[rank] = APART * (ranks - 1 - rank) + (size_t)p->rank;
    }
    return layout;
}

static void wipe(const layout_t *layout, int32_t *buffer)
{
    for (size_t i = 0; i < layout->total; i++)
        buffer[i] = UNTOUCHED;
}

/* Blocks begin with 1000 × their rank + first; nothing else may have been written. */
static void must_hold_blocks(const player_t *p, const layout_t *layout, const int32_t *buffer, int32_t first,
                             const char *what)
{
    size_t untouched = 0, expected = layout->total;
    for (int rank = 0; rank < p->rank_count; rank++) {
        must_hold(p, buffer + layout->offsets[rank], layout->counts[rank], 1000 * rank + first, what);
        expected -= layout->counts[rank];
    }
    for (size_t i = 0; i < layout->total; i++)
        untouched += buffer[i] == UNTOUCHED;
    if (untouched != expected)
        fail(p, "%s: %zu elements between blocks, not %zu, are untouched", what, untouched, expected);
}

/* ---- blocks of all ---- */

/* In place this rank's block stands where it is received. */
static int32_t *own_block(const player_t *p, const layout_t *layout, int32_t *buffer, int32_t *apart,
                          bool in_place)
{
    return in_place ? buffer + layout->offsets[p->rank] : apart;
}

static void check_all_gather(const player_t *p, int32_t *all, int32_t *apart, bool in_place)
{
    layout_t layout = lay_out(p);
    size_t own = layout.counts[p->rank];
    int32_t *send = own_block(p, &layout, all, apart, in_place);
    blink_op_t *op;
    wipe(&layout, all);
    fill(send, own, 1000 * p->rank + 7);
    must(p, blink_all_gather_v(send, own, all, layout.counts, layout.offsets, BLINK_INT32, p->comm, &op),
         "all_gather_v");
    must_wait(p, op, "all_gather_v");
    must_hold_blocks(p, &layout, all, 7, "all_gather_v");
    free(layout.counts);
}

static void check_gather(const player_t *p, int root, int32_t *all, int32_t *apart, bool in_place)
{
    bool is_root = p->rank == root;
    layout_t layout = lay_out(p);
    size_t own = layout.counts[p->rank];
    int32_t *send = own_block(p, &layout, all, apart, in_place && is_root);
    blink_op_t *op;
    wipe(&layout, all);
    fill(send, own, 1000 * p->rank + root);
    must(p,
         blink_gather_v(send, own, is_root ? all : NULL, is_root ? layout.counts : NULL,
                        is_root ? layout.offsets : NULL, BLINK_INT32, root, p->comm, &op),
         "gather_v");
    must_wait(p, op, "gather_v");
    if (is_root)
        must_hold_blocks(p, &layout, all, root, "gather_v");
    free(layout.counts);
}

static void check_scatter(const player_t *p, int root, int32_t *all, int32_t *apart, bool in_place)
{
    bool is_root = p->rank == root;
    layout_t layout = lay_out(p);
    size_t own = layout.counts[p->rank];
    int32_t *recv = own_block(p, &layout, all, apart, in_place && is_root);
    blink_op_t *op;
    for (int rank = 0; rank < p->rank_count; rank++)
        fill(all + layout.offsets[rank], layout.counts[rank], 1000 * rank + root);
    must(p,
         blink_scatter_v(is_root ? all : NULL, is_root ? layout.counts : NULL,
                         is_root ? layout.offsets : NULL, recv, own, BLINK_INT32, root, p->comm, &op),
         "scatter_v");
    must_wait(p, op, "scatter_v");
    must_hold(p, recv, own, 1000 * p->rank + root, "scatter_v");
    free(layout.counts);
}

/* Floats whose sum depends on the order of addition. */
static void fill_roughly(const player_t *p, const layout_t *layout, float *buffer)
{
    for (size_t i = 0; i < layout->total; i++)
        buffer[i] = (float)((i * 2654435761u + (size_t)p->rank * 40503u) % 1000003u) / 7.0f;
}

static void reduce_scatter(const player_t *p, const layout_t *layout, const float *send, float *recv)
{
    blink_op_t *op;
    must(p,
         blink_reduce_scatter_v(send, layout->counts, layout->offsets, recv, layout->counts[p->rank],
                                BLINK_FLOAT32, BLINK_SUM, p->comm, &op),
         "reduce_scatter_v");
    must_wait(p, op, "reduce_scatter_v");
}

/* The places of blocks are the same on all ranks here: what is added up has one index. */
static void check_reduce_scatter(const player_t *p, float *all, float *apart)
{
    layout_t layout = lay_out(p);
    size_t own = layout.counts[p->rank];
    for (int rank = 0; rank < p->rank_count; rank++)
        layout.offsets[rank] -= (size_t)p->rank;
    float *in_place = all + layout.offsets[p->rank];
    fill_roughly(p, &layout, all);
    reduce_scatter(p, &layout, all, apart);
    for (size_t i = 0; i < own; i++) {
        double sum = 0;
        for (size_t rank = 0; rank < (size_t)p->rank_count; rank++)
            sum += (float)(((layout.offsets[p->rank] + i) * 2654435761u + rank * 40503u) % 1000003u) / 7.0f;
        if (apart[i] < sum * 0.999999 || apart[i] > sum * 1.000001)
            fail(p, "reduce_scatter_v: element %zu is %f, not %f", i, (double)apart[i], sum);
    }
    reduce_scatter(p, &layout, all, in_place);
    if (memcmp(in_place, apart, own * sizeof(*apart)) != 0)
        fail(p, "reduce_scatter_v: other bits in place than before");
    free(layout.counts);
}

void play_uneven_blocks(const player_t *p)
{
    size_t total = APART * (size_t)p->rank_count;
    int32_t *registered = memory(p, total), *also_registered = memory(p, APART);
    int32_t *ordinary = malloc(total * sizeof(*ordinary)), *also_ordinary = malloc(APART * sizeof(*ordinary));
    for (int i = 0; i < 4; i++) {
        int32_t *all = i < 2 ? registered : ordinary, *apart = i < 2 ? also_registered : also_ordinary;
        bool in_place = i % 2 == 1;
        check_all_gather(p, all, apart, in_place);
        for (int root = 0; root < p->rank_count; root++) {
            check_gather(p, root, all, apart, in_place);
            check_scatter(p, root, all, apart, in_place);
        }
        check_reduce_scatter(p, (float *)all, (float *)apart);
    }
    free(ordinary);
    free(also_ordinary);
}

/* Two of them and something else are one op. */
void play_uneven_blocks_in_a_group(const player_t *p)
{
    layout_t layout = lay_out(p);
    size_t own = layout.counts[p->rank];
    int32_t *send = memory(p, APART), *all = memory(p, layout.total), *root_all = memory(p, layout.total);
    blink_op_t *op;
    wipe(&layout, all);
    wipe(&layout, root_all);
    fill(send, own, 1000 * p->rank);
    must(p, blink_group_start(), "group_start");
    must(p, blink_all_gather_v(send, own, all, layout.counts, layout.offsets, BLINK_INT32, p->comm, NULL),
         "all_gather_v in a group");
    must(p, blink_barrier(p->comm, NULL), "barrier in a group");
    must(p, blink_gather_v(send, own, root_all, layout.counts, layout.offsets, BLINK_INT32, 2, p->comm, NULL),
         "gather_v in a group");
    must(p, blink_group_end(&op), "group_end");
    must_wait(p, op, "group");
    must_hold_blocks(p, &layout, all, 0, "all_gather_v in a group");
    if (p->rank == 2)
        must_hold_blocks(p, &layout, root_all, 0, "gather_v in a group");
    free(layout.counts);
}

/* ---- blocks of every pair ---- */

/* Block lengths that differ for every pair, some of them none. */
void play_all_to_all_v(const player_t *p)
{
    size_t ranks = (size_t)p->rank_count, total = 0;
    size_t *counts = calloc(4 * ranks, sizeof(*counts));
    size_t *from = counts + ranks, *in_offsets = counts + 2 * ranks, *out_offsets = counts + 3 * ranks;
    for (size_t peer = 0; peer < ranks; peer++) {
        counts[peer] = (size_t)p->rank * 3 + peer * 5;
        from[peer] = peer * 3 + (size_t)p->rank * 5;
        in_offsets[peer] = peer * 1000;
        out_offsets[peer] = total;
        total += from[peer];
    }
    int32_t *send = memory(p, 1000 * ranks), *recv = malloc((total + 1) * sizeof(*recv));
    blink_op_t *op;
    for (size_t peer = 0; peer < ranks; peer++)
        fill(send + in_offsets[peer], counts[peer], 10000 * p->rank + 100 * (int)peer);
    must(p, blink_all_to_all_v(send, counts, in_offsets, recv, from, out_offsets, BLINK_INT32, p->comm, &op),
         "all_to_all_v");
    must_wait(p, op, "all_to_all_v");
    for (size_t peer = 0; peer < ranks; peer++)
        must_hold(p, recv + out_offsets[peer], from[peer], 10000 * (int)peer + 100 * p->rank, "block");
    free(recv);
    free(counts);
}

/* ---- ranks that disagree ---- */

/* Rank 1 is wrong about the block of rank 2. */
void play_uneven_blocks_that_disagree(const player_t *p)
{
    layout_t layout = lay_out(p);
    const size_t own = layout.counts[p->rank], wrong = p->rank == 1 ? 1 : 0;
    int32_t *buffer = memory(p, APART), *all = memory(p, layout.total);
    const blink_datatype_t i32 = BLINK_INT32;
    blink_op_t *op;
    layout.counts[2] += wrong;
    must(p, blink_all_gather_v(buffer, own, all, layout.counts, layout.offsets, i32, p->comm, &op),
         "all_gather_v");
    must_fail(p, blink_wait(op), BLINK_ERR_MISMATCH, "gave count 1404", "all_gather_v");
    must(
        p,
        blink_reduce_scatter_v(all, layout.counts, layout.offsets, buffer, own, i32, BLINK_MAX, p->comm, &op),
        "reduce_scatter_v");
    must_fail(p, blink_wait(op), BLINK_ERR_MISMATCH, "gave count 1404", "reduce_scatter_v");
    layout.counts[2] -= wrong;
    must(p, blink_gather_v(buffer, own + wrong, all, layout.counts, layout.offsets, i32, 0, p->comm, &op),
         "gather_v");
    if (p->rank < 2)
        must_fail(p, blink_wait(op), BLINK_ERR_MISMATCH, "rank 1", "gather_v");
    else
        must_wait(p, op, "gather_v of ranks that agree with the root");
    must(p, blink_scatter_v(all, layout.counts, layout.offsets, buffer, own + wrong, i32, 0, p->comm, &op),
         "scatter_v");
    if (p->rank < 2)
        must_fail(p, blink_wait(op), BLINK_ERR_MISMATCH, "rank 1", "scatter_v");
    else
        must_wait(p, op, "scatter_v of ranks that agree with the root");
    must(p, blink_barrier(p->comm, &op), "barrier");
    must_wait(p, op, "the communicator works on");
    free(layout.counts);
}
