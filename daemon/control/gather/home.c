#include "control/gather/home.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So many gatherings are looked at for ranks that have another id. */
#define OTHERS_MOST 64u

/* ---- which there are ---- */

/* Users who have one id have a gathering each: nobody can be in another one's way by guessing the id. */
static home_t *find(const gather_t *gather, const unique_id_t *id, uint32_t uid)
{
    for (table_link_t *link = table_find(&gather->homes, gather_hash_id(gather, id)); link;
         link = table_find_next(link)) {
        home_t *home = CONTAINER_OF(link, home_t, of_ids);
        if (home->uid == uid && memcmp(&home->id, id, sizeof(*id)) == 0)
            return home;
    }
    return NULL;
}

home_t *home_find_spreading(const gather_t *gather, gather_comm_t comm)
{
    if (comm.home != gather->config.own.instance)
        return NULL;
    table_link_t *link = table_find(&gather->spreading, table_hash(comm.number));
    while (link && CONTAINER_OF(link, home_t, of_spreading)->comm.number != comm.number)
        link = table_find_next(link);
    return link ? CONTAINER_OF(link, home_t, of_spreading) : NULL;
}

static blink_result_t create(gather_t *gather, const gather_message_t *join, home_t **created)
{
    const gather_config_t *config = &gather->config;
    uint32_t rank_count = join->terms.rank_count;
    BLINK_TRY(config->calls.charge(config->context, join->uid, rank_count));
    home_t *home = calloc(1, sizeof(*home) + rank_count * sizeof(home->places[0]));
    if (!home || !table_add(&gather->homes, &home->of_ids, gather_hash_id(gather, &join->id))) {
        free(home);
        config->calls.credit(config->context, join->uid, rank_count);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a communicator of %u ranks", rank_count);
    }
    home->id = join->id;
    home->uid = join->uid;
    home->terms = join->terms;
    list_init(&home->guests);
    list_init(&home->deadline.link);
    gather->steps += deadline_set(&gather->home_deadlines, &home->deadline,
                                  gather->now_ms + gather_init_timeout_ms(gather, &home->terms));
    *created = home;
    return BLINK_OK;
}

/* Nobody gathers there any more. */
static void end_gathering(gather_t *gather, home_t *home)
{
    const gather_config_t *config = &gather->config;
    table_remove(&gather->homes, &home->of_ids);
    list_remove(&home->deadline.link);
    table_fini(&home->devices);
    config->calls.credit(config->context, home->uid, home->terms.rank_count);
}

/* It is in no table any more. */
static void destroy(gather_t *gather, home_t *home)
{
    for (guest_t *guest; (guest = LIST_FIRST(&home->guests, guest_t, of_home));) {
        list_remove(&guest->of_home);
        list_remove(&guest->of_peer);
        table_remove(&gather->guests, &guest->of_attempts);
        peer_put(gather, guest->peer);
        free(guest);
    }
    free(home);
}

static void take_out(gather_t *gather, home_t *home)
{
    if (!home_is_complete(home)) {
        end_gathering(gather, home);
        return;
    }
    table_remove(&gather->spreading, &home->of_spreading);
    list_remove(&home->deadline.link);
}

/* ---- what hosts are told ---- */

static void tell_failed(gather_t *gather, const home_t *home, const peer_t *peer, uint64_t attempt,
                        blink_result_t code, const char *text)
{
    const gather_message_t failed = {.kind = GATHER_FAILED,
                                     .id = home->id,
                                     .attempt = attempt,
                                     .comm = home->comm,
                                     .code = code,
                                     .text = text};
    peer_send(gather, peer, &failed);
}

void home_fail(gather_t *gather, home_t *home, blink_result_t code)
{
    const gather_config_t *config = &gather->config;
    char text[BLINK_ERROR_TEXT_BYTES];
    memcpy(text, blink_error_text(), sizeof(text));
    if (terms_is_final(code) && !home_is_complete(home))
        config->calls.remember(config->context, home->uid, &home->id,
                               gather_init_timeout_ms(gather, &home->terms), code);
    take_out(gather, home);
    LIST_FOR_EACH (link, &home->guests) {
        const guest_t *guest = CONTAINER_OF(link, guest_t, of_home);
        tell_failed(gather, home, guest->peer, guest->attempt, code, text);
    }
    destroy(gather, home);
    blink_error_set(code, "%s", text);
}

blink_result_t home_lost_error(const guest_t *guest)
{
    const home_t *home = guest->home;
    terms_list_t ranks = {0};
    for (uint32_t rank = 0; rank < home->terms.rank_count; rank++) {
        if (home->places[rank].guest == guest)
            terms_list_add_number(&ranks, rank);
    }
    return peer_fail_lost(guest->peer, terms_list_end(&ranks));
}

void home_settled(gather_t *gather, home_t *home)
{
    take_out(gather, home);
    destroy(gather, home);
}

/* Of this message alone, with this thread's error text. */
static void refuse(gather_t *gather, const peer_t *to, const gather_message_t *join,
                   const gather_join_rank_t *rank, blink_result_t code)
{
    char text[BLINK_ERROR_TEXT_BYTES];
    memcpy(text, blink_error_text(), sizeof(text));
    const gather_message_t refused = {.kind = GATHER_REFUSED,
                                      .id = join->id,
                                      .attempt = join->attempt,
                                      .ticket = rank->ticket,
                                      .code = code,
                                      .text = text};
    peer_send(gather, to, &refused);
    blink_error_set(code, "%s", text);
}

static void refuse_all(gather_t *gather, const peer_t *to, const gather_message_t *join, blink_result_t code)
{
    for (uint32_t i = 0; i < join->rank_count; i++)
        refuse(gather, to, join, &join->ranks[i], code);
}

/* ---- ranks come ---- */

/* The host's name, unless all ranks are on this one. */
static const char *host_named(const home_t *home, const peer_t *newcomer, const peer_t *peer)
{
    return newcomer->is_own && home->foreign_count == 0 ? NULL : peer_name(peer);
}

static terms_rank_t named(const home_t *home, const peer_t *newcomer, uint32_t rank)
{
    const place_t *place = &home->places[rank];
    return (terms_rank_t){.rank = rank,
                          .device = place->device,
                          .on_gpu = place->on_gpu,
                          .host = host_named(home, newcomer, place->guest->peer)};
}

static uint64_t hash_device(const peer_t *peer, uint32_t device)
{
    return table_hash(peer->host.instance ^ table_hash(device));
}

/* The rank that has the host's device; NULL: none has. */
static const place_t *find_on_device(const home_t *home, const peer_t *peer, uint32_t device)
{
    table_link_t *link = table_find(&home->devices, hash_device(peer, device));
    for (; link; link = table_find_next(link)) {
        const place_t *place = CONTAINER_OF(link, place_t, of_devices);
        if (place->guest->peer == peer && place->device == device)
            return place;
    }
    return NULL;
}

static guest_t *find_guest(const home_t *home, const peer_t *peer)
{
    LIST_FOR_EACH (link, &home->guests) {
        guest_t *guest = CONTAINER_OF(link, guest_t, of_home);
        if (guest->peer == peer)
            return guest;
    }
    return NULL;
}

static blink_result_t check_place(const home_t *home, const peer_t *from, const gather_message_t *join,
                                  const gather_join_rank_t *asks)
{
    const terms_rank_t rank = {asks->rank, asks->device, asks->on_gpu, host_named(home, from, from)};
    BLINK_TRY(terms_check(&join->terms, asks->rank));
    if (home->joined_count == 0)
        return BLINK_OK;
    const terms_rank_t first = named(home, from, home->first_rank);
    BLINK_TRY(terms_check_agreement(&home->terms, &first, &join->terms, &rank));
    if (home->places[asks->rank].guest) {
        const terms_rank_t holder = named(home, from, asks->rank);
        return terms_fail_rank_taken(&rank, &holder);
    }
    const place_t *taken = find_on_device(home, from, asks->device);
    if (taken) {
        const terms_rank_t holder = named(home, from, (uint32_t)(taken - home->places));
        return terms_fail_device_taken(&rank, &holder, 0);
    }
    return terms_check_kind(&first, &rank);
}

static uint64_t hash_attempt(const peer_t *peer, uint64_t attempt)
{
    return table_hash(peer->host.instance ^ table_hash(attempt));
}

const guest_t *home_find_guest(const gather_t *gather, const peer_t *peer, uint64_t attempt)
{
    table_link_t *link = table_find(&gather->guests, hash_attempt(peer, attempt));
    for (; link; link = table_find_next(link)) {
        const guest_t *guest = CONTAINER_OF(link, guest_t, of_attempts);
        if (guest->peer == peer && guest->attempt == attempt)
            return guest;
    }
    return NULL;
}

/* The host takes part. NULL: no memory. */
static guest_t *add_guest(gather_t *gather, home_t *home, peer_t *from, uint64_t attempt)
{
    guest_t *guest = calloc(1, sizeof(*guest));
    if (!guest || !table_add(&gather->guests, &guest->of_attempts, hash_attempt(from, attempt))) {
        free(guest);
        return NULL;
    }
    guest->home = home;
    guest->peer = from;
    guest->attempt = attempt;
    list_append(&home->guests, &guest->of_home);
    list_append(&from->guests, &guest->of_peer);
    home->guest_count++;
    home->foreign_count += !from->is_own;
    return guest;
}

static blink_result_t seat(gather_t *gather, home_t *home, peer_t *from, const gather_message_t *join,
                           const gather_join_rank_t *asks)
{
    BLINK_TRY(check_place(home, from, join, asks));
    place_t *place = &home->places[asks->rank];
    if (!table_add(&home->devices, &place->of_devices, hash_device(from, asks->device)))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a rank");
    place->guest = find_guest(home, from);
    if (!place->guest)
        place->guest = add_guest(gather, home, from, join->attempt);
    if (!place->guest) {
        table_remove(&home->devices, &place->of_devices);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a host of a communicator");
    }
    place->device = asks->device;
    place->ticket = asks->ticket;
    place->on_gpu = asks->on_gpu;
    if (home->joined_count++ == 0)
        home->first_rank = asks->rank;
    return BLINK_OK;
}

/* The message has come twice. */
static bool has_this_place(const home_t *home, const peer_t *from, const gather_join_rank_t *asks)
{
    const place_t *place = asks->rank < home->terms.rank_count ? &home->places[asks->rank] : NULL;
    return place && place->guest && place->guest->peer == from && place->ticket == asks->ticket;
}

/* Whether there can be a gathering under the id. Errors: PEER_LOST, ABORTED. */
static blink_result_t check_id(const gather_t *gather, const gather_message_t *join)
{
    const gather_config_t *config = &gather->config;
    if (join->id.instance != 0 && join->id.instance != config->own.instance)
        return BLINK_FAIL(BLINK_ERR_PEER_LOST,
                          "the daemon that made the id has ended: the one on %s has been started since",
                          config->own.name);
    return config->calls.recall(config->context, join->uid, &join->id);
}

/* The gathering that the ranks come to, made for the first of them. Errors: all of them are refused. */
static blink_result_t find_or_create(gather_t *gather, const gather_message_t *join, home_t **found)
{
    *found = find(gather, &join->id, join->uid);
    if (*found)
        return BLINK_OK;
    BLINK_TRY(check_id(gather, join));
    BLINK_TRY(terms_check(&join->terms, 0));
    return create(gather, join, found);
}

home_t *home_take_join(gather_t *gather, peer_t *from, const gather_message_t *join)
{
    home_t *home;
    blink_result_t result = find_or_create(gather, join, &home);
    if (result != BLINK_OK) {
        refuse_all(gather, from, join, result);
        return NULL;
    }
    for (uint32_t i = 0; i < join->rank_count; i++) {
        const gather_join_rank_t *asks = &join->ranks[i];
        if (has_this_place(home, from, asks))
            continue;
        result = seat(gather, home, from, join, asks);
        if (result != BLINK_OK) {
            const terms_rank_t rank = {asks->rank, asks->device, asks->on_gpu, host_named(home, from, from)};
            refuse(gather, from, join, asks, result);
            terms_note_refused(&home->note, &home->terms, &join->terms, &rank);
        }
    }
    if (home->joined_count == home->terms.rank_count)
        return home;
    if (home->joined_count == 0)
        home_settled(gather, home);
    return NULL;
}

void home_take_left(gather_t *gather, const peer_t *from, const gather_message_t *left)
{
    const gather_config_t *config = &gather->config;
    home_t *home = find(gather, &left->id, left->uid);
    const home_t nobody = {.id = left->id};
    blink_result_t code = blink_error_set(left->code, "%s", left->text);
    if (home)
        home_fail(gather, home, code);
    else if (terms_is_final(code))
        config->calls.remember(config->context, left->uid, &left->id, config->init_timeout_ms, code);
    tell_failed(gather, &nobody, from, left->attempt, code, left->text);
}

/* ---- complete ---- */

static const guest_t *find_lost_guest(const home_t *home)
{
    LIST_FOR_EACH (link, &home->guests) {
        const guest_t *guest = CONTAINER_OF(link, guest_t, of_home);
        if (guest->peer->is_lost)
            return guest;
    }
    return NULL;
}

/* READY refers to what is allocated here. */
static bool fill_ready(const gather_t *gather, const home_t *home, gather_message_t *ready)
{
    uint32_t rank_count = home->terms.rank_count, count = 1;
    gather_ready_host_t *hosts = calloc(home->guest_count + 1u, sizeof(*hosts));
    gather_seat_t *seats = calloc(rank_count, sizeof(*seats));
    *ready = (gather_message_t){.kind = GATHER_READY,
                                .id = home->id,
                                .uid = home->uid,
                                .comm = {gather->config.own.instance, gather->last_comm + 1},
                                .terms = home->terms,
                                .hosts = hosts,
                                .seats = seats};
    if (!hosts || !seats)
        return false;
    hosts[0].host = gather->config.own;
    LIST_FOR_EACH (link, &home->guests) {
        guest_t *guest = CONTAINER_OF(link, guest_t, of_home);
        guest->index = guest->peer->is_own ? 0 : count++;
        hosts[guest->index] = (gather_ready_host_t){guest->peer->host, guest->attempt};
    }
    for (uint32_t rank = 0; rank < rank_count; rank++) {
        const place_t *place = &home->places[rank];
        seats[rank] = (gather_seat_t){place->guest->index, place->device, place->ticket};
    }
    ready->host_count = count;
    return true;
}

void home_free_ready(const gather_message_t *ready)
{
    free((void *)(uintptr_t)ready->hosts);
    free((void *)(uintptr_t)ready->seats);
}

blink_result_t home_complete(gather_t *gather, home_t *home, gather_message_t *ready)
{
    const guest_t *lost = find_lost_guest(home);
    if (lost) {
        home_fail(gather, home, home_lost_error(lost));
        return BLINK_ERR_PEER_LOST;
    }
    table_link_t *link = &home->of_spreading;
    if (!fill_ready(gather, home, ready) ||
        !table_add(&gather->spreading, link, table_hash(ready->comm.number))) {
        home_free_ready(ready);
        home_fail(gather, home,
                  BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory on %s for a communicator of %u ranks",
                             gather->config.own.name, home->terms.rank_count));
        return BLINK_ERR_NO_MEMORY;
    }
    end_gathering(gather, home);
    home->comm = ready->comm;
    gather->last_comm++;
    gather->steps += deadline_set(&gather->spreading_deadlines, &home->deadline,
                                  gather->now_ms + gather->config.acknowledge_timeout_ms);
    return BLINK_OK;
}

/* ---- time ---- */

static void note_apart(home_t *home, const home_t *other)
{
    const terms_rank_t rank = {.rank = other->first_rank,
                               .host = peer_name(other->places[other->first_rank].guest->peer)};
    terms_note_apart(&home->note, other->terms.rank_count, &rank);
}

/* Ranks of the user that gather under another id may be those that lack here, and those here the ones that
 * lack there. */
static void note_others(const gather_t *gather, home_t *home)
{
    uint32_t looks = 0;
    LIST_FOR_EACH (link, &gather->home_deadlines) {
        home_t *other = CONTAINER_OF(link, home_t, deadline.link);
        if (looks++ == OTHERS_MOST)
            return;
        if (other == home || other->uid != home->uid)
            continue;
        note_apart(home, other);
        note_apart(other, home);
        return;
    }
}

static void time_out(gather_t *gather, home_t *home)
{
    terms_list_t missing = {0}, hosts = {0};
    note_others(gather, home);
    for (uint32_t rank = 0; rank < home->terms.rank_count; rank++) {
        guest_t *guest = home->places[rank].guest;
        if (!guest)
            terms_list_add_number(&missing, rank);
        else if (!guest->is_named)
            terms_list_add(&hosts, peer_name(guest->peer));
        if (guest)
            guest->is_named = true;
    }
    home_fail(gather, home,
              terms_fail_late(home->joined_count, home->terms.rank_count,
                              gather_init_timeout_ms(gather, &home->terms), &home->note, &missing,
                              home->foreign_count > 0 ? &hosts : NULL));
}

bool home_work(gather_t *gather)
{
    const deadline_t *first = deadline_first(&gather->home_deadlines);
    if (!first || first->at_ms > gather->now_ms)
        return false;
    time_out(gather, CONTAINER_OF(first, home_t, deadline));
    return true;
}
