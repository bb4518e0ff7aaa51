/* Lines are taken as they come; switches and links get their order when all are there. */
#include "topo/fabric_file.h"

#include "base/ini_file.h"
#include "error.h"
#include "topo/read/name_range.h"
#include "topo/topo.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static blink_result_t out_of_memory(void)
{
    return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the switches of a network");
}

/* ---- switches ---- */

/* The switch of this name, which is made if it is new. */
static blink_result_t find_switch(fabric_file_t *file, const char *name, uint32_t *at)
{
    uint32_t number = 0;
    while (number < file->switches.count && strcmp(file->switches.items[number].name, name) != 0)
        number++;
    *at = number;
    if (number < file->switches.count)
        return BLINK_OK;
    if (number == FABRIC_SWITCHES_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "'%s' is one switch more than the %u that there may be",
                          name, FABRIC_SWITCHES_MAX);
    fabric_switch_t made = {.total_GBps = 0};
    snprintf(made.name, sizeof(made.name), "%s", name);
    return vec_push(&file->switches, made) ? BLINK_OK : out_of_memory();
}

/* The number'th switch of a word that has been found good. */
static blink_result_t find_nth_switch(fabric_file_t *file, const char *word, uint32_t number, uint32_t *at)
{
    char name[FABRIC_NAME_BYTES];
    if (!name_range_get(word, number, name, sizeof(name)))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "a switch's name has at most %u characters",
                          FABRIC_NAME_BYTES - 1);
    return find_switch(file, name, at);
}

static blink_result_t count_switches(const char *word, uint32_t *count)
{
    *count = name_range_count(word);
    if (*count == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "'%s' is no switch such as leaf1, nor several such as leaf[1-4]", word);
    if (*count > FABRIC_SWITCHES_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "'%s' is %u switches; there may be %u", word, *count,
                          FABRIC_SWITCHES_MAX);
    return BLINK_OK;
}

static bool parse_GBps(const char *value, double *GBps)
{
    char *end;
    *GBps = strtod(value, &end);
    return end != value && *end == '\0' && isfinite(*GBps) && *GBps > 0;
}

static blink_result_t take_switches(fabric_file_t *file, const char *key, const char *value)
{
    uint32_t count, at;
    double total_GBps;
    BLINK_TRY(count_switches(key, &count));
    if (!parse_GBps(value, &total_GBps))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "'%s' is not what a switch can carry in GB/s, such as 400", value);
    for (uint32_t i = 0; i < count; i++) {
        BLINK_TRY(find_nth_switch(file, key, i, &at));
        file->switches.items[at].total_GBps = total_GBps;
    }
    return BLINK_OK;
}

/* ---- NICs ---- */

static blink_result_t take_nics(fabric_file_t *file, const char *key, const char *value)
{
    fabric_nics_t nics;
    const char *slash = strchr(key, '/');
    uint32_t count;
    BLINK_TRY(count_switches(value, &count));
    if (count > 1)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "a NIC hangs on one switch, and '%s' is %u", value,
                          count);
    if (file->nics.count == FABRIC_NICS_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "[nics] has more than %u lines", FABRIC_NICS_MAX);
    BLINK_TRY(find_nth_switch(file, value, 0, &nics.at));
    if (!(nics.host = strdup(key)))
        return out_of_memory();
    nics.nic = nics.host + (slash ? slash - key + 1 : 0);
    if (slash)
        nics.nic[-1] = '\0';
    if (!slash || strchr(nics.nic, '/') || !name_range_is_pattern(nics.host) ||
        !name_range_is_pattern(nics.nic)) {
        free(nics.host);
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "'%s' is not a host and a NIC such as n1/eth0, n[1-16]/eth* or */nic0", key);
    }
    if (!vec_push(&file->nics, nics)) {
        free(nics.host);
        return out_of_memory();
    }
    return BLINK_OK;
}

blink_result_t fabric_file_find(const fabric_file_t *file, const char *host, const char *nic, uint32_t *at)
{
    for (size_t i = 0; i < file->nics.count; i++) {
        const fabric_nics_t *nics = &file->nics.items[i];
        if (!name_range_has(nics->host, host) || !name_range_has(nics->nic, nic))
            continue;
        *at = nics->at;
        return BLINK_OK;
    }
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                      "no line of [nics] says on which switch %.64s/%.32s hangs, as a line "
                      "'%.64s/%.32s = leaf1' would",
                      host, nic, host, nic);
}

/* ---- links ---- */

static bool parse_capacity(const char *value, fabric_link_t *link)
{
    size_t digits = strspn(value, "0123456789");
    link->count = 1;
    if (value[digits] != 'x')
        return parse_GBps(value, &link->GBps);
    unsigned long count = strtoul(value, NULL, 10);
    link->count = (uint32_t)count;
    return digits > 0 && count > 0 && count <= TOPO_PARALLEL_MAX &&
           parse_GBps(value + digits + 1, &link->GBps);
}

static blink_result_t add_link(fabric_file_t *file, fabric_link_t link)
{
    if (link.ends[0] == link.ends[1])
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "this joins %s with itself",
                          file->switches.items[link.ends[0]].name);
    if (file->links.count == FABRIC_LINKS_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "[links] joins more than %u pairs of switches",
                          FABRIC_LINKS_MAX);
    return vec_push(&file->links, link) ? BLINK_OK : out_of_memory();
}

static blink_result_t take_links(fabric_file_t *file, char *key, const char *value)
{
    char *rest = key, *words[2] = {strtok_r(rest, " \t", &rest), strtok_r(NULL, " \t", &rest)};
    uint32_t counts[2];
    fabric_link_t link;
    if (!words[0] || !words[1] || strtok_r(NULL, " \t", &rest))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "the key is not two switches such as 'leaf1 spine1' or 'leaf[1-4] spine[1-2]'");
    for (uint32_t i = 0; i < 2; i++)
        BLINK_TRY(count_switches(words[i], &counts[i]));
    if (!parse_capacity(value, &link))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "'%s' is not what a link can carry in GB/s, such as 50, or 4x50 for four of them",
                          value);
    for (uint32_t i = 0; i < counts[0]; i++)
        for (uint32_t j = 0; j < counts[1]; j++) {
            BLINK_TRY(find_nth_switch(file, words[0], i, &link.ends[0]));
            BLINK_TRY(find_nth_switch(file, words[1], j, &link.ends[1]));
            BLINK_TRY(add_link(file, link));
        }
    return BLINK_OK;
}

/* ---- order ---- */

static int compare_numbers(uint32_t one, uint32_t other)
{
    return (one > other) - (one < other);
}

static int compare_switches(const void *one, const void *other, void *file)
{
    const fabric_switch_t *switches = ((const fabric_file_t *)file)->switches.items;
    return strverscmp(switches[*(const uint32_t *)one].name, switches[*(const uint32_t *)other].name);
}

static int compare_links(const void *one, const void *other)
{
    const fabric_link_t *a = one, *b = other;
    int first = compare_numbers(a->ends[0], b->ends[0]);
    return first ? first : compare_numbers(a->ends[1], b->ends[1]);
}

/* order[i] is the switch that becomes the i'th, and place[] says the same the other way round. */
static blink_result_t move_switches(fabric_file_t *file, uint32_t *order, uint32_t *place)
{
    size_t count = file->switches.count;
    fabric_switch_t *sorted = malloc(count * sizeof(*sorted));
    if (!sorted)
        return out_of_memory();
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    qsort_r(order, count, sizeof(*order), compare_switches, file);
    for (uint32_t i = 0; i < count; i++) {
        place[order[i]] = i;
        sorted[i] = file->switches.items[order[i]];
    }
    memcpy(file->switches.items, sorted, count * sizeof(*sorted));
    free(sorted);
    return BLINK_OK;
}

static void move_ends(fabric_file_t *file, const uint32_t *place)
{
    for (size_t i = 0; i < file->nics.count; i++)
        file->nics.items[i].at = place[file->nics.items[i].at];
    for (size_t i = 0; i < file->links.count; i++) {
        fabric_link_t *link = &file->links.items[i];
        uint32_t one = place[link->ends[0]], other = place[link->ends[1]];
        link->ends[0] = one < other ? one : other;
        link->ends[1] = one < other ? other : one;
    }
    if (file->links.count > 0)
        qsort(file->links.items, file->links.count, sizeof(*file->links.items), compare_links);
}

static blink_result_t check_links(const fabric_file_t *file, const char *path)
{
    for (size_t i = 1; i < file->links.count; i++) {
        const fabric_link_t *link = &file->links.items[i];
        if (compare_links(link - 1, link) == 0)
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                              "%s: [links] joins %s and %s twice; say 2x50 for two links of 50 GB/s", path,
                              file->switches.items[link->ends[0]].name,
                              file->switches.items[link->ends[1]].name);
    }
    return BLINK_OK;
}

static blink_result_t put_in_order(fabric_file_t *file, const char *path)
{
    size_t count = file->switches.count;
    if (file->nics.count == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "%s: no section [nics] says on which switches NICs hang, as a line "
                          "'n[1-16]/* = leaf1' would",
                          path);
    uint32_t *order = malloc(count * sizeof(*order)), *place = malloc(count * sizeof(*place));
    blink_result_t result = order && place ? move_switches(file, order, place) : out_of_memory();
    if (result == BLINK_OK) {
        move_ends(file, place);
        result = check_links(file, path);
    }
    free(place);
    free(order);
    return result;
}

/* ---- all of it ---- */

static blink_result_t take_pair(void *context, const char *section, const char *key, const char *value)
{
    char copy[256];
    if (strcmp(section, "nics") == 0)
        return take_nics(context, key, value);
    if (strcmp(section, "switches") == 0)
        return take_switches(context, key, value);
    if (strcmp(section, "links") != 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "unknown section [%s]; there are nics, links, switches",
                          section);
    snprintf(copy, sizeof(copy), "%s", key);
    return take_links(context, copy, value);
}

blink_result_t fabric_file_read_open(FILE *open, const char *path, fabric_file_t **read)
{
    fabric_file_t *file = calloc(1, sizeof(*file));
    if (!file)
        return out_of_memory();
    blink_result_t result = ini_file_read(open, path, take_pair, file);
    if (result == BLINK_OK)
        result = put_in_order(file, path);
    if (result != BLINK_OK) {
        fabric_file_destroy(file);
        return result;
    }
    *read = file;
    return BLINK_OK;
}

blink_result_t fabric_file_read(const char *path, fabric_file_t **file)
{
    FILE *open = fopen(path, "re");
    if (!open)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "fabric file %s: %s", path, strerror(errno));
    blink_result_t result = fabric_file_read_open(open, path, file);
    fclose(open);
    return result;
}

void fabric_file_destroy(fabric_file_t *file)
{
    if (!file)
        return;
    for (size_t i = 0; i < file->nics.count; i++)
        free(file->nics.items[i].host);
    vec_free(&file->nics);
    vec_free(&file->links);
    vec_free(&file->switches);
    free(file);
}
