/* Sequence, credit, the map of arrivals, and when a flow is settled. */
#include "net/flow/flow.h"

#include <assert.h>

static_assert(FLOW_WINDOW >= 1 && FLOW_WINDOW <= 64, "what is on its way fits a map");

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t trailing_ones(uint64_t map)
{
    return ~map == 0 ? 64 : (uint32_t)__builtin_ctzll(~map);
}

static uint64_t without_first(uint64_t map, uint32_t count)
{
    return count < 64 ? map >> count : 0;
}

/* One more than the number of the highest bit; 0: none is set. */
static uint32_t extent(uint64_t map)
{
    return map == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(map);
}

/* ---- the sender's side ---- */

void flow_sender_open(flow_sender_t *sender, uint32_t moves)
{
    assert(moves <= FLOW_MOVES_MAX);
    *sender = (flow_sender_t){.moves = moves};
}

void flow_sender_ready(flow_sender_t *sender, uint32_t ready)
{
    assert(ready <= sender->moves);
    if (ready > sender->ready)
        sender->ready = ready;
}

blink_result_t flow_sender_grant(flow_sender_t *sender, uint32_t credit)
{
    if (credit > sender->moves)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a credit of %u for a flow of %u moves", credit, sender->moves);
    if (credit > sender->credit)
        sender->credit = credit;
    return BLINK_OK;
}

bool flow_sender_next(flow_sender_t *sender, uint32_t *sequence)
{
    if (sender->again) {
        *sequence = sender->done + (uint32_t)__builtin_ctzll(sender->again);
        sender->again &= sender->again - 1;
        return true;
    }
    /* Transports may report late what is done: its map has as many bits as the window. */
    if (sender->stopped || sender->posted >= sender->credit || sender->posted >= sender->ready ||
        sender->posted - sender->done >= FLOW_WINDOW)
        return false;
    *sequence = sender->posted++;
    return true;
}

/* Go on to the first source that is not done. */
static void sender_advance(flow_sender_t *sender)
{
    uint32_t count = trailing_ones(sender->finished);
    sender->done += count;
    sender->finished = without_first(sender->finished, count);
    sender->sent = without_first(sender->sent, count);
    sender->came = without_first(sender->came, count);
    sender->again = without_first(sender->again, count);
}

static void finish(flow_sender_t *sender, uint64_t map)
{
    sender->finished |= map;
    sender_advance(sender);
}

static uint64_t bit_of(const flow_sender_t *sender, uint32_t sequence)
{
    assert(sequence >= sender->done && sequence < sender->posted);
    uint64_t bit = 1ull << (sequence - sender->done);
    assert(!((sender->finished | sender->sent | sender->again) & bit));
    return bit;
}

void flow_sender_done(flow_sender_t *sender, uint32_t sequence)
{
    finish(sender, bit_of(sender, sequence));
}

void flow_sender_sent(flow_sender_t *sender, uint32_t sequence)
{
    uint64_t bit = bit_of(sender, sequence);
    sender->sent |= bit;
    finish(sender, bit & sender->came);
}

/* The first so many bits. */
static uint64_t first_bits(uint32_t count)
{
    return count < 64 ? (1ull << count) - 1 : UINT64_MAX;
}

blink_result_t flow_sender_arrived(flow_sender_t *sender, uint32_t arrived, uint64_t came)
{
    if (arrived > sender->posted || extent(came) > sender->posted - arrived)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "moves up to %u are said to have come, and %u were sent",
                          arrived + extent(came), sender->posted);
    uint32_t more = arrived > sender->done ? arrived - sender->done : 0;
    uint64_t beyond = more > 0 ? (more < 64 ? came << more : 0) : without_first(came, sender->done - arrived);
    sender->came |= first_bits(more) | beyond;
    /* What is to go again is in no transport's hands. */
    uint64_t free = sender->sent | sender->again;
    sender->again &= ~sender->came;
    finish(sender, sender->came & free);
    return BLINK_OK;
}

uint32_t flow_sender_stop(flow_sender_t *sender)
{
    sender->stopped = true;
    return sender->posted;
}

bool flow_sender_is_settled(const flow_sender_t *sender)
{
    return sender->done == sender->posted && (sender->stopped || sender->posted == sender->moves);
}

void flow_sender_cut(flow_sender_t *sender)
{
    sender->stopped = true;
    sender->done = sender->posted;
    sender->finished = sender->sent = sender->came = sender->again = 0;
}

void flow_sender_resume(flow_sender_t *sender)
{
    sender->sent = 0;
    sender->again = first_bits(sender->posted - sender->done) & ~(sender->finished | sender->came);
    finish(sender, sender->came);
}

/* ---- the receiver's side ---- */

static uint32_t window_of(uint32_t places)
{
    return least(places, FLOW_WINDOW);
}

uint32_t flow_first_grant(uint32_t moves, uint32_t places)
{
    return least(moves, window_of(places));
}

void flow_receiver_open(flow_receiver_t *receiver, uint32_t moves, uint32_t places)
{
    assert(moves <= FLOW_MOVES_MAX && places > 0);
    *receiver =
        (flow_receiver_t){.moves = moves, .places = places, .granted = flow_first_grant(moves, places)};
}

blink_result_t flow_receiver_claim(flow_receiver_t *receiver, uint32_t sequence)
{
    if (sequence >= receiver->granted)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "move %u was not granted: moves below %u were", sequence,
                          receiver->granted);
    uint64_t bit = sequence >= receiver->arrived ? 1ull << (sequence - receiver->arrived) : 0;
    if (!bit || receiver->claimed & bit)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "move %u comes a second time", sequence);
    receiver->claimed |= bit;
    return BLINK_OK;
}

uint32_t flow_receiver_arrive(flow_receiver_t *receiver, uint32_t sequence)
{
    assert(sequence >= receiver->arrived && sequence < receiver->granted);
    uint64_t bit = 1ull << (sequence - receiver->arrived);
    assert(receiver->claimed & bit && !(receiver->came & bit));
    receiver->came |= bit;
    uint32_t count = trailing_ones(receiver->came);
    receiver->arrived += count;
    receiver->came = without_first(receiver->came, count);
    receiver->claimed = without_first(receiver->claimed, count);
    return receiver->arrived;
}

void flow_receiver_consume(flow_receiver_t *receiver, uint32_t consumed)
{
    uint32_t limit = least(consumed, receiver->moves); /* which a FAIL may have lowered */
    if (limit > receiver->consumed)
        receiver->consumed = limit;
}

bool flow_receiver_grant(flow_receiver_t *receiver)
{
    uint32_t by_places = receiver->consumed + least(receiver->places, receiver->moves - receiver->consumed);
    uint32_t by_window = receiver->arrived + least(FLOW_WINDOW, receiver->moves - receiver->arrived);
    uint32_t limit = least(by_places, by_window);
    /* Half a window is worth a CREDIT. The sender has the other half, and one move at least: so this is no
     * more than a flow of fewer places. */
    uint32_t worth = limit < receiver->moves ? (window_of(receiver->places) + 1) / 2 : 1;
    if (limit - receiver->granted < worth)
        return false;
    receiver->granted = limit;
    return true;
}

/* The sender sends moves below this one and no others. */
static blink_result_t end_at(flow_receiver_t *receiver, uint32_t moves)
{
    uint32_t most = receiver->arrived + extent(receiver->claimed);
    if (moves < most)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the flow ends at move %u, and move %u has come", moves,
                          most - 1);
    receiver->moves = moves;
    receiver->granted = least(receiver->granted, moves);
    receiver->consumed = least(receiver->consumed, moves);
    receiver->ends = true;
    return BLINK_OK;
}

blink_result_t flow_receiver_agree(flow_receiver_t *receiver, uint32_t moves)
{
    assert(moves <= receiver->moves);
    return end_at(receiver, moves);
}

blink_result_t flow_receiver_fail(flow_receiver_t *receiver, uint32_t sent)
{
    if (sent > receiver->granted)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "%u moves are said to be sent, and %u were granted", sent,
                          receiver->granted);
    return end_at(receiver, sent);
}

bool flow_receiver_is_settled(const flow_receiver_t *receiver)
{
    return receiver->ends && receiver->arrived == receiver->moves;
}

void flow_receiver_fence(flow_receiver_t *receiver)
{
    receiver->claimed = receiver->came;
}

void flow_receiver_cut(flow_receiver_t *receiver)
{
    receiver->came = receiver->claimed = 0;
    receiver->moves = receiver->granted = receiver->arrived;
    receiver->ends = true;
}
