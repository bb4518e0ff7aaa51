/* What happens to data: moves are posted, taken in and used up; connections are cut and fenced. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

/* ---- data ---- */

/* By the BEGIN of the receiver, whatever has become of its landing since. */
static uint8_t *address_told(lane_t *lane, const data_t *data)
{
    uint32_t i = index_of(lane), op = setting.ops[i];
    const standing_t *standing = &world.links[setting.links[i]].standing[plan_of(op)->comm];
    if (plan_of(op)->standing)
        return (uint8_t *)standing->landings[setting.k[op] % STANDING_MOST].memory + data->offset;
    return (data->place > 0 ? lane->cells : (uint8_t *)lane->landing.memory) + data->offset;
}

bool stream_post(uint32_t which)
{
    lane_t *lane = &world.lanes[which / STREAMS];
    if (which / STREAMS >= setting.lane_count || !lane->sends)
        return false;
    const flow_plan_t *flow = flow_of(lane);
    uint32_t i = index_of(lane), op = setting.ops[i], move;
    link_t *link = &world.links[setting.links[i]];
    stream_t *stream = &link->streams[which % STREAMS];
    bool alike = which % STREAMS > 0 && memcmp(stream, stream - 1, sizeof(*stream)) == 0;
    if (alike || !flow_sender_next(&lane->sender, &move))
        return false;
    search_say("host %u posts move %u of op %u on stream %u\n", flow->from, move, op, which % STREAMS);
    must(move < flow->moves, "a move that the op does not have is posted");
    data_t data = {.lane = (uint8_t)i, .move = (uint8_t)move, .flow = lane->number, .sequence = move};
    if (plan_of(op)->standing) {
        const standing_t *standing = &link->standing[plan_of(op)->comm];
        data.flow = standing->landings[setting.k[op] % STANDING_MOST].first_flow;
        data.sequence = wire_standing_sequence(setting.k[op] / STANDING_MOST, move);
        data.offset = data.move;
    } else {
        data.place = flow->slots == 0 ? 1 : 0;
        data.offset = (uint8_t)(flow->slots > 0 ? move % flow->slots : move);
    }
    if (setting.plan->verbs)
        data.address = address_told(lane, &data);
    if (!setting.plan->late) {
        flow_sender_done(&lane->sender, move);
        lane->read |= (uint8_t)(1u << move);
    }
    if (link->dead || world.hosts[flow->to].cut)
        return true;
    if (stream->count == QUEUE_MAX)
        abort();
    stream->queue[stream->count++] = data;
    return true;
}

bool stream_report_done(uint32_t which)
{
    lane_t *lane = &world.lanes[which / MOVES_MAX];
    uint32_t move = which % MOVES_MAX;
    if (which / MOVES_MAX >= setting.lane_count || !setting.plan->late || !lane->sends)
        return false;
    const flow_sender_t *sender = &lane->sender;
    if (move < sender->done || move >= sender->posted ||
        (sender->finished | sender->again) >> (move - sender->done) & 1)
        return false;
    /* On verbs, where flows resume, what is done is written: completions mean that. */
    if ((setting.plan->fences > 0 || setting.plan->verbs) && !(lane->written >> move & 1))
        return false;
    search_say("the transport has done with move %u of lane %u\n", move, which / MOVES_MAX);
    flow_sender_done(&lane->sender, move);
    lane->read |= (uint8_t)(1u << move);
    return true;
}

/* Whether nobody waits for the move. */
static bool may_drop(const data_t *data)
{
    uint32_t op = setting.ops[data->lane], to = flow_of(&world.lanes[data->lane])->to;
    return !agree(op) || world.hosts[to].states[op] == OP_FAILED;
}

/* What is true of the landing that was found for a move. */
static void check_landing(link_t *link, const data_t *data, const landing_move_t *move)
{
    lane_t *lane = &world.lanes[data->lane];
    uint32_t op = setting.ops[data->lane];
    const landing_t *right = plan_of(op)->standing ? standing_of(link, op) : &lane->landing;
    must(move->landing == right, "a move is taken in for another op");
    must(move->sequence == data->move, "a move is taken for another one");
}

/* What is true of memory before a move is written there. */
static void check_memory(const data_t *data, const uint8_t *cell)
{
    uint32_t op = setting.ops[data->lane], to = flow_of(&world.lanes[data->lane])->to;
    must(plan_of(op)->standing || is_under_way(to, op), "a move is written for an op that has ended");
    must(*cell != CELL_WRITING, "two moves are written to one place");
    /* Of a standing landing what a failed op left there is nobody's. */
    bool free = *cell == 0 || world.hosts[to].states[setting.ops[(*cell - 1) / MOVES_MAX]] != OP_RUNS;
    must(free, "a move is written over one that is not used up");
}

/* The first move leaves its stream. */
static void pop(stream_t *stream)
{
    stream->writing = false;
    stream->move = (landing_move_t){0};
    memmove(stream->queue, stream->queue + 1, --stream->count * sizeof(stream->queue[0]));
    memset(stream->queue + stream->count, 0, sizeof(stream->queue[0]));
}

static void nic_writes(stream_t *stream)
{
    const data_t *data = &stream->queue[0];
    lane_t *lane = &world.lanes[data->lane];
    check_memory(data, data->address);
    *data->address = content_of(lane, data->move);
    lane->written |= (uint8_t)(1u << data->move);
    stream->writing = true;
}

static void nic_tells(link_t *link, stream_t *stream)
{
    const data_t *data = &stream->queue[0];
    lane_t *lane = &world.lanes[data->lane];
    landing_move_t move = {0};
    must_succeed(landing_claim_immediate(&link->landings, wire_immediate(data->flow, data->sequence), &move));
    must(move.landing || may_drop(data), "a move is dropped");
    if (move.landing) {
        check_landing(link, data, &move);
        landing_arrive(&move);
        tell_credit(lane);
    }
    pop(stream);
}

bool stream_take_in(uint32_t which)
{
    link_t *link = &world.links[which / STREAMS];
    stream_t *stream = &link->streams[which % STREAMS];
    if (which / STREAMS >= setting.link_count || stream->count == 0 || stream->writing)
        return false;
    const data_t *data = &stream->queue[0];
    search_say("stream %u: move %u of op %u comes\n", which % STREAMS, data->move, setting.ops[data->lane]);
    if (setting.plan->verbs) {
        nic_writes(stream);
        return true;
    }
    wire_frame_t frame = {.bytes = 1,
                          .type = WIRE_DATA,
                          .place = data->place,
                          .flow = data->flow,
                          .sequence = data->sequence,
                          .offset = data->offset};
    stream->writing = true;
    must_succeed(landing_claim(&link->landings, &frame, &stream->move));
    if (world.wrong)
        return true;
    must(stream->move.landing || may_drop(data), "a move is dropped");
    if (stream->move.landing) {
        check_landing(link, data, &stream->move);
        check_memory(data, stream->move.address);
        *(uint8_t *)stream->move.address = CELL_WRITING;
    }
    return true;
}

void drop_from_streams(link_t *link, const landing_t *landing)
{
    for (uint32_t i = 0; i < STREAMS; i++) {
        stream_t *stream = &link->streams[i];
        if (setting.plan->verbs || !stream->writing || stream->move.landing != landing)
            continue;
        *(uint8_t *)stream->move.address = 0;
        stream->move = (landing_move_t){0};
    }
}

/* The first move of a stream is written. */
static void tcp_tells(stream_t *stream)
{
    const data_t *data = &stream->queue[0];
    lane_t *lane = &world.lanes[data->lane];
    uint8_t *cell = stream->move.address;
    lane->written |= (uint8_t)(1u << data->move); /* or dropped: it has come */
    if (stream->move.landing) {
        must(*cell == CELL_WRITING, "memory changes while a move is written to it");
        *cell = content_of(lane, data->move);
        landing_arrive(&stream->move);
        tell_credit(lane);
    }
    pop(stream);
}

bool stream_arrive(uint32_t which)
{
    link_t *link = &world.links[which / STREAMS];
    stream_t *stream = &link->streams[which % STREAMS];
    if (which / STREAMS >= setting.link_count || !stream->writing)
        return false;
    search_say("stream %u: move %u of op %u has come\n", which % STREAMS, stream->queue[0].move,
               setting.ops[stream->queue[0].lane]);
    if (setting.plan->verbs)
        nic_tells(link, stream);
    else
        tcp_tells(stream);
    advance(setting.to[which / STREAMS]);
    return true;
}

/* The lanes here that wait for a move of this one. */
static void make_ready(const lane_t *used)
{
    uint32_t op = setting.ops[index_of(used)];
    for (uint32_t i = 0; i < setting.lane_count; i++) {
        lane_t *lane = &world.lanes[i];
        const flow_plan_t *flow = setting.flows[i];
        bool waits =
            setting.ops[i] == op && flow->after > 0 && &plan_of(op)->flows[flow->after - 1] == flow_of(used);
        if (waits)
            flow_sender_ready(&lane->sender, used->consumed < flow->moves ? used->consumed : flow->moves);
    }
}

bool host_use_up(uint32_t which)
{
    lane_t *lane = &world.lanes[which];
    if (which >= setting.lane_count)
        return false;
    const flow_plan_t *flow = flow_of(lane);
    uint32_t op = setting.ops[which];
    if (world.hosts[flow->to].states[op] != OP_RUNS || !is_joined(flow->to, op, flow->from))
        return false;
    landing_t *landing = landing_of(lane);
    uint32_t move = lane->consumed;
    if (!landing || move >= landing->flows[0].arrived || move >= moves_there(lane))
        return false;
    search_say("host %u uses up move %u of op %u\n", flow->to, move, op);
    uint8_t *cell = landing->output_count > 0 ? &lane->cells[move]
                    : lane->lent              ? (uint8_t *)landing->memory + move % flow->slots
                                              : (uint8_t *)landing->memory + move;
    must(*cell == content_of(lane, move), "a lane reads what is not its move");
    *cell = 0;
    lane->consumed++;
    flow_receiver_consume(&landing->flows[0], lane->consumed);
    tell_credit(lane);
    make_ready(lane);
    return true;
}

/* ---- fences ---- */

static void close_streams(link_t *link)
{
    for (uint32_t i = 0; i < STREAMS; i++) {
        stream_t *stream = &link->streams[i];
        /* The queue of completions outlives connections: what is written is told of. */
        if (stream->writing && setting.plan->verbs)
            nic_tells(link, stream);
        else if (stream->writing && stream->move.landing)
            *(uint8_t *)stream->move.address = 0;
    }
    memset(link->streams, 0, sizeof(link->streams));
}

bool host_cut(uint32_t host)
{
    if (!setting.plan->cuts || world.hosts[host].cut || host >= setting.plan->host_count)
        return false;
    search_say("host %u closes its connections\n", host);
    world.hosts[host].cut = world.faulty = true;
    for (uint32_t i = 0; i < setting.link_count; i++) {
        link_t *link = &world.links[i];
        if (setting.to[i] != host)
            continue;
        close_streams(link);
        memset(link->controls, 0, sizeof(link->controls));
        link->control_count = 0;
        landings_cut(&link->landings);
    }
    for (uint32_t i = 0; i < setting.lane_count; i++) {
        if (setting.flows[i]->from == host && world.lanes[i].sends)
            cut_sender(&world.lanes[i]);
    }
    for (uint32_t op = 0; op < setting.plan->op_count; op++)
        fail_op(host, op);
    advance(host);
    return true;
}

/* The receiver resets the connections of data; what its flows have goes to the sender. */
bool host_fence(uint32_t which)
{
    link_t *link = &world.links[which];
    if (which >= setting.link_count || world.fences == setting.plan->fences || link->dead)
        return false;
    uint32_t from = setting.from[which], to = setting.to[which];
    control_t resume = {.type = CONTROL_RESUME};
    search_say("host %u fences what comes from host %u\n", to, from);
    world.fences++;
    link->dead = true;
    close_streams(link);
    for (uint32_t i = 0; i < setting.lane_count; i++) {
        lane_t *lane = &world.lanes[i];
        uint32_t op = setting.ops[i], state = world.hosts[to].states[op];
        landing_t *landing = &world.links[setting.links[i]] != link ? NULL
                             : plan_of(op)->standing                ? standing_of(link, op)
                             : lane->lent                           ? &lane->landing
                                                                    : NULL;
        if (!landing)
            continue;
        if (state == OP_FAILS || state == OP_FAILED) {
            landing_cut(landing);
            continue;
        }
        landing_fence(landing);
        resume.resuming |= (uint8_t)(1u << i);
        resume.arrived[i] = (uint8_t)landing->flows[0].arrived;
        resume.came[i] = (uint8_t)landing->flows[0].came;
    }
    send_control(to, from, resume);
    advance(to);
    return true;
}
