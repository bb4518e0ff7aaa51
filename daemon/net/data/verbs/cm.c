/* Connections: how librdmacm makes them, and how they end. */
#include "net/data/verbs/verbs.h"

#include "base/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* So long an address and a route may take to be found. */
#define RESOLVE_MOST_MS 1000

/* Connections over other NICs than that for control may take a fifth of the peers' time-out, and so long at
 * least: half of what those may take that may fall back to TCP. */
#define ELSEWHERE_LEAST_S 1.0

/* Connections that may wait to be accepted: all, where they come over one NIC. */
#define BACKLOG ((int)DATA_STREAMS_MOST)

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

static blink_result_t fail_errno(const verbs_rail_t *rail, const char *what)
{
    return BLINK_FAIL(BLINK_ERR_PEER_LOST, VERBS_NAMED ": %s: %s", verbs_name(rail), what, strerror(errno));
}

static blink_result_t open_channel(verbs_t *verbs)
{
    verbs->channel = verbs->library->create_event_channel();
    if (!verbs->channel)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "this host makes no RDMA connections: %s; is rdma_ucm loaded, and has the service "
                          "rdma.conf?",
                          strerror(errno));
    int fd = verbs->channel->fd, flags = fcntl(fd, F_GETFL);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &verbs->of_channel};
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        epoll_ctl(verbs->config.epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return BLINK_FAIL_ERRNO("watch RDMA connections");
    return BLINK_OK;
}

/* ---- who dials ---- */

/* Whether such ends of a connection for moves are other NICs' than those of the connection for control. */
static bool is_elsewhere(const data_ends_t *ends, const net_address_t *own)
{
    return ends->own.any.sa_family != AF_UNSPEC && !address_is_same_host(&ends->own, own);
}

static blink_result_t dial_qp(verbs_qp_t *qp, const data_ends_t *ends)
{
    const verbs_library_t *library = qp->verbs->library;
    data_ends_t copy = *ends;
    if (library->create_id(qp->verbs->channel, &qp->id, qp, RDMA_PS_TCP) != 0)
        return fail_errno(NULL, "no connection can be made");
    if (library->resolve_addr(qp->id, &copy.own.any, &copy.peer.any, RESOLVE_MOST_MS) != 0)
        return fail_errno(NULL, "no device reaches the peer's address");
    return BLINK_OK;
}

/* It cannot be made over other NICs than the connection for control, says this thread's error text. */
static blink_result_t dial_control_ends(verbs_qp_t *qp)
{
    LOG_INFO("a data connection goes over the NIC of the one for control, and not over another one: %s",
             blink_error_text());
    qp->elsewhere = false;
    verbs_drop_connection(qp);
    return dial_qp(qp, &qp->verbs->control_ends);
}

/* Have it looked at after a while whether connections over other NICs are there. */
static blink_result_t start_timer(verbs_t *verbs)
{
    double fifth_s = verbs->config.timeout_s / 5;
    double seconds = fifth_s > ELSEWHERE_LEAST_S ? fifth_s : ELSEWHERE_LEAST_S;
    const struct itimerspec once = {.it_value.tv_sec = (time_t)seconds,
                                    .it_value.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &verbs->of_timer};
    verbs->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (verbs->timer_fd < 0 || timerfd_settime(verbs->timer_fd, 0, &once, NULL) != 0 ||
        epoll_ctl(verbs->config.epoll_fd, EPOLL_CTL_ADD, verbs->timer_fd, &event) != 0)
        return BLINK_FAIL_ERRNO("a timer of RDMA connections");
    return BLINK_OK;
}

void verbs_on_timer(transport_source_t *source, uint32_t events)
{
    verbs_t *verbs = CONTAINER_OF(source, verbs_t, of_timer);
    uint64_t count;
    (void)events;
    if (verbs->transport.closed || read(verbs->timer_fd, &count, sizeof(count)) != sizeof(count))
        return;
    verbs_take_channel(verbs); /* of what has come about meanwhile */
    for (uint32_t i = 1; i < verbs->config.stream_count && !verbs->transport.closed; i++) {
        verbs_qp_t *qp = &verbs->qps[i];
        if (!qp->elsewhere || qp->connected)
            continue;
        blink_error_set(BLINK_ERR_TIMEOUT, "the peer does not answer");
        blink_result_t result = dial_control_ends(qp);
        if (result != BLINK_OK)
            verbs_lose(verbs, result);
    }
}

blink_result_t verbs_dial(transport_t *transport, const transport_path_t *path,
                          const wire_hello_t hellos[DATA_STREAMS_MOST])
{
    verbs_t *verbs = verbs_of(transport);
    bool any_elsewhere = false;
    verbs->control_ends = (data_ends_t){path->own, path->peer};
    memcpy(verbs->hellos, hellos, sizeof(verbs->hellos));
    BLINK_TRY(open_channel(verbs));
    for (uint32_t i = 0; i < verbs->config.stream_count; i++) {
        verbs_qp_t *qp = &verbs->qps[i];
        qp->elsewhere = i > 0 && is_elsewhere(&path->moves[i - 1], &path->own);
        any_elsewhere |= qp->elsewhere;
        if (!qp->elsewhere)
            BLINK_TRY(dial_qp(qp, &verbs->control_ends));
        else if (dial_qp(qp, &path->moves[i - 1]) != BLINK_OK)
            BLINK_TRY(dial_control_ends(qp));
    }
    return any_elsewhere ? start_timer(verbs) : BLINK_OK;
}

static blink_result_t address_resolved(verbs_qp_t *qp)
{
    BLINK_TRY(verbs_make_qp(qp));
    if (qp->verbs->library->resolve_route(qp->id, RESOLVE_MOST_MS) != 0)
        return fail_errno(qp->rail, "no route to the peer");
    return BLINK_OK;
}

static blink_result_t route_resolved(verbs_qp_t *qp)
{
    uint8_t hello[WIRE_HELLO_BYTES];
    wire_hello_pack(&qp->verbs->hellos[qp->number], hello);
    struct rdma_conn_param parameters = parameters_of(hello);
    if (qp->verbs->library->connect(qp->id, &parameters) != 0)
        return fail_errno(qp->rail, "no connection");
    return BLINK_OK;
}

/* ---- who listens ---- */

static blink_result_t listen_at(verbs_t *verbs, const net_address_t *own, struct rdma_cm_id **listener)
{
    const verbs_library_t *library = verbs->library;
    char text[ADDRESS_TEXT_BYTES];
    net_address_t address = *own;
    verbs_rail_t *rail;
    address_write_host(own, text);
    if (library->create_id(verbs->channel, listener, NULL, RDMA_PS_TCP) != 0)
        return fail_errno(NULL, "no connection can be made");
    if (library->bind_addr(*listener, &address.any) != 0 || !(*listener)->verbs)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "no RDMA device has the address %s", text);
    BLINK_TRY(verbs_open_rail(verbs, (*listener)->verbs, &rail));
    if (library->listen(*listener, BACKLOG) != 0)
        return fail_errno(rail, "no connection can be waited for");
    return BLINK_OK;
}

/* At another NIC's address, too, with the same port; what does not come there comes here. */
static void listen_elsewhere(verbs_t *verbs, const net_address_t *own, struct rdma_cm_id **listener)
{
    if (listen_at(verbs, own, listener) == BLINK_OK)
        return;
    LOG_INFO("data connections come over the NIC of the one for control, and not over another one: %s",
             blink_error_text());
    if (*listener)
        (void)verbs->library->destroy_id(*listener);
    *listener = NULL;
}

/* Whether an earlier connection for moves has the same end here. */
static bool is_listened_at(const transport_path_t *path, uint32_t stream)
{
    uint32_t i = 0;
    while (i < stream && !address_is_same_host(&path->moves[i].own, &path->moves[stream].own))
        i++;
    return i < stream;
}

blink_result_t verbs_listen(transport_t *transport, const transport_path_t *path,
                            const wire_hello_t hellos[DATA_STREAMS_MOST], uint16_t *port)
{
    verbs_t *verbs = verbs_of(transport);
    memcpy(verbs->hellos, hellos, sizeof(verbs->hellos));
    BLINK_TRY(open_channel(verbs));
    BLINK_TRY(listen_at(verbs, &path->own, &verbs->listeners[0]));
    for (uint32_t i = 0; i < verbs->config.stream_count; i++)
        BLINK_TRY(verbs_place_qp(&verbs->qps[i], &verbs->rails[0]));
    *port = ntohs(verbs->library->get_src_port(verbs->listeners[0]));
    for (uint32_t i = 0; i + 1 < verbs->config.stream_count; i++) {
        net_address_t own = path->moves[i].own;
        if (!is_elsewhere(&path->moves[i], &path->own) || is_listened_at(path, i))
            continue;
        address_set_port(&own, *port);
        listen_elsewhere(verbs, &own, &verbs->listeners[1 + i]);
    }
    return BLINK_OK;
}

/* The queue pair that the hello is for, if its token is the right one. Who has given a connection over
 * another NIC up asks again, before this side may have heard of the end. */
static verbs_qp_t *find_asked(verbs_t *verbs, const news_t *news)
{
    wire_hello_t hello;
    if (!news->has_hello || wire_hello_parse(news->hello, &hello) != BLINK_OK ||
        hello.stream >= verbs->config.stream_count ||
        !wire_hello_shows(&hello, verbs->hellos[hello.stream].token))
        return NULL;
    verbs_qp_t *qp = &verbs->qps[hello.stream];
    return qp->connected ? NULL : qp;
}

static blink_result_t take_in(verbs_qp_t *qp, struct rdma_cm_id *id)
{
    struct rdma_conn_param parameters = parameters_of(NULL);
    verbs_drop_connection(qp);
    qp->id = id;
    id->context = qp;
    BLINK_TRY(verbs_make_qp(qp));
    if (qp->verbs->library->accept(id, &parameters) != 0)
        return fail_errno(qp->rail, "a connection cannot be accepted");
    return BLINK_OK;
}

static void connection_asked(verbs_t *verbs, const news_t *news)
{
    const verbs_library_t *library = verbs->library;
    verbs_qp_t *qp = find_asked(verbs, news);
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
    if (++verbs->transport.connected < verbs->config.stream_count)
        return;
    verbs_stop_listening(verbs);
    verbs->config.events->connected(verbs->config.context);
}

/* ---- what is told ---- */

blink_result_t verbs_closed_by_peer(const verbs_t *verbs)
{
    return BLINK_FAIL(BLINK_ERR_PEER_LOST, VERBS_NAMED ": the peer closed a data connection",
                      verbs_name(verbs->qps[0].rail));
}

/* What came before the end is heard first. */
static blink_result_t hear_the_rest(verbs_t *verbs)
{
    verbs->peer_closed = true;
    for (uint32_t i = 0; i < NEWS_MOST && verbs_take_completions(verbs); i++)
        ;
    return verbs->transport.closed ? BLINK_OK : verbs_closed_by_peer(verbs);
}

static blink_result_t not_connected(verbs_t *verbs, const news_t *news, const char *what)
{
    return BLINK_FAIL(BLINK_ERR_PEER_LOST, VERBS_NAMED ": %s: %s; %u of %u connections were made",
                      verbs_name(verbs_find_rail(verbs, news->id->verbs)), what,
                      news->status < 0 ? strerror(-news->status) : "the other side gives no reason",
                      verbs->transport.connected, verbs->config.stream_count);
}

static bool is_listened_elsewhere(const verbs_t *verbs)
{
    bool is_listened = false;
    for (uint32_t i = 1; i < verbs->config.stream_count; i++)
        is_listened |= verbs->listeners[i] != NULL;
    return is_listened;
}

/* Where several NICs are waited at: who dials has given a connection up before it was through, and is to ask
 * for it again. */
static bool is_given_up(const verbs_t *verbs, const news_t *news)
{
    const verbs_qp_t *qp = news->id->context;
    bool has_ended = news->type == RDMA_CM_EVENT_REJECTED || news->type == RDMA_CM_EVENT_UNREACHABLE ||
                     news->type == RDMA_CM_EVENT_CONNECT_ERROR || news->type == RDMA_CM_EVENT_DISCONNECTED;
    return has_ended && qp && !qp->connected && is_listened_elsewhere(verbs);
}

static blink_result_t take_news(verbs_t *verbs, const news_t *news)
{
    verbs_qp_t *qp = news->id->context;
    if (is_given_up(verbs, news)) {
        verbs_drop_connection(qp);
        return BLINK_OK;
    }
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
        return BLINK_FAIL(BLINK_ERR_PEER_LOST, VERBS_NAMED " was removed",
                          verbs_name(verbs_find_rail(verbs, news->id->verbs)));
    case RDMA_CM_EVENT_ADDR_CHANGE:
        return BLINK_FAIL(BLINK_ERR_PEER_LOST, VERBS_NAMED ": its address is another device's now",
                          verbs_name(verbs_find_rail(verbs, news->id->verbs)));
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
    for (uint32_t i = 0; i < NEWS_MOST && result == BLINK_OK && next_news(verbs, &news); i++) {
        verbs_qp_t *qp = news.id->context;
        result = take_news(verbs, &news);
        if (result != BLINK_OK && qp && qp->elsewhere && !qp->connected)
            result = dial_control_ends(qp);
    }
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
