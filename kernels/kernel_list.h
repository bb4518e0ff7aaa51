/*
 * The kernels there are: LANE_KERNELS(kernel) is kernel(name, reduction) for each. lane_abi.h says how they
 * are named.
 */
#ifndef BLINK_KERNEL_LIST_H
#define BLINK_KERNEL_LIST_H

#define LANE_KERNEL_OF(kernel, type, operation)                                                              \
    kernel(blink_lanes_##type##_##operation, reduction<type##_type, operation##_operator>)

#define LANE_KERNELS_OF(kernel, type)                                                                        \
    LANE_KERNEL_OF(kernel, type, sum)                                                                        \
    LANE_KERNEL_OF(kernel, type, prod)                                                                       \
    LANE_KERNEL_OF(kernel, type, max)                                                                        \
    LANE_KERNEL_OF(kernel, type, min)

#define LANE_KERNELS(kernel)                                                                                 \
    kernel(blink_lanes_move, copying) LANE_KERNELS_OF(kernel, int8) LANE_KERNELS_OF(kernel, uint8)           \
        LANE_KERNELS_OF(kernel, int32) LANE_KERNELS_OF(kernel, uint32) LANE_KERNELS_OF(kernel, int64)        \
            LANE_KERNELS_OF(kernel, uint64) LANE_KERNELS_OF(kernel, float16)                                 \
                LANE_KERNELS_OF(kernel, float32) LANE_KERNELS_OF(kernel, float64)                            \
                    LANE_KERNELS_OF(kernel, bfloat16) LANE_KERNELS_OF(kernel, float8_e4m3)                   \
                        LANE_KERNELS_OF(kernel, float8_e5m2)

#endif
