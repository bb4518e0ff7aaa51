#include "host.h"

#include "base/near.h"
#include "tools/query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So many hosts are named. */
#define NAMED_MOST 8u

static bool is_connected(const Blinkwire__Host *host)
{
    return strcmp(host->state, "dialling") != 0;
}

/* ---- what is said ---- */

/* "n1, n2 and 3 more" */
static void list_names(const Blinkwire__QueryReply *nodes, char *text, size_t bytes)
{
    size_t used = 0, count = 0;
    for (size_t i = 0; i < nodes->n_hosts && used < bytes; i++) {
        if (is_connected(nodes->hosts[i]) && count++ < NAMED_MOST)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", count > 1 ? ", " : "",
                                     nodes->hosts[i]->name);
    }
    if (count > NAMED_MOST && used < bytes)
        snprintf(text + used, bytes - used, " and %zu more", count - NAMED_MOST);
}

static blink_result_t not_found(const Blinkwire__QueryReply *nodes, const char *name)
{
    char known[NAMED_MOST * (NEAR_NAME_BYTES + 2) + 32] = "";
    char hint[NEAR_HINT_BYTES];
    near_t near = near_begin(name);
    for (size_t i = 0; i < nodes->n_hosts; i++)
        if (is_connected(nodes->hosts[i]))
            near_try(&near, nodes->hosts[i]->name);
    list_names(nodes, known, sizeof(known));
    return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "there is no session with a host '%s'%s; there are %s", name,
                      near_hint(&near, hint), known);
}

/* The code is that of the first failure, whose text is what is left to say if the host is there by now. */
static blink_result_t look_for(const Blinkwire__QueryReply *nodes, const char *name, const char *first)
{
    for (size_t i = 0; i < nodes->n_hosts; i++) {
        const Blinkwire__Host *host = nodes->hosts[i];
        if (strcmp(host->name, name) != 0)
            continue;
        if (is_connected(host))
            return blink_error_set(BLINK_ERR_NOT_FOUND, "%s", first);
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "there is no session with host '%s' yet: %s", name,
                          *host->why ? host->why : "it has not answered");
    }
    return not_found(nodes, name);
}

blink_result_t host_result(const ctl_options_t *options, blink_result_t result)
{
    char first[BLINK_ERROR_TEXT_BYTES];
    Blinkwire__Query question = BLINKWIRE__QUERY__INIT;
    Blinkwire__Reply *reply;
    if (!options->host || result != BLINK_ERR_NOT_FOUND)
        return result;
    snprintf(first, sizeof(first), "%s", blink_error_text());
    question.kind = BLINKWIRE__QUERY_KIND__HOSTS;
    BLINK_TRY(query_once(query_socket_path(options->socket_path), "blinkctl", &question, &reply));
    result = look_for(reply->query, options->host, first);
    blinkwire__reply__free_unpacked(reply, NULL);
    return result;
}

/* ---- all of them ---- */

#define ALL "all"

typedef struct each {
    ctl_options_t options; /* of the host whose turn it is */
    host_show_t *show;
    void *context;
    json_t *by_host; /* NULL: lines of text are shown */
    uint32_t failed_count, host_count;
} each_t;

bool host_is_all(const ctl_options_t *options)
{
    return options->host && strcmp(options->host, ALL) == 0;
}

static void print_lines(const char *host, char *text)
{
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) && (*line || rest);)
        printf("%s: %s\n", host, line);
}

blink_result_t host_catch(const ctl_options_t *options, host_show_t *show, void *context, char **shown)
{
    size_t bytes;
    FILE *screen = stdout, *caught = open_memstream(shown, &bytes);
    if (!caught)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for what a host shows");
    stdout = caught;
    blink_result_t result = show(options, context);
    stdout = screen;
    fclose(caught);
    return result;
}

static void put(each_t *each, const char *host, char *shown, blink_result_t result)
{
    if (each->by_host)
        json_object_set_new(each->by_host, host,
                            result == BLINK_OK
                                ? json_loads(shown, 0, NULL)
                                : json_pack("{so}", "error", ctl_json_text(blink_error_text())));
    else if (result == BLINK_OK)
        print_lines(host, shown);
    else
        printf("%s: %s\n", host, blink_error_text());
    each->failed_count += result != BLINK_OK;
    each->host_count++;
}

static void show_one(each_t *each, const Blinkwire__Host *host)
{
    char *shown = NULL;
    each->options.host = strcmp(host->state, "this host") == 0 ? NULL : host->name;
    blink_result_t result = host_catch(&each->options, each->show, each->context, &shown);
    put(each, host->name, shown, result);
    free(shown);
}

static blink_result_t show_all(each_t *each, const Blinkwire__QueryReply *nodes)
{
    if (nodes->n_hosts == 0)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND,
                          "--host " ALL
                          ": this daemon knows no other host: [network] listen in its blinkd.conf "
                          "is empty");
    for (size_t i = 0; i < nodes->n_hosts; i++)
        show_one(each, nodes->hosts[i]);
    if (each->by_host)
        BLINK_TRY(ctl_print_json(json_pack("{s:s, s:O}", "schema", "blink-by-host/1", "hosts", each->by_host),
                                 JSON_INDENT(2)));
    if (each->failed_count > 0)
        return BLINK_FAIL(BLINK_ERR_PEER_LOST, "%u of %u hosts did not answer", each->failed_count,
                          each->host_count);
    return BLINK_OK;
}

blink_result_t host_each(const ctl_options_t *options, host_show_t *show, void *context)
{
    Blinkwire__Query question = BLINKWIRE__QUERY__INIT;
    Blinkwire__Reply *reply;
    if (!host_is_all(options))
        return show(options, context);
    each_t each = {.options = *options, .show = show, .context = context};
    question.kind = BLINKWIRE__QUERY_KIND__HOSTS;
    BLINK_TRY(query_once(query_socket_path(options->socket_path), "blinkctl", &question, &reply));
    each.by_host = options->json ? json_object() : NULL;
    blink_result_t result = show_all(&each, reply->query);
    json_decref(each.by_host);
    blinkwire__reply__free_unpacked(reply, NULL);
    return result;
}
