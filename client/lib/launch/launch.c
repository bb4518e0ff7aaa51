/* The variables of each launcher. The user's own come first, then the innermost launcher: torchrun and mpirun
 * run inside Slurm's allocations, where Slurm's variables are about the launcher. */
#include "launch/launch.h"

#include "environment.h"

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef blink_result_t find_way_t(launch_t *launch);

typedef struct launcher {
    const char *name;
    const char *rank, *rank_count, *local_rank;
    const char *also; /* a variable without which the others are not this launcher's; NULL: there is none */
    find_way_t *find_way;
} launcher_t;

static const char *get_or(const char *name, const char *otherwise)
{
    const char *value = environment_get(name);
    return value ? value : otherwise;
}

static bool is_same(const char *name, const char *other)
{
    const char *value = environment_get(name), *with = environment_get(other);
    return value && with && strcmp(value, with) == 0;
}

static blink_result_t set_text(char text[LAUNCH_TEXT_BYTES], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static blink_result_t set_text(char text[LAUNCH_TEXT_BYTES], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf(text, LAUNCH_TEXT_BYTES, format, arguments);
    va_end(arguments);
    if (bytes < 0 || bytes >= LAUNCH_TEXT_BYTES)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "the launcher's variables have %d bytes, at most %d are taken: %.80s…", bytes,
                          LAUNCH_TEXT_BYTES - 1, text);
    return BLINK_OK;
}

/* ---- ways ---- */

/* An address that is every host's own can only be meant where there is one host. */
static bool is_this_host(const char *host)
{
    return strcmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0 || strcmp(host, "::1") == 0;
}

static blink_result_t at_host(launch_t *launch, const char *host)
{
    launch->way = is_this_host(host) ? LAUNCH_HERE : LAUNCH_HOST;
    return set_text(launch->where, "%s", host);
}

/* What the user says of how ranks meet, whatever the launcher is. *found: whether that is anything. */
static blink_result_t find_explicit(launch_t *launch, bool *found)
{
    const char *id = environment_get("BLINK_UNIQUE_ID"), *rendezvous = environment_get("BLINK_RENDEZVOUS");
    *found = id || rendezvous || launch->rank_count == 1;
    if (id) {
        launch->way = LAUNCH_ID;
        return set_text(launch->where, "%s", id);
    }
    if (!rendezvous) { /* who is alone meets nobody, and must not be mistaken for another one who is */
        launch->way = LAUNCH_HERE;
        return set_text(launch->job, "alone %d", (int)getpid());
    }
    if (strchr(rendezvous, '/')) {
        launch->way = LAUNCH_FILE;
        return set_text(launch->where, "%s", rendezvous);
    }
    BLINK_TRY(set_text(launch->job, "blink %s %s", rendezvous, get_or("BLINK_JOB", "")));
    return at_host(launch, rendezvous);
}

static blink_result_t find_blink(launch_t *launch)
{
    return BLINK_FAIL(
        BLINK_ERR_INVALID_ARGUMENT,
        "%s says that there are %u ranks, and not how they meet: set BLINK_RENDEZVOUS to a file "
        "that all see, or to the host of rank 0",
        launch->launcher, launch->rank_count);
}

/* torchrun's agent keeps a store at the address that it tells. Who sets the variables by hand has none. An
 * agent counts how often its own ranks have failed, and so the agents' counts differ where all ranks are
 * started anew because those of one have failed. */
static blink_result_t find_torch(launch_t *launch)
{
    const char *host = environment_get("MASTER_ADDR"), *port = environment_get("MASTER_PORT");
    const char *uses_store = environment_get("TORCHELASTIC_USE_AGENT_STORE");
    if (!host || !port)
        return find_blink(launch);
    BLINK_TRY(set_text(launch->job, "torch %s %s %s %s", host, port, get_or("TORCHELASTIC_RUN_ID", ""),
                       uses_store ? "" : get_or("TORCHELASTIC_RESTART_COUNT", "0")));
    if (uses_store && strcmp(uses_store, "True") == 0) {
        launch->way = LAUNCH_STORE;
        return set_text(launch->where, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    }
    return at_host(launch, is_same("LOCAL_WORLD_SIZE", "WORLD_SIZE") ? "localhost" : host);
}

static blink_result_t find_pmix(launch_t *launch)
{
    launch->way = LAUNCH_PMIX;
    return BLINK_OK;
}

static blink_result_t find_pmi(launch_t *launch)
{
    launch->way = LAUNCH_PMI;
    return set_text(launch->where, "%s", environment_get("PMI_FD"));
}

/* The first host of Slurm's short form of a list: "n[3-7,9],m1" has n3, "r[1-2]n[0-3]" has r1n0. */
static void take_first_host(const char *list, char host[LAUNCH_TEXT_BYTES])
{
    size_t count = 0;
    const char *at = list;
    while (*at && *at != ',' && count < LAUNCH_TEXT_BYTES - 1) {
        if (*at != '[') {
            host[count++] = *at++;
            continue;
        }
        for (at++; *at && !strchr(",-]", *at) && count < LAUNCH_TEXT_BYTES - 1; at++)
            host[count++] = *at;
        at += strcspn(at, "]");
        at += *at == ']';
    }
    host[count] = '\0';
}

static blink_result_t find_slurm(launch_t *launch)
{
    char host[LAUNCH_TEXT_BYTES];
    BLINK_TRY(set_text(launch->job, "slurm %s %s %s %s", get_or("SLURM_CLUSTER_NAME", ""),
                       get_or("SLURM_JOB_ID", ""), get_or("SLURM_STEP_ID", ""),
                       get_or("SLURM_RESTART_COUNT", "0")));
    take_first_host(get_or("SLURM_STEP_NODELIST", ""), host);
    return at_host(launch, strcmp(get_or("SLURM_STEP_NUM_NODES", ""), "1") == 0 ? "localhost" : host);
}

/* ---- launchers ---- */

static const launcher_t launchers[] = {
    {"BLINK_SIZE", "BLINK_RANK", "BLINK_SIZE", "BLINK_LOCAL_RANK", NULL, find_blink},
    {"WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK", NULL, find_torch},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "PMIX_NAMESPACE", find_pmix},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "PMI_FD", find_pmi},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_NODELIST", find_slurm},
};

static blink_result_t read_number(const char *name, uint32_t least, uint32_t most, uint32_t *number)
{
    const char *text = environment_get(name);
    char *end = NULL;
    unsigned long value = text && *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    if (!end || *end || value < least || value > most)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s=%.40s: a number from %u to %u", name,
                          text ? text : "", least, most);
    *number = (uint32_t)value;
    return BLINK_OK;
}

static const launcher_t *find_launcher(void)
{
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        const launcher_t *launcher = &launchers[i];
        if (environment_get(launcher->rank) && environment_get(launcher->rank_count) &&
            (!launcher->also || environment_get(launcher->also)))
            return launcher;
    }
    return NULL;
}

/* PRRTE tells its ranks no number of ranks, except in Open MPI's way. Each would take itself for the only one
 * if it heard that no launcher has started it. */
static blink_result_t no_launcher(void)
{
    if (environment_get("PMIX_RANK") && environment_get("PMIX_NAMESPACE"))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "PMIX_RANK=%.40s, and no variable says of how many ranks: start them by prterun "
                          "--personality ompi, or set BLINK_RANK, BLINK_SIZE and BLINK_RENDEZVOUS",
                          environment_get("PMIX_RANK"));
    return BLINK_FAIL(
        BLINK_ERR_NOT_FOUND,
        "no launcher has started this process: use blinkrun, torchrun, srun, mpirun or mpiexec, "
        "or set BLINK_RANK, BLINK_SIZE and BLINK_RENDEZVOUS");
}

static blink_result_t find_place(const launcher_t *launcher, launch_t *launch)
{
    uint32_t local_rank;
    if (!launcher)
        return no_launcher();
    *launch = (launch_t){.launcher = launcher->name, .local_rank = -1};
    BLINK_TRY(read_number(launcher->rank_count, 1, INT_MAX, &launch->rank_count));
    BLINK_TRY(read_number(launcher->rank, 0, launch->rank_count - 1, &launch->rank));
    if (!environment_get(launcher->local_rank))
        return BLINK_OK;
    BLINK_TRY(read_number(launcher->local_rank, 0, launch->rank_count - 1, &local_rank));
    launch->local_rank = (int)local_rank;
    return BLINK_OK;
}

/* A scheduler's number first: it names the job to everybody on the cluster. torchrun calls all jobs "none"
 * that it was given no name for. */
void launch_name_job(char job[LAUNCH_TEXT_BYTES])
{
    static const char *const names[] = {"PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "TORCHELASTIC_RUN_ID",
                                        "PMIX_NAMESPACE"};
    const char *name = environment_get("BLINK_JOB"), *slurm = environment_get("SLURM_JOB_ID"),
               *step = environment_get("SLURM_STEP_ID");
    if (!name && slurm) {
        snprintf(job, LAUNCH_TEXT_BYTES, "%s%s%s", slurm, step ? "." : "", step ? step : "");
        return;
    }
    for (size_t i = 0; !name && i < sizeof(names) / sizeof(names[0]); i++) {
        name = environment_get(names[i]);
        if (name && strcmp(name, "none") == 0)
            name = NULL;
    }
    snprintf(job, LAUNCH_TEXT_BYTES, "%s", name ? name : "");
}

const char *launch_rank(void)
{
    const launcher_t *launcher = find_launcher();
    return launcher ? environment_get(launcher->rank) : NULL;
}

blink_result_t launch_find_place(launch_t *launch)
{
    return find_place(find_launcher(), launch);
}

blink_result_t launch_find(launch_t *launch)
{
    const launcher_t *launcher = find_launcher();
    bool found;
    BLINK_TRY(find_place(launcher, launch));
    BLINK_TRY(find_explicit(launch, &found));
    return found ? BLINK_OK : launcher->find_way(launch);
}
