/* Moves of a run: what the executor and the peers tell, and what becomes of it. */
#include "net/data/run.h"

#include "net/data/source.h"

static run_peer_t *peer_of(peer_flows_t *flows)
{
    return CONTAINER_OF(flows, run_peer_t, flows);
}

static uint32_t out_lane(const run_peer_t *peer, uint32_t flow)
{
    return peer->out->lane_first + flow;
}

static uint32_t in_lane(const run_peer_t *peer, uint32_t flow)
{
    return peer->in->lane_first + flow;
}

/* Whether the executor may be told of its lanes. */
static bool may_tell(const data_run_t *run)
{
    return run->started && !run->ended && !run->aborted && !run->failed;
}

static uint32_t ready_of(const data_run_t *run, uint32_t lane)
{
    /* Acquire: pairs with the store in run_on_ready(). */
    return atomic_load_explicit(&run->ready[lane - run->first_lane], memory_order_acquire);
}

/* ---- what the executor tells ---- */

static void post(data_run_t *run)
{
    /* seq_cst: what was stored before is seen by run_on_posted(), which clears the mark before it looks. */
    if (!atomic_exchange_explicit(&run->posted, true, memory_order_seq_cst))
        mailbox_post(&run->data->mailbox, &run->item);
}

void run_on_ready(void *context, uint32_t lane, uint32_t sequence)
{
    data_run_t *run = context;
    uint32_t wire = lane - run->first_lane;
    /* Release: pairs with the load in ready_of(): the sources of the moves are there. */
    atomic_store_explicit(&run->ready[wire], sequence, memory_order_release);
    atomic_fetch_or_explicit(&run->raised[wire / 64], UINT64_C(1) << wire % 64, memory_order_seq_cst);
    post(run);
}

void run_on_aborted(void *context)
{
    data_run_t *run = context;
    atomic_store_explicit(&run->abort_posted, true, memory_order_seq_cst);
    post(run);
}

/* ---- receiving ---- */

/* Tell the executor what has come, if it waits for that. */
static void tell_arrived(run_peer_t *peer, uint32_t flow)
{
    data_run_t *run = peer->run;
    uint32_t lane = in_lane(peer, flow), ready = ready_of(run, lane);
    uint32_t arrived = peer->receivers[flow].arrived, upto = arrived < ready ? arrived : ready;
    if (upto <= peer->told[flow] || !may_tell(run))
        return;
    peer->told[flow] = upto;
    /* After the last move of the last lane the run may be over, but for the lane that goes on. */
    exec_instance_t *instance = run->instance;
    void (*go_on)(exec_instance_t *, exec_task_t *) = run->go_on;
    run->open -= upto == exec_wire_moves(instance, lane);
    exec_task_t *woken = exec_wire_arrived(instance, lane, upto);
    if (woken)
        go_on(instance, woken);
}

/* Tell the peer how far it may send, if that is worth a credit. */
static void tell_credit(run_peer_t *peer, uint32_t flow)
{
    flow_receiver_t *receiver = &peer->receivers[flow];
    if (flow_receiver_grant(receiver))
        endpoint_grant(peer->flows.endpoint, peer->landing->first_flow + flow, receiver->granted);
}

static void in_ready(run_peer_t *peer, uint32_t flow)
{
    uint32_t ready = ready_of(peer->run, in_lane(peer, flow)), places = peer->receivers[flow].places;
    if (peer->landing && !landing_is_settled(peer->landing)) {
        flow_receiver_consume(&peer->receivers[flow], ready > places ? ready - places : 0);
        tell_credit(peer, flow);
    }
    tell_arrived(peer, flow);
}

/* With this thread's error text: the op fails, and the executor is told nothing more. */
static void fail(data_run_t *run, blink_result_t code)
{
    const data_handler_t *handler = &run->data->config.handler;
    if (run->failed)
        return;
    run->failed = true;
    if (run->told_aborted || run->ended)
        return;
    run->told_aborted = true;
    handler->aborted(handler->context, run->context, code);
}

static void fail_gone(data_run_t *run, const char *what)
{
    fail(run,
         BLINK_FAIL(BLINK_ERR_SYSTEM,
                    "memory that the network %s is not there: it was not populated, or punched out", what));
}

/* The executor knows where each move goes: the peer must mean the same, once its BEGIN has been found to.
 * Where the peer's device has written nobody knows here: into memory that takes in nothing but what that peer
 * sends.
 */
static blink_result_t check_place(const run_peer_t *peer, const landing_move_t *move,
                                  const wire_frame_t *frame)
{
    uint32_t lane = in_lane(peer, move->flow);
    if (!may_tell(peer->run) || ready_of(peer->run, lane) <= move->sequence ||
        (run_peer_stands(peer) && !peer->agreed))
        return BLINK_OK;
    wire_place_t place = exec_wire_place(peer->run->instance, lane, move->sequence);
    if (place.bytes == frame->bytes && (place.bytes == 0 || place.address == move->address))
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_PROTOCOL,
                      "flow %u, move %u: %u bytes at offset %llu of place %u, which are not its %llu bytes",
                      frame->flow, move->sequence, frame->bytes, (unsigned long long)frame->offset,
                      frame->place, (unsigned long long)place.bytes);
}

/* ---- memory of GPUs ---- */

/* Have it where GPUs read it. A frame has come to the landing's own memory. */
static blink_result_t settle_twin(const run_peer_t *peer, const landing_move_t *move,
                                  const wire_frame_t *frame)
{
    const twin_t *twin = peer->twin;
    if (frame && frame->place == 0)
        return twin->calls->settle(twin->reach, frame->offset, move->address, frame->bytes);
    return frame || peer->twin_ordered ? BLINK_OK : twin->calls->settle(twin->reach, 0, NULL, 0);
}

/* ---- what has come ---- */

static blink_result_t on_arrived(peer_flows_t *flows, const landing_move_t *move, const wire_frame_t *frame,
                                 uint32_t arrived, bool whole)
{
    run_peer_t *peer = peer_of(flows);
    (void)arrived;
    if (move->flow >= peer->in->lane_count)
        return BLINK_OK; /* of something else that the peer runs by this number, as its BEGIN will say */
    if (!whole)
        fail_gone(peer->run, "writes to");
    if (frame)
        BLINK_TRY(check_place(peer, move, frame));
    blink_result_t settled = peer->twin ? settle_twin(peer, move, frame) : BLINK_OK;
    if (settled != BLINK_OK)
        fail(peer->run, settled);
    if (!landing_is_settled(peer->landing))
        tell_credit(peer, move->flow);
    tell_arrived(peer, move->flow);
    run_check_settled(peer->run);
    return BLINK_OK;
}

/* ---- sending ---- */

static void out_due(run_peer_t *peer, uint32_t flow)
{
    peer->due[flow / 64] |= UINT64_C(1) << flow % 64;
    endpoint_flows_due(&peer->flows);
}

static void out_ready(run_peer_t *peer, uint32_t flow)
{
    uint32_t ready = ready_of(peer->run, out_lane(peer, flow));
    if (!peer->may_send && peer->run->standing) /* relaxed: a counter */
        atomic_fetch_add_explicit(&peer->flows.endpoint->waited, ready - peer->senders[flow].ready,
                                  memory_order_relaxed);
    flow_sender_ready(&peer->senders[flow], ready);
    if (peer->may_send)
        out_due(peer, flow);
}

/* The next flow that is due, beginning with `from`; PLAN_NONE: none is. */
static uint32_t find_due(const run_peer_t *peer, uint32_t from)
{
    uint32_t words = (peer->out->lane_count + 63) / 64;
    for (uint32_t i = 0; i <= words; i++) {
        uint32_t word = (from / 64 + i) % words;
        uint64_t bits = peer->due[word];
        if (i == 0)
            bits &= UINT64_MAX << from % 64;
        if (bits)
            return word * 64 + (uint32_t)__builtin_ctzll(bits);
    }
    return PLAN_NONE;
}

/* Its source is in a send slot, and this host's device writes it: then the device may read it there, too. */
static void find_source(run_peer_t *peer, transport_move_t *move)
{
    if (!peer->looked_for_source)
        peer->source = source_find(peer->flows.endpoint, peer->run->instance);
    peer->looked_for_source = true;
    move->in_place = peer->source;
    if (peer->source)
        move->source_keys = *peer->source;
}

static void make_move(run_peer_t *peer, uint32_t flow, uint32_t sequence, transport_move_t *move)
{
    const data_run_t *run = peer->run;
    const lane_program_t *program = run->program;
    const lane_geometry_t *there = peer->there;
    const lane_t *lane = &program->lanes[out_lane(peer, flow)];
    const lane_step_t *step = &program->steps[lane->step_first + sequence % lane->step_count];
    const lane_operand_t *dst = &program->operands[step->dst_first];
    uint32_t chunk = sequence / lane->step_count;
    wire_place_t source = exec_wire_place(run->instance, out_lane(peer, flow), sequence);
    *move = (transport_move_t){.source = source.address, .flow = flow, .sequence = sequence};
    move->frame = (wire_frame_t){.type = WIRE_DATA,
                                 .bytes = (uint32_t)source.bytes,
                                 .flow = peer->flows.first_outgoing + flow,
                                 .sequence = peer->first_sequence + sequence};
    move->in_order = peer->suits_out;
    if (dst->buffer == LANE_LANDING) {
        move->frame.offset = lane_landing_offset(there, lane->channel, dst->edge, chunk);
        move->remote_keys = peer->remote_keys;
        if (peer->remote_address)
            move->remote_address = peer->remote_address + move->frame.offset;
        if (peer->remote_address && source.buffer == LANE_SEND)
            find_source(peer, move);
        return;
    }
    lane_span_t span = lane_span(there, lane->channel, step->part, chunk);
    move->frame.place = run->place_of[dst->rank];
    move->frame.offset =
        lane_buffer_offset(there, lane->channel, step->part, LANE_OUTPUT, there->block_bytes, span);
}

static bool on_next(peer_flows_t *flows, transport_move_t *move)
{
    run_peer_t *peer = peer_of(flows);
    uint32_t flow, sequence;
    while ((flow = find_due(peer, peer->next_due)) != PLAN_NONE) {
        peer->next_due = flow + 1 < peer->out->lane_count ? flow + 1 : 0;
        flow_sender_t *sender = &peer->senders[flow];
        bool may_go = sender->again || (!peer->run->aborted && !peer->run->ended);
        if (may_go && flow_sender_next(sender, &sequence)) {
            make_move(peer, flow, sequence, move);
            return true;
        }
        peer->due[flow / 64] &= ~(UINT64_C(1) << flow % 64);
    }
    return false;
}

static void sender_is_settled(run_peer_t *peer)
{
    if (--peer->unsettled == 0)
        endpoint_forget_numbers(&peer->flows);
}

/* Sources of a flow may be done: it was as `before`. */
static void take_done(run_peer_t *peer, uint32_t flow, const flow_sender_t *before)
{
    data_run_t *run = peer->run;
    const flow_sender_t *sender = &peer->senders[flow];
    if (flow_sender_is_settled(before))
        return;
    if (flow_sender_is_settled(sender))
        sender_is_settled(peer);
    else
        out_due(peer, flow);
    if (sender->done > before->done && may_tell(run)) {
        run->open -= sender->done == sender->moves;
        exec_wire_sent(run->instance, out_lane(peer, flow), sender->done);
    }
    run_check_settled(run);
}

static void on_sent(peer_flows_t *flows, const transport_move_t *move, bool whole)
{
    run_peer_t *peer = peer_of(flows);
    flow_sender_t *sender = &peer->senders[move->flow], before = *sender;
    if (!whole)
        fail_gone(peer->run, "reads from");
    /* A copy of the endpoint's goes again by itself. */
    if (move->is_copied || !flows->endpoint->resumes)
        flow_sender_done(sender, move->sequence);
    else
        flow_sender_sent(sender, move->sequence);
    take_done(peer, move->flow, &before);
}

static blink_result_t on_came(peer_flows_t *flows, uint32_t flow, uint32_t arrived, uint64_t came)
{
    run_peer_t *peer = peer_of(flows);
    flow_sender_t *sender = &peer->senders[flow], before = *sender;
    blink_result_t result = flow_sender_arrived(sender, arrived, came);
    if (result != BLINK_OK)
        return BLINK_FAIL(result, "flow %u: %s", flows->first_outgoing + flow, blink_error_text());
    take_done(peer, flow, &before);
    return BLINK_OK;
}

static void on_resume(peer_flows_t *flows)
{
    run_peer_t *peer = peer_of(flows);
    peer->remote_address = 0;
    peer->source = NULL;
    peer->looked_for_source = false;
    for (uint32_t i = 0; peer->out && i < peer->out->lane_count; i++) {
        flow_sender_t before = peer->senders[i];
        flow_sender_resume(&peer->senders[i]);
        if (peer->may_send)
            take_done(peer, i, &before);
    }
}

static blink_result_t on_credit(peer_flows_t *flows, uint32_t flow, uint32_t credit)
{
    run_peer_t *peer = peer_of(flows);
    blink_result_t result = flow_sender_grant(&peer->senders[flow], credit);
    if (result != BLINK_OK)
        return BLINK_FAIL(result, "flow %u: %s", flows->first_outgoing + flow, blink_error_text());
    out_due(peer, flow);
    return BLINK_OK;
}

void run_peer_stop(run_peer_t *peer)
{
    for (uint32_t i = 0; peer->out && i < peer->out->lane_count; i++) {
        flow_sender_t *sender = &peer->senders[i];
        if (flow_sender_is_settled(sender))
            continue;
        (void)flow_sender_stop(sender);
        if (flow_sender_is_settled(sender))
            sender_is_settled(peer);
    }
}

void run_peer_give_up(run_peer_t *peer)
{
    peer->given_up = true;
    if (run_peer_stands(peer) && peer->landing->user == &peer->flows)
        peer->landing->user = NULL;
}

/* The endpoint is lost, and has cut the landing. */
static void on_cut(peer_flows_t *flows)
{
    run_peer_t *peer = peer_of(flows);
    run_peer_give_up(peer);
    for (uint32_t i = 0; peer->out && i < peer->out->lane_count; i++)
        flow_sender_cut(&peer->senders[i]);
    if (peer->unsettled > 0) {
        peer->unsettled = 0;
        endpoint_forget_numbers(flows);
    }
    run_check_settled(peer->run);
}

const peer_flows_calls_t run_peer_calls = {.next = on_next,
                                           .sent = on_sent,
                                           .arrived = on_arrived,
                                           .credit = on_credit,
                                           .came = on_came,
                                           .resume = on_resume,
                                           .cut = on_cut};

/* ---- the mailbox ---- */

static void take_ready(data_run_t *run, uint32_t wire)
{
    run_peer_t *peer = &run->peers[run->peer_of[wire]];
    uint32_t lane = run->first_lane + wire;
    if (peer->out && lane - peer->out->lane_first < peer->out->lane_count)
        out_ready(peer, lane - peer->out->lane_first);
    else
        in_ready(peer, lane - peer->in->lane_first);
}

static void take_abort(data_run_t *run)
{
    const data_handler_t *handler = &run->data->config.handler;
    run->aborted = true;
    for (uint32_t i = 0; i < run->peer_count; i++)
        run_peer_stop(&run->peers[i]);
    if (!run->told_aborted && !run->ended) {
        run->told_aborted = true;
        handler->aborted(handler->context, run->context,
                         BLINK_FAIL(BLINK_ERR_ABORTED, "the run was aborted"));
    }
}

void run_on_posted(mailbox_item_t *item)
{
    data_run_t *run = CONTAINER_OF(item, data_run_t, item);
    /* seq_cst: as said in post(). */
    atomic_store_explicit(&run->posted, false, memory_order_seq_cst);
    if (!run->aborted && atomic_load_explicit(&run->abort_posted, memory_order_seq_cst))
        take_abort(run);
    for (uint32_t word = 0; word < (run->lane_count + 63) / 64; word++) {
        uint64_t bits = atomic_exchange_explicit(&run->raised[word], 0, memory_order_seq_cst);
        for (; bits; bits &= bits - 1)
            take_ready(run, word * 64 + (uint32_t)__builtin_ctzll(bits));
    }
    run_check_settled(run);
}

/* ---- the end ---- */

/* Whether moves of the peer are still to come; or its BEGIN, without which nobody knows whether what was sent
 * before it is what the peer wants. */
static bool is_awaited(const run_peer_t *peer)
{
    bool may_come = peer->landing && !(run_peer_stands(peer) && peer->given_up);
    return (may_come && !landing_is_settled(peer->landing)) ||
           (peer->suits_out && !peer->agreed && !peer->given_up);
}

bool run_peer_is_settled(const run_peer_t *peer)
{
    return peer->unsettled == 0 && !is_awaited(peer);
}

static bool flows_are_settled(const data_run_t *run)
{
    uint32_t i = 0;
    while (i < run->peer_count && run_peer_is_settled(&run->peers[i]))
        i++;
    return i == run->peer_count;
}

void run_check_settled(data_run_t *run)
{
    const data_handler_t *handler = &run->data->config.handler;
    if (run->settled || !(run->settles || run->aborted) || !flows_are_settled(run))
        return;
    if (run->started && !run->ended && run->open > 0) {
        if (!run->aborted)
            return; /* the executor has lanes that nobody can serve: its abort is to come */
        run->open = 0;
        exec_wire_settled(run->instance);
    }
    if (!run->settles)
        return;
    run->settled = true;
    handler->settled(handler->context, run->context);
}
