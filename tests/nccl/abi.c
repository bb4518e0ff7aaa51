/* Our names for NCCL's types and numbers beside NCCL's own, wherever its header is. It compiles, or not. */
#include "abi.h"

#include <nccl.h>

#define SAME_SIZE(theirs, ours) static_assert(sizeof(theirs) == sizeof(ours), #theirs)
#define SAME_FIELD(theirs, ours, their_field, our_field)                                                     \
    static_assert(offsetof(theirs, their_field) == offsetof(ours, our_field) &&                              \
                      sizeof(((theirs *)0)->their_field) == sizeof(((ours *)0)->our_field),                  \
                  #their_field)
#define SAME(theirs, ours) static_assert((long long)(theirs) == (long long)(ours), #theirs)

SAME_SIZE(ncclUniqueId, abi_unique_id_t);
SAME_SIZE(ncclSimInfo_t, abi_sim_info_t);
SAME_SIZE(ncclResult_t, abi_result_t);
SAME_SIZE(ncclDataType_t, blink_datatype_t);
SAME_SIZE(ncclRedOp_t, blink_redop_t);
SAME_SIZE(ncclScalarResidence_t, abi_residence_t);

SAME_FIELD(ncclSimInfo_t, abi_sim_info_t, size, struct_bytes);
SAME_FIELD(ncclSimInfo_t, abi_sim_info_t, estimatedTime, estimated_time);
SAME_FIELD(ncclConfig_t, abi_config_t, size, struct_bytes);
SAME_FIELD(ncclConfig_t, abi_config_t, magic, magic);
SAME_FIELD(ncclConfig_t, abi_config_t, version, version);
SAME_FIELD(ncclConfig_t, abi_config_t, blocking, blocking);
SAME_FIELD(ncclConfig_t, abi_config_t, cgaClusterSize, cga_cluster_size);
SAME_FIELD(ncclConfig_t, abi_config_t, minCTAs, min_ctas);
SAME_FIELD(ncclConfig_t, abi_config_t, maxCTAs, max_ctas);
SAME_FIELD(ncclConfig_t, abi_config_t, netName, net_name);
SAME_FIELD(ncclConfig_t, abi_config_t, splitShare, split_share);
#if NCCL_VERSION_CODE >= 22700
SAME_FIELD(ncclConfig_t, abi_config_t, trafficClass, traffic_class);
SAME_FIELD(ncclConfig_t, abi_config_t, commName, comm_name);
SAME_FIELD(ncclConfig_t, abi_config_t, collnetEnable, collnet_enable);
SAME_FIELD(ncclConfig_t, abi_config_t, CTAPolicy, cta_policy);
SAME_FIELD(ncclConfig_t, abi_config_t, shrinkShare, shrink_share);
SAME_FIELD(ncclConfig_t, abi_config_t, nvlsCTAs, nvls_ctas);
SAME(NCCL_SHRINK_DEFAULT, ABI_SHRINK_DEFAULT);
SAME(NCCL_SHRINK_ABORT, ABI_SHRINK_ABORT);
#endif
#if NCCL_VERSION_CODE >= 23000
SAME_SIZE(ncclConfig_t, abi_config_t);
SAME_FIELD(ncclConfig_t, abi_config_t, maxP2pPeers, max_p2p_peers);
SAME_FIELD(ncclConfig_t, abi_config_t, graphStreamOrdering, graph_stream_ordering);
SAME(ncclTimeout, ABI_TIMEOUT);
SAME(NCCL_API_MAGIC, ABI_MAGIC);
#endif

SAME(NCCL_CONFIG_UNDEF_INT, ABI_UNDEFINED);
SAME(NCCL_SPLIT_NOCOLOR, ABI_SPLIT_NO_COLOR);
SAME(ncclSuccess, ABI_SUCCESS);
SAME(ncclUnhandledCudaError, ABI_CUDA_ERROR);
SAME(ncclSystemError, ABI_SYSTEM_ERROR);
SAME(ncclInternalError, ABI_INTERNAL_ERROR);
SAME(ncclInvalidArgument, ABI_INVALID_ARGUMENT);
SAME(ncclInvalidUsage, ABI_INVALID_USAGE);
SAME(ncclRemoteError, ABI_REMOTE_ERROR);
SAME(ncclInProgress, ABI_IN_PROGRESS);
SAME(ncclScalarDevice, ABI_SCALAR_DEVICE);
SAME(ncclScalarHostImmediate, ABI_SCALAR_HOST);
SAME(ncclNumOps, ABI_REDOPS);

SAME(ncclSum, BLINK_SUM);
SAME(ncclProd, BLINK_PROD);
SAME(ncclMax, BLINK_MAX);
SAME(ncclMin, BLINK_MIN);
SAME(ncclAvg, BLINK_AVG);
SAME(ncclInt8, BLINK_INT8);
SAME(ncclUint8, BLINK_UINT8);
SAME(ncclInt32, BLINK_INT32);
SAME(ncclUint32, BLINK_UINT32);
SAME(ncclInt64, BLINK_INT64);
SAME(ncclUint64, BLINK_UINT64);
SAME(ncclFloat16, BLINK_FLOAT16);
SAME(ncclFloat32, BLINK_FLOAT32);
SAME(ncclFloat64, BLINK_FLOAT64);
SAME(ncclBfloat16, BLINK_BFLOAT16);
SAME(ncclFloat8e4m3, BLINK_FLOAT8_E4M3);
SAME(ncclFloat8e5m2, BLINK_FLOAT8_E5M2);
