/* imports.h where there was no CUDA to build with: no memory is a GPU's. */
#include "memory/imports.h"

void imports_init(imports_t *imports, gpus_t *gpus, connection_t *connection, ops_t *ops)
{
    (void)imports, (void)gpus, (void)connection, (void)ops;
}

void imports_fini(imports_t *imports)
{
    (void)imports;
}

void imports_reset(imports_t *imports)
{
    (void)imports;
}

blink_result_t imports_refuse(imports_t *imports, const char *what, const void *pointer)
{
    (void)imports, (void)what, (void)pointer;
    return BLINK_OK;
}

blink_result_t imports_place(imports_t *imports, rank_gpu_t *rank, const char *what, const void *pointer,
                             size_t bytes, import_place_t *place)
{
    (void)imports, (void)rank, (void)what, (void)pointer, (void)bytes;
    *place = (import_place_t){0};
    return BLINK_OK;
}
