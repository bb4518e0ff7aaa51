/*
 * blink-api: the calls of libblinkclient that a line of steps cannot tell, each as one scenario that forked
 * ranks play against a running daemon: groups, transfers, splitting, waiting for any, ordinary memory. A rank
 * whose expectation fails prints it and ends with status 1.
 *
 *   blink-api SCENARIO RANKS    (the daemon's socket is in BLINK_SOCKET, or those of the ranks, in their
 * order and with commas between them, are in BLINK_SOCKETS)
 */
#include "api.h"

#include "limit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The rank's daemon; NULL: that of BLINK_SOCKET. */
static const char *socket_of(int rank)
{
    static char sockets[4096];
    const char *listed = getenv("BLINK_SOCKETS");
    char *rest = sockets, *path = NULL;
    if (!listed)
        return NULL;
    snprintf(sockets, sizeof(sockets), "%s", listed);
    for (int i = 0; i <= rank; i++)
        path = strsep(&rest, ",");
    return path;
}

static int rank_main(const scenario_t *scenario, int rank, int rank_count, const blink_unique_id_t *id)
{
    player_t player = {.rank = rank, .rank_count = rank_count, .id = *id};
    alarm(2 * limit_s()); /* then the scenario hangs */
    must(&player, blink_open(socket_of(rank), &player.context), "open");
    if (scenario->joins)
        must(&player, blink_comm_init_rank(player.context, id, rank_count, rank, NULL, &player.comm), "join");
    scenario->play(&player);
    if (scenario->joins)
        must(&player, blink_comm_destroy(player.comm), "destroy");
    blink_close(player.context);
    return 0;
}

void fail(const player_t *player, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "rank %d: ", player->rank);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

void must(const player_t *player, blink_result_t result, const char *what)
{
    if (result != BLINK_OK)
        fail(player, "%s: %s: %s", what, blink_result_name(result), blink_last_error());
}

void must_fail(const player_t *player, blink_result_t result, blink_result_t expected, const char *text,
               const char *what)
{
    if (result != expected)
        fail(player, "%s: %s instead of %s: %s", what, blink_result_name(result), blink_result_name(expected),
             result == BLINK_OK ? "" : blink_last_error());
    if (!strstr(blink_last_error(), text))
        fail(player, "%s: \"%s\" does not say \"%s\"", what, blink_last_error(), text);
}

void must_wait(const player_t *player, blink_op_t *op, const char *what)
{
    must(player, blink_wait(op), what);
}

void must_hold(const player_t *player, const int32_t *buffer, size_t count, int32_t first, const char *what)
{
    for (size_t i = 0; i < count; i++) {
        if (buffer[i] != first + (int32_t)i)
            fail(player, "%s: element %zu is %d, not %d", what, i, buffer[i], first + (int32_t)i);
    }
}

int32_t *memory(const player_t *player, size_t count)
{
    void *address = NULL;
    must(player, blink_mem_alloc(player->context, count * sizeof(int32_t), &address), "mem_alloc");
    return address;
}

void fill(int32_t *buffer, size_t count, int32_t first)
{
    for (size_t i = 0; i < count; i++)
        buffer[i] = first + (int32_t)i;
}

int main(int argc, char **argv)
{
    int rank_count = argc == 3 ? atoi(argv[2]) : 0, failed = 0;
    const scenario_t *scenario = argc == 3 ? scenario_find(argv[1]) : NULL;
    const player_t maker = {.rank = -1};
    blink_context_t *context;
    blink_unique_id_t id;
    if (!scenario || rank_count < 1) {
        fprintf(stderr, "usage: blink-api SCENARIO RANKS\n");
        return 2;
    }
    must(&maker, blink_open(socket_of(0), &context), "open");
    must(&maker, blink_get_unique_id(context, &id), "get_unique_id");
    blink_close(context);
    for (int rank = 0; rank < rank_count; rank++) {
        pid_t pid = fork();
        if (pid == 0)
            return rank_main(scenario, rank, rank_count, &id);
    }
    for (int rank = 0; rank < rank_count; rank++) {
        int status;
        failed += wait(&status) < 0 || status != 0;
    }
    return failed > 0;
}
