/* The parts of the gpu.worker test; each returns how many of its tests failed. */
#ifndef WORKER_TEST_H
#define WORKER_TEST_H

int worker_memory_tests(void);
int worker_run_tests(void);
int worker_launch_tests(void);

#endif
