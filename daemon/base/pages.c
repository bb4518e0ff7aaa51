#include "base/pages.h"

#include <sys/mman.h>

void *pages_take(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return NULL;
    pages_keep_from_dumps(pages, bytes);
    return pages;
}

void pages_give(void *pages, size_t bytes)
{
    if (pages)
        munmap(pages, bytes);
}

void pages_keep_from_dumps(void *pages, size_t bytes)
{
    (void)madvise(pages, bytes, MADV_DONTDUMP); /* only a wish */
}

static void *take(void *context, size_t bytes)
{
    (void)context;
    return pages_take(bytes);
}

static void give(void *context, void *pages, size_t bytes)
{
    (void)context;
    pages_give(pages, bytes);
}

pages_source_t pages_of_system(void)
{
    return (pages_source_t){take, give, NULL};
}
