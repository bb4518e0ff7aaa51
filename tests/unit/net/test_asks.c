/*
 * Questions of tools to other hosts: what a daemon asks a peer that says what it likes, and what it answers
 * to a peer that asks what it likes. The peer is raw, the daemon's session is real.
 */
#include "net_fixture.h"

#include "control/comms/ops.h"
#include "control/links.h"
#include "control/peers/asked.h"
#include "control/peers/asks.h"

#define TOOLS 3u

/* A tool of the daemon's host. */
typedef struct tool {
    uint32_t held_count, answer_count;
    blink_result_t code; /* of the last answer */
    char text[BLINK_ERROR_TEXT_BYTES], host[HOST_NAME_BYTES], version[64];
} tool_t;

/* The daemon, with what both sides of questions need of it. */
static struct {
    fixture_t *fixture;
    host_t *host;
    raw_t *peer;
    asks_t *asks;
    asks_host_t to_peer;
    asked_t by_peer;
    control_t control;
    topo_t topo;
    mailbox_t mailbox;
    tenant_t *user;
    tool_t tools[TOOLS];
    /* The question that the peer has asked last. */
    uint32_t query_count;
    asker_t asker;
    Blinkwire__Query query;
    bool answers_at_once;
    const void *forgotten;
} own;

/* ---- the daemon ---- */

static void on_tool_hold(void *context)
{
    tool_t *tool = context;
    tool->held_count++;
}

static void on_tool_answer(void *context, const Blinkwire__Reply *reply)
{
    tool_t *tool = context;
    tool->answer_count++;
    tool->code = reply->error ? (blink_result_t)reply->error->code : BLINK_OK;
    snprintf(tool->text, sizeof(tool->text), "%s", reply->error ? reply->error->text : "");
    if (reply->error)
        return;
    snprintf(tool->host, sizeof(tool->host), "%s", reply->query->host);
    if (reply->query->status)
        snprintf(tool->version, sizeof(tool->version), "%s", reply->query->status->version);
}

static blink_result_t on_answer_heard(host_t *host, const Blinkpeer__QueryReply *answer)
{
    (void)host;
    return asks_heard(&own.to_peer, answer);
}

static blink_result_t on_query_heard(host_t *host, const Blinkpeer__Query *query)
{
    (void)host;
    return asked_heard(&own.by_peer, query);
}

static void on_session_lost(host_t *host, blink_result_t code)
{
    (void)host;
    (void)code;
    asks_lost(&own.to_peer);
    asked_end(&own.by_peer);
}

static void answer_status(const asker_t *asker, const char *version)
{
    Blinkwire__StatusReply status = BLINKWIRE__STATUS_REPLY__INIT;
    Blinkwire__QueryReply body = BLINKWIRE__QUERY_REPLY__INIT;
    status.version = (char *)(uintptr_t)version;
    body.status = &status;
    asker_answer(asker, &body);
}

static void on_query(const asker_t *asker, const Blinkwire__Query *query)
{
    own.query_count++;
    own.asker = *asker;
    own.query = *query;
    if (own.answers_at_once)
        answer_status(asker, "1.2");
}

/* In place of the daemon's: a question about links that waits is to be forgotten. */
void links_forget(links_t *links, const void *context)
{
    (void)links;
    own.forgotten = context;
}

/* The same, of a question about ops. */
void ops_forget(control_t *control, const void *context)
{
    (void)control;
    (void)context;
}

static void on_wake(void *context)
{
    (void)context;
}

static int start(void **state)
{
    static const budget_limit_t limits[BUDGET_KINDS];
    fixture_create(state);
    memset(&own, 0, sizeof(own));
    own.fixture = *state;
    hear_answer = on_answer_heard;
    hear_query = on_query_heard;
    lose_session = on_session_lost;
    own.host = add_plain_host(own.fixture, "n1");
    mailbox_init(&own.mailbox, on_wake, NULL);
    own.control.topo = &own.topo;
    own.answers_at_once = true;
    tenants_init(&own.control.tenants, limits);
    assert_int_equal(turns_init(&own.control.turns, &own.fixture->loop, &own.mailbox), BLINK_OK);
    own.control.loop = own.fixture->loop;
    return 0;
}

static void begin(uint32_t version, uint64_t limit_ms)
{
    hello_t hello = raw_hello("n2", 7);
    hello.version_max = version;
    own.peer = raw_create(own.fixture, own.host);
    raw_expect(own.peer, BLINKPEER__MESSAGE__BODY_HELLO, NULL);
    raw_say_hello(own.peer, hello);
    raw_expect(own.peer, BLINKPEER__MESSAGE__BODY_WELCOME, NULL);
    assert_int_equal(asks_create(&own.fixture->loop, &own.control.turns, limit_ms, &own.asks), BLINK_OK);
    asks_host_init(&own.to_peer, own.asks, own.host->session);
    asked_init(&own.by_peer, &own.control, own.host->session, on_query);
    own.user = tenant_get(&own.control.tenants, 1000, "");
}

static void end(void)
{
    asks_destroy(own.asks);
    asked_end(&own.by_peer);
    raw_destroy(own.peer);
    lose_session = NULL;
    tenant_put(own.user);
    assert_true(list_is_empty(&own.control.tenants.all));
    uv_close((uv_handle_t *)&own.control.turns.check, NULL);
    uv_close((uv_handle_t *)&own.control.turns.idle, NULL);
}

static void put(uint32_t tool, Blinkwire__QueryKind kind)
{
    static const asker_calls_t calls = {on_tool_hold, on_tool_answer};
    const asker_t asker = {
        .view = {&own.control, own.user, false}, .calls = &calls, .context = &own.tools[tool], .request = 99};
    Blinkwire__Query question = BLINKWIRE__QUERY__INIT;
    question.kind = kind;
    question.comm = 3;
    question.page = 5;
    question.host = (char[]){"n2"};
    uint32_t held_count = own.tools[tool].held_count;
    asks_put(&own.to_peer, &asker, &question);
    assert_int_equal(own.tools[tool].held_count, held_count + 1);
}

/* ---- the peer ---- */

/* The daemon's next question, and its number. */
static uint64_t expect_question(Blinkwire__QueryKind kind)
{
    Blinkpeer__Message *message = raw_receive(own.peer);
    while (message && message->body_case == BLINKPEER__MESSAGE__BODY_PING) {
        blinkpeer__message__free_unpacked(message, NULL);
        message = raw_receive(own.peer);
    }
    assert_non_null(message);
    assert_int_equal(message->body_case, BLINKPEER__MESSAGE__BODY_QUERY);
    const Blinkpeer__Query *query = message->query;
    Blinkwire__Request *request = blinkwire__request__unpack(NULL, query->request.len, query->request.data);
    assert_non_null(request);
    assert_int_equal(request->body_case, BLINKWIRE__REQUEST__BODY_QUERY);
    assert_int_equal(request->query->kind, kind);
    assert_int_equal(request->query->comm, 3);
    assert_int_equal(request->query->page, 5);
    assert_string_equal(request->query->host, "");
    assert_int_equal(query->uid, 1000);
    assert_false(query->sees_all);
    uint64_t number = query->id;
    blinkwire__request__free_unpacked(request, NULL);
    blinkpeer__message__free_unpacked(message, NULL);
    return number;
}

static void say_answer(uint64_t number, const void *bytes, size_t byte_count)
{
    static uint8_t frame[4 + MESSAGE_MOST_BYTES];
    Blinkpeer__QueryReply answer = BLINKPEER__QUERY_REPLY__INIT;
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    answer.id = number;
    answer.reply = (ProtobufCBinaryData){byte_count, (uint8_t *)(uintptr_t)bytes};
    message.body_case = BLINKPEER__MESSAGE__BODY_QUERY_REPLY;
    message.query_reply = &answer;
    uint32_t length = (uint32_t)blinkpeer__message__get_packed_size(&message);
    assert_true(length <= MESSAGE_MOST_BYTES);
    memcpy(frame, &length, 4);
    blinkpeer__message__pack(&message, frame + 4);
    raw_send_bytes(own.peer, frame, 4 + length);
}

static void say_reply(uint64_t number, const Blinkwire__Reply *reply)
{
    uint8_t bytes[4096];
    assert_true(blinkwire__reply__get_packed_size(reply) <= sizeof(bytes));
    say_answer(number, bytes, blinkwire__reply__pack(reply, bytes));
}

static void say_status(uint64_t number, char *version)
{
    Blinkwire__StatusReply status = BLINKWIRE__STATUS_REPLY__INIT;
    Blinkwire__QueryReply body = BLINKWIRE__QUERY_REPLY__INIT;
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    status.version = version;
    body.status = &status;
    body.host = (char[]){"somebody else"};
    reply.body_case = BLINKWIRE__REPLY__BODY_QUERY;
    reply.query = &body;
    reply.id = 12345;
    say_reply(number, &reply);
}

static void say_question(uint64_t number, const Blinkwire__Request *request)
{
    uint8_t bytes[4096];
    Blinkpeer__Query query = BLINKPEER__QUERY__INIT;
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    query.id = number;
    query.uid = 2000;
    query.sees_all = true;
    query.request = (ProtobufCBinaryData){blinkwire__request__pack(request, bytes), bytes};
    message.body_case = BLINKPEER__MESSAGE__BODY_QUERY;
    message.query = &query;
    raw_send(own.peer, &message);
}

static void ask_for_comms(uint64_t number)
{
    Blinkwire__Query query = BLINKWIRE__QUERY__INIT;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    query.kind = BLINKWIRE__QUERY_KIND__COMMS;
    query.comm = 4;
    query.page = 6;
    query.host = (char[]){"n3"};
    request.id = 77;
    request.body_case = BLINKWIRE__REQUEST__BODY_QUERY;
    request.query = &query;
    say_question(number, &request);
}

/* The daemon's answer to this question. *text is its version or error. */
static blink_result_t expect_answer(uint64_t number, char text[BLINK_ERROR_TEXT_BYTES])
{
    Blinkpeer__Message *message = raw_receive(own.peer);
    while (message && message->body_case == BLINKPEER__MESSAGE__BODY_PING) {
        blinkpeer__message__free_unpacked(message, NULL);
        message = raw_receive(own.peer);
    }
    assert_non_null(message);
    assert_int_equal(message->body_case, BLINKPEER__MESSAGE__BODY_QUERY_REPLY);
    assert_int_equal(message->query_reply->id, number);
    const ProtobufCBinaryData *bytes = &message->query_reply->reply;
    Blinkwire__Reply *reply = blinkwire__reply__unpack(NULL, bytes->len, bytes->data);
    assert_non_null(reply);
    blink_result_t code = reply->error ? (blink_result_t)reply->error->code : BLINK_OK;
    snprintf(text, BLINK_ERROR_TEXT_BYTES, "%s",
             reply->error ? reply->error->text : reply->query->status->version);
    blinkwire__reply__free_unpacked(reply, NULL);
    blinkpeer__message__free_unpacked(message, NULL);
    return code;
}

static void expect_end(const char *why)
{
    RUN_UNTIL(own.fixture, own.host->closed_count == 1);
    assert_int_equal(own.host->closed_code, BLINK_ERR_PROTOCOL);
    if (!strstr(own.host->closed_text, why))
        fail_msg("\"%s\" is not in \"%s\"", why, own.host->closed_text);
}

/* ---- what a daemon asks ---- */

static void test_one_question_is_asked_at_a_time(void **state)
{
    (void)state;
    begin(PEER_VERSION_MAX, limit_ms());
    for (uint32_t tool = 0; tool < TOOLS; tool++)
        put(tool, tool == 0 ? BLINKWIRE__QUERY_KIND__STATUS : BLINKWIRE__QUERY_KIND__LINKS);
    uint64_t number = expect_question(BLINKWIRE__QUERY_KIND__STATUS);
    run_turns(own.fixture, 20);
    assert_int_equal(own.tools[0].answer_count, 0);
    for (uint32_t tool = 0; tool < TOOLS; tool++) {
        say_status(number, (char[]){"1.\x1b[31m0"});
        RUN_UNTIL(own.fixture, own.tools[tool].answer_count == 1);
        assert_string_equal(own.tools[tool].host, "n2");
        assert_string_equal(own.tools[tool].version, "1.?[31m0");
        if (tool + 1 < TOOLS) {
            uint64_t next = expect_question(BLINKWIRE__QUERY_KIND__LINKS);
            assert_true(next != number);
            number = next;
            assert_int_equal(own.tools[tool + 1].answer_count, 0);
        }
    }
    end();
}

static void test_error_of_the_host_is_told_with_its_name(void **state)
{
    Blinkwire__Error error = BLINKWIRE__ERROR__INIT;
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    const uint32_t codes[] = {BLINK_ERR_NOT_FOUND, 4711};
    (void)state;
    error.text = (char[]){"no \x07 such"};
    reply.error = &error;
    begin(PEER_VERSION_MAX, limit_ms());
    for (uint32_t i = 0; i < 2; i++) {
        error.code = codes[i];
        put(0, BLINKWIRE__QUERY_KIND__COMMS);
        say_reply(expect_question(BLINKWIRE__QUERY_KIND__COMMS), &reply);
        RUN_UNTIL(own.fixture, own.tools[0].answer_count == i + 1);
        assert_int_equal(own.tools[0].code, i == 0 ? BLINK_ERR_NOT_FOUND : BLINK_ERR_INTERNAL);
        assert_string_equal(own.tools[0].text, "host n2: no ? such");
    }
    end();
}

static void test_answer_that_nobody_waits_for_ends_the_session(void **state)
{
    (void)state;
    begin(PEER_VERSION_MAX, limit_ms());
    say_status(1, (char[]){"1.0"});
    expect_end("an answer to question 1, which nobody has asked");
    end();
}

static void test_answer_to_another_question_ends_the_session(void **state)
{
    (void)state;
    begin(PEER_VERSION_MAX, limit_ms());
    put(0, BLINKWIRE__QUERY_KIND__STATUS);
    put(1, BLINKWIRE__QUERY_KIND__LINKS);
    say_status(expect_question(BLINKWIRE__QUERY_KIND__STATUS) + 1, (char[]){"1.0"});
    expect_end("which nobody has asked");
    for (uint32_t tool = 0; tool < 2; tool++) {
        assert_int_equal(own.tools[tool].answer_count, 1);
        assert_int_equal(own.tools[tool].code, BLINK_ERR_PEER_LOST);
        assert_non_null(strstr(own.tools[tool].text, "host n2: "));
    }
    end();
}

static void test_second_answer_ends_the_session(void **state)
{
    (void)state;
    begin(PEER_VERSION_MAX, limit_ms());
    put(0, BLINKWIRE__QUERY_KIND__STATUS);
    uint64_t number = expect_question(BLINKWIRE__QUERY_KIND__STATUS);
    say_status(number, (char[]){"1.0"});
    say_status(number, (char[]){"1.0"});
    expect_end("which nobody has asked");
    assert_int_equal(own.tools[0].answer_count, 1);
    end();
}

static void expect_none(const void *bytes, size_t byte_count)
{
    begin(PEER_VERSION_MAX, limit_ms());
    put(0, BLINKWIRE__QUERY_KIND__LINKS);
    say_answer(expect_question(BLINKWIRE__QUERY_KIND__LINKS), bytes, byte_count);
    expect_end("an answer of ");
    assert_int_equal(own.tools[0].code, BLINK_ERR_PEER_LOST);
    end();
}

static void test_garbage_is_no_answer(void **state)
{
    (void)state;
    expect_none("\xff\xff\xff\xff", 4);
}

static void test_nothing_is_no_answer(void **state)
{
    (void)state;
    expect_none("", 0);
}

static void test_reply_of_another_kind_is_no_answer(void **state)
{
    Blinkwire__HelloReply body = BLINKWIRE__HELLO_REPLY__INIT;
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    uint8_t bytes[256];
    (void)state;
    reply.body_case = BLINKWIRE__REPLY__BODY_HELLO;
    reply.hello = &body;
    expect_none(bytes, blinkwire__reply__pack(&reply, bytes));
}

/* A link takes two bytes on the wire, and a hundred in memory. */
static void test_answer_that_swells_is_no_answer(void **state)
{
    enum { LINKS = 250000 };
    static uint8_t bytes[8 + 2 * LINKS];
    uint32_t used = 0, body = 2 * LINKS;
    (void)state;
    bytes[used++] = 6 << 3 | 2; /* Reply.query */
    for (; body >= 0x80; body >>= 7)
        bytes[used++] = (uint8_t)(body | 0x80);
    bytes[used++] = (uint8_t)body;
    for (uint32_t i = 0; i < LINKS; i++, used += 2)
        bytes[used] = 4 << 3 | 2; /* QueryReply.links, empty */
    expect_none(bytes, used);
}

static void test_host_that_does_not_answer_is_not_waited_for(void **state)
{
    (void)state;
    begin(PEER_VERSION_MAX, 20);
    put(0, BLINKWIRE__QUERY_KIND__STATUS);
    uint64_t late = expect_question(BLINKWIRE__QUERY_KIND__STATUS);
    put(1, BLINKWIRE__QUERY_KIND__STATUS);
    RUN_UNTIL(own.fixture, own.tools[1].answer_count == 1);
    for (uint32_t tool = 0; tool < 2; tool++) {
        assert_int_equal(own.tools[tool].answer_count, 1);
        assert_int_equal(own.tools[tool].code, BLINK_ERR_TIMEOUT);
    }
    assert_string_equal(own.tools[0].text, "host n2 has not answered within 0.02 s");
    assert_string_equal(own.tools[1].text,
                        "host n2 was not asked, as others ask it, and it has not answered all within 0.02 s");
    say_status(late, (char[]){"1.0"});
    run_turns(own.fixture, 20);
    assert_int_equal(own.host->closed_count, 0);
    assert_int_equal(own.tools[0].answer_count, 1);
    put(2, BLINKWIRE__QUERY_KIND__LINKS);
    assert_true(expect_question(BLINKWIRE__QUERY_KIND__LINKS) != late);
    end();
}

static void test_more_questions_run_out_of_time_at_once_than_fit_in_a_turn(void **state)
{
    const uint32_t count = TURN_STEPS + 100;
    (void)state;
    begin(PEER_VERSION_MAX, 20);
    for (uint32_t i = 0; i < count; i++)
        put(0, BLINKWIRE__QUERY_KIND__STATUS);
    usleep(30000); /* the loop hears of all at once that their time is over */
    run_turns(own.fixture, 1);
    assert_in_range(own.tools[0].answer_count, 1, TURN_STEPS);
    RUN_UNTIL(own.fixture, own.tools[0].answer_count == count);
    assert_int_equal(own.tools[0].code, BLINK_ERR_TIMEOUT);
    end();
}

static void test_answer_for_a_tool_that_has_gone_is_dropped(void **state)
{
    (void)state;
    begin(PEER_VERSION_MAX, limit_ms());
    put(0, BLINKWIRE__QUERY_KIND__STATUS);
    put(1, BLINKWIRE__QUERY_KIND__CLIENTS);
    put(2, BLINKWIRE__QUERY_KIND__LINKS);
    uint64_t number = expect_question(BLINKWIRE__QUERY_KIND__STATUS);
    asks_forget(own.asks, &own.tools[0]);
    asks_forget(own.asks, &own.tools[1]);
    say_status(number, (char[]){"1.0"});
    say_status(expect_question(BLINKWIRE__QUERY_KIND__LINKS), (char[]){"2.0"});
    RUN_UNTIL(own.fixture, own.tools[2].answer_count == 1);
    assert_string_equal(own.tools[2].version, "2.0");
    assert_int_equal(own.tools[0].answer_count + own.tools[1].answer_count, 0);
    end();
}

static void test_older_daemon_is_not_asked(void **state)
{
    (void)state;
    begin(PEER_VERSION_QUERIES - 1, limit_ms());
    put(0, BLINKWIRE__QUERY_KIND__STATUS);
    assert_int_equal(own.tools[0].answer_count, 1);
    assert_int_equal(own.tools[0].code, BLINK_ERR_UNSUPPORTED);
    assert_string_equal(own.tools[0].text, "host n2 has blinkd 0.0, which other hosts cannot ask");
    run_turns(own.fixture, 20);
    assert_int_equal(own.host->closed_count, 0);
    end();
}

/* ---- what a daemon is asked ---- */

static void test_question_is_answered_as_its_user_would_see_it(void **state)
{
    char text[BLINK_ERROR_TEXT_BYTES];
    (void)state;
    begin(PEER_VERSION_MAX, limit_ms());
    for (uint32_t i = 1; i <= 2; i++) {
        ask_for_comms(40 + i);
        RUN_UNTIL(own.fixture, own.query_count == i);
        assert_int_equal(own.query.kind, BLINKWIRE__QUERY_KIND__COMMS);
        assert_int_equal(own.query.comm, 4);
        assert_int_equal(own.query.page, 6);
        assert_string_equal(own.query.host, ""); /* it is not passed on to a third host */
        assert_true(own.asker.view.all);
        assert_int_equal(expect_answer(40 + i, text), BLINK_OK);
        assert_string_equal(text, "1.2");
    }
    end();
}

/* The first question has come, and is not answered yet. */
static void begin_with_question(void)
{
    begin(PEER_VERSION_MAX, limit_ms());
    own.answers_at_once = false;
    ask_for_comms(1);
    RUN_UNTIL(own.fixture, own.query_count == 1);
}

static void test_second_question_before_the_answer_ends_the_session(void **state)
{
    (void)state;
    begin_with_question();
    assert_int_equal(own.asker.view.tenant->uid, 2000);
    ask_for_comms(2);
    expect_end("question 2 before question 1 is answered");
    assert_int_equal(own.query_count, 1);
    assert_ptr_equal(own.forgotten, &own.by_peer);
    end(); /* nobody holds the user any more */
}

static void test_what_is_no_question_ends_the_session(void **state)
{
    Blinkwire__CommAbort body = BLINKWIRE__COMM_ABORT__INIT;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    (void)state;
    body.member = 1;
    request.body_case = BLINKWIRE__REQUEST__BODY_COMM_ABORT;
    request.comm_abort = &body;
    begin(PEER_VERSION_MAX, limit_ms());
    say_question(1, &request);
    expect_end("bytes that is none");
    assert_int_equal(own.query_count, 0);
    end();
}

static void test_answer_that_is_too_long_is_answered_by_that(void **state)
{
    char *version = calloc(1, MESSAGE_MOST_BYTES + 1), text[BLINK_ERROR_TEXT_BYTES];
    (void)state;
    memset(version, 'x', MESSAGE_MOST_BYTES);
    begin_with_question();
    answer_status(&own.asker, version);
    assert_int_equal(expect_answer(1, text), BLINK_ERR_INVALID_ARGUMENT);
    free(version);
    end();
}

static void test_session_may_end_before_the_answer(void **state)
{
    (void)state;
    begin_with_question();
    shutdown(own.peer->fd, SHUT_RDWR);
    RUN_UNTIL(own.fixture, own.host->closed_count == 1);
    assert_ptr_equal(own.forgotten, &own.by_peer);
    end();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, fixture_destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_one_question_is_asked_at_a_time),
        TEST(test_error_of_the_host_is_told_with_its_name),
        TEST(test_answer_that_nobody_waits_for_ends_the_session),
        TEST(test_answer_to_another_question_ends_the_session),
        TEST(test_second_answer_ends_the_session),
        TEST(test_garbage_is_no_answer),
        TEST(test_nothing_is_no_answer),
        TEST(test_reply_of_another_kind_is_no_answer),
        TEST(test_answer_that_swells_is_no_answer),
        TEST(test_host_that_does_not_answer_is_not_waited_for),
        TEST(test_more_questions_run_out_of_time_at_once_than_fit_in_a_turn),
        TEST(test_answer_for_a_tool_that_has_gone_is_dropped),
        TEST(test_older_daemon_is_not_asked),
        TEST(test_question_is_answered_as_its_user_would_see_it),
        TEST(test_second_question_before_the_answer_ends_the_session),
        TEST(test_what_is_no_question_ends_the_session),
        TEST(test_answer_that_is_too_long_is_answered_by_that),
        TEST(test_session_may_end_before_the_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
