#include "net/data/twin.h"

bool twin_make(twin_t *twin, device_memory_t *memory, uint64_t bytes, transport_t *transport)
{
    const transport_calls_t *calls = transport->calls;
    *twin = (twin_t){.bytes = bytes};
    if (!calls->reach || !device_memory_take(memory, bytes, &twin->offset))
        return false;
    twin->memory = memory;
    twin->calls = calls;
    twin->reach = calls->reach(transport, memory, twin->offset, bytes, &twin->keys);
    if (!twin->reach)
        twin_end(twin);
    return twin->memory;
}

void twin_end(twin_t *twin)
{
    if (!twin->memory)
        return;
    if (twin->reach)
        twin->calls->unreach(twin->reach);
    device_memory_give(twin->memory, twin->offset, twin->bytes);
    *twin = (twin_t){0};
}
