#include "control/turn.h"

static void run_work(turns_t *turns, tenant_t *tenant, work_t *work)
{
    turns->slice_steps = 0;
    if (work->run(work))
        turns_post(turns, tenant, work);
}

/* The tenant's oldest work has a slice; tenant and work go to the ends of their lists, before either may be
 * gone. */
static void run_slice(turns_t *turns)
{
    tenant_t *tenant = CONTAINER_OF(list_take_first(&turns->tenants), tenant_t, of_turn);
    list_t *first = list_take_first(&tenant->works);
    if (!list_is_empty(&tenant->works))
        list_append(&turns->tenants, &tenant->of_turn);
    if (first) /* else its works have been cancelled */
        run_work(turns, tenant, CONTAINER_OF(first, work_t, link));
}

static bool is_work_left(const turns_t *turns)
{
    return !list_is_empty(&turns->tenants) || !list_is_empty(&turns->works);
}

/* A slice of what is nobody's, and one of the tenant's whose turn it is. */
static void run_round(turns_t *turns)
{
    list_t *first = list_take_first(&turns->works);
    if (first)
        run_work(turns, NULL, CONTAINER_OF(first, work_t, link));
    if (!turns_is_over(turns) && !list_is_empty(&turns->tenants))
        run_slice(turns);
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle;
}

/* The sockets and timers of this turn have been served. */
static void on_check(uv_check_t *check)
{
    turns_t *turns = check->data;
    uint32_t item_count = mailbox_run_some(turns->mailbox, SLICE_STEPS);
    turns_count(turns, item_count);
    while (!turns_is_over(turns) && is_work_left(turns))
        run_round(turns);
    bool is_left = item_count == SLICE_STEPS || is_work_left(turns);
    if (turns->steps > turns->steps_most)
        turns->steps_most = turns->steps;
    turns->steps = turns->slice_steps = 0;
    if (is_left)
        uv_idle_start(&turns->idle, on_idle);
    else
        uv_idle_stop(&turns->idle);
}

void turns_post(turns_t *turns, tenant_t *tenant, work_t *work)
{
    if (!list_is_empty(&work->link))
        return;
    list_append(tenant ? &tenant->works : &turns->works, &work->link);
    if (tenant && list_is_empty(&tenant->of_turn))
        list_append(&turns->tenants, &tenant->of_turn);
    uv_idle_start(&turns->idle, on_idle);
}

void turns_set_timer(uv_timer_t *timer, uint64_t at_ms, uv_timer_cb on_timer)
{
    uint64_t now_ms = uv_now(timer->loop);
    uv_timer_start(timer, on_timer, at_ms > now_ms ? at_ms - now_ms : 1, 0);
}

blink_result_t turns_init(turns_t *turns, uv_loop_t *loop, mailbox_t *mailbox)
{
    *turns = (turns_t){.mailbox = mailbox};
    list_init(&turns->tenants);
    list_init(&turns->works);
    if (uv_check_init(loop, &turns->check) != 0 || uv_idle_init(loop, &turns->idle) != 0)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "event loop");
    turns->check.data = turns->idle.data = turns;
    uv_check_start(&turns->check, on_check);
    return BLINK_OK;
}
