#include "topo/source.h"

#include <stdio.h>
#include <string.h>

#define SOURCE_SHOWN_BYTES 40

const char *topo_source_tail(const char *source)
{
    size_t bytes = strlen(source);
    return bytes > SOURCE_SHOWN_BYTES ? source + bytes - SOURCE_SHOWN_BYTES : source;
}

void topo_source_stem(const char *source, char *stem, size_t stem_bytes)
{
    const char *slash = strrchr(source, '/');
    const char *base = slash ? slash + 1 : source;
    const char *dot = strrchr(base, '.');
    size_t bytes = dot && dot > base ? (size_t)(dot - base) : strlen(base);
    snprintf(stem, stem_bytes, "%.*s", (int)(bytes < stem_bytes ? bytes : stem_bytes - 1), base);
    for (char *c = stem; *c; c++) {
        if (*c < ' ' || *c > '~')
            *c = '_';
    }
    if (!*stem)
        snprintf(stem, stem_bytes, "topology");
}
