/* The watcher's loop. */
#include "context/watcher.h"

#include "context/comm.h"
#include "context/context.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define PUMP_PERIOD_MS 1

/* What is no answer: an event, or an answer that nobody waits for. */
static void take_event(blink_context_t *context, const Blinkwire__Reply *reply)
{
    if (reply->id != 0)
        return; /* of connection_post() */
    if (reply->body_case == BLINKWIRE__REPLY__BODY_COMM_LOST)
        comms_lost(context, reply->comm_lost);
    else if (reply->body_case == BLINKWIRE__REPLY__BODY_GPU_RESET)
        imports_reset(&context->imports);
}

static blink_result_t watch_connection(blink_context_t *context)
{
    connection_answer_t answer;
    BLINK_TRY(connection_receive(&context->connection, &answer));
    if (connection_deliver(&context->connection, &answer))
        return BLINK_OK;
    take_event(context, answer.reply);
    connection_answer_release(&answer);
    return BLINK_OK;
}

/* What goes on without the application's calls; whether it is to be looked at again soon. */
static bool pump(blink_context_t *context)
{
    streams_pump(&context->streams);
    return ops_pump(&context->ops);
}

/* Until the connection ends. */
static void serve(blink_context_t *context)
{
    bool pumping = false;
    struct pollfd fds[2] = {{.fd = context->connection.socket_fd, .events = POLLIN},
                            {.fd = context->ops.pump_fd, .events = POLLIN}};
    for (;;) {
        int ready = poll(fds, 2, pumping ? PUMP_PERIOD_MS : -1);
        if (ready < 0 && errno != EINTR && errno != ENOMEM)
            break;
        uint64_t count;
        if (ready > 0 && fds[1].revents != 0)
            pumping = read(context->ops.pump_fd, &count, sizeof(count)) > 0 || pumping;
        pumping = pumping && pump(context);
        if (ready > 0 && fds[0].revents != 0 && watch_connection(context) != BLINK_OK)
            break;
    }
}

/* The daemon is lost. What streams wait for has to be stored again and again: graphs are replayed, and a
 * daemon that has only closed the connection may still be storing. */
static void stand_in(blink_context_t *context)
{
    struct pollfd rung = {.fd = context->ops.pump_fd, .events = POLLIN};
    uint64_t count;
    /* Acquire: pairs with the store in watcher_stop(). */
    while (!atomic_load_explicit(&context->stopping, memory_order_acquire)) {
        bool needed = streams_let_go(&context->streams);
        if (needed)
            (void)ops_pump(&context->ops);
        (void)poll(&rung, 1, needed ? PUMP_PERIOD_MS : -1);
        (void)!read(rung.fd, &count, sizeof(count));
    }
}

static void *watch(void *argument)
{
    blink_context_t *context = argument;
    serve(context);
    connection_lose(&context->connection); /* first: whoever sees an op end with DAEMON_LOST sees this, too */
    ops_lose(&context->ops);
    connection_end(&context->connection);
    stand_in(context);
    return NULL;
}

blink_result_t watcher_start(blink_context_t *context)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the application's signals are not the watcher's */
    int status = pthread_create(&context->watcher, NULL, watch, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status != 0)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "start a thread: %s", strerror(status));
    return BLINK_OK;
}

void watcher_stop(blink_context_t *context)
{
    connection_close(&context->connection);
    streams_settle(&context->streams);
    /* Release: pairs with the load in stand_in(). */
    atomic_store_explicit(&context->stopping, true, memory_order_release);
    ops_wake_watcher(&context->ops);
    pthread_join(context->watcher, NULL);
}
