/*
 * Steps that an NVSwitch takes part in: it combines what all ranks have at one place, and copies to all ranks
 * what is stored at another (multimem). A load and a store move a unit: 16
 * bytes of floats of up to 32 bits, and one element of other types, of which there are no vectors. Slots are
 * whole units: what is behind the payload in the last one goes with it and is read by nobody.
 *
 * Which reductions there are. PTX has sums of floats from 16 bits on, and sums, minima and maxima of integers
 * of 32 and 64. Its minima and maxima of float16 and bfloat16 are left out: what they make of NaN is not
 * said. Sums of 16 bits are taken in float32. The order in which a switch adds is its own, and may be another
 * each time (docs/gpu.md).
 *
 * Two addresses of one place. Ranks write and read slots at the addresses of their own GPU's memory; the step
 * here goes by the address of all. PTX calls these aliases, and wants a fence.proxy.alias on the way from an
 * access by one to an access by the other. What leads into the step are semaphores that it has waited for,
 * and what leads out of it those that it signals: each thread that has waited has the fence behind that, and
 * each that signals before it. It is a full fence of the system, which not every thread has to pay for.
 */
#ifndef BLINK_KERNELS_SWITCH_CUH
#define BLINK_KERNELS_SWITCH_CUH

#include "element.cuh"

/* Type, operator, what a unit is, and the instruction's words. */
#define SWITCH_REDUCTIONS(X)                                                                                 \
    X(float16, sum, halves, "add.acc::f32.v4.f16x2")                                                         \
    X(bfloat16, sum, halves, "add.acc::f32.v4.bf16x2")                                                       \
    X(float32, sum, floats, "add.v4.f32")                                                                    \
    X(float64, sum, doubles, "add.f64")                                                                      \
    X(int32, sum, words, "add.s32")                                                                          \
    X(int32, max, words, "max.s32")                                                                          \
    X(int32, min, words, "min.s32")                                                                          \
    X(uint32, sum, words, "add.u32")                                                                         \
    X(uint32, max, words, "max.u32")                                                                         \
    X(uint32, min, words, "min.u32")                                                                         \
    X(int64, sum, longs, "add.u64")                                                                          \
    X(int64, max, longs, "max.s64")                                                                          \
    X(int64, min, longs, "min.s64")                                                                          \
    X(uint64, sum, longs, "add.u64")                                                                         \
    X(uint64, max, longs, "max.u64")                                                                         \
    X(uint64, min, longs, "min.u64")

typedef vector_t switch_halves_t, switch_floats_t;
typedef uint64_t switch_doubles_t, switch_longs_t;
typedef uint32_t switch_words_t;

/* A unit as words to calculate with, and how many units a thread has under way. */
template <class unit_t> struct switch_unit {
    enum : uint32_t { WORDS = 1, AT_ONCE = 8 };
    static LANE_MEMBER void open(unit_t unit, uint64_t *words)
    {
        words[0] = unit;
    }
    static LANE_MEMBER unit_t close(const uint64_t *words)
    {
        return (unit_t)words[0];
    }
};
template <> struct switch_unit<vector_t> {
    enum : uint32_t { WORDS = 2, AT_ONCE = 4 };
    static LANE_MEMBER void open(vector_t unit, uint64_t *words)
    {
        words[0] = unit.low;
        words[1] = unit.high;
    }
    static LANE_MEMBER vector_t close(const uint64_t *words)
    {
        return vector_t{words[0], words[1]};
    }
};

/* IS_THERE: load() is; it returns the unit of all ranks combined. */
template <class reducing> struct by_switch {
    enum : bool { IS_THERE = false };
};

#define SWITCH_REDUCTION(type, operation, unit, what)                                                        \
    template <> struct by_switch<reduction<type##_type, operation##_operator>> {                             \
        enum : bool { IS_THERE = true };                                                                     \
        typedef switch_##unit##_t unit_t;                                                                    \
        static LANE_MEMBER unit_t load(uint64_t address)                                                     \
        {                                                                                                    \
            SWITCH_LOAD(unit, what, (reduction<type##_type, operation##_operator>, unit_t))                  \
        }                                                                                                    \
    };

#if defined(__CUDACC__)

/* Since PTX ISA 8.1 there are the instructions. */
#if __CUDA_ARCH__ >= 900 && (__CUDACC_VER_MAJOR__ > 12 || __CUDACC_VER_MINOR__ >= 1)

#define SWITCH_LOAD(unit, what, reducing) SWITCH_LOAD_##unit("multimem.ld_reduce.relaxed.sys.global." what)

#define SWITCH_LOAD_halves(instruction)                                                                      \
    uint32_t a, b, c, d;                                                                                     \
    asm volatile(instruction " {%0, %1, %2, %3}, [%4];"                                                      \
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)                                                        \
                 : "l"(address)                                                                              \
                 : "memory");                                                                                \
    return vector_t{a | (uint64_t)b << 32, c | (uint64_t)d << 32};

#define SWITCH_LOAD_floats(instruction)                                                                      \
    float a, b, c, d;                                                                                        \
    asm volatile(instruction " {%0, %1, %2, %3}, [%4];"                                                      \
                 : "=f"(a), "=f"(b), "=f"(c), "=f"(d)                                                        \
                 : "l"(address)                                                                              \
                 : "memory");                                                                                \
    return vector_t{bits_as<uint32_t>(a) | (uint64_t)bits_as<uint32_t>(b) << 32,                             \
                    bits_as<uint32_t>(c) | (uint64_t)bits_as<uint32_t>(d) << 32};

#define SWITCH_LOAD_doubles(instruction)                                                                     \
    double loaded;                                                                                           \
    asm volatile(instruction " %0, [%1];" : "=d"(loaded) : "l"(address) : "memory");                         \
    return bits_as<uint64_t>(loaded);

#define SWITCH_LOAD_words(instruction)                                                                       \
    uint32_t loaded;                                                                                         \
    asm volatile(instruction " %0, [%1];" : "=r"(loaded) : "l"(address) : "memory");                         \
    return loaded;

#define SWITCH_LOAD_longs(instruction)                                                                       \
    uint64_t loaded;                                                                                         \
    asm volatile(instruction " %0, [%1];" : "=l"(loaded) : "l"(address) : "memory");                         \
    return loaded;

SWITCH_REDUCTIONS(SWITCH_REDUCTION)

/* To all ranks. Vectors there are of floats alone, which are stored as they are. */
LANE_FUNCTION void switch_store(uint64_t address, vector_t unit)
{
    asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(address), "f"(bits_as<float>((uint32_t)unit.low)),
                   "f"(bits_as<float>((uint32_t)(unit.low >> 32))), "f"(bits_as<float>((uint32_t)unit.high)),
                   "f"(bits_as<float>((uint32_t)(unit.high >> 32)))
                 : "memory");
}

LANE_FUNCTION void switch_store(uint64_t address, uint64_t unit)
{
    asm volatile("multimem.st.relaxed.sys.global.b64 [%0], %1;" : : "l"(address), "l"(unit) : "memory");
}

LANE_FUNCTION void switch_store(uint64_t address, uint32_t unit)
{
    asm volatile("multimem.st.relaxed.sys.global.b32 [%0], %1;" : : "l"(address), "r"(unit) : "memory");
}

#endif

#else

#include "host_kernels.h"

/* Where a GPU has the instruction, somebody else knows what memory there is behind the address. */
template <class reducing, class unit_t> LANE_FUNCTION unit_t switch_combine(uint64_t address)
{
    typedef switch_unit<unit_t> shape;
    uint64_t places[LANE_ABI_RANKS_MAX], words[shape::WORDS];
    typename reducing::value_t sums[shape::WORDS * reducing::VALUES];
    uint32_t count = host_switch_places(address, places);
    for (uint32_t w = 0; w < shape::WORDS; w++)
        reducing::begin(&sums[w * reducing::VALUES]);
    for (uint32_t i = 0; i < count; i++) {
        shape::open(load_place<unit_t>(places[i]), words);
        for (uint32_t w = 0; w < shape::WORDS; w++)
            reducing::add(&sums[w * reducing::VALUES], words[w]);
    }
    for (uint32_t w = 0; w < shape::WORDS; w++)
        words[w] = reducing::end(&sums[w * reducing::VALUES]);
    return shape::close(words);
}

#define SWITCH_BARE(...)                  __VA_ARGS__
#define SWITCH_LOAD(unit, what, reducing) return switch_combine<SWITCH_BARE reducing>(address);

SWITCH_REDUCTIONS(SWITCH_REDUCTION)

template <class unit_t> LANE_FUNCTION void switch_store(uint64_t address, unit_t unit)
{
    uint64_t places[LANE_ABI_RANKS_MAX];
    uint32_t count = host_switch_places(address, places);
    for (uint32_t i = 0; i < count; i++)
        store_place(places[i], unit);
}

#endif

#endif
