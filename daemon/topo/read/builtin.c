#include "topo/read/builtin.h"

#include <string.h>

const char *const *topo_builtin_names(void)
{
    return topo_builtin_name_list;
}

const topo_builtin_t *topo_builtin_find(const char *name)
{
    for (size_t i = 0; topo_builtin_name_list[i]; i++) {
        if (strcmp(topo_builtin_name_list[i], name) == 0)
            return &topo_builtin_texts[i];
    }
    return NULL;
}
