/* The parts of the gpu.worker test; each returns how many of its tests failed. */
#ifndef WORKER_TEST_H
#define WORKER_TEST_H

int worker_memory_tests(void);
int worker_run_tests(void);
int worker_launch_tests(void);
int worker_sharing_tests(void);

/* The program's main calls this early: a process that is to keep a GPU busy does not return. */
void sharing_become_keeper(int argument_count, char **arguments);

#endif
