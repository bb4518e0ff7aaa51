/*
 * The one growing array. `VEC(int) ids = {0};` is an empty one; it doubles as it grows, keeps its items in
 * order and adjoining, and frees nothing but its own memory. Pointers to items are valid until the array
 * grows.
 */
#ifndef BLINK_VEC_H
#define BLINK_VEC_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define VEC(type)                                                                                            \
    struct {                                                                                                 \
        type *items;                                                                                         \
        size_t count, capacity;                                                                              \
    }

/* Make the array at *items, a pointer of any type, hold `wanted` items of item_bytes each; false without
 * memory, and then nothing has changed. */
static inline bool vec_grow(void *items, size_t *capacity, size_t wanted, size_t item_bytes)
{
    void *memory;
    size_t grown = *capacity ? *capacity : 1;
    while (grown < wanted && grown <= SIZE_MAX / 2)
        grown *= 2;
    if (grown < wanted || grown > SIZE_MAX / item_bytes)
        return false;
    memcpy(&memory, items, sizeof memory);
    memory = realloc(memory, grown * item_bytes);
    if (!memory)
        return false;
    memcpy(items, &memory, sizeof memory);
    *capacity = grown;
    return true;
}

/* Make the capacity `wanted` items at least; false without memory, and then nothing has changed. */
#define vec_reserve(vec, wanted)                                                                             \
    ((wanted) <= (vec)->capacity || vec_grow(&(vec)->items, &(vec)->capacity, (wanted), sizeof *(vec)->items))

/* Append an item; false without memory, and then nothing has changed. */
#define vec_push(vec, item)                                                                                  \
    (vec_reserve(vec, (vec)->count + 1) && ((vec)->items[(vec)->count++] = (item), true))

/* Free the memory and make the array empty. */
#define vec_free(vec) (free((vec)->items), (vec)->items = NULL, (vec)->count = (vec)->capacity = 0, (void)0)

#endif
