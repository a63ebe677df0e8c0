/*
 * amqpload: a load generator and latency meter for AMQP 0-9-1 brokers that prints one line of JSON.
 *
 * It speaks the protocol itself, without a client library, so that it costs a fraction of a microsecond per message
 * and the broker is what is measured. CPU of the broker's processes is read around the measured interval and divided
 * by the messages that went all the way: on a noisy machine that is much steadier than a rate.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "modes.h"
#include "options.h"
#include "run.h"

struct run run;

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "amqpload: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    exit(1);
}

void *new_memory(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory) die("out of memory (%zu bytes)", bytes);
    return memory;
}

void nap(double seconds)
{
    uint64_t end = now_ns() + (uint64_t)(seconds * 1e9), step = 20 * MILLISECOND_NS;
    for (uint64_t now = now_ns(); now < end && !run.interrupted && !run.failed; now = now_ns()) {
        struct timespec rest = {.tv_nsec = (long)(end - now < step ? end - now : step)};
        nanosleep(&rest, NULL);
    }
}

static void interrupt(int signal)
{
    (void)signal;
    run.interrupted = 1;
}

int main(int count, char **words)
{
    options_read(count, words);
    struct sigaction action = {.sa_handler = interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    switch (options.mode) {
    case MODE_DECLARE: return run_declare();
    case MODE_CONNECTIONS: return run_connections();
    default: return run_traffic();
    }
}
