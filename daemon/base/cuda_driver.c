/* Finding libcuda and its calls. */
#include "base/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"

#define NAME_OF(name)     NAME_OF_ONE(name)
#define NAME_OF_ONE(name) #name

/* dlsym's pointer is copied, as ISO C has no conversion from it to a function's. */
#define FIND(name)                                                                                           \
    symbol = dlsym(library, NAME_OF(name));                                                                  \
    memcpy(&calls->name, &symbol, sizeof(symbol));                                                           \
    if (!symbol)                                                                                             \
        missing = NAME_OF(name);

/* The first call that the library lacks; NULL: none. */
static const char *find_calls(void *library, cuda_driver_t *calls)
{
    const char *missing = NULL;
    void *symbol;
    CUDA_DRIVER_CALLS(FIND)
    return missing;
}

const cuda_driver_t *cuda_driver_find(bool load)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static cuda_driver_t calls;
    static _Atomic bool found;
    /* Acquire: pairs with the store below. */
    if (atomic_load_explicit(&found, memory_order_acquire))
        return &calls;
    const cuda_driver_t *driver = NULL;
    pthread_mutex_lock(&lock);
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | (load ? 0 : RTLD_NOLOAD));
    const char *missing = library ? find_calls(library, &calls) : NULL;
    if (library && !missing) {
        driver = &calls;
        atomic_store_explicit(&found, true, memory_order_release);
    } else if (missing) {
        blink_error_set(BLINK_ERR_UNSUPPORTED, "the CUDA driver (" LIBRARY ") is too old: it has no %s",
                        missing);
        dlclose(library);
    } else if (load) {
        blink_error_set(BLINK_ERR_NOT_FOUND, "no CUDA driver: %s", dlerror());
    }
    pthread_mutex_unlock(&lock);
    return driver;
}

blink_result_t cuda_driver_fail(const cuda_driver_t *driver, const char *call, CUresult result)
{
    const char *name = NULL, *text = NULL;
    if (driver->cuGetErrorName(result, &name) != CUDA_SUCCESS)
        name = "an unnamed error";
    if (driver->cuGetErrorString(result, &text) != CUDA_SUCCESS)
        text = "?";
    return BLINK_FAIL(result == CUDA_ERROR_OUT_OF_MEMORY ? BLINK_ERR_NO_MEMORY : BLINK_ERR_SYSTEM,
                      "%s: %s (%s)", call, name, text);
}
