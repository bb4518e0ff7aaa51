/*
 * A fabric file says on which of the network's switches each NIC hangs, and what joins the switches:
 *
 *     [nics]
 *     n[1-16]/eth0 = leaf1
 *     n[17-32]/eth0 = leaf2
 *
 *     [links]
 *     leaf[1-2] spine[1-4] = 50
 *
 *     [switches]
 *     spine[1-4] = 400
 *
 * A key of [nics] has a host and a NIC, each with ranges and stars (topo/read/name_range.h); the first one
 * that fits counts. A key of [links] has two switches, or ranges of them, of which each of the first is
 * joined to each of the second: by a link of so many GB/s each way, or of several, 4x50. [switches] may say
 * what a switch can carry in all, in GB/s; a switch that is not named there carries all that comes.
 */
#ifndef BLINK_TOPO_FABRIC_FILE_H
#define BLINK_TOPO_FABRIC_FILE_H

#include "base/vec.h"
#include "blink/types.h"

#include <stdio.h>

#define FABRIC_SWITCHES_MAX 1024u
#define FABRIC_LINKS_MAX    16384u
#define FABRIC_NICS_MAX     16384u

/* Of a switch's name, with its end. */
#define FABRIC_NAME_BYTES 64u

typedef struct fabric_switch {
    char name[FABRIC_NAME_BYTES];
    double total_GBps; /* 0: no limit */
} fabric_switch_t;

typedef struct fabric_link {
    uint32_t ends[2]; /* switches, the lower one first */
    double GBps;      /* of one link, each way */
    uint32_t count;
} fabric_link_t;

typedef struct fabric_nics {
    char *host, *nic; /* patterns; nic is a part of host's memory */
    uint32_t at;      /* the switch */
} fabric_nics_t;

/* The same whatever the order of sections and lines is, but for nics. */
typedef struct fabric_file {
    VEC(fabric_switch_t) switches; /* by name */
    VEC(fabric_link_t) links;      /* by their ends */
    VEC(fabric_nics_t) nics;       /* in the order of the file */
} fabric_file_t;

/* Read a file, or what has been opened, of which errors say that it is `path`. *file is the caller's:
 * fabric_file_destroy(). Errors: NOT_FOUND (it cannot be opened), INVALID_ARGUMENT (with path, line, key,
 * value and what would be right), NO_MEMORY. */
blink_result_t fabric_file_read(const char *path, fabric_file_t **file);
blink_result_t fabric_file_read_open(FILE *open, const char *path, fabric_file_t **file);

void fabric_file_destroy(fabric_file_t *file);

/* On which switch a host's NIC hangs. Errors: INVALID_ARGUMENT (the file does not say). */
blink_result_t fabric_file_find(const fabric_file_t *file, const char *host, const char *nic, uint32_t *at);

#endif
