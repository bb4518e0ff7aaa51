/*
 * Lane programs with one random thing changed, and whether the change leaves their meaning as it was. What
 * the prover says of each must be the same.
 */
#ifndef BLINK_TEST_MUTANTS_H
#define BLINK_TEST_MUTANTS_H

#include "error.h"
#include "plan/lane/lane.h"
#include "prove/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline bool has_in_place(blink_collective_t collective)
{
    return collective != BLINK_ALLTOALL && collective != BLINK_SENDRECV;
}

typedef struct mutant {
    lane_program_t program; /* borrows the original's tables but for the pools below */
    uint64_t random;
} mutant_t;

static inline uint32_t draw(mutant_t *mutant, uint32_t below)
{
    mutant->random = mutant->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((mutant->random >> 33) % below);
}

static inline void *copy(const void *pool, size_t bytes)
{
    void *copied = malloc(bytes ? bytes : 1);
    assert_non_null(copied);
    return bytes ? memcpy(copied, pool, bytes) : copied;
}

static inline void mutant_begin(mutant_t *mutant, const lane_program_t *original)
{
    lane_program_t *program = &mutant->program;
    *program = *original;
    program->steps = copy(original->steps, original->step_count * sizeof(*original->steps));
    program->operands = copy(original->operands, original->operand_count * sizeof(*original->operands));
    program->waits = copy(original->waits, original->wait_count * sizeof(*original->waits));
    program->signals = copy(original->signals, original->signal_count * sizeof(*original->signals));
}

static inline void mutant_end(mutant_t *mutant)
{
    free(mutant->program.steps);
    free(mutant->program.operands);
    free(mutant->program.waits);
    free(mutant->program.signals);
}

static inline lane_step_t *step_of_wait(lane_program_t *program, uint32_t wait)
{
    lane_step_t *step = program->steps;
    while (wait - step->wait_first >= step->wait_count)
        step++;
    return step;
}

static inline lane_step_t *step_of_signal(lane_program_t *program, uint32_t signal)
{
    lane_step_t *step = program->steps;
    while (signal - step->signal_first >= step->signal_count)
        step++;
    return step;
}

static inline lane_step_t *step_of_operand(lane_program_t *program, uint32_t operand)
{
    lane_step_t *step = program->steps;
    while (operand - step->src_first >= step->src_count && operand - step->dst_first >= step->dst_count)
        step++;
    return step;
}

static inline const lane_step_t *signaller(lane_program_t *program, uint32_t semaphore)
{
    uint32_t signal = 0;
    while (program->signals[signal].semaphore != semaphore)
        signal++;
    return step_of_signal(program, signal);
}

static inline void remove_wait(lane_program_t *program, uint32_t wait)
{
    lane_step_t *step = step_of_wait(program, wait);
    program->waits[wait] = program->waits[step->wait_first + --step->wait_count];
}

static inline void remove_signal(lane_program_t *program, uint32_t signal)
{
    lane_step_t *step = step_of_signal(program, signal);
    program->signals[signal] = program->signals[step->signal_first + --step->signal_count];
}

/* Each mutation returns whether it leaves the meaning as it was. */
typedef bool (*mutation_t)(mutant_t *mutant);

static inline bool drop_wait(mutant_t *mutant)
{
    remove_wait(&mutant->program, draw(mutant, mutant->program.wait_count));
    return false;
}

static inline bool drop_signal(mutant_t *mutant)
{
    remove_signal(&mutant->program, draw(mutant, mutant->program.signal_count));
    return false;
}

/* A release of a slot also travels round a ring with the data, so single `free` semaphores of rings may be
 * missed by nobody. */
static inline uint32_t draw_needed_wait(mutant_t *mutant)
{
    const lane_program_t *program = &mutant->program;
    bool ring = program->channels[0].part_count > 1;
    uint32_t wait = draw(mutant, program->wait_count);
    while (ring && program->waits[wait].kind == LANE_FREE)
        wait = draw(mutant, program->wait_count);
    return wait;
}

/* Both ends go and the last semaphore takes the number, so that only the clocks can tell. */
static inline bool drop_semaphore(mutant_t *mutant)
{
    lane_program_t *program = &mutant->program;
    uint32_t wait = draw_needed_wait(mutant), signal = 0;
    uint32_t dropped = program->waits[wait].semaphore, last = --program->semaphore_count;
    while (program->signals[signal].semaphore != dropped)
        signal++;
    for (uint32_t i = 0; i < program->wait_count; i++)
        if (program->waits[i].semaphore == last)
            program->waits[i].semaphore = dropped;
    for (uint32_t i = 0; i < program->signal_count; i++)
        if (program->signals[i].semaphore == last)
            program->signals[i].semaphore = dropped;
    remove_wait(program, wait);
    remove_signal(program, signal);
    return false;
}

static inline bool turn_wait(mutant_t *mutant)
{
    lane_wait_t *wait = &mutant->program.waits[draw(mutant, mutant->program.wait_count)];
    wait->kind = wait->kind == LANE_FULL ? LANE_FREE : LANE_FULL;
    return false;
}

static inline bool is_src(const lane_step_t *step, uint32_t operand)
{
    return operand - step->src_first < step->src_count;
}

/* Whether data that a step has written lead to another step, or to it. */
static inline bool leads_to(lane_program_t *program, const lane_step_t *from, const lane_step_t *to);

/* The same of what the step announces by a semaphore. */
static inline bool signal_leads_to(lane_program_t *program, uint32_t semaphore, const lane_step_t *to)
{
    for (uint32_t wait = 0; wait < program->wait_count; wait++)
        if (program->waits[wait].semaphore == semaphore && program->waits[wait].kind == LANE_FULL &&
            leads_to(program, step_of_wait(program, wait), to))
            return true;
    return false;
}

static inline bool leads_to(lane_program_t *program, const lane_step_t *from, const lane_step_t *to)
{
    bool leads = from == to;
    for (uint32_t i = 0; i < from->signal_count && !leads; i++) {
        const lane_signal_t *signal = &program->signals[from->signal_first + i];
        leads = signal->dst != PLAN_NONE && signal_leads_to(program, signal->semaphore, to);
    }
    return leads;
}

/* Whether the data in the slot that a step waits for lead to another step. */
static inline bool slot_leads_to(lane_program_t *program, const lane_wait_t *wait, const lane_step_t *step,
                                 const lane_step_t *to)
{
    for (uint32_t i = 0; i < step->signal_count; i++) {
        const lane_signal_t *signal = &program->signals[step->signal_first + i];
        if (signal->dst == wait->operand && signal_leads_to(program, signal->semaphore, to))
            return true;
    }
    return false;
}

/* Whether two semaphores announce one arrival, each to a waiter of its own. */
static inline bool are_twins(lane_program_t *program, uint32_t a, uint32_t b)
{
    uint32_t dst[2] = {PLAN_NONE, PLAN_NONE};
    for (uint32_t i = 0; i < program->signal_count; i++)
        if (program->signals[i].semaphore == a || program->signals[i].semaphore == b)
            dst[program->signals[i].semaphore == b] = program->signals[i].dst;
    return dst[0] == dst[1] && signaller(program, a) == signaller(program, b);
}

/* Whether waits may change semaphores: two that tell of one arrival; releases of slots, in one step, or if
 * one step signals both; or if what is in one of the slots leads to the step that waits for the other, which
 * then hears of the first by these data: their sender waited for it. */
static inline bool waits_are_exchangeable(lane_program_t *program, uint32_t a, uint32_t b)
{
    const lane_wait_t *at_a = &program->waits[a], *at_b = &program->waits[b];
    const lane_step_t *step_a = step_of_wait(program, a), *step_b = step_of_wait(program, b);
    if (at_a->kind != at_b->kind || at_a->kind == LANE_FULL)
        return a == b || (at_a->kind == at_b->kind && are_twins(program, at_a->semaphore, at_b->semaphore));
    return step_a == step_b || signaller(program, at_a->semaphore) == signaller(program, at_b->semaphore) ||
           slot_leads_to(program, at_a, step_a, step_b) || slot_leads_to(program, at_b, step_b, step_a);
}

/* With wires the release of a slot becomes known by too many ways to foretell whether it is missed. */
static inline uint32_t draw_exchanged_wait(mutant_t *mutant)
{
    uint32_t wait = draw_needed_wait(mutant);
    while (mutant->program.wire_count > 0 && mutant->program.waits[wait].kind == LANE_FREE)
        wait = draw_needed_wait(mutant);
    return wait;
}

static inline bool swap_waits(mutant_t *mutant)
{
    lane_program_t *program = &mutant->program;
    uint32_t a = draw_exchanged_wait(mutant), b = draw_exchanged_wait(mutant);
    bool same = waits_are_exchangeable(program, a, b);
    uint32_t kept = program->waits[a].semaphore;
    program->waits[a].semaphore = program->waits[b].semaphore;
    program->waits[b].semaphore = kept;
    return same;
}

/* Same if it announced no arrival, or announces the same one still. */
static inline bool turn_signal(mutant_t *mutant)
{
    lane_program_t *program = &mutant->program;
    uint32_t at = draw(mutant, program->signal_count);
    uint32_t before = program->signals[at].dst;
    program->signals[at].dst = draw(mutant, step_of_signal(program, at)->dst_count);
    return before == PLAN_NONE || before == program->signals[at].dst;
}

/* A destination that its step announces to nobody: its own output, a leaf's, or the end of a route. */
static inline bool is_unannounced(const lane_program_t *program, const lane_step_t *step, uint32_t operand)
{
    for (uint32_t i = 0; i < step->signal_count; i++)
        if (program->signals[step->signal_first + i].dst == operand - step->dst_first)
            return false;
    return !is_src(step, operand);
}

/* Neither crosses a path, or both cross ways between the same two ranks. */
static inline bool are_paths_alike(const lane_program_t *program, uint32_t a, uint32_t b)
{
    if (a == PLAN_NONE || b == PLAN_NONE)
        return a == b;
    return program->paths[a].from_rank == program->paths[b].from_rank &&
           program->paths[a].to_rank == program->paths[b].to_rank;
}

/* Whether two operands may change places: they are the same place, reached by ways with the same ends; or the
 * order within their step is all that changes. */
static inline bool are_exchangeable(lane_program_t *program, uint32_t a, uint32_t b)
{
    const lane_operand_t *at_a = &program->operands[a], *at_b = &program->operands[b];
    const lane_step_t *step_a = step_of_operand(program, a), *step_b = step_of_operand(program, b);
    if (a == b || (at_a->buffer == at_b->buffer && at_a->rank == at_b->rank && at_a->edge == at_b->edge &&
                   are_paths_alike(program, at_a->path, at_b->path)))
        return true;
    return step_a == step_b && ((is_src(step_a, a) && is_src(step_a, b)) ||
                                (is_unannounced(program, step_a, a) && is_unannounced(program, step_a, b)));
}

/* Two sources of a step change places: its waits name the new ones. */
static inline void follow_sources(lane_program_t *program, const lane_step_t *step, uint32_t a, uint32_t b)
{
    for (uint32_t i = step->wait_first; i < step->wait_first + step->wait_count; i++) {
        lane_wait_t *wait = &program->waits[i];
        if (wait->kind == LANE_FULL && wait->operand == a)
            wait->operand = b;
        else if (wait->kind == LANE_FULL && wait->operand == b)
            wait->operand = a;
    }
}

static inline bool swap_operands(mutant_t *mutant)
{
    lane_program_t *program = &mutant->program;
    uint32_t a = draw(mutant, program->operand_count), b = draw(mutant, program->operand_count);
    bool same = are_exchangeable(program, a, b);
    const lane_step_t *step = step_of_operand(program, a);
    if (step == step_of_operand(program, b) && is_src(step, a) && is_src(step, b))
        follow_sources(program, step, a - step->src_first, b - step->src_first);
    lane_operand_t kept = program->operands[a];
    program->operands[a] = program->operands[b];
    program->operands[b] = kept;
    return same;
}

static inline bool is_caught(const lane_program_t *program)
{
    lane_verify_options_t apart = {3, 1, false}, in_place = {3, 1, true};
    return lane_verify(program, &apart) != BLINK_OK ||
           (has_in_place(program->collective) && lane_verify(program, &in_place) != BLINK_OK);
}

/* Most mutations matter, and all that do are caught. */
static inline void mutate(const lane_program_t *original, const char *name, uint32_t rounds)
{
    static const mutation_t mutations[] = {drop_wait,  drop_signal, drop_semaphore, turn_wait,
                                           swap_waits, turn_signal, swap_operands,  swap_operands};
    enum { MUTATIONS = sizeof(mutations) / sizeof(*mutations) };
    mutant_t mutant = {.random = 20240607};
    uint32_t caught = 0;
    assert_false(is_caught(original));
    for (uint32_t round = 0; round < rounds * MUTATIONS; round++) {
        mutant_begin(&mutant, original);
        bool means_same = mutations[round % MUTATIONS](&mutant);
        bool was_caught = is_caught(&mutant.program);
        if (was_caught == means_same)
            fail_msg("%s, round %u, mutation %u: %s", name, round, round % MUTATIONS,
                     was_caught ? blink_error_text() : "not caught");
        caught += was_caught;
        mutant_end(&mutant);
    }
    assert_true(2 * caught > rounds * MUTATIONS);
}

#endif
