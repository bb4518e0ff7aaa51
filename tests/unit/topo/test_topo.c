/*
 * Topologies: the built-ins, our file format with everything it must refuse, merging, and every printed form.
 */
#include <libxml/parser.h>

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "topo/reached.h"
#include "topo_bad_inputs.h"
#include "topo_check.h"

static void test_every_builtin_loads_and_reads_back_equal(void **state)
{
    (void)state;
    uint32_t count = 0;
    for (const char *const *name = topo_builtin_names(); *name; name++, count++) {
        topo_t *topo = load(*name);
        assert_string_equal(topo->name, *name);
        assert_indexed(topo);
        assert_reads_back_equal(topo);
        topo_destroy(topo);
    }
    assert_int_equal(count, 11);
}

static void test_builtin_dgx1v_hybrid_is_the_machine(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v_hybrid");
    assert_int_equal(topo->gpu_count, 8);
    assert_int_equal(topo->node_count, 14);
    assert_int_equal(topo->link_count, 58);
    assert_link(topo, "gpu0", "gpu3", TOPO_NVLINK, 50);
    assert_link(topo, "gpu3", "gpu0", TOPO_NVLINK, 50);
    assert_true(link_between(topo, "gpu0", "gpu3")->unit_GBps == 25);
    assert_link(topo, "gpu0", "gpu1", TOPO_NVLINK, 25);
    assert_link(topo, "cpu1", "cpu0", TOPO_QPI, 19.2);
    assert_false(linked(topo, "gpu0", "gpu5"));
    assert_int_equal(topo_find_node(topo, "gpu8"), TOPO_NONE);
    topo_destroy(topo);
}

static void test_fields_left_out_take_their_defaults(void **state)
{
    (void)state;
    topo_t *topo =
        parse("{\"schema\":\"blink-topology/1\",\"nodes\":[" GPUS "],\"links\":[" LINK("\"GBps\":3") "]}");
    assert_string_equal(topo->name, "test");
    assert_string_equal(topo->nodes[0].host, "");
    assert_true(topo->links[0].GBps == 3 && topo->links[0].latency_us == 1);
    assert_true(linked(topo, "b", "a"));
    topo_destroy(topo);
}

static void test_parallel_links_add_up_and_the_fastest_names_them(void **state)
{
    (void)state;
    topo_t *topo = parse(TOPOLOGY(
        GPUS,
        "{\"from\":\"a\",\"to\":\"b\",\"kind\":\"pcie\",\"GBps\":11.1,\"latency_us\":2,\"duplex\":false},"
        "{\"from\":\"b\",\"to\":\"a\",\"kind\":\"nvlink\",\"GBps\":20.6,\"count\":3,\"latency_us\":0.7},"
        "{\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\",\"GBps\":20.6,\"duplex\":false}"));
    assert_int_equal(topo->link_count, 2);
    assert_link(topo, "a", "b", TOPO_NVLINK, 11.1 + 4 * 20.6);
    assert_link(topo, "b", "a", TOPO_NVLINK, 3 * 20.6);
    assert_true(link_between(topo, "a", "b")->unit_GBps == 20.6);
    assert_true(link_between(topo, "a", "b")->latency_us == 0.7);
    assert_reads_back_equal(topo);
    topo_destroy(topo);
}

static void test_one_way_links_stay_one_way_and_in_order(void **state)
{
    (void)state;
    topo_t *topo = parse(
        TOPOLOGY(GPUS ",{\"id\":\"s\",\"kind\":\"switch\",\"multicast\":true,\"GBps_total\":0.1}",
                 "{\"from\":\"a\",\"to\":\"b\",\"kind\":\"shm\",\"GBps\":0.1,\"count\":7,\"duplex\":false},"
                 "{\"from\":\"a\",\"to\":\"s\",\"kind\":\"net\",\"GBps\":1e-3,\"duplex\":false},"
                 "{\"from\":\"b\",\"to\":\"a\",\"kind\":\"shm\",\"GBps\":0.1,\"count\":7,\"duplex\":false}"));
    assert_int_equal(topo->link_count, 3);
    assert_false(linked(topo, "s", "a"));
    assert_true(topo->nodes[2].multicast && topo->nodes[2].total_GBps == 0.1);
    assert_reads_back_equal(topo);
    topo_destroy(topo);
}

static void test_nvswitches_reduce_from_the_third_generation_on(void **state)
{
    static const struct {
        const char *machine, *node;
        bool reduces;
    } machines[] = {{"dgx_h100", "nvsw3", true},
                    {"2xdgx_h100", "nvsw1_3", true},
                    {"dgx_a100", "nvsw0", false},
                    {"dgx2", "nvsw0", false}};
    (void)state;
    for (size_t i = 0; i < sizeof(machines) / sizeof(*machines); i++) {
        char *table = NULL;
        topo_t *topo = load(machines[i].machine);
        assert_reduces(topo, machines[i].node, machines[i].reduces);
        assert_int_equal(topo_has_reducing_switch(topo), machines[i].reduces);
        assert_reads_back_equal(topo);
        assert_int_equal(topo_write_table(topo, &table), BLINK_OK);
        assert_int_equal(strstr(table, "  multicast, reduces\n") != NULL, machines[i].reduces);
        free(table);
        topo_destroy(topo);
    }
}

static void test_pairs_that_are_no_peers(void **state)
{
    (void)state;
    topo_t *topo = parse(NON_PEERS("[\"b\",\"a\"],[\"a\",\"b\"]")), *host = NULL;
    uint32_t image[3];
    char *table = NULL;
    assert_int_equal(topo->non_peer_count, 1);
    assert_false(topo_are_peers(topo, 0, 1) || topo_are_peers(topo, 1, 0));
    assert_true(topo_are_peers(topo, 0, 0));
    assert_reads_back_equal(topo);
    assert_int_equal(topo_write_table(topo, &table), BLINK_OK);
    assert_text_has(table, "no peers: what they send goes through memory of the host\na     b\n");
    assert_int_equal(topo_crop_to_host(topo, 0, image, &host), BLINK_OK);
    assert_false(topo_are_peers(host, image[0], image[1]));
    free(table);
    topo_destroy(host);
    topo_destroy(topo);
}

/* The machine as GPUs use it. */
static topo_t *reached(const char *what)
{
    topo_t *named = load(what), *topo = NULL;
    const topo_pair_t pair = {named->gpus[1], named->gpus[2]};
    assert_int_equal(topo_add_non_peers(named, &pair, 1), BLINK_OK);
    assert_int_equal(topo_as_reached(named, &topo), BLINK_OK);
    assert_int_equal(topo->gpu_count, named->gpu_count);
    for (uint32_t i = 0; i < topo->gpu_count; i++)
        assert_string_equal(topo->nodes[topo->gpus[i]].id, named->nodes[named->gpus[i]].id);
    assert_int_equal(topo->non_peer_count, 1);
    assert_false(topo_are_peers(topo, topo->gpus[1], topo->gpus[2]));
    assert_indexed(topo);
    topo_destroy(named);
    return topo;
}

static void test_gpus_reach_a_part_of_nvlink(void **state)
{
    (void)state;
    topo_t *topo = reached("dgx1v_hybrid");
    assert_link(topo, "gpu0", "gpu3", TOPO_NVLINK, 40);
    assert_true(link_between(topo, "gpu0", "gpu3")->unit_GBps == 20);
    assert_link(topo, "gpu0", "plx0", TOPO_PCIE, 11);
    topo_destroy(topo);
    topo = reached("gh200x4");
    assert_link(topo, "gpu0", "gpu1", TOPO_NVLINK, 120);
    assert_link(topo, "gpu0", "cpu0", TOPO_NVLINK, 450);
    topo_destroy(topo);
}

static void test_gpus_see_one_nvswitch_on_each_host(void **state)
{
    (void)state;
    topo_t *topo = reached("dgx_h100");
    assert_int_equal(topo->node_count, 9);
    assert_link(topo, "gpu7", "nvsw0", TOPO_NVSWITCH, 0.8 * 450);
    assert_reduces(topo, "nvsw0", true);
    assert_link(topo, "nvsw0", "gpu7", TOPO_NVSWITCH, 0.8 * 450);
    topo_destroy(topo);
    topo_t *one = reached("1xdgx_a100");
    topo = reached("2xdgx_a100");
    assert_int_equal(topo->node_count, 2 * one->node_count - 1); /* the network is the same */
    topo_destroy(one);
    topo_destroy(topo);
}

static void test_bad_json_is_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_json) / sizeof(bad_json[0]); i++)
        assert_refused(topo_parse_json, &bad_json[i]);
}

static void test_long_names_leave_room_for_the_reason(void **state)
{
    (void)state;
    char source[2000], json[4000];
    memset(source, 'p', sizeof(source));
    source[sizeof(source) - 1] = '\0';
    snprintf(json, sizeof(json),
             TOPOLOGY(GPUS, "{\"from\":\"%s\",\"to\":\"a\",\"kind\":\"pcie\",\"GBps\":1}"), source);
    topo_t *topo = NULL;
    assert_int_equal(topo_parse_json(json, strlen(json), source, &topo), BLINK_ERR_INVALID_ARGUMENT);
    assert_text_has(blink_error_text(), "there is no node");
}

static void test_unknown_topology_lists_the_builtins(void **state)
{
    (void)state;
    topo_t *topo = NULL;
    assert_int_equal(topo_load("nowhere", &topo), BLINK_ERR_NOT_FOUND);
    assert_text_has(blink_error_text(), "nowhere");
    for (const char *const *name = topo_builtin_names(); *name; name++)
        assert_text_has(blink_error_text(), *name);
    assert_int_equal(topo_load("4xdgx1w", &topo), BLINK_ERR_NOT_FOUND);
    assert_text_has(blink_error_text(), "did you mean 'dgx1v'?");
}

/* A path that does not exist yet, in a fresh directory. */
static void temporary_path(char path[64])
{
    char directory[] = "/tmp/blink-topo-XXXXXX";
    assert_non_null(mkdtemp(directory));
    snprintf(path, 64, "%s/file", directory);
}

static void remove_temporary(char path[64])
{
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_only_regular_files_are_read(void **state)
{
    (void)state;
    char path[64];
    temporary_path(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    topo_t *topo = NULL;
    assert_int_equal(topo_load(path, &topo), BLINK_ERR_NOT_FOUND);
    assert_text_has(blink_error_text(), "not a regular file");
    assert_int_equal(topo_load("/", &topo), BLINK_ERR_NOT_FOUND);
    remove_temporary(path);
}

static void test_files_are_told_apart_by_content(void **state)
{
    (void)state;
    char path[64];
    temporary_path(path);
    topo_t *topo = NULL;
    write_file(path, "\xef\xbb\xbf \n" TOPOLOGY(GPUS, LINK("\"GBps\":1")));
    topo_destroy(load(path));
    write_file(path, "\xef\xbb\xbf" SYSTEM(PCI_GPU("")));
    topo_destroy(load(path));
    write_file(path, "gpu0 gpu1 25\n");
    assert_int_equal(topo_load(path, &topo), BLINK_ERR_INVALID_ARGUMENT);
    assert_text_has(blink_error_text(), path);
    write_file(path, "");
    assert_int_equal(topo_load(path, &topo), BLINK_ERR_INVALID_ARGUMENT);
    remove_temporary(path);
}

static void test_huge_files_are_refused_unread(void **state)
{
    (void)state;
    char path[64];
    temporary_path(path);
    write_file(path, "{");
    assert_int_equal(truncate(path, ((off_t)64 << 20) + 1), 0);
    topo_t *topo = NULL;
    assert_int_equal(topo_load(path, &topo), BLINK_ERR_INVALID_ARGUMENT);
    assert_text_has(blink_error_text(), "67108865 bytes");
    remove_temporary(path);
}

/* One with every character that an output format gives a meaning to, and a part that no gpu reaches. */
static topo_t *awkward_topology(void)
{
    return parse(
        TOPOLOGY("{\"id\":\"<a&\\\"'>\",\"kind\":\"gpu\",\"host\":\"h\\\\\"},"
                 "{\"id\":\"b\",\"kind\":\"gpu\"},{\"id\":\"c\",\"kind\":\"cpu\",\"GBps_total\":9},"
                 "{\"id\":\"lone\",\"kind\":\"nic\"}",
                 "{\"from\":\"<a&\\\"'>\",\"to\":\"b\",\"kind\":\"shm\",\"GBps\":2.5,\"duplex\":false},"
                 "{\"from\":\"b\",\"to\":\"c\",\"kind\":\"pcie\",\"GBps\":0.001}"));
}

static uint32_t count_elements(const xmlNode *node, const char *name)
{
    uint32_t count = 0;
    for (; node; node = node->next) {
        if (node->type == XML_ELEMENT_NODE)
            count += (strcmp((const char *)node->name, name) == 0) + count_elements(node->children, name);
    }
    return count;
}

static void assert_svg_draws(const topo_t *topo, uint32_t lines)
{
    char *svg = NULL;
    assert_int_equal(topo_write_svg(topo, &svg), BLINK_OK);
    assert_null(strstr(svg, "nan"));
    xmlDoc *document = xmlReadMemory(svg, (int)strlen(svg), NULL, NULL, XML_PARSE_NONET);
    assert_non_null(document);
    const xmlNode *root = xmlDocGetRootElement(document);
    assert_string_equal((const char *)root->name, "svg");
    assert_int_equal(count_elements(root, "title"), lines + 1); /* the one of the picture */
    assert_true(count_elements(root, "text") >= topo->node_count);
    xmlFreeDoc(document);
    free(svg);
}

static void test_svg_is_well_formed_and_draws_every_link(void **state)
{
    (void)state;
    topo_t *topo = awkward_topology();
    assert_svg_draws(topo, 2);
    topo_destroy(topo);
    for (const char *const *name = topo_builtin_names(); *name; name++) {
        topo = load(*name);
        assert_svg_draws(topo, topo->link_count / 2);
        topo_destroy(topo);
    }
}

static void test_dot_escapes_and_draws_both_directions_once(void **state)
{
    (void)state;
    topo_t *topo = awkward_topology();
    char *dot = NULL;
    assert_int_equal(topo_write_dot(topo, &dot), BLINK_OK);
    assert_text_has(dot, "digraph \"t\" {");
    assert_text_has(dot, "label=\"h\\\\\"");
    assert_text_has(dot, "\"<a&\\\"'>\" -> \"b\" [label=\"shm 2.50\", penwidth=5.00];");
    assert_text_has(dot, "\"b\" -> \"c\" [label=\"pcie 0.001\", penwidth=1.00, dir=both];");
    assert_null(strstr(dot, "\"c\" -> \"b\""));
    free(dot);
    topo_destroy(topo);
}

static void test_table_is_ascii_and_aligned(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v_hybrid");
    char *table = NULL;
    assert_int_equal(topo_write_table(topo, &table), BLINK_OK);
    assert_text_has(table, "dgx1v_hybrid: 8 gpu, 4 switch, 0 nic, 2 cpu, 58 directed links\n");
    assert_text_has(table, "\ngpu0  gpu     n0        161.00      161.00\n");
    assert_text_has(table, "\ncpu0  cpu1  qpi            19.20       19.20        2.00\n");
    for (const char *c = table; *c; c++)
        assert_true(*c == '\n' || (*c >= ' ' && *c <= '~'));
    size_t header = strcspn(strstr(table, "from  to"), "\n");
    for (const char *line = strstr(table, "from  to"); *line; line += header + 1)
        assert_int_equal(strcspn(line, "\n"), header);
    free(table);
    topo_destroy(topo);
}

static void test_table_tells_limits_and_one_way_links(void **state)
{
    (void)state;
    topo_t *topo = awkward_topology();
    char *table = NULL;
    assert_int_equal(topo_write_table(topo, &table), BLINK_OK);
    assert_text_has(table, "at most 9.00 in all");
    assert_text_has(table, "2.50           -");
    free(table);
    topo_destroy(topo);
}

static void test_output_keeps_its_decimal_point_in_any_locale(void **state)
{
    (void)state;
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8"))
        skip();
    topo_t *topo = load("pcie8");
    assert_reads_back_equal(topo);
    char *table = NULL;
    assert_int_equal(topo_write_table(topo, &table), BLINK_OK);
    assert_text_has(table, "19.20");
    setlocale(LC_NUMERIC, "C");
    free(table);
    topo_destroy(topo);
}

static void test_builder_checks_when_it_finishes(void **state)
{
    (void)state;
    topo_builder_t *builder = NULL;
    topo_t *topo = NULL;
    assert_int_equal(topo_build_create("hand", "by hand", &builder), BLINK_OK);
    char id[] = "gpu0";
    assert_int_equal(topo_build_node(builder, &(topo_node_t){.id = id, .kind = TOPO_DEVICE}), BLINK_OK);
    assert_int_equal(topo_build_link(builder, "gpu0", "gpu1", TOPO_SHM, NAN, 1, 1, true), BLINK_OK);
    assert_int_equal(topo_build_finish(builder, &topo), BLINK_ERR_INVALID_ARGUMENT);
    assert_text_has(blink_error_text(), "no node gpu1");
    id[3] = '1';
    assert_int_equal(topo_build_node(builder, &(topo_node_t){.id = id, .kind = TOPO_DEVICE}), BLINK_OK);
    assert_int_equal(topo_build_finish(builder, &topo), BLINK_ERR_INVALID_ARGUMENT);
    assert_text_has(blink_error_text(), "link gpu0 to gpu1: GBps must be finite and above 0, not nan");
    topo_build_destroy(builder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_builtin_loads_and_reads_back_equal),
        cmocka_unit_test(test_builtin_dgx1v_hybrid_is_the_machine),
        cmocka_unit_test(test_fields_left_out_take_their_defaults),
        cmocka_unit_test(test_parallel_links_add_up_and_the_fastest_names_them),
        cmocka_unit_test(test_one_way_links_stay_one_way_and_in_order),
        cmocka_unit_test(test_nvswitches_reduce_from_the_third_generation_on),
        cmocka_unit_test(test_pairs_that_are_no_peers),
        cmocka_unit_test(test_gpus_reach_a_part_of_nvlink),
        cmocka_unit_test(test_gpus_see_one_nvswitch_on_each_host),
        cmocka_unit_test(test_bad_json_is_refused_by_name),
        cmocka_unit_test(test_long_names_leave_room_for_the_reason),
        cmocka_unit_test(test_unknown_topology_lists_the_builtins),
        cmocka_unit_test(test_only_regular_files_are_read),
        cmocka_unit_test(test_files_are_told_apart_by_content),
        cmocka_unit_test(test_huge_files_are_refused_unread),
        cmocka_unit_test(test_svg_is_well_formed_and_draws_every_link),
        cmocka_unit_test(test_dot_escapes_and_draws_both_directions_once),
        cmocka_unit_test(test_table_is_ascii_and_aligned),
        cmocka_unit_test(test_table_tells_limits_and_one_way_links),
        cmocka_unit_test(test_output_keeps_its_decimal_point_in_any_locale),
        cmocka_unit_test(test_builder_checks_when_it_finishes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
