/* What the whole run shares: the clock, memory, how it ends, and what the two threads tell each other. */
#ifndef RUN_H
#define RUN_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define SECOND_NS 1000000000ull
#define MILLISECOND_NS 1000000ull

/* The main thread sets the phases and looks on; the worker thread does everything on the connections. */
struct run {
    volatile sig_atomic_t interrupted;
    atomic_bool measuring;      /* latencies are recorded */
    atomic_bool stop_producers; /* no more publishes: what is under way comes out */
    atomic_bool stop_all;
    atomic_bool failed;
    uint64_t consumed;          /* by all consumers; the worker's own */
    uint64_t consume_target;    /* 0: until stop_all */
    unsigned blocked, cancelled; /* connection.blocked and basic.cancel from the broker */
    char error[512];            /* the first one: later ones follow from it */
};
extern struct run run;

static inline uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

/* Sleeps, but not beyond the end of the run. */
void nap(double seconds);

/* Zeroed memory, or the end. */
void *new_memory(size_t bytes);

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...);

#endif
