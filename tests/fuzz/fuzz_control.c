/*
 * Fuzzes the control protocol: what one connection sends, from the frame to the object that the request is
 * about. The first byte says whether a good Hello comes first, how many descriptors come along, and whether
 * the rest is bytes as they are or requests, each behind a byte with its length.
 */
#include "inside.h"

#include "frame.h"

#include <unistd.h>

#define REGION_BYTES (64u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum {
    WITH_HELLO = 1,
    WITH_RING = 2,
    AS_BYTES = 4,
    FDS_SHIFT = 6, /* 0 to 3 descriptors with each request */
};

/* False if the daemon has ended the connection. */
static bool say_hello(int connection, bool want_ring)
{
    int fds[3] = {-1, -1, -1};
    Blinkwire__Reply *reply = inside_hello(connection, want_ring, fds);
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    if (!reply)
        return false;
    blinkwire__reply__free_unpacked(reply, NULL);
    return true;
}

/* A daemon whose replies are not read stops to read requests. */
static void skip_replies(int connection)
{
    char bytes[4096];
    while (recv(connection, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
    }
}

static void send_requests(int connection, uint32_t fd_count, const uint8_t *data, size_t bytes)
{
    int fd = inside_memory(REGION_BYTES), fds[3] = {fd, fd, fd};
    while (bytes > 0) {
        size_t length = data[0] < bytes - 1 ? data[0] : bytes - 1;
        if (frame_send(connection, data + 1, length, fds, fd_count) != BLINK_OK)
            break;
        skip_replies(connection);
        data += 1 + length;
        bytes -= 1 + length;
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 1)
        return 0;
    int connection = inside_connect();
    uint8_t how = data[0];
    if (!(how & WITH_HELLO) || say_hello(connection, how & WITH_RING)) {
        if (!(how & AS_BYTES))
            send_requests(connection, how >> FDS_SHIFT, data + 1, bytes - 1);
        else if (send(connection, data + 1, bytes - 1, MSG_NOSIGNAL) < 0) { /* it has been ended: fine */
        }
    }
    inside_leave(connection);
    return 0;
}
