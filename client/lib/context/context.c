/* Connecting, and freeing in reverse. */
#include "context/context.h"

#include "context/comm.h"
#include "context/watcher.h"

#include <string.h>
#include <unistd.h>

static blink_result_t attach(const connection_hello_t *hello, engine_t *engine)
{
    blink_result_t result = ring_attach(hello->ring_fd, &engine->ring);
    close(hello->ring_fd);
    engine->doorbell_fd = hello->doorbell_fd;
    engine->completion_fd = hello->completion_fd;
    if (result != BLINK_OK) {
        close(hello->doorbell_fd);
        close(hello->completion_fd);
    }
    return result;
}

static void free_comms(blink_context_t *context)
{
    for (list_t *link; (link = list_take_first(&context->comms)) != NULL;)
        comm_free(CONTAINER_OF(link, blink_comm_t, of_context));
}

/* All that neither fails nor talks to the daemon. */
static void init_tables(blink_context_t *context)
{
    connection_t *connection = &context->connection;
    list_init(&context->comms);
    gpus_init(&context->gpus);
    regions_init(&context->regions, connection, &context->ops, &context->gpus);
    imports_init(&context->imports, &context->gpus, connection, &context->ops);
    context->streams = (streams_t){&context->gpus, connection, &context->ops, NULL};
}

static void fini_tables(blink_context_t *context)
{
    streams_fini(&context->streams);
    regions_fini(&context->regions);
    imports_fini(&context->imports);
}

blink_result_t context_init(blink_context_t *context, const char *socket_path)
{
    connection_hello_t hello;
    engine_t engine;
    BLINK_TRY(connection_init(&context->connection, socket_path, &hello));
    heartbeat_init(&context->heartbeat, context->connection.daemon_timeout_s);
    context->device_count = hello.device_count;
    context->home = hello.home;
    memcpy(context->daemon_version, hello.daemon_version, sizeof(context->daemon_version));
    blink_result_t result = attach(&hello, &engine);
    if (result != BLINK_OK)
        goto fini_connection;
    result = ops_init(&context->ops, &engine, &context->connection);
    if (result != BLINK_OK)
        goto fini_connection;
    init_tables(context);
    result = watcher_start(context);
    if (result != BLINK_OK)
        goto fini_tables;
    return BLINK_OK;
fini_tables:
    fini_tables(context);
    ops_fini(&context->ops);
    gpus_fini(&context->gpus);
fini_connection:
    connection_fini(&context->connection);
    return result;
}

void context_fini(blink_context_t *context)
{
    watcher_stop(context);
    free_comms(context);
    fini_tables(context);
    ops_fini(&context->ops); /* unpins staging memory from GPUs */
    gpus_fini(&context->gpus);
    connection_fini(&context->connection);
}
