/*
 * Messages of two daemons: from bytes to a message that is sound, and back.
 */
#ifndef BLINK_NET_MESSAGE_H
#define BLINK_NET_MESSAGE_H

#include "base/arena.h"
#include "blink.pb-c.h"
#include "error.h"
#include "net/address.h"
#include "peer.pb-c.h"
#include "unique_id.h"

/* Versions of proto/peer.proto that this tree speaks. The second one is that of daemons which answer a Query;
 * others end the session. */
#define PEER_VERSION_MIN       1u
#define PEER_VERSION_MAX       5u
#define PEER_VERSION_QUERIES   2u
#define PEER_VERSION_RESUMES   3u /* data connections are made anew */
#define PEER_VERSION_SURVIVORS 4u /* Survivors is understood */
#define PEER_VERSION_KEYS      5u /* BEGIN tells of which round of data connections its keys are */
#define PEER_VERSION_NICS      5u /* moves go over as many pairs of NICs as there are */

/* The longest message, before the session is open and afterwards. */
#define GREETING_MOST_BYTES (8u << 10)
#define MESSAGE_MOST_BYTES  (1u << 20)

/* With their NULs. */
#define HOST_NAME_BYTES      65
#define DAEMON_VERSION_BYTES 32

#define HELLO_NICS_MAX 32u

/* A Hello in memory. */
typedef struct hello {
    uint32_t version_min, version_max;
    char daemon_version[DAEMON_VERSION_BYTES];
    char host[HOST_NAME_BYTES];
    uint64_t instance;
    uint32_t nic_count;
    net_interface_t nics[HELLO_NICS_MAX];
    uint16_t port;                              /* where the daemon is to be dialled; 0: nowhere */
    uint8_t addresses[UNIQUE_ID_ADDRESSES][16]; /* as in an id; of zeros: no more */
} hello_t;

/* Whether the daemon says that it is to be dialled at this address. */
bool hello_names(const hello_t *hello, const net_address_t *address);

/* Whether something, such as a "host name", may be called so: 1 to 64 letters, digits, dots, hyphens and
 * underscores. Errors: INVALID_ARGUMENT, which names it. */
blink_result_t name_check(const char *what, const char *name);

/* The message lives in the arena, whose memory is bounded by the number of bytes. The text of a Bye, a
 * Gather or a Plan is printable. Errors: PROTOCOL (what is wrong). */
blink_result_t message_parse(const uint8_t *bytes, size_t byte_count, arena_t *arena,
                             const Blinkpeer__Message **message);

/* What a Query and a QueryReply carry, as message_parse() does. The question is one; the reply is an answer
 * to one or an error, and its texts but the topology are printable. Errors: PROTOCOL. */
blink_result_t message_parse_query(const ProtobufCBinaryData *request, arena_t *arena,
                                   const Blinkwire__Query **query);
blink_result_t message_parse_reply(const ProtobufCBinaryData *bytes, arena_t *arena,
                                   const Blinkwire__Reply **reply);

/* Take over what a Hello says. Errors: PROTOCOL (a field, and what is wrong with it). */
blink_result_t hello_read(const Blinkpeer__Hello *message, hello_t *hello);

/* Write a Hello as the bytes of a message; the number of bytes is at most GREETING_MOST_BYTES. */
size_t hello_pack(const hello_t *hello, uint8_t bytes[GREETING_MOST_BYTES]);

/* The highest version that both speak. Errors: PROTOCOL, which names both daemons and what they speak. */
blink_result_t hello_choose_version(const hello_t *own, const hello_t *peer, uint32_t *version);

#endif
