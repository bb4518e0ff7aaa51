#include "control/gather/wire.h"

#include "net/message.h"
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

/* What a message of a kind has, besides the kind. */
enum { HAS_ID = 1, HAS_ATTEMPT = 2, HAS_TERMS = 4, HAS_REASON = 8, HAS_COMM = 16 };

static const unsigned FIELDS[] = {
    [GATHER_JOIN] = HAS_ID | HAS_ATTEMPT | HAS_TERMS,
    [GATHER_REFUSED] = HAS_ID | HAS_ATTEMPT | HAS_REASON,
    [GATHER_FAILED] = HAS_ID | HAS_ATTEMPT | HAS_REASON,
    [GATHER_LEFT] = HAS_ID | HAS_ATTEMPT | HAS_REASON,
    [GATHER_READY] = HAS_ID | HAS_TERMS | HAS_COMM,
    [GATHER_ACKNOWLEDGED] = HAS_COMM,
    [GATHER_LOST] = HAS_REASON | HAS_COMM,
    [GATHER_ENDED] = HAS_COMM,
};

static const char *const NAMES[] = {
    [GATHER_JOIN] = "JOIN", [GATHER_REFUSED] = "REFUSED", [GATHER_FAILED] = "FAILED",
    [GATHER_LEFT] = "LEFT", [GATHER_READY] = "READY",     [GATHER_ACKNOWLEDGED] = "ACKNOWLEDGED",
    [GATHER_LOST] = "LOST", [GATHER_ENDED] = "ENDED",
};

#define KIND_COUNT (sizeof(NAMES) / sizeof(NAMES[0]))

static const uint8_t UNUSED_ADDRESS[16];

/* ---- to be sent ---- */

static bool write_ranks(const gather_message_t *message, arena_t *arena, Blinkpeer__Gather *written)
{
    size_t count = message->rank_count;
    written->ranks = arena_alloc(arena, count, sizeof(*written->ranks));
    written->devices = arena_alloc(arena, count, sizeof(*written->devices));
    written->tickets = arena_alloc(arena, count, sizeof(*written->tickets));
    written->on_gpu = arena_alloc(arena, count, sizeof(*written->on_gpu));
    if (!written->ranks || !written->devices || !written->tickets || !written->on_gpu)
        return false;
    for (size_t i = 0; i < count; i++) {
        written->ranks[i] = message->ranks[i].rank;
        written->devices[i] = message->ranks[i].device;
        written->tickets[i] = message->ranks[i].ticket;
        written->on_gpu[i] = message->ranks[i].on_gpu;
    }
    written->n_ranks = written->n_devices = written->n_tickets = written->n_on_gpu = count;
    return true;
}

static bool write_seats(const gather_message_t *message, arena_t *arena, Blinkpeer__Gather *written)
{
    size_t count = message->terms.rank_count;
    written->rank_hosts = arena_alloc(arena, count, sizeof(*written->rank_hosts));
    written->devices = arena_alloc(arena, count, sizeof(*written->devices));
    written->tickets = arena_alloc(arena, count, sizeof(*written->tickets));
    if (!written->rank_hosts || !written->devices || !written->tickets)
        return false;
    for (size_t i = 0; i < count; i++) {
        written->rank_hosts[i] = message->seats[i].host;
        written->devices[i] = message->seats[i].device;
        written->tickets[i] = message->seats[i].ticket;
    }
    written->n_rank_hosts = written->n_devices = written->n_tickets = count;
    return true;
}

/* The digest's place; it is entered if it is new. Hosts mostly have the topology of the host before. */
static uint32_t place_of_topology(Blinkpeer__Gather *written, const uint8_t digest[GATHER_DIGEST_BYTES])
{
    for (size_t i = written->n_topologies; i > 0; i--) {
        if (memcmp(written->topologies[i - 1].data, digest, GATHER_DIGEST_BYTES) == 0)
            return (uint32_t)i - 1;
    }
    written->topologies[written->n_topologies++] =
        (ProtobufCBinaryData){GATHER_DIGEST_BYTES, (uint8_t *)(uintptr_t)digest}; /* only read */
    return (uint32_t)written->n_topologies - 1;
}

static bool write_host(const gather_ready_host_t *from, arena_t *arena, Blinkpeer__Gather *written)
{
    const gather_host_t *host = &from->host;
    Blinkpeer__GatherHost *to = arena_alloc(arena, 1, sizeof(*to));
    ProtobufCBinaryData *addresses = arena_alloc(arena, UNIQUE_ID_ADDRESSES, sizeof(*addresses));
    if (!to || !addresses)
        return false;
    blinkpeer__gather_host__init(to);
    to->name = (char *)(uintptr_t)host->name; /* only read */
    to->instance = host->instance;
    to->port = host->port;
    to->attempt = from->attempt;
    to->topology = place_of_topology(written, host->topology);
    to->addresses = addresses;
    for (uint32_t i = 0; i < UNIQUE_ID_ADDRESSES; i++) {
        if (memcmp(host->addresses[i], UNUSED_ADDRESS, sizeof(UNUSED_ADDRESS)) != 0)
            addresses[to->n_addresses++] =
                (ProtobufCBinaryData){sizeof(host->addresses[i]), (uint8_t *)(uintptr_t)host->addresses[i]};
    }
    written->hosts[written->n_hosts++] = to;
    return true;
}

static bool write_hosts(const gather_message_t *message, arena_t *arena, Blinkpeer__Gather *written)
{
    written->hosts = arena_alloc(arena, message->host_count, sizeof(*written->hosts));
    written->topologies = arena_alloc(arena, message->host_count, sizeof(*written->topologies));
    bool fits = written->hosts && written->topologies;
    for (uint32_t i = 0; i < message->host_count && fits; i++)
        fits = write_host(&message->hosts[i], arena, written);
    return fits;
}

static bool write_topology(const gather_host_t *own, arena_t *arena, Blinkpeer__Gather *written)
{
    written->topologies = arena_alloc(arena, 1, sizeof(*written->topologies));
    if (written->topologies)
        (void)place_of_topology(written, own->topology);
    return written->topologies;
}

blink_result_t gather_write(const gather_message_t *message, const gather_host_t *own, arena_t *arena,
                            Blinkpeer__Gather *written)
{
    bool fits = true;
    blinkpeer__gather__init(written);
    written->kind = (uint32_t)message->kind + 1;
    if (FIELDS[message->kind] & HAS_ID) {
        written->id = (ProtobufCBinaryData){sizeof(message->id), (uint8_t *)(uintptr_t)&message->id};
        written->uid = message->uid;
    }
    written->attempt = message->attempt;
    written->ticket = message->ticket;
    written->comm_home = message->comm.home;
    written->comm_number = message->comm.number;
    written->rank_count = message->terms.rank_count;
    written->algorithm = message->terms.algorithm;
    written->op_timeout_ms = message->terms.op_timeout_ms;
    written->init_timeout_ms = message->terms.init_timeout_ms;
    written->pace_scale = message->terms.pace_scale;
    written->code = (uint32_t)message->code;
    if (message->text)
        written->text = (char *)(uintptr_t)message->text; /* only read */
    if (message->kind == GATHER_JOIN)
        fits = write_ranks(message, arena, written) && write_topology(own, arena, written);
    if (message->kind == GATHER_READY)
        fits = write_hosts(message, arena, written) && write_seats(message, arena, written);
    if (!fits)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a %s to another host", NAMES[message->kind]);
    return BLINK_OK;
}

/* ---- received ---- */

static blink_result_t fail(const gather_message_t *read, const char *what)
{
    return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a %s %s", NAMES[read->kind], what);
}

static blink_result_t read_digest(const Blinkpeer__Gather *message, const gather_message_t *read,
                                  size_t place, uint8_t digest[GATHER_DIGEST_BYTES])
{
    if (place >= message->n_topologies || message->topologies[place].len != GATHER_DIGEST_BYTES)
        return fail(read, "without a host's topology");
    memcpy(digest, message->topologies[place].data, GATHER_DIGEST_BYTES);
    return BLINK_OK;
}

static blink_result_t read_ranks(const Blinkpeer__Gather *message, arena_t *arena, gather_message_t *read)
{
    size_t count = message->n_ranks;
    if (count == 0 || count > PLAN_RANKS_MAX)
        return fail(read, "of no ranks, or of too many");
    if (message->n_devices != count || message->n_tickets != count || message->n_on_gpu != count)
        return fail(read, "whose ranks lack a device, a ticket or a kind");
    gather_join_rank_t *ranks = arena_alloc(arena, count, sizeof(*ranks));
    if (!ranks)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu ranks", count);
    for (size_t i = 0; i < count; i++)
        ranks[i] = (gather_join_rank_t){message->ranks[i], message->devices[i], message->tickets[i],
                                        message->on_gpu[i]};
    read->ranks = ranks;
    read->rank_count = (uint32_t)count;
    return BLINK_OK;
}

static blink_result_t read_seats(const Blinkpeer__Gather *message, arena_t *arena, gather_message_t *read)
{
    size_t count = read->terms.rank_count;
    if (message->n_rank_hosts != count || message->n_devices != count || message->n_tickets != count)
        return fail(read, "that does not say where every rank is");
    gather_seat_t *seats = arena_alloc(arena, count, sizeof(*seats));
    if (!seats)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu ranks", count);
    for (size_t i = 0; i < count; i++) {
        seats[i] = (gather_seat_t){message->rank_hosts[i], message->devices[i], message->tickets[i]};
        if (seats[i].host >= message->n_hosts)
            return fail(read, "with a rank on no host");
    }
    read->seats = seats;
    return BLINK_OK;
}

static blink_result_t read_host(const Blinkpeer__Gather *message, const Blinkpeer__GatherHost *from,
                                const gather_message_t *read, gather_ready_host_t *to)
{
    gather_host_t *host = &to->host;
    if (from->instance == 0 || from->port > UINT16_MAX || from->n_addresses > UNIQUE_ID_ADDRESSES)
        return fail(read, "with a host that cannot be");
    if (name_check("host name", from->name) != BLINK_OK)
        return fail(read, "with a host that cannot be called so");
    snprintf(host->name, sizeof(host->name), "%s", from->name);
    host->instance = from->instance;
    host->port = (uint16_t)from->port;
    to->attempt = from->attempt;
    for (size_t i = 0; i < from->n_addresses; i++) {
        if (from->addresses[i].len != sizeof(host->addresses[i]))
            return fail(read, "with an address that is none");
        memcpy(host->addresses[i], from->addresses[i].data, sizeof(host->addresses[i]));
    }
    return read_digest(message, read, from->topology, host->topology);
}

/* The home is there even if it has no ranks. */
static blink_result_t read_hosts(const Blinkpeer__Gather *message, arena_t *arena, gather_message_t *read)
{
    size_t count = message->n_hosts;
    if (count == 0 || count > (size_t)read->terms.rank_count + 1)
        return fail(read, "of no hosts, or of more than ranks");
    gather_ready_host_t *hosts = arena_alloc(arena, count, sizeof(*hosts));
    if (!hosts)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu hosts", count);
    for (size_t i = 0; i < count; i++)
        BLINK_TRY(read_host(message, message->hosts[i], read, &hosts[i]));
    read->hosts = hosts;
    read->host_count = (uint32_t)count;
    return BLINK_OK;
}

static blink_result_t read_id(const Blinkpeer__Gather *message, gather_message_t *read)
{
    if (unique_id_read(message->id.data, message->id.len, &read->id) != BLINK_OK)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a %s with %s", NAMES[read->kind], blink_error_text());
    return BLINK_OK;
}

static blink_result_t read_terms(const Blinkpeer__Gather *message, gather_message_t *read)
{
    read->terms = (terms_t){message->rank_count, message->algorithm, message->op_timeout_ms,
                            message->init_timeout_ms, message->pace_scale};
    /* Ranks that ask for what cannot be are refused by the home; what the home says must be sound. */
    if (read->kind == GATHER_READY && terms_check(&read->terms, 0) != BLINK_OK)
        return fail(read, "of a communicator that cannot be");
    return BLINK_OK;
}

/* What all kinds have that have it. */
static blink_result_t read_fields(const Blinkpeer__Gather *message, gather_message_t *read)
{
    unsigned fields = FIELDS[read->kind];
    if (fields & HAS_ID)
        BLINK_TRY(read_id(message, read));
    if (fields & HAS_ATTEMPT && message->attempt == 0)
        return fail(read, "without an attempt");
    if (fields & HAS_TERMS)
        BLINK_TRY(read_terms(message, read));
    if (fields & HAS_REASON && (message->code == BLINK_OK || message->code > BLINK_ERR_INTERNAL))
        return fail(read, "without a reason");
    if (fields & HAS_COMM && (message->comm_home == 0 || message->comm_number == 0))
        return fail(read, "of no communicator");
    return BLINK_OK;
}

blink_result_t gather_read(const Blinkpeer__Gather *message, arena_t *arena, gather_host_t *from,
                           gather_message_t *read)
{
    if (message->kind == 0 || message->kind > KIND_COUNT)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a Gather of kind %u", message->kind);
    *read = (gather_message_t){.kind = (gather_kind_t)(message->kind - 1),
                               .uid = message->uid,
                               .ticket = message->ticket,
                               .attempt = message->attempt,
                               .comm = {message->comm_home, message->comm_number},
                               .code = (blink_result_t)message->code,
                               .text = message->text};
    BLINK_TRY(read_fields(message, read));
    if (read->kind == GATHER_JOIN) {
        BLINK_TRY(read_ranks(message, arena, read));
        return read_digest(message, read, 0, from->topology);
    }
    if (read->kind != GATHER_READY)
        return BLINK_OK;
    BLINK_TRY(read_hosts(message, arena, read));
    return read_seats(message, arena, read);
}
