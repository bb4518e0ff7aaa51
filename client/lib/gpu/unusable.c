/* Asking a driver that is of no use the one thing that every driver can tell. Here are no headers of CUDA. */
#include "gpu/unusable.h"

#include "error.h"

#include <dlfcn.h>
#include <string.h>

/* As cuda.h has them: CU_POINTER_ATTRIBUTE_MEMORY_TYPE, and its value CU_MEMORYTYPE_DEVICE. */
enum { MEMORY_TYPE = 2, MEMORY_TYPE_DEVICE = 2 };

/* cuPointerGetAttribute(); not 0: the driver does not know the pointer. */
typedef int (*ask_t)(void *value, int attribute, unsigned long long pointer);

void gpus_note_unusable(gpus_t *gpus)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (!library)
        return;
    /* Relaxed: nothing is published with it. Threads that come here at once store the same. */
    atomic_store_explicit(&gpus->unusable_ask, dlsym(library, "cuPointerGetAttribute"), memory_order_relaxed);
    dlclose(library); /* the application keeps its own */
}

blink_result_t gpus_refuse_unusable(gpus_t *gpus, const char *what, const void *pointer)
{
    void *symbol = atomic_load_explicit(&gpus->unusable_ask, memory_order_relaxed);
    ask_t ask;
    unsigned int type = 0;
    memcpy(&ask, &symbol,
           sizeof(ask)); /* as ISO C has no conversion from dlsym()'s pointer to a function's */
    if (!ask || ask(&type, MEMORY_TYPE, (uintptr_t)pointer) != 0 || type != MEMORY_TYPE_DEVICE)
        return BLINK_OK;
    (void)gpus_find_driver(gpus); /* says why not */
    return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "%s buffer %p is GPU memory, but %s", what, pointer,
                      blink_error_text());
}
