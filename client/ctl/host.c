#include "host.h"

#include "tools/query.h"

#include <stdio.h>
#include <string.h>

#define NAME_MOST_BYTES 64u

/* So many hosts are named. */
#define NAMED_MOST 8u

/* ---- which name may be meant ---- */

static uint32_t least(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t less = a < b ? a : b;
    return less < c ? less : c;
}

/* How many letters have to be changed, left out or put in (Levenshtein). */
static uint32_t distance(const char *one, const char *other)
{
    uint32_t row[NAME_MOST_BYTES + 1];
    size_t length = strlen(other);
    if (length > NAME_MOST_BYTES)
        return UINT32_MAX;
    for (uint32_t i = 0; i <= length; i++)
        row[i] = i;
    for (const char *at = one; *at; at++) {
        uint32_t corner = row[0]++;
        for (uint32_t i = 1; i <= length; i++) {
            uint32_t above = row[i];
            row[i] = least(above + 1, row[i - 1] + 1, corner + (*at != other[i - 1]));
            corner = above;
        }
    }
    return row[length];
}

static bool is_connected(const Blinkwire__Host *host)
{
    return strcmp(host->state, "dialling") != 0;
}

/* NULL: none is like it. */
static const char *nearest(const Blinkwire__QueryReply *nodes, const char *name)
{
    const char *found = NULL;
    uint32_t most = 1 + (uint32_t)strlen(name) / 4, best = most + 1;
    for (size_t i = 0; i < nodes->n_hosts; i++) {
        uint32_t changes = is_connected(nodes->hosts[i]) ? distance(name, nodes->hosts[i]->name) : best;
        if (changes < best) {
            best = changes;
            found = nodes->hosts[i]->name;
        }
    }
    return found;
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
    char known[NAMED_MOST * (NAME_MOST_BYTES + 2) + 32] = "";
    const char *meant = nearest(nodes, name);
    list_names(nodes, known, sizeof(known));
    return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "there is no session with a host '%s'%s%s%s; there are %s", name,
                      meant ? "; did you mean '" : "", meant ? meant : "", meant ? "'?" : "", known);
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
