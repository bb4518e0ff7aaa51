/*
 * What the topology readers must refuse, and what the refusal must name. Tables, kept apart from the tests
 * that walk them. Include after cmocka's headers.
 */
#ifndef TEST_TOPO_BAD_INPUTS_H
#define TEST_TOPO_BAD_INPUTS_H

#include "topo_check.h"

#define GPUS "{\"id\":\"a\",\"kind\":\"gpu\"},{\"id\":\"b\",\"kind\":\"gpu\"}"
#define TOPOLOGY(nodes, links)                                                                               \
    "{\"schema\":\"blink-topology/1\",\"name\":\"t\",\"nodes\":[" nodes "],\"links\":[" links "]}"
#define NON_PEERS(pairs)                                                                                     \
    "{\"schema\":\"blink-topology/1\",\"nodes\":[" GPUS ",{\"id\":\"s\",\"kind\":\"switch\"}],\"links\":[]," \
    "\"non_peers\":[" pairs "]}"
#define LINK(fields) "{\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\"," fields "}"
#define SYSTEM(content)                                                                                      \
    "<system version=\"1\">\n<cpu numaid=\"0\" vendor=\"AuthenticAMD\">\n" content "\n</cpu>\n</system>"
#define PCI_GPU(content) "<pci busid=\"0:1\" class=\"0x030200\">" content "</pci>"

typedef struct bad_input {
    const char *text;
    const char *names[3]; /* what the sentence must contain, beside the source */
} bad_input_t;

static const bad_input_t bad_json[] = {
    {"{\n\"schema\": oops}", {"line 2", "column"}},
    {"", {"line 1", "column 0"}},
    {"[]", {"the topology must be an object"}},
    {"{\"schema\":\"blink-topology/2\",\"nodes\":[],\"links\":[]}", {"schema", "blink-topology/2"}},
    {"{\"nodes\":[],\"links\":[]}", {"no \"schema\""}},
    {"{\"schema\":\"blink-topology/1\",\"links\":[]}", {"no \"nodes\""}},
    {"{\"schema\":\"blink-topology/1\",\"nodes\":[" GPUS "]}", {"no \"links\""}},
    {"{\"schema\":\"blink-topology/1\",\"nodes\":{},\"links\":[]}", {"\"nodes\" must be a list"}},
    {"{\"schema\":\"blink-topology/1\",\"nodes\":[],\"links\":[],\"colour\":1}", {"unknown field", "colour"}},
    {"{\"schema\":\"blink-topology/1\",\"schema\":\"x\",\"nodes\":[],\"links\":[]}", {"duplicate", "schema"}},
    {NON_PEERS("7"), {"non_peers[0] must be a list of two ids"}},
    {NON_PEERS("[\"a\"]"), {"non_peers[0] must be a list of two ids"}},
    {NON_PEERS("[\"a\",\"b\"],[\"a\",1]"), {"non_peers[1] must be a list of two ids"}},
    {NON_PEERS("[\"a\",\"c\"]"), {"non_peers", "no node c"}},
    {NON_PEERS("[\"s\",\"b\"]"), {"non_peers", "only gpus", "the switch s"}},
    {NON_PEERS("[\"b\",\"b\"]"), {"non_peers", "b is its own peer"}},
    {TOPOLOGY("7", ""), {"nodes[0] must be an object"}},
    {TOPOLOGY("{\"kind\":\"gpu\"}", ""), {"nodes[0]", "no \"id\""}},
    {TOPOLOGY("{\"id\":3,\"kind\":\"gpu\"}", ""), {"nodes[0]", "\"id\" must be a string"}},
    {TOPOLOGY("{\"id\":\"\",\"kind\":\"gpu\"}", ""), {"nodes[0]", "empty"}},
    {TOPOLOGY("{\"id\":\"a\\u001b\",\"kind\":\"gpu\"}", ""), {"nodes[0]", "control"}},
    {TOPOLOGY("{\"id\":\"a\\u009b\",\"kind\":\"gpu\"}", ""), {"nodes[0]", "control"}},
    {TOPOLOGY("{\"id\":\"a\"}", ""), {"node a", "no \"kind\""}},
    {TOPOLOGY("{\"id\":\"a\",\"kind\":\"tpu\"}", ""), {"node a", "kind \"tpu\""}},
    {TOPOLOGY("{\"id\":\"a\",\"kind\":\"gpu\",\"ram\":1}", ""), {"node a", "unknown field \"ram\""}},
    {TOPOLOGY("{\"id\":\"a\",\"kind\":\"gpu\",\"host\":null}", ""), {"node a", "\"host\" must be a string"}},
    {TOPOLOGY("{\"id\":\"a\",\"kind\":\"gpu\",\"multicast\":true}", ""), {"node a", "only a switch", "gpu"}},
    {TOPOLOGY("{\"id\":\"a\",\"kind\":\"switch\",\"multicast\":1}", ""), {"node a", "true or false"}},
    {TOPOLOGY("{\"id\":\"a\",\"kind\":\"switch\",\"reduces\":true}", ""), {"node a", "needs \"multicast\""}},
    {TOPOLOGY("{\"id\":\"a\",\"kind\":\"switch\",\"reduces\":1}", ""), {"node a", "true or false"}},
    {TOPOLOGY("{\"id\":\"a\",\"kind\":\"gpu\",\"GBps_total\":1}", ""), {"node a", "GBps_total"}},
    {TOPOLOGY("{\"id\":\"a\",\"kind\":\"cpu\",\"GBps_total\":0}", ""), {"node a", "GBps_total", "not 0"}},
    {TOPOLOGY("{\"id\":\"a\",\"kind\":\"cpu\",\"GBps_total\":-2}", ""), {"node a", "GBps_total", "not -2"}},
    {TOPOLOGY(GPUS ",{\"id\":\"a\",\"kind\":\"nic\"}", ""), {"two nodes", "id a"}},
    {TOPOLOGY("{\"id\":\"s\",\"kind\":\"switch\"}", ""), {"no gpu"}},
    {TOPOLOGY("", ""), {"no gpu"}},
    {TOPOLOGY(GPUS, "\"ab\""), {"links[0] must be an object"}},
    {TOPOLOGY(GPUS, "{\"from\":\"a\",\"kind\":\"pcie\",\"GBps\":1}"), {"links[0]", "no \"to\""}},
    {TOPOLOGY(GPUS, "{\"from\":\"a\",\"to\":1,\"kind\":\"pcie\",\"GBps\":1}"), {"links[0]", "\"to\""}},
    {TOPOLOGY(GPUS, "{\"from\":\"a\",\"to\":\"b\",\"GBps\":1}"), {"link a to b", "no \"kind\""}},
    {TOPOLOGY(GPUS, "{\"from\":\"a\",\"to\":\"b\",\"kind\":\"rope\",\"GBps\":1}"),
     {"link a to b", "\"rope\""}},
    {TOPOLOGY(GPUS, "{\"from\":\"a\",\"to\":\"c\",\"kind\":\"pcie\",\"GBps\":1}"),
     {"link a to c", "no node c"}},
    {TOPOLOGY(GPUS, "{\"from\":\"d\",\"to\":\"b\",\"kind\":\"pcie\",\"GBps\":1}"),
     {"link d to b", "no node d"}},
    {TOPOLOGY(GPUS, "{\"from\":\"a\",\"to\":\"a\",\"kind\":\"pcie\",\"GBps\":1}"),
     {"link a to a", "own node"}},
    {TOPOLOGY(GPUS, "{\"from\":\"a\",\"to\":\"b\",\"kind\":\"pcie\"}"), {"link a to b", "no \"GBps\""}},
    {TOPOLOGY(GPUS, LINK("\"GBps\":\"25\"")), {"link a to b", "\"GBps\" must be a number"}},
    {TOPOLOGY(GPUS, LINK("\"GBps\":0")), {"link a to b", "not 0"}},
    {TOPOLOGY(GPUS, LINK("\"GBps\":-25.5")), {"link a to b", "not -25.5"}},
    {TOPOLOGY(GPUS, LINK("\"GBps\":1e999")), {"line 1", "real number overflow"}},
    {TOPOLOGY(GPUS, LINK("\"GBps\":NaN")), {"line 1", "NaN"}},
    {TOPOLOGY(GPUS, LINK("\"GBps\":1e308,\"count\":10")), {"link a to b", "infinity"}},
    {TOPOLOGY(GPUS, LINK("\"GBps\":1,\"count\":0")), {"link a to b", "count", "not 0"}},
    {TOPOLOGY(GPUS, LINK("\"GBps\":1,\"count\":-1")), {"link a to b", "count", "not -1"}},
    {TOPOLOGY(GPUS, LINK("\"GBps\":1,\"count\":4294967297")), {"link a to b", "count", "not 4294967297"}},
    {TOPOLOGY(GPUS, LINK("\"GBps\":1,\"count\":1.5")), {"link a to b", "\"count\" must be an integer"}},
    {TOPOLOGY(GPUS, LINK("\"GBps\":1,\"count\":65535") "," LINK("\"GBps\":1")), {"link a to b", "65535"}},
    {TOPOLOGY(GPUS, LINK("\"GBps\":1,\"latency_us\":-1")), {"link a to b", "latency_us", "not -1"}},
    {TOPOLOGY(GPUS, LINK("\"GBps\":1,\"latency_us\":true")),
     {"link a to b", "\"latency_us\" must be a number"}},
    {TOPOLOGY(GPUS, LINK("\"GBps\":1,\"duplex\":\"no\"")),
     {"link a to b", "\"duplex\" must be true or false"}},
    {TOPOLOGY(GPUS, LINK("\"GBps\":1,\"speed\":2")), {"link a to b", "unknown field \"speed\""}},
};

static const bad_input_t bad_xml[] = {
    {"<system>\n<cpu numaid=\"0\">\n</system>", {"malformed", "line 3"}},
    {"<", {"malformed", "line 1"}},
    {"<!DOCTYPE system [<!ENTITY e \"e\">]><system/>", {"DOCTYPE"}},
    {"<!DOCTYPE system SYSTEM \"http://localhost/x.dtd\"><system/>", {"DOCTYPE"}},
    {"<plan/>", {"line 1", "<plan>", "<system>"}},
    {"<system/>", {"no gpu"}},
    {SYSTEM("<pci busid=\"0:1\" class=\"0x060400\"/>"), {"no gpu"}},
    {"<system>\n<cpu/></system>", {"line 2", "<cpu>", "no numaid"}},
    {"<system>\n<cpu numaid=\"first\"/></system>", {"line 2", "numaid", "\"first\""}},
    {SYSTEM("<pci class=\"0x030200\"/>"), {"line 3", "<pci>", "no busid"}},
    {SYSTEM("<pci busid=\"123456789012345678901234567890123\" class=\"0x030200\"/>"), {"line 3", "busid"}},
    {SYSTEM("<pci busid=\"0:1\" class=\"0x030200\" link_width=\"x16\"/>"),
     {"line 3", "link_width", "\"x16\""}},
    {SYSTEM(PCI_GPU("<gpu sm=\"90\"/>")), {"line 3", "<gpu>", "no dev"}},
    {SYSTEM(PCI_GPU("<gpu dev=\"99999999999999999999\"/>")), {"line 3", "dev"}},
    {SYSTEM(PCI_GPU("<gpu dev=\"0\"/>") PCI_GPU("<gpu dev=\"1\"/>")),
     {"line 3: <pci>", "0:1", "the device of line 3"}},
    {SYSTEM(PCI_GPU("<gpu dev=\"0\">\n<nvlink target=\"1\" count=\"1\"/></gpu>")),
     {"line 3", "<gpu>", "no sm"}},
    {SYSTEM(PCI_GPU("<gpu dev=\"0\" sm=\"37\">\n<nvlink target=\"1\" count=\"1\"/></gpu>")),
     {"line 4", "gpu0", "sm_37"}},
    {SYSTEM(PCI_GPU("<gpu dev=\"0\" sm=\"90\">\n<nvlink count=\"1\"/></gpu>")),
     {"line 4", "gpu0", "no target"}},
    {SYSTEM(PCI_GPU("<gpu dev=\"0\" sm=\"90\">\n<nvlink target=\"1\" count=\"0\"/></gpu>")),
     {"line 4", "<nvlink>", "count"}},
    {SYSTEM(PCI_GPU("<gpu dev=\"0\" sm=\"90\"><c2c count=\"1\"/></gpu>")), {"line 3", "<c2c>", "no bw"}},
    {SYSTEM("<nic>\n<net speed=\"1\"/></nic>" PCI_GPU("")), {"line 4", "<net>", "no dev"}},
};

typedef blink_result_t (*parse_function_t)(const char *text, size_t bytes, const char *source, topo_t **topo);

static inline void assert_refused(parse_function_t parse_text, const bad_input_t *bad)
{
    topo_t *topo = NULL;
    blink_result_t result = parse_text(bad->text, strlen(bad->text), "some/file", &topo);
    if (result != BLINK_ERR_INVALID_ARGUMENT)
        fail_msg("result %d for %s", (int)result, bad->text);
    assert_null(topo);
    assert_text_has(blink_error_text(), "some/file: ");
    for (size_t i = 0; i < 3 && bad->names[i]; i++)
        assert_text_has(blink_error_text(), bad->names[i]);
}

#endif
