/*
 * Plans as text: JSON of routes and of names that need escaping, the table's head and rows, and pictures,
 * whose every stroke must be the load that the plan puts there.
 */
#include "plan_checks.h"

#include "topo/topo.h"

#include <jansson.h>
#include <libxml/parser.h>

typedef blink_result_t writer_t(const topo_t *topo, const plan_t *plan, char **text);

/* Not inlined: gcc 12 takes what is found in the text for a pointer to the local variable. */
__attribute__((noinline)) static char *write_as(writer_t *writer, const topo_t *topo, const plan_t *plan)
{
    char *text = NULL;
    if (writer(topo, plan, &text) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    return text;
}

static char *write_table(const topo_t *topo, const plan_t *plan, uint64_t bytes)
{
    char *text = NULL;
    if (plan_write_table(topo, plan, bytes, &text) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    return text;
}

static uint32_t count(const char *text, const char *what)
{
    uint32_t found = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
        found++;
    return found;
}

/* `hosts` hosts of `gpus` gpus behind a switch each, one network between them; ids are h0g0, …. */
static topo_t *build_hosts(uint32_t hosts, uint32_t gpus)
{
    topo_builder_t *builder;
    topo_t *topo = NULL;
    char id[32], host[32], inner[32];
    topo_node_t node = {.id = id, .host = host};
    assert_int_equal(topo_build_create("hosts", "test", &builder), BLINK_OK);
    assert_int_equal(topo_build_node(builder, &(topo_node_t){.id = "net", .host = "", .kind = TOPO_SWITCH}),
                     BLINK_OK);
    for (uint32_t h = 0; h < hosts; h++) {
        snprintf(host, sizeof(host), "h%u", h);
        snprintf(inner, sizeof(inner), "h%usw", h);
        snprintf(id, sizeof(id), "%s", inner);
        node.kind = TOPO_SWITCH;
        assert_int_equal(topo_build_node(builder, &node), BLINK_OK);
        assert_int_equal(topo_build_link(builder, inner, "net", TOPO_NET, 25.0, 1, 1.0, true), BLINK_OK);
        node.kind = TOPO_DEVICE;
        for (uint32_t g = 0; g < gpus; g++) {
            snprintf(id, sizeof(id), "h%ug%u", h, g);
            assert_int_equal(topo_build_node(builder, &node), BLINK_OK);
            assert_int_equal(topo_build_link(builder, id, inner, TOPO_NVSWITCH, 300.0, 1, 1.0, true),
                             BLINK_OK);
        }
    }
    assert_int_equal(topo_build_finish(builder, &topo), BLINK_OK);
    topo_build_destroy(builder);
    return topo;
}

static plan_t *make_all(const topo_t *topo, blink_collective_t collective)
{
    plan_request_t request = {.collective = collective,
                              .algorithm = BLINK_ALGORITHM_TREES,
                              .rank_node = topo->gpus,
                              .rank_count = topo->gpu_count};
    plan_t *plan = NULL;
    if (plan_create(topo, &request, &plan) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    return plan;
}

/* A sendrecv of three gpus in a row, made by hand: 0 to 2 by way of 1, where a switch stands in between. */
static plan_t *route_by_hand(const topo_t *topo)
{
    plan_t *plan = calloc(1, sizeof(*plan));
    plan_channel_t *channel;
    uint32_t first[2] = {topo_find_link(topo, 0, 3), topo_find_link(topo, 3, 1)};
    uint32_t second = topo_find_link(topo, 1, 2);
    plan->collective = BLINK_SENDRECV;
    plan->algorithm = BLINK_ALGORITHM_ONE_HOP;
    plan->rank_count = 3;
    plan->rank_node = malloc(3 * sizeof(*plan->rank_node));
    memcpy(plan->rank_node, topo->gpus, 3 * sizeof(*plan->rank_node));
    plan->peer = 2;
    plan->rate_GBps = plan->bound_GBps = 10.0;
    assert_int_equal(plan_add_channel(plan, 1.0, 1, &channel), BLINK_OK);
    assert_int_equal(plan_set_route(&channel->parts[0], 2), BLINK_OK);
    for (uint32_t i = 0; i < 3; i++)
        channel->parts[0].route.ranks[i] = i;
    assert_int_equal(plan_intern_path(plan, first, 2, &channel->parts[0].route.paths[0]), BLINK_OK);
    assert_int_equal(plan_intern_path(plan, &second, 1, &channel->parts[0].route.paths[1]), BLINK_OK);
    return plan;
}

#define ROW_NODES GPU("g&0") "," GPU("g1") "," GPU("g2") "," SWITCH("s\\\"<")
#define ROW_LINKS LINK("g&0", "s\\\"<", "10.0") "," LINK("s\\\"<", "g1", "10.0") "," LINK("g1", "g2", "10.0")

static void test_json_of_a_route_names_both_ends_and_escapes(void **state)
{
    topo_t *topo = parse(ROW_NODES, ROW_LINKS);
    plan_t *plan = route_by_hand(topo);
    (void)state;
    char *text = write_as(plan_write_json, topo, plan);
    json_t *object = json_loads(text, 0, NULL);
    json_t *tree = json_array_get(json_object_get(object, "trees"), 0);
    json_t *path = json_object_get(json_array_get(json_object_get(tree, "edges"), 0), "path");
    assert_string_equal(json_string_value(json_object_get(tree, "phase")), "route");
    assert_string_equal(json_string_value(json_object_get(tree, "from")), "g&0");
    assert_string_equal(json_string_value(json_object_get(tree, "to")), "g2");
    assert_null(json_object_get(tree, "root"));
    assert_int_equal(json_array_size(json_object_get(tree, "edges")), 2);
    assert_string_equal(json_string_value(json_array_get(path, 1)), "s\"<");
    assert_true(json_is_real(json_object_get(tree, "share")));
    json_decref(object);
    free(text);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_pictures_escape_names(void **state)
{
    topo_t *topo = parse(ROW_NODES, ROW_LINKS);
    plan_t *plan = route_by_hand(topo);
    (void)state;
    char *svg = write_as(plan_write_svg, topo, plan), *dot = write_as(plan_write_dot, topo, plan);
    xmlDocPtr document = xmlReadMemory(svg, (int)strlen(svg), "svg", NULL, XML_PARSE_NONET);
    assert_non_null(document);
    assert_non_null(strstr(svg, "sendrecv from g&amp;0 to g2"));
    assert_non_null(strstr(dot, "\"g&0\" -> \"s\\\"<\" "));
    xmlFreeDoc(document);
    free(dot);
    free(svg);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_table_tells_what_a_size_takes(void **state)
{
    topo_t *topo = load("dgx1v");
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_RING, 0xff);
    (void)state;
    char *plain = write_table(topo, plan, 0), *sized = write_table(topo, plan, 1 << 20);
    assert_non_null(strstr(plain, "allreduce on dgx1v, 8 ranks: ring, simple protocol\nplan "));
    assert_non_null(strstr(plain, "\ntrees 192, channels 12, depth 14\n"));
    assert_null(strstr(plain, "predicted"));
    assert_non_null(strstr(sized, "1048576 bytes: "));
    assert_non_null(strstr(sized, " us predicted, "));
    free(sized);
    free(plain);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_table_wraps_its_edges(void **state)
{
    topo_t *topo = load("2x_dgx1v_100g");
    plan_t *plan = make(topo, BLINK_BROADCAST, BLINK_ALGORITHM_TREES, 0xffff);
    (void)state;
    char *text = write_table(topo, plan, 0);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        assert_true(strlen(line) <= 120);
    free(text);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_table_of_many_ranks_counts_edges_and_shows_templates(void **state)
{
    topo_t *topo = build_hosts(9, 8);
    plan_t *plan = make_all(topo, BLINK_ALLREDUCE);
    (void)state;
    char *text = write_table(topo, plan, 0), head[64];
    assert_true(plan->symmetry_count > 0);
    snprintf(head, sizeof(head), "each stands for its %u images", (unsigned)plan_image_count(plan));
    assert_non_null(strstr(text, head));
    assert_non_null(strstr(text, "  71\n"));
    assert_null(strstr(text, ">"));
    free(text);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_one_rank_is_shown_in_every_form(void **state)
{
    topo_t *topo = load("dgx1v");
    plan_t *plan = make(topo, BLINK_BROADCAST, BLINK_ALGORITHM_TREES, 0x08);
    (void)state;
    char *table = write_table(topo, plan, 4096), *svg = write_as(plan_write_svg, topo, plan);
    char *dot = write_as(plan_write_dot, topo, plan), *json = write_as(plan_write_json, topo, plan);
    assert_non_null(strstr(table, "broadcast from gpu3 on dgx1v, 1 rank:"));
    assert_non_null(strstr(table, "nothing moves"));
    assert_non_null(strstr(svg, "nothing moves"));
    assert_int_equal(count(dot, "->"), 0);
    assert_non_null(strstr(json, "\"trees\": []"));
    free(json);
    free(dot);
    free(svg);
    free(table);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* Adds up what the strokes of an SVG say of each link. Returns how many strokes there are. */
static uint32_t read_strokes(const topo_t *topo, const char *svg, double *loads)
{
    static const char unit[] = "% of the payload";
    uint32_t strokes = 0;
    for (const char *end = strstr(svg, unit); end != NULL; end = strstr(end + 1, unit), strokes++) {
        char from[32], to[32];
        const char *title = end, *number = end;
        while (strncmp(title, "<title>", 7) != 0)
            title--;
        while (number[-1] != ' ')
            number--;
        assert_int_equal(sscanf(title, "<title>%31s to %31[^:]", from, to), 2);
        uint32_t link = topo_find_link(topo, topo_find_node(topo, from), topo_find_node(topo, to));
        assert_true(link != TOPO_NONE);
        loads[link] += strtod(number, NULL) / 100.0;
    }
    return strokes;
}

static void check_strokes(const char *name, blink_collective_t collective, blink_algorithm_t algorithm,
                          uint32_t groups)
{
    topo_t *topo = load(name);
    plan_t *plan = make(topo, collective, algorithm, 0xff);
    double *said = calloc(topo->link_count, sizeof(*said)), *loads = calloc(topo->link_count, sizeof(*loads));
    char *svg = write_as(plan_write_svg, topo, plan);
    xmlDocPtr document = xmlReadMemory(svg, (int)strlen(svg), "svg", NULL, XML_PARSE_NONET);
    assert_non_null(document);
    assert_true(read_strokes(topo, svg, said) > 0);
    assert_int_equal(plan_link_loads(topo, plan, loads), BLINK_OK);
    for (uint32_t link = 0; link < topo->link_count; link++)
        if (fabs(said[link] - loads[link]) > 1e-3)
            fail_msg("%s: link %u carries %f, drawn are %f", name, link, loads[link], said[link]);
    assert_int_equal(count(svg, "width=\"16\""), groups); /* the legend's */
    xmlFreeDoc(document);
    free(svg);
    free(loads);
    free(said);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_strokes_are_the_loads_by_tree_by_channel_and_by_root(void **state)
{
    (void)state;
    check_strokes("dgx1v", BLINK_BROADCAST, BLINK_ALGORITHM_TREES, 6);
    check_strokes("dgx1v", BLINK_ALLREDUCE, BLINK_ALGORITHM_RING, 12);
    check_strokes("dgx_a100", BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, 8);
}

/* The width of the stroke with this title. */
static double width_of(const char *svg, const char *title)
{
    const char *at = strstr(svg, title);
    if (at == NULL)
        fail_msg("no stroke %s", title);
    while (strncmp(at, "stroke-width=\"", 14) != 0)
        at--;
    return strtod(at + 14, NULL);
}

/* {0,1,4} of a dgx1v fills a 25 GB/s link and half of a 50 GB/s one. */
static void test_a_full_link_is_drawn_full(void **state)
{
    topo_t *topo = load("dgx1v");
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, 0x13);
    (void)state;
    char *svg = write_as(plan_write_svg, topo, plan);
    double track = width_of(svg, "<title>gpu0 to gpu1: nvlink, 100.0% busy");
    assert_close(width_of(svg, "<title>gpu0 to gpu1: broadcast from gpu0"), track);
    assert_close(width_of(svg, "<title>gpu0 to gpu4: nvlink, 50.0% busy"), track);
    assert_close(width_of(svg, "<title>gpu0 to gpu4: broadcast from gpu0"), track / 2);
    free(svg);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_a_large_plan_is_drawn_by_one_host(void **state)
{
    topo_t *topo = build_hosts(9, 8), *cropped;
    plan_t *plan = make_all(topo, BLINK_ALLREDUCE);
    uint32_t *image = calloc(topo->node_count, sizeof(*image));
    (void)state;
    assert_int_equal(topo_crop_to_host(topo, topo->gpus[16], image, &cropped), BLINK_OK);
    assert_int_equal(cropped->gpu_count, 8);
    assert_int_equal(cropped->node_count, 10);
    assert_int_equal(cropped->link_count, 18);
    assert_string_equal(cropped->nodes[image[topo->gpus[16]]].id, "h2g0");
    assert_int_equal(image[topo->gpus[0]], TOPO_NONE);
    char *svg = write_as(plan_write_svg, topo, plan);
    assert_non_null(strstr(svg, ">h0g7</text>"));
    assert_non_null(strstr(svg, ">net</text>"));
    assert_null(strstr(svg, ">h1g0</text>"));
    assert_non_null(strstr(svg, "8 of 72 gpus"));
    free(svg);
    free(image);
    topo_destroy(cropped);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_a_host_too_large_to_draw_is_named(void **state)
{
    topo_t *topo = build_hosts(1, 65);
    plan_t *plan = make_all(topo, BLINK_BROADCAST);
    char *svg = NULL;
    (void)state;
    assert_int_equal(plan_write_svg(topo, plan, &svg), BLINK_ERR_UNSUPPORTED);
    assert_non_null(strstr(blink_error_text(), "65 gpus"));
    assert_non_null(strstr(blink_error_text(), "64"));
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_graphviz_has_an_edge_per_tree_and_link(void **state)
{
    topo_t *topo = load("dgx1v");
    plan_t *plan = make(topo, BLINK_BROADCAST, BLINK_ALGORITHM_TREES, 0xff);
    (void)state;
    char *dot = write_as(plan_write_dot, topo, plan);
    assert_int_equal(count(dot, "->"), 6 * 7);
    assert_int_equal(count(dot, "tooltip=\"broadcast from gpu0: 16.667%\""), 6 * 7);
    assert_int_equal(count(dot, "shape=ellipse"), 8);
    free(dot);
    plan_destroy(plan);
    topo_destroy(topo);
    topo = load("dgx2");
    plan = make(topo, BLINK_BROADCAST, BLINK_ALGORITHM_TREES, 0xff);
    dot = write_as(plan_write_dot, topo, plan);
    assert_non_null(strstr(dot, "\"nvsw0\" [shape=box]"));
    free(dot);
    plan_destroy(plan);
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_of_a_route_names_both_ends_and_escapes),
        cmocka_unit_test(test_pictures_escape_names),
        cmocka_unit_test(test_table_tells_what_a_size_takes),
        cmocka_unit_test(test_table_wraps_its_edges),
        cmocka_unit_test(test_table_of_many_ranks_counts_edges_and_shows_templates),
        cmocka_unit_test(test_one_rank_is_shown_in_every_form),
        cmocka_unit_test(test_strokes_are_the_loads_by_tree_by_channel_and_by_root),
        cmocka_unit_test(test_a_full_link_is_drawn_full),
        cmocka_unit_test(test_a_large_plan_is_drawn_by_one_host),
        cmocka_unit_test(test_a_host_too_large_to_draw_is_named),
        cmocka_unit_test(test_graphviz_has_an_edge_per_tree_and_link),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    plan_thread_release();
    xmlCleanupParser();
    return failed;
}
