/* What processes used so far, from /proc. */
#ifndef PROCESS_H
#define PROCESS_H

#include <stdint.h>

struct use { double cpu_s; uint64_t rss_bytes, written_bytes; };

/* The sum over the broker's processes (--pid). */
struct use broker_use(void);

/* CPU of this process. */
double own_cpu_s(void);

#endif
