/*
 * The one intrusive list: circular and doubly linked, so that an item leaves without knowing its list. A
 * list_t is the head of a list or the link inside an item; an item has one link for each list it can be on at
 * once.
 */
#ifndef BLINK_LIST_H
#define BLINK_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct list {
    struct list *next, *previous;
} list_t;

/* The item of this type whose member is the link. */
#define CONTAINER_OF(link, type, member) ((type *)((char *)(link)-offsetof(type, member)))

/* Make an empty list, or a link that is on no list. */
static inline void list_init(list_t *list)
{
    list->next = list->previous = list;
}

/* Of a head: the list has no items. Of a link: it is on no list. */
static inline bool list_is_empty(const list_t *list)
{
    return list->next == list;
}

/* Insert a link that is on no list before another link; before the head is at the end of its list. */
static inline void list_insert(list_t *before, list_t *link)
{
    link->next = before;
    link->previous = before->previous;
    before->previous->next = link;
    before->previous = link;
}

static inline void list_append(list_t *head, list_t *link)
{
    list_insert(head, link);
}

static inline void list_prepend(list_t *head, list_t *link)
{
    list_insert(head->next, link);
}

/* Take a link off its list; a link that is on none stays as it is. */
static inline void list_remove(list_t *link)
{
    link->next->previous = link->previous;
    link->previous->next = link->next;
    list_init(link);
}

/* Take the first link off the list and return it; NULL if the list is empty. */
static inline list_t *list_take_first(list_t *head)
{
    list_t *first = head->next;
    if (first == head)
        return NULL;
    list_remove(first);
    return first;
}

/* Move all items of one list to the end of another. */
static inline void list_splice(list_t *head, list_t *from)
{
    if (list_is_empty(from))
        return;
    from->next->previous = head->previous;
    head->previous->next = from->next;
    from->previous->next = head;
    head->previous = from->previous;
    list_init(from);
}

/* The first item, or NULL if the list is empty. */
#define LIST_FIRST(head, type, member) (list_is_empty(head) ? NULL : CONTAINER_OF((head)->next, type, member))

/* Visit every link from the first to the last. The link that is visited may be removed, no other one. */
#define LIST_FOR_EACH(link, head)                                                                            \
    for (list_t *link = (head)->next, *link##_next = link->next; link != (head);                             \
         link = link##_next, link##_next = link->next)

#endif
