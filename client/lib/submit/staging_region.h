/* Memory that the daemon makes and this process maps: for staged buffers, and for the windows of streams. */
#ifndef CLIENT_STAGING_REGION_H
#define CLIENT_STAGING_REGION_H

#include "submit/connection.h"

/** Have the daemon make a region, and map it. Whoever maps it unmaps it; the daemon keeps its region until
 * the connection ends.
 * @param on_gpus  GPUs of the daemon are to reach it.
 * @param windows  it is for windows of streams alone.
 * Errors: those of the daemon, PROTOCOL, SYSTEM. */
blink_result_t staging_region_map(connection_t *connection, uint64_t bytes, bool on_gpus, bool windows,
                                  void **base, uint32_t *region);

#endif
