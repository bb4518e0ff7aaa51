/* Files that commands write: whole or not at all. */
#ifndef CTL_FILE_H
#define CTL_FILE_H

#include "error.h"

/** Write `text` to `path`. A file that stands there is replaced only once all is written; nothing is left
 * behind on failure. A device or pipe is written to directly. Errors: SYSTEM (names the path). */
blink_result_t file_write_whole(const char *path, const char *text);

#endif
