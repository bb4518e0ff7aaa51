/* The lines about ops. A number that counts the rank's calls tells which end belongs to which submission, and
 * is what the daemon calls an op where a communicator has nothing but collectives. */
#include "submit/trace.h"

#include "base/clock.h"
#include "collective.h"
#include "names.h"

#include <stdio.h>

#define CALL_BYTES 80
#define OPS_BYTES  56

static const char *call_name(uint8_t opcode)
{
    if (opcode == RING_OP_SEND)
        return "send";
    if (opcode == RING_OP_RECV)
        return "receive";
    if (opcode == RING_OP_FORGET)
        return "release of a captured op";
    return opcode == RING_OP_NOP ? "empty operation" : collective_op_name(opcode);
}

static void describe_call(uint8_t opcode, uint8_t datatype, uint64_t count, char text[CALL_BYTES])
{
    if (collective_opcode_valid(opcode) && collective_moves(collective_of_opcode(opcode)))
        snprintf(text, CALL_BYTES, "%s of %lu %s", call_name(opcode), (unsigned long)count,
                 blink_name_datatype(datatype));
    else
        snprintf(text, CALL_BYTES, "%s", call_name(opcode));
}

void trace_tell_submission(blink_op_t *op, const ops_run_t *run)
{
    const ring_sqe_t *first = &run->sqes[0];
    char call[CALL_BYTES];
    /* Relaxed: a number by itself. */
    uint64_t number = atomic_fetch_add_explicit(&op->queue->traced, run->count, memory_order_relaxed) + 1;
    op->trace = (trace_t){number, clock_ns(), first->count, run->count, first->opcode, first->datatype};
    for (uint32_t i = 0; i < run->count; i++) {
        describe_call(run->sqes[i].opcode, run->sqes[i].datatype, run->sqes[i].count, call);
        if (run->count == 1)
            debug_line(&op->queue->rank, "op %lu: %s", (unsigned long)number, call);
        else
            debug_line(&op->queue->rank, "op %lu: %s, %u of a group of %u", (unsigned long)number + i, call,
                       i + 1, run->count);
    }
}

void trace_tell_end(const blink_op_t *op)
{
    const trace_t *trace = &op->trace;
    bool failed = op->result != BLINK_OK;
    const char *result = blink_name_result_constant(op->result), *text = failed ? op->text : "";
    char call[CALL_BYTES], ops[OPS_BYTES];
    if (trace->number == 0 && failed)
        debug_line(&op->queue->rank, "an op failed: %s: %s", result, text);
    if (trace->number == 0)
        return;
    if (trace->calls == 1) {
        describe_call(trace->opcode, trace->datatype, trace->count, call);
        snprintf(ops, sizeof(ops), "op %lu", (unsigned long)trace->number);
    } else {
        snprintf(call, sizeof(call), "group of %u", trace->calls);
        snprintf(ops, sizeof(ops), "ops %lu to %lu", (unsigned long)trace->number,
                 (unsigned long)trace->number + trace->calls - 1);
    }
    debug_line(&op->queue->rank, "%s: %s: %s after %lu us%s%s", ops, call, result,
               (unsigned long)((clock_ns() - trace->submitted_ns) / 1000), failed ? ": " : "", text);
}
