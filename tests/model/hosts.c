/* What hosts do with ops and with what the control streams bring: a stand-in of the engine. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

/* ---- messages ---- */

void send_control(uint32_t from, uint32_t to, control_t control)
{
    link_t *link = link_between(from, to);
    if (world.hosts[from].cut || world.hosts[to].cut)
        return;
    if (link->control_count == QUEUE_MAX)
        abort();
    link->controls[link->control_count++] = control;
}

static void tell_fail(uint32_t from, uint32_t to, uint32_t op)
{
    link_t *link = link_between(from, to);
    lane_t *lane = lane_on(link, op);
    if (link->fail_told[op])
        return;
    link->fail_told[op] = true;
    uint8_t sent = lane ? (uint8_t)flow_sender_stop(&lane->sender) : 0;
    if (plan_of(op)->standing)
        sent = 0; /* who gets it may have lent a landing, to which nothing goes */
    send_control(from, to, (control_t){.type = CONTROL_FAIL, .op = (uint8_t)op, .value = sent});
}

void tell_credit(lane_t *lane)
{
    const flow_plan_t *flow = flow_of(lane);
    if (!lane->lent || world.hosts[flow->to].states[setting.ops[index_of(lane)]] != OP_RUNS ||
        !flow_receiver_grant(&lane->receiver))
        return;
    send_control(flow->to, flow->from,
                 (control_t){.type = CONTROL_CREDIT,
                             .number = lane->landing.first_flow,
                             .value = (uint8_t)lane->receiver.granted});
}

/* ---- standing landings that are used again ---- */

/* What comes for an op that has ended is dropped. */
static void drop(link_t *link, landing_t *landing)
{
    drop_from_streams(link, landing);
    landing_cut(landing);
}

void advance(uint32_t host)
{
    for (uint32_t i = 0; i < setting.link_count; i++) {
        for (uint32_t comm = 0; setting.to[i] == host && comm < COMMS_MAX; comm++) {
            standing_t *standing = &world.links[i].standing[comm];
            uint32_t ended = count_ended(host, comm);
            for (uint64_t k = standing->ended; k < ended && standing->count > 0; k++)
                drop(&world.links[i], standing_landing(standing, k));
            if (standing->count > 0)
                standing_advance(standing, ended);
        }
    }
}

/* The sender's rule, for its ops that are under way. */
static void grant_standing(uint32_t from, uint32_t to)
{
    link_t *link = link_between(from, to);
    for (uint32_t op = 0; op < setting.plan->op_count; op++) {
        lane_t *lane = lane_on(link, op);
        if (lane && lane->sends && plan_of(op)->standing &&
            standing_may_send(STANDING_MOST, link_between(to, from)->told[plan_of(op)->comm], setting.k[op]))
            must_succeed(flow_sender_grant(&lane->sender, lane->sender.moves));
    }
}

/* ---- beginning and failing ---- */

void fail_op(uint32_t host, uint32_t op)
{
    if (world.hosts[host].states[op] != OP_RUNS)
        return;
    world.hosts[host].states[op] = OP_FAILS;
    world.faulty = true;
    for (uint32_t peer = 0; peer < setting.plan->host_count; peer++) {
        lane_t *lane = lane_on(link_between(host, peer), op);
        if (lane)
            flow_sender_stop(&lane->sender);
        if (is_joined(host, op, peer))
            tell_fail(host, peer, op);
    }
}

/* What comes from the peer for this op has an end: as agreed, or as its FAIL says. */
static void end_landings(uint32_t peer, uint32_t host, uint32_t op, bool failed)
{
    link_t *link = link_between(peer, host);
    lane_t *lane = lane_from(peer, host, op);
    landing_t *landing = standing_of(link, op);
    uint32_t moves = failed ? link->failed[op] - 1u : lane ? moves_there(lane) : 0;
    blink_result_t (*end)(landing_t *, const uint32_t *, uint32_t) = failed ? landing_fail : landing_agree;
    if (lane && lane->lent)
        must_succeed(end(&lane->landing, &moves, 1));
    if (landing && !failed)
        must_succeed(end(landing, &moves, plan_of(op)->standing && lane ? 1 : 0));
}

/* The peer's BEGIN has come, and the op is under way here. */
static void heed_begin(uint32_t peer, uint32_t host, uint32_t op)
{
    link_t *link = link_between(peer, host);
    lane_t *lane = lane_on(link_between(host, peer), op);
    if (!agree(op)) {
        if (!is_joined(host, op, peer))
            tell_fail(host, peer, op);
        fail_op(host, op);
        return;
    }
    end_landings(peer, host, op, false);
    if (lane && lane->sends && !plan_of(op)->standing) {
        const flow_plan_t *flow = flow_of(lane);
        uint32_t places = flow->slots > 0 ? flow->slots : FLOW_ALL_PLACES;
        lane->number = link->numbers[op];
        must_succeed(flow_sender_grant(&lane->sender, flow_first_grant(flow->moves, places)));
    }
}

static void heed_fail(uint32_t peer, uint32_t host, uint32_t op)
{
    end_landings(peer, host, op, true);
    fail_op(host, op);
}

static void lend(lane_t *lane)
{
    const flow_plan_t *flow = flow_of(lane);
    uint32_t moves = moves_there(lane);
    link_t *link = &world.links[setting.links[index_of(lane)]];
    flow_receiver_open(&lane->receiver, moves, flow->slots > 0 ? flow->slots : FLOW_ALL_PLACES);
    must_succeed(landing_lend(&link->landings, &lane->landing, &lane->receiver, 1, flow->slots));
    lane->output = (landing_output_t){lane->cells, sizeof(lane->cells)};
    lane->landing.outputs = &lane->output;
    lane->landing.output_count = flow->slots == 0;
    lane->lent = true;
}

static bool lends(uint32_t op, const flow_plan_t *flow)
{
    return plan_of(op)->lends && flow == &plan_of(op)->flows[0];
}

static void open_lanes(uint32_t host, uint32_t op, bool fails)
{
    for (uint32_t i = 0; i < setting.lane_count; i++) {
        lane_t *lane = &world.lanes[i];
        const flow_plan_t *flow = setting.flows[i];
        if (setting.ops[i] != op)
            continue;
        if (flow->from == host) {
            flow_sender_open(&lane->sender, flow->moves);
            flow_sender_ready(&lane->sender, flow->after == 0 ? flow->moves : 0);
            lane->sends = true;
        } else if (flow->to == host && (!plan_of(op)->standing || lends(op, flow)) && !fails &&
                   is_joined(host, op, flow->from)) {
            lend(lane);
        }
    }
}

static bool may_begin(uint32_t host, uint32_t op)
{
    const op_plan_t *plan = plan_of(op);
    if (world.hosts[host].states[op] != OP_AHEAD || (plan->never && host + 1u == setting.plan->host_count))
        return false;
    for (uint32_t before = 0; before < op; before++) {
        if (plan_of(before)->comm == plan->comm && world.hosts[host].states[before] == OP_AHEAD)
            return false;
    }
    for (uint32_t i = 0; i < setting.link_count; i++) {
        if (setting.to[i] == host && !standing_may_begin(&world.links[i].standing[plan->comm], setting.k[op]))
            return world.hosts[host].cut;
    }
    return true;
}

bool host_begin(uint32_t which)
{
    uint32_t host = which % HOSTS_MAX, op = which / HOSTS_MAX, host_count = setting.plan->host_count;
    bool fails = world.hosts[host].cut;
    if (host >= host_count || op >= setting.plan->op_count || !may_begin(host, op))
        return false;
    for (uint32_t peer = 0; peer < host_count; peer++)
        fails |= is_joined(host, op, peer) && link_between(peer, host)->failed[op];
    search_say("host %u begins op %u%s\n", host, op, fails ? ", which has failed" : "");
    world.hosts[host].states[op] = OP_RUNS;
    open_lanes(host, op, fails);
    for (uint32_t peer = 0; peer < host_count; peer++) {
        if (!is_joined(host, op, peer) || fails)
            continue;
        const lane_t *lane = lane_from(peer, host, op);
        link_t *link = link_between(peer, host);
        send_control(host, peer,
                     (control_t){.type = CONTROL_BEGIN,
                                 .op = (uint8_t)op,
                                 .value = (uint8_t)link->standing[plan_of(op)->comm].ended,
                                 .number = lane && lane->lent ? lane->landing.first_flow : NO_NUMBER});
        grant_standing(host, peer);
    }
    for (uint32_t peer = 0; peer < host_count; peer++) {
        link_t *link = link_between(peer, host);
        if (link && link->begun[op])
            heed_begin(peer, host, op);
        if (link && link->failed[op])
            heed_fail(peer, host, op);
    }
    if (fails)
        fail_op(host, op);
    return true;
}

bool host_fail(uint32_t which)
{
    uint32_t host = which % HOSTS_MAX, op = which / HOSTS_MAX;
    if (world.hosts[host].states[op] != OP_RUNS)
        return false;
    /* Who waits for a host that does not come has a time-out. */
    if (!plan_of(op)->never) {
        if (world.fails == setting.plan->fails)
            return false;
        world.fails++;
    }
    search_say("host %u fails op %u\n", host, op);
    fail_op(host, op);
    return true;
}

/* ---- control ---- */

static void take_credit(uint32_t peer, uint32_t host, const control_t *control)
{
    link_t *link = link_between(host, peer);
    for (uint32_t i = 0; i < setting.lane_count; i++) {
        lane_t *lane = &world.lanes[i];
        if (&world.links[setting.links[i]] == link && lane->sends && lane->number == control->number)
            must_succeed(flow_sender_grant(&lane->sender, control->value));
    }
}

static void take_begin(uint32_t peer, uint32_t host, const control_t *control)
{
    link_t *link = link_between(peer, host);
    uint32_t op = control->op;
    uint8_t *told = &link->told[plan_of(op)->comm];
    link->begun[op] = true;
    link->numbers[op] = control->number;
    must(control->value >= *told, "fewer ops have ended than before");
    *told = control->value;
    if (is_under_way(host, op))
        heed_begin(peer, host, op);
    else if (is_over(host, op) && !agree(op))
        tell_fail(host, peer, op);
    grant_standing(host, peer);
}

static void take_fail(uint32_t peer, uint32_t host, const control_t *control)
{
    uint32_t op = control->op;
    link_between(peer, host)->failed[op] = (uint8_t)(1 + control->value);
    if (is_under_way(host, op))
        heed_fail(peer, host, op);
    tell_fail(host, peer, op);
}

void cut_sender(lane_t *lane)
{
    flow_sender_cut(&lane->sender);
    lane->cut = true;
}

static void take_resume(uint32_t peer, uint32_t host, const control_t *control)
{
    link_t *link = link_between(host, peer);
    link->dead = false;
    for (uint32_t i = 0; i < setting.lane_count; i++) {
        lane_t *lane = &world.lanes[i];
        if (&world.links[setting.links[i]] != link || !lane->sends)
            continue;
        if (control->resuming >> i & 1) {
            must_succeed(flow_sender_arrived(&lane->sender, control->arrived[i], control->came[i]));
            flow_sender_resume(&lane->sender);
        } else if (lane->sender.posted > 0)
            cut_sender(lane); /* the op has ended there, or failed */
    }
}

bool host_take_control(uint32_t which)
{
    static void (*const takers[])(uint32_t, uint32_t, const control_t *) = {
        [CONTROL_BEGIN] = take_begin,
        [CONTROL_CREDIT] = take_credit,
        [CONTROL_FAIL] = take_fail,
        [CONTROL_RESUME] = take_resume,
    };
    static const char *const names[] = {"BEGIN", "CREDIT", "FAIL", "RESUME"};
    link_t *link = &world.links[which];
    if (which >= setting.link_count || link->control_count == 0)
        return false;
    control_t control = link->controls[0];
    memmove(link->controls, link->controls + 1, --link->control_count * sizeof(control));
    memset(link->controls + link->control_count, 0, sizeof(control));
    search_say("host %u hears %s %u of op %u from host %u\n", setting.to[which], names[control.type],
               control.value, control.op, setting.from[which]);
    takers[control.type](setting.from[which], setting.to[which], &control);
    advance(setting.to[which]);
    return true;
}

/* ---- ends ---- */

static bool lane_lets_end(lane_t *lane, uint32_t host, bool fails)
{
    const flow_plan_t *flow = flow_of(lane);
    uint32_t op = setting.ops[index_of(lane)];
    if (flow->from == host)
        return !lane->sends || (flow_sender_is_settled(&lane->sender) &&
                                (fails || !plan_of(op)->standing || link_between(flow->to, host)->begun[op]));
    if (flow->to != host || !is_joined(host, op, flow->from))
        return true;
    if (fails)
        return !lane->lent || landing_is_settled(&lane->landing);
    return lane->consumed == moves_there(lane) && link_between(flow->from, host)->begun[op];
}

static void end_sending(lane_t *lane)
{
    uint32_t posted = (1u << lane->sender.posted) - 1;
    /* After a fence nobody reads, and what has come has been read. */
    must(!lane->sends || lane->cut || (posted & ~(lane->read | lane->written)) == 0,
         "an op ends while one of its sources is read");
    lane->sends = false;
}

bool host_end(uint32_t which)
{
    uint32_t host = which % HOSTS_MAX, op = which / HOSTS_MAX;
    if (op >= setting.plan->op_count || !is_under_way(host, op))
        return false;
    bool fails = world.hosts[host].states[op] == OP_FAILS;
    for (uint32_t i = 0; i < setting.lane_count; i++) {
        if (setting.ops[i] == op && !lane_lets_end(&world.lanes[i], host, fails))
            return false;
    }
    search_say("host %u ends op %u%s\n", host, op, fails ? ", which has failed" : "");
    world.hosts[host].states[op] = fails ? OP_FAILED : OP_ENDED;
    for (uint32_t i = 0; i < setting.lane_count; i++) {
        lane_t *lane = &world.lanes[i];
        if (setting.ops[i] != op)
            continue;
        if (setting.flows[i]->from == host)
            end_sending(lane);
        if (setting.flows[i]->to != host || !lane->lent)
            continue;
        must(landing_is_settled(&lane->landing), "an op has all its moves and its landing is not settled");
        landing_return(&world.links[setting.links[i]].landings, &lane->landing);
        lane->lent = false;
    }
    advance(host);
    return true;
}
