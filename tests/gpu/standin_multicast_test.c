/* The stand-in's multicast objects: what CUDA says of the order of calls, and what it refuses. What kernels
 * do with them is in the tests of kernels and daemons. */
#include "standin/process.h"

#if CUDA_API_HAS_MULTICAST

enum { GRAIN = 2 << 20 };

static const CUmulticastObjectProp of_two = {
    .numDevices = 2, .size = GRAIN, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};

static CUmemGenericAllocationHandle create_memory(int ordinal)
{
    CUmemGenericAllocationHandle handle;
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal}};
    CU(cuMemCreate, &handle, GRAIN, &properties, 0);
    return handle;
}

static CUresult set_access(CUdeviceptr address, int ordinal)
{
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return cuda->cuMemSetAccess(address, GRAIN, &access, 1);
}

static void test_there_is_a_switch_where_the_environment_says_so(int socket)
{
    (void)socket;
    CUmemGenericAllocationHandle object;
    int supported = 1;
    process_use(0);
    CU(cuDeviceGetAttribute, &supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0);
    CHECK(supported == 0);
    CHECK_RESULT(CUDA_ERROR_NOT_SUPPORTED, cuMulticastCreate, &object, &of_two);
}

static void test_an_object_is_bound_when_all_gpus_have_joined(int socket)
{
    (void)socket;
    CUmemGenericAllocationHandle object, other;
    CUdeviceptr address;
    process_use(0);
    CU(cuMulticastCreate, &object, &of_two);
    CHECK_RESULT(CUDA_ERROR_OUT_OF_MEMORY, cuMulticastCreate, &other, &of_two); /* there is room for one */
    const CUmemGenericAllocationHandle first = create_memory(0), second = create_memory(1),
                                       third = create_memory(2);
    CU(cuMemAddressReserve, &address, GRAIN, 0, 0, 0);

    CU(cuMulticastAddDevice, object, 0);
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuMulticastAddDevice, object, 0);
    CHECK_RESULT(CUDA_ERROR_ILLEGAL_STATE, cuMulticastBindMem, object, 0, first, 0, GRAIN, 0);
    CHECK_RESULT(CUDA_ERROR_ILLEGAL_STATE, cuMemMap, address, GRAIN, 0, object, 0);
    CU(cuMulticastAddDevice, object, 1);
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuMulticastAddDevice, object, 2);
    CU(cuMulticastBindMem, object, 0, first, 0, GRAIN, 0);
    CHECK_RESULT(CUDA_ERROR_INVALID_DEVICE, cuMulticastBindMem, object, 0, first, 0, GRAIN, 0);
    CHECK_RESULT(CUDA_ERROR_INVALID_DEVICE, cuMulticastBindMem, object, 0, third, 0, GRAIN, 0);
    CU(cuMulticastBindMem, object, 0, second, 0, GRAIN, 0);

    CU(cuMemMap, address, GRAIN, 0, object, 0);
    CHECK(set_access(address, 1) == CUDA_SUCCESS);
    CHECK(set_access(address, 2) == CUDA_ERROR_INVALID_DEVICE);
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuMulticastUnbind, object, 2, 0, GRAIN);
    CU(cuMulticastUnbind, object, 0, 0, GRAIN);
    CU(cuMemUnmap, address, GRAIN);
    CU(cuMemRelease, object); /* and with it what is bound */
    CU(cuMulticastCreate, &other, &of_two);
}

static const process_test_t tests[] = {
    {"there is a switch where the environment says so", test_there_is_a_switch_where_the_environment_says_so,
     NULL},
    {"an object is bound when all GPUs have joined", test_an_object_is_bound_when_all_gpus_have_joined,
     "STANDIN_CUDA_SWITCH=1"},
};

int main(void)
{
    setenv("STANDIN_CUDA_GPUS", "3", 1);
    return process_run_all(tests, sizeof(tests) / sizeof(tests[0]));
}

#else

int main(void)
{
    return 0;
}

#endif
