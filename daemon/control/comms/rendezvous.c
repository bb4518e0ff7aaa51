#include "control/comms/rendezvous.h"

#include "base/log.h"
#include "control/comms/failed_ids.h"
#include "control/comms/roster.h"
#include "control/gather/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct rendezvous {
    control_t *control;
    rendezvous_handler_t handler;
    gather_t *gather;
    uv_timer_t timer; /* of what is due later */
    work_t work;      /* of what is due now */
};

/* ---- time ---- */

static void on_timer(uv_timer_t *timer);

/* After each call: something may be due at another time than before. */
static void arm(rendezvous_t *rendezvous)
{
    control_t *control = rendezvous->control;
    uint64_t due_ms = gather_due_ms(rendezvous->gather), now_ms = uv_now(&control->loop);
    turns_count(&control->turns, (uint32_t)gather_take_steps(rendezvous->gather));
    if (due_ms <= now_ms)
        turns_post(&control->turns, NULL, &rendezvous->work);
    else if (due_ms != UINT64_MAX)
        uv_timer_start(&rendezvous->timer, on_timer, due_ms - now_ms, 0);
    else
        uv_timer_stop(&rendezvous->timer);
}

static void on_timer(uv_timer_t *timer)
{
    arm(timer->data);
}

static bool work_slice(work_t *work)
{
    rendezvous_t *rendezvous = CONTAINER_OF(work, rendezvous_t, work);
    turns_t *turns = &rendezvous->control->turns;
    uint64_t now_ms = uv_now(&rendezvous->control->loop);
    while (gather_work(rendezvous->gather, now_ms)) {
        turns_count(turns, 1);
        if (turns_slice_is_over(turns))
            return true;
    }
    arm(rendezvous);
    return false;
}

/* ---- what gather calls ---- */

static blink_result_t tell(peers_t *peers, const gather_host_t *to, const gather_message_t *message)
{
    Blinkpeer__Message frame = BLINKPEER__MESSAGE__INIT;
    Blinkpeer__Gather body;
    arena_t arena = {0};
    frame.body_case = BLINKPEER__MESSAGE__BODY_GATHER;
    frame.gather = &body;
    blink_result_t result = gather_write(message, peers_own(peers), &arena, &body);
    if (result == BLINK_OK)
        result = peers_send(peers, to, &frame);
    arena_free(&arena);
    return result;
}

/* A host that is not told is lost: to this one at once, and this one to it with their session. */
static blink_result_t on_send(void *context, const gather_host_t *to, const gather_message_t *message)
{
    const rendezvous_t *rendezvous = context;
    peers_t *peers = rendezvous->control->peers;
    if (!peers)
        return BLINK_OK; /* the daemon stops, and all have heard so */
    blink_result_t result = tell(peers, to, message);
    if (result == BLINK_OK)
        return BLINK_OK;
    LOG_WARNING("host %s is not told of a communicator: %s", *to->name ? to->name : "that an id names",
                blink_error_text());
    peers_fail(peers, to, result);
    return result;
}

static void on_refused(void *context, gather_rank_t *rank, blink_result_t code)
{
    const rendezvous_t *rendezvous = context;
    rendezvous->handler.refused(rendezvous->control, rank, code);
}

static blink_result_t on_ready(void *context, const gather_message_t *ready, uint32_t own_host, list_t *ranks)
{
    const rendezvous_t *rendezvous = context;
    return rendezvous->handler.ready(rendezvous->control, ready, own_host, ranks);
}

static void on_lost(void *context, gather_comm_t comm, blink_result_t code)
{
    const rendezvous_t *rendezvous = context;
    rendezvous->handler.lost(rendezvous->control, comm, code);
}

/* The tenant is held for as long as it is charged. */
static blink_result_t on_charge(void *context, uint32_t uid, uint32_t rank_count)
{
    const rendezvous_t *rendezvous = context;
    tenant_t *tenant = tenant_get(&rendezvous->control->tenants, uid, "");
    if (!tenant)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for user %u", uid);
    blink_result_t result = account_charge(&tenant->account, BUDGET_GATHERING_RANKS, rank_count);
    if (result != BLINK_OK)
        tenant_put(tenant);
    return result;
}

static void on_credit(void *context, uint32_t uid, uint32_t rank_count)
{
    const rendezvous_t *rendezvous = context;
    tenant_t *tenant = tenant_get(&rendezvous->control->tenants, uid, ""); /* there is one: it is held */
    account_credit(&tenant->account, BUDGET_GATHERING_RANKS, rank_count);
    tenant_put(tenant);
    tenant_put(tenant);
}

static void on_remember(void *context, uint32_t uid, const unique_id_t *id, uint64_t init_timeout_ms,
                        blink_result_t code)
{
    const rendezvous_t *rendezvous = context;
    control_t *control = rendezvous->control;
    tenant_t *tenant = tenant_get(&control->tenants, uid, "");
    if (!tenant)
        return; /* who comes late waits */
    failed_ids_add(control->rosters->failed_ids, tenant, (const uint8_t *)id, init_timeout_ms, code);
    tenant_put(tenant);
}

static blink_result_t on_recall(void *context, uint32_t uid, const unique_id_t *id)
{
    const rendezvous_t *rendezvous = context;
    return failed_ids_check(rendezvous->control->rosters->failed_ids, uid, (const uint8_t *)id);
}

/* ---- what others call ---- */

/* Have a session with the home. Users make ids up that name whatever they like, so this is theirs. */
static blink_result_t reach_home(const rendezvous_t *rendezvous, const unique_id_t *id, tenant_t *tenant)
{
    peers_t *peers = rendezvous->control->peers;
    gather_host_t home = {.instance = id->instance, .port = id->port};
    if (!peers || id->port == 0 || id->instance == peers_own(peers)->instance)
        return BLINK_OK; /* without peers the daemon stops */
    BLINK_TRY(failed_ids_check(rendezvous->control->rosters->failed_ids, tenant->uid, (const uint8_t *)id));
    memcpy(home.addresses, id->addresses, sizeof(home.addresses));
    return peers_reach(peers, &home, tenant);
}

blink_result_t rendezvous_join(rendezvous_t *rendezvous, const uint8_t id[UNIQUE_ID_BYTES], tenant_t *tenant,
                               const terms_t *terms, gather_rank_t *rank)
{
    unique_id_t copy;
    memcpy(&copy, id, sizeof(copy));
    BLINK_TRY(reach_home(rendezvous, &copy, tenant));
    blink_result_t result =
        gather_join(rendezvous->gather, &copy, tenant->uid, terms, rank, uv_now(&rendezvous->control->loop));
    arm(rendezvous);
    return result;
}

void rendezvous_leave(rendezvous_t *rendezvous, gather_rank_t *rank, blink_result_t code)
{
    gather_leave(rendezvous->gather, rank, code);
    arm(rendezvous);
}

void rendezvous_comm_lost(rendezvous_t *rendezvous, gather_comm_t comm, blink_result_t code)
{
    gather_comm_lost(rendezvous->gather, comm, code);
    arm(rendezvous);
}

void rendezvous_comm_ended(rendezvous_t *rendezvous, gather_comm_t comm)
{
    gather_comm_ended(rendezvous->gather, comm);
    arm(rendezvous);
}

blink_result_t rendezvous_receive(rendezvous_t *rendezvous, const gather_host_t *from,
                                  const Blinkpeer__Gather *message)
{
    arena_t arena = {0};
    gather_host_t host = *from;
    gather_message_t read;
    blink_result_t result = gather_read(message, &arena, &host, &read);
    if (result == BLINK_OK)
        gather_receive(rendezvous->gather, &host, &read, uv_now(&rendezvous->control->loop));
    arena_free(&arena);
    arm(rendezvous);
    return result;
}

void rendezvous_host_lost(rendezvous_t *rendezvous, uint64_t instance, const char *name)
{
    gather_name_host(rendezvous->gather, instance, name);
    gather_peer_lost(rendezvous->gather, instance);
    arm(rendezvous);
}

/* ---- beginning and end ---- */

blink_result_t rendezvous_create(control_t *control, const rendezvous_handler_t *handler,
                                 rendezvous_t **created)
{
    const settings_t *settings = control->settings;
    rendezvous_t *rendezvous = calloc(1, sizeof(*rendezvous));
    if (!rendezvous)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for ranks that gather");
    rendezvous->control = control;
    rendezvous->handler = *handler;
    gather_config_t config = {
        .own = *peers_own(control->peers),
        .calls = {on_send, on_refused, on_ready, on_lost, on_charge, on_credit, on_remember, on_recall},
        .context = rendezvous,
        .init_timeout_ms = (uint32_t)(settings->init_timeout_s * 1e3),
        .acknowledge_timeout_ms = (uint32_t)net_reach_ms(settings->network_timeout_s)};
    blink_result_t result = BLINK_OK;
    if (getrandom(config.id_secrets, sizeof(config.id_secrets), 0) != (ssize_t)sizeof(config.id_secrets))
        result = BLINK_FAIL_ERRNO("random numbers");
    if (result == BLINK_OK)
        result = gather_create(&config, &rendezvous->gather);
    if (result != BLINK_OK) {
        free(rendezvous);
        return result;
    }
    work_init(&rendezvous->work, work_slice);
    uv_timer_init(&control->loop, &rendezvous->timer);
    rendezvous->timer.data = rendezvous;
    *created = rendezvous;
    return BLINK_OK;
}

void rendezvous_destroy(rendezvous_t *rendezvous)
{
    if (!rendezvous)
        return;
    gather_destroy(rendezvous->gather);
    free(rendezvous);
}
