/*
 * Probes for bpftrace, SystemTap and perf (USDT): each is one instruction that does nothing until a tool is
 * attached. Built where sys/sdt.h is missing, which Debian has in systemtap-sdt-dev, there are none.
 * docs/observe.md lists them.
 */
#ifndef BASE_PROBE_H
#define BASE_PROBE_H

#if __has_include(<sys/sdt.h>)

#include <sys/sdt.h>

#define PROBE3(name, a, b, c)          DTRACE_PROBE3(blink, name, a, b, c)
#define PROBE4(name, a, b, c, d)       DTRACE_PROBE4(blink, name, a, b, c, d)
#define PROBE6(name, a, b, c, d, e, f) DTRACE_PROBE6(blink, name, a, b, c, d, e, f)

#else

#define PROBE3(name, a, b, c)          ((void)(a), (void)(b), (void)(c))
#define PROBE4(name, a, b, c, d)       ((void)(a), (void)(b), (void)(c), (void)(d))
#define PROBE6(name, a, b, c, d, e, f) (PROBE4(name, a, b, c, d), (void)(e), (void)(f))

#endif

#endif
