/*
 * Fabric files: names of many things in one word, what a file says, and what one that is wrong says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topo/fabric_file.h"
#include "topo/read/name_range.h"
#include "topo_check.h"

static blink_result_t read_text(const char *text, fabric_file_t **file)
{
    FILE *open = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(open);
    *file = NULL;
    blink_result_t result = fabric_file_read_open(open, "fabric", file);
    fclose(open);
    return result;
}

static fabric_file_t *read_good(const char *text)
{
    fabric_file_t *file;
    if (read_text(text, &file) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    return file;
}

static void assert_refused(const char *text, const char *part)
{
    fabric_file_t *file;
    assert_int_equal(read_text(text, &file), BLINK_ERR_INVALID_ARGUMENT);
    assert_null(file);
    assert_text_has(blink_error_text(), part);
}

/* ---- names ---- */

static void test_a_range_is_so_many_names(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        uint32_t count, number;
        const char *name;
    } cases[] = {
        {"leaf1", 1, 0, "leaf1"},  {"leaf[1-4]", 4, 3, "leaf4"},     {"n[08-11]", 4, 2, "n10"},
        {"n[08-11]", 4, 0, "n08"}, {"p[1-2]-l[1-3]", 6, 5, "p2-l3"}, {"p[1-2]-l[1-3]", 6, 1, "p2-l1"},
        {"[0-0]", 1, 0, "0"},      {"a.b_c-d", 1, 0, "a.b_c-d"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char name[32];
        assert_int_equal(name_range_count(cases[i].word), cases[i].count);
        assert_true(name_range_get(cases[i].word, cases[i].number, name, sizeof(name)));
        assert_string_equal(name, cases[i].name);
        assert_false(name_range_get(cases[i].word, cases[i].number, name, strlen(cases[i].name)));
    }
}

static void test_words_that_are_no_names(void **state)
{
    (void)state;
    static const char *const words[] = {
        "",         "leaf*",  "a b", "leaf[1-", "leaf[4-1]", "leaf[1]",         "leaf[]",
        "leaf[-1]", "leaf1]", "a/b", "[[1-2]]", "l\xc3\xa4", "n[1-1234567890]", "[0-99999][0-99999]"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        assert_int_equal(name_range_count(words[i]), 0);
}

static void test_a_pattern_has_what_it_says(void **state)
{
    (void)state;
    static const struct {
        const char *word, *name;
        bool has;
    } cases[] = {
        {"n1", "n1", true},        {"n1", "n12", false},      {"n1", "n", false},
        {"*", "", true},           {"*", "anything", true},   {"n*", "n", true},
        {"n*", "m1", false},       {"*0", "eth10", true},     {"e*h*0", "eth10", true},
        {"*a*b*", "aaab", true},   {"*a*b", "aaac", false},   {"n[1-4]", "n4", true},
        {"n[1-4]", "n5", false},   {"n[1-4]", "n04", false},  {"n[01-16]", "n04", true},
        {"n[01-16]", "n4", false}, {"n[0-4]", "n0", true},    {"n[1-4]", "n12", false},
        {"*[1-4]", "n12", false},  {"*[1-14]", "n12", true},  {"n[1-2]-[3-4]*", "n2-4x", true},
        {"n[1-2]x", "n1y", false}, {"*[1-2]", "n1-m2", true}, {"[1-2]*", "2", true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (name_range_has(cases[i].word, cases[i].name) != cases[i].has)
            fail_msg("%s and %s", cases[i].word, cases[i].name);
    assert_true(name_range_is_pattern("n[1-4]*"));
    assert_false(name_range_is_pattern(""));
    assert_false(name_range_is_pattern("n[1-4"));
    assert_false(name_range_is_pattern("n1-4]"));
}

static void test_many_stars_end_soon(void **state)
{
    (void)state;
    char word[128] = "", name[256];
    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    for (uint32_t i = 0; i < 40; i++)
        strcat(word, "*a");
    strcat(word, "b");
    assert_false(name_range_has(word, name));
}

/* ---- files ---- */

static const char two_leaves[] = "# a comment\n"
                                 "[links]\n"
                                 "leaf[1-2] spine[1-2] = 4x50\n"
                                 "leaf10 spine1 = 25.5\n"
                                 "[switches]\n"
                                 "spine[1-2] = 400\n"
                                 "[nics]\n"
                                 "n[1-2]/eth* = leaf1\n"
                                 "n3/eth0 = leaf2\n"
                                 "n*/eth0 = leaf10\n"
                                 "*/nic[0-3] = rail\n";

static void test_switches_and_links_stand_in_one_order(void **state)
{
    (void)state;
    static const char *const names[] = {"leaf1", "leaf2", "leaf10", "rail", "spine1", "spine2"};
    static const struct {
        uint32_t ends[2], count;
        double GBps;
    } links[] = {{{0, 4}, 4, 50}, {{0, 5}, 4, 50}, {{1, 4}, 4, 50}, {{1, 5}, 4, 50}, {{2, 4}, 1, 25.5}};
    fabric_file_t *file = read_good(two_leaves);
    assert_int_equal(file->switches.count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_string_equal(file->switches.items[i].name, names[i]);
        assert_true(file->switches.items[i].total_GBps == (i < 4 ? 0 : 400));
    }
    assert_int_equal(file->links.count, 5);
    for (uint32_t i = 0; i < 5; i++) {
        const fabric_link_t *link = &file->links.items[i];
        assert_memory_equal(link->ends, links[i].ends, sizeof(link->ends));
        assert_int_equal(link->count, links[i].count);
        assert_true(link->GBps == links[i].GBps);
    }
    fabric_file_destroy(file);
}

static void test_the_first_line_that_fits_counts(void **state)
{
    (void)state;
    static const struct {
        const char *host, *nic, *at;
    } cases[] = {
        {"n1", "eth7", "leaf1"}, {"n3", "eth0", "leaf2"}, {"n4", "eth0", "leaf10"}, {"m", "nic3", "rail"}};
    fabric_file_t *file = read_good(two_leaves);
    uint32_t at;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(fabric_file_find(file, cases[i].host, cases[i].nic, &at), BLINK_OK);
        assert_string_equal(file->switches.items[at].name, cases[i].at);
    }
    assert_int_equal(fabric_file_find(file, "n3", "eth1", &at), BLINK_ERR_INVALID_ARGUMENT);
    assert_text_has(blink_error_text(), "no line of [nics] says on which switch n3/eth1 hangs");
    fabric_file_destroy(file);
}

static void test_a_file_that_is_wrong_says_where_and_what_is_right(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "fabric: no section [nics] says on which switches NICs hang"},
        {"[links]\na b = 5\n", "no section [nics]"},
        {"[nic]\nn1/eth0 = a\n",
         "fabric:2: n1/eth0 = a: unknown section [nic]; there are nics, links, switches"},
        {"[nics]\nn1 = a\n", "fabric:2: n1 = a: 'n1' is not a host and a NIC such as n1/eth0"},
        {"[nics]\nn1/ = a\n", "'n1/' is not a host and a NIC"},
        {"[nics]\nn1/a/b = a\n", "'n1/a/b' is not a host and a NIC"},
        {"[nics]\nn[1-/a = a\n", "'n[1-/a' is not a host and a NIC"},
        {"[nics]\nn1/a = a b\n", "'a b' is no switch such as leaf1"},
        {"[nics]\nn1/a =\n", "'' is no switch such as leaf1"},
        {"[nics]\nn1/a = l[1-2]\n", "a NIC hangs on one switch, and 'l[1-2]' is 2"},
        {"[nics]\nn1/a = l\n[links]\nl = 5\n", "fabric:4: l = 5: the key is not two switches"},
        {"[nics]\nn1/a = l\n[links]\nl m n = 5\n", "the key is not two switches"},
        {"[nics]\nn1/a = l\n[links]\nl m* = 5\n", "'m*' is no switch such as leaf1, nor several"},
        {"[nics]\nn1/a = l\n[links]\nl m = 0\n", "'0' is not what a link can carry in GB/s, such as 50"},
        {"[nics]\nn1/a = l\n[links]\nl m = 0x5\n", "'0x5' is not what a link can carry"},
        {"[nics]\nn1/a = l\n[links]\nl m = 4x\n", "'4x' is not what a link can carry"},
        {"[nics]\nn1/a = l\n[links]\nl m = 70000x1\n", "'70000x1' is not what a link can carry"},
        {"[nics]\nn1/a = l\n[links]\nl m = inf\n", "'inf' is not what a link can carry"},
        {"[nics]\nn1/a = l\n[links]\nl l = 5\n", "this joins l with itself"},
        {"[nics]\nn1/a = l\n[links]\nl m = 5\nm l = 6\n", "fabric: [links] joins l and m twice"},
        {"[nics]\nn1/a = l\n[switches]\nl = much\n", "'much' is not what a switch can carry in GB/s"},
        {"[nics]\nn1/a = l\n[links]\nl m[1-2000] = 5\n", "'m[1-2000]' is 2000 switches; there may be 1024"},
        {"[switches]\na[1-1000] = 5\nb[1-100] = 5\n", "'b25' is one switch more than the 1024"},
        {"[nics]\nn1/a = l\n[links]\na[1-200] b[1-200] = 5\n", "joins more than 16384 pairs"},
        {"[nics]\nn1/a = abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnop\n",
         "a switch's name has at most 63 characters"},
        {"[nics\n", "fabric:1: neither [section], key = value, nor a # comment"},
        {"hello\n", "fabric:1: neither [section], key = value, nor a # comment"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_refused(cases[i].text, cases[i].part);
}

static void test_a_file_that_is_not_there_is_named(void **state)
{
    (void)state;
    fabric_file_t *file = NULL;
    assert_int_equal(fabric_file_read("/nonexistent/fabric", &file), BLINK_ERR_NOT_FOUND);
    assert_text_has(blink_error_text(), "fabric file /nonexistent/fabric: No such file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_range_is_so_many_names),
        cmocka_unit_test(test_words_that_are_no_names),
        cmocka_unit_test(test_a_pattern_has_what_it_says),
        cmocka_unit_test(test_many_stars_end_soon),
        cmocka_unit_test(test_switches_and_links_stand_in_one_order),
        cmocka_unit_test(test_the_first_line_that_fits_counts),
        cmocka_unit_test(test_a_file_that_is_wrong_says_where_and_what_is_right),
        cmocka_unit_test(test_a_file_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
