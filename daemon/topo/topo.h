/*
 * The topology: devices, switches, CPUs and NICs joined by directed links. Pure data: read once from JSON,
 * NCCL XML or a built-in, checked, and immutable from then on, so any number of threads may read one topo_t.
 */
#ifndef BLINK_TOPO_H
#define BLINK_TOPO_H

#include "blink/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOPO_NONE UINT32_MAX

/* Most parallel links between two nodes in one direction. */
#define TOPO_PARALLEL_MAX 65535u

typedef enum topo_node_kind { TOPO_DEVICE, TOPO_SWITCH, TOPO_NIC, TOPO_CPU } topo_node_kind_t;

typedef enum topo_link_kind {
    TOPO_NVLINK,
    TOPO_NVSWITCH,
    TOPO_PCIE,
    TOPO_QPI,
    TOPO_NIC_LINK,
    TOPO_NET,
    TOPO_SHM,
} topo_link_kind_t;

typedef struct topo_node {
    char *id;
    char *host;
    topo_node_kind_t kind;
    bool multicast;    /* a switch that copies to several ports */
    bool reduces;      /* a switch that combines what comes in by several ports; it copies, too */
    double total_GBps; /* backplane limit of a switch or cpu; 0: none */
} topo_node_t;

/* One direction. Parallel links between the same two nodes in the same direction are one topo_link_t: their
 * capacities are added, kind and latency are those of the fastest. A path may therefore be named by its
 * nodes. */
typedef struct topo_link {
    uint32_t from, to;
    topo_link_kind_t kind;
    double GBps;      /* capacity of all parallel links together */
    double unit_GBps; /* capacity of one physical link (the fastest of them) */
    double latency_us;
} topo_link_t;

/* Whether it is a link of NVIDIA's own, between two GPUs or of a GPU and a switch or CPU. */
static inline bool topo_is_nvlink(const topo_link_t *link)
{
    return link->kind == TOPO_NVLINK || link->kind == TOPO_NVSWITCH;
}

/* Two devices. Of a topology's pairs `one` is the lesser index. */
typedef struct topo_pair {
    uint32_t one, other;
} topo_pair_t;

typedef struct topo {
    char *name;
    uint32_t node_count;
    uint32_t link_count;
    uint32_t gpu_count;
    topo_node_t *nodes;
    topo_link_t *links;
    uint32_t *gpus;        /* node indices of the gpus, in file order: device i of a daemon is gpus[i] */
    uint32_t *out_first;   /* node_count + 1 offsets into out_links */
    uint32_t *out_links;   /* link indices grouped by their `from` node, each group sorted by `to` */
    uint32_t *nodes_by_id; /* node indices sorted by id */
    /* Devices that are no peers: one of them at least cannot read and write the memory of the other. What
     * goes from one to the other is written to memory of the host, and read there. Sorted. */
    uint32_t non_peer_count;
    topo_pair_t *non_peers;
    char *notes; /* what the file has that is not in here, a line each without an end of line at the last;
                    NULL: nothing */
} topo_t;

/* Limits of a generated topology. */
#define TOPO_GENERATED_HOSTS_MAX 1024u
#define TOPO_GENERATED_GPUS_MAX  1024u

/*
 * Read a topology by what `what` is:
 * - the name of a built-in: "dgx1v";
 * - NxNAME: N hosts (1 to TOPO_GENERATED_HOSTS_MAX), each the built-in NAME of one host, behind one
 * non-blocking network switch "net": "64xdgx1v". Host h is "n<h>"; gpus and nics are numbered through all
 * hosts ("gpu11"), the id of any other node gets its host before its number ("plx3" becomes "plx1_3"). NICs
 * are the built-in's own where it has some. Else each PCIe switch that gpus hang on gets one, over a link as
 * fast as the switch's fastest PCIe link; without such switches each NIC hangs on its equal share of the gpus
 * in their order, over links of its own capacity. Its link to "net" has the capacity of the NIC: 12.5 GB/s,
 * or 25 (dgx_a100), 50 (dgx_h100), or what the built-in gives. There are 4 on a dgx1p and dgx1v, 8 on a dgx2,
 * dgx_a100 and dgx_h100.
 * - NxNAME@G: the same with NICs of G GB/s: "2xdgx1v@5";
 * - else the path of a blink-topology/1 JSON file or an NCCL topology XML file (told apart by content). A
 * file whose name looks like one of the above is named by "./". *topo is owned by the caller: topo_destroy().
 * Errors: NOT_FOUND (none of these; names the built-ins), INVALID_ARGUMENT (malformed; the text names the
 * offending node, link or position; for a generated one what is out of range), NO_MEMORY.
 */
blink_result_t topo_load(const char *what, topo_t **topo);

/* Whether topo_load() takes it for the name of a machine or of many, and not of a file. */
bool topo_is_machine(const char *what);

/* Parse text already in memory; `source` stands in error texts. Same errors as topo_load but NOT_FOUND. */
blink_result_t topo_parse_json(const char *text, size_t bytes, const char *source, topo_t **topo);
blink_result_t topo_parse_nccl_xml(const char *text, size_t bytes, const char *source, topo_t **topo);

void topo_destroy(topo_t *topo);

/* Names of the built-ins, NULL-terminated, static. */
const char *const *topo_builtin_names(void);

/* Whether the machine's memory is the only link there is: all links are TOPO_SHM, and there is one. */
bool topo_is_plain_memory(const topo_t *topo);

/* Node index by id, or TOPO_NONE. O(log nodes). */
uint32_t topo_find_node(const topo_t *topo, const char *id);

/* Whether two devices can read and write each other's memory; every device is its own peer. */
bool topo_are_peers(const topo_t *topo, uint32_t one, uint32_t other);

/* Add to the pairs of devices that are no peers, while nobody else reads the topology. The two of a pair are
 * given in any order, and some pairs may be known already. Errors: NO_MEMORY. */
blink_result_t topo_add_non_peers(topo_t *topo, const topo_pair_t *pairs, uint32_t count);

/* Link index by its two nodes, or TOPO_NONE. O(log links that leave `from`). */
uint32_t topo_find_link(const topo_t *topo, uint32_t from, uint32_t to);

/* The link running the other way with the same kind and latency, or TOPO_NONE: the two are shown as one. */
uint32_t topo_find_mirror(const topo_t *topo, uint32_t link);

/* A merged link is `count` links of unit_GBps and, where slower ones ran beside them, one of *rest_GBps that
 * stands for those (else 0). The subtraction is exact: the whole units are at least half of the sum. */
uint32_t topo_link_units(const topo_link_t *link, double *rest_GBps);

/* Capacity of the fastest link; not 0 even without links, so that it may divide. */
double topo_largest_GBps(const topo_t *topo);

/* Capacity of the fastest link from a node; 0 without links. */
double topo_fastest_GBps(const topo_t *topo, uint32_t node);

/* Whether some switch reduces. */
bool topo_has_reducing_switch(const topo_t *topo);

/* Whether the node is a switch with gpus on PCIe links. */
bool topo_is_pcie_switch(const topo_t *topo, uint32_t node);

/* Spelling used in files: "gpu", "switch", …; "nvlink", "pcie", …. Parsing returns false if there is no such
 * kind. */
const char *topo_node_kind_name(topo_node_kind_t kind);
const char *topo_link_kind_name(topo_link_kind_t kind);
bool topo_parse_node_kind(const char *name, topo_node_kind_t *kind);
bool topo_parse_link_kind(const char *name, topo_link_kind_t *kind);

/* Print. *text is malloc'd, NUL-terminated and owned by the caller. JSON is blink-topology/1 and reads back
 * equal; dot is Graphviz; svg stands alone; table is for people. Errors: NO_MEMORY. */
blink_result_t topo_write_json(const topo_t *topo, char **text);
blink_result_t topo_write_dot(const topo_t *topo, char **text);
blink_result_t topo_write_svg(const topo_t *topo, char **text);
blink_result_t topo_write_table(const topo_t *topo, char **text);

/*
 * One host of many: the nodes of `node`'s host and all those of hosts without gpus (the network between
 * them), with the links among these, in the order they have in `topo`. image[] (node_count of `topo`, the
 * caller's) gets each node's index in *cropped, or TOPO_NONE. *cropped is the caller's: topo_destroy().
 * Errors: NO_MEMORY.
 */
blink_result_t topo_crop_to_host(const topo_t *topo, uint32_t node, uint32_t *image, topo_t **cropped);

/*
 * Building by hand (what the readers use): add nodes, directed links and pairs that are no peers, then
 * topo_build_finish() checks everything that can be wrong (duplicate ids, unknown ends, self links,
 * capacities, no gpu), merges parallel links and indexes. On failure the builder is left for
 * topo_build_destroy().
 */
typedef struct topo_builder topo_builder_t;
blink_result_t topo_build_create(const char *name, const char *source, topo_builder_t **builder);
void topo_build_destroy(topo_builder_t *builder);
blink_result_t topo_build_node(topo_builder_t *builder, const topo_node_t *node); /* strings are copied */
blink_result_t topo_build_link(topo_builder_t *builder, const char *from, const char *to,
                               topo_link_kind_t kind, double GBps, uint32_t count, double latency_us,
                               bool duplex);
blink_result_t topo_build_non_peers(topo_builder_t *builder, const char *one, const char *other);

/* Note something that does not become part of the topology: topo_t.notes. Of many, the first ones are kept.
 */
blink_result_t topo_build_note(topo_builder_t *builder, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
blink_result_t topo_build_finish(topo_builder_t *builder, topo_t **topo);

/* Add the switch that stands for all NVSwitches of a host; those that reduce copy, too. */
blink_result_t topo_build_nvswitch(topo_builder_t *builder, const char *host, const char *id, bool reduces);

/* Add a link of a finished topology with all that was merged into it, between nodes of these ids. */
blink_result_t topo_build_again(topo_builder_t *builder, const char *from, const char *to,
                                const topo_link_t *link);

/* Add the pairs of a finished topology that are no peers, between nodes of these ids by its nodes; NULL: they
 * keep their own. */
blink_result_t topo_build_same_non_peers(topo_builder_t *builder, const topo_t *topo, char *const *ids);

#endif
