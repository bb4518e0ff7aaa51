#include "control/peers/wanted.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* After so many tries the pauses between them have reached their longest. */
#define TRIES_PER_LOOKUP 8u

/* Look-ups at a time. Where name servers answer each takes a moment; where they are silent, minutes. */
#define LOOKUPS_MAX 16u

/* Keep why there is no session, and log it if that is another kind of failure than the last one: a host that
 * is not there is tried again and again. */
static void note_failure(wanted_t *wanted, blink_result_t code)
{
    snprintf(wanted->why, sizeof(wanted->why), "%s", blink_error_text());
    if (wanted->logged == code)
        return;
    wanted->logged = code;
    LOG_WARNING("no session with %s, which [network] peers names: %s", wanted->text, wanted->why);
}

static void on_connected(void *context, net_session_t *session)
{
    wanted_t *wanted = context;
    wanted->dial = NULL;
    wanted->session = session;
    wanted->logged = BLINK_OK;
    wanted->tries = 0;
    wanted->why[0] = '\0';
}

/* The name may have another address by now: it is looked up again now and then, by wanted_try(). */
static void on_failed(void *context, blink_result_t code)
{
    wanted_t *wanted = context;
    note_failure(wanted, code);
    if (++wanted->tries % TRIES_PER_LOOKUP > 0)
        return;
    net_dial_cancel(wanted->dial);
    wanted->dial = NULL;
}

static void dial(wanted_t *wanted, blink_result_t code, const net_address_t *addresses, uint32_t count)
{
    wanted->is_self = count > 0 && address_is_own(wanted->common->own, &addresses[0]);
    if (wanted->is_self)
        return;
    const net_dial_config_t config = {.address_count = count,
                                      .addresses = addresses,
                                      .connected = on_connected,
                                      .failed = on_failed,
                                      .context = wanted};
    if (code == BLINK_OK)
        code = net_dial(wanted->common->net, &config, &wanted->dial);
    if (code != BLINK_OK)
        note_failure(wanted, code);
}

static void on_found(void *context, blink_result_t code, const net_address_t *addresses, uint32_t count)
{
    wanted_t *wanted = context;
    wanted_common_t *common = wanted->common;
    list_t *turn;
    wanted->lookup = NULL;
    common->lookups--;
    dial(wanted, code, addresses, count);
    while (common->lookups < LOOKUPS_MAX && (turn = list_take_first(&common->turns)))
        wanted_try(CONTAINER_OF(turn, wanted_t, turn));
}

/* Only names take a thread, so who is named by an address does not wait for name servers. */
static blink_result_t look_up(wanted_t *wanted)
{
    wanted_common_t *common = wanted->common;
    net_address_t address;
    if (address_parse(wanted->text, NET_PORT_DEFAULT, &address) == BLINK_OK && !address_is_all(&address)) {
        dial(wanted, BLINK_OK, &address, 1);
        return BLINK_OK;
    }
    if (common->lookups == LOOKUPS_MAX) {
        list_append(&common->turns, &wanted->turn);
        return BLINK_OK;
    }
    BLINK_TRY(address_find(common->loop, wanted->text, NET_PORT_DEFAULT, on_found, wanted, &wanted->lookup));
    common->lookups++;
    return BLINK_OK;
}

void wanted_try(wanted_t *wanted)
{
    if (!list_is_empty(&wanted->turn) || wanted->lookup || wanted->dial || wanted->session || wanted->is_self)
        return;
    blink_result_t result = look_up(wanted);
    if (result != BLINK_OK)
        note_failure(wanted, result);
}

void wanted_lost(wanted_t *wanted)
{
    snprintf(wanted->why, sizeof(wanted->why), "%s", blink_error_text());
    wanted->session = NULL;
    wanted_try(wanted);
}

void wanted_common_init(wanted_common_t *common, net_t *net, uv_loop_t *loop, const net_address_t *own)
{
    *common = (wanted_common_t){.net = net, .loop = loop, .own = own};
    list_init(&common->turns);
}

blink_result_t wanted_create(wanted_common_t *common, const char *text, wanted_t **created)
{
    BLINK_TRY(address_check(text));
    wanted_t *wanted = calloc(1, sizeof(*wanted) + strlen(text) + 1);
    if (!wanted)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for host %s", text);
    wanted->common = common;
    list_init(&wanted->turn);
    list_init(&wanted->link);
    strcpy(wanted->text, text);
    blink_result_t result = look_up(wanted);
    if (result != BLINK_OK)
        free(wanted);
    else
        *created = wanted;
    return result;
}

void wanted_destroy(wanted_t *wanted)
{
    list_remove(&wanted->link);
    list_remove(&wanted->turn);
    if (wanted->lookup) {
        address_cancel(wanted->lookup);
        wanted->common->lookups--;
    }
    if (wanted->dial)
        net_dial_cancel(wanted->dial);
    free(wanted);
}
