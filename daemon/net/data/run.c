/* The life of a run: landings that are lent, what BEGIN and FAIL say, the end. */
#include "net/data/run.h"

#include "exec/instance.h"

#include <stdio.h>
#include <stdlib.h>

/* Payloads up to this are passed on by the thread that takes them in. */
#define SHORT_RUN_BYTES (32u << 10)

/* No executor has more slots per edge, so a peer that says so lies. */
#define SLOTS_MOST 1024u

/* ---- geometry ---- */

static bool lands_in_slots(const lane_program_t *program, const lane_t *lane)
{
    for (uint32_t s = lane->step_first; s < lane->step_first + lane->step_count; s++) {
        if (program->operands[program->steps[s].dst_first].buffer == LANE_LANDING)
            return true;
    }
    return false;
}

/* Moves that have memory at once where a wire lane ends, in this geometry. */
static uint32_t places_of(const lane_geometry_t *geometry, uint32_t lane_number)
{
    const lane_t *lane = &geometry->program->lanes[lane_number];
    if (!lands_in_slots(geometry->program, lane))
        return FLOW_ALL_PLACES;
    uint32_t places = geometry->channels[lane->channel].slots * lane->step_count;
    return places > 0 ? places : 1;
}

/* ---- memory ---- */

typedef struct layout {
    uint8_t *at; /* NULL: only count */
    size_t bytes;
} layout_t;

static void *lay(layout_t *layout, size_t count, size_t item_bytes)
{
    void *place = layout->at ? layout->at + layout->bytes : NULL;
    layout->bytes += (count * item_bytes + 15) / 16 * 16;
    return place;
}

static size_t words_of(uint32_t bits)
{
    return (bits + 63) / 64;
}

static uint32_t own_ranks(const lane_program_t *program)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < program->rank_count; r++)
        count += program->rank_host[r] == program->host;
    return count;
}

/* One more than the highest number of a host. */
static uint32_t host_limit(const lane_program_t *program)
{
    uint32_t limit = program->host + 1;
    for (uint32_t i = 0; i < program->landing_count; i++) {
        const lane_landing_t *landing = &program->landings[i];
        limit = landing->from_host >= limit ? landing->from_host + 1 : limit;
        limit = landing->to_host >= limit ? landing->to_host + 1 : limit;
    }
    return limit;
}

/* Give the run's arrays their places; a landing of the program has one peer, and a peer two of them at most.
 */
static void lay_out(data_run_t *run, const lane_program_t *program, layout_t *layout)
{
    uint32_t lane_count = program->wire_count;
    run->landings = lay(layout, program->landing_count, sizeof(*run->landings));
    run->device_landings = lay(layout, program->landing_count, sizeof(*run->device_landings));
    run->outputs = lay(layout, own_ranks(program), sizeof(*run->outputs));
    run->place_of = lay(layout, program->rank_count, sizeof(*run->place_of));
    run->peers = lay(layout, program->landing_count, sizeof(*run->peers));
    run->peer_of_host = lay(layout, host_limit(program), sizeof(*run->peer_of_host));
    run->peer_of = lay(layout, lane_count, sizeof(*run->peer_of));
    run->ready = lay(layout, lane_count, sizeof(*run->ready));
    run->raised = lay(layout, words_of(lane_count), sizeof(*run->raised));
}

static void lay_out_flows(run_peer_t *peer, layout_t *layout)
{
    uint32_t out = peer->out ? peer->out->lane_count : 0, in = peer->in ? peer->in->lane_count : 0;
    peer->senders = lay(layout, out, sizeof(*peer->senders));
    peer->due = lay(layout, words_of(out), sizeof(*peer->due));
    peer->receivers = lay(layout, in, sizeof(*peer->receivers));
    peer->told = lay(layout, in, sizeof(*peer->told));
    peer->moves = lay(layout, in, sizeof(*peer->moves));
}

/* At most so much for the flows of all peers. */
static size_t flows_bytes(const lane_program_t *program)
{
    const run_peer_t *peer = NULL;
    size_t per_lane = sizeof(*peer->senders) + sizeof(*peer->receivers) + 2 * sizeof(*peer->told);
    return program->wire_count * (per_lane + sizeof(*peer->due) / 8) + program->landing_count * 128;
}

/* `layout` is left where the flows of the peers go. */
static blink_result_t allocate(const lane_program_t *program, layout_t *layout, data_run_t **created)
{
    data_run_t counted;
    layout_t count = {0};
    (void)lay(&count, 1, sizeof(counted));
    lay_out(&counted, program, &count);
    uint8_t *memory = calloc(1, count.bytes + flows_bytes(program));
    if (!memory)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u flows", program->wire_count);
    *layout = (layout_t){.at = memory};
    data_run_t *run = lay(layout, 1, sizeof(*run));
    lay_out(run, program, layout);
    run->first_lane = program->lane_count - program->wire_count;
    run->lane_count = program->wire_count;
    run->program = program;
    *created = run;
    return BLINK_OK;
}

/* ---- the peers ---- */

static run_peer_t *add_peer(data_run_t *run, uint32_t host)
{
    uint32_t *number = &run->peer_of_host[host];
    if (*number == PLAN_NONE) {
        run_peer_t *peer = &run->peers[ *number = run->peer_count++];
        *peer = (run_peer_t){.run = run, .host = host, .there = &run->instance->geometry};
        list_init(&peer->flows.of_endpoint);
        list_init(&peer->flows.of_due);
    }
    return &run->peers[*number];
}

static void find_peers(data_run_t *run)
{
    const lane_program_t *program = run->program;
    for (uint32_t host = 0; host < host_limit(program); host++)
        run->peer_of_host[host] = PLAN_NONE;
    for (uint32_t i = 0; i < program->landing_count; i++) {
        const lane_landing_t *landing = &program->landings[i];
        bool goes = landing->from_host == program->host;
        run_peer_t *peer = add_peer(run, goes ? landing->to_host : landing->from_host);
        *(goes ? &peer->out : &peer->in) = landing;
        for (uint32_t l = 0; l < landing->lane_count; l++)
            run->peer_of[landing->lane_first + l - run->first_lane] = (uint32_t)(peer - run->peers);
    }
}

/* NULL: no wire lanes go there or come from there. */
static run_peer_t *find_peer(const data_run_t *run, uint32_t host)
{
    uint32_t number = host < host_limit(run->program) ? run->peer_of_host[host] : PLAN_NONE;
    return number == PLAN_NONE ? NULL : &run->peers[number];
}

/* Whether what comes or goes so lands in a standing landing: both its hosts find the same. */
static bool suits_standing(const data_run_t *run, const lane_landing_t *landing)
{
    const lane_program_t *program = run->program;
    if (!run->standing || !program->lands_in_slots || landing->lane_count > STANDING_FLOWS ||
        run->instance->geometry.landing_bytes[landing - program->landings] > STANDING_BYTES)
        return false;
    uint32_t i = 0;
    while (i < landing->lane_count &&
           exec_wire_moves(run->instance, landing->lane_first + i) <= WIRE_STANDING_MOVES)
        i++;
    return i == landing->lane_count;
}

static void open_flows(run_peer_t *peer)
{
    const data_run_t *run = peer->run;
    peer->suits_out = peer->out && suits_standing(run, peer->out);
    peer->suits_in = peer->in && suits_standing(run, peer->in);
    for (uint32_t i = 0; peer->out && i < peer->out->lane_count; i++) {
        uint32_t moves = exec_wire_moves(run->instance, peer->out->lane_first + i);
        flow_sender_open(&peer->senders[i], moves);
        peer->unsettled += moves > 0;
    }
    for (uint32_t i = 0; peer->in && i < peer->in->lane_count; i++) {
        uint32_t lane = peer->in->lane_first + i;
        peer->moves[i] = exec_wire_moves(run->instance, lane);
        flow_receiver_open(&peer->receivers[i], peer->moves[i], places_of(&run->instance->geometry, lane));
    }
}

static void find_outputs(data_run_t *run, const data_run_config_t *config)
{
    const lane_program_t *program = run->program;
    for (uint32_t r = 0; r < program->rank_count; r++) {
        run_peer_t *peer = find_peer(run, program->rank_host[r]);
        if (peer)
            run->place_of[r] = ++peer->rank_count;
        if (program->rank_host[r] != program->host)
            continue;
        if (config->outputs && config->outputs[r])
            run->outputs[run->output_count] = (landing_output_t){config->outputs[r], config->output_bytes[r]};
        run->output_count++;
    }
}

static void prepare(data_run_t *run, const data_run_config_t *config, layout_t *layout)
{
    const lane_geometry_t *geometry = &config->instance->geometry;
    run->instance = config->instance;
    run->context = config->context;
    run->tenant = config->tenant;
    run->standing = config->standing;
    run->number = config->number;
    run->first_ended = config->ended;
    run->item.run = run_on_posted;
    run->wires = (exec_wires_t){run_on_ready, run_on_aborted, run, run->landings, run->device_landings};
    bool is_short = geometry->block_bytes * run->program->block_count <= SHORT_RUN_BYTES;
    run->go_on = is_short ? exec_wire_run : config->is_crowded ? exec_wire_run_some : exec_wire_queue;
    find_peers(run);
    find_outputs(run, config);
    for (uint32_t i = 0; i < run->peer_count; i++) {
        lay_out_flows(&run->peers[i], layout);
        open_flows(&run->peers[i]);
    }
    for (uint32_t l = 0; l < run->lane_count; l++)
        run->open += exec_wire_moves(run->instance, run->first_lane + l) > 0;
}

/* ---- landings ---- */

/* Without standing landings, for want of memory or numbers, one is lent. */
static void make_standing(data_run_t *run)
{
    for (uint32_t i = 0; i < run->peer_count; i++) {
        run_peer_t *peer = &run->peers[i];
        peer->suits_in =
            peer->suits_in && standing_make(run->standing, peer->host, run->first_ended) == BLINK_OK;
    }
}

static void give_back(run_peer_t *peer)
{
    bool is_lent = peer->landing == &peer->lent;
    run_peer_give_up(peer);
    if (is_lent && !landing_is_settled(peer->landing))
        landing_cut(peer->landing);
    if (is_lent)
        landing_return(&peer->flows.endpoint->landings, peer->landing);
    if (peer->flows.endpoint)
        endpoint_remove_flows(&peer->flows);
}

static blink_result_t join(data_run_t *run, data_endpoint_t *const *endpoints)
{
    for (uint32_t i = 0; i < run->peer_count; i++) {
        run_peer_t *peer = &run->peers[i];
        endpoint_add_flows(endpoints[peer->host], &peer->flows, &run_peer_calls);
        data_endpoint_get(peer->flows.endpoint);
        if (!data_endpoint_is_lost(peer->flows.endpoint))
            BLINK_TRY(run_peer_find_landing(peer));
    }
    return BLINK_OK;
}

static blink_result_t charge(data_run_t *run)
{
    const data_handler_t *handler = &run->data->config.handler;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < run->peer_count; i++)
        bytes += run_peer_landing_bytes(&run->peers[i]);
    BLINK_TRY(handler->charge(handler->context, run->tenant, bytes));
    run->charged_bytes = bytes;
    return BLINK_OK;
}

/* Nothing of it is under way. */
static void run_free(data_run_t *run)
{
    const data_handler_t *handler = &run->data->config.handler;
    proxy_enter(run->data);
    /* It may still be posted, though there is nothing new: afterwards it is not. */
    while (mailbox_run_some(&run->data->mailbox, UINT32_MAX) > 0)
        ;
    for (uint32_t i = 0; i < run->peer_count; i++)
        give_back(&run->peers[i]);
    proxy_leave(run->data);
    for (uint32_t i = 0; i < run->peer_count; i++) {
        lane_geometry_fini(&run->peers[i].other);
        if (run->peers[i].flows.endpoint)
            data_endpoint_put(run->peers[i].flows.endpoint);
    }
    if (run->charged_bytes > 0)
        handler->credit(handler->context, run->tenant, run->charged_bytes);
    free(run);
}

blink_result_t data_run_create(data_t *data, const data_run_config_t *config, data_run_t **created)
{
    data_run_t *run;
    layout_t layout;
    BLINK_TRY(allocate(config->instance->program, &layout, &run));
    run->data = data;
    prepare(run, config, &layout);
    make_standing(run);
    blink_result_t result = charge(run);
    if (result == BLINK_OK) {
        proxy_enter(data);
        result = join(run, config->endpoints);
        proxy_leave(data);
    }
    if (result != BLINK_OK) {
        run_free(run);
        return result;
    }
    *created = run;
    return BLINK_OK;
}

void data_run_destroy(data_run_t *run)
{
    run_free(run);
}

/* ---- what hosts tell one another ---- */

data_offer_t data_run_offer(const data_run_t *run, uint32_t host)
{
    const run_peer_t *peer = find_peer(run, host);
    if (!peer || !peer->landing)
        return (data_offer_t){.slots = run->instance->geometry.slots};
    return (data_offer_t){.first_flow = peer->landing->first_flow,
                          .flow_count = peer->in->lane_count,
                          .slots = run->instance->geometry.slots,
                          .stands = run_peer_stands(peer),
                          .keys = peer->keys,
                          .address = peer->address,
                          .round = peer->shown_round};
}

/* How the peer places what comes: as this host does, or with another number of slots. */
static blink_result_t find_geometry(run_peer_t *peer, uint32_t slots)
{
    const lane_geometry_t *own = &peer->run->instance->geometry;
    if (slots == 0 || slots > SLOTS_MOST)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "it has %u slots for an edge, not 1 to %u", slots, SLOTS_MOST);
    if (slots == own->slots)
        return BLINK_OK;
    BLINK_TRY(lane_geometry_init(own->program, own->block_bytes, 0, slots, &peer->other));
    peer->there = &peer->other;
    return BLINK_OK;
}

/* All moves may go: each has a place of its own. */
static void send_standing(run_peer_t *peer, uint32_t first_flow)
{
    peer->may_send = true;
    peer->flows.first_outgoing = first_flow;
    peer->first_sequence = wire_standing_sequence(peer->run->number / STANDING_MOST, 0);
    for (uint32_t i = 0; i < peer->out->lane_count; i++) {
        (void)flow_sender_grant(&peer->senders[i], peer->senders[i].moves);
        peer->due[i / 64] |= UINT64_C(1) << i % 64;
    }
    endpoint_flows_due(&peer->flows);
}

/* Where the peer lands these moves is known from earlier ops, and it has told that it may be used. */
static void send_early(run_peer_t *peer)
{
    const data_run_t *run = peer->run;
    uint32_t first_flow = peer->suits_out ? standing_told(run->standing, peer->host, run->number) : PLAN_NONE;
    if (first_flow != PLAN_NONE)
        send_standing(peer, first_flow);
}

static blink_result_t open_standing(run_peer_t *peer, const data_offer_t *offer)
{
    if (!peer->suits_out || (peer->may_send && peer->flows.first_outgoing != offer->first_flow))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "it takes an op in at standing flow %u, where it may not",
                          offer->first_flow);
    if (!peer->may_send)
        send_standing(peer, offer->first_flow);
    return BLINK_OK;
}

/* Moves may go there. */
static blink_result_t open_outgoing(run_peer_t *peer, const data_offer_t *offer)
{
    uint32_t count = peer->out ? peer->out->lane_count : 0;
    if (offer->flow_count != count)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "it takes %u flows of an op that has %u", offer->flow_count,
                          count);
    if (!peer->out)
        return BLINK_OK;
    if (offer->stands)
        return open_standing(peer, offer);
    if (peer->may_send)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "it has no standing landing for an op, and had one before");
    peer->may_send = peer->borrows = true;
    peer->remote_keys = offer->keys;
    /* Keys of earlier rounds open nothing any more. */
    peer->remote_address = offer->round == peer->flows.endpoint->round ? offer->address : 0;
    BLINK_TRY(find_geometry(peer, offer->slots));
    if (peer->unsettled == 0)
        return BLINK_OK;
    BLINK_TRY(endpoint_number_flows(&peer->flows, offer->first_flow, count));
    for (uint32_t i = 0; i < count; i++) {
        flow_sender_t *sender = &peer->senders[i];
        uint32_t places = places_of(peer->there, peer->out->lane_first + i);
        BLINK_TRY(flow_sender_grant(sender, flow_first_grant(sender->moves, places)));
        peer->due[i / 64] |= UINT64_C(1) << i % 64;
    }
    endpoint_flows_due(&peer->flows);
    return BLINK_OK;
}

static blink_result_t agree(run_peer_t *peer, const data_offer_t *offer)
{
    if (peer->agreed)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a second BEGIN of an op");
    peer->agreed = true;
    BLINK_TRY(open_outgoing(peer, offer));
    /* After a FAIL nothing more is to be agreed. */
    if (!peer->landing || landing_is_settled(peer->landing) || peer->failed ||
        (run_peer_stands(peer) && peer->given_up))
        return BLINK_OK;
    return landing_agree(peer->landing, peer->moves, peer->in->lane_count);
}

/* Lose the endpoint if the peer has lied. A peer that is lost already has had its landings cut. */
static blink_result_t judge(run_peer_t *peer, blink_result_t result)
{
    data_endpoint_t *endpoint = peer->flows.endpoint;
    if (result == BLINK_OK)
        return result;
    char why[BLINK_ERROR_TEXT_BYTES];
    snprintf(why, sizeof(why), "%s", blink_error_text());
    endpoint_lose(endpoint, result);
    return BLINK_FAIL(result, "host %s: %s", endpoint->peer, why);
}

blink_result_t data_run_agree(data_run_t *run, uint32_t host, const data_offer_t *offer)
{
    blink_result_t result = BLINK_OK;
    run_peer_t *peer = find_peer(run, host);
    if (!peer)
        return BLINK_OK;
    proxy_enter(run->data);
    if (!data_endpoint_is_lost(peer->flows.endpoint))
        result = judge(peer, agree(peer, offer));
    run_check_settled(run);
    proxy_leave(run->data);
    return result;
}

static blink_result_t fail(run_peer_t *peer, const uint32_t *sent, uint32_t count)
{
    if (!sent && !peer->agreed)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "an op has ended there that has not begun");
    if (!sent)
        return BLINK_OK;
    peer->failed = true;
    return landing_fail(peer->landing, sent, count);
}

blink_result_t data_run_fail(data_run_t *run, uint32_t host, const uint32_t *sent, uint32_t count)
{
    blink_result_t result = BLINK_OK;
    run_peer_t *peer = find_peer(run, host);
    if (!peer || !peer->landing)
        return BLINK_OK;
    proxy_enter(run->data);
    if (run_peer_stands(peer))
        run_peer_give_up(peer);
    else if (!data_endpoint_is_lost(peer->flows.endpoint))
        result = judge(peer, fail(peer, sent, count));
    run_check_settled(run);
    proxy_leave(run->data);
    return result;
}

/* Of as many flows as there is something to tell. */
static uint32_t tell_sent(const run_peer_t *peer, uint32_t *sent, uint32_t most)
{
    uint32_t count = 0;
    for (uint32_t i = 0; peer->borrows && i < peer->out->lane_count; i++) {
        if (i < most)
            sent[i] = peer->senders[i].posted;
        if (peer->senders[i].posted > 0)
            count = i + 1;
    }
    if (count <= most)
        return count;
    endpoint_lose(peer->flows.endpoint,
                  BLINK_FAIL(BLINK_ERR_QUOTA,
                             "an op has failed that has sent %u flows there, and a FAIL tells of %u", count,
                             most));
    return 0;
}

uint32_t data_run_stop(data_run_t *run, uint32_t host, uint32_t *sent, uint32_t most)
{
    run_peer_t *peer = find_peer(run, host);
    if (!peer)
        return 0;
    proxy_enter(run->data);
    run_peer_stop(peer);
    run_peer_give_up(peer);
    uint32_t count = tell_sent(peer, sent, most);
    run_check_settled(run);
    proxy_leave(run->data);
    return count;
}

bool data_run_sends(const data_run_t *run, uint32_t host)
{
    const run_peer_t *peer = find_peer(run, host);
    proxy_enter(run->data);
    bool sends = peer && peer->unsettled > 0;
    proxy_leave(run->data);
    return sends;
}

void data_run_lose_silent(data_run_t *run, double silent_s)
{
    proxy_enter(run->data);
    for (uint32_t i = 0; i < run->peer_count; i++) {
        if (!run_peer_is_settled(&run->peers[i]))
            endpoint_lose(run->peers[i].flows.endpoint,
                          BLINK_FAIL(BLINK_ERR_TIMEOUT,
                                     "an op has failed, and it has not said within %g s how far it has sent, "
                                     "or has not sent or taken in that much",
                                     silent_s));
    }
    proxy_leave(run->data);
}

/* ---- the executor's run ---- */

const exec_wires_t *data_run_start(data_run_t *run)
{
    proxy_enter(run->data);
    run->started = true;
    for (uint32_t i = 0; i < run->peer_count; i++)
        send_early(&run->peers[i]);
    proxy_leave(run->data);
    return &run->wires;
}

void data_run_ended(data_run_t *run)
{
    proxy_enter(run->data);
    run->ended = true;
    run_check_settled(run);
    proxy_leave(run->data);
}

void data_run_settle(data_run_t *run)
{
    proxy_enter(run->data);
    run->settles = true;
    run_check_settled(run);
    proxy_leave(run->data);
}
