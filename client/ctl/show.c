/* blinkctl status and blinkctl version. */
#include "ctl.h"

#include "host.h"
#include "tools/human.h"

#include <stdlib.h>
#include <string.h>

/* ---- status ---- */

static blink_result_t print_status_json(const Blinkwire__StatusReply *status)
{
    return ctl_print_json(
        json_pack(
            "{s:s, s:o, s:I, s:f, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:o, s:o, "
            "s:I, s:I, s:I}",
            "schema", "blink-status/1", "version", ctl_json_text(status->version), "pid",
            (json_int_t)status->pid, "uptime_s", status->uptime_s, "socket", ctl_json_text(status->socket),
            "topology", ctl_json_text(status->topology), "device_count", (json_int_t)status->device_count,
            "client_count", (json_int_t)status->client_count, "comm_count", (json_int_t)status->comm_count,
            "worker_count", (json_int_t)status->worker_count, "op_count", (json_int_t)status->op_count,
            "failed_op_count", (json_int_t)status->failed_op_count, "bytes", (json_int_t)status->bytes,
            "registered_bytes", (json_int_t)status->registered_bytes, "pace_scale", status->pace_scale,
            "gpu_sharing", ctl_json_text_or_null(status->gpu_sharing), "gpu_worker_pid",
            status->gpu_worker_pid > 0 ? json_integer(status->gpu_worker_pid) : json_null(),
            "gpu_worker_restarts", (json_int_t)status->gpu_worker_restarts, "turn_steps_most",
            (json_int_t)status->turn_steps_most, "engine_steps_most", (json_int_t)status->engine_steps_most),
        JSON_INDENT(2));
}

static void print_gpus_text(const Blinkwire__StatusReply *status)
{
    const char *meaning = strcmp(status->gpu_sharing, "mps") == 0
                              ? "by MPS: a fault or a kill of one client may end all of a GPU"
                              : "GPUs take turns between processes";
    char worker[32] = "none at the moment";
    if (status->gpu_worker_pid > 0)
        snprintf(worker, sizeof(worker), "pid %u", status->gpu_worker_pid);
    printf("gpu sharing    %s (%s)\n", status->gpu_sharing, meaning);
    printf("gpu worker     %s, %u restarts\n", worker, status->gpu_worker_restarts);
}

static void print_status_text(const Blinkwire__StatusReply *status)
{
    char uptime[HUMAN_BYTES], bytes[HUMAN_BYTES];
    printf("blinkd %s, pid %u, up %s\n", status->version, status->pid,
           human_duration(status->uptime_s, uptime));
    printf("socket         %s\n", status->socket);
    printf("topology       %s\n", status->topology);
    if (status->pace_scale > 0)
        printf("links          paced: capacity x %g, latency / %g\n", status->pace_scale, status->pace_scale);
    else
        printf("links          not paced: as fast as memory\n");
    printf("devices        %u\n", status->device_count);
    if (*status->gpu_sharing)
        print_gpus_text(status);
    printf("workers        %u\n", status->worker_count);
    printf("clients        %u\n", status->client_count);
    printf("communicators  %u\n", status->comm_count);
    printf("collectives    %lu completed, %lu failed\n", (unsigned long)status->op_count,
           (unsigned long)status->failed_op_count);
    printf("memory         %s registered\n", human_bytes(status->registered_bytes, bytes));
    printf("longest turn   %u steps, of the engine %u\n", status->turn_steps_most, status->engine_steps_most);
}

static blink_result_t show_status(const ctl_options_t *options, void *context)
{
    Blinkwire__Reply *reply;
    (void)context;
    BLINK_TRY(ctl_ask(options, BLINKWIRE__QUERY_KIND__STATUS, &reply));
    blink_result_t result = BLINK_OK;
    if (!reply->query->status)
        result = BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon answered without a status");
    else if (options->json)
        result = print_status_json(reply->query->status);
    else
        print_status_text(reply->query->status);
    blinkwire__reply__free_unpacked(reply, NULL);
    return result;
}

blink_result_t ctl_status(int argc, char **argv, ctl_options_t *options)
{
    ctl_parse_plain(argc, argv, "Show the daemon and its totals.", options);
    return host_each(options, show_status, NULL);
}

/* ---- version ---- */

/* Of the daemon that the options name; NULL: none has answered. */
static char *daemon_version(const ctl_options_t *options)
{
    Blinkwire__Reply *reply;
    if (ctl_ask(options, BLINKWIRE__QUERY_KIND__STATUS, &reply) != BLINK_OK)
        return NULL;
    char *version = reply->query->status ? strdup(reply->query->status->version) : NULL;
    blinkwire__reply__free_unpacked(reply, NULL);
    return version;
}

blink_result_t ctl_version(int argc, char **argv, ctl_options_t *options)
{
    ctl_parse_plain(argc, argv, "Show the version of blinkctl and, if one answers, of the daemon.", options);
    char *daemon = daemon_version(options);
    if (options->json) {
        json_t *version = daemon ? ctl_json_text(daemon) : json_null();
        free(daemon);
        return ctl_print_json(json_pack("{s:s, s:s, s:o}", "schema", "blink-version/1", "blinkctl",
                                        BLINK_VERSION, "blinkd", version),
                              JSON_INDENT(2));
    }
    printf("blinkctl %s\n", BLINK_VERSION);
    if (daemon)
        printf("blinkd %s\n", daemon);
    else
        printf("blinkd: %s\n", blink_error_text());
    free(daemon);
    return BLINK_OK;
}
