/*
 * Types shared by applications, libblinkclient, the wire protocol and the daemon: result codes, element
 * types, reduction operators and collectives. Installed as <blink/types.h>. The numbers are ABI and wire
 * format.
 */
#ifndef BLINK_TYPES_H
#define BLINK_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Outcome of a call or of a collective. BLINK_OK is 0; every other value is a failure. */
typedef enum blink_result {
    BLINK_OK = 0,
    BLINK_ERR_INVALID_ARGUMENT = 1, /**< an argument is outside its documented domain */
    BLINK_ERR_NO_MEMORY = 2,        /**< memory or another finite resource of this host ran out */
    BLINK_ERR_SYSTEM = 3,           /**< a system call failed; the text names it and its errno */
    BLINK_ERR_CONNECT = 4,          /**< no daemon answers on the socket */
    BLINK_ERR_PROTOCOL = 5,         /**< the peer speaks another protocol version, or nonsense */
    BLINK_ERR_NOT_REGISTERED = 6,   /**< memory passed to a collective lies in no registered region */
    BLINK_ERR_OUT_OF_RANGE = 7,     /**< memory passed to a collective runs past the end of its region */
    BLINK_ERR_MISMATCH = 8,         /**< the ranks of a communicator disagree; the text names both sides */
    BLINK_ERR_NOT_FOUND = 9,        /**< the named thing (device, communicator, topology…) does not exist */
    BLINK_ERR_EXISTS = 10,          /**< the thing is there already: a rank joined twice, a second daemon */
    BLINK_ERR_PERMISSION = 11,      /**< not allowed to this user */
    BLINK_ERR_QUOTA = 12,           /**< a limit of this tenant or of the ring was reached */
    BLINK_ERR_TIMEOUT = 13,         /**< a peer did not take part within the time allowed */
    BLINK_ERR_ABORTED = 14,         /**< the communicator was aborted by one of its ranks */
    BLINK_ERR_PEER_LOST = 15,       /**< another rank's process ended or disconnected */
    BLINK_ERR_DAEMON_LOST = 16,     /**< the daemon ended or the connection to it broke */
    BLINK_ERR_UNSUPPORTED = 17,     /**< valid, but not provided by this version or on this device */
    BLINK_ERR_UNREACHABLE = 18,     /**< the topology does not connect these ranks (in the way asked for) */
    BLINK_ERR_INTERNAL = 19,        /**< a defect of blinkd itself */
} blink_result_t;

/** Element type of a buffer. The numbers are those of NCCL's ncclDataType_t. */
typedef enum blink_datatype {
    BLINK_INT8 = 0,
    BLINK_UINT8 = 1,
    BLINK_INT32 = 2,
    BLINK_UINT32 = 3,
    BLINK_INT64 = 4,
    BLINK_UINT64 = 5,
    BLINK_FLOAT16 = 6, /**< IEEE 754 binary16 */
    BLINK_FLOAT32 = 7,
    BLINK_FLOAT64 = 8,
    BLINK_BFLOAT16 = 9,
    BLINK_FLOAT8_E4M3 = 10, /**< OCP FP8 E4M3: no infinities, largest value 448 */
    BLINK_FLOAT8_E5M2 = 11, /**< OCP FP8 E5M2: largest finite value 57,344 */
} blink_datatype_t;

/** Reduction operator, applied element by element. The numbers are those of NCCL's ncclRedOp_t. */
typedef enum blink_redop {
    BLINK_SUM = 0,
    BLINK_PROD = 1,
    BLINK_MAX = 2,
    BLINK_MIN = 3,
    BLINK_AVG = 4,         /**< the sum, divided by the number of ranks at the end */
    BLINK_PRE_MUL_SUM = 5, /**< the sum of the inputs, each multiplied by a scalar of its rank first */
} blink_redop_t;

/** Collective operation. The planner knows all of them; what the client library submits, blink.h says. */
typedef enum blink_collective {
    BLINK_ALLREDUCE = 0,
    BLINK_BROADCAST = 1,
    BLINK_REDUCE = 2,
    BLINK_ALLGATHER = 3,
    BLINK_REDUCESCATTER = 4,
    BLINK_GATHER = 5,
    BLINK_SCATTER = 6,
    BLINK_ALLTOALL = 7,
    BLINK_SENDRECV = 8, /**< one rank sends its buffer to one other */
} blink_collective_t;

/** How collectives are planned. */
typedef enum blink_algorithm {
    BLINK_ALGORITHM_AUTO = 0,  /**< the planner's choice for the size */
    BLINK_ALGORITHM_TREES = 1, /**< optimal packing of spanning trees (or of routes) over every usable link */
    BLINK_ALGORITHM_RING = 2,  /**< rings as NCCL builds them, PCIe only where NVLink forms none */
    BLINK_ALGORITHM_DOUBLE_BINARY_TREE = 3, /**< NCCL's two complementary binary trees */
    BLINK_ALGORITHM_BLINK = 4,    /**< the Blink papers to the letter: one root, multiplicative weights */
    BLINK_ALGORITHM_ONE_HOP = 5,  /**< every rank straight to every other */
    BLINK_ALGORITHM_BINOMIAL = 6, /**< one binomial tree */
    BLINK_ALGORITHM_RECURSIVE_DOUBLING = 7, /**< partners at doubling distances, halving on the way in */
    BLINK_ALGORITHM_SHALLOW_TREES =
        8, /**< trees of few hops over links of one class, packed as well as these allow */
    BLINK_ALGORITHM_MULTICAST = 9, /**< switches add up what ranks have and copy the result to all */
} blink_algorithm_t;

/** How data and its arrival flag travel over an edge. */
typedef enum blink_protocol {
    BLINK_PROTOCOL_SIMPLE = 0, /**< flag behind a fence */
    BLINK_PROTOCOL_LL = 1,     /**< 4 bytes of data beside 4 bytes of flag */
    BLINK_PROTOCOL_LL128 = 2,  /**< 120 bytes of data and 8 of flag in a line of 128 */
} blink_protocol_t;

#ifdef __cplusplus
}
#endif
#endif
