#include "control/comms/place.h"

#include "control/gpus.h"

/* The member that has the device; NULL: none has. `roster` is NULL for its first rank. */
static const member_t *find_on_device(const roster_t *roster, uint32_t device)
{
    table_link_t *link = roster ? table_find(&roster->devices, table_hash(device)) : NULL;
    while (link && CONTAINER_OF(link, member_t, of_devices)->device != device)
        link = table_find_next(link);
    return link ? CONTAINER_OF(link, member_t, of_devices) : NULL;
}

/* The first device of a GPU that no rank has; if all are taken, the last of them, for the refusal to name.
 * False: the daemon has no device on that GPU. */
static bool find_device_on(const control_t *control, const roster_t *roster, uint32_t gpu, uint32_t *device)
{
    bool found = false;
    for (uint32_t i = 0; i < control->device_count; i++) {
        if (control_gpu_of_device(control, i) != gpu)
            continue;
        *device = i;
        found = true;
        if (!find_on_device(roster, i))
            break;
    }
    return found;
}

static bool is_on_gpu(const control_t *control, uint32_t device)
{
    return control_gpu_of_device(control, device) != GPU_NONE;
}

/* Of ranks on several hosts not all can have the device of their number. Not less than there are devices: all
 * are taken. */
static uint32_t default_device(const control_t *control, const roster_t *roster,
                               const Blinkwire__CommInit *message)
{
    uint32_t count = control->device_count, device = 0;
    if (!unique_id_has_home(message->unique_id.data) ||
        (message->rank < count && !find_on_device(roster, message->rank)))
        return message->rank;
    while (device < count && find_on_device(roster, device))
        device++;
    return device;
}

blink_result_t place_choose_device(const control_t *control, const roster_t *roster,
                                   const Blinkwire__CommInit *message, uint32_t *device)
{
    uint32_t gpu, count = control->device_count;
    *device = message->device < 0 ? default_device(control, roster, message) : (uint32_t)message->device;
    if (message->device < 0 && message->gpu_uuid.len > 0 && control->gpus &&
        gpus_find(control->gpus, message->gpu_uuid.data, message->gpu_uuid.len, &gpu) == BLINK_OK &&
        find_device_on(control, roster, gpu, device))
        return gpus_check(control->gpus);
    if (*device >= count && message->device < 0)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND,
                          "no device is left for rank %u of %u: this host has %u; run at most %u of a "
                          "communicator's ranks on it, or give its daemon more ([devices] devices)",
                          message->rank, message->rank_count, count, count);
    if (*device >= count)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "rank %u asks for device %u; this daemon has devices 0 to %u",
                          message->rank, *device, count - 1);
    return is_on_gpu(control, *device) ? gpus_check(control->gpus) : BLINK_OK;
}

terms_t place_terms(const control_t *control, const Blinkwire__CommInit *message)
{
    return (terms_t){message->rank_count, message->algorithm, message->op_timeout_ms,
                     message->init_timeout_ms, control->settings->pace_scale};
}

static terms_rank_t named(const control_t *control, uint32_t rank, uint32_t device)
{
    return (terms_rank_t){.rank = rank, .device = device, .on_gpu = is_on_gpu(control, device)};
}

blink_result_t place_check_request(const control_t *control, const Blinkwire__CommInit *message)
{
    unique_id_t id;
    BLINK_TRY(unique_id_read(message->unique_id.data, message->unique_id.len, &id));
    if (id.port != 0 && !control->rendezvous)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "the id is of a daemon that listens for other hosts, and the one of this host does "
                          "not: it needs [network] listen in blinkd.conf");
    if (message->device < -1)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "device %d: a number from 0, or -1 for the rank's own",
                          message->device);
    const terms_t terms = place_terms(control, message);
    return terms_check(&terms, message->rank);
}

static blink_result_t check_free(const roster_t *roster, const terms_rank_t *rank)
{
    const control_t *control = roster->control;
    if (roster->members[rank->rank].client)
        return terms_fail_rank_taken(rank, rank);
    const member_t *taken = find_on_device(roster, rank->device);
    if (!taken)
        return BLINK_OK;
    const terms_rank_t holder = named(control, taken->rank, rank->device);
    return terms_fail_device_taken(rank, &holder, control->device_count);
}

blink_result_t place_check(roster_t *roster, const client_t *client, const Blinkwire__CommInit *message,
                           uint32_t device)
{
    const control_t *control = roster->control;
    const member_t *first = &roster->members[roster->first_rank];
    const terms_t agreed = {roster->rank_count, roster->algorithm, roster->op_timeout_ms,
                            roster->init_timeout_ms, control->settings->pace_scale};
    const terms_t asked = place_terms(control, message);
    const terms_rank_t rank = named(control, message->rank, device);
    const terms_rank_t first_rank = named(control, first->rank, first->device);
    if (roster->tenant != client->tenant)
        return terms_fail_other_user();
    blink_result_t result = terms_check_agreement(&agreed, &first_rank, &asked, &rank);
    if (result == BLINK_OK)
        result = check_free(roster, &rank);
    if (result == BLINK_OK)
        result = terms_check_kind(&first_rank, &rank);
    if (result != BLINK_OK)
        terms_note_refused(&roster->note, &agreed, &asked, &rank);
    return result;
}
