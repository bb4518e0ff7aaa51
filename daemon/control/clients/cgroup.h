/*
 * The cgroup of a process.
 */
#ifndef BLINK_CONTROL_CGROUP_H
#define BLINK_CONTROL_CGROUP_H

#include <sys/types.h>

#define CGROUP_BYTES 512

/* The path of the process's cgroup, of version 2 or else of the first hierarchy that is named; "?" where it
 * cannot be read. */
void cgroup_of(pid_t pid, char cgroup[CGROUP_BYTES]);

#endif
