#include "net/data/verbs/device.h"

#include "net/data/verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>

/* What is told is taken in so often before others have their turn. */
#define NEWS_MOST 16u

/* News from before a device is used. */
#define STALE_MOST 1024u

const char *verbs_device_name(const verbs_device_t *device)
{
    return device->context->device->name;
}

/* ---- news ---- */

/* What connections cannot go on after; NULL: they can. */
static const char *what_ended(enum ibv_event_type type)
{
    switch (type) {
    case IBV_EVENT_PORT_ERR:
        return "is down";
    case IBV_EVENT_DEVICE_FATAL:
        return "has failed";
    default:
        return NULL;
    }
}

/* The port of this rail's device that a queue pair or a listener uses: this one, or with 0 any; 0: none. */
static uint32_t used_port(const verbs_rail_t *rail, uint32_t port)
{
    for (uint32_t i = 0; i < rail->verbs->config.stream_count; i++) {
        const struct rdma_cm_id *const ids[] = {rail->verbs->listeners[i], rail->verbs->qps[i].id};
        for (uint32_t k = 0; k < 2; k++) {
            if (ids[k] && ids[k]->verbs == rail->device->context && (port == 0 || ids[k]->port_num == port))
                return ids[k]->port_num;
        }
    }
    return 0;
}

static void tell_users(const verbs_device_t *device, const struct ibv_async_event *event)
{
    const char *what = what_ended(event->event_type);
    bool of_port = event->event_type == IBV_EVENT_PORT_ERR;
    uint32_t number = of_port ? (uint32_t)event->element.port_num : 0;
    if (!what)
        return;
    LIST_FOR_EACH (link, &device->users) {
        const verbs_rail_t *rail = CONTAINER_OF(link, verbs_rail_t, of_device);
        uint32_t port = used_port(rail, number);
        if (of_port && port == 0)
            continue;
        verbs_lose(rail->verbs,
                   BLINK_FAIL(BLINK_ERR_PEER_LOST, "RDMA device %s, port %u: the %s %s",
                              verbs_device_name(device), port, of_port ? "port" : "device", what));
    }
}

void verbs_device_take_news(verbs_device_t *device)
{
    const verbs_library_t *library = device->devices->library;
    struct ibv_async_event event;
    for (uint32_t i = 0; i < NEWS_MOST && device->context; i++) {
        if (library->get_async_event(device->context, &event) != 0)
            return;
        library->ack_async_event(&event);
        device->holders++;
        tell_users(device, &event);
        verbs_device_put(device);
    }
}

static void on_news(transport_source_t *source, uint32_t events)
{
    (void)events;
    verbs_device_take_news(CONTAINER_OF(source, verbs_device_t, source));
}

/* ---- beginning and end ---- */

/* What was told while nobody held the device concerns nobody. */
static void drop_news(const verbs_device_t *device)
{
    const verbs_library_t *library = device->devices->library;
    struct ibv_async_event event;
    for (uint32_t i = 0; i < STALE_MOST && library->get_async_event(device->context, &event) == 0; i++)
        library->ack_async_event(&event);
}

static blink_result_t watch(verbs_device_t *device)
{
    int fd = device->context->async_fd, flags = fcntl(fd, F_GETFL);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &device->source};
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        epoll_ctl(device->devices->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return BLINK_FAIL_ERRNO("watch an RDMA device");
    drop_news(device);
    return BLINK_OK;
}

static blink_result_t open_device(verbs_device_t *device, struct ibv_context *context)
{
    if (context->device->transport_type != IBV_TRANSPORT_IB)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "RDMA device %s is no InfiniBand and no RoCE device, and others have no immediates",
                          context->device->name);
    device->context = context;
    blink_result_t result = watch(device);
    if (result != BLINK_OK)
        device->context = NULL;
    return result;
}

/* The one with this context, or one without; NULL: no memory. */
static verbs_device_t *find_device(verbs_devices_t *devices, struct ibv_context *context)
{
    verbs_device_t *unused = NULL;
    LIST_FOR_EACH (link, &devices->devices) {
        verbs_device_t *device = CONTAINER_OF(link, verbs_device_t, link);
        if (device->context == context)
            return device;
        if (!device->context)
            unused = device;
    }
    if (unused || !(unused = malloc(sizeof(*unused))))
        return unused;
    *unused = (verbs_device_t){.source = {on_news}, .devices = devices};
    list_init(&unused->users);
    list_append(&devices->devices, &unused->link);
    return unused;
}

blink_result_t verbs_device_get(verbs_devices_t *devices, struct ibv_context *context, verbs_device_t **found)
{
    verbs_device_t *device = find_device(devices, context);
    if (!device)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for an RDMA device");
    if (!device->context)
        BLINK_TRY(open_device(device, context));
    device->holders++;
    *found = device;
    return BLINK_OK;
}

void verbs_device_put(verbs_device_t *device)
{
    if (--device->holders > 0)
        return;
    (void)epoll_ctl(device->devices->epoll_fd, EPOLL_CTL_DEL, device->context->async_fd, NULL);
    device->context = NULL;
}

blink_result_t verbs_devices_create(const verbs_library_t *library, int epoll_fd, verbs_devices_t **created)
{
    verbs_devices_t *devices = malloc(sizeof(*devices));
    if (!devices)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for RDMA devices");
    *devices = (verbs_devices_t){.library = library, .epoll_fd = epoll_fd};
    list_init(&devices->devices);
    list_init(&devices->loops);
    pthread_mutex_init(&devices->loops_mutex, NULL);
    *created = devices;
    return BLINK_OK;
}

bool verbs_devices_any(const verbs_devices_t *devices)
{
    int count = 0;
    struct ibv_device **list = devices->library->get_device_list(&count);
    if (list)
        devices->library->free_device_list(list);
    return list && count > 0;
}

void verbs_devices_destroy(verbs_devices_t *devices)
{
    list_t *link;
    while (devices && (link = list_take_first(&devices->devices)))
        free(CONTAINER_OF(link, verbs_device_t, link));
    if (devices)
        pthread_mutex_destroy(&devices->loops_mutex);
    free(devices);
}
