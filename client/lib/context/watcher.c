/* The watcher's loop. */
#include "context/watcher.h"

#include "context/comm.h"
#include "context/context.h"
#include "context/witness.h"
#include "submit/daemon.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
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

/* How long to sleep at most. */
static int period_ms(const blink_context_t *context, bool pumping)
{
    int heartbeat = heartbeat_period_ms(&context->heartbeat), imports = imports_period_ms(&context->imports);
    if (pumping)
        return PUMP_PERIOD_MS;
    return heartbeat < 0 || (imports >= 0 && imports < heartbeat) ? imports : heartbeat;
}

/* Until the connection ends, or the daemon gives no sign of life. Errors: those of connection_receive(). */
static blink_result_t serve(blink_context_t *context)
{
    blink_result_t result = BLINK_OK;
    bool pumping = false;
    struct pollfd fds[2] = {{.fd = context->connection.socket_fd, .events = POLLIN},
                            {.fd = context->ops.pump_fd, .events = POLLIN}};
    while (result == BLINK_OK) {
        int ready = poll(fds, 2, period_ms(context, pumping));
        if (ready < 0 && errno != EINTR && errno != ENOMEM)
            return BLINK_FAIL_ERRNO("wait for the daemon");
        uint64_t count;
        if (ready > 0 && fds[1].revents != 0)
            pumping = read(context->ops.pump_fd, &count, sizeof(count)) > 0 || pumping;
        pumping = pumping && pump(context);
        if (ready > 0 && fds[0].revents != 0)
            result = watch_connection(context);
        if (result == BLINK_OK)
            result = heartbeat_look(context);
        /* Once the daemon is lost, streams are let go before the driver is asked anything. */
        if (result == BLINK_OK)
            imports_tend(&context->imports);
    }
    return result;
}

/* Why the daemon is lost. */
static void describe_loss(const connection_t *connection, blink_result_t result,
                          char text[BLINK_ERROR_TEXT_BYTES])
{
    if (result == BLINK_ERR_TIMEOUT || result == BLINK_ERR_DAEMON_LOST)
        daemon_loss(connection->daemon_pid, result == BLINK_ERR_TIMEOUT ? connection->daemon_timeout_s : 0,
                    text);
    else
        snprintf(text, BLINK_ERROR_TEXT_BYTES, "%s", blink_error_text());
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
    witness_t witness;
    char text[BLINK_ERROR_TEXT_BYTES];
    witness_start(&witness, &context->connection);
    describe_loss(&context->connection, serve(context), text);
    /* First: whoever sees an op end with DAEMON_LOST sees this, too. */
    connection_lose(&context->connection, text);
    ops_lose(&context->ops, context->connection.lost_text);
    connection_end(&context->connection);
    stand_in(context);
    witness_stop(&witness);
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
