/*
 * Fuzzes a topology reader, FUZZ_READER (given by the build): whatever it accepts must print in every form
 * and the JSON read back.
 */
#include "topo/topo.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

typedef blink_result_t (*write_function_t)(const topo_t *topo, char **text);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const write_function_t writers[] = {topo_write_json, topo_write_dot, topo_write_svg,
                                               topo_write_table};
    topo_t *topo;
    if (FUZZ_READER((const char *)data, bytes, "fuzz", &topo) != BLINK_OK)
        return 0;
    for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++) {
        char *text = NULL;
        if (writers[i](topo, &text) != BLINK_OK)
            abort();
        topo_t *again = NULL;
        if (writers[i] == topo_write_json && topo_parse_json(text, strlen(text), "again", &again) != BLINK_OK)
            abort();
        if (again && (again->node_count != topo->node_count || again->link_count != topo->link_count))
            abort();
        topo_destroy(again);
        free(text);
    }
    topo_destroy(topo);
    return 0;
}
