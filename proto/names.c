#include "names.h"

#include "collective.h"

#include <string.h>

typedef struct name_entry {
    const char *name;
    uint32_t value;
    uint32_t bytes; /* of one element; datatypes only */
} name_entry_t;

#define NAME_COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* The first entry of a value is its spelling; later ones are accepted aliases. */
static const name_entry_t datatypes[] = {
    {"int8", BLINK_INT8, 1},
    {"uint8", BLINK_UINT8, 1},
    {"int32", BLINK_INT32, 4},
    {"uint32", BLINK_UINT32, 4},
    {"int64", BLINK_INT64, 8},
    {"uint64", BLINK_UINT64, 8},
    {"float16", BLINK_FLOAT16, 2},
    {"float32", BLINK_FLOAT32, 4},
    {"float64", BLINK_FLOAT64, 8},
    {"bfloat16", BLINK_BFLOAT16, 2},
    {"float8_e4m3", BLINK_FLOAT8_E4M3, 1},
    {"float8_e5m2", BLINK_FLOAT8_E5M2, 1},
    /* C's and nccl-tests' */
    {"half", BLINK_FLOAT16, 2},
    {"float", BLINK_FLOAT32, 4},
    {"double", BLINK_FLOAT64, 8},
    {"int", BLINK_INT32, 4},
    {"f8e4m3", BLINK_FLOAT8_E4M3, 1},
    {"f8e5m2", BLINK_FLOAT8_E5M2, 1},
    /* frameworks' */
    {"fp16", BLINK_FLOAT16, 2},
    {"bf16", BLINK_BFLOAT16, 2},
    {"fp32", BLINK_FLOAT32, 4},
    {"fp64", BLINK_FLOAT64, 8},
};
static const name_entry_t redops[] = {{"sum", BLINK_SUM, 0},           {"prod", BLINK_PROD, 0},
                                      {"max", BLINK_MAX, 0},           {"min", BLINK_MIN, 0},
                                      {"avg", BLINK_AVG, 0},           {"premulsum", BLINK_PRE_MUL_SUM, 0},
                                      {"mulsum", BLINK_PRE_MUL_SUM, 0}};
#define COLLECTIVE_NAME(collective, opcode, name, ...) {name, BLINK_##collective, 0},
static const name_entry_t collectives[] = {COLLECTIVES(COLLECTIVE_NAME)};
static const name_entry_t algorithms[] = {{"auto", BLINK_ALGORITHM_AUTO, 0},
                                          {"trees", BLINK_ALGORITHM_TREES, 0},
                                          /* as plans of them are called in print */
                                          {"packed-trees", BLINK_ALGORITHM_TREES, 0},
                                          {"packed-routes", BLINK_ALGORITHM_TREES, 0},
                                          {"ring", BLINK_ALGORITHM_RING, 0},
                                          {"double-binary-tree", BLINK_ALGORITHM_DOUBLE_BINARY_TREE, 0},
                                          {"blink", BLINK_ALGORITHM_BLINK, 0},
                                          {"one-hop", BLINK_ALGORITHM_ONE_HOP, 0},
                                          {"binomial", BLINK_ALGORITHM_BINOMIAL, 0},
                                          {"recursive-doubling", BLINK_ALGORITHM_RECURSIVE_DOUBLING, 0},
                                          {"shallow-trees", BLINK_ALGORITHM_SHALLOW_TREES, 0},
                                          {"multicast", BLINK_ALGORITHM_MULTICAST, 0}};
static const name_entry_t protocols[] = {
    {"simple", BLINK_PROTOCOL_SIMPLE, 0}, {"ll", BLINK_PROTOCOL_LL, 0}, {"ll128", BLINK_PROTOCOL_LL128, 0}};
/* By the names of their constants. */
#define RESULT(code)                                                                                         \
    {                                                                                                        \
#code, code, 0                                                                                       \
    }
static const name_entry_t results[] = {
    RESULT(BLINK_OK),
    RESULT(BLINK_ERR_INVALID_ARGUMENT),
    RESULT(BLINK_ERR_NO_MEMORY),
    RESULT(BLINK_ERR_SYSTEM),
    RESULT(BLINK_ERR_CONNECT),
    RESULT(BLINK_ERR_PROTOCOL),
    RESULT(BLINK_ERR_NOT_REGISTERED),
    RESULT(BLINK_ERR_OUT_OF_RANGE),
    RESULT(BLINK_ERR_MISMATCH),
    RESULT(BLINK_ERR_NOT_FOUND),
    RESULT(BLINK_ERR_EXISTS),
    RESULT(BLINK_ERR_PERMISSION),
    RESULT(BLINK_ERR_QUOTA),
    RESULT(BLINK_ERR_TIMEOUT),
    RESULT(BLINK_ERR_ABORTED),
    RESULT(BLINK_ERR_PEER_LOST),
    RESULT(BLINK_ERR_DAEMON_LOST),
    RESULT(BLINK_ERR_UNSUPPORTED),
    RESULT(BLINK_ERR_UNREACHABLE),
    RESULT(BLINK_ERR_INTERNAL),
};

static const name_entry_t *entry_by_value(const name_entry_t *table, size_t count, uint32_t value)
{
    for (size_t i = 0; i < count; i++) {
        if (table[i].value == value)
            return &table[i];
    }
    return NULL;
}

/* The next letter of a name, in lower case, that is neither '-' nor '_'; NUL at the end. */
static char next_letter(const char **at)
{
    while (**at == '-' || **at == '_')
        (*at)++;
    char letter = **at;
    *at += letter ? 1 : 0;
    return letter >= 'A' && letter <= 'Z' ? (char)(letter | 0x20) : letter;
}

bool blink_names_match(const char *one, const char *other)
{
    for (;;) {
        char letter = next_letter(&one);
        if (letter != next_letter(&other))
            return false;
        if (!letter)
            return true;
    }
}

static const name_entry_t *entry_by_name(const name_entry_t *table, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (blink_names_match(table[i].name, name))
            return &table[i];
    }
    return NULL;
}

static const char *name_of(const name_entry_t *entry)
{
    return entry ? entry->name : "unknown";
}

const char *blink_name_datatype(uint32_t value)
{
    return name_of(entry_by_value(datatypes, NAME_COUNT(datatypes), value));
}

const char *blink_name_redop(uint32_t value)
{
    return name_of(entry_by_value(redops, NAME_COUNT(redops), value));
}

const char *blink_name_collective(uint32_t value)
{
    return name_of(entry_by_value(collectives, NAME_COUNT(collectives), value));
}

const char *blink_name_algorithm(uint32_t value)
{
    return name_of(entry_by_value(algorithms, NAME_COUNT(algorithms), value));
}

const char *blink_name_protocol(uint32_t value)
{
    return name_of(entry_by_value(protocols, NAME_COUNT(protocols), value));
}

const char *blink_name_result_constant(uint32_t value)
{
    const name_entry_t *entry = entry_by_value(results, NAME_COUNT(results), value);
    return entry ? entry->name : NULL;
}

const char *blink_name_result(uint32_t value)
{
    const char *constant = blink_name_result_constant(value);
    if (!constant)
        return "unknown";
    return constant + (value == BLINK_OK ? strlen("BLINK_") : strlen("BLINK_ERR_"));
}

#define DEFINE_PARSE(function, table, type)                                                                  \
    bool function(const char *name, type *value)                                                             \
    {                                                                                                        \
        const name_entry_t *entry = entry_by_name(table, NAME_COUNT(table), name);                           \
        if (!entry)                                                                                          \
            return false;                                                                                    \
        *value = (type)entry->value;                                                                         \
        return true;                                                                                         \
    }

DEFINE_PARSE(blink_parse_datatype, datatypes, blink_datatype_t)
DEFINE_PARSE(blink_parse_redop, redops, blink_redop_t)
DEFINE_PARSE(blink_parse_collective, collectives, blink_collective_t)
DEFINE_PARSE(blink_parse_algorithm, algorithms, blink_algorithm_t)
DEFINE_PARSE(blink_parse_protocol, protocols, blink_protocol_t)

uint32_t blink_datatype_bytes(uint32_t value)
{
    const name_entry_t *entry = entry_by_value(datatypes, NAME_COUNT(datatypes), value);
    return entry ? entry->bytes : 0;
}

bool blink_redop_valid(uint32_t value)
{
    return entry_by_value(redops, NAME_COUNT(redops), value);
}

bool blink_algorithm_valid(uint32_t value)
{
    return entry_by_value(algorithms, NAME_COUNT(algorithms), value);
}

bool blink_protocol_valid(uint32_t value)
{
    return entry_by_value(protocols, NAME_COUNT(protocols), value);
}
