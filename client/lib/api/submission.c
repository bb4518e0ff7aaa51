/* From a checked call to an op: where its buffers are, and to whom it is handed over. */
#include "api/submission.h"

#include "api/group.h"
#include "collective.h"
#include "context/comm.h"
#include "environment/range.h"

blink_result_t call_check_handle(const char *name, const void *object, const char *what, blink_op_t **op)
{
    if (!object)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s: %s is NULL", name, what);
    if (!op && !group_active())
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s: op is NULL", name);
    if (op && group_active())
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s: op is not NULL in a group", name);
    return BLINK_OK;
}

static staging_side_t staged(const buffer_t *buffer, bool on_device)
{
    return (staging_side_t){.user = (char *)(uintptr_t)buffer->pointer,
                            .blocks = buffer->blocks,
                            .is_there = buffer->is_there,
                            .on_device = on_device};
}

/* ---- communicators on host devices ---- */

/* Find the region of a buffer; what lies in none is staged, if it is the host's. */
static blink_result_t place(blink_context_t *context, const buffer_t *buffer, uint32_t *region,
                            uint64_t *offset_bytes, staging_side_t *side)
{
    if (buffer->bytes == 0)
        return BLINK_OK;
    BLINK_TRY(regions_resolve(&context->regions, buffer->what, buffer->pointer, buffer->bytes, region,
                              offset_bytes, NULL));
    if (*region != 0)
        return BLINK_OK;
    BLINK_TRY(imports_refuse(&context->imports, buffer->what, buffer->pointer));
    *side = staged(buffer, false);
    return BLINK_OK;
}

blink_result_t call_hand_over(ops_t *ops, ops_queue_t *queue, ring_sqe_t *sqe, staging_transfer_t *transfer,
                              blink_op_t **op)
{
    blink_result_t result;
    if (group_active()) {
        result = group_add(ops, queue, sqe, transfer, NULL);
    } else {
        staging_fill(transfer);
        result = ops_submit(ops, queue, &(ops_run_t){.sqes = sqe, .count = 1, .transfers = transfer}, op);
    }
    if (result != BLINK_OK && transfer)
        staging_release(&ops->staging, transfer);
    return result;
}

static blink_result_t submit_on_host(const call_t *call, ring_sqe_t *sqe, const buffer_t *in,
                                     const buffer_t *out)
{
    blink_comm_t *comm = call->comm;
    staging_side_t in_side = {0}, out_side = {0};
    staging_transfer_t *transfer = NULL;
    BLINK_TRY(place(comm->context, in, &sqe->in_region, &sqe->in_offset_bytes, &in_side));
    BLINK_TRY(place(comm->context, out, &sqe->out_region, &sqe->out_offset_bytes, &out_side));
    if (in_side.user || out_side.user)
        BLINK_TRY(
            staging_reserve(&comm->context->ops.staging,
                            &(staging_request_t){.rank_count = comm->rank_count, .whole = comm->spans_hosts},
                            &in_side, &out_side, sqe, &transfer));
    return call_hand_over(&comm->context->ops, &comm->queue, sqe, transfer, call->op);
}

/* ---- communicators on GPUs ---- */

/* Registered memory of the host is used in place if GPUs reach it; it has its bounds in any case. */
static blink_result_t place_on_gpu(blink_comm_t *comm, const buffer_t *buffer, uint32_t *region,
                                   uint64_t *offset_bytes, staging_side_t *side)
{
    blink_context_t *context = comm->context;
    import_place_t found;
    uint32_t host_region = 0;
    uint64_t host_offset = 0;
    bool gpus_reach_it = false;
    if (buffer->bytes == 0)
        return BLINK_OK;
    BLINK_TRY(
        imports_place(&context->imports, &comm->gpu, buffer->what, buffer->pointer, buffer->bytes, &found));
    if (!found.on_device)
        BLINK_TRY(regions_resolve(&context->regions, buffer->what, buffer->pointer, buffer->bytes,
                                  &host_region, &host_offset, &gpus_reach_it));
    *region = gpus_reach_it ? host_region : found.region;
    *offset_bytes = gpus_reach_it ? host_offset : found.offset_bytes;
    if (*region == 0)
        *side = staged(buffer, found.on_device);
    return BLINK_OK;
}

/* Copies on a stream are enqueued once and for all: a graph's would count the same pieces again in each
 * replay. */
static blink_result_t check_capture(const stream_step_t *step, const buffer_t *in,
                                    const staging_side_t *in_side, const buffer_t *out)
{
    if (!step || !step->stored)
        return BLINK_OK;
    const buffer_t *buffer = in_side->user ? in : out;
    return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                      "%s buffer %p has to be staged, which a stream that is being captured cannot",
                      buffer->what, buffer->pointer);
}

/* Visiting. `step` is NULL for calls on no stream. */
static blink_result_t submit_visiting(const call_t *call, gpu_t *gpu, stream_step_t *step, ring_sqe_t *sqe,
                                      const buffer_t *in, const buffer_t *out)
{
    blink_comm_t *comm = call->comm;
    ops_t *ops = &comm->context->ops;
    staging_side_t in_side = {0}, out_side = {0};
    staging_transfer_t *transfer = NULL;
    BLINK_TRY(place_on_gpu(comm, in, &sqe->in_region, &sqe->in_offset_bytes, &in_side));
    BLINK_TRY(place_on_gpu(comm, out, &sqe->out_region, &sqe->out_offset_bytes, &out_side));
    /* Only staged input tells the daemon that the stream has come to a staged op. */
    if (step && out_side.user && !in_side.user && in->bytes > 0)
        in_side = staged(in, true);
    if (in_side.user || out_side.user) {
        BLINK_TRY(check_capture(step, in, &in_side, out));
        const staging_request_t request = {.rank_count = comm->rank_count,
                                           .on_gpus = comm->gpu.is_gpu,
                                           .on_stream = step != NULL,
                                           .whole = comm->spans_hosts,
                                           .gpu = gpu};
        BLINK_TRY(staging_reserve(&ops->staging, &request, &in_side, &out_side, sqe, &transfer));
    }
    if (!step)
        return call_hand_over(ops, &comm->queue, sqe, transfer, call->op);
    blink_result_t result = group_add(ops, &comm->queue, sqe, transfer, step);
    if (result != BLINK_OK && transfer)
        staging_release(&ops->staging, transfer);
    return result;
}

/* The step of a call on a stream, begun if there is none yet. Visiting. */
static blink_result_t find_step(const call_t *call, gpu_t *gpu, stream_step_t **step)
{
    blink_comm_t *comm = call->comm, *graphs;
    stream_step_t fresh;
    uint32_t member = comm->member;
    BLINK_TRY(stream_step_find(group_steps(), &comm->streams, gpu, call->stream, &fresh, step));
    if (*step)
        return BLINK_OK;
    if (fresh.stored) {
        BLINK_TRY(comm_for_graphs(comm, &graphs));
        member = graphs->member;
    }
    return stream_step_add(group_steps(), &fresh, member, step);
}

static blink_result_t submit_on_gpu(const call_t *call, ring_sqe_t *sqe, const buffer_t *in,
                                    const buffer_t *out)
{
    blink_comm_t *comm = call->comm;
    gpu_t *gpu;
    gpu_visit_t visit;
    stream_step_t *step = NULL;
    if (call->on_stream)
        BLINK_TRY(rank_gpu_require(&comm->gpu, &gpu));
    else
        gpu = rank_gpu_find(&comm->gpu);
    BLINK_TRY(gpu_enter(gpu, &visit));
    blink_result_t result = call->on_stream ? find_step(call, gpu, &step) : BLINK_OK;
    if (result == BLINK_OK)
        result = submit_visiting(call, gpu, step, sqe, in, out);
    gpu_leave(&visit);
    return result;
}

/* ---- all ---- */

/* The communicator takes no ops. */
static blink_result_t refuse(const call_t *call)
{
    const char *name = collective_function(call->opcode);
    BLINK_TRY(comm_check_ready(call->comm, name));
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s: the communicator has been finalized", name);
}

static blink_result_t submit(const call_t *call)
{
    blink_comm_t *comm = call->comm;
    ring_sqe_t sqe;
    buffer_t in, out;
    BLINK_TRY(call_check_handle(collective_function(call->opcode), comm, "comm", call->op));
    if (comm_phase(comm) != COMM_READY)
        return refuse(call);
    BLINK_TRY(call_check(call, &sqe, &in, &out));
    if (comm->gpu.is_gpu || call->on_stream)
        return submit_on_gpu(call, &sqe, &in, &out);
    return submit_on_host(call, &sqe, &in, &out);
}

static blink_result_t enter(const call_t *call)
{
    if (!call->on_stream || group_active())
        return group_note(submit(call));
    /* Alone on a stream it is a group of one. */
    BLINK_TRY(blink_group_start());
    (void)group_note(submit(call));
    return group_end(NULL);
}

blink_result_t call_enter(const call_t *call)
{
    range_begin(collective_function(call->opcode));
    blink_result_t result = enter(call);
    range_end();
    return result;
}

blink_result_t call_submit(const call_t *call)
{
    blink_result_t result = call_enter(call);
    return result == BLINK_OK ? BLINK_OK : debug_result(collective_function(call->opcode), result);
}
