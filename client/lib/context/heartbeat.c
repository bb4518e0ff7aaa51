/* Asking the engine and the control thread. */
#include "context/heartbeat.h"

#include "base/clock.h"
#include "context/comm.h"

/* Looks per time-out. */
#define LOOKS 4u

static uint64_t period_ns(const heartbeat_t *heartbeat)
{
    return heartbeat->timeout_ns / LOOKS;
}

void heartbeat_init(heartbeat_t *heartbeat, double timeout_s)
{
    *heartbeat = (heartbeat_t){.timeout_ns = (uint64_t)(timeout_s * 1e9), .looked_ns = clock_ns()};
}

int heartbeat_period_ms(const heartbeat_t *heartbeat)
{
    uint64_t ms = period_ns(heartbeat) / 1000000u + 1;
    return heartbeat->timeout_ns == 0 ? -1 : ms > INT32_MAX ? INT32_MAX : (int)ms;
}

/* Count the time that has passed; whether to ask anew. */
static bool listen(heart_t *heart, bool awaited, bool answered, uint64_t passed_ns)
{
    bool ask = awaited && (!heart->asked || answered);
    heart->silent_ns = awaited && !ask ? heart->silent_ns + passed_ns : 0;
    heart->asked = awaited;
    return ask;
}

static void listen_to_engine(blink_context_t *context, uint64_t passed_ns)
{
    engine_t *engine = &context->ops.engine;
    bool awaited = ops_are_awaited(&context->ops) || comms_have_graphs(context);
    if (!listen(&context->heartbeat.engine, awaited, ring_ping_is_answered(&engine->ring), passed_ns))
        return;
    ring_ping(&engine->ring);
    engine_wake(engine);
}

static blink_result_t listen_to_control(blink_context_t *context, uint64_t passed_ns)
{
    heartbeat_t *heartbeat = &context->heartbeat;
    connection_t *connection = &context->connection;
    bool answered = connection->received != heartbeat->received;
    if (!listen(&heartbeat->control, connection_is_awaited(connection), answered, passed_ns))
        return BLINK_OK;
    Blinkwire__Ping ping = BLINKWIRE__PING__INIT;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    request.body_case = BLINKWIRE__REQUEST__BODY_PING;
    request.ping = &ping;
    heartbeat->received = connection->received;
    return connection_post(connection, &request, -1);
}

blink_result_t heartbeat_look(blink_context_t *context)
{
    heartbeat_t *heartbeat = &context->heartbeat;
    uint64_t period = period_ns(heartbeat), now = clock_ns(), passed = now - heartbeat->looked_ns;
    if (period == 0 || passed < period)
        return BLINK_OK;
    heartbeat->looked_ns = now;
    passed = passed < 2 * period ? passed : 2 * period;
    listen_to_engine(context, passed);
    BLINK_TRY(listen_to_control(context, passed));
    if (heartbeat->engine.silent_ns < heartbeat->timeout_ns &&
        heartbeat->control.silent_ns < heartbeat->timeout_ns)
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_TIMEOUT, "the daemon does not answer");
}
