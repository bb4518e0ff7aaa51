#include "engine/plans/fabric.h"

#include "error.h"

#include <stdlib.h>

static void local_destroy(fabric_t *fabric)
{
    free(fabric);
}

blink_result_t fabric_create_local(const topo_t *topo, fabric_t **created)
{
    fabric_t *fabric = calloc(1, sizeof(*fabric));
    if (!fabric)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the fabric of this host");
    fabric->topo = topo;
    fabric->host_count = 1;
    fabric->one_class = topo_is_plain_memory(topo);
    atomic_init(&fabric->users, 1);
    fabric->destroy = local_destroy;
    *created = fabric;
    return BLINK_OK;
}

fabric_t *fabric_get(fabric_t *fabric)
{
    /* Relaxed: whoever counts up has it already. */
    atomic_fetch_add_explicit(&fabric->users, 1, memory_order_relaxed);
    return fabric;
}

void fabric_put(fabric_t *fabric)
{
    /* Acquire and release: what others did with the fabric comes before its end. */
    if (fabric && atomic_fetch_sub_explicit(&fabric->users, 1, memory_order_acq_rel) == 1)
        fabric->destroy(fabric);
}
