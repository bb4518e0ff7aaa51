/*
 * How an endpoint's connections come about. With the turn.
 */
#ifndef BLINK_DATA_CONNECT_H
#define BLINK_DATA_CONNECT_H

#include "net/data/endpoint.h"

/* RDMA connections cannot be made, says this thread's error text, or are gone. True: TCP connections are made
 * or waited for in their stead. False: that may not be, or it is too late for it. */
bool endpoint_falls_back(data_endpoint_t *endpoint);

#endif
