/* imports.h where there was no CUDA to build with: memory of a GPU can only be refused. */
#include "memory/imports.h"

#include "gpu/unusable.h"

void imports_init(imports_t *imports, gpus_t *gpus, connection_t *connection, ops_t *ops)
{
    *imports = (imports_t){.gpus = gpus, .connection = connection, .ops = ops};
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
    return gpus_refuse_unusable(imports->gpus, what, pointer);
}

void imports_promise_release(imports_t *imports)
{
    (void)imports;
}

blink_result_t imports_release(imports_t *imports, const void *pointer)
{
    (void)imports, (void)pointer;
    return BLINK_OK;
}

blink_result_t imports_release_freed(imports_t *imports)
{
    (void)imports;
    return BLINK_OK;
}

void imports_tend(imports_t *imports)
{
    (void)imports;
}

int imports_period_ms(const imports_t *imports)
{
    (void)imports;
    return -1;
}

blink_result_t imports_prepare(imports_t *imports, const void *pointer, size_t bytes, bool *on_device)
{
    (void)bytes;
    *on_device = false;
    (void)gpus_find_driver(imports->gpus);
    return gpus_refuse_unusable(imports->gpus, "the", pointer);
}

blink_result_t imports_place(imports_t *imports, rank_gpu_t *rank, const char *what, const void *pointer,
                             size_t bytes, import_place_t *place)
{
    (void)rank, (void)bytes;
    *place = (import_place_t){0};
    return gpus_refuse_unusable(imports->gpus, what, pointer);
}
