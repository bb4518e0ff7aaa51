/*
 * Where a topology comes from, as error texts and names show it.
 */
#ifndef BLINK_TOPO_SOURCE_H
#define BLINK_TOPO_SOURCE_H

#include <stddef.h>

/* Every name from a file is cut to this in an error text, so that the sentence around it always survives. */
#define TOPO_SHOWN "%.40s"

/* The last 40 bytes at most of a source: of a long path its end tells most. */
const char *topo_source_tail(const char *source);

/* A topology's name where its file has none: the source without directories and extension, in printable
 * ASCII. */
void topo_source_stem(const char *source, char *stem, size_t stem_bytes);

#endif
