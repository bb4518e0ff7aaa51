#include "tools/trace.h"

#include "base/near.h"
#include "error.h"
#include "names.h"
#include "tools/human.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* A communicator of as many ranks as there may be has fewer. */
#define LINE_BYTES ((size_t)1 << 20)

#define TIME_MOST_US (INT64_MAX / 4)

typedef struct reader {
    const char *path;
    FILE *in;
    char *line;
    uint64_t line_number;
    bool has_ended;
    trace_t *trace;
} reader_t;

/* ---- values of a line ---- */

static blink_result_t fail_line(const reader_t *reader, const char *what)
{
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s, line %lu: %s", reader->path,
                      (unsigned long)reader->line_number, what);
}

static blink_result_t fail_key(const reader_t *reader, const char *key, const char *right)
{
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s, line %lu: \"%s\" is not %s", reader->path,
                      (unsigned long)reader->line_number, key, right);
}

static blink_result_t get_number(const reader_t *reader, const json_t *line, const char *key, uint64_t most,
                                 uint64_t *number)
{
    const json_t *value = json_object_get(line, key);
    json_int_t read = json_integer_value(value);
    if (!json_is_integer(value) || read < 0 || (uint64_t)read > most)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s, line %lu: \"%s\" is not a number from 0 to %lu",
                          reader->path, (unsigned long)reader->line_number, key, (unsigned long)most);
    *number = (uint64_t)read;
    return BLINK_OK;
}

/* The rank that an op has under this key; 0 for null. */
static blink_result_t get_rank(const reader_t *reader, const json_t *line, const char *key,
                               uint32_t rank_count, uint32_t *rank)
{
    uint64_t number = 0;
    if (!json_is_null(json_object_get(line, key)))
        BLINK_TRY(get_number(reader, line, key, rank_count - 1, &number));
    *rank = (uint32_t)number;
    return BLINK_OK;
}

/* ---- communicators ---- */

static trace_comm_t *find_comm(const trace_t *trace, uint64_t number)
{
    for (size_t i = trace->comms.count; i > 0; i--)
        if (trace->comms.items[i - 1].number == number)
            return &trace->comms.items[i - 1];
    return NULL;
}

static uint32_t place_number(const json_t *list, size_t rank)
{
    const json_t *value = json_array_get(list, rank);
    json_int_t number = json_integer_value(value);
    return json_is_integer(value) && number >= 0 && number < TRACE_NONE ? (uint32_t)number : TRACE_NONE;
}

static blink_result_t read_comm(const reader_t *reader, const json_t *line)
{
    const json_t *devices = json_object_get(line, "devices"), *clients = json_object_get(line, "clients");
    trace_comm_t comm = {.rank_count = (uint32_t)json_array_size(devices)};
    uint64_t number;
    BLINK_TRY(get_number(reader, line, "comm", UINT32_MAX, &number));
    if (comm.rank_count == 0 || json_array_size(clients) != comm.rank_count)
        return fail_key(reader, "devices", "a list with an entry per rank, or \"clients\" is not as long");
    if (find_comm(reader->trace, number))
        return fail_key(reader, "comm", "another number than that of a communicator before");
    comm.number = (uint32_t)number;
    comm.places = calloc(comm.rank_count, sizeof(*comm.places));
    if (!comm.places || !vec_push(&reader->trace->comms, comm)) {
        free(comm.places);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a communicator of %s", reader->path);
    }
    for (uint32_t i = 0; i < comm.rank_count; i++)
        comm.places[i] = (trace_place_t){place_number(devices, i), place_number(clients, i)};
    return BLINK_OK;
}

/* ---- ops ---- */

const char *trace_collective_name(blink_collective_t collective)
{
    static const uint8_t opcodes[] = {
#define OPCODE_OF(collective, opcode, ...) [BLINK_##collective] = opcode,
        COLLECTIVES(OPCODE_OF)
#undef OPCODE_OF
    };
    return collective == COLLECTIVE_BARRIER ? "barrier" : collective_op_name(opcodes[collective]);
}

static blink_result_t get_collective(const reader_t *reader, const json_t *line,
                                     blink_collective_t *collective)
{
    const char *name = json_string_value(json_object_get(line, "collective"));
    char hint[NEAR_HINT_BYTES];
    if (!name)
        return fail_key(reader, "collective", "a name");
    near_t near = near_begin(name);
    for (uint32_t i = 0; i <= COLLECTIVE_BARRIER; i++) {
        *collective = (blink_collective_t)i;
        if (strcmp(name, trace_collective_name(*collective)) == 0)
            return BLINK_OK;
        near_try(&near, trace_collective_name(*collective));
    }
    return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "%s, line %lu: there is no collective \"%s\"%s", reader->path,
                      (unsigned long)reader->line_number, name, near_hint(&near, hint));
}

/* The element's type and, where something is reduced, by what. */
static blink_result_t get_types(const reader_t *reader, const json_t *line, trace_op_t *op)
{
    const char *datatype = json_string_value(json_object_get(line, "datatype"));
    const char *redop = json_string_value(json_object_get(line, "redop"));
    op->redop = BLINK_SUM;
    if (!datatype || !blink_parse_datatype(datatype, &op->datatype))
        return fail_key(reader, "datatype", "the name of a type");
    if (redop && !blink_parse_redop(redop, &op->redop))
        return fail_key(reader, "redop", "the name of an operator");
    return BLINK_OK;
}

/* Who came when: times after `began_us`. */
static blink_result_t read_arrivals(const reader_t *reader, const json_t *line, uint32_t rank_count,
                                    uint64_t began_us, trace_op_t *op)
{
    const json_t *ranks = json_object_get(line, "ranks"), *came = json_object_get(line, "came_us");
    trace_t *trace = reader->trace;
    size_t count = json_array_size(ranks);
    op->arrival_first = trace->arrivals.count;
    op->arrival_count = (uint32_t)count;
    if (count == 0 || count > rank_count || json_array_size(came) != count)
        return fail_key(reader, "ranks", "a list of ranks, or \"came_us\" is not as long");
    if (trace->arrivals.count + count > TRACE_ARRIVALS_MOST)
        return fail_line(reader, "more ranks have come to ops than are read; record for a shorter time");
    for (size_t i = 0; i < count; i++) {
        trace_arrival_t arrival = {place_number(ranks, i), began_us + place_number(came, i)};
        if (arrival.rank >= rank_count)
            return fail_key(reader, "ranks", "a list of ranks of the communicator");
        if (place_number(came, i) == TRACE_NONE)
            return fail_key(reader, "came_us", "a list of microseconds");
        if (arrival.at_us > op->all_came_us)
            op->all_came_us = arrival.at_us;
        if (!vec_push(&trace->arrivals, arrival))
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the ops of %s", reader->path);
    }
    return BLINK_OK;
}

static blink_result_t read_op(const reader_t *reader, const json_t *line)
{
    trace_t *trace = reader->trace;
    const char *result = json_string_value(json_object_get(line, "result"));
    trace_op_t op = {0};
    uint64_t number, began_us;
    BLINK_TRY(get_number(reader, line, "comm", UINT32_MAX, &number));
    trace_comm_t *comm = find_comm(trace, number);
    if (!comm)
        return fail_key(reader, "comm", "the number of a communicator that a line before describes");
    op.comm = (uint32_t)(comm - trace->comms.items);
    BLINK_TRY(get_collective(reader, line, &op.collective));
    BLINK_TRY(get_types(reader, line, &op));
    BLINK_TRY(get_number(reader, line, "bytes", INT64_MAX, &op.bytes));
    BLINK_TRY(get_number(reader, line, "began_us", TIME_MOST_US, &began_us));
    BLINK_TRY(get_number(reader, line, "ended_us", TIME_MOST_US, &op.ended_us));
    BLINK_TRY(get_rank(reader, line, "root", comm->rank_count, &op.root));
    BLINK_TRY(get_rank(reader, line, "peer", comm->rank_count, &op.peer));
    if (!result || strcmp(result, "OK") != 0) {
        trace->failed_count++;
        return BLINK_OK;
    }
    if (trace->ops.count == TRACE_OPS_MOST)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "%s has more than %u ops", reader->path, TRACE_OPS_MOST);
    BLINK_TRY(read_arrivals(reader, line, comm->rank_count, began_us, &op));
    if (op.ended_us < op.all_came_us)
        return fail_key(reader, "ended_us", "after the last rank came");
    if (!vec_push(&trace->ops, op))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the ops of %s", reader->path);
    comm->op_count++;
    return BLINK_OK;
}

/* ---- the file ---- */

static blink_result_t read_header(const reader_t *reader, const json_t *line)
{
    const char *schema = json_string_value(json_object_get(line, "schema"));
    if (!schema)
        return fail_line(reader, "no \"schema\", so this is no trace; `blinkctl record` writes one");
    const char *topology = json_string_value(json_object_get(line, "topology"));
    reader->trace->pace_scale = json_number_value(json_object_get(line, "pace_scale"));
    reader->trace->topology = strdup(topology ? topology : "");
    if (!reader->trace->topology)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to read %s", reader->path);
    if (strcmp(schema, TRACE_SCHEMA) == 0)
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "%s has the schema \"%s\", and this version reads " TRACE_SCHEMA,
                      reader->path, schema);
}

static blink_result_t read_line(reader_t *reader, const json_t *line)
{
    if (!json_is_object(line))
        return fail_line(reader, "no JSON object");
    if (reader->line_number == 1)
        return read_header(reader, line);
    if (json_object_get(line, "op"))
        return read_op(reader, line);
    if (json_object_get(line, "devices"))
        return read_comm(reader, line);
    reader->has_ended = true;
    return get_number(reader, line, "missed", INT64_MAX, &reader->trace->missed_count);
}

static blink_result_t parse_line(reader_t *reader, size_t length)
{
    json_error_t error;
    json_t *line = json_loadb(reader->line, length, 0, &error);
    if (!line)
        return fail_line(reader, error.text);
    blink_result_t result = read_line(reader, line);
    json_decref(line);
    return result;
}

/* A line without its newline is one that was cut. */
static blink_result_t read_lines(reader_t *reader)
{
    while (!reader->has_ended && fgets(reader->line, LINE_BYTES, reader->in)) {
        size_t length = strlen(reader->line);
        reader->line_number++;
        if (length + 1 == LINE_BYTES)
            return fail_line(reader, "longer than any line of a trace");
        if (length == 0 || reader->line[length - 1] != '\n')
            break;
        BLINK_TRY(parse_line(reader, length));
    }
    if (ferror(reader->in))
        return BLINK_FAIL_ERRNO("read %s", reader->path);
    if (reader->line_number == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s is empty: it is no trace", reader->path);
    reader->trace->is_cut = !reader->has_ended;
    return BLINK_OK;
}

blink_result_t trace_read(const char *path, trace_t *trace)
{
    reader_t reader = {.path = path, .in = fopen(path, "re"), .trace = trace};
    *trace = (trace_t){0};
    if (!reader.in)
        return BLINK_FAIL_ERRNO("open %s", path);
    reader.line = malloc(LINE_BYTES);
    blink_result_t result =
        reader.line ? read_lines(&reader) : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to read %s", path);
    free(reader.line);
    fclose(reader.in);
    return result;
}

void trace_free(trace_t *trace)
{
    for (size_t i = 0; i < trace->comms.count; i++)
        free(trace->comms.items[i].places);
    free(trace->topology);
    vec_free(&trace->comms);
    vec_free(&trace->ops);
    vec_free(&trace->arrivals);
}

void trace_note_lacks(const char *program, const char *path, const trace_t *trace)
{
    if (trace->is_cut)
        fprintf(stderr, "%s: %s has no end: it was cut, and is taken up to there\n", program, path);
    if (trace->missed_count > 0)
        fprintf(stderr, "%s: %s lacks %lu op%s that ended unseen\n", program, path,
                (unsigned long)trace->missed_count, human_plural(trace->missed_count));
    if (trace->failed_count > 0)
        fprintf(stderr, "%s: %lu op%s of %s failed and %s left out\n", program,
                (unsigned long)trace->failed_count, human_plural(trace->failed_count), path,
                trace->failed_count == 1 ? "is" : "are");
}
