/*
 * Reads blink-topology/1. This file knows fields and their types, all of them strictly; what the values must
 * be like is the builder's business.
 */
#include "topo/topo.h"

#include "error.h"
#include "topo/rates.h"
#include "topo/source.h"

#include <jansson.h>

#include <string.h>

#define SCHEMA          "blink-topology/1"
#define WHERE_BYTES     112
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

typedef enum field_type { FIELD_STRING, FIELD_NUMBER, FIELD_INTEGER, FIELD_BOOLEAN, FIELD_LIST } field_type_t;

typedef struct field {
    const char *name;
    field_type_t type;
    bool required;
} field_t;

static const field_t topology_fields[] = {{"schema", FIELD_STRING, true},
                                          {"name", FIELD_STRING, false},
                                          {"nodes", FIELD_LIST, true},
                                          {"links", FIELD_LIST, true},
                                          {"non_peers", FIELD_LIST, false}};
static const field_t node_fields[] = {{"id", FIELD_STRING, true},        {"kind", FIELD_STRING, true},
                                      {"host", FIELD_STRING, false},     {"multicast", FIELD_BOOLEAN, false},
                                      {"reduces", FIELD_BOOLEAN, false}, {"GBps_total", FIELD_NUMBER, false}};
static const field_t link_fields[] = {{"from", FIELD_STRING, true},       {"to", FIELD_STRING, true},
                                      {"GBps", FIELD_NUMBER, true},       {"kind", FIELD_STRING, true},
                                      {"count", FIELD_INTEGER, false},    {"duplex", FIELD_BOOLEAN, false},
                                      {"latency_us", FIELD_NUMBER, false}};

#define FAIL_AT(source, where, format, ...)                                                                  \
    BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, TOPO_SHOWN ": %s" format, topo_source_tail(source),               \
               where __VA_OPT__(, ) __VA_ARGS__)

static bool has_type(const json_t *value, field_type_t type)
{
    switch (type) {
    case FIELD_STRING:
        return json_is_string(value);
    case FIELD_NUMBER:
        return json_is_number(value);
    case FIELD_INTEGER:
        return json_is_integer(value);
    case FIELD_BOOLEAN:
        return json_is_boolean(value);
    case FIELD_LIST:
        return json_is_array(value);
    }
    return false;
}

static const field_t *find_field(const field_t *fields, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    }
    return NULL;
}

/* An object has all of its required fields, no other than the known ones, each of its type. */
static blink_result_t check_fields(const char *source, const char *where, json_t *object,
                                   const field_t *fields, size_t count)
{
    static const char *const type_names[] = {[FIELD_STRING] = "a string",
                                             [FIELD_NUMBER] = "a number",
                                             [FIELD_INTEGER] = "an integer",
                                             [FIELD_BOOLEAN] = "true or false",
                                             [FIELD_LIST] = "a list"};
    if (!json_is_object(object))
        return FAIL_AT(source, where, " must be an object");
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        const field_t *field = find_field(fields, count, name);
        if (!field)
            return FAIL_AT(source, where, " has an unknown field \"" TOPO_SHOWN "\"", name);
        if (!has_type(value, field->type))
            return FAIL_AT(source, where, ": \"%s\" must be %s", name, type_names[field->type]);
    }
    for (size_t i = 0; i < count; i++) {
        if (fields[i].required && !json_object_get(object, fields[i].name))
            return FAIL_AT(source, where, " has no \"%s\"", fields[i].name);
    }
    return BLINK_OK;
}

static const char *text_of(const json_t *object, const char *field)
{
    return json_string_value(json_object_get(object, field));
}

static double number_of(const json_t *object, const char *field, double otherwise)
{
    const json_t *value = json_object_get(object, field);
    return value ? json_number_value(value) : otherwise;
}

static blink_result_t read_node(topo_builder_t *builder, const char *source, json_t *object, size_t index)
{
    char where[WHERE_BYTES];
    const char *id = text_of(object, "id");
    if (id)
        snprintf(where, sizeof(where), "node " TOPO_SHOWN, id);
    else
        snprintf(where, sizeof(where), "nodes[%zu]", index);
    BLINK_TRY(check_fields(source, where, object, node_fields, COUNT_OF(node_fields)));

    topo_node_kind_t kind;
    if (!topo_parse_node_kind(text_of(object, "kind"), &kind))
        return FAIL_AT(source, where, ": unknown kind \"" TOPO_SHOWN "\"", text_of(object, "kind"));
    double total_GBps = number_of(object, "GBps_total", 0);
    /* To the builder 0 means that there is no limit; a file says that by leaving the field out. */
    if (json_object_get(object, "GBps_total") && total_GBps == 0)
        return FAIL_AT(source, where, ": GBps_total must be finite and above 0, not 0");
    json_t *host = json_object_get(object, "host");
    topo_node_t node = {.id = (char *)json_string_value(json_object_get(object, "id")),
                        .host = host ? (char *)json_string_value(host) : NULL,
                        .kind = kind,
                        .multicast = json_is_true(json_object_get(object, "multicast")),
                        .reduces = json_is_true(json_object_get(object, "reduces")),
                        .total_GBps = total_GBps};
    return topo_build_node(builder, &node);
}

static blink_result_t read_link(topo_builder_t *builder, const char *source, json_t *object, size_t index)
{
    char where[WHERE_BYTES];
    const char *from = text_of(object, "from"), *to = text_of(object, "to");
    if (from && to)
        snprintf(where, sizeof(where), "link " TOPO_SHOWN " to " TOPO_SHOWN, from, to);
    else
        snprintf(where, sizeof(where), "links[%zu]", index);
    BLINK_TRY(check_fields(source, where, object, link_fields, COUNT_OF(link_fields)));

    topo_link_kind_t kind;
    if (!topo_parse_link_kind(text_of(object, "kind"), &kind))
        return FAIL_AT(source, where, ": unknown kind \"" TOPO_SHOWN "\"", text_of(object, "kind"));
    json_int_t count = 1;
    if (json_object_get(object, "count"))
        count = json_integer_value(json_object_get(object, "count"));
    if (count < 1 || count > TOPO_PARALLEL_MAX)
        return FAIL_AT(source, where, ": count must be from 1 to %u, not %lld", TOPO_PARALLEL_MAX,
                       (long long)count);
    return topo_build_link(builder, from, to, kind, number_of(object, "GBps", 0), (uint32_t)count,
                           number_of(object, "latency_us", TOPO_DEFAULT_LATENCY_US),
                           !json_is_false(json_object_get(object, "duplex")));
}

static blink_result_t read_pair(topo_builder_t *builder, const char *source, const json_t *pair, size_t index)
{
    char where[WHERE_BYTES];
    const char *one = json_string_value(json_array_get(pair, 0));
    const char *other = json_string_value(json_array_get(pair, 1));
    snprintf(where, sizeof(where), "non_peers[%zu]", index);
    if (json_array_size(pair) != 2 || !one || !other)
        return FAIL_AT(source, where, " must be a list of two ids");
    return topo_build_non_peers(builder, one, other);
}

static blink_result_t read_lists(topo_builder_t *builder, const char *source, const json_t *root)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(root, "nodes"), i, item)
        BLINK_TRY(read_node(builder, source, item, i));
    json_array_foreach(json_object_get(root, "links"), i, item)
        BLINK_TRY(read_link(builder, source, item, i));
    json_array_foreach(json_object_get(root, "non_peers"), i, item)
        BLINK_TRY(read_pair(builder, source, item, i));
    return BLINK_OK;
}

static blink_result_t read_topology(json_t *root, const char *source, topo_t **topo)
{
    BLINK_TRY(check_fields(source, "the topology", root, topology_fields, COUNT_OF(topology_fields)));
    if (strcmp(text_of(root, "schema"), SCHEMA) != 0)
        return FAIL_AT(source, "schema", " must be \"" SCHEMA "\", not \"" TOPO_SHOWN "\"",
                       text_of(root, "schema"));
    char stem[64];
    topo_source_stem(source, stem, sizeof(stem));
    const char *name = text_of(root, "name");
    topo_builder_t *builder;
    BLINK_TRY(topo_build_create(name ? name : stem, source, &builder));
    blink_result_t result = read_lists(builder, source, root);
    if (result == BLINK_OK)
        result = topo_build_finish(builder, topo);
    topo_build_destroy(builder);
    return result;
}

blink_result_t topo_parse_json(const char *text, size_t bytes, const char *source, topo_t **topo)
{
    json_error_t error;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root && json_error_code(&error) == json_error_out_of_memory)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, TOPO_SHOWN ": out of memory", topo_source_tail(source));
    if (!root)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, TOPO_SHOWN ": malformed JSON at line %d, column %d: %s",
                          topo_source_tail(source), error.line, error.column, error.text);
    blink_result_t result = read_topology(root, source, topo);
    json_decref(root);
    return result;
}
