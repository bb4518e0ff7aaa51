/* The page that `blinkctl web` serves: page.html, as it was when blinkctl was built. */
#ifndef BLINK_WEB_PAGE_H
#define BLINK_WEB_PAGE_H

extern const char web_page_begin[], web_page_end[];

#endif
