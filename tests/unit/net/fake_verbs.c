#include "fake_verbs.h"

#include "base/list.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define MUST(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "fake verbs, line %d: %s\n", __LINE__, #condition);                              \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

enum { QUEUE_MOST = 1024, REGIONS_MOST = 256, MESSAGES_MOST = 128, INLINE_MOST = 64 };

typedef struct fake_id fake_id_t;

typedef struct fake_device {
    struct ibv_context context;
    struct ibv_device device;
    uint32_t number;
    enum ibv_event_type news[16];
    uint32_t news_count;
    enum ibv_wc_status fails, fails_write; /* the next message, or the next write */
    uint64_t carried;
    bool is_out;
} fake_device_t;

typedef struct fake_channel {
    struct rdma_event_channel channel;
    list_t events;
} fake_channel_t;

typedef struct fake_event {
    struct rdma_cm_event event;
    list_t link;
    uint8_t private_data[64];
} fake_event_t;

typedef struct fake_completions {
    struct ibv_comp_channel channel;
    struct ibv_cq *pending[16];
    uint32_t pending_count;
} fake_completions_t;

typedef struct fake_qp fake_qp_t;

typedef struct fake_cq {
    struct ibv_cq queue;
    struct fake_done {
        struct ibv_wc done;
        fake_qp_t *qp;  /* NULL: it is destroyed */
        uint32_t frees; /* places of sends, once it is polled */
    } all[QUEUE_MOST];
    uint32_t count, most, given, acknowledged;
    bool armed;
} fake_cq_t;

typedef struct fake_message {
    struct ibv_send_wr work;
    struct ibv_sge piece;
    uint8_t bytes[INLINE_MOST];
} fake_message_t;

/* A write that has come and is not placed yet. */
typedef struct fake_late {
    list_t link;
    struct ibv_send_wr work;
    uint32_t count;
    uint8_t bytes[];
} fake_late_t;

/* A write to memory of a GPU that is not seen there yet. */
typedef struct fake_unseen {
    list_t link;
    uint32_t device, region;
    uint64_t place;
    uint32_t count;
    uint8_t bytes[];
} fake_unseen_t;

typedef struct fake_receive {
    uint64_t work;
    struct ibv_sge piece;
} fake_receive_t;

struct fake_qp {
    struct ibv_qp qp;
    list_t link;
    fake_id_t *id;           /* NULL: it is joined with itself, once it is */
    enum ibv_qp_state state; /* of such a one */
    struct ibv_qp_cap cap;
    bool failed;
    fake_message_t sends[MESSAGES_MOST]; /* not carried yet */
    uint32_t send_count;
    uint32_t held;   /* sends whose places are not free, for no completion of a later one was polled; */
    uint32_t silent; /* of these, carried after the last one with a completion */
    fake_receive_t receives[MESSAGES_MOST];
    uint32_t receive_count;
    list_t late; /* fake_late_t.link */
};

struct fake_id {
    struct rdma_cm_id id;
    list_t link;
    fake_id_t *peer; /* of the connection */
    bool listens, accepted, connected;
    uint16_t port, peer_port;
    uint32_t peer_device;
    uint32_t unacknowledged;
};

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t posted;
    pthread_t wire;
    bool stops;
    uint64_t dice, carried, written, unready;
    uint32_t told_most_bytes;
    fake_faults_t faults;
    fake_device_t devices[FAKE_DEVICES];
    struct ibv_mr regions[REGIONS_MOST];
    int access[REGIONS_MOST];
    bool of_gpu[REGIONS_MOST];
    list_t unseen; /* fake_unseen_t.link */
    uint64_t flushed;
    uint32_t region_serial;
    list_t ids, qps;
    uint32_t unheard;
    uint32_t objects; /* that are to be destroyed */
    uint16_t next_port;
} fake = {.mutex = PTHREAD_MUTEX_INITIALIZER, .posted = PTHREAD_COND_INITIALIZER};

static void lock(void)
{
    pthread_mutex_lock(&fake.mutex);
}

static void unlock(void)
{
    pthread_mutex_unlock(&fake.mutex);
}

static int fail_with(int error)
{
    errno = error;
    return -1;
}

static uint32_t random_below(uint32_t below)
{
    fake.dice ^= fake.dice << 13;
    fake.dice ^= fake.dice >> 7;
    fake.dice ^= fake.dice << 17;
    return (uint32_t)(fake.dice >> 20) % below;
}

static void *make(size_t bytes)
{
    void *made = calloc(1, bytes);
    MUST(made);
    fake.objects++;
    return made;
}

static void unmake(void *made)
{
    fake.objects--;
    free(made);
}

static void ring(int fd)
{
    MUST(eventfd_write(fd, 1) == 0);
}

static bool hear(int fd)
{
    eventfd_t count;
    return eventfd_read(fd, &count) == 0;
}

/* Every read of such a descriptor takes one of what was rung. */
static int make_bell(void)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    MUST(fd >= 0);
    return fd;
}

static fake_device_t *device_of(struct ibv_context *context)
{
    return CONTAINER_OF(context, fake_device_t, context);
}

/* ---- memory ---- */

static struct ibv_mr *register_at(struct ibv_pd *domain, void *address, size_t bytes, int access, bool of_gpu)
{
    struct ibv_mr *found = NULL;
    lock();
    bool refuses = fake.faults.no_memory || (access == 0 && fake.faults.no_local_memory) ||
                   (of_gpu && fake.faults.no_dma_bufs);
    for (uint32_t i = 0; i < REGIONS_MOST && !found && !refuses; i++) {
        if (fake.regions[i].addr)
            continue;
        found = &fake.regions[i];
        *found = (struct ibv_mr){.context = domain->context,
                                 .pd = domain,
                                 .addr = address,
                                 .length = bytes,
                                 .lkey = i + 1,
                                 .rkey = ++fake.region_serial * REGIONS_MOST + i};
        fake.access[i] = access;
        fake.of_gpu[i] = of_gpu;
        fake.objects++;
    }
    unlock();
    if (!found)
        errno = of_gpu ? EOPNOTSUPP : ENOMEM;
    return found;
}

static struct ibv_mr *reg_mr(struct ibv_pd *domain, void *address, size_t bytes, int access)
{
    return register_at(domain, address, bytes, access, false);
}

/* The descriptor is a memfd, which the test has mapped where it says that the GPU has its memory. */
static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *domain, uint64_t offset, size_t bytes, uint64_t address,
                                    int dma_buf, int access)
{
    struct stat file;
    MUST(fstat(dma_buf, &file) == 0 && offset + bytes <= (uint64_t)file.st_size);
    MUST(offset % 4096 == address % 4096);
    return register_at(domain, (void *)(uintptr_t)address, bytes, access, true);
}

static void forget_unseen(uint32_t region)
{
    LIST_FOR_EACH (link, &fake.unseen) {
        fake_unseen_t *unseen = CONTAINER_OF(link, fake_unseen_t, link);
        if (unseen->region != region)
            continue;
        list_remove(link);
        unmake(unseen);
    }
}

static int dereg_mr(struct ibv_mr *region)
{
    lock();
    MUST(region->addr);
    forget_unseen((uint32_t)(region - fake.regions));
    region->addr = NULL;
    fake.objects--;
    unlock();
    return 0;
}

static bool covers(const struct ibv_mr *region, uint64_t address, uint64_t bytes)
{
    uintptr_t begin = (uintptr_t)region->addr;
    return begin && address >= begin && address + bytes <= begin + region->length;
}

static void must_be_registered(const struct ibv_qp *qp, const struct ibv_sge *piece)
{
    MUST(piece->lkey >= 1 && piece->lkey <= REGIONS_MOST);
    const struct ibv_mr *region = &fake.regions[piece->lkey - 1];
    MUST(region->pd == qp->pd && covers(region, piece->addr, piece->length));
}

/* What a device asks before it writes for a peer, or reads. */
static bool lets(const struct ibv_qp *qp, const struct ibv_send_wr *work, uint32_t bytes, int access)
{
    uint32_t number = work->wr.rdma.rkey % REGIONS_MOST;
    const struct ibv_mr *region = &fake.regions[number];
    return region->pd == qp->pd && region->rkey == work->wr.rdma.rkey && (fake.access[number] & access) &&
           covers(region, work->wr.rdma.remote_addr, bytes);
}

static bool lets_write(const struct ibv_qp *qp, const struct ibv_send_wr *work, uint32_t bytes)
{
    return lets(qp, work, bytes, IBV_ACCESS_REMOTE_WRITE);
}

/* To host memory at once; of a GPU's nobody sees it before it is flushed. */
static void write_memory(const fake_qp_t *qp, const struct ibv_send_wr *work, const void *bytes,
                         uint32_t count)
{
    uint32_t region = work->wr.rdma.rkey % REGIONS_MOST;
    if (count == 0)
        return;
    if (!fake.of_gpu[region] || fake.faults.orders) {
        memcpy((void *)(uintptr_t)work->wr.rdma.remote_addr, bytes, count);
        return;
    }
    fake_unseen_t *unseen = make(sizeof(*unseen) + count);
    unseen->device = device_of(qp->qp.context)->number;
    unseen->region = region;
    unseen->place = work->wr.rdma.remote_addr;
    unseen->count = count;
    memcpy(unseen->bytes, bytes, count);
    list_append(&fake.unseen, &unseen->link);
}

static void flush_writes(uint32_t device)
{
    LIST_FOR_EACH (link, &fake.unseen) {
        fake_unseen_t *unseen = CONTAINER_OF(link, fake_unseen_t, link);
        if (unseen->device != device)
            continue;
        memcpy((void *)(uintptr_t)unseen->place, unseen->bytes, unseen->count);
        list_remove(link);
        unmake(unseen);
    }
    fake.flushed++;
}

/* ---- completions ---- */

static void push(struct ibv_cq *queue, fake_qp_t *qp, struct ibv_wc done, uint32_t frees)
{
    fake_cq_t *cq = (fake_cq_t *)queue;
    MUST(cq->count < cq->most);
    done.qp_num = qp->qp.qp_num;
    cq->all[cq->count++] = (struct fake_done){done, qp, frees};
    if (!cq->armed)
        return;
    cq->armed = false;
    fake_completions_t *completions = (fake_completions_t *)queue->channel;
    MUST(completions->pending_count < 16);
    completions->pending[completions->pending_count++] = queue;
    ring(completions->channel.fd);
}

static int poll_cq(struct ibv_cq *queue, int most, struct ibv_wc *done)
{
    fake_cq_t *cq = (fake_cq_t *)queue;
    int count = 0;
    lock();
    for (; count < most && cq->count > 0; count++) {
        done[count] = cq->all[0].done;
        if (cq->all[0].qp)
            cq->all[0].qp->held -= cq->all[0].frees;
        memmove(cq->all, cq->all + 1, --cq->count * sizeof(cq->all[0]));
    }
    unlock();
    return count;
}

static int req_notify_cq(struct ibv_cq *queue, int solicited_only)
{
    (void)solicited_only;
    lock();
    ((fake_cq_t *)queue)->armed = true;
    unlock();
    return 0;
}

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *device)
{
    lock();
    fake_completions_t *completions = make(sizeof(*completions));
    unlock();
    completions->channel = (struct ibv_comp_channel){.context = device, .fd = make_bell()};
    return &completions->channel;
}

static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
    lock();
    close(channel->fd);
    unmake(channel);
    unlock();
    return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *device, int entries, void *context,
                                struct ibv_comp_channel *channel, int vector)
{
    MUST(entries <= QUEUE_MOST && vector == 0);
    lock();
    fake_cq_t *cq = make(sizeof(*cq));
    unlock();
    cq->queue = (struct ibv_cq){.context = device, .channel = channel, .cq_context = context};
    cq->most = (uint32_t)entries;
    return &cq->queue;
}

static int destroy_cq(struct ibv_cq *queue)
{
    fake_cq_t *cq = (fake_cq_t *)queue;
    lock();
    MUST(cq->given == cq->acknowledged); /* it would hang */
    unmake(cq);
    unlock();
    return 0;
}

static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **queue, void **context)
{
    fake_completions_t *completions = (fake_completions_t *)channel;
    if (!hear(channel->fd))
        return -1;
    lock();
    *queue = completions->pending[0];
    memmove(completions->pending, completions->pending + 1,
            --completions->pending_count * sizeof(struct ibv_cq *));
    ((fake_cq_t *)*queue)->given++;
    unlock();
    *context = (*queue)->cq_context;
    return 0;
}

static void ack_cq_events(struct ibv_cq *queue, unsigned count)
{
    ((fake_cq_t *)queue)->acknowledged += count;
}

/* ---- queue pairs ---- */

static struct ibv_wc done_of(uint64_t work, enum ibv_wc_opcode opcode, enum ibv_wc_status status)
{
    return (struct ibv_wc){.wr_id = work, .opcode = opcode, .status = status};
}

/* What is posted to it is flushed. */
static void fail_qp(fake_qp_t *qp)
{
    if (qp->failed)
        return;
    qp->failed = true;
    for (uint32_t i = 0; i < qp->send_count; i++)
        push(qp->qp.send_cq, qp, done_of(qp->sends[i].work.wr_id, IBV_WC_SEND, IBV_WC_WR_FLUSH_ERR), 1);
    for (uint32_t i = 0; i < qp->receive_count; i++)
        push(qp->qp.recv_cq, qp, done_of(qp->receives[i].work, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR), 0);
    qp->send_count = qp->receive_count = 0;
}

static bool is_write(const struct ibv_send_wr *work)
{
    return work->opcode == IBV_WR_RDMA_WRITE || work->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static int post_send(struct ibv_qp *to, struct ibv_send_wr *work, struct ibv_send_wr **bad)
{
    fake_qp_t *qp = (fake_qp_t *)to;
    int result = 0;
    *bad = work;
    lock();
    MUST(work->opcode == IBV_WR_SEND || work->opcode == IBV_WR_SEND_WITH_IMM || is_write(work) ||
         (work->opcode == IBV_WR_RDMA_READ && !qp->id));
    MUST(qp->id || qp->state == IBV_QPS_RTS);
    MUST(work->num_sge <= 1 && !work->next);
    if (qp->held == qp->cap.max_send_wr) {
        result = ENOMEM;
    } else if (qp->failed) {
        push(to->send_cq, qp, done_of(work->wr_id, IBV_WC_SEND, IBV_WC_WR_FLUSH_ERR), 0);
    } else {
        fake_message_t *message = &qp->sends[qp->send_count++];
        *message = (fake_message_t){.work = *work};
        if (work->num_sge > 0)
            message->piece = work->sg_list[0];
        if (work->send_flags & IBV_SEND_INLINE) {
            MUST(message->piece.length <= qp->cap.max_inline_data);
            memcpy(message->bytes, (const void *)(uintptr_t)message->piece.addr, message->piece.length);
        } else if (message->piece.length > 0) {
            must_be_registered(to, &message->piece);
        }
        qp->held++;
        pthread_cond_signal(&fake.posted);
    }
    unlock();
    return result;
}

static int post_recv(struct ibv_qp *to, struct ibv_recv_wr *work, struct ibv_recv_wr **bad)
{
    fake_qp_t *qp = (fake_qp_t *)to;
    int result = 0;
    *bad = work;
    lock();
    must_be_registered(to, &work->sg_list[0]);
    if (qp->receive_count == qp->cap.max_recv_wr)
        result = ENOMEM;
    else if (qp->failed)
        push(to->recv_cq, qp, done_of(work->wr_id, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR), 0);
    else
        qp->receives[qp->receive_count++] = (fake_receive_t){work->wr_id, work->sg_list[0]};
    pthread_cond_signal(&fake.posted);
    unlock();
    return result;
}

static int create_qp(struct rdma_cm_id *id, struct ibv_pd *domain, struct ibv_qp_init_attr *attributes)
{
    static uint32_t numbers;
    MUST(domain->context == id->verbs && !id->qp);
    MUST(attributes->cap.max_send_wr <= MESSAGES_MOST && attributes->cap.max_recv_wr <= MESSAGES_MOST);
    if (fake.faults.no_qp)
        return fail_with(ENOMEM);
    lock();
    fake_qp_t *qp = make(sizeof(*qp));
    attributes->cap.max_inline_data = INLINE_MOST;
    qp->cap = attributes->cap;
    qp->id = (fake_id_t *)id;
    qp->qp = (struct ibv_qp){.context = id->verbs,
                             .pd = domain,
                             .send_cq = attributes->send_cq,
                             .recv_cq = attributes->recv_cq,
                             .qp_num = ++numbers};
    id->qp = &qp->qp;
    list_init(&qp->late);
    list_append(&fake.qps, &qp->link);
    unlock();
    return 0;
}

static struct ibv_qp *create_own_qp(struct ibv_pd *domain, struct ibv_qp_init_attr *attributes)
{
    lock();
    fake_qp_t *qp = fake.faults.no_qp ? NULL : make(sizeof(*qp));
    if (qp) {
        qp->cap = attributes->cap;
        qp->qp = (struct ibv_qp){.context = domain->context,
                                 .pd = domain,
                                 .send_cq = attributes->send_cq,
                                 .recv_cq = attributes->recv_cq,
                                 .qp_num = 0x10000};
        list_init(&qp->late);
        list_append(&fake.qps, &qp->link);
    }
    unlock();
    if (!qp)
        errno = ENOMEM;
    return qp ? &qp->qp : NULL;
}

static int modify_qp(struct ibv_qp *modified, struct ibv_qp_attr *to, int mask)
{
    fake_qp_t *qp = (fake_qp_t *)modified;
    lock();
    MUST(!qp->id && (mask & IBV_QP_STATE));
    MUST((int)to->qp_state == (qp->state == IBV_QPS_RESET  ? IBV_QPS_INIT
                               : qp->state == IBV_QPS_INIT ? IBV_QPS_RTR
                                                           : IBV_QPS_RTS));
    if (to->qp_state == IBV_QPS_INIT)
        MUST(to->port_num == 1 && (to->qp_access_flags & IBV_ACCESS_REMOTE_READ));
    if (to->qp_state == IBV_QPS_RTR)
        MUST(to->dest_qp_num == modified->qp_num && to->path_mtu == IBV_MTU_1024 && to->ah_attr.is_global &&
             to->ah_attr.grh.dgid.raw[15] == 1 + device_of(modified->context)->number &&
             to->ah_attr.grh.sgid_index == 3);
    qp->state = to->qp_state;
    unlock();
    return 0;
}

static int query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask,
                    struct ibv_qp_init_attr *made_with)
{
    (void)mask;
    (void)made_with;
    MUST(((fake_qp_t *)qp)->id->connected);
    *attributes = (struct ibv_qp_attr){
        .port_num = 1, .path_mtu = IBV_MTU_1024, .ah_attr = {.is_global = 1, .grh = {.sgid_index = 3}}};
    return 0;
}

static int query_port(struct ibv_context *device, uint8_t port, struct _compat_ibv_port_attr *attributes)
{
    (void)device;
    (void)attributes;
    MUST(port == 1);
    return 0;
}

static int query_gid(struct ibv_context *device, uint8_t port, int index, union ibv_gid *gid)
{
    MUST(port == 1 && index == 3);
    gid->raw[15] = (uint8_t)(1 + device_of(device)->number);
    return 0;
}

static void place_late(fake_qp_t *qp, bool drops)
{
    fake_late_t *late;
    while ((late = LIST_FIRST(&qp->late, fake_late_t, link))) {
        list_remove(&late->link);
        if (!drops)
            write_memory(qp, &late->work, late->bytes, late->count);
        unmake(late);
    }
}

/* Some providers, as that of soft-RoCE, leave its completions where they are. */
static void end_qp(fake_qp_t *qp)
{
    fake_cq_t *cq = (fake_cq_t *)qp->qp.send_cq;
    lock();
    for (uint32_t i = 0; i < cq->count; i++)
        if (cq->all[i].qp == qp)
            cq->all[i].qp = NULL;
    place_late(qp, true);
    list_remove(&qp->link);
    if (qp->id) /* the wire finds the queue pair by the identifier at the other end */
        qp->id->id.qp = NULL;
    unmake(qp);
    unlock();
}

static void destroy_qp(struct rdma_cm_id *id)
{
    end_qp((fake_qp_t *)id->qp);
}

static int destroy_own_qp(struct ibv_qp *qp)
{
    end_qp((fake_qp_t *)qp);
    return 0;
}

/* ---- the wire ---- */

static void end_send(fake_qp_t *qp, enum ibv_wc_status status)
{
    const struct ibv_send_wr work = qp->sends[0].work;
    memmove(qp->sends, qp->sends + 1, --qp->send_count * sizeof(qp->sends[0]));
    qp->silent++;
    if (!(work.send_flags & IBV_SEND_SIGNALED) && status == IBV_WC_SUCCESS)
        return;
    push(qp->qp.send_cq, qp, done_of(work.wr_id, IBV_WC_SEND, status), qp->silent);
    qp->silent = 0;
    if (status != IBV_WC_SUCCESS)
        fail_qp(qp);
}

static void take_late(fake_qp_t *qp, const struct ibv_send_wr *work, const void *bytes, uint32_t count)
{
    fake_late_t *late = make(sizeof(*late) + count);
    late->work = *work;
    late->count = count;
    memcpy(late->bytes, bytes, count);
    list_prepend(&qp->late, &late->link);
}

static void take(fake_qp_t *qp, const struct ibv_send_wr *work, const void *bytes, uint32_t count)
{
    struct ibv_wc done = {0};
    uint64_t place = 0;
    if (work->opcode == IBV_WR_RDMA_WRITE && fake.faults.disorder && qp->id) {
        take_late(qp, work, bytes, count);
        return;
    }
    place_late(qp, false);
    if (work->opcode == IBV_WR_RDMA_WRITE_WITH_IMM && count > fake.told_most_bytes)
        fake.told_most_bytes = count;
    if (work->opcode != IBV_WR_RDMA_WRITE) {
        const fake_receive_t receive = qp->receives[0];
        memmove(qp->receives, qp->receives + 1, --qp->receive_count * sizeof(qp->receives[0]));
        done =
            done_of(receive.work, is_write(work) ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV, IBV_WC_SUCCESS);
        if (!is_write(work)) {
            MUST(count <= receive.piece.length);
            must_be_registered(&qp->qp, &receive.piece);
            place = receive.piece.addr;
        }
    }
    if (is_write(work))
        write_memory(qp, work, bytes, count);
    else if (count > 0)
        memcpy((void *)(uintptr_t)place, bytes, count);
    if (work->opcode == IBV_WR_RDMA_WRITE)
        return;
    done.byte_len = count;
    if (work->opcode != IBV_WR_SEND) {
        done.wc_flags = IBV_WC_WITH_IMM;
        done.imm_data = work->imm_data;
    }
    push(qp->qp.recv_cq, qp, done, 0);
}

/* A queue pair that is joined with itself has something to do. */
static void carry_own(fake_qp_t *qp)
{
    const fake_message_t *message = &qp->sends[0];
    const struct ibv_send_wr *work = &message->work;
    bool reads = work->opcode == IBV_WR_RDMA_READ;
    enum ibv_wc_status status = reads && fake.faults.no_reads ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS;
    MUST(
        lets(&qp->qp, work, message->piece.length, reads ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE));
    must_be_registered(&qp->qp, &message->piece);
    void *own = (void *)(uintptr_t)message->piece.addr;
    if (!reads) {
        take(qp, work, own, message->piece.length);
    } else if (status == IBV_WC_SUCCESS) {
        flush_writes(device_of(qp->qp.context)->number);
        memcpy(own, (const void *)(uintptr_t)work->wr.rdma.remote_addr, message->piece.length);
    }
    end_send(qp, status);
}

/* Carry the first message that was posted there. False: no receive is there for it. */
static bool carry(fake_qp_t *qp)
{
    const fake_message_t *message = &qp->sends[0];
    fake_device_t *device = device_of(qp->qp.context);
    fake_qp_t *to = qp->id->peer ? (fake_qp_t *)qp->id->peer->id.qp : NULL;
    enum ibv_wc_status *armed =
        is_write(&message->work) && device->fails == IBV_WC_SUCCESS ? &device->fails_write : &device->fails;
    enum ibv_wc_status fails = *armed;
    *armed = IBV_WC_SUCCESS;
    if (fails == IBV_WC_SUCCESS && (!to || to->failed))
        fails = IBV_WC_RETRY_EXC_ERR;
    if (fails == IBV_WC_SUCCESS && is_write(&message->work) &&
        !lets_write(&to->qp, &message->work, message->piece.length)) {
        fails = IBV_WC_REM_ACCESS_ERR;
        fail_qp(to);
    }
    if (fails == IBV_WC_SUCCESS && message->work.opcode != IBV_WR_RDMA_WRITE && to->receive_count == 0) {
        fake.unready++;
        return false;
    }
    if (fails == IBV_WC_SUCCESS) {
        bool is_inline = message->work.send_flags & IBV_SEND_INLINE;
        if (!is_inline && message->piece.length > 0)
            must_be_registered(&qp->qp, &message->piece);
        take(to, &message->work, is_inline ? message->bytes : (const void *)(uintptr_t)message->piece.addr,
             message->piece.length);
        fake.carried++;
        device->carried++;
        fake.written += is_write(&message->work);
    }
    end_send(qp, fails);
    return true;
}

/* Some queue pair with messages; NULL: there is none. */
static fake_qp_t *find_sender(void)
{
    fake_qp_t *found = NULL;
    uint32_t count = 0;
    LIST_FOR_EACH (link, &fake.qps) {
        fake_qp_t *qp = CONTAINER_OF(link, fake_qp_t, link);
        if (qp->send_count > 0 && random_below(++count) == 0)
            found = qp;
    }
    return found;
}

static void *run_wire(void *context)
{
    (void)context;
    lock();
    while (!fake.stops) {
        fake_qp_t *qp = find_sender();
        if (qp && !qp->id)
            carry_own(qp);
        if (qp && (!qp->id || carry(qp))) {
            unlock();
            lock();
            continue;
        }
        pthread_cond_wait(&fake.posted, &fake.mutex);
    }
    unlock();
    return NULL;
}

/* ---- connections ---- */

static struct rdma_cm_event *tell(fake_id_t *to, enum rdma_cm_event_type type, int status,
                                  const struct rdma_conn_param *told)
{
    fake_event_t *event = make(sizeof(*event));
    fake_channel_t *channel = (fake_channel_t *)to->id.channel;
    event->event = (struct rdma_cm_event){.id = &to->id, .event = type, .status = status};
    if (told && told->private_data) {
        memcpy(event->private_data, told->private_data, told->private_data_len);
        event->event.param.conn.private_data = event->private_data;
        event->event.param.conn.private_data_len = 56; /* padded, as the real one is */
    }
    list_append(&channel->events, &event->link);
    fake.unheard++;
    ring(channel->channel.fd);
    return &event->event;
}

static struct rdma_event_channel *create_event_channel(void)
{
    lock();
    fake_channel_t *channel = make(sizeof(*channel));
    unlock();
    channel->channel.fd = make_bell();
    list_init(&channel->events);
    return &channel->channel;
}

static void destroy_event_channel(struct rdma_event_channel *destroyed)
{
    fake_channel_t *channel = (fake_channel_t *)destroyed;
    lock();
    MUST(list_is_empty(&channel->events));
    close(destroyed->fd);
    unmake(channel);
    unlock();
}

/* With the news that a connection was refused librdmacm has its queue pair fail. */
static int get_cm_event(struct rdma_event_channel *from, struct rdma_cm_event **event)
{
    fake_channel_t *channel = (fake_channel_t *)from;
    lock();
    list_t *link = hear(from->fd) ? list_take_first(&channel->events) : NULL;
    if (link) {
        *event = &CONTAINER_OF(link, fake_event_t, link)->event;
        ((fake_id_t *)(*event)->id)->unacknowledged++;
        fake.unheard--;
        if ((*event)->event == RDMA_CM_EVENT_REJECTED && (*event)->id->qp)
            fail_qp((fake_qp_t *)(*event)->id->qp);
    }
    unlock();
    return link ? 0 : fail_with(EAGAIN);
}

static int ack_cm_event(struct rdma_cm_event *event)
{
    lock();
    ((fake_id_t *)event->id)->unacknowledged--;
    unmake(CONTAINER_OF(event, fake_event_t, event));
    unlock();
    return 0;
}

static fake_id_t *make_id(struct rdma_event_channel *channel, void *context)
{
    fake_id_t *id = make(sizeof(*id));
    id->id = (struct rdma_cm_id){.channel = channel, .context = context, .ps = RDMA_PS_TCP};
    list_append(&fake.ids, &id->link);
    return id;
}

static int create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                     enum rdma_port_space space)
{
    MUST(space == RDMA_PS_TCP);
    lock();
    *id = &make_id(channel, context)->id;
    unlock();
    return 0;
}

/* Either side has ended the connection. */
static void end_connection(fake_id_t *id)
{
    fake_id_t *peer = id->peer;
    if (!id->connected)
        return;
    id->connected = false;
    if (id->id.qp)
        fail_qp((fake_qp_t *)id->id.qp);
    if (peer && peer->connected)
        tell(peer, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
}

static int disconnect(struct rdma_cm_id *ended)
{
    lock();
    end_connection((fake_id_t *)ended);
    unlock();
    return 0;
}

static void forget(fake_id_t *id)
{
    if (id->peer)
        id->peer->peer = NULL;
    list_remove(&id->link);
    unmake(id);
}

/* Of a listener these are connections that nobody has taken: the kernel refuses them. */
static void forget_events(const fake_id_t *id)
{
    fake_channel_t *channel = (fake_channel_t *)id->id.channel;
    for (list_t *link = channel->events.next; link != &channel->events;) {
        fake_event_t *event = CONTAINER_OF(link, fake_event_t, link);
        fake_id_t *asked = event->event.listen_id == &id->id ? (fake_id_t *)event->event.id : NULL;
        link = link->next;
        if (event->event.id != &id->id && !asked)
            continue;
        list_remove(&event->link);
        MUST(hear(channel->channel.fd));
        fake.unheard--;
        unmake(event);
        if (!asked)
            continue;
        if (asked->peer)
            tell(asked->peer, RDMA_CM_EVENT_REJECTED, 4, NULL);
        forget_events(asked);
        forget(asked);
        link = channel->events.next;
    }
}

static int destroy_id(struct rdma_cm_id *destroyed)
{
    fake_id_t *id = (fake_id_t *)destroyed;
    lock();
    MUST(id->unacknowledged == 0 && !destroyed->qp); /* it would hang, or be refused */
    end_connection(id);
    forget_events(id);
    if (id->peer && id->peer->accepted && !id->peer->connected)
        tell(id->peer, RDMA_CM_EVENT_REJECTED, 4, NULL);
    forget(id);
    unlock();
    return 0;
}

static uint32_t device_at(const struct sockaddr *address)
{
    MUST(address->sa_family == AF_INET);
    return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) - FAKE_FIRST_ADDRESS;
}

/* Give it the device of its own address. */
static bool find_device(struct rdma_cm_id *id, const struct sockaddr *address)
{
    uint32_t number = device_at(address);
    if (fake.faults.no_device || number >= FAKE_DEVICES || fake.faults.no_devices >> number & 1 ||
        fake.devices[number].is_out)
        return false;
    ((fake_id_t *)id)->port = ntohs(((const struct sockaddr_in *)address)->sin_port);
    id->verbs = &fake.devices[number].context;
    id->port_num = 1;
    return true;
}

static int bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
    return find_device(id, address) ? 0 : fail_with(ENODEV);
}

static int listen_at(struct rdma_cm_id *id, int backlog)
{
    (void)backlog;
    lock();
    ((fake_id_t *)id)->listens = true;
    if (((fake_id_t *)id)->port == 0)
        ((fake_id_t *)id)->port = ++fake.next_port;
    unlock();
    return 0;
}

static uint16_t get_src_port(struct rdma_cm_id *id)
{
    return htons(((fake_id_t *)id)->port);
}

static int resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int timeout_ms)
{
    fake_id_t *asks = (fake_id_t *)id;
    MUST(timeout_ms > 0);
    lock();
    asks->peer_port = ntohs(((struct sockaddr_in *)to)->sin_port);
    asks->peer_device = device_at(to);
    int error = fake.faults.no_address ? fake.faults.no_address : find_device(id, from) ? 0 : ENODEV;
    tell(asks, error ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED, -error, NULL);
    unlock();
    return 0;
}

static int resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
    int error = fake.faults.no_route;
    MUST(timeout_ms > 0 && id->verbs);
    lock();
    tell((fake_id_t *)id, error ? RDMA_CM_EVENT_ROUTE_ERROR : RDMA_CM_EVENT_ROUTE_RESOLVED, -error, NULL);
    unlock();
    return 0;
}

static int connect_id(struct rdma_cm_id *id, struct rdma_conn_param *parameters)
{
    fake_id_t *asks = (fake_id_t *)id, *listener = NULL;
    MUST(id->qp && parameters->private_data_len <= 56);
    lock();
    LIST_FOR_EACH (link, &fake.ids) {
        fake_id_t *other = CONTAINER_OF(link, fake_id_t, link);
        if (other->listens && other->port == asks->peer_port &&
            device_of(other->id.verbs)->number == asks->peer_device)
            listener = other;
    }
    bool answers = !fake.faults.no_answer && !(fake.faults.silent >> asks->peer_device & 1);
    if (listener && answers) {
        fake_id_t *asked = make_id(listener->id.channel, listener->id.context);
        asked->id.verbs = listener->id.verbs;
        asked->id.port_num = 1;
        asked->peer = asks;
        asks->peer = asked;
        tell(asked, RDMA_CM_EVENT_CONNECT_REQUEST, 0, parameters)->listen_id = &listener->id;
    } else if (answers) {
        tell(asks, RDMA_CM_EVENT_REJECTED, 8, NULL);
    }
    unlock();
    return 0;
}

static int accept_id(struct rdma_cm_id *id, struct rdma_conn_param *parameters)
{
    fake_id_t *asked = (fake_id_t *)id;
    (void)parameters;
    MUST(id->qp);
    lock();
    asked->accepted = true;
    asked->connected = !fake.faults.no_end;
    if (asked->connected)
        tell(asked, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    if (asked->connected && asked->peer) {
        asked->peer->connected = true;
        tell(asked->peer, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    }
    unlock();
    return 0;
}

static int reject_id(struct rdma_cm_id *id, const void *private_data, uint8_t private_bytes)
{
    fake_id_t *asked = (fake_id_t *)id;
    MUST(!private_data && private_bytes == 0);
    lock();
    if (asked->peer)
        tell(asked->peer, RDMA_CM_EVENT_REJECTED, 28, NULL);
    unlock();
    return 0;
}

/* ---- devices ---- */

static struct ibv_pd *alloc_pd(struct ibv_context *device)
{
    lock();
    struct ibv_pd *domain = make(sizeof(*domain));
    unlock();
    domain->context = device;
    return domain;
}

static int dealloc_pd(struct ibv_pd *domain)
{
    lock();
    unmake(domain);
    unlock();
    return 0;
}

static int get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    fake_device_t *device = device_of(context);
    if (!hear(context->async_fd))
        return -1;
    lock();
    *event = (struct ibv_async_event){.event_type = device->news[0], .element.port_num = 1};
    memmove(device->news, device->news + 1, --device->news_count * sizeof(device->news[0]));
    fake.objects++;
    unlock();
    return 0;
}

static void ack_async_event(struct ibv_async_event *event)
{
    (void)event;
    lock();
    fake.objects--;
    unlock();
}

static const char *status_text(enum ibv_wc_status status)
{
    return status == IBV_WC_RETRY_EXC_ERR  ? "transport retry counter exceeded"
           : status == IBV_WC_WR_FLUSH_ERR ? "Work Request Flushed Error"
                                           : "some error";
}

/* Nobody looks at more than how many there are. */
static struct ibv_device **get_device_list(int *count)
{
    static struct ibv_device *none;
    *count = 1;
    return &none;
}

static void free_device_list(struct ibv_device **list)
{
    (void)list;
}

const verbs_library_t *fake_verbs_library(void)
{
    static const verbs_library_t library = {.get_device_list = get_device_list,
                                            .free_device_list = free_device_list,
                                            .create_event_channel = create_event_channel,
                                            .destroy_event_channel = destroy_event_channel,
                                            .get_cm_event = get_cm_event,
                                            .ack_cm_event = ack_cm_event,
                                            .create_id = create_id,
                                            .destroy_id = destroy_id,
                                            .bind_addr = bind_addr,
                                            .listen = listen_at,
                                            .get_src_port = get_src_port,
                                            .resolve_addr = resolve_addr,
                                            .resolve_route = resolve_route,
                                            .create_qp = create_qp,
                                            .destroy_qp = destroy_qp,
                                            .connect = connect_id,
                                            .accept = accept_id,
                                            .reject = reject_id,
                                            .disconnect = disconnect,
                                            .alloc_pd = alloc_pd,
                                            .dealloc_pd = dealloc_pd,
                                            .reg_mr = reg_mr,
                                            .reg_dmabuf_mr = reg_dmabuf_mr,
                                            .dereg_mr = dereg_mr,
                                            .create_own_qp = create_own_qp,
                                            .destroy_own_qp = destroy_own_qp,
                                            .modify_qp = modify_qp,
                                            .query_qp = query_qp,
                                            .query_port = query_port,
                                            .query_gid = query_gid,
                                            .create_comp_channel = create_comp_channel,
                                            .destroy_comp_channel = destroy_comp_channel,
                                            .create_cq = create_cq,
                                            .destroy_cq = destroy_cq,
                                            .get_cq_event = get_cq_event,
                                            .ack_cq_events = ack_cq_events,
                                            .get_async_event = get_async_event,
                                            .ack_async_event = ack_async_event,
                                            .status_text = status_text};
    return &library;
}

void fake_verbs_begin(uint32_t seed)
{
    fake.dice = seed + UINT64_C(0x9e3779b97f4a7c15);
    fake.carried = fake.written = fake.unready = fake.told_most_bytes = 0;
    fake.stops = false;
    fake.objects = fake.unheard = 0;
    list_init(&fake.ids);
    list_init(&fake.qps);
    list_init(&fake.unseen);
    fake.flushed = 0;
    fake_verbs_set((fake_faults_t){0});
    for (uint32_t i = 0; i < FAKE_DEVICES; i++) {
        fake_device_t *device = &fake.devices[i];
        *device = (fake_device_t){.number = i};
        snprintf(device->device.name, sizeof(device->device.name), "fake%u", i);
        device->device.transport_type = IBV_TRANSPORT_IB;
        device->context = (struct ibv_context){.device = &device->device,
                                               .async_fd = make_bell(),
                                               .ops = {.poll_cq = poll_cq,
                                                       .req_notify_cq = req_notify_cq,
                                                       .post_send = post_send,
                                                       .post_recv = post_recv}};
    }
    MUST(pthread_create(&fake.wire, NULL, run_wire, NULL) == 0);
}

void fake_verbs_end(void)
{
    lock();
    fake.stops = true;
    pthread_cond_signal(&fake.posted);
    unlock();
    pthread_join(fake.wire, NULL);
    MUST(fake.objects == 0);
    MUST(fake.unready == 0);
    for (uint32_t i = 0; i < FAKE_DEVICES; i++)
        close(fake.devices[i].context.async_fd);
}

uint64_t fake_verbs_carried(void)
{
    lock();
    uint64_t carried = fake.carried;
    unlock();
    return carried;
}

uint64_t fake_verbs_carried_by(uint32_t device)
{
    lock();
    uint64_t carried = fake.devices[device].carried;
    unlock();
    return carried;
}

uint64_t fake_verbs_written(void)
{
    lock();
    uint64_t written = fake.written;
    unlock();
    return written;
}

uint64_t fake_verbs_flushed(void)
{
    lock();
    uint64_t flushed = fake.flushed;
    unlock();
    return flushed;
}

uint32_t fake_verbs_told_most_bytes(void)
{
    lock();
    uint32_t bytes = fake.told_most_bytes;
    unlock();
    return bytes;
}

uint32_t fake_verbs_unheard(void)
{
    lock();
    uint32_t unheard = fake.unheard;
    unlock();
    return unheard;
}

/* ---- faults ---- */

void fake_verbs_set(fake_faults_t faults)
{
    lock();
    fake.faults = faults;
    for (uint32_t i = 0; i < FAKE_DEVICES && faults.is_iwarp; i++)
        fake.devices[i].device.transport_type = IBV_TRANSPORT_IWARP;
    unlock();
}

void fake_verbs_fail_message(uint32_t device, enum ibv_wc_status status)
{
    lock();
    fake.devices[device].fails = status;
    unlock();
}

void fake_verbs_fail_write(uint32_t device, enum ibv_wc_status status)
{
    lock();
    fake.devices[device].fails_write = status;
    unlock();
}

void fake_verbs_flush(uint32_t device)
{
    lock();
    LIST_FOR_EACH (link, &fake.qps) {
        fake_qp_t *qp = CONTAINER_OF(link, fake_qp_t, link);
        if (device_of(qp->qp.context)->number == device && qp->id)
            fail_qp(qp);
    }
    unlock();
}

void fake_verbs_plug(uint32_t device, bool is_in)
{
    lock();
    fake.devices[device].is_out = !is_in;
    unlock();
}

void fake_verbs_tell(uint32_t number, enum ibv_event_type type)
{
    fake_device_t *device = &fake.devices[number];
    lock();
    device->news[device->news_count++] = type;
    ring(device->context.async_fd);
    unlock();
}

void fake_verbs_tell_connections(uint32_t device, enum rdma_cm_event_type type)
{
    lock();
    LIST_FOR_EACH (link, &fake.ids) {
        fake_id_t *id = CONTAINER_OF(link, fake_id_t, link);
        if (id->id.verbs && device_of(id->id.verbs)->number == device)
            tell(id, type, 0, NULL);
    }
    unlock();
}

/* Of those of a device the one with the most receives, which is for control, or another one. */
static fake_qp_t *find_qp(uint32_t device, bool for_control)
{
    fake_qp_t *found = NULL;
    LIST_FOR_EACH (link, &fake.qps) {
        fake_qp_t *qp = CONTAINER_OF(link, fake_qp_t, link);
        if (device_of(qp->qp.context)->number == device && qp->id &&
            (!found || (qp->cap.max_recv_wr > found->cap.max_recv_wr) == for_control))
            found = qp;
    }
    MUST(found);
    return found;
}

void fake_verbs_say(uint32_t device, bool with_immediate, uint32_t immediate)
{
    const struct ibv_send_wr work = {.opcode = with_immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
                                     .imm_data = htonl(immediate)};
    lock();
    take(find_qp(device, true), &work, "", 1);
    unlock();
}

void fake_verbs_say_written(uint32_t device, bool for_control, uint32_t immediate)
{
    const struct ibv_send_wr work = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htonl(immediate)};
    lock();
    take(find_qp(device, for_control), &work, "", 0);
    unlock();
}

bool fake_verbs_lets_write(uint32_t device, uint32_t peer, uint32_t key, uint64_t address, uint32_t bytes)
{
    const struct ibv_send_wr work = {.wr.rdma = {.remote_addr = address, .rkey = key}};
    bool lets = false;
    lock();
    LIST_FOR_EACH (link, &fake.qps) {
        const fake_qp_t *qp = CONTAINER_OF(link, fake_qp_t, link);
        if (device_of(qp->qp.context)->number == device && qp->id && qp->id->peer &&
            device_of(qp->id->peer->id.verbs)->number == peer)
            lets |= lets_write(&qp->qp, &work, bytes);
    }
    unlock();
    return lets;
}
