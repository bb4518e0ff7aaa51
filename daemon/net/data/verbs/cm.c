/* Connections: how librdmacm makes them, and how they end. */
#include "net/data/verbs/verbs.h"

#include "base/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* So long an address and a route may take to be found. */
#define RESOLVE_MOST_MS 1000

/* Connections that may wait to be accepted. */
#define BACKLOG 8

/* What is told of one connection is taken in so often before others have their turn. */
#define NEWS_MOST 16

/* 7 means for ever, for receives that are not posted; they are, so this is for devices that need a moment. */
#define RETRIES 7

/* What of an event is needed after it was given back. */
typedef struct news {
    enum rdma_cm_event_type type;
    int status;
    struct rdma_cm_id *id;
    uint8_t hello[WIRE_HELLO_BYTES];
    bool has_hello;
} news_t;

static struct rdma_conn_param parameters_of(const uint8_t *hello)
{
    return (struct rdma_conn_param){.private_data = hello,
                                    .private_data_len = hello ? WIRE_HELLO_BYTES : 0,
                                    .retry_count = RETRIES,
                                    .rnr_retry_count = RETRIES};
}

static blink_result_t fail_errno(const verbs_t *verbs, const char *what)
{
    return BLINK_FAIL(BLINK_ERR_PEER_LOST, VERBS_NAMED ": %s: %s", verbs_name(verbs), what, strerror(errno));
}

blink_result_t verbs_open_channel(verbs_t *verbs)
{
    verbs->channel = verbs->library->create_event_channel();
    if (!verbs->channel)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "no RDMA connections: %s; is rdma_ucm loaded, and has the service rdma.conf?",
                          strerror(errno));
    int fd = verbs->channel->fd, flags = fcntl(fd, F_GETFL);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &verbs->of_channel};
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        epoll_ctl(verbs->config.epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return BLINK_FAIL_ERRNO("watch RDMA connections");
    return BLINK_OK;
}

/* ---- who dials ---- */

blink_result_t verbs_dial(transport_t *transport, const transport_path_t *path,
                          const wire_hello_t hellos[DATA_STREAMS])
{
    verbs_t *verbs = verbs_of(transport);
    net_address_t own = path->own, peer = path->peer;
    BLINK_TRY(verbs_open_channel(verbs));
    for (uint32_t i = 0; i < DATA_STREAMS; i++) {
        verbs_qp_t *qp = &verbs->qps[i];
        verbs->hellos[i] = hellos[i];
        if (verbs->library->create_id(verbs->channel, &qp->id, qp, RDMA_PS_TCP) != 0)
            return fail_errno(verbs, "no connection can be made");
        if (verbs->library->resolve_addr(qp->id, &own.any, &peer.any, RESOLVE_MOST_MS) != 0)
            return fail_errno(verbs, "no device reaches the peer's address");
    }
    return BLINK_OK;
}

static blink_result_t address_resolved(verbs_qp_t *qp)
{
    verbs_t *verbs = qp->verbs;
    if (!verbs->device)
        BLINK_TRY(verbs_open(verbs, qp->id->verbs, qp->id->port_num));
    if (verbs->device->context != qp->id->verbs)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, VERBS_NAMED ": connections to one address go by several devices",
                          verbs_name(verbs));
    BLINK_TRY(verbs_make_qp(qp));
    if (verbs->library->resolve_route(qp->id, RESOLVE_MOST_MS) != 0)
        return fail_errno(verbs, "no route to the peer");
    return BLINK_OK;
}

static blink_result_t route_resolved(verbs_qp_t *qp)
{
    uint8_t hello[WIRE_HELLO_BYTES];
    wire_hello_pack(&qp->verbs->hellos[qp->number], hello);
    struct rdma_conn_param parameters = parameters_of(hello);
    if (qp->verbs->library->connect(qp->id, &parameters) != 0)
        return fail_errno(qp->verbs, "no connection");
    return BLINK_OK;
}

/* ---- who listens ---- */

blink_result_t verbs_listen(transport_t *transport, const net_address_t *own,
                            const wire_hello_t hellos[DATA_STREAMS], uint16_t *port)
{
    verbs_t *verbs = verbs_of(transport);
    char text[ADDRESS_TEXT_BYTES];
    net_address_t address = *own;
    address_write_host(own, text);
    memcpy(verbs->hellos, hellos, sizeof(verbs->hellos));
    BLINK_TRY(verbs_open_channel(verbs));
    if (verbs->library->create_id(verbs->channel, &verbs->listener, NULL, RDMA_PS_TCP) != 0)
        return fail_errno(verbs, "no connection can be made");
    if (verbs->library->bind_addr(verbs->listener, &address.any) != 0 || !verbs->listener->verbs)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "no RDMA device has the address %s", text);
    BLINK_TRY(verbs_open(verbs, verbs->listener->verbs, verbs->listener->port_num));
    if (verbs->library->listen(verbs->listener, BACKLOG) != 0)
        return fail_errno(verbs, "no connection can be waited for");
    *port = ntohs(verbs->library->get_src_port(verbs->listener));
    return BLINK_OK;
}

/* The queue pair that the hello is for, if its token is the right one. */
static verbs_qp_t *find_asked(verbs_t *verbs, const news_t *news)
{
    wire_hello_t hello;
    if (!news->has_hello || wire_hello_parse(news->hello, &hello) != BLINK_OK ||
        hello.stream >= DATA_STREAMS || !wire_hello_shows(&hello, verbs->hellos[hello.stream].token))
        return NULL;
    verbs_qp_t *qp = &verbs->qps[hello.stream];
    return qp->id ? NULL : qp;
}

static blink_result_t take_in(verbs_qp_t *qp, struct rdma_cm_id *id)
{
    struct rdma_conn_param parameters = parameters_of(NULL);
    qp->id = id;
    id->context = qp;
    BLINK_TRY(verbs_make_qp(qp));
    if (qp->verbs->library->accept(id, &parameters) != 0)
        return fail_errno(qp->verbs, "a connection cannot be accepted");
    return BLINK_OK;
}

static void connection_asked(verbs_t *verbs, const news_t *news)
{
    const verbs_library_t *library = verbs->library;
    verbs_qp_t *qp = news->id->verbs == verbs->device->context ? find_asked(verbs, news) : NULL;
    if (qp && take_in(qp, news->id) == BLINK_OK)
        return;
    if (qp) {
        LOG_WARNING("%s", blink_error_text());
        qp->id = NULL;
        if (news->id->qp)
            library->destroy_qp(news->id);
    }
    (void)library->reject(news->id, NULL, 0);
    (void)library->destroy_id(news->id);
}

static void connection_made(verbs_qp_t *qp)
{
    verbs_t *verbs = qp->verbs;
    qp->connected = true;
    if (++verbs->transport.connected < DATA_STREAMS)
        return;
    if (verbs->listener)
        (void)verbs->library->destroy_id(verbs->listener);
    verbs->listener = NULL;
    verbs->config.events->connected(verbs->config.context);
}

/* ---- what is told ---- */

blink_result_t verbs_closed_by_peer(const verbs_t *verbs)
{
    return BLINK_FAIL(BLINK_ERR_PEER_LOST, VERBS_NAMED ": the peer closed a data connection",
                      verbs_name(verbs));
}

/* What came before the end is heard first. */
static blink_result_t hear_the_rest(verbs_t *verbs)
{
    verbs->peer_closed = true;
    for (uint32_t i = 0; i < NEWS_MOST && verbs_take_completions(verbs); i++)
        ;
    return verbs->transport.closed ? BLINK_OK : verbs_closed_by_peer(verbs);
}

static blink_result_t not_connected(const verbs_t *verbs, const news_t *news, const char *what)
{
    return BLINK_FAIL(BLINK_ERR_PEER_LOST, VERBS_NAMED ": %s: %s; %u of %u connections were made",
                      verbs_name(verbs), what,
                      news->status < 0 ? strerror(-news->status) : "the other side gives no reason",
                      verbs->transport.connected, DATA_STREAMS);
}

static blink_result_t take_news(verbs_t *verbs, const news_t *news)
{
    verbs_qp_t *qp = news->id->context;
    switch (news->type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        return address_resolved(qp);
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        return route_resolved(qp);
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        connection_asked(verbs, news);
        return BLINK_OK;
    case RDMA_CM_EVENT_ESTABLISHED:
        connection_made(qp);
        return BLINK_OK;
    case RDMA_CM_EVENT_ADDR_ERROR:
        return not_connected(verbs, news, "no device reaches the peer's address");
    case RDMA_CM_EVENT_ROUTE_ERROR:
        return not_connected(verbs, news, "no route to the peer");
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
        return not_connected(verbs, news, "the peer does not answer");
    case RDMA_CM_EVENT_REJECTED:
        return not_connected(verbs, news, "the peer takes no connection");
    case RDMA_CM_EVENT_DISCONNECTED:
        return hear_the_rest(verbs);
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        return BLINK_FAIL(BLINK_ERR_PEER_LOST, VERBS_NAMED " was removed", verbs_name(verbs));
    case RDMA_CM_EVENT_ADDR_CHANGE:
        return BLINK_FAIL(BLINK_ERR_PEER_LOST, VERBS_NAMED ": its address is another device's now",
                          verbs_name(verbs));
    default:
        return BLINK_OK;
    }
}

/* Who was told of a connection that nobody took has it still: of what else came for it nothing is needed. */
static bool next_news(const verbs_t *verbs, news_t *news)
{
    struct rdma_cm_event *event;
    if (verbs->transport.closed || verbs->library->get_cm_event(verbs->channel, &event) != 0)
        return false;
    *news = (news_t){.type = event->event, .status = event->status, .id = event->id};
    const struct rdma_conn_param *told = &event->param.conn;
    news->has_hello = event->event == RDMA_CM_EVENT_CONNECT_REQUEST && told->private_data &&
                      told->private_data_len >= WIRE_HELLO_BYTES;
    if (news->has_hello)
        memcpy(news->hello, told->private_data, WIRE_HELLO_BYTES);
    (void)verbs->library->ack_cm_event(event);
    return true;
}

void verbs_take_channel(verbs_t *verbs)
{
    news_t news;
    blink_result_t result = BLINK_OK;
    for (uint32_t i = 0; i < NEWS_MOST && result == BLINK_OK && next_news(verbs, &news); i++)
        result = take_news(verbs, &news);
    if (result != BLINK_OK)
        verbs_lose(verbs, result);
}

void verbs_on_channel(transport_source_t *source, uint32_t events)
{
    verbs_t *verbs = CONTAINER_OF(source, verbs_t, of_channel);
    (void)events;
    verbs_take_channel(verbs);
    if (!verbs->transport.closed)
        verbs->config.events->busy(verbs->config.context);
}
