/* What each rank can do is gathered by MPI, so that all ranks come to the same conclusion from it. */
#include "join.h"

#include "home.h"
#include "settings.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OP_TIMEOUT_MS   4000000000u /* 46 days: MPI's calls wait for ever */
#define INIT_TIMEOUT_MS 20000u      /* all ranks are in the call already */
#define TURN_MS         1u
#define PROBES          16
#define UNUSED_TAG      32767 /* the largest that every MPI has */
#define REASON_BYTES    384
#define MASK_BITS       64

/* MPI's libraries move what is under way when they look for a message that is not there. Messages to oneself
 * are looked for elsewhere, and one that is found ends the search; so nobody should have sent it. */
void shim_progress(MPI_Comm handle)
{
    int found;
    for (int i = 0; i < PROBES; i++)
        (void)PMPI_Iprobe(MPI_ANY_SOURCE, UNUSED_TAG, handle, &found, MPI_STATUS_IGNORE);
}

static bool is_on_one_host(const shim_comm_t *comm)
{
    MPI_Comm host;
    int rank_count = 0;
    if (PMPI_Comm_split_type(comm->handle, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host) != MPI_SUCCESS)
        return false;
    (void)PMPI_Comm_size(host, &rank_count);
    (void)PMPI_Comm_free(&host);
    return rank_count == comm->rank_count;
}

/* What all ranks know of each other. MPI's operator for all of it is the minimum. */
typedef struct state {
    long first_without; /* the first rank without a daemon; LONG_MAX: there is none */
    long device_count;  /* of the daemon */
} state_t;

static bool gather_state(const shim_comm_t *comm, blink_context_t *context, state_t *all)
{
    int device_count = 0;
    bool has = context && blink_device_count(context, &device_count) == BLINK_OK;
    state_t mine = {has ? LONG_MAX : comm->rank, has ? device_count : LONG_MAX};
    return PMPI_Allreduce(&mine, all, sizeof(mine) / sizeof(long), MPI_LONG, MPI_MIN, comm->handle) ==
           MPI_SUCCESS;
}

/* The devices of local ranks, so that communicators without common ranks have no common devices; else, where
 * the launcher does not tell them, those of the ranks. -1: MPI has failed. */
static int choose_device(const shim_comm_t *comm, const state_t *all)
{
    int local_rank;
    bool is_one = blink_launched(NULL, NULL, &local_rank) == BLINK_OK && local_rank >= 0 &&
                  local_rank < all->device_count && local_rank < MASK_BITS;
    uint64_t mine = is_one ? UINT64_C(1) << local_rank : 0, taken = 0;
    if (PMPI_Allreduce(&mine, &taken, 1, MPI_UINT64_T, MPI_BOR, comm->handle) != MPI_SUCCESS)
        return -1;
    return __builtin_popcountll(taken) == comm->rank_count ? local_rank : comm->rank;
}

/* NULL: all is there. */
static const char *find_lack(const shim_comm_t *comm, const state_t *all, char *reason)
{
    if (all->first_without != LONG_MAX)
        snprintf(reason, REASON_BYTES, "rank %ld has no daemon", all->first_without);
    else if (comm->rank_count > all->device_count)
        snprintf(reason, REASON_BYTES, "the daemon has only %ld devices (blinkd --devices host:%d has more)",
                 all->device_count, comm->rank_count);
    else
        return NULL;
    return reason;
}

/* A name is for people: what they could not read is left out of it. */
static void take_name(MPI_Comm handle, char name[BLINK_NAME_BYTES])
{
    char given[MPI_MAX_OBJECT_NAME + 1] = "";
    int length;
    size_t used = 0;
    (void)PMPI_Comm_get_name(handle, given, &length);
    for (const char *next = given; *next && used + 1 < BLINK_NAME_BYTES; next++)
        name[used++] = *next > ' ' && *next < 0x7f ? *next : '_';
    name[used] = '\0';
}

static blink_result_t join_as(shim_comm_t *comm, blink_context_t *context, const blink_unique_id_t *id,
                              int device)
{
    char name[BLINK_NAME_BYTES];
    blink_comm_config_t config = BLINK_COMM_CONFIG_INIT;
    const char *limit = secure_getenv("BLINK_TIMEOUT");
    bool ready = false;
    take_name(comm->handle, name);
    config.device = device;
    config.op_timeout_ms = limit && *limit ? 0 : OP_TIMEOUT_MS; /* 0: what it says */
    config.init_timeout_ms = INIT_TIMEOUT_MS;
    config.name = *name ? name : NULL;
    blink_result_t result =
        blink_comm_init_begin(context, id, comm->rank_count, comm->rank, &config, &comm->joined);
    while (result == BLINK_OK && !ready) {
        result = blink_comm_init_wait(comm->joined, TURN_MS, &ready);
        shim_progress(comm->handle);
    }
    return result;
}

static bool all_have_joined(shim_comm_t *comm, blink_result_t result, char *reason)
{
    int mine = result == BLINK_OK, all = 0;
    snprintf(reason, REASON_BYTES, "%s", mine ? "another rank could not join" : blink_last_error());
    if (PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm->handle) == MPI_SUCCESS && all)
        return true;
    (void)blink_comm_destroy(comm->joined);
    comm->joined = NULL;
    return false;
}

static bool try_to_join(shim_comm_t *comm, char *reason)
{
    state_t all;
    blink_unique_id_t id = {0};
    if (!is_on_one_host(comm)) {
        snprintf(reason, REASON_BYTES, "it spans hosts");
        return false;
    }
    blink_context_t *context = shim_home_open();
    if (!gather_state(comm, context, &all) || find_lack(comm, &all, reason))
        return false;
    int device = choose_device(comm, &all);
    if (comm->rank == 0)
        (void)blink_get_unique_id(context, &id); /* who joins with zeros fails */
    if (device < 0 || PMPI_Bcast(&id, (int)sizeof(id), MPI_BYTE, 0, comm->handle) != MPI_SUCCESS)
        return false;
    return all_have_joined(comm, join_as(comm, context, &id, device), reason);
}

void shim_join(shim_comm_t *comm)
{
    char reason[REASON_BYTES] = "MPI has failed";
    comm->is_left_to_mpi = !try_to_join(comm, reason);
    if (comm->is_left_to_mpi && comm->rank == 0 && shim_settings()->informs)
        shim_line("MPI does all collectives of a communicator of %d ranks: %s", comm->rank_count, reason);
}
