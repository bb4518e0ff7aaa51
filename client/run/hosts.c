#include "run/hosts.h"

#include "base/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 256 /* with a user before it, and a NUL; names of hosts have 253 characters at most */

static void add_host(struct argp_state *state, run_options_t *options, const char *host)
{
    if (options->host_count == RUN_HOSTS_MAX)
        argp_error(state, "--hosts: at most %u", RUN_HOSTS_MAX);
    if (*host == '-')
        argp_error(state, "--hosts: \"%s\" is no host", host);
    for (uint32_t i = 0; i < options->host_count; i++)
        if (strcmp(options->hosts[i], host) == 0)
            argp_error(state, "--hosts: %s is named twice", host);
    options->hosts[options->host_count] = strdup(host);
    if (!options->hosts[options->host_count])
        argp_failure(state, RUN_EXIT_FAILED, 0, "no memory for a list of hosts");
    options->host_count++;
}

static void refuse(struct argp_state *state, const char *pattern)
{
    argp_error(state, "--hosts: \"%s\": brackets have numbers and ranges in them, as in node[0-3,7]",
               pattern);
}

/* Add the hosts of a pattern: one for each number of its first brackets, and what follows them in turn. */
static void expand(struct argp_state *state, run_options_t *options, const char *pattern)
{
    char numbers[NAME_BYTES], item[VALUE_ITEM_BYTES], name[NAME_BYTES];
    const char *open = strchr(pattern, '['), *close = strchr(pattern, ']'), *rest = numbers;
    if (!open && !close) {
        add_host(state, options, pattern);
        return;
    }
    if (!open || !close || close < open)
        refuse(state, pattern);
    snprintf(numbers, sizeof(numbers), "%.*s", (int)(close - open - 1), open + 1);
    while (value_next_item(&rest, item)) {
        uint32_t first = 0, last = 0;
        if (!value_parse_range(item, INT32_MAX, &first, &last) || last < first)
            refuse(state, pattern);
        for (uint32_t number = first; number <= last; number++) {
            snprintf(name, sizeof(name), "%.*s%0*u%s", (int)(open - pattern), pattern,
                     (int)strcspn(item, "-"), number, close + 1);
            expand(state, options, name);
        }
    }
}

/* Up to the next comma that is in no brackets. */
static size_t pattern_length(const char *list)
{
    size_t length = 0;
    for (bool inside = false; list[length] && (inside || list[length] != ','); length++)
        inside = list[length] == '[' || (inside && list[length] != ']');
    return length;
}

void run_take_hosts(struct argp_state *state, run_options_t *options, const char *list)
{
    char pattern[NAME_BYTES];
    while (*list) {
        size_t length = pattern_length(list);
        if (length >= sizeof(pattern))
            argp_error(state, "--hosts: a name has %zu characters: at most %zu", length, sizeof(pattern) - 1);
        snprintf(pattern, sizeof(pattern), "%.*s", (int)length, list);
        if (length > 0)
            expand(state, options, pattern);
        list += length + (list[length] == ',');
    }
    if (options->host_count == 0)
        argp_error(state, "--hosts: no host is named");
}

void run_free_hosts(run_options_t *options)
{
    for (uint32_t i = 0; i < options->host_count; i++)
        free(options->hosts[i]);
    options->host_count = 0;
}
