/* PMIx, which Open MPI's and PRRTE's launchers speak, by their own library: it is loaded while it is used,
 * and of its interface (the PMIx standard, version 2 and later) stands here what is used of it. */
#include "base/clock.h"
#include "launch/exchange.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libpmix.so.2"
#define KEY     "blink-id"

enum { PMIX_SUCCESS = 0, PMIX_ERR_TIMEOUT = -24, PMIX_STRING = 3, PMIX_INT = 6, PMIX_GLOBAL = 3 };
#define PMIX_RANK_WILDCARD (UINT32_MAX - 1)

typedef struct pmix_proc {
    char space[256];
    uint32_t rank;
} pmix_proc_t;

/* A union of which the text is one; no member that PMIx has had is longer than this one. */
typedef struct pmix_value {
    uint16_t type;
    union {
        char *text;
        int number;
        uint64_t longest[8];
    } data;
} pmix_value_t;

typedef struct pmix_info {
    char key[512];
    uint32_t flags; /* 0: who cannot do it need not */
    pmix_value_t value;
} pmix_info_t;

typedef struct pmix {
    void *library;
    int timeout_s;
    int (*init)(pmix_proc_t *own, void *info, size_t count);
    int (*put)(uint8_t scope, const char *key, pmix_value_t *value);
    int (*commit)(void);
    int (*fence)(const pmix_proc_t *procs, size_t proc_count, const void *info, size_t count);
    int (*get)(const pmix_proc_t *proc, const char *key, const void *info, size_t count,
               pmix_value_t **value);
    int (*finalize)(const void *info, size_t count);
    const char *(*error_text)(int status);
} pmix_t;

static bool find_calls(pmix_t *pmix)
{
    const struct {
        const char *name;
        void **call;
    } calls[] = {{"PMIx_Init", (void **)&pmix->init},
                 {"PMIx_Put", (void **)&pmix->put},
                 {"PMIx_Commit", (void **)&pmix->commit},
                 {"PMIx_Fence", (void **)&pmix->fence},
                 {"PMIx_Get", (void **)&pmix->get},
                 {"PMIx_Finalize", (void **)&pmix->finalize},
                 {"PMIx_Error_string", (void **)&pmix->error_text}};
    bool found = true;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        *calls[i].call = dlsym(pmix->library, calls[i].name);
        found = found && *calls[i].call;
    }
    return found;
}

static blink_result_t fail(const pmix_t *pmix, const char *what, int status)
{
    return BLINK_FAIL(BLINK_ERR_SYSTEM, "%s: %s", what, pmix->error_text(status));
}

static blink_result_t meet(const pmix_t *pmix, const pmix_proc_t *own)
{
    pmix_proc_t all = {.rank = PMIX_RANK_WILDCARD};
    const pmix_info_t timeout = {.key = "pmix.timeout", .value = {PMIX_INT, {.number = pmix->timeout_s}}};
    memcpy(all.space, own->space, sizeof(all.space));
    int status = pmix->fence(&all, 1, &timeout, 1);
    if (status == PMIX_ERR_TIMEOUT)
        return BLINK_FAIL(BLINK_ERR_TIMEOUT, "PMIx_Fence: not all ranks have come within %d s",
                          pmix->timeout_s);
    return status == PMIX_SUCCESS ? BLINK_OK : fail(pmix, "PMIx_Fence", status);
}

static blink_result_t give(const pmix_t *pmix, char *text)
{
    pmix_value_t value = {.type = PMIX_STRING, .data.text = text};
    int status = pmix->put(PMIX_GLOBAL, KEY, &value);
    if (status == PMIX_SUCCESS)
        status = pmix->commit();
    return status == PMIX_SUCCESS ? BLINK_OK : fail(pmix, "PMIx_Put", status);
}

static blink_result_t take(const pmix_t *pmix, const pmix_proc_t *own, char text[UNIQUE_ID_TEXT_BYTES])
{
    pmix_proc_t first = {.rank = 0};
    pmix_value_t *value;
    memcpy(first.space, own->space, sizeof(first.space));
    int status = pmix->get(&first, KEY, NULL, 0, &value);
    if (status != PMIX_SUCCESS)
        return fail(pmix, "PMIx_Get of what rank 0 gives", status);
    bool is_text = value->type == PMIX_STRING && value->data.text;
    snprintf(text, UNIQUE_ID_TEXT_BYTES, "%s", is_text ? value->data.text : "");
    if (is_text)
        free(value->data.text);
    free(value);
    return BLINK_OK;
}

static blink_result_t exchange(const pmix_t *pmix, const pmix_proc_t *own, bool gives,
                               char text[UNIQUE_ID_TEXT_BYTES])
{
    if (gives)
        BLINK_TRY(give(pmix, text));
    BLINK_TRY(meet(pmix, own));
    return gives ? BLINK_OK : take(pmix, own, text);
}

static blink_result_t begin_and_end(const launch_t *launch, const pmix_t *pmix,
                                    char text[UNIQUE_ID_TEXT_BYTES])
{
    pmix_proc_t own;
    int status = pmix->init(&own, NULL, 0);
    if (status != PMIX_SUCCESS)
        return fail(pmix, "PMIx_Init", status);
    blink_result_t result = exchange(pmix, &own, launch->rank == 0, text);
    (void)pmix->finalize(NULL, 0);
    return result;
}

/* The library stays loaded: it has threads. */
blink_result_t exchange_by_pmix(const launch_t *launch, uint64_t deadline_ns, char text[UNIQUE_ID_TEXT_BYTES])
{
    uint64_t now_ns = clock_ns();
    pmix_t pmix = {.library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL),
                   .timeout_s = deadline_ns > now_ns ? (int)((deadline_ns - now_ns) / 1000000000) + 1 : 1};
    if (!pmix.library || !find_calls(&pmix))
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "%s started this process, and " LIBRARY
                          ", by which its ranks talk, cannot be loaded: "
                          "install it or set BLINK_RENDEZVOUS",
                          launch->launcher);
    return begin_and_end(launch, &pmix, text);
}
