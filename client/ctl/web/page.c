#include "ctl/web/page.h"

__asm__(".section .rodata\n"
        ".globl web_page_begin, web_page_end\n"
        ".hidden web_page_begin, web_page_end\n"
        "web_page_begin:\n"
        ".incbin \"" WEB_PAGE "\"\n"
        "web_page_end:\n"
        ".previous\n");
