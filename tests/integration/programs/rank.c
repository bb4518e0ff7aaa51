/*
 * blink-rank: a client made for the integration tests. Joins a communicator as one or more ranks (a thread
 * each), runs the steps given on the command line, checks every element that arrives and prints one JSON line
 * per step. What a step means is told where it is done, in steps.c and misuse.c; see harness.py for who
 * starts it.
 */
#include "rank.h"

#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 64

static const char USAGE[] =
    "usage: blink-rank --socket PATH [--id HEX --ranks N --rank R[,R…]] [--device D[,D…]]\n"
    "                  [--algorithm auto|trees|ring] [--name NAME] STEP…\n";

typedef struct options {
    const char *socket_path;
    const char *id_hex;
    int rank_count;
    int ranks[RANKS_MAX], devices[RANKS_MAX];
    int thread_count;
    blink_algorithm_t algorithm;
    const char *comm_name;
    char **steps;
    int step_count;
} options_t;

typedef struct runner {
    pthread_t thread;
    session_t session;
    const options_t *options;
    int device;
} runner_t;

static int parse_list(const char *text, int *values)
{
    int count = 0;
    for (const char *at = text; count < RANKS_MAX; at++) {
        values[count++] = (int)strtol(at, NULL, 10);
        at = strchr(at, ',');
        if (!at)
            break;
    }
    return count;
}

static bool parse_options(int argc, char **argv, options_t *options)
{
    static const struct option longs[] = {
        {"socket", required_argument, NULL, 's'}, {"id", required_argument, NULL, 'i'},
        {"ranks", required_argument, NULL, 'n'},  {"rank", required_argument, NULL, 'r'},
        {"device", required_argument, NULL, 'd'}, {"algorithm", required_argument, NULL, 'a'},
        {"name", required_argument, NULL, 'm'},   {NULL, 0, NULL, 0}};
    *options = (options_t){.rank_count = 1, .thread_count = 1, .algorithm = BLINK_ALGORITHM_AUTO};
    memset(options->devices, 0xff, sizeof(options->devices));
    for (int option; (option = getopt_long(argc, argv, "+", longs, NULL)) != -1;) {
        if (option == 's')
            options->socket_path = optarg;
        else if (option == 'i')
            options->id_hex = optarg;
        else if (option == 'n')
            options->rank_count = (int)strtol(optarg, NULL, 10);
        else if (option == 'r')
            options->thread_count = parse_list(optarg, options->ranks);
        else if (option == 'm')
            options->comm_name = optarg;
        else if (option == 'd')
            parse_list(optarg, options->devices);
        else if (option != 'a' || !blink_parse_algorithm(optarg, &options->algorithm))
            return false;
    }
    options->steps = argv + optind;
    options->step_count = argc - optind;
    return true;
}

static void *run_rank(void *argument)
{
    runner_t *runner = argument;
    const options_t *options = runner->options;
    session_t *session = &runner->session;
    if (options->id_hex && !session_join(session, options->id_hex, options->rank_count, session->rank,
                                         runner->device, options->algorithm, 0))
        return NULL;
    for (int i = 0; i < options->step_count; i++)
        session_step(session, options->steps[i]);
    session_end(session);
    return NULL;
}

int main(int argc, char **argv)
{
    options_t options;
    if (!parse_options(argc, argv, &options)) {
        fputs(USAGE, stderr);
        return 2;
    }
    blink_context_t *context = NULL;
    blink_result_t opened = blink_open(options.socket_path, &context);
    report(options.ranks[0], "open", opened, opened == BLINK_OK ? "" : blink_last_error(), 0, 0);
    if (opened != BLINK_OK)
        return 0;
    static runner_t runners[RANKS_MAX];
    for (int i = 0; i < options.thread_count; i++) {
        runners[i].session =
            (session_t){.context = context, .rank = options.ranks[i], .comm_name = options.comm_name};
        runners[i].options = &options;
        runners[i].device = options.devices[i];
        if (pthread_create(&runners[i].thread, NULL, run_rank, &runners[i]) != 0)
            return 2;
    }
    for (int i = 0; i < options.thread_count; i++)
        pthread_join(runners[i].thread, NULL);
    blink_close(context);
    report(options.ranks[0], "close", BLINK_OK, "", 0, 0);
    return 0;
}
