/*
 * Addresses of daemons: a host and a port, IPv4 or IPv6, as text and as the kernel has them.
 */
#ifndef BLINK_NET_ADDRESS_H
#define BLINK_NET_ADDRESS_H

#include "error.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <uv.h>

/* Where daemons listen unless told otherwise. */
#define NET_PORT_DEFAULT 24655u

/* An IPv4 address that arrived as a mapped IPv6 address stands as the IPv4 address that it is. */
typedef union net_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} net_address_t;

/* "[fe80::dead:beef:dead:beef%interface-name]:65535" fits, and so does the longest address that is mapped. */
#define ADDRESS_TEXT_BYTES 72

/* Of the longest "host:port" that is accepted, with its NUL. */
#define ADDRESS_NAME_BYTES 272

/* Of one name. */
#define ADDRESSES_MAX 8u

/* Read "192.0.2.1:7", "192.0.2.1", "[2001:db8::1]:7", "[2001:db8::1]" or "2001:db8::1"; "*:7" and "*" are all
 * addresses of this machine. Does not block. Without a port it is `port`. Errors: INVALID_ARGUMENT, which
 * names the text. */
blink_result_t address_parse(const char *text, uint16_t port, net_address_t *address);

/* Whether the text may be "host:port" or "host" with a name for the host, too, of which nothing is looked up.
 * Errors: as address_parse(). */
blink_result_t address_check(const char *text);

/* The text in the form that address_parse() reads, with its port; the same without. */
void address_write(const net_address_t *address, char text[ADDRESS_TEXT_BYTES]);
void address_write_host(const net_address_t *address, char text[ADDRESS_TEXT_BYTES]);

/* Take what accept() or getpeername() has filled in. False: it is neither IPv4 nor IPv6. */
bool address_take(const struct sockaddr *from, net_address_t *address);

/* What bind() and connect() want to know. */
socklen_t address_bytes(const net_address_t *address);

/* 0 if the address is not set. */
uint16_t address_port(const net_address_t *address);
void address_set_port(net_address_t *address, uint16_t port);

/* Whether they are the same but for their ports. */
bool address_is_same_host(const net_address_t *address, const net_address_t *other);

/* To judge strangers: whether it is the same IPv4 host, or the same IPv6 network of 64 bits, any host of
 * which one of them can claim to be. */
bool address_same_network(const net_address_t *address, const net_address_t *other);

/* Whether this machine has an address in the same IPv6 network of 64 bits: who can claim to be any host of
 * that is on the same link. */
bool address_is_neighbour(const net_address_t *address);

/* The address as an id has it (unique_id.h): IPv6, or IPv4 mapped; and back. */
void address_to_id(const net_address_t *address, uint8_t bytes[16]);
void address_of_id(const uint8_t bytes[16], uint16_t port, net_address_t *address);

/* ---- names ---- */

typedef struct address_lookup address_lookup_t;

/* `count` is 0 if there is none: the code and this thread's error text, which names the name, say why. */
typedef void (*address_found_t)(void *context, blink_result_t code, const net_address_t *addresses,
                                uint32_t count);

/* Find the addresses of "host:port" or "host", where the host is a name or an address; without a port it is
 * `port`. The look-up has a thread of its own, and `found` is called once, from within the loop. Errors:
 * INVALID_ARGUMENT (names the text), NO_MEMORY, SYSTEM: `found` is not called. */
blink_result_t address_find(uv_loop_t *loop, const char *text, uint16_t port, address_found_t found,
                            void *context, address_lookup_t **lookup);

/* `found` is not called any more, and the look-up is no more. Does not wait for the thread. */
void address_cancel(address_lookup_t *lookup);

/* ---- this machine's ---- */

#define INTERFACE_NAME_BYTES 16

/* An interface that is up and has an address by which others reach it: no loopback, no link-local address. */
typedef struct net_interface {
    char name[INTERFACE_NAME_BYTES];
    net_address_t address; /* the port is 0 */
    uint32_t place;        /* among the host's NICs that data connections may go over, from 1; 0: none do */
} net_interface_t;

/* Whether it is the address of no machine in particular: all addresses of whoever listens there. */
bool address_is_all(const net_address_t *address);

/* Whether who listens at `listening` is reached at the address: it is the same, or all addresses are listened
 * at and this is one of the machine's. */
bool address_is_own(const net_address_t *listening, const net_address_t *address);

/* That there is an interface of this name, whether it is up or not. Errors: NOT_FOUND, which names those that
 * there are; SYSTEM. */
blink_result_t address_check_interface(const char *name);

/* Up to `most` of them, IPv4 before IPv6, otherwise in the kernel's order. Errors: SYSTEM. */
blink_result_t address_interfaces(net_interface_t *interfaces, uint32_t most, uint32_t *count);

#endif
