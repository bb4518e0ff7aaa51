/*
 * RDMA devices that a data plane uses, and the news of each, which concern all transports on it.
 */
#ifndef BLINK_VERBS_DEVICE_H
#define BLINK_VERBS_DEVICE_H

#include "net/data/transport.h"
#include "net/data/verbs/library.h"

#include <pthread.h>

typedef struct verbs_device {
    transport_source_t source; /* of the device's news */
    list_t link;               /* verbs_devices_t.devices */
    verbs_devices_t *devices;
    uint32_t holders;
    struct ibv_context *context; /* NULL: nobody holds it */
    list_t users;                /* verbs_rail_t.of_device: those whom its news concern */
} verbs_device_t;

struct verbs_devices {
    const verbs_library_t *library;
    int epoll_fd;
    list_t devices; /* those of which nobody holds the device are used again */
    pthread_mutex_t loops_mutex;
    list_t loops;     /* loop.h */
    bool loop_failed; /* one has: memory of GPUs is reached no more. With the turn */
};

/* The devices of a data plane, which nobody holds at the end. NULL is ignored. Errors: NO_MEMORY. */
blink_result_t verbs_devices_create(const verbs_library_t *library, int epoll_fd, verbs_devices_t **devices);
void verbs_devices_destroy(verbs_devices_t *devices);

/* Whether the machine has a device now; one may come later. */
bool verbs_devices_any(const verbs_devices_t *devices);

/* Hold a connection's device, and open what it needs. Errors: SYSTEM, NO_MEMORY, UNSUPPORTED (it has no
 * immediates: iWARP). */
blink_result_t verbs_device_get(verbs_devices_t *devices, struct ibv_context *context,
                                verbs_device_t **device);

void verbs_device_put(verbs_device_t *device);

/* Take in what it has told; users may be lost for it. */
void verbs_device_take_news(verbs_device_t *device);

/* Its name, "mlx5_0". */
const char *verbs_device_name(const verbs_device_t *device);

#endif
