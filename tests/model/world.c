/* Who is joined to whom, the memory of the model, what is true of a state, and the search itself. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

struct world world;
struct setting setting;

void must(bool condition, const char *wrong)
{
    if (!condition && !world.wrong)
        world.wrong = wrong;
}

void must_succeed(blink_result_t result)
{
    static char text[BLINK_ERROR_TEXT_BYTES];
    if (result == BLINK_OK || world.wrong)
        return;
    strcpy(text, blink_error_text());
    world.wrong = text;
}

/* ---- who is joined ---- */

const op_plan_t *plan_of(uint32_t op)
{
    return &setting.plan->ops[op];
}

link_t *link_between(uint32_t from, uint32_t to)
{
    uint32_t number = setting.link_at[from][to];
    return number > 0 ? &world.links[number - 1] : NULL;
}

lane_t *lane_on(const link_t *link, uint32_t op)
{
    uint32_t number = link ? setting.lane_at[link - world.links][op] : 0;
    return number > 0 ? &world.lanes[number - 1] : NULL;
}

uint32_t index_of(const lane_t *lane)
{
    return (uint32_t)(lane - world.lanes);
}

const flow_plan_t *flow_of(const lane_t *lane)
{
    return setting.flows[index_of(lane)];
}

bool is_joined(uint32_t host, uint32_t op, uint32_t peer)
{
    const op_plan_t *plan = plan_of(op);
    bool joined = lane_on(link_between(host, peer), op) || lane_on(link_between(peer, host), op);
    return joined && !(plan->stranger && host == plan->flows[0].to && peer == plan->flows[0].from);
}

bool agree(uint32_t op)
{
    return plan_of(op)->other == 0 && !plan_of(op)->stranger && !plan_of(op)->lends;
}

uint32_t moves_there(const lane_t *lane)
{
    const op_plan_t *plan = plan_of(setting.ops[index_of(lane)]);
    return plan->other > 0 && flow_of(lane) == &plan->flows[0] ? plan->other : flow_of(lane)->moves;
}

lane_t *lane_from(uint32_t peer, uint32_t host, uint32_t op)
{
    return is_joined(host, op, peer) ? lane_on(link_between(peer, host), op) : NULL;
}

landing_t *standing_of(link_t *link, uint32_t op)
{
    return standing_landing(&link->standing[plan_of(op)->comm], setting.k[op]);
}

landing_t *landing_of(lane_t *lane)
{
    uint32_t i = index_of(lane);
    return lane->lent ? &lane->landing : standing_of(&world.links[setting.links[i]], setting.ops[i]);
}

bool is_over(uint32_t host, uint32_t op)
{
    return world.hosts[host].states[op] >= OP_ENDED;
}

bool is_under_way(uint32_t host, uint32_t op)
{
    return world.hosts[host].states[op] == OP_RUNS || world.hosts[host].states[op] == OP_FAILS;
}

/* ---- memory ---- */

uint8_t content_of(const lane_t *lane, uint32_t move)
{
    return (uint8_t)(1 + index_of(lane) * MOVES_MAX + move);
}

/* The lowest cells that are free, so that what is used too early is used soon. */
static blink_result_t take_cells(void *context, uint64_t bytes, void **memory)
{
    link_t *link = context;
    for (uint32_t at = 0; at + bytes <= CELLS; at++) {
        if (memchr(link->taken + at, true, bytes))
            continue;
        memset(link->taken + at, true, bytes);
        memset(link->cells + at, 0, bytes);
        *memory = link->cells + at;
        return BLINK_OK;
    }
    return BLINK_FAIL(BLINK_ERR_QUOTA, "the model has too few cells");
}

static void give_cells(void *context, void *memory, uint64_t bytes)
{
    link_t *link = context;
    size_t at = (size_t)((uint8_t *)memory - link->cells);
    must(!memchr(memory, CELL_WRITING, bytes), "memory is given back while a move is written to it");
    memset(link->taken + at, false, bytes);
    memset(link->cells + at, 0, bytes);
}

uint32_t count_ended(uint32_t host, uint32_t comm)
{
    uint32_t count = 0;
    for (uint32_t op = 0; op < setting.plan->op_count; op++) {
        if (plan_of(op)->comm != comm)
            continue;
        if (!is_over(host, op))
            break;
        count++;
    }
    return count;
}

/* ---- the search ---- */

static const struct kind {
    uint32_t count;
    bool (*happen)(uint32_t which);
} kinds[] = {
    {HOSTS_MAX * OPS_MAX, host_begin},
    {LANES_MAX * STREAMS, stream_post},
    {LANES_MAX * MOVES_MAX, stream_report_done},
    {LINKS_MAX * STREAMS, stream_take_in},
    {LINKS_MAX * STREAMS, stream_arrive},
    {LINKS_MAX, host_take_control},
    {LANES_MAX, host_use_up},
    {HOSTS_MAX * OPS_MAX, host_end},
    {HOSTS_MAX * OPS_MAX, host_fail},
    {HOSTS_MAX, host_cut},
    {LINKS_MAX, host_fence},
};

/* The streams of a link are alike: which is called the first is no matter. */
static void sort_streams(link_t *link)
{
    stream_t first = link->streams[0];
    if (memcmp(&first, &link->streams[1], sizeof(first)) >= 0)
        return;
    link->streams[0] = link->streams[1];
    link->streams[1] = first;
}

static bool happen(uint32_t event)
{
    const struct kind *kind = kinds;
    for (; event >= kind->count; kind++)
        event -= kind->count;
    if (!kind->happen(event))
        return false;
    for (uint32_t i = 0; i < setting.link_count; i++)
        sort_streams(&world.links[i]);
    return true;
}

static uint32_t count_taken(const link_t *link)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < CELLS; i++)
        count += link->taken[i];
    return count;
}

static void check_flow(const lane_t *lane)
{
    const flow_receiver_t *receiver = &lane->receiver;
    const flow_sender_t *sender = &lane->sender;
    const flow_plan_t *flow = flow_of(lane);
    must(!lane->sends || sender->posted <= sender->credit, "more is posted than was granted");
    if (!lane->lent)
        return;
    must(!lane->sends || landing_is_settled(&lane->landing) || sender->stopped ||
             sender->credit <= receiver->granted,
         "the sender has more credit than it was granted");
    must(receiver->granted <= receiver->arrived + FLOW_WINDOW, "more is granted than a map holds");
    must(flow->slots == 0 || receiver->granted <= receiver->consumed + flow->slots,
         "more is granted than there are slots");
}

static void check_end(void)
{
    const hosts_plan_t *plan = setting.plan;
    bool well = !world.faulty;
    for (uint32_t op = 0; op < plan->op_count; op++) {
        for (uint32_t host = 0; host < plan->host_count; host++) {
            uint32_t state = world.hosts[host].states[op];
            if (state == OP_AHEAD && plan->ops[op].never)
                return; /* later ops of the communicator wait for this one */
            must(state >= OP_ENDED, "an op does not end");
            must(!well || state == OP_ENDED, "an op fails, and nothing was done to it");
        }
    }
    for (uint32_t i = 0; i < setting.lane_count; i++) {
        bool ended = world.hosts[setting.flows[i]->to].states[setting.ops[i]] == OP_ENDED;
        must(!ended || plan_of(setting.ops[i])->stranger ||
                 world.lanes[i].consumed == setting.flows[i]->moves,
             "an op ends without a move");
    }
    for (uint32_t i = 0; i < setting.link_count; i++) {
        const link_t *link = &world.links[i];
        for (uint32_t comm = 0; comm < COMMS_MAX; comm++)
            must(world.hosts[setting.to[i]].cut ||
                     link->standing[comm].ended == count_ended(setting.to[i], comm),
                 "a standing landing is never used again");
        must(count_taken(link) == setting.standing_cells[i], "memory is never given back");
    }
}

static const char *wrong(bool ended)
{
    for (uint32_t i = 0; i < setting.lane_count; i++)
        check_flow(&world.lanes[i]);
    if (ended)
        check_end();
    return world.wrong;
}

static void add_link(uint32_t from, uint32_t to)
{
    if (link_between(from, to))
        return;
    if (setting.link_count == LINKS_MAX)
        abort();
    setting.from[setting.link_count] = (uint8_t)from;
    setting.to[setting.link_count++] = (uint8_t)to;
    setting.link_at[from][to] = (uint8_t)setting.link_count;
}

/* All that the code under search points to lies in the world. */
static void open_link(uint32_t which)
{
    link_t *link = &world.links[which];
    landings_init(&link->landings, UNITS * LANDING_UNIT, (landing_memory_t){take_cells, give_cells, link});
    link->landings.units.items = link->units;
    link->landings.units.capacity = UNITS;
    for (uint32_t op = 0; op < setting.plan->op_count; op++) {
        uint32_t comm = plan_of(op)->comm;
        standing_t *standing = &link->standing[comm];
        if (standing->count > 0)
            continue;
        if (standing_open(&link->landings, standing, STANDING_MOST, 1, FLOW_WINDOW, 0) != BLINK_OK)
            abort();
        memcpy(link->flows[comm], standing->flows, sizeof(link->flows[comm]));
        free(standing->flows);
        standing->flows = link->flows[comm];
        for (uint32_t i = 0; i < STANDING_MOST; i++)
            standing->landings[i].flows = &link->flows[comm][i];
    }
    setting.standing_cells[which] = count_taken(link);
}

static void add_lane(uint32_t op, const flow_plan_t *flow)
{
    uint32_t lane = setting.lane_count++;
    add_link(flow->from, flow->to);
    add_link(flow->to, flow->from);
    if (lane == LANES_MAX)
        abort();
    uint32_t link = setting.link_at[flow->from][flow->to] - 1u;
    setting.flows[lane] = flow;
    setting.ops[lane] = (uint8_t)op;
    setting.links[lane] = (uint8_t)link;
    setting.lane_at[link][op] = (uint8_t)(1 + lane);
    world.lanes[lane].number = NO_NUMBER;
}

static void open_world(const hosts_plan_t *plan)
{
    uint8_t op_counts[COMMS_MAX] = {0};
    memset(&world, 0, sizeof(world));
    memset(&setting, 0, sizeof(setting));
    setting.plan = plan;
    for (uint32_t op = 0; op < plan->op_count; op++) {
        setting.k[op] = op_counts[plan->ops[op].comm]++;
        for (uint32_t i = 0; i < plan->ops[op].flow_count; i++)
            add_lane(op, &plan->ops[op].flows[i]);
    }
    for (uint32_t i = 0; i < setting.link_count; i++)
        open_link(i);
}

void hosts_search(const hosts_plan_t *plan, search_result_t *result)
{
    uint32_t event_count = 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        event_count += kinds[i].count;
    open_world(plan);
    search(
        &(search_world_t){.state = &world,
                          .state_bytes = offsetof(struct world, links) + setting.link_count * sizeof(link_t),
                          .happen = happen,
                          .event_count = event_count,
                          .wrong = wrong},
        result);
}
