/*
 * GPUs that several processes share (STANDIN_CUDA_SHARED): what each tells the others, in a file. As under
 * MPS, or else in turns.
 */
#ifndef STANDIN_SHARE_H
#define STANDIN_SHARE_H

#include "standin/standin.h"

enum { SHARE_USERS_MAX = 64 };

/** A process that uses the GPU. */
typedef struct share_user {
    int32_t pid;     /* 0: free */
    uint32_t blocks; /* MPS: that it has on the multiprocessors */
    bool waits;      /* in turns: for its own */
} share_user_t;

/** A GPU. */
typedef struct share {
    share_user_t users[SHARE_USERS_MAX];
    int32_t holder; /* in turns: the process whose kernels run; 0: nobody's */
    int32_t former; /* that had the turn before */
} share_t;

/** What is known of a device, without processes that have ended, for this thread alone until share_close().
 */
share_t *share_open(CUdevice ordinal);
void share_close(void);

/** This process's entry, made if need be. */
share_user_t *share_own(share_t *share);

/* Turns (slices.c); nothing happens where there are none. */
/** The calling thread runs a kernel of a device from now on, whenever its process has its turn. */
void slice_enter(CUdevice ordinal);
void slice_leave(CUdevice ordinal);

#endif
