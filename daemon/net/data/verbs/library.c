#include "net/data/verbs/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

typedef struct call {
    bool of_cm, is_optional;
    const char *name;
    size_t offset;
} call_t;

#define CM(member)                                                                                           \
    {                                                                                                        \
        true, false, "rdma_" #member, offsetof(verbs_library_t, member)                                      \
    }
#define VERBS(member)                                                                                        \
    {                                                                                                        \
        false, false, "ibv_" #member, offsetof(verbs_library_t, member)                                      \
    }

static const call_t calls[] = {CM(create_event_channel),
                               CM(destroy_event_channel),
                               CM(get_cm_event),
                               CM(ack_cm_event),
                               CM(create_id),
                               CM(destroy_id),
                               CM(bind_addr),
                               CM(listen),
                               CM(get_src_port),
                               CM(resolve_addr),
                               CM(resolve_route),
                               CM(create_qp),
                               CM(destroy_qp),
                               CM(connect),
                               CM(accept),
                               CM(reject),
                               CM(disconnect),
                               VERBS(get_device_list),
                               VERBS(free_device_list),
                               VERBS(alloc_pd),
                               VERBS(dealloc_pd),
                               VERBS(reg_mr),
                               VERBS(dereg_mr),
                               VERBS(create_comp_channel),
                               VERBS(destroy_comp_channel),
                               VERBS(create_cq),
                               VERBS(destroy_cq),
                               VERBS(get_cq_event),
                               VERBS(ack_cq_events),
                               VERBS(get_async_event),
                               VERBS(ack_async_event),
                               VERBS(modify_qp),
                               VERBS(query_qp),
                               VERBS(query_port),
                               VERBS(query_gid),
                               {false, false, "ibv_create_qp", offsetof(verbs_library_t, create_own_qp)},
                               {false, false, "ibv_destroy_qp", offsetof(verbs_library_t, destroy_own_qp)},
                               {false, true, "ibv_reg_dmabuf_mr", offsetof(verbs_library_t, reg_dmabuf_mr)},
                               {false, false, "ibv_wc_status_str", offsetof(verbs_library_t, status_text)}};

#undef CM
#undef VERBS

static blink_result_t open_library(const char *name, void **handle)
{
    *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!*handle)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "no RDMA on this machine: %s; install rdma-core", dlerror());
    return BLINK_OK;
}

static blink_result_t load(verbs_library_t *library)
{
    void *verbs, *cm;
    BLINK_TRY(open_library("libibverbs.so.1", &verbs));
    BLINK_TRY(open_library("librdmacm.so.1", &cm));
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        void *call = dlsym(calls[i].of_cm ? cm : verbs, calls[i].name);
        if (!call && !calls[i].is_optional)
            return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "no RDMA on this machine: rdma-core has no %s()",
                              calls[i].name);
        memcpy((char *)library + calls[i].offset, &call, sizeof(call));
    }
    return BLINK_OK;
}

blink_result_t verbs_library_load(const verbs_library_t **library)
{
    /* The one table of a process, as the libraries are: filled by the first who loads it. */
    static verbs_library_t loaded;
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    blink_result_t result = loaded.status_text ? BLINK_OK : load(&loaded);
    pthread_mutex_unlock(&mutex);
    *library = &loaded;
    return result;
}
