#include "base/events.h"

#include "base/latest.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct remembered {
    latest_item_t item; /* its owner's number is a part's */
    event_t event;
} remembered_t;

/* Of a part in one second so many events are remembered, whoever makes communicators to lose them. */
#define EVENTS_PER_S (2 * EVENTS_OF_USER)
#define RATES        64u

typedef struct rate {
    int64_t part;
    time_t second;
    uint32_t count;
} rate_t;

/* As the log's configuration, the one of its process. */
static struct {
    pthread_mutex_t lock; /* guards all of it */
    latest_t latest;
    uint64_t last_number;
    rate_t rates[RATES]; /* by part, one of those that share a place */
    latest_owner_t parts[EVENTS_MOST];
    remembered_t events[EVENTS_MOST]; /* the first so many as there are in `latest` are in use */
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER,
            .latest = LATEST_INIT(&memory.latest, memory.parts, EVENTS_MOST)};

const char *event_kind_name(event_kind_t kind)
{
    static const char *const names[] = {
        [EVENT_DAEMON_STARTED] = "daemon-started",
        [EVENT_CLIENT_CAME] = "client-came",
        [EVENT_CLIENT_GONE] = "client-gone",
        [EVENT_CLIENT_REFUSED] = "client-refused",
        [EVENT_QUOTA_REFUSED] = "quota-refused",
        [EVENT_COMM_MADE] = "comm-made",
        [EVENT_COMM_LOST] = "comm-lost",
        [EVENT_COMM_ENDED] = "comm-ended",
        [EVENT_HOST_CAME] = "host-came",
        [EVENT_HOST_GONE] = "host-gone",
        [EVENT_HOST_REFUSED] = "host-refused",
        [EVENT_DATA_OPEN] = "data-open",
        [EVENT_DATA_LOST] = "data-lost",
        [EVENT_GPU_WORKER_STARTED] = "gpu-worker-started",
        [EVENT_GPU_WORKER_LOST] = "gpu-worker-lost",
    };
    return names[kind];
}

/* Whose part of the memory an event takes: a user's, or that of hosts that are refused. Nobody's has no
 * bound. */
#define PART_OF_STRANGERS (-2)

static int64_t part_of(event_kind_t kind, int64_t uid)
{
    return kind == EVENT_HOST_REFUSED ? PART_OF_STRANGERS : uid;
}

/* One that a new event of the part takes the place of, which is removed, or one that was never used. */
static remembered_t *take_place(int64_t part)
{
    latest_item_t *item =
        latest_to_go(&memory.latest, part, part == EVENT_OF_NOBODY ? EVENTS_MOST : EVENTS_OF_USER);
    if (!item)
        return &memory.events[memory.latest.count];
    latest_remove(&memory.latest, item);
    return CONTAINER_OF(item, remembered_t, item);
}

static bool is_too_many(int64_t part, time_t second)
{
    rate_t *rate = &memory.rates[(uint64_t)part % RATES];
    if (part == EVENT_OF_NOBODY)
        return false;
    if (rate->part != part || rate->second != second)
        *rate = (rate_t){part, second, 0};
    return rate->count++ >= EVENTS_PER_S;
}

static void remember(const event_of_t *of, log_level_t level, const char *text)
{
    const int64_t part = part_of(of->kind, of->uid);
    struct timespec now;
    pthread_mutex_lock(&memory.lock);
    clock_gettime(CLOCK_REALTIME, &now);
    if (is_too_many(part, now.tv_sec)) {
        pthread_mutex_unlock(&memory.lock);
        return;
    }
    remembered_t *place = take_place(part);
    event_t *event = &place->event;
    event->number = ++memory.last_number;
    event->time_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    event->kind = of->kind;
    event->level = level;
    event->uid = of->uid;
    event->comm = of->comm;
    snprintf(event->subject, sizeof(event->subject), "%s", of->subject);
    snprintf(event->text, sizeof(event->text), "%s", text);
    latest_add(&memory.latest, &place->item, part);
    pthread_mutex_unlock(&memory.lock);
}

void event_vlog(const event_of_t *of, log_level_t level, const char *format, va_list arguments)
{
    char text[LOG_TEXT_BYTES];
    vsnprintf(text, sizeof(text), format, arguments);
    log_message(level, "%s: %s", of->subject, text);
    remember(of, level, text);
}

void event_log(const event_of_t *of, log_level_t level, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    event_vlog(of, level, format, arguments);
    va_end(arguments);
}

void event_log_host(event_kind_t kind, const char *subject, log_level_t level, const char *format, ...)
{
    const event_of_t of = {.kind = kind, .uid = EVENT_OF_NOBODY, .subject = subject};
    va_list arguments;
    va_start(arguments, format);
    event_vlog(&of, level, format, arguments);
    va_end(arguments);
}

uint32_t events_copy(uint64_t before, event_t *events, uint32_t most)
{
    uint32_t count = 0;
    pthread_mutex_lock(&memory.lock);
    const list_t *all = &memory.latest.items;
    for (const list_t *link = all->previous; link != all && count < most; link = link->previous) {
        const event_t *event = &CONTAINER_OF(link, remembered_t, item.link)->event;
        if (before == 0 || event->number < before)
            events[count++] = *event;
    }
    pthread_mutex_unlock(&memory.lock);
    return count;
}
