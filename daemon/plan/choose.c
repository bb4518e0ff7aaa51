/* The contest of plan/choose.h, and the planner's way in, which holds it where nobody named an algorithm. */
#include "plan/choose.h"

#include "base/clock.h"
#include "base/vec.h"
#include "names.h"
#include "plan/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CROSSOVER_PRECISION 64u

/* One hop comes first for it has the fewest channels; Simple, for its links carry nothing but payload. */
static const struct {
    blink_algorithm_t algorithm;
    bool every_pair; /* too slow beyond PLAN_CHOOSE_PAIRS_MOST ranks */
    bool few_peers;  /* contends only where peers are limited */
    bool multicast;  /* contends only where switches can be made to reduce and copy */
} contest[] = {
    {BLINK_ALGORITHM_ONE_HOP, true, false, false},
    {BLINK_ALGORITHM_TREES, false, false, false},
    {BLINK_ALGORITHM_RING, false, false, false},
    {BLINK_ALGORITHM_SHALLOW_TREES, true, false, false},
    {BLINK_ALGORITHM_RECURSIVE_DOUBLING, true, false, false},
    {BLINK_ALGORITHM_BINOMIAL, false, false, false},
    {BLINK_ALGORITHM_DOUBLE_BINARY_TREE, false, true, false},
    {BLINK_ALGORITHM_MULTICAST, false, false, true},
};
static const blink_protocol_t protocols[] = {BLINK_PROTOCOL_SIMPLE, BLINK_PROTOCOL_LL128, BLINK_PROTOCOL_LL};

#define CONTEST_COUNT  (sizeof(contest) / sizeof(contest[0]))
#define PROTOCOL_COUNT (sizeof(protocols) / sizeof(protocols[0]))

/* Shallow trees send several plans. */
#define CONTENDERS_MOST (CONTEST_COUNT + PLAN_SHALLOW_MOST - 1)

/* ---- planning ---- */

static bool runs_on_nvlink(const topo_t *topo, const plan_t *plan)
{
    for (uint32_t i = 0; i < plan->path_count; i++)
        for (uint32_t hop = 0; hop < plan->paths[i].link_count; hop++)
            if (!topo_is_nvlink(&topo->links[plan->paths[i].links[hop]]))
                return false;
    return true;
}

/* For the code with this thread's error text. */
static void mark_refused(plan_candidate_t *candidate, blink_result_t result)
{
    candidate->result = result;
    strncpy(candidate->text, blink_error_text(), sizeof(candidate->text) - 1);
}

static blink_result_t refuse(plan_choice_t *choice, blink_algorithm_t algorithm, blink_protocol_t protocol,
                             blink_result_t result)
{
    plan_candidate_t *candidate = &choice->candidates[choice->count++];
    *candidate = (plan_candidate_t){.algorithm = algorithm, .protocol = protocol};
    mark_refused(candidate, result);
    return result == BLINK_ERR_NO_MEMORY ? result : BLINK_OK;
}

blink_result_t plan_contender_init(const topo_t *topo, plan_t *plan, plan_contender_t *contender)
{
    *contender = (plan_contender_t){
        .algorithm = plan->algorithm, .all_nvlink = runs_on_nvlink(topo, plan), .plan = plan};
    BLINK_TRY(plan_count_blocks(plan, &contender->blocks));
    return plan_predictor_create(topo, plan, &contender->predictor);
}

void plan_contender_fini(plan_contender_t *contender)
{
    plan_destroy(contender->plan);
    plan_predictor_destroy(contender->predictor);
}

bool plan_contender_may_use(const plan_contender_t *contender, blink_protocol_t protocol)
{
    bool fits = contender->blocks_most == 0 ||
                plan_blocks_under(&contender->blocks, protocol) <= contender->blocks_most;
    if (protocol != BLINK_PROTOCOL_SIMPLE && contender->algorithm == BLINK_ALGORITHM_MULTICAST)
        return false;
    return fits && (protocol != BLINK_PROTOCOL_LL128 || contender->all_nvlink);
}

/* Take a plan into the contest; it is the choice's from now on. */
static blink_result_t add_contender(const topo_t *topo, const plan_request_t *request, plan_t *plan,
                                    plan_choice_t *choice)
{
    plan_contender_t *contender = &choice->contenders[choice->contender_count++];
    BLINK_TRY(plan_contender_init(topo, plan, contender));
    plan_predictor_charge_moves(contender->predictor, request->move_us);
    return request->peers_most == 0 ? BLINK_OK : plan_peers_most(topo, plan, &contender->peers);
}

static blink_result_t add_shallow(const topo_t *topo, const plan_request_t *request, plan_choice_t *choice)
{
    plan_t *plans[PLAN_SHALLOW_MOST];
    uint32_t count = 0;
    blink_result_t result = plan_create_shallow(topo, request, plans, &count);
    for (uint32_t i = 0; i < count; i++)
        if (result == BLINK_OK)
            result = add_contender(topo, request, plans[i], choice);
        else
            plan_destroy(plans[i]);
    return result;
}

/* Plan by the request's algorithm: its contenders stand behind those there are. */
static blink_result_t add_contenders(const topo_t *topo, const plan_request_t *request, bool every_pair,
                                     plan_choice_t *choice)
{
    plan_t *plan = NULL;
    if (topo_is_plain_memory(topo)) {
        if (request->algorithm != BLINK_ALGORITHM_ONE_HOP)
            return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                              "left out: in plain memory one hop reads and writes every element just once");
        every_pair = false;
    }
    if (every_pair && request->rank_count > PLAN_CHOOSE_PAIRS_MOST)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "left out: planning it for %u ranks takes too long (most: %u)", request->rank_count,
                          PLAN_CHOOSE_PAIRS_MOST);
    if (request->algorithm == BLINK_ALGORITHM_SHALLOW_TREES)
        return add_shallow(topo, request, choice);
    BLINK_TRY(plan_create_unproven(topo, request, &plan));
    return add_contender(topo, request, plan, choice);
}

static void add_candidates(const topo_t *topo, uint32_t index, uint64_t bytes, plan_choice_t *choice)
{
    const plan_contender_t *contender = &choice->contenders[index];
    const plan_t *plan = contender->plan;
    bool plain_memory = topo_is_plain_memory(topo);
    for (size_t i = 0; i < PROTOCOL_COUNT; i++) {
        if (plain_memory && protocols[i] != BLINK_PROTOCOL_SIMPLE) {
            blink_error_set(BLINK_ERR_UNSUPPORTED, "a direct exchange has no flags");
            (void)refuse(choice, contender->algorithm, protocols[i], BLINK_ERR_UNSUPPORTED);
            continue;
        }
        if (!plan_contender_may_use(contender, protocols[i])) {
            blink_error_set(BLINK_ERR_UNSUPPORTED, contender->algorithm == BLINK_ALGORITHM_MULTICAST
                                                       ? "a switch that reduces would add up flags, too"
                                                       : "LL128 needs NVLink on every path");
            (void)refuse(choice, contender->algorithm, protocols[i], BLINK_ERR_UNSUPPORTED);
            continue;
        }
        choice->candidates[choice->count++] = (plan_candidate_t){
            .algorithm = contender->algorithm,
            .protocol = protocols[i],
            .predicted_us = plan_predictor_us(contender->predictor, bytes, protocols[i], 0),
            .latency_us = plan_predictor_us(contender->predictor, 0, protocols[i], 0),
            .rate_GBps = plan->rate_GBps,
            .chunk_bytes = plan_predictor_chunk(contender->predictor, bytes, protocols[i]),
            .channel_count = plan_image_count(plan) * plan->channel_count,
            .depth = plan_predictor_depth(contender->predictor),
            .contender = index};
    }
}

/* The first candidate as good as the fastest; 0 if none is good. */
static uint32_t find_fastest(const plan_choice_t *choice)
{
    double least_us = INFINITY;
    for (uint32_t i = 0; i < choice->count; i++)
        if (choice->candidates[i].result == BLINK_OK)
            least_us = fmin(least_us, choice->candidates[i].predicted_us);
    for (uint32_t i = 0; i < choice->count; i++)
        if (choice->candidates[i].result == BLINK_OK &&
            choice->candidates[i].predicted_us <= least_us * (1.0 + PLAN_CHOOSE_TIE))
            return i;
    return 0;
}

/* Of candidates with too many peers none is one, if there are others. */
static void limit_peers(plan_choice_t *choice, uint32_t most)
{
    bool others = false;
    for (uint32_t i = 0; i < choice->contender_count; i++)
        others |= choice->contenders[i].peers <= most;
    for (uint32_t i = 0; i < choice->count && others; i++) {
        plan_candidate_t *candidate = &choice->candidates[i];
        plan_contender_t *contender = &choice->contenders[candidate->contender];
        if (candidate->result != BLINK_OK || contender->peers <= most)
            continue;
        contender->excluded = true;
        mark_refused(candidate,
                     blink_error_set(BLINK_ERR_UNSUPPORTED,
                                     "left out: a host would have %u peers (most: %u); predicted are %.1f us",
                                     contender->peers, most, candidate->predicted_us));
    }
}

static uint64_t blocks_of(const plan_choice_t *choice, const plan_candidate_t *candidate)
{
    return plan_blocks_under(&choice->contenders[candidate->contender].blocks, candidate->protocol);
}

/* Blocks wait for one another, so that a device must run all of them at once: of candidates with more blocks
 * than that none is one, if there are others. */
static void limit_blocks(plan_choice_t *choice, uint32_t most)
{
    bool others = false;
    for (uint32_t i = 0; i < choice->count; i++) {
        const plan_candidate_t *c = &choice->candidates[i];
        others |= c->result == BLINK_OK && blocks_of(choice, c) <= most;
    }
    for (uint32_t i = 0; i < choice->contender_count && others; i++)
        choice->contenders[i].blocks_most = most;
    for (uint32_t i = 0; i < choice->count && others; i++) {
        plan_candidate_t *c = &choice->candidates[i];
        if (c->result == BLINK_OK && blocks_of(choice, c) > most)
            mark_refused(c, blink_error_set(BLINK_ERR_UNSUPPORTED,
                                            "left out: it takes %llu blocks of a GPU, which runs %u at the "
                                            "same time; predicted are %.1f us",
                                            (unsigned long long)blocks_of(choice, c), most, c->predicted_us));
    }
}

static bool precedes(const plan_candidate_t *a, const plan_candidate_t *b)
{
    if (a->result != BLINK_OK || b->result != BLINK_OK)
        return a->result == BLINK_OK && b->result != BLINK_OK;
    return a->predicted_us < b->predicted_us;
}

static void move_up(plan_candidate_t *candidates, uint32_t from, uint32_t to)
{
    plan_candidate_t moved = candidates[from];
    memmove(&candidates[to + 1], &candidates[to], (from - to) * sizeof(*candidates));
    candidates[to] = moved;
}

static void sort_candidates(plan_choice_t *choice)
{
    move_up(choice->candidates, find_fastest(choice), 0);
    for (uint32_t i = 2; i < choice->count; i++) {
        uint32_t at = i;
        while (at > 1 && precedes(&choice->candidates[i], &choice->candidates[at - 1]))
            at--;
        move_up(choice->candidates, i, at);
    }
}

static const plan_t *packed_trees(const plan_choice_t *choice)
{
    for (uint32_t i = 0; i < choice->contender_count; i++)
        if (choice->contenders[i].algorithm == BLINK_ALGORITHM_TREES)
            return choice->contenders[i].plan;
    return NULL;
}

static blink_result_t pick_best(const topo_t *topo, plan_choice_t *choice)
{
    const plan_candidate_t *first = &choice->candidates[0];
    if (first->result != BLINK_OK) {
        while (first->algorithm != BLINK_ALGORITHM_TREES)
            first++;
        return BLINK_FAIL(first->result, "%s", first->text);
    }
    choice->best = choice->contenders[first->contender].plan;
    choice->best->protocol = first->protocol;
    return plan_prove_bound(topo, choice->best, packed_trees(choice));
}

static blink_result_t hold_contest(const topo_t *topo, plan_request_t request, plan_choice_t *choice)
{
    for (size_t i = 0; i < CONTEST_COUNT; i++) {
        uint32_t first = choice->contender_count;
        if ((contest[i].few_peers && request.peers_most == 0) || (contest[i].multicast && !request.multicast))
            continue;
        request.algorithm = contest[i].algorithm;
        blink_result_t result = add_contenders(topo, &request, contest[i].every_pair, choice);
        if (result != BLINK_OK)
            BLINK_TRY(refuse(choice, contest[i].algorithm, BLINK_PROTOCOL_SIMPLE, result));
        for (uint32_t c = first; result == BLINK_OK && c < choice->contender_count; c++)
            add_candidates(topo, c, request.bytes, choice);
    }
    if (request.blocks_most > 0)
        limit_blocks(choice, request.blocks_most);
    choice->unlimited = choice->candidates[find_fastest(choice)];
    if (request.peers_most > 0)
        limit_peers(choice, request.peers_most);
    sort_candidates(choice);
    return pick_best(topo, choice);
}

blink_result_t plan_choose(const topo_t *topo, const plan_request_t *request, plan_choice_t *choice)
{
    BLINK_TRY(plan_check_request(topo, request));
    *choice = (plan_choice_t){
        .candidates = calloc(CONTENDERS_MOST * PROTOCOL_COUNT, sizeof(*choice->candidates)),
        .contenders = calloc(CONTENDERS_MOST, sizeof(*choice->contenders)),
    };
    blink_result_t result = BLINK_OK;
    if (!choice->candidates || !choice->contenders)
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a choice of plans");
    if (result == BLINK_OK)
        result = hold_contest(topo, *request, choice);
    if (result != BLINK_OK)
        plan_choice_fini(choice);
    return result;
}

void plan_choice_fini(plan_choice_t *choice)
{
    for (uint32_t i = 0; i < choice->contender_count; i++)
        plan_contender_fini(&choice->contenders[i]);
    free(choice->contenders);
    free(choice->candidates);
    *choice = (plan_choice_t){0};
}

plan_t *plan_choice_take(plan_choice_t *choice)
{
    plan_t *taken = choice->best;
    for (uint32_t i = 0; i < choice->contender_count; i++)
        if (choice->contenders[i].plan == taken)
            choice->contenders[i].plan = NULL;
    choice->best = NULL;
    return taken;
}

/* ---- crossovers ---- */

typedef VEC(plan_crossover_t) crossovers_t;

/* As find_fastest(), at another size. */
static plan_crossover_t fastest_at(const plan_choice_t *choice, uint64_t bytes)
{
    double predicted_us[CONTENDERS_MOST][PROTOCOL_COUNT], least_us = INFINITY;
    for (uint32_t c = 0; c < choice->contender_count; c++)
        for (size_t i = 0; i < PROTOCOL_COUNT; i++) {
            const plan_contender_t *contender = &choice->contenders[c];
            predicted_us[c][i] = !contender->excluded && plan_contender_may_use(contender, protocols[i])
                                     ? plan_predictor_us(contender->predictor, bytes, protocols[i], 0)
                                     : INFINITY;
            least_us = fmin(least_us, predicted_us[c][i]);
        }
    for (uint32_t c = 0; c < choice->contender_count; c++)
        for (size_t i = 0; i < PROTOCOL_COUNT; i++)
            if (predicted_us[c][i] <= least_us * (1.0 + PLAN_CHOOSE_TIE))
                return (plan_crossover_t){bytes, choice->contenders[c].algorithm, protocols[i],
                                          predicted_us[c][i]};
    return (plan_crossover_t){.bytes = bytes};
}

static bool same(const plan_crossover_t *a, const plan_crossover_t *b)
{
    return a->algorithm == b->algorithm && a->protocol == b->protocol;
}

/* Where `first` stops being the fastest, between its size and one where it no longer is. */
static plan_crossover_t find_change(const plan_choice_t *choice, const plan_crossover_t *first,
                                    plan_crossover_t beyond)
{
    uint64_t low_bytes = first->bytes;
    while (beyond.bytes - low_bytes > 1 + low_bytes / CROSSOVER_PRECISION) {
        plan_crossover_t middle = fastest_at(choice, low_bytes + (beyond.bytes - low_bytes) / 2);
        if (same(&middle, first))
            low_bytes = middle.bytes;
        else
            beyond = middle;
    }
    return beyond;
}

static blink_result_t append(crossovers_t *list, const plan_crossover_t *crossover)
{
    if (!vec_push(list, *crossover))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu crossovers", list->count + 1);
    return BLINK_OK;
}

blink_result_t plan_choice_crossovers(const plan_choice_t *choice, uint64_t from_bytes, uint64_t to_bytes,
                                      plan_crossover_t **crossovers, uint32_t *count)
{
    plan_crossover_t now = fastest_at(choice, from_bytes), next = now;
    crossovers_t list = {0};
    blink_result_t result = append(&list, &now);
    while (result == BLINK_OK && next.bytes < to_bytes) {
        uint64_t bytes = next.bytes <= to_bytes / 2 ? 2 * next.bytes : to_bytes;
        next = fastest_at(choice, bytes);
        while (result == BLINK_OK && !same(&now, &next)) {
            now = find_change(choice, &now, next);
            result = append(&list, &now);
        }
        now.bytes = bytes;
    }
    if (result != BLINK_OK)
        vec_free(&list);
    *crossovers = list.items;
    *count = (uint32_t)list.count;
    return result;
}

/* ---- the way in ---- */

static blink_result_t create_fastest(const topo_t *topo, const plan_request_t *request, plan_t **plan)
{
    plan_choice_t choice;
    BLINK_TRY(plan_choose(topo, request, &choice));
    *plan = plan_choice_take(&choice);
    plan_choice_fini(&choice);
    return BLINK_OK;
}

static blink_result_t create_asked(const topo_t *topo, const plan_request_t *request, plan_t **out)
{
    plan_t *plan = NULL;
    BLINK_TRY(plan_create_unproven(topo, request, &plan));
    blink_result_t result =
        plan_prove_bound(topo, plan, plan->algorithm == BLINK_ALGORITHM_TREES ? plan : NULL);
    if (result == BLINK_OK)
        *out = plan;
    else
        plan_destroy(plan);
    return result;
}

blink_result_t plan_create(const topo_t *topo, const plan_request_t *request, plan_t **plan)
{
    uint64_t start_ns = clock_ns();
    if (request->algorithm == BLINK_ALGORITHM_AUTO && request->bytes > 0 && request->rank_count > 1)
        BLINK_TRY(create_fastest(topo, request, plan));
    else
        BLINK_TRY(create_asked(topo, request, plan));
    (*plan)->plan_ms = (double)(clock_ns() - start_ns) * 1e-6;
    return BLINK_OK;
}
