/* A simulation as tables, CSV or JSON. */
#include "simulate.h"

#include "ctl.h"
#include "names.h"
#include "request.h"
#include "tools/human.h"
#include "tools/table.h"

#include "collective.h"

#define FIXED_COLUMNS 4

/* ---- tables ---- */

static uint32_t busiest_link(const simulation_t *simulation, const simulate_point_t *point)
{
    uint32_t busiest = TOPO_NONE;
    double most_us = 0;
    for (uint32_t i = 0; i < simulation->topo->link_count; i++) {
        if (point->result.links[i].busy_us > most_us) {
            most_us = point->result.links[i].busy_us;
            busiest = i;
        }
    }
    return busiest;
}

static void add_point(table_t *table, const simulation_t *simulation, const simulate_point_t *point)
{
    const topo_t *topo = simulation->topo;
    char time[HUMAN_BYTES], algbw[HUMAN_BYTES], busbw[HUMAN_BYTES], plan[HUMAN_BYTES];
    uint32_t busiest = busiest_link(simulation, point);
    table_cell(table, "%llu", (unsigned long long)point->bytes);
    table_cell(table, "%s", blink_name_algorithm(point->algorithm));
    table_cell(table, "%s", blink_name_protocol(point->protocol));
    table_cell(table, "%llu", (unsigned long long)point->chunk_bytes);
    table_cell(table, "%u", point->slots);
    table_cell(table, "%s", human_number(point->result.time_us, time));
    table_cell(table, "%s", human_number(point->algbw_GBps, algbw));
    table_cell(table, "%s", human_number(point->busbw_GBps, busbw));
    table_cell(table, "%s", human_number(point->plan_GBps, plan));
    if (busiest == TOPO_NONE) {
        table_cell(table, "-");
        table_cell(table, "-");
        return;
    }
    table_cell(table, "%.1f%%", 100 * simulate_busy_share(point, busiest));
    table_cell(table, "%s to %s", topo->nodes[topo->links[busiest].from].id,
               topo->nodes[topo->links[busiest].to].id);
}

static blink_result_t print_points(const simulation_t *simulation)
{
    static const char *const headers[] = {"bytes",     "algorithm", "protocol",    "chunk",
                                          "slots",     "time us",   "algbw",       "busbw",
                                          "plan GB/s", "busy",      "busiest link"};
    table_t *table = table_create("rllrrnnnnrl", headers);
    for (uint32_t size = 0; size < simulation->size_count; size++)
        for (uint32_t curve = 0; curve < simulation->curve_count; curve++)
            add_point(table, simulation, simulation_at(simulation, curve, size));
    blink_result_t result = table_print(table, stdout);
    table_destroy(table);
    return result;
}

/* Every link that anything crossed, at the largest size. */
static blink_result_t print_links(const simulation_t *simulation)
{
    const topo_t *topo = simulation->topo;
    const char *headers[FIXED_COLUMNS + REQUEST_ALGORITHMS_MAX] = {"from", "to", "kind", "GB/s"};
    char alignment[] = "lllnnnnnnnnn";
    alignment[FIXED_COLUMNS + simulation->curve_count] = '\0';
    for (uint32_t curve = 0; curve < simulation->curve_count; curve++)
        headers[FIXED_COLUMNS + curve] = blink_name_algorithm(simulation->algorithms[curve]);
    table_t *table = table_create(alignment, headers);
    for (uint32_t i = 0; i < topo->link_count; i++) {
        uint64_t bytes = 0;
        char GBps[HUMAN_BYTES];
        for (uint32_t curve = 0; curve < simulation->curve_count; curve++)
            bytes += simulation_at(simulation, curve, simulation->size_count - 1)->result.links[i].bytes;
        if (bytes == 0)
            continue;
        table_cell(table, "%s", topo->nodes[topo->links[i].from].id);
        table_cell(table, "%s", topo->nodes[topo->links[i].to].id);
        table_cell(table, "%s", topo_link_kind_name(topo->links[i].kind));
        table_cell(table, "%s", human_number(topo->links[i].GBps, GBps));
        for (uint32_t curve = 0; curve < simulation->curve_count; curve++)
            table_cell(
                table, "%.1f%%",
                100 * simulate_busy_share(simulation_at(simulation, curve, simulation->size_count - 1), i));
    }
    blink_result_t result = table_print(table, stdout);
    table_destroy(table);
    return result;
}

blink_result_t simulate_print_table(const simulation_t *simulation)
{
    printf("%s on %s, %u rank%s; bandwidths in GB/s\n\n",
           blink_name_collective(simulation->request->collective), simulation->topo->name,
           simulation->request->rank_count, human_plural(simulation->request->rank_count));
    BLINK_TRY(print_points(simulation));
    if (simulation->request->rank_count == 1)
        return BLINK_OK; /* nothing moves */
    printf("\nBusy share of each link at %llu bytes:\n\n",
           (unsigned long long)simulation_at(simulation, 0, simulation->size_count - 1)->bytes);
    return print_links(simulation);
}

/* ---- CSV ---- */

void simulate_print_csv(const simulation_t *simulation)
{
    const topo_t *topo = simulation->topo;
    fputs(
        "collective,topology,ranks,algorithm,protocol,bytes,chunk_bytes,slots,time_us,algbw_GBps,busbw_GBps,"
        "plan_GBps",
        stdout);
    for (uint32_t i = 0; i < topo->link_count; i++)
        printf(",\"busy %s to %s\"", topo->nodes[topo->links[i].from].id, topo->nodes[topo->links[i].to].id);
    putchar('\n');
    size_t points = (size_t)simulation->curve_count * simulation->size_count;
    for (size_t at = 0; at < points; at++) {
        const simulate_point_t *point = &simulation->points[at];
        printf("%s,\"%s\",%u,%s,%s,%llu,%llu,%u,%.9g,%.9g,%.9g,%.9g",
               blink_name_collective(simulation->request->collective), topo->name,
               simulation->request->rank_count, blink_name_algorithm(point->algorithm),
               blink_name_protocol(point->protocol), (unsigned long long)point->bytes,
               (unsigned long long)point->chunk_bytes, point->slots, point->result.time_us, point->algbw_GBps,
               point->busbw_GBps, point->plan_GBps);
        for (uint32_t i = 0; i < topo->link_count; i++)
            printf(",%.4f", simulate_busy_share(point, i));
        putchar('\n');
    }
}

/* ---- JSON ---- */

static json_t *json_of_links(const topo_t *topo, const simulate_point_t *point)
{
    json_t *links = json_array();
    for (uint32_t i = 0; i < topo->link_count; i++)
        json_array_append_new(links,
                              json_pack("{s:s, s:s, s:I, s:f}", "from", topo->nodes[topo->links[i].from].id,
                                        "to", topo->nodes[topo->links[i].to].id, "bytes",
                                        (json_int_t)point->result.links[i].bytes, "busy",
                                        simulate_busy_share(point, i)));
    return links;
}

static json_t *json_of_point(const simulation_t *simulation, const simulate_point_t *point)
{
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:o}", "algorithm",
                     blink_name_algorithm(point->algorithm), "protocol", blink_name_protocol(point->protocol),
                     "bytes", (json_int_t)point->bytes, "chunk_bytes", (json_int_t)point->chunk_bytes,
                     "slots", (json_int_t)point->slots, "time_us", point->result.time_us, "algbw_GBps",
                     point->algbw_GBps, "busbw_GBps", point->busbw_GBps, "plan_GBps", point->plan_GBps,
                     "steps", (json_int_t)point->result.step_count, "links",
                     json_of_links(simulation->topo, point));
}

blink_result_t simulate_print_json(const simulation_t *simulation)
{
    json_t *ranks = json_array(), *results = json_array();
    for (uint32_t i = 0; i < simulation->request->rank_count; i++)
        json_array_append_new(ranks,
                              json_string(simulation->topo->nodes[simulation->request->rank_node[i]].id));
    size_t points = (size_t)simulation->curve_count * simulation->size_count;
    for (size_t i = 0; i < points; i++)
        json_array_append_new(results, json_of_point(simulation, &simulation->points[i]));
    blink_collective_t collective = simulation->request->collective;
    json_t *root = collective_has_root(collective) ? json_integer(simulation->request->root) : json_null();
    json_t *all = json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "schema", "blink-simulation/1", "collective",
                            blink_name_collective(collective), "topology", simulation->topo->name, "ranks",
                            ranks, "root", root, "results", results);
    return ctl_print_json(all, JSON_INDENT(2));
}
