#include "gpu_worker/channel.h"

#include "ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define RING_ENTRIES 1024u
#define ARENA_BYTES  (64u << 20)

static blink_result_t open_arena(gpu_channel_t *channel, int *fd)
{
    *fd = memfd_create("blink-gpu-arena", MFD_CLOEXEC);
    if (*fd < 0 || ftruncate(*fd, ARENA_BYTES) != 0)
        return BLINK_FAIL_ERRNO("make the memory shared with the GPU worker");
    void *base = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (base == MAP_FAILED)
        return BLINK_FAIL_ERRNO("map the memory shared with the GPU worker");
    channel->arena = base;
    channel->arena_bytes = ARENA_BYTES;
    return BLINK_OK;
}

blink_result_t gpu_channel_open(gpu_channel_t *channel, int *arena_fd)
{
    ring_t ring;
    *channel = GPU_CHANNEL_NONE;
    *arena_fd = -1;
    BLINK_TRY(ring_create(RING_ENTRIES, RING_ENTRIES, &ring, &channel->ring_fd));
    ring_unmap(&ring); /* the worker and the engine map the ring, each its own side */
    channel->doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    channel->event_fd = ring_create_event();
    if (channel->doorbell_fd < 0 || channel->event_fd < 0)
        return BLINK_FAIL_ERRNO("descriptors for the GPU worker");
    return open_arena(channel, arena_fd);
}

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

void gpu_channel_close(gpu_channel_t *channel)
{
    if (channel->arena)
        munmap(channel->arena, channel->arena_bytes);
    close_if_open(channel->ring_fd);
    close_if_open(channel->doorbell_fd);
    close_if_open(channel->event_fd);
    for (uint32_t gpu = 0; gpu < GPU_MAX; gpu++)
        close_if_open(channel->exported_address[gpu] ? channel->exported_fd[gpu] : -1);
    *channel = GPU_CHANNEL_NONE;
}
