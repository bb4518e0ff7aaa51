/* The lanes of a plan for people: what each step waits for, moves and signals. */
#include "plan/show/write.h"

#include "error.h"
#include "plan/lane/lane.h"

#include <stdlib.h>
#include <string.h>

/* A program, and what each of its semaphores tells. */
typedef struct lanes {
    const topo_t *topo;
    const plan_t *plan;
    const lane_program_t *program;
    const lane_wait_t **waits;  /* by semaphore: the one wait for it */
    const lane_step_t **waiter; /* by semaphore: the step that waits */
} lanes_t;

static const char *host_name(const topo_t *topo, const plan_t *plan, uint32_t rank)
{
    return topo->nodes[plan->rank_node[rank]].host;
}

static blink_result_t compile(const topo_t *topo, const plan_t *plan, uint64_t payload_bytes,
                              lane_program_t **program)
{
    uint32_t *of_rank = malloc((plan->rank_count + 1u) * sizeof(*of_rank));
    if (!of_rank)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the hosts of %u ranks", plan->rank_count);
    bool several = plan_number_hosts(topo, plan, of_rank) > 1;
    bool small = payload_bytes > 0 && payload_bytes <= LANE_LANDS_IN_SLOTS_BYTES;
    lane_hosts_t hosts = {.of_rank = of_rank, .lands_in_slots = small};
    blink_result_t result = lane_compile(topo, plan, several ? &hosts : NULL, program);
    free(of_rank);
    return result;
}

/* ---- one step ---- */

static void write_operand(const topo_text_t *text, const lane_operand_t *operand)
{
    switch ((lane_buffer_t)operand->buffer) {
    case LANE_INPUT:
        fprintf(text->file, "in[%u]", operand->rank);
        return;
    case LANE_OUTPUT:
        fprintf(text->file, "out[%u]", operand->rank);
        return;
    case LANE_SCRATCH:
    case LANE_SEND:
        fprintf(text->file, "e%u", operand->edge);
        return;
    case LANE_LANDING:
        fprintf(text->file, "l%u", operand->edge);
        return;
    case LANE_SHARED:
        fprintf(text->file, "m%u[%u]", operand->edge - operand->rank, operand->rank);
        return;
    }
}

static void write_operands(const lanes_t *lanes, const topo_text_t *text, uint32_t first, uint32_t count,
                           const char *between)
{
    for (uint32_t i = 0; i < count; i++) {
        fputs(i > 0 ? between : "", text->file);
        write_operand(text, &lanes->program->operands[first + i]);
    }
}

/* "s3: e0 free", "s4: out[2] full". */
static void write_semaphore(const lanes_t *lanes, const topo_text_t *text, uint32_t semaphore)
{
    const lane_wait_t *wait = lanes->waits[semaphore];
    const lane_step_t *step = lanes->waiter[semaphore];
    bool full = wait->kind == LANE_FULL;
    fprintf(text->file, "s%u: ", semaphore);
    write_operand(text,
                  &lanes->program->operands[(full ? step->src_first : step->dst_first) + wait->operand]);
    fputs(full ? " full" : " free", text->file);
}

static void write_step(const lanes_t *lanes, const topo_text_t *text, const lane_t *lane,
                       const lane_step_t *step)
{
    const lane_program_t *program = lanes->program;
    fputs("    ", text->file);
    if (program->channels[lane->channel].part_count > 1)
        fprintf(text->file, "part %u: ", step->part);
    write_operands(lanes, text, step->dst_first, step->dst_count, ", ");
    fputs(" <- ", text->file);
    write_operands(lanes, text, step->src_first, step->src_count, " + ");
    for (uint32_t i = 0; i < step->wait_count; i++) {
        fputs(i > 0 ? ", " : "; waits for ", text->file);
        write_semaphore(lanes, text, program->waits[step->wait_first + i].semaphore);
    }
    for (uint32_t i = 0; i < step->signal_count; i++) {
        fputs(i > 0 ? ", " : "; signals ", text->file);
        write_semaphore(lanes, text, program->signals[step->signal_first + i].semaphore);
    }
    fputc('\n', text->file);
}

/* ---- all lanes ---- */

static void write_lane(const lanes_t *lanes, const topo_text_t *text, uint32_t index)
{
    const lane_t *lane = &lanes->program->lanes[index];
    fprintf(text->file, "lane %u: channel %u, %s, rank %u (%s)", index, lane->channel,
            lane->phase == LANE_UP ? "up" : "down", lane->rank,
            plan_rank_id(lanes->topo, lanes->plan, lane->rank));
    if (lane->to_rank != PLAN_NONE)
        fprintf(text->file, ", wire to rank %u (%s) from %s to %s", lane->to_rank,
                plan_rank_id(lanes->topo, lanes->plan, lane->to_rank),
                host_name(lanes->topo, lanes->plan, lane->rank),
                host_name(lanes->topo, lanes->plan, lane->to_rank));
    fputc('\n', text->file);
    for (uint32_t i = 0; i < lane->step_count; i++)
        write_step(lanes, text, lane, &lanes->program->steps[lane->step_first + i]);
}

static void find_waits(lanes_t *lanes)
{
    const lane_program_t *program = lanes->program;
    for (uint32_t s = 0; s < program->step_count; s++) {
        const lane_step_t *step = &program->steps[s];
        for (uint32_t i = 0; i < step->wait_count; i++) {
            const lane_wait_t *wait = &program->waits[step->wait_first + i];
            lanes->waits[wait->semaphore] = wait;
            lanes->waiter[wait->semaphore] = step;
        }
    }
}

static blink_result_t write_lanes(lanes_t *lanes, char **result)
{
    const lane_program_t *program = lanes->program;
    topo_text_t text;
    BLINK_TRY(topo_text_open(&text));
    find_waits(lanes);
    fprintf(text.file, "lanes %u, of these wires %u; edges in scratch %u, in landings %u; semaphores %u\n",
            program->lane_count, program->wire_count, program->edge_count, program->landing_edge_count,
            program->semaphore_count);
    for (uint32_t i = 0; i < program->lane_count; i++)
        write_lane(lanes, &text, i);
    return topo_text_close(&text, result);
}

blink_result_t plan_write_lanes(const topo_t *topo, const plan_t *plan, uint64_t payload_bytes, char **result)
{
    lane_program_t *program = NULL;
    BLINK_TRY(compile(topo, plan, payload_bytes, &program));
    lanes_t lanes = {.topo = topo,
                     .plan = plan,
                     .program = program,
                     .waits = calloc(program->semaphore_count + 1u, sizeof(const lane_wait_t *)),
                     .waiter = calloc(program->semaphore_count + 1u, sizeof(const lane_step_t *))};
    blink_result_t written = BLINK_OK;
    if (lanes.waits && lanes.waiter)
        written = write_lanes(&lanes, result);
    else
        written =
            BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to write %u semaphores", program->semaphore_count);
    free(lanes.waits);
    free(lanes.waiter);
    lane_program_destroy(program);
    return written;
}
