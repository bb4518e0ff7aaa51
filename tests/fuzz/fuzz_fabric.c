/*
 * Fuzzes fabric files: one that is accepted joins hosts, or says why it does not.
 */
#include "error.h"
#include "topo/network.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static topo_t *host;

static topo_t *load_host(void)
{
    topo_t *topo = NULL;
    if (topo_load("1xpcie4@5", &topo) != BLINK_OK)
        abort();
    return topo;
}

static void join(const fabric_file_t *file)
{
    topo_t *hosts[2] = {NULL, NULL}, *joined = NULL;
    const char *names[2] = {"n1", "n2"};
    blink_result_t result = BLINK_OK;
    for (uint32_t i = 0; i < 2 && result == BLINK_OK; i++)
        result = topo_add_network(host, NULL, 0, &(topo_fabric_t){.file = file, .host = names[i]}, &hosts[i]);
    if (result == BLINK_OK &&
        topo_join((const topo_host_t[]){{"n1", hosts[0]}, {"n2", hosts[1]}}, 2, &joined) != BLINK_OK) {
        fprintf(stderr, "%s\n", blink_error_text()); /* both have the same file */
        abort();
    }
    topo_destroy(joined);
    topo_destroy(hosts[0]);
    topo_destroy(hosts[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    fabric_file_t *file = NULL;
    FILE *open = bytes > 0 ? fmemopen((void *)(uintptr_t)data, bytes, "r") : NULL;
    if (!open)
        return 0;
    if (!host)
        host = load_host();
    if (fabric_file_read_open(open, "fabric", &file) == BLINK_OK) {
        join(file);
        fabric_file_destroy(file);
    } else if (*blink_error_text() == '\0') {
        abort();
    }
    fclose(open);
    return 0;
}
