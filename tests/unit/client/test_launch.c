/* What launchers say, and the exchanges by PMI-1, by torchrun's store and by a file. */
#include "base/clock.h"
#include "launch/exchange.h"
#include "limit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define TEXT                                                                                                 \
    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"                                       \
    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static_assert(sizeof(TEXT) == UNIQUE_ID_TEXT_BYTES, "the text of an id");

static uint64_t in_time(void)
{
    return clock_ns() + limit_ms() * UINT64_C(1000000);
}

/* ---- environments ---- */

static const char *const known[] = {"BLINK_RANK",
                                    "BLINK_SIZE",
                                    "BLINK_LOCAL_RANK",
                                    "BLINK_RENDEZVOUS",
                                    "BLINK_JOB",
                                    "BLINK_UNIQUE_ID",
                                    "RANK",
                                    "WORLD_SIZE",
                                    "LOCAL_RANK",
                                    "LOCAL_WORLD_SIZE",
                                    "MASTER_ADDR",
                                    "MASTER_PORT",
                                    "TORCHELASTIC_RUN_ID",
                                    "TORCHELASTIC_RESTART_COUNT",
                                    "TORCHELASTIC_USE_AGENT_STORE",
                                    "OMPI_COMM_WORLD_RANK",
                                    "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_RANK",
                                    "PMIX_NAMESPACE",
                                    "PMIX_RANK",
                                    "PMI_RANK",
                                    "PMI_SIZE",
                                    "PMI_FD",
                                    "MPI_LOCALRANKID",
                                    "SLURM_PROCID",
                                    "SLURM_STEP_NUM_TASKS",
                                    "SLURM_LOCALID",
                                    "SLURM_STEP_NODELIST",
                                    "SLURM_STEP_NUM_NODES",
                                    "SLURM_JOB_ID",
                                    "SLURM_STEP_ID",
                                    "SLURM_RESTART_COUNT",
                                    "SLURM_CLUSTER_NAME"};

static int clear_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        unsetenv(known[i]);
    return 0;
}

/* "NAME=VALUE NAME=VALUE …" */
static void set_environment(const char *variables)
{
    char copy[1024], *rest;
    clear_environment(NULL);
    snprintf(copy, sizeof(copy), "%s", variables);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        *value = '\0';
        setenv(word, value + 1, 1);
    }
}

static launch_t find(const char *variables)
{
    launch_t launch;
    set_environment(variables);
    assert_int_equal(launch_find(&launch), BLINK_OK);
    return launch;
}

#define TORCH "RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=n1 MASTER_PORT=29500 "
#define OMPI                                                                                                 \
    "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1 PMIX_NAMESPACE=prterun-1 "
#define HYDRA "PMI_RANK=3 PMI_SIZE=8 MPI_LOCALRANKID=1 PMI_FD=9 "
#define SLURM                                                                                                \
    "SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8 SLURM_LOCALID=1 SLURM_JOB_ID=77 SLURM_STEP_ID=0 "                 \
    "SLURM_STEP_NUM_NODES=4 "

static void test_every_launcher_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *variables;
        launch_way_t way;
        const char *where;
    } cases[] = {
        {"BLINK_RANK=3 BLINK_SIZE=8 BLINK_LOCAL_RANK=1 BLINK_RENDEZVOUS=n1:7", LAUNCH_HOST, "n1:7"},
        {"BLINK_RANK=3 BLINK_SIZE=8 BLINK_LOCAL_RANK=1 BLINK_RENDEZVOUS=./f", LAUNCH_FILE, "./f"},
        {"BLINK_RANK=3 BLINK_SIZE=8 BLINK_LOCAL_RANK=1 BLINK_RENDEZVOUS=localhost", LAUNCH_HERE, "localhost"},
        {"BLINK_RANK=3 BLINK_SIZE=8 BLINK_LOCAL_RANK=1 BLINK_UNIQUE_ID=ab BLINK_RENDEZVOUS=n1", LAUNCH_ID,
         "ab"},
        {TORCH "TORCHELASTIC_USE_AGENT_STORE=True", LAUNCH_STORE, "n1:29500"},
        {TORCH "TORCHELASTIC_USE_AGENT_STORE=True MASTER_ADDR=fd77::1", LAUNCH_STORE, "[fd77::1]:29500"},
        {TORCH, LAUNCH_HOST, "n1"},
        {TORCH "LOCAL_WORLD_SIZE=8", LAUNCH_HERE, "localhost"},
        {TORCH "MASTER_ADDR=127.0.0.1", LAUNCH_HERE, "127.0.0.1"},
        {TORCH "BLINK_RENDEZVOUS=/f", LAUNCH_FILE, "/f"},
        {OMPI, LAUNCH_PMIX, ""},
        {HYDRA, LAUNCH_PMI, "9"},
        {SLURM "SLURM_STEP_NODELIST=n[3-6]", LAUNCH_HOST, "n3"},
        {SLURM "SLURM_STEP_NODELIST=m,n[3-6]", LAUNCH_HOST, "m"},
        {SLURM "SLURM_STEP_NODELIST=r[01,03]n[7-8]-ib,m", LAUNCH_HOST, "r01n7-ib"},
        {SLURM "SLURM_STEP_NODELIST=n3 SLURM_STEP_NUM_NODES=1", LAUNCH_HERE, "localhost"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        launch_t launch = find(cases[i].variables);
        assert_int_equal(launch.rank, 3);
        assert_int_equal(launch.rank_count, 8);
        assert_int_equal(launch.local_rank, 1);
        assert_int_equal(launch.way, cases[i].way);
        assert_string_equal(launch.where, cases[i].where);
    }
}

/* torchrun and MPI's launchers run inside Slurm, and users say more than any of them. */
static void test_the_innermost_launcher_counts(void **state)
{
    (void)state;
    assert_int_equal(find(SLURM "SLURM_STEP_NODELIST=n1 " TORCH).way, LAUNCH_HOST);
    assert_string_equal(find(SLURM "SLURM_STEP_NODELIST=n9 " TORCH).where, "n1");
    assert_int_equal(find(SLURM "SLURM_STEP_NODELIST=n1 " OMPI).way, LAUNCH_PMIX);
    assert_int_equal(find(SLURM "SLURM_STEP_NODELIST=n1 " HYDRA).way, LAUNCH_PMI);
    launch_t own = find(TORCH OMPI HYDRA "BLINK_RANK=0 BLINK_SIZE=2 BLINK_RENDEZVOUS=n5");
    assert_int_equal(own.rank_count, 2);
    assert_int_equal(own.local_rank, -1);
    assert_string_equal(own.where, "n5");
}

static void assert_other_job(const char *base, const char *variable)
{
    char changed[1024];
    launch_t launch = find(base);
    snprintf(changed, sizeof(changed), "%s %s", base, variable);
    launch_t other = find(changed);
    assert_string_not_equal(launch.job, other.job);
}

static void test_jobs_that_differ_have_other_names(void **state)
{
    (void)state;
    static const char slurm[] = SLURM "SLURM_STEP_NODELIST=n1";
    static const char own[] = "BLINK_RANK=0 BLINK_SIZE=2 BLINK_RENDEZVOUS=n1";
    assert_other_job(slurm, "SLURM_JOB_ID=78");
    assert_other_job(slurm, "SLURM_STEP_ID=1");
    assert_other_job(slurm, "SLURM_RESTART_COUNT=1");
    assert_other_job(TORCH, "TORCHELASTIC_RESTART_COUNT=1");
    assert_other_job(TORCH, "TORCHELASTIC_RUN_ID=x");
    assert_other_job(TORCH, "MASTER_PORT=1");
    assert_other_job(own, "BLINK_JOB=x");
}

/* By an agent's word on its store it is told that torchrun has started the rank. */
static void test_agents_of_torchrun_may_differ_in_what_they_count(void **state)
{
    static const char *const stores[] = {"True", "False"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char once[1024], twice[1024];
        snprintf(once, sizeof(once), "%s TORCHELASTIC_USE_AGENT_STORE=%s TORCHELASTIC_RESTART_COUNT=0", TORCH,
                 stores[i]);
        snprintf(twice, sizeof(twice), "%s TORCHELASTIC_USE_AGENT_STORE=%s TORCHELASTIC_RESTART_COUNT=1",
                 TORCH, stores[i]);
        launch_t launch = find(once), other = find(twice);
        assert_string_equal(launch.job, other.job);
    }
}

static void assert_no_launch(const char *variables, blink_result_t code, const char *said)
{
    launch_t launch;
    set_environment(variables);
    assert_int_equal(launch_find(&launch), code);
    assert_non_null(strstr(blink_error_text(), said));
}

static void test_what_is_wrong_is_named(void **state)
{
    (void)state;
    assert_no_launch("", BLINK_ERR_NOT_FOUND, "no launcher has started this process");
    assert_no_launch("RANK=0", BLINK_ERR_NOT_FOUND, "no launcher");
    assert_no_launch("PMI_RANK=0 PMI_SIZE=2", BLINK_ERR_NOT_FOUND, "no launcher");
    assert_no_launch("PMIX_RANK=3 PMIX_NAMESPACE=job", BLINK_ERR_INVALID_ARGUMENT,
                     "prterun --personality ompi");
    assert_no_launch("RANK=8 WORLD_SIZE=8", BLINK_ERR_INVALID_ARGUMENT, "RANK=8: a number from 0 to 7");
    assert_no_launch("RANK=-1 WORLD_SIZE=8", BLINK_ERR_INVALID_ARGUMENT, "RANK=-1: a number from 0 to 7");
    assert_no_launch("RANK=1x WORLD_SIZE=8", BLINK_ERR_INVALID_ARGUMENT, "RANK=1x: ");
    assert_no_launch("RANK=0 WORLD_SIZE=0", BLINK_ERR_INVALID_ARGUMENT, "WORLD_SIZE=0: a number from 1");
    assert_no_launch("RANK=0 WORLD_SIZE=99999999999", BLINK_ERR_INVALID_ARGUMENT, "WORLD_SIZE=99999999999: ");
    assert_no_launch("RANK=0 WORLD_SIZE=2 LOCAL_RANK=2 BLINK_RENDEZVOUS=n1", BLINK_ERR_INVALID_ARGUMENT,
                     "LOCAL_RANK=2: a number from 0 to 1");
    assert_no_launch("BLINK_RANK=0 BLINK_SIZE=2", BLINK_ERR_INVALID_ARGUMENT, "set BLINK_RENDEZVOUS");
    assert_no_launch("RANK=0 WORLD_SIZE=2", BLINK_ERR_INVALID_ARGUMENT, "set BLINK_RENDEZVOUS");
}

static void test_who_is_alone_needs_no_more(void **state)
{
    (void)state;
    assert_int_equal(find("RANK=0 WORLD_SIZE=1").way, LAUNCH_HERE);
}

static void test_a_long_variable_is_refused(void **state)
{
    (void)state;
    char variables[1024] = "RANK=0 WORLD_SIZE=2 BLINK_RENDEZVOUS=/";
    size_t used = strlen(variables);
    memset(variables + used, 'x', 600);
    variables[used + 600] = '\0';
    assert_no_launch(variables, BLINK_ERR_INVALID_ARGUMENT, "601 bytes, at most 511");
}

/* ---- a file ---- */

static void test_a_file_hands_the_text_over(void **state)
{
    (void)state;
    char directory[] = "/tmp/blink-launch-XXXXXX", text[UNIQUE_ID_TEXT_BYTES] = TEXT;
    launch_t first = {.rank = 0}, second = {.rank = 1};
    assert_non_null(mkdtemp(directory));
    snprintf(first.where, sizeof(first.where), "%s/id", directory);
    second = first;
    second.rank = 1;
    assert_int_equal(exchange_by_file(&second, clock_ns(), text), BLINK_ERR_TIMEOUT);
    assert_int_equal(exchange_by_file(&first, in_time(), text), BLINK_OK);
    assert_int_equal(exchange_by_file(&first, in_time(), text), BLINK_ERR_EXISTS);
    memset(text, 0, sizeof(text));
    assert_int_equal(exchange_by_file(&second, in_time(), text), BLINK_OK);
    assert_string_equal(text, TEXT);
    exchange_forget_file(&first);
    assert_int_equal(exchange_by_file(&second, clock_ns(), text), BLINK_ERR_TIMEOUT);
    assert_int_equal(rmdir(directory), 0); /* nothing else is left */
}

/* ---- PMI-1 ---- */

/* A launcher, of one rank: what it answers to each line, in turn. */
typedef struct pmi_server {
    int fd;
    const char *const *answers; /* NULL at the end, where it closes; "": it says nothing more */
    char said[8][256];
    int said_count;
} pmi_server_t;

static bool read_line(int fd, char *line, size_t most)
{
    size_t count = 0;
    while (count + 1 < most && recv(fd, &line[count], 1, 0) == 1 && line[count] != '\n')
        count++;
    line[count] = '\0';
    return count > 0;
}

static void *serve_pmi(void *argument)
{
    pmi_server_t *server = argument;
    const char *const *answer = server->answers;
    while (*answer && **answer && read_line(server->fd, server->said[server->said_count], 256)) {
        (void)!send(server->fd, *answer, strlen(*answer), MSG_NOSIGNAL);
        server->said_count++;
        answer++;
    }
    if (!*answer)
        shutdown(server->fd, SHUT_RDWR);
    return NULL;
}

static blink_result_t exchange_pmi(uint32_t rank, const char *const *answers, uint64_t deadline_ns,
                                   char text[UNIQUE_ID_TEXT_BYTES], pmi_server_t *server)
{
    int ends[2];
    pthread_t thread;
    launch_t launch = {.rank = rank, .rank_count = 2, .launcher = "MPICH"};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    *server = (pmi_server_t){.fd = ends[0], .answers = answers};
    snprintf(launch.where, sizeof(launch.where), "%d", ends[1]);
    assert_int_equal(pthread_create(&thread, NULL, serve_pmi, server), 0);
    blink_result_t result = exchange_by_pmi(&launch, deadline_ns, text);
    close(ends[1]);
    pthread_join(thread, NULL);
    close(ends[0]);
    return result;
}

#define INIT_ANSWER "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
#define NAME_ANSWER "cmd=my_kvsname kvsname=kvs_1_0\n"

static void test_pmi_rank_0_puts(void **state)
{
    (void)state;
    static const char *const answers[] = {
        INIT_ANSWER,         NAME_ANSWER,          "cmd=put_result rc=0 msg=success\n",
        "cmd=barrier_out\n", "cmd=finalize_ack\n", NULL};
    char text[UNIQUE_ID_TEXT_BYTES] = TEXT;
    pmi_server_t server;
    assert_int_equal(exchange_pmi(0, answers, in_time(), text, &server), BLINK_OK);
    assert_int_equal(server.said_count, 5);
    assert_string_equal(server.said[0], "cmd=init pmi_version=1 pmi_subversion=1");
    assert_string_equal(server.said[1], "cmd=get_my_kvsname");
    assert_string_equal(server.said[2], "cmd=put kvsname=kvs_1_0 key=blink-id value=" TEXT);
    assert_string_equal(server.said[3], "cmd=barrier_in");
    assert_string_equal(server.said[4], "cmd=finalize");
}

static void test_pmi_others_get(void **state)
{
    (void)state;
    static const char *const answers[] = {
        INIT_ANSWER,          NAME_ANSWER,
        "cmd=barrier_out\n",  "cmd=get_result rc=0 msg=success value=" TEXT "\n",
        "cmd=finalize_ack\n", NULL};
    char text[UNIQUE_ID_TEXT_BYTES];
    pmi_server_t server;
    assert_int_equal(exchange_pmi(1, answers, in_time(), text, &server), BLINK_OK);
    assert_string_equal(text, TEXT);
    assert_string_equal(server.said[3], "cmd=get kvsname=kvs_1_0 key=blink-id");
}

static void test_pmi_launchers_that_say_what_they_should_not(void **state)
{
    (void)state;
    char text[UNIQUE_ID_TEXT_BYTES], flood[1200];
    memset(flood, 'x', sizeof(flood) - 1);
    flood[sizeof(flood) - 1] = '\0';
    const struct {
        const char *answers[5], *said;
    } cases[] = {
        {{NULL}, "has closed the connection"},
        {{"cmd=response_to_init rc=-1\n", NULL}, "answers \"cmd=response_to_init rc=-1\" to \"cmd=init"},
        {{"what?\n", NULL}, "answers \"what?\""},
        {{"\n", NULL}, "answers \"\""},
        {{flood, NULL}, "a line of more than 1023 bytes"},
        {{INIT_ANSWER, "cmd=my_kvsname\n", NULL}, "names no key-value space"},
        {{INIT_ANSWER, NAME_ANSWER, "cmd=barrier_out\n", "cmd=get_result rc=0\n", NULL}, "no id of rank 0"},
        {{INIT_ANSWER, NAME_ANSWER, "cmd=barrier_out\n", "cmd=get_result rc=1 msg=unknown_key\n", NULL},
         "to \"cmd=get kvsname=kvs_1_0 key=blink-id\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pmi_server_t server;
        assert_int_equal(exchange_pmi(1, cases[i].answers, in_time(), text, &server), BLINK_ERR_PROTOCOL);
        assert_non_null(strstr(blink_error_text(), cases[i].said));
    }
}

static void test_pmi_launcher_that_is_silent(void **state)
{
    (void)state;
    static const char *const answers[] = {INIT_ANSWER, ""};
    char text[UNIQUE_ID_TEXT_BYTES];
    pmi_server_t server;
    assert_int_equal(exchange_pmi(1, answers, clock_ns() + 200000000, text, &server), BLINK_ERR_TIMEOUT);
    launch_t launch = {.where = "seven"};
    assert_int_equal(exchange_by_pmi(&launch, in_time(), text), BLINK_ERR_INVALID_ARGUMENT);
}

/* ---- torchrun's store ---- */

/* A store with room for one key, which serves connections one after the other. */
typedef struct store {
    int listener;
    bool is_strange; /* it gives another number back */
    bool has_value;
    char key[LAUNCH_TEXT_BYTES * 2], value[256];
} store_t;

static bool take(int fd, void *bytes, size_t byte_count)
{
    return recv(fd, bytes, byte_count, MSG_WAITALL) == (ssize_t)byte_count;
}

static bool take_text(int fd, char *text, size_t most)
{
    uint64_t length;
    if (!take(fd, &length, sizeof(length)) || length >= most || !take(fd, text, length))
        return false;
    text[length] = '\0';
    return true;
}

static void give(int fd, const void *bytes, size_t byte_count)
{
    (void)!send(fd, bytes, byte_count, MSG_NOSIGNAL);
}

static bool answer(store_t *store, int fd, uint8_t kind)
{
    char key[sizeof(store->key)];
    uint64_t count, length = strlen(store->value);
    uint32_t number;
    switch (kind) {
    case 0: /* VALIDATE */
        return take(fd, &number, sizeof(number)) && number == 0x3c85f7ce;
    case 13: /* PING */
        if (!take(fd, &number, sizeof(number)))
            return false;
        number += store->is_strange;
        give(fd, &number, sizeof(number));
        return true;
    case 1: /* SET */
        store->has_value = true;
        return take_text(fd, store->key, sizeof(store->key)) &&
               take_text(fd, store->value, sizeof(store->value));
    case 6: /* WAIT */
        if (!take(fd, &count, sizeof(count)) || count != 1 || !take_text(fd, key, sizeof(key)) ||
            !store->has_value || strcmp(key, store->key) != 0)
            return false;
        give(fd, "", 1);
        return true;
    case 3: /* GET */
        if (!take_text(fd, key, sizeof(key)) || strcmp(key, store->key) != 0)
            return false;
        give(fd, &length, sizeof(length));
        give(fd, store->value, length);
        return true;
    case 8: /* DELETE_KEY */
        count = take_text(fd, key, sizeof(key)) && strcmp(key, store->key) == 0;
        store->has_value = store->has_value && !count;
        give(fd, &count, sizeof(count));
        return true;
    default:
        return false;
    }
}

static void *serve_store(void *argument)
{
    store_t *store = argument;
    for (int fd; (fd = accept(store->listener, NULL, NULL)) >= 0; close(fd)) {
        uint8_t kind;
        while (take(fd, &kind, 1) && answer(store, fd, kind))
            continue;
    }
    return NULL;
}

static pthread_t start_store(store_t *store, launch_t *launch)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof(address);
    pthread_t thread;
    store->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(store->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(store->listener, 8), 0);
    assert_int_equal(getsockname(store->listener, (struct sockaddr *)&address, &bytes), 0);
    *launch = (launch_t){.job = "torch job 0"};
    snprintf(launch->where, sizeof(launch->where), "127.0.0.1:%d", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&thread, NULL, serve_store, store), 0);
    return thread;
}

static void stop_store(const store_t *store, pthread_t thread)
{
    shutdown(store->listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(store->listener);
}

static void test_a_store_hands_the_text_over(void **state)
{
    (void)state;
    store_t store = {0};
    launch_t launch;
    char text[UNIQUE_ID_TEXT_BYTES] = TEXT;
    pthread_t thread = start_store(&store, &launch);
    assert_int_equal(exchange_by_store(&launch, in_time(), text), BLINK_OK);
    memset(text, 0, sizeof(text));
    launch.rank = 1;
    assert_int_equal(exchange_by_store(&launch, in_time(), text), BLINK_OK);
    assert_string_equal(text, TEXT);
    exchange_forget_store(&launch);
    assert_int_equal(exchange_by_store(&launch, in_time(), text), BLINK_ERR_PROTOCOL); /* it closes */
    stop_store(&store, thread);
    assert_string_equal(store.key, "blink/torch job 0");
    assert_false(store.has_value);
}

static void test_what_is_no_store_is_refused(void **state)
{
    (void)state;
    store_t store = {.is_strange = true};
    launch_t launch;
    char text[UNIQUE_ID_TEXT_BYTES] = TEXT;
    pthread_t thread = start_store(&store, &launch);
    assert_int_equal(exchange_by_store(&launch, in_time(), text), BLINK_ERR_PROTOCOL);
    assert_non_null(strstr(blink_error_text(), "is no store of torch 2.2 or later"));
    stop_store(&store, thread);
    assert_int_equal(exchange_by_store(&launch, in_time(), text), BLINK_ERR_CONNECT);
    assert_non_null(strstr(blink_error_text(), "torchrun's store at 127.0.0.1:"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_launcher_is_known),
        cmocka_unit_test(test_the_innermost_launcher_counts),
        cmocka_unit_test(test_jobs_that_differ_have_other_names),
        cmocka_unit_test(test_agents_of_torchrun_may_differ_in_what_they_count),
        cmocka_unit_test(test_what_is_wrong_is_named),
        cmocka_unit_test(test_who_is_alone_needs_no_more),
        cmocka_unit_test(test_a_long_variable_is_refused),
        cmocka_unit_test(test_a_file_hands_the_text_over),
        cmocka_unit_test(test_pmi_rank_0_puts),
        cmocka_unit_test(test_pmi_others_get),
        cmocka_unit_test(test_pmi_launchers_that_say_what_they_should_not),
        cmocka_unit_test(test_pmi_launcher_that_is_silent),
        cmocka_unit_test(test_a_store_hands_the_text_over),
        cmocka_unit_test(test_what_is_no_store_is_refused),
    };
    return cmocka_run_group_tests(tests, clear_environment, NULL);
}
