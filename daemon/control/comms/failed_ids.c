#include "control/comms/failed_ids.h"

#include "base/deadline.h"
#include "control/comms/id_hash.h"

#include <stdlib.h>
#include <string.h>

/* However long a communicator gives its ranks: a tenant is there for as long as an id of it is remembered. */
#define REMEMBERED_MOST_MS 3600000u

/* So many ids that are passed by are a step of the loop's turn. */
#define IDS_PER_STEP 64u

typedef struct failed_id {
    deadline_t until; /* in loop time: on failed_ids_t.by_end */
    list_t of_tenant; /* on tenant->failed_ids */
    table_link_t of_table;
    tenant_t *tenant; /* held */
    uint8_t id[UNIQUE_ID_BYTES];
    blink_result_t code;
    char text[BLINK_ERROR_TEXT_BYTES];
} failed_id_t;

struct failed_ids {
    control_t *control;
    table_t table;
    list_t by_end; /* failed_id_t.until */
    uv_timer_t timer;
};

/* Whoever makes ids up makes its own lists long, and those are bounded. */
static uint64_t hash_of(const uint8_t id[UNIQUE_ID_BYTES])
{
    return id_hash(id, (const uint64_t[2]){0, 0});
}

static void failed_id_free(failed_ids_t *failed_ids, failed_id_t *failed)
{
    table_remove(&failed_ids->table, &failed->of_table);
    list_remove(&failed->until.link);
    list_remove(&failed->of_tenant);
    failed->tenant->failed_id_count--;
    tenant_put(failed->tenant);
    free(failed);
}

static void on_timer(uv_timer_t *timer);

static void arm(failed_ids_t *failed_ids)
{
    const failed_id_t *first = LIST_FIRST(&failed_ids->by_end, failed_id_t, until.link);
    if (first)
        turns_set_timer(&failed_ids->timer, first->until.at_ms, on_timer);
}

static void on_timer(uv_timer_t *timer)
{
    failed_ids_t *failed_ids = timer->data;
    turns_t *turns = &failed_ids->control->turns;
    uint64_t now_ms = uv_now(&failed_ids->control->loop);
    failed_id_t *first;
    while ((first = LIST_FIRST(&failed_ids->by_end, failed_id_t, until.link)) &&
           first->until.at_ms <= now_ms && !turns_is_over(turns)) {
        turns_count(turns, 1);
        failed_id_free(failed_ids, first);
    }
    arm(failed_ids);
}

static uint64_t remembered_ms(const failed_ids_t *failed_ids, uint64_t init_timeout_ms)
{
    uint64_t own_ms = (uint64_t)(failed_ids->control->settings->init_timeout_s * 1e3);
    uint64_t its_ms = init_timeout_ms < REMEMBERED_MOST_MS ? init_timeout_ms : REMEMBERED_MOST_MS;
    return own_ms > its_ms ? own_ms : its_ms;
}

/* What one that has less time than others passes by is work of its tenant. */
static void set_end(failed_ids_t *failed_ids, failed_id_t *failed, uint64_t init_timeout_ms)
{
    control_t *control = failed_ids->control;
    uint32_t passed = deadline_set(&failed_ids->by_end, &failed->until,
                                   uv_now(&control->loop) + remembered_ms(failed_ids, init_timeout_ms));
    turns_count(&control->turns, passed / IDS_PER_STEP);
}

void failed_ids_add(failed_ids_t *failed_ids, tenant_t *tenant, const uint8_t id[UNIQUE_ID_BYTES],
                    uint64_t init_timeout_ms, blink_result_t code)
{
    failed_id_t *failed = calloc(1, sizeof(*failed));
    if (!failed || !table_add(&failed_ids->table, &failed->of_table, hash_of(id))) {
        free(failed);
        return;
    }
    memcpy(failed->id, id, sizeof(failed->id));
    memcpy(failed->text, blink_error_text(), sizeof(failed->text));
    failed->code = code;
    failed->tenant = tenant;
    tenant_hold(tenant);
    set_end(failed_ids, failed, init_timeout_ms);
    list_append(&tenant->failed_ids, &failed->of_tenant);
    if (++tenant->failed_id_count > FAILED_IDS_PER_TENANT)
        failed_id_free(failed_ids, LIST_FIRST(&tenant->failed_ids, failed_id_t, of_tenant));
    arm(failed_ids);
}

blink_result_t failed_ids_check(const failed_ids_t *failed_ids, uid_t uid, const uint8_t id[UNIQUE_ID_BYTES])
{
    for (table_link_t *link = table_find(&failed_ids->table, hash_of(id)); link;
         link = table_find_next(link)) {
        const failed_id_t *failed = CONTAINER_OF(link, failed_id_t, of_table);
        if (failed->tenant->uid == uid && memcmp(failed->id, id, sizeof(failed->id)) == 0)
            return BLINK_FAIL(failed->code, "%s", failed->text);
    }
    return BLINK_OK;
}

blink_result_t failed_ids_create(control_t *control, failed_ids_t **created)
{
    failed_ids_t *failed_ids = calloc(1, sizeof(*failed_ids));
    if (!failed_ids)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for ids that failed");
    failed_ids->control = control;
    list_init(&failed_ids->by_end);
    uv_timer_init(&control->loop, &failed_ids->timer);
    failed_ids->timer.data = failed_ids;
    *created = failed_ids;
    return BLINK_OK;
}

void failed_ids_destroy(failed_ids_t *failed_ids)
{
    if (!failed_ids)
        return;
    for (failed_id_t *first; (first = LIST_FIRST(&failed_ids->by_end, failed_id_t, until.link));)
        failed_id_free(failed_ids, first);
    table_fini(&failed_ids->table);
    free(failed_ids);
}
