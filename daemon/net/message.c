#include "net/message.h"

#include <stdio.h>
#include <string.h>

/* What parsing may take: a NIC of a few bytes becomes a struct of some dozens, a link that a communicator
 * uses two of a hundred. */
#define PARSED_LEAST_BYTES  (8u << 10)
#define PARSED_BYTES_FACTOR 16u
#define ANSWER_BYTES_FACTOR 40u

/* ---- from bytes ---- */

typedef struct allowance {
    arena_t *arena;
    size_t most_bytes;
} allowance_t;

static void *allowance_alloc(void *context, size_t byte_count)
{
    const allowance_t *allowance = context;
    if (byte_count > allowance->most_bytes || allowance->arena->bytes > allowance->most_bytes - byte_count)
        return NULL;
    return arena_alloc(allowance->arena, 1, byte_count);
}

static void allowance_free(void *context, void *memory)
{
    (void)context; /* it goes with the arena */
    (void)memory;
}

static void make_printable(char *text)
{
    for (; *text; text++)
        *text = *text >= ' ' && *text <= '~' ? *text : '?';
}

static ProtobufCAllocator allocator_of(allowance_t *allowance)
{
    return (ProtobufCAllocator){allowance_alloc, allowance_free, allowance};
}

static allowance_t allowance_of(arena_t *arena, size_t factor, size_t byte_count)
{
    return (allowance_t){arena, PARSED_LEAST_BYTES + factor * byte_count};
}

blink_result_t message_parse(const uint8_t *bytes, size_t byte_count, arena_t *arena,
                             const Blinkpeer__Message **parsed)
{
    allowance_t allowance = allowance_of(arena, PARSED_BYTES_FACTOR, byte_count);
    ProtobufCAllocator allocator = allocator_of(&allowance);
    Blinkpeer__Message *message = blinkpeer__message__unpack(&allocator, byte_count, bytes);
    if (!message)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "%zu bytes that are no message", byte_count);
    if (message->body_case == BLINKPEER__MESSAGE__BODY__NOT_SET)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a message of %zu bytes of a kind that is not known here",
                          byte_count);
    if (message->body_case == BLINKPEER__MESSAGE__BODY_BYE)
        make_printable(message->bye->text);
    if (message->body_case == BLINKPEER__MESSAGE__BODY_GATHER)
        make_printable(message->gather->text);
    if (message->body_case == BLINKPEER__MESSAGE__BODY_PLAN)
        make_printable(message->plan->text);
    *parsed = message;
    return BLINK_OK;
}

/* ---- questions of tools ---- */

blink_result_t message_parse_query(const ProtobufCBinaryData *bytes, arena_t *arena,
                                   const Blinkwire__Query **query)
{
    allowance_t allowance = allowance_of(arena, PARSED_BYTES_FACTOR, bytes->len);
    ProtobufCAllocator allocator = allocator_of(&allowance);
    const Blinkwire__Request *request = blinkwire__request__unpack(&allocator, bytes->len, bytes->data);
    if (!request || request->body_case != BLINKWIRE__REQUEST__BODY_QUERY)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a question of %zu bytes that is none", bytes->len);
    *query = request->query;
    return BLINK_OK;
}

static void make_texts_printable(ProtobufCMessage *message);

/* One item of a field: a text, or a message with texts. */
static void make_item_printable(const ProtobufCFieldDescriptor *field, void *item)
{
    if (field->type == PROTOBUF_C_TYPE_STRING)
        make_printable(item);
    else if (field->type == PROTOBUF_C_TYPE_MESSAGE && item)
        make_texts_printable(item);
}

/* As deep as the messages are declared. */
static void make_texts_printable(ProtobufCMessage *message)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        size_t count;
        void **items;
        if (field->type != PROTOBUF_C_TYPE_STRING && field->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        memcpy(&items, (char *)message + field->offset, sizeof(items));
        if (field->label != PROTOBUF_C_LABEL_REPEATED) {
            make_item_printable(field, items);
            continue;
        }
        memcpy(&count, (char *)message + field->quantifier_offset, sizeof(count));
        for (size_t k = 0; k < count; k++)
            make_item_printable(field, items[k]);
    }
}

/* The topology has lines, and whoever reads it reads JSON. */
static void make_answer_printable(Blinkwire__QueryReply *answer)
{
    char nothing[] = "", *topology = answer->topology_json;
    answer->topology_json = nothing;
    make_texts_printable(&answer->base);
    answer->topology_json = topology;
}

static bool is_answer(const Blinkwire__Reply *reply)
{
    return reply && (reply->error || (reply->body_case == BLINKWIRE__REPLY__BODY_QUERY && reply->query));
}

blink_result_t message_parse_reply(const ProtobufCBinaryData *bytes, arena_t *arena,
                                   const Blinkwire__Reply **reply)
{
    allowance_t allowance = allowance_of(arena, ANSWER_BYTES_FACTOR, bytes->len);
    ProtobufCAllocator allocator = allocator_of(&allowance);
    Blinkwire__Reply *parsed = blinkwire__reply__unpack(&allocator, bytes->len, bytes->data);
    if (!is_answer(parsed))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "an answer of %zu bytes that is none", bytes->len);
    if (parsed->error)
        make_printable(parsed->error->text);
    else
        make_answer_printable(parsed->query);
    *reply = parsed;
    return BLINK_OK;
}

/* ---- Hello ---- */

static bool is_name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
}

static bool is_name(const char *text, size_t most_bytes)
{
    size_t length = 0;
    while (is_name_character(text[length]))
        length++;
    return length > 0 && length < most_bytes && !text[length];
}

blink_result_t name_check(const char *what, const char *name)
{
    if (is_name(name, HOST_NAME_BYTES))
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                      "%s '%.80s': 1 to %d letters, digits, dots, hyphens and underscores are allowed", what,
                      name, HOST_NAME_BYTES - 1);
}

/* An interface's name may have any characters but a space and a slash; what is shown is ASCII. */
static bool is_interface_name(const char *text)
{
    size_t length = 0;
    while (text[length] > ' ' && text[length] <= '~' && text[length] != '/')
        length++;
    return length > 0 && length < INTERFACE_NAME_BYTES && !text[length];
}

static bool read_nic(const Blinkpeer__Nic *message, net_interface_t *nic)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (!is_interface_name(message->name))
        return false;
    snprintf(nic->name, sizeof(nic->name), "%s", message->name);
    nic->place = message->place;
    if (message->address.len == sizeof(v4.sin_addr)) {
        memcpy(&v4.sin_addr, message->address.data, sizeof(v4.sin_addr));
        return address_take((struct sockaddr *)&v4, &nic->address);
    }
    if (message->address.len != sizeof(v6.sin6_addr))
        return false;
    memcpy(&v6.sin6_addr, message->address.data, sizeof(v6.sin6_addr));
    return address_take((struct sockaddr *)&v6, &nic->address);
}

static blink_result_t read_nics(const Blinkpeer__Hello *message, hello_t *hello)
{
    if (message->n_nics > HELLO_NICS_MAX)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a Hello with %zu NICs; at most %u are allowed",
                          message->n_nics, HELLO_NICS_MAX);
    for (; hello->nic_count < message->n_nics; hello->nic_count++) {
        if (!read_nic(message->nics[hello->nic_count], &hello->nics[hello->nic_count]))
            return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a Hello whose NIC %u has no name or no address",
                              hello->nic_count);
    }
    return BLINK_OK;
}

static const uint8_t UNSET_ADDRESS[16];

static blink_result_t read_addresses(const Blinkpeer__Hello *message, hello_t *hello)
{
    if (message->port > UINT16_MAX || message->n_addresses > UNIQUE_ID_ADDRESSES)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a Hello with port %u and %zu addresses", message->port,
                          message->n_addresses);
    hello->port = (uint16_t)message->port;
    for (size_t i = 0; i < message->n_addresses; i++) {
        if (message->addresses[i].len != sizeof(hello->addresses[i]))
            return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a Hello with an address of %zu bytes",
                              message->addresses[i].len);
        memcpy(hello->addresses[i], message->addresses[i].data, sizeof(hello->addresses[i]));
    }
    return BLINK_OK;
}

bool hello_names(const hello_t *hello, const net_address_t *address)
{
    uint8_t bytes[16];
    bool is_named = false;
    address_to_id(address, bytes);
    for (size_t i = 0; i < UNIQUE_ID_ADDRESSES; i++)
        is_named = is_named || memcmp(hello->addresses[i], bytes, sizeof(bytes)) == 0;
    return is_named && hello->port == address_port(address);
}

blink_result_t hello_read(const Blinkpeer__Hello *message, hello_t *hello)
{
    *hello = (hello_t){.version_min = message->version_min,
                       .version_max = message->version_max,
                       .instance = message->instance};
    if (message->version_min == 0 || message->version_min > message->version_max)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a Hello with versions %u to %u", message->version_min,
                          message->version_max);
    if (message->instance == 0)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a Hello with instance 0");
    if (!is_name(message->host, sizeof(hello->host)))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL,
                          "a Hello whose host name is not 1 to %d letters, digits, dots, "
                          "hyphens and underscores",
                          HOST_NAME_BYTES - 1);
    if (!is_name(message->daemon_version, sizeof(hello->daemon_version)))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a Hello whose daemon version is none");
    snprintf(hello->host, sizeof(hello->host), "%s", message->host);
    snprintf(hello->daemon_version, sizeof(hello->daemon_version), "%s", message->daemon_version);
    BLINK_TRY(read_addresses(message, hello));
    return read_nics(message, hello);
}

static ProtobufCBinaryData address_data(net_address_t *address)
{
    if (address->any.sa_family == AF_INET)
        return (ProtobufCBinaryData){sizeof(address->v4.sin_addr), (uint8_t *)&address->v4.sin_addr};
    return (ProtobufCBinaryData){sizeof(address->v6.sin6_addr), (uint8_t *)&address->v6.sin6_addr};
}

size_t hello_pack(const hello_t *hello, uint8_t bytes[GREETING_MOST_BYTES])
{
    hello_t copy = *hello; /* protobuf-c's pointers are not const */
    Blinkpeer__Hello body = BLINKPEER__HELLO__INIT;
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    Blinkpeer__Nic nics[HELLO_NICS_MAX], *pointers[HELLO_NICS_MAX];
    ProtobufCBinaryData addresses[UNIQUE_ID_ADDRESSES];
    for (uint32_t i = 0; i < copy.nic_count; i++) {
        blinkpeer__nic__init(&nics[i]);
        nics[i].name = copy.nics[i].name;
        nics[i].address = address_data(&copy.nics[i].address);
        nics[i].place = copy.nics[i].place;
        pointers[i] = &nics[i];
    }
    body.version_min = copy.version_min;
    body.version_max = copy.version_max;
    body.daemon_version = copy.daemon_version;
    body.host = copy.host;
    body.instance = copy.instance;
    body.n_nics = copy.nic_count;
    body.nics = pointers;
    body.port = copy.port;
    body.addresses = addresses;
    for (size_t i = 0; i < UNIQUE_ID_ADDRESSES; i++) {
        if (memcmp(copy.addresses[i], UNSET_ADDRESS, sizeof(UNSET_ADDRESS)) != 0)
            addresses[body.n_addresses++] =
                (ProtobufCBinaryData){sizeof(copy.addresses[i]), copy.addresses[i]};
    }
    message.body_case = BLINKPEER__MESSAGE__BODY_HELLO;
    message.hello = &body;
    return blinkpeer__message__pack(&message, bytes);
}

/* 32 NICs of 16 + 16 bytes and two names are far below it. */
static_assert(HELLO_NICS_MAX * (sizeof(net_interface_t) + 8) + HOST_NAME_BYTES + DAEMON_VERSION_BYTES + 64 <
                  GREETING_MOST_BYTES,
              "a Hello fits a greeting");

blink_result_t hello_choose_version(const hello_t *own, const hello_t *peer, uint32_t *version)
{
    *version = own->version_max < peer->version_max ? own->version_max : peer->version_max;
    if (*version >= own->version_min && *version >= peer->version_min)
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_PROTOCOL,
                      "no common version: blinkd %s on %s speaks %u to %u, blinkd %s on %s %u to %u",
                      own->daemon_version, own->host, own->version_min, own->version_max,
                      peer->daemon_version, peer->host, peer->version_min, peer->version_max);
}
