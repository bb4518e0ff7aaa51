#include "run/start.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SSH_WORDS_MAX 64u

/* ---- on this host ---- */

static blink_result_t start_rank(const run_options_t *options, uint32_t local_rank, lines_once_t *once,
                                 child_t *child)
{
    uint32_t rank = options->first_rank + local_rank;
    char number[32], size[32], local[32], rendezvous[320], job[RUN_JOB_BYTES + 16];
    char *environment[] = {number, size, local, rendezvous, job, NULL};
    snprintf(number, sizeof(number), "BLINK_RANK=%u", rank);
    snprintf(size, sizeof(size), "BLINK_SIZE=%u", options->rank_count);
    snprintf(local, sizeof(local), "BLINK_LOCAL_RANK=%u", local_rank);
    snprintf(rendezvous, sizeof(rendezvous), "BLINK_RENDEZVOUS=%s", options->rendezvous);
    snprintf(job, sizeof(job), "BLINK_JOB=%s", options->job);
    snprintf(child->name, sizeof(child->name), "rank %u", rank);
    if (options->has_prefix) {
        snprintf(child->out.prefix, sizeof(child->out.prefix), "[%u] ", rank);
        memcpy(child->err.prefix, child->out.prefix, sizeof(child->err.prefix));
    }
    child->err.once = once;
    const child_config_t config = {.arguments = options->program, .environment = environment};
    return child_start(child, &config);
}

/* ---- on another host ---- */

/* As one word of a shell. */
static void add_quoted(FILE *text, const char *word)
{
    fputc('\'', text);
    for (; *word; word++)
        fputs(*word == '\'' ? "'\\''" : (char[]){*word, '\0'}, text);
    fputs("' ", text);
}

/* What a shell there is to do; the caller's to free. NULL: no memory. */
static char *command_at(const run_options_t *options, const char *directory, const char *self, uint32_t first,
                        uint32_t count)
{
    char *command = NULL, node[512];
    size_t byte_count;
    FILE *text = open_memstream(&command, &byte_count);
    if (!text)
        return NULL;
    snprintf(node, sizeof(node), "%u:%u:%s:%s", first, count, options->job, options->rendezvous);
    fputs("cd ", text);
    add_quoted(text, directory);
    fputs("&& exec ", text);
    add_quoted(text, self);
    fprintf(text, "%s%s -n %u --node ", options->has_prefix ? "" : "--no-prefix",
            options->keeps_going ? " --keep-going" : "", options->rank_count);
    add_quoted(text, node);
    for (char **word = options->program; *word; word++)
        add_quoted(text, *word);
    return fclose(text) == 0 ? command : NULL;
}

/* The words of the ssh command, then host and command. False: there are too many. */
static bool list_words(char *ssh, char *host, char *command, char *words[SSH_WORDS_MAX])
{
    uint32_t count = 0;
    char *rest;
    for (char *word = strtok_r(ssh, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        if (count + 3 >= SSH_WORDS_MAX)
            return false;
        words[count++] = word;
    }
    words[count] = host;
    words[count + 1] = command;
    words[count + 2] = NULL;
    return count > 0;
}

static blink_result_t start_host(const run_options_t *options, uint32_t index, const char *directory,
                                 const char *self, child_t *child)
{
    uint32_t each = options->rank_count / options->host_count,
             more = options->rank_count % options->host_count;
    uint32_t first = index * each + (index < more ? index : more), count = each + (index < more);
    char *words[SSH_WORDS_MAX], *host = options->hosts[index];
    char *ssh = strdup(options->ssh), *command = command_at(options, directory, self, first, count);
    blink_result_t result;
    snprintf(child->name, sizeof(child->name), "host %s", host);
    const child_config_t config = {.arguments = words};
    child->is_host = true;
    if (!ssh || !command)
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a command");
    else if (!list_words(ssh, host, command, words))
        result = BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "--ssh %s: 1 to %u words", options->ssh,
                            SSH_WORDS_MAX - 3);
    else
        result = child_start(child, &config);
    free(command);
    free(ssh);
    return result;
}

/* ---- all ---- */

static blink_result_t start_hosts(const run_options_t *options, watch_t *watch)
{
    char directory[4096], self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (length < 0 || !getcwd(directory, sizeof(directory)))
        return BLINK_FAIL_ERRNO("where blinkrun is, and the current directory");
    self[length] = '\0';
    for (uint32_t i = 0; i < watch->child_count; i++)
        BLINK_TRY(start_host(options, i, directory, self, &watch->children[i]));
    return BLINK_OK;
}

blink_result_t start_all(const run_options_t *options, watch_t *watch)
{
    if (options->host_count > 0)
        return start_hosts(options, watch);
    for (uint32_t i = 0; i < watch->child_count; i++)
        BLINK_TRY(start_rank(options, i, &watch->once, &watch->children[i]));
    return BLINK_OK;
}
