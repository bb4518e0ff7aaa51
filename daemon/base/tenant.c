#include "base/tenant.h"

#include "base/clock.h"
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFUSED_PAUSE_NS 1000000000u

static void log_withheld(const tenant_t *tenant, uint32_t count)
{
    if (count > 0)
        LOG_WARNING("%s: %u lines more were not written", tenant->name, count);
}

void tenant_log(tenant_t *tenant, log_level_t level, const char *format, ...)
{
    uint32_t withheld_count;
    char text[LOG_TEXT_BYTES];
    va_list arguments;
    if (!log_writes(level) || !log_budget_spend(&tenant->log, clock_ns(), &withheld_count))
        return;
    log_withheld(tenant, withheld_count);
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    log_message(level, "%s", text);
}

void tenant_event(tenant_t *tenant, event_kind_t kind, uint32_t comm, const char *subject, log_level_t level,
                  const char *format, ...)
{
    uint32_t withheld_count;
    va_list arguments;
    if (!log_budget_spend(&tenant->log, clock_ns(), &withheld_count))
        return;
    log_withheld(tenant, withheld_count);
    const event_of_t of = {.kind = kind, .uid = tenant->uid, .comm = comm, .subject = subject};
    va_start(arguments, format);
    event_vlog(&of, level, format, arguments);
    va_end(arguments);
}

void tenant_refused(tenant_t *tenant, const char *subject)
{
    uint64_t now_ns = clock_ns();
    if (tenant->refused_ns > 0 && now_ns - tenant->refused_ns < REFUSED_PAUSE_NS)
        return;
    tenant->refused_ns = now_ns;
    tenant_event(tenant, EVENT_QUOTA_REFUSED, 0, subject, LOG_LEVEL_DEBUG, "%s", blink_error_text());
}

void tenants_init(tenants_t *tenants, const budget_limit_t limits[BUDGET_KINDS])
{
    list_init(&tenants->all);
    tenants->weights = NULL;
    tenants->weight_count = 0;
    budget_init(&tenants->budget, limits);
}

static tenant_t *tenant_find(const tenants_t *tenants, uid_t uid, const char *cgroup)
{
    LIST_FOR_EACH (link, &tenants->all) {
        tenant_t *tenant = CONTAINER_OF(link, tenant_t, link);
        if (tenant->uid == uid && strcmp(tenant->cgroup, cgroup) == 0)
            return tenant;
    }
    return NULL;
}

static uint32_t weight_of(const tenants_t *tenants, uid_t uid)
{
    uint32_t i = 0;
    while (i < tenants->weight_count && tenants->weights[i].uid != uid)
        i++;
    return i < tenants->weight_count ? tenants->weights[i].weight : 1;
}

static tenant_t *tenant_create(tenants_t *tenants, uid_t uid, const char *cgroup)
{
    size_t cgroup_bytes = strlen(cgroup) + 1;
    tenant_t *tenant = calloc(1, sizeof(*tenant) + cgroup_bytes);
    if (!tenant)
        return NULL;
    list_init(&tenant->failed_ids);
    tenant->uid = uid;
    tenant->weight = weight_of(tenants, uid);
    list_init(&tenant->works);
    list_init(&tenant->of_turn);
    memcpy(tenant->cgroup, cgroup, cgroup_bytes);
    snprintf(tenant->name, sizeof(tenant->name), "user %u%s%s", uid, *cgroup ? " in " : "", cgroup);
    list_init(&tenant->of_planner);
    list_init(&tenant->plans);
    list_init(&tenant->of_lender);
    list_init(&tenant->queued_runs);
    account_open(&tenant->account, &tenants->budget, tenant->name);
    list_init(&tenant->of_active);
    list_init(&tenant->active_clients);
    fair_share_init(&tenant->turn, tenant->weight, TURN_QUANTUM_BYTES);
    fair_round_init(&tenant->due_comms, TURN_QUANTUM_BYTES);
    list_append(&tenants->all, &tenant->link);
    return tenant;
}

tenant_t *tenant_get(tenants_t *tenants, uid_t uid, const char *cgroup)
{
    tenant_t *tenant = tenant_find(tenants, uid, cgroup);
    if (!tenant)
        tenant = tenant_create(tenants, uid, cgroup);
    if (tenant)
        tenant_hold(tenant);
    return tenant;
}

void tenant_hold(tenant_t *tenant)
{
    tenant->holders++;
}

void tenant_put(tenant_t *tenant)
{
    if (--tenant->holders > 0)
        return;
    account_close(&tenant->account);
    log_withheld(tenant, tenant->log.withheld_count);
    list_remove(&tenant->link);
    list_remove(&tenant->of_turn);
    vec_free(&tenant->rosters);
    vec_free(&tenant->clients);
    free(tenant);
}
