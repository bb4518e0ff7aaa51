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
#define FIND_OPTIONAL(name)                                                                                  \
    symbol = dlsym(library, NAME_OF(name));                                                                  \
    memcpy(&calls->name, &symbol, sizeof(symbol));
#define FIND(name)                                                                                           \
    FIND_OPTIONAL(name)                                                                                      \
    if (!symbol && !missing)                                                                                 \
        missing = NAME_OF(name);

/* The first call that the library lacks and must have; NULL: none. */
static const char *find_calls(void *library, cuda_driver_t *calls)
{
    const char *missing = NULL;
    void *symbol;
    CUDA_DRIVER_CALLS(FIND)
    CUDA_DRIVER_OPTIONAL_CALLS(FIND_OPTIONAL)
    return missing;
}

/* What this process has, once it has one; constant from then on. */
typedef struct found {
    cuda_driver_t calls;
    const char *missing; /* the call for want of which it is of no use; NULL: none */
} found_t;

static void fail_too_old(const found_t *found)
{
    int version = 0; /* as 12020 for CUDA 12.2 */
    if (found->calls.cuDriverGetVersion)
        (void)found->calls.cuDriverGetVersion(&version);
    blink_error_set(BLINK_ERR_UNSUPPORTED,
                    "the driver, " LIBRARY
                    " of CUDA %d.%d, has no %s: blinkd needs one of " CUDA_API_OLDEST_TEXT " or later",
                    CUDA_API_MAJOR(version), CUDA_API_MINOR(version), found->missing);
}

/* Look for it. NULL: there is none, and that has been said. */
static const found_t *find(bool load)
{
    static found_t found;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | (load ? 0 : RTLD_NOLOAD));
    if (library) {
        found.missing = find_calls(library, &found.calls);
        return &found;
    }
    if (load)
        blink_error_set(BLINK_ERR_NOT_FOUND, "no CUDA driver: %s", dlerror());
    else
        blink_error_set(BLINK_ERR_NOT_FOUND, "this process has not loaded a CUDA driver (" LIBRARY ")");
    return NULL;
}

const cuda_driver_t *cuda_driver_find(bool load)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static _Atomic(const found_t *) known;
    /* Acquire: pairs with the store below. */
    const found_t *found = atomic_load_explicit(&known, memory_order_acquire);
    if (!found) {
        pthread_mutex_lock(&lock);
        found = atomic_load_explicit(&known, memory_order_relaxed); /* written under the lock */
        if (!found)
            found = find(load);
        atomic_store_explicit(&known, found, memory_order_release);
        pthread_mutex_unlock(&lock);
    }
    if (!found)
        return NULL;
    if (found->missing)
        fail_too_old(found);
    return found->missing ? NULL : &found->calls;
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
