#include "control/hosts.h"

#include "control/comms/fabrics.h"
#include "control/comms/meeting.h"
#include "control/comms/rendezvous.h"
#include "control/comms/survivors.h"
#include "control/peers/data.h"
#include "control/peers/peers.h"
#include "control/query.h"

#include <stdio.h>

/* ---- data connections: what the proxy tells, on whichever thread has its turn ---- */

static void on_data_wanted(void *context, data_endpoint_t *endpoint)
{
    (void)context;
    peer_data_wanted(endpoint);
}

static void on_data_broken(void *context, data_endpoint_t *endpoint)
{
    (void)context;
    peer_data_broken(endpoint);
}

static blink_result_t on_data_frame(void *context, data_endpoint_t *endpoint, const wire_frame_t *frame,
                                    const uint8_t *payload)
{
    return engine_data_frame(((control_t *)context)->engine, endpoint, frame, payload);
}

static void on_data_aborted(void *context, void *run_context, blink_result_t code)
{
    engine_data_aborted(((control_t *)context)->engine, run_context, code);
}

static void on_data_settled(void *context, void *run_context)
{
    engine_data_settled(((control_t *)context)->engine, run_context);
}

static blink_result_t on_data_charge(void *context, void *tenant, uint64_t bytes)
{
    (void)context;
    engine_data_charge(tenant, bytes);
    return BLINK_OK;
}

static void on_data_credit(void *context, void *tenant, uint64_t bytes)
{
    (void)context;
    engine_data_credit(tenant, bytes);
}

static void on_data_lost(void *context, data_endpoint_t *endpoint, blink_result_t code)
{
    control_t *control = context;
    /* Acquire: pairs with the store when the daemon stops. This host's ranks are to hear that. */
    if (!atomic_load_explicit(&control->is_quiet, memory_order_acquire))
        engine_data_lost(control->engine, endpoint);
    peer_data_lost(endpoint, code);
}

blink_result_t hosts_start_data(control_t *control, pages_source_t landings)
{
    const data_config_t config = {.transport = control->settings->network_transport,
                                  .adaptive_routing = control->settings->network_adaptive_routing,
                                  .landings = landings,
                                  .timeout_s = control->settings->network_timeout_s,
                                  .handler = {.wanted = on_data_wanted,
                                              .broken = on_data_broken,
                                              .frame = on_data_frame,
                                              .aborted = on_data_aborted,
                                              .settled = on_data_settled,
                                              .lost = on_data_lost,
                                              .charge = on_data_charge,
                                              .credit = on_data_credit,
                                              .context = control}};
    return *control->settings->network_listen ? data_create(&config, &control->data) : BLINK_OK;
}

/* ---- ranks on several hosts ---- */

static blink_result_t on_gather(void *context, const gather_host_t *from, const Blinkpeer__Gather *message)
{
    return rendezvous_receive(((control_t *)context)->rendezvous, from, message);
}

static blink_result_t on_survivors(void *context, const gather_host_t *from,
                                   const Blinkpeer__Survivors *message)
{
    return survivors_heard(context, from, message);
}

static void on_host_opened(void *context, uint64_t instance)
{
    meeting_host_opened(context, instance);
}

static void on_host_lost(void *context, uint64_t instance, const char *name, blink_result_t code)
{
    control_t *control = context;
    meeting_host_lost(control, instance, code);
    rendezvous_host_lost(control->rendezvous, instance, name);
    fabrics_host_lost(control, instance);
    survivors_hosts_lost(control);
}

blink_result_t hosts_start_peers(control_t *control)
{
    const peers_handler_t of_hosts = {on_gather,    on_survivors, on_host_opened,
                                      on_host_lost, query_answer, control};
    const rendezvous_handler_t of_ranks = {meeting_refused, meeting_ready, meeting_lost};
    BLINK_TRY(peers_create(control, &of_hosts, &control->peers));
    return control->peers ? rendezvous_create(control, &of_ranks, &control->rendezvous) : BLINK_OK;
}
