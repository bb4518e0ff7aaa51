/*
 * What programs that were compiled with NCCL's header pass to this library: the numbers and layouts of NCCL
 * 2.30.7, under names of our own, so that a test can compare both. Element types and operators have the
 * numbers of <blink/types.h>.
 */
#ifndef CLIENT_NCCL_ABI_H
#define CLIENT_NCCL_ABI_H

#include <blink/blink.h>

#include <assert.h>
#include <limits.h>
#include <stdint.h>

/** What ncclGetVersion() says: 2.30.7. */
#define ABI_VERSION 23007

typedef enum abi_result {
    ABI_SUCCESS = 0,
    ABI_CUDA_ERROR = 1,
    ABI_SYSTEM_ERROR = 2,
    ABI_INTERNAL_ERROR = 3,
    ABI_INVALID_ARGUMENT = 4,
    ABI_INVALID_USAGE = 5,
    ABI_REMOTE_ERROR = 6,
    ABI_IN_PROGRESS = 7,
    ABI_TIMEOUT = 8,
} abi_result_t;

#define ABI_UNIQUE_ID_BYTES 128

typedef struct abi_unique_id {
    char bytes[ABI_UNIQUE_ID_BYTES];
} abi_unique_id_t;

#define ABI_MAGIC          0xcafebeefu
#define ABI_SIM_INFO_MAGIC 0x74685283u

/** An option that a program leaves open. */
#define ABI_UNDEFINED INT_MIN

/** Options of a communicator. Programs of older versions have the first fields, as struct_bytes says. Only
 * `blocking` and `comm_name` mean something here, the others are about NCCL's own ways. */
typedef struct abi_config {
    size_t struct_bytes;
    unsigned int magic;
    unsigned int version;
    int blocking;
    int cga_cluster_size;
    int min_ctas;
    int max_ctas;
    const char *net_name;
    int split_share;
    int traffic_class;
    const char *comm_name;
    int collnet_enable;
    int cta_policy;
    int shrink_share;
    int nvls_ctas;
    int channels_per_net_peer;
    int nvlink_centric_scheduling;
    int graph_usage_mode;
    int rma_contexts;
    int max_p2p_peers;
    int graph_stream_ordering;
} abi_config_t;

typedef struct abi_sim_info {
    size_t struct_bytes;
    unsigned int magic;
    unsigned int version;
    float estimated_time;
} abi_sim_info_t;

/** What ncclCommQueryProperties() tells. */
typedef struct abi_properties {
    size_t struct_bytes;
    unsigned int magic;
    unsigned int version;
    int rank;
    int rank_count;
    int cuda_device;
    int nvml_device;
    bool has_device_api;
    bool has_multimem;
    int gin_type; /* 0: none */
    int lsa_teams;
    bool has_host_rma;
    int railed_gin_type;
} abi_properties_t;

/** Ranks of a communicator: one, and each `stride` further. */
typedef struct abi_team {
    int rank_count, rank, stride;
} abi_team_t;

/** Where the scalar of an operator is. */
typedef enum abi_residence { ABI_SCALAR_DEVICE = 0, ABI_SCALAR_HOST = 1 } abi_residence_t;

#define ABI_SPLIT_NO_COLOR (-1)
#define ABI_SHRINK_DEFAULT 0
#define ABI_SHRINK_ABORT   1

/** Built-in operators are less; those that programs make are not. */
#define ABI_REDOPS 5

static_assert(sizeof(abi_unique_id_t) == 128, "programs pass it by value");
static_assert(offsetof(abi_config_t, blocking) == 16, "NCCL's layout");
static_assert(offsetof(abi_config_t, comm_name) == 48, "NCCL's layout");
static_assert(sizeof(abi_config_t) == 96, "NCCL's layout");
static_assert(sizeof(abi_sim_info_t) == 24, "NCCL's layout");
static_assert(BLINK_PRE_MUL_SUM == ABI_REDOPS, "operators that programs make begin there");

#endif
