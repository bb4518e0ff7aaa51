/* The probe's kernels: spin, work, read, mark, echo and a clock that notices when it was taken off the GPU.
 * Compiled to a fatbin of their own because the probe loads them through the driver API, as blinkd
 * loads its interpreter. Each ends by itself after a limit: whatever goes wrong, nothing stays on the GPU. */
#include <stdint.h>

static __device__ __forceinline__ uint64_t now_ns(void)
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

/* One thread of each block polls; the others wait for it, so that a grid that fills the GPU does not flood
 * the bus. */
extern "C" __global__ void probe_spin(volatile uint32_t *started, const volatile uint32_t *stop,
                                      uint64_t limit_ns)
{
    const uint64_t start = now_ns();
    if (threadIdx.x == 0) {
        *started = 1;
        while (*stop == 0 && now_ns() - start < limit_ns)
            __nanosleep(1000);
    }
    __syncthreads();
}

/* A fixed amount of dependent arithmetic: what an application's short kernel costs. */
extern "C" __global__ void probe_work(uint32_t *out, uint32_t rounds)
{
    uint32_t x = threadIdx.x + 1;
    for (uint32_t i = 0; i < rounds; i++)
        x = x * 1664525u + 1013904223u;
    if (x == 0)
        *out = x;
}

/* One thread looks at the clock without rest. A jump is a time in which another context had the GPU. */
extern "C" __global__ void probe_slices(uint64_t run_ns, uint64_t jump_ns, uint64_t *from_ns, uint64_t *to_ns,
                                        uint32_t *count, uint32_t capacity)
{
    const uint64_t start = now_ns();
    uint64_t last = start;
    uint32_t found = 0;
    while (last - start < run_ns) {
        const uint64_t t = now_ns();
        if (t - last > jump_ns && found < capacity) {
            from_ns[found] = last;
            to_ns[found++] = t;
        }
        last = t;
    }
    *count = found;
}

/* Reads the memory over and over; the extremes tell whether anybody else's bytes ever showed up. */
extern "C" __global__ void probe_read(const volatile uint32_t *memory, uint64_t words,
                                      const volatile uint32_t *stop, uint64_t limit_ns, uint32_t *lowest,
                                      uint32_t *highest, volatile uint32_t *passes)
{
    const uint64_t start = now_ns();
    const uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    uint32_t low = 0xffffffffu, high = 0, pass = 0;
    while (*stop == 0 && now_ns() - start < limit_ns) {
        for (uint64_t i = first; i < words; i += stride) {
            const uint32_t value = memory[i];
            low = min(low, value);
            high = max(high, value);
        }
        if (first == 0)
            *passes = ++pass;
    }
    atomicMin(lowest, low);
    atomicMax(highest, high);
}

extern "C" __global__ void probe_mark(volatile uint32_t *flag, uint32_t value)
{
    *flag = value;
    __threadfence_system();
}

extern "C" __global__ void probe_count(uint32_t *counter)
{
    *counter += 1;
}

/* Answers every value of the gate with the same value in the flag: the bus there and back, without stream or
 * launch. */
extern "C" __global__ void probe_echo(const volatile uint32_t *gate, volatile uint32_t *flag, uint32_t rounds,
                                      uint64_t limit_ns)
{
    const uint64_t start = now_ns();
    for (uint32_t i = 1; i <= rounds; i++) {
        while (*gate < i)
            if (now_ns() - start > limit_ns)
                return;
        *flag = i;
    }
}
