#include "net/refusals.h"

#include "base/clock.h"
#include "base/events.h"

#include <stdio.h>

#define NS_PER_LINE UINT64_C(1000000000)

/* The address's place, or the one that it gets. */
static refusal_t *find_place(refusals_t *refusals, const net_address_t *address)
{
    refusal_t *oldest = &refusals->places[0];
    for (uint32_t i = 0; i < REFUSALS_REMEMBERED; i++) {
        refusal_t *place = &refusals->places[i];
        if (place->logged_ns > 0 && address_same_network(&place->address, address))
            return place;
        if (place->logged_ns < oldest->logged_ns)
            oldest = place;
    }
    *oldest = (refusal_t){.address = *address};
    return oldest;
}

bool refusals_may_log(refusals_t *refusals, const net_address_t *address, uint64_t now_ns,
                      uint32_t *withheld_count)
{
    refusal_t *place = find_place(refusals, address);
    uint32_t of_others;
    if ((place->logged_ns > 0 && now_ns - place->logged_ns < NS_PER_LINE) ||
        !log_budget_spend(&refusals->budget, now_ns, &of_others)) {
        place->withheld_count++;
        return false;
    }
    *withheld_count = place->withheld_count;
    place->withheld_count = 0;
    place->logged_ns = now_ns;
    return true;
}

void refusals_log(refusals_t *refusals, const net_address_t *address, const char *why)
{
    char text[ADDRESS_TEXT_BYTES], subject[EVENT_SUBJECT_BYTES];
    uint32_t withheld_count;
    if (!refusals_may_log(refusals, address, clock_ns(), &withheld_count))
        return;
    address_write(address, text);
    snprintf(subject, sizeof(subject), "refused %s", text);
    if (withheld_count > 0)
        event_log_host(EVENT_HOST_REFUSED, subject, LOG_LEVEL_WARNING,
                       "%s (withheld about this address before: %u)", why, withheld_count);
    else
        event_log_host(EVENT_HOST_REFUSED, subject, LOG_LEVEL_WARNING, "%s", why);
}
