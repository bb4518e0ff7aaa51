/* Hamiltonian cycle packing for rings. It knows only a matrix of edge counts. */
#include "plan/baseline/nccl/cycles.h"

#include "error.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define EXHAUSTIVE_NODES 8u
#define LISTED_MAX       5040u /* (8 - 1)!: all there can be */
#define LIST_STEPS       2000000u
#define PACK_STEPS       100000u

struct plan_cycles {
    uint32_t n;
    uint32_t *left;   /* n·n: edges not used yet */
    uint32_t *listed; /* cycles found, n nodes each */
    uint32_t listed_count, listed_room;
    uint32_t *times; /* per listed cycle: in the packing being tried */
    uint32_t *best;  /* per listed cycle: in the best packing so far */
    uint32_t best_sum;
    uint32_t steps; /* left of the budget */
    uint32_t *path; /* n: scratch */
    bool *used;     /* n: scratch */
};

blink_result_t plan_cycles_create(uint32_t n, plan_cycles_t **out)
{
    plan_cycles_t *c = calloc(1, sizeof(*c));
    if (!c)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to search rings");
    c->n = n;
    c->left = calloc((size_t)n * n, sizeof(*c->left));
    c->path = calloc(n, sizeof(*c->path));
    c->used = calloc(n, sizeof(*c->used));
    if (!c->left || !c->path || !c->used) {
        plan_cycles_destroy(c);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to search rings over %u ranks", n);
    }
    *out = c;
    return BLINK_OK;
}

void plan_cycles_destroy(plan_cycles_t *c)
{
    if (!c)
        return;
    free(c->left);
    free(c->listed);
    free(c->times);
    free(c->best);
    free(c->path);
    free(c->used);
    free(c);
}

void plan_cycles_add_edge(plan_cycles_t *c, uint32_t from, uint32_t to, uint32_t times)
{
    c->left[from * c->n + to] += times;
}

uint32_t plan_cycles_count(const plan_cycles_t *c)
{
    return c->listed_count;
}

const uint32_t *plan_cycles_get(const plan_cycles_t *c, uint32_t index, uint32_t *times)
{
    *times = c->best[index];
    return &c->listed[(size_t)index * c->n];
}

static blink_result_t record(plan_cycles_t *c)
{
    if (c->listed_count == c->listed_room) {
        uint32_t room = 4 * c->listed_room + 16;
        uint32_t *listed = realloc(c->listed, (size_t)room * c->n * sizeof(*listed));
        if (listed)
            c->listed = listed;
        uint32_t *times = realloc(c->times, room * sizeof(*times));
        if (times)
            c->times = times;
        uint32_t *best = realloc(c->best, room * sizeof(*best));
        if (best)
            c->best = best;
        if (!listed || !times || !best)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u rings", room);
        c->listed_room = room;
    }
    memcpy(&c->listed[(size_t)c->listed_count * c->n], c->path, c->n * sizeof(*c->path));
    c->times[c->listed_count] = c->best[c->listed_count] = 0;
    c->listed_count++;
    return BLINK_OK;
}

/* The next node after `last` to stand at this position of the path, or n. */
static uint32_t next_node(const plan_cycles_t *c, uint32_t position, uint32_t last)
{
    const uint32_t *edges = &c->left[(size_t)c->path[position - 1] * c->n];
    uint32_t node = last + 1;
    while (node < c->n && (c->used[node] || edges[node] == 0))
        node++;
    return node;
}

/* List cycles over the edges left, in lexicographic order from node 0, until `most` more are found. */
static blink_result_t list_cycles(plan_cycles_t *c, uint32_t most)
{
    uint32_t position = 1, wanted = c->listed_count + most, last = 0;
    memset(c->used, 0, c->n * sizeof(*c->used));
    c->path[0] = 0;
    for (uint32_t steps = 0; position > 0 && c->listed_count < wanted && steps < LIST_STEPS; steps++) {
        uint32_t node = next_node(c, position, last);
        if (node == c->n) {
            last = c->path[--position];
            c->used[last] = false;
        } else if (position + 1 < c->n) {
            c->path[position++] = node;
            c->used[node] = true;
            last = 0;
        } else {
            c->path[position] = last = node;
            if (c->left[(size_t)node * c->n] > 0)
                BLINK_TRY(record(c));
        }
    }
    return BLINK_OK;
}

/* How many times the cycle still fits. */
static uint32_t room_for(const plan_cycles_t *c, uint32_t index)
{
    const uint32_t *cycle = &c->listed[(size_t)index * c->n];
    uint32_t room = UINT32_MAX;
    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t left = c->left[(size_t)cycle[i] * c->n + cycle[(i + 1) % c->n]];
        room = left < room ? left : room;
    }
    return room;
}

/* Use the cycle `times` more, or give uses back if negative. */
static void use(plan_cycles_t *c, uint32_t index, int64_t times)
{
    const uint32_t *cycle = &c->listed[(size_t)index * c->n];
    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t *left = &c->left[(size_t)cycle[i] * c->n + cycle[(i + 1) % c->n]];
        *left = (uint32_t)(*left - times);
    }
    c->times[index] = (uint32_t)(c->times[index] + times);
}

/* No more cycles fit than the poorest node has edges left, in or out. */
static uint32_t most_left(const plan_cycles_t *c)
{
    uint32_t most = UINT32_MAX;
    for (uint32_t node = 0; node < c->n; node++) {
        uint32_t in = 0, out = 0;
        for (uint32_t other = 0; other < c->n; other++) {
            in += c->left[(size_t)other * c->n + node];
            out += c->left[(size_t)node * c->n + other];
        }
        uint32_t least = in < out ? in : out;
        most = least < most ? least : most;
    }
    return most;
}

/* Depth first over the choices of cycles from `first` on, each as often as it fits; at most n edges deep per
 * node. */
static void pack_from(plan_cycles_t *c, uint32_t first, uint32_t sum)
{
    if (sum > c->best_sum) {
        c->best_sum = sum;
        memcpy(c->best, c->times, c->listed_count * sizeof(*c->best));
    }
    if (sum + most_left(c) <= c->best_sum)
        return;
    for (uint32_t i = first; i < c->listed_count && c->steps > 0; i++) {
        c->steps--;
        if (room_for(c, i) == 0)
            continue;
        use(c, i, 1);
        pack_from(c, i, sum + 1);
        use(c, i, -1);
    }
}

/* Keep only the cycles in use. */
static void drop_unused(plan_cycles_t *c)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->listed_count; i++) {
        if (c->best[i] == 0)
            continue;
        memmove(&c->listed[(size_t)kept * c->n], &c->listed[(size_t)i * c->n], c->n * sizeof(*c->listed));
        c->best[kept++] = c->best[i];
    }
    c->listed_count = kept;
}

blink_result_t plan_cycles_find_one(plan_cycles_t *c)
{
    uint32_t before = c->listed_count;
    BLINK_TRY(list_cycles(c, 1));
    if (c->listed_count > before)
        c->best[before] = room_for(c, before);
    return BLINK_OK;
}

blink_result_t plan_cycles_pack(plan_cycles_t *c)
{
    if (c->n <= EXHAUSTIVE_NODES) {
        BLINK_TRY(list_cycles(c, LISTED_MAX));
        c->steps = PACK_STEPS;
        pack_from(c, 0, 0);
        drop_unused(c);
        return BLINK_OK;
    }
    for (uint32_t before = 0;; before++) {
        BLINK_TRY(plan_cycles_find_one(c));
        if (c->listed_count == before)
            return BLINK_OK;
        use(c, before, c->best[before]);
    }
}
