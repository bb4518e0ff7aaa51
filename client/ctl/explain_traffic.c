#include "explain_traffic.h"

#include "tools/human.h"
#include "topo/network.h"

#include <string.h>

static uint64_t bytes_on(const Blinkwire__Link *link, uint32_t comm)
{
    for (size_t i = 0; i < link->n_uses; i++)
        if (link->uses[i]->comm == comm)
            return link->uses[i]->bytes;
    return 0;
}

static bool is_of_network(const Blinkwire__Link *link)
{
    return topo_is_network_id(link->from) || topo_is_network_id(link->to);
}

/* What one NIC has moved. */
typedef struct nic_traffic {
    const char *name; /* borrowed */
    uint64_t sent_bytes, received_bytes;
} nic_traffic_t;

/* The next NIC that was used, from a link on; false: there is none. */
static bool next_nic(const Blinkwire__QueryReply *links, uint32_t comm, size_t *at, nic_traffic_t *nic)
{
    while (*at < links->n_links) {
        const Blinkwire__Link *out = links->links[(*at)++];
        if (topo_is_network_id(out->from) || !topo_is_network_id(out->to))
            continue;
        *nic = (nic_traffic_t){.name = out->from, .sent_bytes = bytes_on(out, comm)};
        for (size_t i = 0; i < links->n_links; i++) {
            const Blinkwire__Link *in = links->links[i];
            if (topo_is_network_id(in->from) && strcmp(in->to, nic->name) == 0)
                nic->received_bytes = bytes_on(in, comm);
        }
        if (nic->sent_bytes + nic->received_bytes > 0)
            return true;
    }
    return false;
}

/* What one kind of links has moved within the host. */
typedef struct kind_traffic {
    const char *kind; /* borrowed */
    uint64_t bytes;
} kind_traffic_t;

static bool is_first_of_kind(const Blinkwire__QueryReply *links, size_t link)
{
    size_t first = 0;
    while (is_of_network(links->links[first]) ||
           strcmp(links->links[first]->kind, links->links[link]->kind) != 0)
        first++;
    return first == link;
}

/* The next kind that was used, from a link on; false: there is none. */
static bool next_kind(const Blinkwire__QueryReply *links, uint32_t comm, size_t *at, kind_traffic_t *kind)
{
    while (*at < links->n_links) {
        size_t first = (*at)++;
        if (is_of_network(links->links[first]) || !is_first_of_kind(links, first))
            continue;
        *kind = (kind_traffic_t){.kind = links->links[first]->kind};
        for (size_t i = first; i < links->n_links; i++)
            if (!is_of_network(links->links[i]) && strcmp(links->links[i]->kind, kind->kind) == 0)
                kind->bytes += bytes_on(links->links[i], comm);
        if (kind->bytes > 0)
            return true;
    }
    return false;
}

void explain_traffic_print(const Blinkwire__QueryReply *links, uint32_t comm)
{
    char sent[HUMAN_BYTES], received[HUMAN_BYTES];
    const char *between = "between hosts: over ";
    nic_traffic_t nic;
    kind_traffic_t kind;
    size_t at = 0;
    for (; next_nic(links, comm, &at, &nic); between = ", ")
        printf("%s%s (%s sent, %s received)", between, nic.name, human_bytes(nic.sent_bytes, sent),
               human_bytes(nic.received_bytes, received));
    if (*between != ',')
        return;
    at = 0;
    for (between = "\nwithin this host: "; next_kind(links, comm, &at, &kind); between = ", ")
        printf("%s%s %s", between, kind.kind, human_bytes(kind.bytes, sent));
    putchar('\n');
}

json_t *explain_traffic_pack(const Blinkwire__QueryReply *links, uint32_t comm)
{
    json_t *nics = json_array(), *kinds = json_array();
    nic_traffic_t nic;
    kind_traffic_t kind;
    for (size_t at = 0; next_nic(links, comm, &at, &nic);)
        json_array_append_new(nics, json_pack("{so sI sI}", "nic", ctl_json_text(nic.name), "sent_bytes",
                                              (json_int_t)nic.sent_bytes, "received_bytes",
                                              (json_int_t)nic.received_bytes));
    for (size_t at = 0; next_kind(links, comm, &at, &kind);)
        json_array_append_new(
            kinds, json_pack("{so sI}", "kind", ctl_json_text(kind.kind), "bytes", (json_int_t)kind.bytes));
    if (json_array_size(nics) > 0)
        return json_pack("{so so}", "between_hosts", nics, "within_host", kinds);
    json_decref(nics);
    json_decref(kinds);
    return json_null();
}
