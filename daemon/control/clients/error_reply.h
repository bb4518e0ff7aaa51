/*
 * An error as a reply to a request.
 */
#ifndef BLINK_ERROR_REPLY_H
#define BLINK_ERROR_REPLY_H

#include "blink.pb-c.h"
#include "error.h"

#include <string.h>

typedef struct error_reply {
    Blinkwire__Error error;
    Blinkwire__Reply reply;
    char text[BLINK_ERROR_TEXT_BYTES];
} error_reply_t;

/* The code with this thread's error text. The reply points into *made. */
static inline void error_reply_make(error_reply_t *made, uint64_t id, blink_result_t code)
{
    blinkwire__error__init(&made->error);
    blinkwire__reply__init(&made->reply);
    memcpy(made->text, blink_error_text(), sizeof(made->text));
    made->error.code = (uint32_t)code;
    made->error.text = made->text;
    made->reply.id = id;
    made->reply.error = &made->error;
}

#endif
