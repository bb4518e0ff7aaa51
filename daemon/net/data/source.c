#include "net/data/source.h"

#include "exec/instance.h"

#include <stdlib.h>

/* Of one instance and one endpoint. */
typedef struct source {
    list_t of_instance; /* exec_instance_t.kept */
    list_t of_endpoint; /* data_endpoint_t.sources */
    data_endpoint_t *endpoint;
    void *shown; /* to the endpoint's transport; NULL: it cannot be registered */
    data_keys_t keys;
} source_t;

static source_t *create(data_endpoint_t *endpoint, exec_instance_t *instance)
{
    transport_t *transport = endpoint->transport;
    void *memory;
    uint64_t bytes;
    if (!transport->calls->pin || !exec_wire_memory(instance, &memory, &bytes))
        return NULL;
    source_t *source = calloc(1, sizeof(*source));
    if (!source)
        return NULL;
    source->endpoint = endpoint;
    source->shown = transport->calls->pin(transport, memory, bytes, &source->keys);
    instance->keeper = &endpoint->data->keeper;
    list_append(&instance->kept, &source->of_instance);
    list_append(&endpoint->sources, &source->of_endpoint);
    return source;
}

static void destroy(source_t *source)
{
    const transport_t *transport = source->endpoint->transport;
    list_remove(&source->of_instance);
    list_remove(&source->of_endpoint);
    if (source->shown)
        transport->calls->hide(source->shown);
    free(source);
}

const data_keys_t *source_find(data_endpoint_t *endpoint, exec_instance_t *instance)
{
    source_t *source = NULL;
    LIST_FOR_EACH (link, &instance->kept) {
        source_t *kept = CONTAINER_OF(link, source_t, of_instance);
        if (kept->endpoint == endpoint)
            source = kept;
    }
    if (!source)
        source = create(endpoint, instance);
    return source && source->shown ? &source->keys : NULL;
}

void sources_forget(data_endpoint_t *endpoint)
{
    source_t *source;
    while ((source = LIST_FIRST(&endpoint->sources, source_t, of_endpoint)))
        destroy(source);
}

void sources_forget_instance(exec_instance_t *instance)
{
    source_t *source;
    while ((source = LIST_FIRST(&instance->kept, source_t, of_instance)))
        destroy(source);
}
