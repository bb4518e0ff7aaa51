/* The proxy: its thread, and what everybody does who has the turn. */
#include "net/data/data.h"

#include "base/clock.h"
#include "base/log.h"
#include "net/data/endpoint.h"
#include "net/data/source.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Events that are looked at in one turn, runs of the mailbox, and endpoints. */
#define EVENTS_PER_TURN    8
#define POSTED_PER_TURN    64u
#define ENDPOINTS_PER_TURN 4u

/* So often deadlines are looked at, and memory that nobody has taken for long. */
#define TICK_MS 500

/* What is free of landings' memory, and stays for later ops. */
#define FREE_MOST_BYTES (64u << 20)

/* ---- waking ---- */

void proxy_wake(data_t *data)
{
    (void)eventfd_write(data->wake_fd, 1);
}

/* There is more to be done: by who watches, or by the proxy's thread. */
static void leave_the_rest(data_t *data)
{
    /* Relaxed: who watches no more wakes the proxy's thread afterwards. */
    if (!atomic_load_explicit(&data->watched, memory_order_relaxed))
        proxy_wake(data);
}

/* The mailbox is not empty any more. */
static void on_posted(void *context)
{
    data_t *data = context;
    /* seq_cst: after the post, as look_again() looks at the mailbox after `coming` has become 0; and as the
     * proxy looks at it after it has set `asleep`. */
    if (atomic_load_explicit(&data->coming, memory_order_seq_cst) == 0 &&
        atomic_exchange_explicit(&data->asleep, false, memory_order_seq_cst))
        proxy_wake(data);
}

/* This thread is not coming any more. What was posted meanwhile may have been left to it. */
static void look_again(data_t *data)
{
    if (atomic_fetch_sub_explicit(&data->coming, 1, memory_order_seq_cst) == 1 &&
        !mailbox_is_empty(&data->mailbox))
        on_posted(data);
}

/* ---- the turn ---- */

void proxy_enter(data_t *data)
{
    atomic_fetch_add_explicit(&data->coming, 1, memory_order_seq_cst);
    turn_take(&data->turn);
}

static void let_go(data_t *data)
{
    list_t *link;
    while ((link = data->gone.next) != &data->gone)
        endpoint_let_go(CONTAINER_OF(link, data_endpoint_t, link));
    while ((link = list_take_first(&data->retired))) {
        transport_t *transport = CONTAINER_OF(link, transport_t, of_retired);
        transport->calls->destroy(transport);
    }
}

bool proxy_serve(data_t *data)
{
    bool more = mailbox_run_some(&data->mailbox, POSTED_PER_TURN) == POSTED_PER_TURN;
    list_t *link;
    for (uint32_t i = 0; i < ENDPOINTS_PER_TURN && (link = list_take_first(&data->busy)); i++) {
        data_endpoint_t *endpoint = CONTAINER_OF(link, data_endpoint_t, of_busy);
        if (endpoint_serve(endpoint))
            endpoint_busy(endpoint);
    }
    let_go(data);
    return more || !list_is_empty(&data->busy) || data->mailbox.oldest;
}

static void leave(data_t *data, bool serves)
{
    bool more = serves && proxy_serve(data);
    let_go(data);
    turn_pass(&data->turn);
    look_again(data);
    if (more)
        leave_the_rest(data);
}

void proxy_leave(data_t *data)
{
    /* Relaxed: a promise that is seen late or not at all costs a call on a socket. */
    leave(data, atomic_load_explicit(&data->promised, memory_order_relaxed) == 0);
}

void data_soon(data_t *data)
{
    atomic_fetch_add_explicit(&data->promised, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&data->coming, 1, memory_order_seq_cst);
}

void data_turn(data_t *data)
{
    atomic_fetch_sub_explicit(&data->promised, 1, memory_order_relaxed);
    if (turn_try(&data->turn)) {
        leave(data, true);
        return;
    }
    look_again(data);
    leave_the_rest(data);
}

/* ---- the thread ---- */

static void take_wake(const data_t *data)
{
    eventfd_t count;
    (void)eventfd_read(data->wake_fd, &count);
}

static void serve_source(transport_source_t *source, uint32_t events)
{
    source->serve(source, events);
}

/* What has come, without waiting. Returns whether anything had. */
static bool look_at_sockets(data_t *data)
{
    struct epoll_event events[EVENTS_PER_TURN];
    int count = epoll_wait(data->epoll_fd, events, EVENTS_PER_TURN, 0);
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == data)
            take_wake(data);
        else
            serve_source(events[i].data.ptr, events[i].events);
    }
    return count > 0;
}

static void tick(data_t *data)
{
    uint64_t now_ns = clock_ns();
    LIST_FOR_EACH (link, &data->endpoints) {
        data_endpoint_t *endpoint = CONTAINER_OF(link, data_endpoint_t, link);
        pool_trim(&endpoint->pool, now_ns);
        endpoint_check_deadline(endpoint, now_ns);
    }
    pool_trim(&data->pool, now_ns);
}

/* Wait for something to do. */
static void rest(data_t *data)
{
    struct epoll_event event;
    /* seq_cst: as said in on_posted(). */
    atomic_store_explicit(&data->asleep, true, memory_order_seq_cst);
    /* seq_cst: as said in data_watch(). */
    if (atomic_load_explicit(&data->watched, memory_order_seq_cst))
        (void)poll(&(struct pollfd){.fd = data->wake_fd, .events = POLLIN}, 1, TICK_MS);
    else if (mailbox_is_empty(&data->mailbox))
        (void)epoll_wait(data->epoll_fd, &event, 1, TICK_MS);
    atomic_store_explicit(&data->asleep, false, memory_order_seq_cst);
}

static void *run_proxy(void *context)
{
    data_t *data = context;
    uint64_t ticked_ns = 0;
    /* Acquire: pairs with the store in data_destroy(). */
    while (!atomic_load_explicit(&data->stopping, memory_order_acquire)) {
        proxy_enter(data);
        bool any = look_at_sockets(data);
        uint64_t now_ns = clock_ns();
        if (now_ns - ticked_ns > TICK_MS * UINT64_C(1000000)) {
            tick(data);
            ticked_ns = now_ns;
        }
        any |= proxy_serve(data);
        turn_pass(&data->turn);
        look_again(data);
        if (!any)
            rest(data);
    }
    return NULL;
}

/* ---- a thread that watches ---- */

void data_watch(data_t *data, bool watches)
{
    if (watches) {
        atomic_fetch_add_explicit(&data->coming, 1, memory_order_seq_cst);
        atomic_store_explicit(&data->watched, true, memory_order_seq_cst);
        return;
    }
    /* seq_cst: rest() sets `asleep` and then looks at `watched`, so one of the two sees the other. */
    atomic_store_explicit(&data->watched, false, memory_order_seq_cst);
    look_again(data);
    if (atomic_exchange_explicit(&data->asleep, false, memory_order_seq_cst))
        proxy_wake(data);
}

bool data_poll(data_t *data)
{
    if (!turn_try(&data->turn))
        return false;
    bool any = look_at_sockets(data);
    any |= proxy_serve(data);
    turn_pass(&data->turn);
    return any;
}

/* ---- beginning and end ---- */

static void on_memory_gone(exec_keeper_t *keeper, exec_instance_t *instance)
{
    data_t *data = CONTAINER_OF(keeper, data_t, keeper);
    proxy_enter(data);
    sources_forget_instance(instance);
    proxy_leave(data);
}

static blink_result_t open_descriptors(data_t *data)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = data};
    data->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    data->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (data->epoll_fd < 0 || data->wake_fd < 0 ||
        epoll_ctl(data->epoll_fd, EPOLL_CTL_ADD, data->wake_fd, &event) != 0)
        return BLINK_FAIL_ERRNO("descriptors for data connections");
    return BLINK_OK;
}

static void data_free(data_t *data)
{
    if (data->epoll_fd >= 0)
        close(data->epoll_fd);
    if (data->wake_fd >= 0)
        close(data->wake_fd);
    verbs_devices_destroy(data->verbs);
    pool_fini(&data->pool);
    turn_fini(&data->turn);
    free(data->trash);
    free(data);
}

/* Connections look for a device each time: one may come later, with a driver that is loaded later. */
static void note_absence(const data_t *data)
{
    if (verbs_devices_any(data->verbs))
        return;
    if (data->config.transport == SETTINGS_RDMA)
        LOG_WARNING(
            "[network] transport = rdma, and this machine has no RDMA device: until it has one, there are "
            "no data connections to other hosts, and communicators that span hosts fail; transport = "
            "auto takes TCP meanwhile");
    else
        LOG_INFO("data connections go by TCP until this machine has an RDMA device");
}

/* Have RDMA, if the settings ask for it. */
static blink_result_t open_verbs(data_t *data)
{
    const data_config_t *config = &data->config;
    const verbs_library_t *library = config->verbs;
    if (config->transport == SETTINGS_TCP)
        return BLINK_OK;
    blink_result_t result = library ? BLINK_OK : verbs_library_load(&library);
    if (result == BLINK_OK) {
        BLINK_TRY(verbs_devices_create(library, data->epoll_fd, &data->verbs));
        note_absence(data);
        return BLINK_OK;
    }
    if (config->transport == SETTINGS_RDMA)
        return BLINK_FAIL(result, "[network] transport = rdma: %s", blink_error_text());
    LOG_INFO("data connections go by TCP: %s", blink_error_text());
    return BLINK_OK;
}

static blink_result_t start(data_t *data)
{
    if (!data->trash)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for data connections");
    BLINK_TRY(open_descriptors(data));
    BLINK_TRY(open_verbs(data));
    int error = pthread_create(&data->thread, NULL, run_proxy, data);
    if (error)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "the thread for data connections: %s", strerror(error));
    pthread_setname_np(data->thread, "blink-proxy");
    return BLINK_OK;
}

blink_result_t data_create(const data_config_t *config, data_t **created)
{
    data_t *data = calloc(1, sizeof(*data));
    if (!data)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for data connections");
    data->config = *config;
    if (!config->landings.take)
        data->config.landings = pages_of_system();
    data->epoll_fd = data->wake_fd = -1;
    data->keeper.gone = on_memory_gone;
    data->trash = malloc(TRANSPORT_TRASH_BYTES);
    turn_init(&data->turn);
    mailbox_init(&data->mailbox, on_posted, data);
    list_init(&data->endpoints);
    list_init(&data->busy);
    list_init(&data->gone);
    list_init(&data->retired);
    pool_init(&data->pool, FREE_MOST_BYTES, data->config.landings, NULL);
    blink_result_t result = start(data);
    if (result != BLINK_OK) {
        data_free(data);
        return result;
    }
    *created = data;
    return BLINK_OK;
}

void data_destroy(data_t *data)
{
    if (!data)
        return;
    /* Release: pairs with the load in run_proxy(). */
    atomic_store_explicit(&data->stopping, true, memory_order_release);
    proxy_wake(data);
    pthread_join(data->thread, NULL);
    data_free(data);
}
