/* The GPU worker as the service sees it, over the stand-in for the driver: its start and end, and what it
 * says of the GPUs. */
#include "worker_test.h"

#include "worker_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

#include <cmocka.h>

static const char *const two_gpus[] = {"STANDIN_CUDA_GPUS=2", NULL};

/* ---- start and end ---- */

static void test_without_driver(void **state)
{
    harness_t service;
    (void)state;
    harness_start(&service, (gpu_start_t){0}, (const char *const[]){"LD_LIBRARY_PATH", NULL});

    assert_int_equal(service.hello.result, BLINK_ERR_NOT_FOUND);
    harness_assert_text(service.hello.text, "no CUDA driver");
    assert_int_equal(harness_await_end(&service), 1);
}

/* It lacks cuStreamGetId(). */
static void test_driver_that_is_too_old(void **state)
{
    harness_t service;
    (void)state;
    harness_start(
        &service, (gpu_start_t){0},
        (const char *const[]){"LD_LIBRARY_PATH=" STANDIN_TOO_OLD, "STANDIN_CUDA_VERSION=11070", NULL});

    assert_int_equal(service.hello.result, BLINK_ERR_NOT_FOUND);
    assert_string_equal(service.hello.text, "the driver, libcuda.so.1 of CUDA 11.7, has no cuStreamGetId: "
                                            "blinkd needs one of CUDA 12.0 (R525) or later");
    assert_int_equal(harness_await_end(&service), 1);
}

/* 209: CUDA_ERROR_NO_BINARY_FOR_GPU. */
static void test_kernels_that_the_driver_does_not_load(void **state)
{
    harness_t service;
    (void)state;
    harness_start(&service, (gpu_start_t){0},
                  (const char *const[]){"STANDIN_CUDA_FAIL=cuModuleLoadData:1:209",
                                        "STANDIN_CUDA_VERSION=12020", NULL});

    assert_int_equal(service.hello.result, BLINK_ERR_SYSTEM);
    harness_assert_text(service.hello.text, "; kernels of CUDA ");
    harness_assert_text(service.hello.text, ", driver of CUDA 12.2, GPU of capability 9.0");
    assert_int_equal(harness_await_end(&service), 1);
}

static void test_without_gpu(void **state)
{
    harness_t service;
    (void)state;
    harness_start(&service, (gpu_start_t){0}, (const char *const[]){"CUDA_VISIBLE_DEVICES=", NULL});

    assert_int_equal(service.hello.result, BLINK_ERR_NOT_FOUND);
    harness_assert_text(service.hello.text, "finds no GPU");
    assert_int_equal(harness_await_end(&service), 1);
}

static void test_start_that_fails(void **state)
{
    harness_t service;
    (void)state;
    harness_start(&service, (gpu_start_t){0},
                  (const char *const[]){"STANDIN_CUDA_FAIL=cuMemPoolCreate:1", NULL});

    assert_int_equal(service.hello.result, BLINK_ERR_SYSTEM);
    harness_assert_text(service.hello.text, "cuMemPoolCreate: CUDA_ERROR_UNKNOWN");
    assert_int_equal(harness_await_end(&service), 1);
}

static void test_hello_describes_two_gpus(void **state)
{
    harness_t service;
    (void)state;
    harness_start(&service, (gpu_start_t){0}, two_gpus);

    assert_int_equal(service.hello.result, BLINK_OK);
    assert_int_equal(service.hello.gpu_count, 2);
    assert_int_equal(service.opening_count, 2);
    assert_false(service.hello.is_mps);
    const gpu_facts_t *gpus = service.hello.gpus;
    assert_memory_not_equal(gpus[0].uuid, gpus[1].uuid, GPU_UUID_BYTES);
    assert_string_not_equal(gpus[0].pci, gpus[1].pci);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(gpus[i].name[0] != '\0');
        assert_int_equal(gpus[i].peers, 3);
        assert_true(gpus[i].capability >= 70);
        assert_true(gpus[i].multiprocessors > 0 && gpus[i].copy_engines > 0 && gpus[i].memory_bytes > 0);
        assert_true(gpus[i].resident_blocks >= gpus[i].multiprocessors);
    }
    assert_int_equal(harness_stop(&service), 0);
}

static void test_gpus_that_are_no_peers(void **state)
{
    harness_t service;
    (void)state;
    harness_start(&service, (gpu_start_t){0},
                  (const char *const[]){"STANDIN_CUDA_GPUS=2", "STANDIN_CUDA_PEERS=", NULL});

    assert_int_equal(service.hello.result, BLINK_OK);
    assert_int_equal(service.hello.gpus[0].peers, 1);
    assert_int_equal(service.hello.gpus[1].peers, 2);
    assert_int_equal(harness_stop(&service), 0);
}

/* ---- memory that the network may write to ---- */

static void test_memory_is_exported_if_that_is_asked_for(void **state)
{
    static const char *const two_in_order[] = {"STANDIN_CUDA_GPUS=2", "STANDIN_CUDA_ORDERING=100", NULL};
    harness_t service;
    (void)state;
    harness_start(&service, (gpu_start_t){0}, two_gpus);
    assert_int_equal(service.exported_count, 0);
    assert_int_equal(service.hello.gpus[0].exported_address, 0);
    assert_int_equal(harness_stop(&service), 0);

    harness_start(&service, (gpu_start_t){.exports = true}, two_gpus);
    assert_int_equal(service.exported_count, 2);
    for (unsigned i = 0; i < 2; i++) {
        struct stat file;
        assert_int_equal(fstat(service.exported_fds[i], &file), 0);
        assert_true((uint64_t)file.st_size >= GPU_EXPORT_BYTES);
        assert_true(service.hello.gpus[i].exported_address != 0);
        assert_false(service.hello.gpus[i].orders_for_itself || service.hello.gpus[i].orders_for_all);
    }
    assert_true(service.hello.gpus[0].exported_address != service.hello.gpus[1].exported_address);
    assert_int_equal(harness_stop(&service), 0);

    harness_start(&service, (gpu_start_t){.exports = true}, two_in_order);
    assert_true(service.hello.gpus[1].orders_for_itself && !service.hello.gpus[1].orders_for_all);
    assert_int_equal(harness_stop(&service), 0);
}

/* Then what comes lands in host memory, and all else goes on. */
static void test_gpus_that_export_nothing_are_served(void **state)
{
    static const char *const refusals[][3] = {
        {"STANDIN_CUDA_GPUS=2", "STANDIN_CUDA_DMA_BUFS=0", NULL},
        {"STANDIN_CUDA_GPUS=2", "STANDIN_CUDA_FAIL=cuMemGetHandleForAddressRange:1", NULL},
    };
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        harness_t service;
        harness_start(&service, (gpu_start_t){.exports = true}, refusals[i]);
        assert_int_equal(service.hello.result, BLINK_OK);
        assert_int_equal(service.exported_count, i);
        assert_int_equal(service.hello.gpus[0].exported_address, 0);
        assert_int_equal(service.hello.gpus[1].exported_address != 0, i);
        assert_int_equal(harness_stop(&service), 0);
    }
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_driver),
        cmocka_unit_test(test_driver_that_is_too_old),
        cmocka_unit_test(test_kernels_that_the_driver_does_not_load),
        cmocka_unit_test(test_without_gpu),
        cmocka_unit_test(test_start_that_fails),
        cmocka_unit_test(test_hello_describes_two_gpus),
        cmocka_unit_test(test_memory_is_exported_if_that_is_asked_for),
        cmocka_unit_test(test_gpus_that_export_nothing_are_served),
        cmocka_unit_test(test_gpus_that_are_no_peers),
    };
    harness_become_worker(argument_count, arguments);
    sharing_become_keeper(argument_count, arguments);
    return cmocka_run_group_tests_name("worker: start", tests, NULL, NULL) + worker_memory_tests() +
           worker_run_tests() + worker_launch_tests() + worker_sharing_tests();
}
