/* The ring operations of both sides. The protocol they follow is argued at the top of ring.h. */
#include "ring.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define RING_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static bool entries_valid(uint32_t entries)
{
    return entries >= RING_ENTRIES_MIN && entries <= RING_ENTRIES_MAX && (entries & (entries - 1)) == 0;
}

static size_t ring_total_bytes(uint32_t sq_entries, uint32_t cq_entries)
{
    return RING_HEADER_BYTES + sq_entries * sizeof(ring_sqe_t) + cq_entries * sizeof(ring_cqe_t);
}

static blink_result_t ring_map(ring_t *ring, int memfd, uint32_t sq_entries, uint32_t cq_entries)
{
    size_t bytes = ring_total_bytes(sq_entries, cq_entries);
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memfd, 0);
    if (base == MAP_FAILED)
        return BLINK_FAIL_ERRNO("map a ring of %zu bytes", bytes);
    *ring = (ring_t){
        .header = base,
        .sqes = (ring_sqe_t *)((char *)base + RING_HEADER_BYTES),
        .cqes = (ring_cqe_t *)((char *)base + RING_HEADER_BYTES + sq_entries * sizeof(ring_sqe_t)),
        .sq_entries = sq_entries,
        .cq_entries = cq_entries,
        .bytes = bytes,
    };
    return BLINK_OK;
}

blink_result_t ring_create(uint32_t sq_entries, uint32_t cq_entries, ring_t *ring, int *memfd)
{
    if (!entries_valid(sq_entries) || !entries_valid(cq_entries))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "ring entries %u and %u: need powers of two from %u to %u", sq_entries, cq_entries,
                          RING_ENTRIES_MIN, RING_ENTRIES_MAX);
    int fd = memfd_create("blink-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return BLINK_FAIL_ERRNO("memfd_create");
    blink_result_t result;
    if (ftruncate(fd, (off_t)ring_total_bytes(sq_entries, cq_entries)) != 0 ||
        fcntl(fd, F_ADD_SEALS, RING_SEALS) != 0) {
        result = BLINK_FAIL_ERRNO("size and seal a ring");
        goto fail;
    }
    result = ring_map(ring, fd, sq_entries, cq_entries);
    if (result != BLINK_OK)
        goto fail;
    (void)madvise(ring->header, ring->bytes, MADV_DONTDUMP); /* only a wish */
    *ring->header = (ring_header_t){
        .magic = RING_MAGIC,
        .version = RING_VERSION,
        .sq_entries = sq_entries,
        .cq_entries = cq_entries,
        .sq_offset = RING_HEADER_BYTES,
        .cq_offset = (uint32_t)(RING_HEADER_BYTES + sq_entries * sizeof(ring_sqe_t)),
        .total_bytes = ring->bytes,
    };
    *memfd = fd;
    return BLINK_OK;
fail:
    close(fd);
    return result;
}

blink_result_t ring_attach(int memfd, ring_t *ring)
{
    ring_header_t header;
    struct stat status;
    int seals = fcntl(memfd, F_GET_SEALS);
    if (seals < 0 || (seals & RING_SEALS) != RING_SEALS)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon's ring is not a sealed memfd");
    ssize_t got = pread(memfd, &header, sizeof(header), 0);
    if (got < 0 || fstat(memfd, &status) != 0)
        return BLINK_FAIL_ERRNO("read the ring's header");
    if (got != (ssize_t)sizeof(header) || header.magic != RING_MAGIC)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon's ring has no header");
    if (header.version != RING_VERSION)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "ring version %u, this library speaks %u", header.version,
                          RING_VERSION);
    if (!entries_valid(header.sq_entries) || !entries_valid(header.cq_entries) ||
        (size_t)status.st_size != ring_total_bytes(header.sq_entries, header.cq_entries))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the ring's sizes do not fit its header");
    return ring_map(ring, memfd, header.sq_entries, header.cq_entries);
}

/* Both sides of a fresh ring begin at index 0, so the views are alike. */
blink_result_t ring_adopt(int memfd, ring_t *ring)
{
    return ring_attach(memfd, ring);
}

void ring_unmap(ring_t *ring)
{
    if (ring->header)
        munmap(ring->header, ring->bytes);
    *ring = (ring_t){0};
}

int ring_create_event(void)
{
    return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
}

void ring_raise_event(int event_fd)
{
    /* The first nanosecond after boot: over. */
    static const struct itimerspec past = {.it_value.tv_nsec = 1};
    timerfd_settime(event_fd, TFD_TIMER_ABSTIME, &past, NULL);
}

void ring_wake_client(ring_t *ring)
{
    /* Release: pairs with the acquire load in ring_sleep_begin(); FUTEX_WAIT compares this very word. */
    atomic_fetch_add_explicit(&ring->header->wake_sequence, 1, memory_order_release);
    syscall(SYS_futex, &ring->header->wake_sequence, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void ring_notify(ring_t *ring)
{
    /* seq_cst: the publisher's look; pairs with the announcement in ring_sleep_begin(). */
    if (atomic_load_explicit(&ring->header->client_sleepers, memory_order_seq_cst) != 0)
        ring_wake_client(ring);
}

/* Whether a completion slot can be reserved. */
static bool cq_has_slot(const ring_t *ring)
{
    /* Acquire: pairs with the release store of cq_head in ring_reap(), so the client has read the slot before
     * it is reused. */
    uint32_t unread = ring->cq_index - atomic_load_explicit(&ring->header->cq_head, memory_order_acquire);
    return unread < ring->cq_entries && ring->cq_reserved < ring->cq_entries - unread;
}

bool ring_has_submission(ring_t *ring)
{
    /* seq_cst: the sleeper's second look; pairs with the store of sq_tail in ring_submit(). */
    return atomic_load_explicit(&ring->header->sq_tail, memory_order_seq_cst) != ring->sq_index &&
           (cq_has_slot(ring) || (ring->sqes[ring->sq_index & (ring->sq_entries - 1)].flags & RING_SQE_MORE));
}

bool ring_take(ring_t *ring, ring_sqe_t *sqe)
{
    /* Acquire: pairs with the store of sq_tail in ring_submit(), so the entry is seen whole. */
    uint32_t tail = atomic_load_explicit(&ring->header->sq_tail, memory_order_acquire);
    if (tail == ring->sq_index)
        return false;
    *sqe = ring->sqes[ring->sq_index & (ring->sq_entries - 1)];
    bool completes = !(sqe->flags & RING_SQE_MORE);
    if (completes && !cq_has_slot(ring))
        return false;
    ring->cq_reserved += completes;
    ring->sq_index++;
    /* Release: the copy is made before the client may overwrite the entry; pairs with the load of sq_head in
     * ring_submit(). */
    atomic_store_explicit(&ring->header->sq_head, ring->sq_index, memory_order_release);
    return true;
}

bool ring_complete(ring_t *ring, uint64_t user_data, blink_result_t result, const char *text)
{
    assert(ring->cq_reserved > 0);
    ring_cqe_t *cqe = &ring->cqes[ring->cq_index & (ring->cq_entries - 1)];
    cqe->user_data = user_data;
    cqe->result = (uint32_t)result;
    if (result != BLINK_OK)
        snprintf(cqe->text, sizeof(cqe->text), "%s", text ? text : "");
    ring->cq_reserved--;
    ring->cq_index++;
    /* seq_cst: publishes the entry to the load of cq_tail in ring_reap(), and comes before the looks at
     * client_sleepers (in ring_notify()) and client_wants_event, as the top of ring.h argues. */
    atomic_store_explicit(&ring->header->cq_tail, ring->cq_index, memory_order_seq_cst);
    ring_notify(ring);
    /* seq_cst: the publisher's look; pairs with the store in ring_want_event(). */
    return atomic_load_explicit(&ring->header->client_wants_event, memory_order_seq_cst) != 0;
}

void ring_set_engine_sleeping(ring_t *ring, bool sleeping)
{
    /* seq_cst: the announcement; pairs with the look in ring_needs_doorbell(). */
    atomic_store_explicit(&ring->header->engine_sleeping, sleeping, memory_order_seq_cst);
}

void ring_set_wait_policy(ring_t *ring, ring_wait_policy_t policy)
{
    /* Relaxed: a hint; nothing else is published with it. */
    atomic_store_explicit(&ring->header->wait_policy, (uint32_t)policy, memory_order_relaxed);
}

void ring_answer_ping(ring_t *ring)
{
    /* seq_cst: the sleeper's second look; pairs with the store in ring_ping(). */
    uint32_t ping = atomic_load_explicit(&ring->header->ping, memory_order_seq_cst);
    /* Relaxed: the word says nothing of others. Only the engine writes it. */
    if (atomic_load_explicit(&ring->header->pong, memory_order_relaxed) != ping)
        atomic_store_explicit(&ring->header->pong, ping, memory_order_relaxed);
}

void ring_ping(ring_t *ring)
{
    /* Relaxed: this side's own word. */
    uint32_t ping = atomic_load_explicit(&ring->header->ping, memory_order_relaxed);
    /* seq_cst: comes before the look at engine_sleeping in ring_needs_doorbell(); pairs with
     * ring_answer_ping(). */
    atomic_store_explicit(&ring->header->ping, ping + 1, memory_order_seq_cst);
}

bool ring_ping_is_answered(const ring_t *ring)
{
    /* Relaxed: as in ring_answer_ping(). */
    return atomic_load_explicit(&ring->header->pong, memory_order_relaxed) ==
           atomic_load_explicit(&ring->header->ping, memory_order_relaxed);
}

bool ring_submit(ring_t *ring, const ring_sqe_t *sqe)
{
    /* Acquire: pairs with the release store of sq_head in ring_take(), so the daemon has copied the entry
     * that is overwritten here. */
    uint32_t head = atomic_load_explicit(&ring->header->sq_head, memory_order_acquire);
    if (ring->sq_index - head >= ring->sq_entries)
        return false;
    ring->sqes[ring->sq_index & (ring->sq_entries - 1)] = *sqe;
    ring->sq_index++;
    /* seq_cst: publishes the entry to the load of sq_tail in ring_take(), and comes before the look at
     * engine_sleeping in ring_needs_doorbell(), as the top of ring.h argues. */
    atomic_store_explicit(&ring->header->sq_tail, ring->sq_index, memory_order_seq_cst);
    return true;
}

bool ring_needs_doorbell(ring_t *ring)
{
    /* seq_cst: the publisher's look; pairs with the announcement in ring_set_engine_sleeping(). */
    return atomic_load_explicit(&ring->header->engine_sleeping, memory_order_seq_cst) != 0;
}

bool ring_has_completion(ring_t *ring)
{
    /* seq_cst: the sleeper's second look; pairs with the store of cq_tail in ring_complete(). */
    return atomic_load_explicit(&ring->header->cq_tail, memory_order_seq_cst) != ring->cq_index;
}

bool ring_reap(ring_t *ring, ring_cqe_t *cqe)
{
    /* Acquire: pairs with the store of cq_tail in ring_complete(), so the entry is seen whole. */
    if (atomic_load_explicit(&ring->header->cq_tail, memory_order_acquire) == ring->cq_index)
        return false;
    const ring_cqe_t *entry = &ring->cqes[ring->cq_index & (ring->cq_entries - 1)];
    cqe->user_data = entry->user_data;
    cqe->result = entry->result;
    cqe->text[0] = '\0';
    if (cqe->result != BLINK_OK) {
        memcpy(cqe->text, entry->text, sizeof(cqe->text));
        cqe->text[sizeof(cqe->text) - 1] = '\0';
    }
    ring->cq_index++;
    /* Release: the entry is read before the daemon may reuse it; pairs with the load of cq_head in
     * cq_has_slot(). */
    atomic_store_explicit(&ring->header->cq_head, ring->cq_index, memory_order_release);
    return true;
}

ring_wait_policy_t ring_wait_policy(const ring_t *ring)
{
    /* Relaxed: a hint; nothing else is read by it. */
    return (ring_wait_policy_t)atomic_load_explicit(&ring->header->wait_policy, memory_order_relaxed);
}

uint32_t ring_sleep_begin(ring_t *ring)
{
    /* Acquire: pairs with the increment in ring_wake_client(). The sequence is read before the announcement,
     * so a wake-up that is sent after the announcement changes the futex word. */
    uint32_t sequence = atomic_load_explicit(&ring->header->wake_sequence, memory_order_acquire);
    /* seq_cst: the announcement; pairs with the look in ring_notify(). */
    atomic_fetch_add_explicit(&ring->header->client_sleepers, 1, memory_order_seq_cst);
    return sequence;
}

void ring_sleep(ring_t *ring, uint32_t sequence, uint64_t timeout_us)
{
    struct timespec timeout = {(time_t)(timeout_us / 1000000), (long)(timeout_us % 1000000) * 1000};
    syscall(SYS_futex, &ring->header->wake_sequence, FUTEX_WAIT, sequence, &timeout, NULL, 0);
}

void ring_sleep_end(ring_t *ring)
{
    /* Relaxed: standing announced a moment too long only costs a needless wake-up. */
    atomic_fetch_sub_explicit(&ring->header->client_sleepers, 1, memory_order_relaxed);
}

void ring_want_event(ring_t *ring)
{
    /* seq_cst: the caller looks at the CQ after this; pairs with the look in ring_complete(). */
    atomic_store_explicit(&ring->header->client_wants_event, 1, memory_order_seq_cst);
}
