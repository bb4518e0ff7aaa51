#include "control/comms/place.h"

#include "control/gpus.h"
#include "names.h"
#include "plan/plan.h"

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

blink_result_t place_choose_device(const control_t *control, const roster_t *roster,
                                   const Blinkwire__CommInit *message, uint32_t *device)
{
    uint32_t gpu, count = control->device_count;
    *device = message->device < 0 ? message->rank : (uint32_t)message->device;
    if (message->device < 0 && message->gpu_uuid.len > 0 && control->gpus &&
        gpus_find(control->gpus, message->gpu_uuid.data, message->gpu_uuid.len, &gpu) == BLINK_OK &&
        find_device_on(control, roster, gpu, device))
        return gpus_check(control->gpus);
    if (*device >= count)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "rank %u asks for device %u; this daemon has devices 0 to %u",
                          message->rank, *device, count - 1);
    return is_on_gpu(control, *device) ? gpus_check(control->gpus) : BLINK_OK;
}

blink_result_t place_check_request(const Blinkwire__CommInit *message)
{
    unique_id_t id;
    BLINK_TRY(unique_id_read(message->unique_id.data, message->unique_id.len, &id));
    if (message->rank_count == 0 || message->rank_count > PLAN_RANKS_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%u ranks: from 1 to %u are possible",
                          message->rank_count, PLAN_RANKS_MAX);
    if (message->rank >= message->rank_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "rank %u of %u ranks: the last one is %u",
                          message->rank, message->rank_count, message->rank_count - 1);
    if (message->device < -1)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "device %d: a number from 0, or -1 for the rank's own",
                          message->device);
    if (!blink_algorithm_valid(message->algorithm))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "unknown algorithm %u", message->algorithm);
    return BLINK_OK;
}

/* Whether a rank asks for what the ranks before it asked for. */
static blink_result_t check_agreement(const roster_t *roster, const client_t *client,
                                      const Blinkwire__CommInit *message)
{
    if (roster->tenant != client->tenant)
        return BLINK_FAIL(BLINK_ERR_PERMISSION, "the communicator belongs to another user");
    if (roster->rank_count != message->rank_count)
        return BLINK_FAIL(BLINK_ERR_MISMATCH,
                          "rank %u joined a communicator of %u ranks, rank %u asks for %u",
                          roster->first_rank, roster->rank_count, message->rank, message->rank_count);
    if (roster->algorithm != message->algorithm)
        return BLINK_FAIL(BLINK_ERR_MISMATCH, "rank %u asked for algorithm %s, rank %u asks for %s",
                          roster->first_rank, blink_name_algorithm(roster->algorithm), message->rank,
                          blink_name_algorithm(message->algorithm));
    if (roster->op_timeout_ms != message->op_timeout_ms)
        return BLINK_FAIL(BLINK_ERR_MISMATCH,
                          "rank %u asked for an op timeout of %u ms, rank %u asks for %u ms",
                          roster->first_rank, roster->op_timeout_ms, message->rank, message->op_timeout_ms);
    if (roster->init_timeout_ms != message->init_timeout_ms)
        return BLINK_FAIL(
            BLINK_ERR_MISMATCH, "rank %u asked for an init timeout of %u ms, rank %u asks for %u ms",
            roster->first_rank, roster->init_timeout_ms, message->rank, message->init_timeout_ms);
    return BLINK_OK;
}

/* Whether a rank takes a place and a device that are free and suit the others. */
static blink_result_t check_free(const roster_t *roster, uint32_t new_rank, uint32_t device)
{
    if (roster->members[new_rank].client)
        return BLINK_FAIL(BLINK_ERR_EXISTS, "rank %u has joined this communicator already", new_rank);
    const member_t *taken = find_on_device(roster, device);
    if (taken)
        return BLINK_FAIL(BLINK_ERR_EXISTS, "rank %u asks for device %u, which rank %u has taken", new_rank,
                          device, taken->rank);
    static const char *const kinds[] = {"a host device", "on a GPU"};
    uint32_t first = roster->members[roster->first_rank].device;
    bool on_gpu = is_on_gpu(roster->control, device), first_on_gpu = is_on_gpu(roster->control, first);
    if (on_gpu != first_on_gpu)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "rank %u's device %u is %s, rank %u's device %u is %s: a communicator has one kind",
                          roster->first_rank, first, kinds[first_on_gpu], new_rank, device, kinds[on_gpu]);
    return BLINK_OK;
}

blink_result_t place_check(const roster_t *roster, const client_t *client, const Blinkwire__CommInit *message,
                           uint32_t device)
{
    BLINK_TRY(check_agreement(roster, client, message));
    return check_free(roster, message->rank, device);
}
