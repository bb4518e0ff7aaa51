/* Programs that the driver takes for strangers to the daemon: whether their memory is used in place. */
#include "gpu_scenarios.h"

/* Memory that is shared as a descriptor is in place whoever shares it. */
static void check_in_place(const player_t *p, blink_comm_t *comm)
{
    CUdeviceptr pooled = pool_memory(p, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, COUNT);
    blink_mem_promise_release(p->context);
    must(p, blink_mem_prepare(p->context, as_pointer(pooled), COUNT * sizeof(int32_t)),
         "prepare pooled memory");
    reduce_and_check(p, comm, pooled, pooled, COUNT, "pooled memory");
    must(p, blink_mem_release(p->context, as_pointer(pooled)), "release");
}

void play_legacy_taken(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    CUdeviceptr memory = device_memory(p, COUNT);
    must(p, blink_mem_prepare(p->context, as_pointer(memory), COUNT * sizeof(int32_t)), "prepare");
    reduce_and_check(p, comm, memory, memory, COUNT, "all_reduce");
    check_in_place(p, comm);
    must(p, blink_comm_destroy(comm), "destroy");
}

void play_legacy_refused(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    CUdeviceptr memory = device_memory(p, COUNT);
    must_fail(p, blink_mem_prepare(p->context, as_pointer(memory), COUNT * sizeof(int32_t)),
              BLINK_ERR_UNSUPPORTED, "is staged", "prepare");
    reduce_and_check(p, comm, memory, memory, COUNT, "all_reduce");
    check_in_place(p, comm);
    must(p, blink_comm_destroy(comm), "destroy");
}
