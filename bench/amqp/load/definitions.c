/* Modes declare and connections: what the broker needs for things that lie there idle. */
#include <fcntl.h>
#include <stdlib.h>

#include "connection.h"
#include "modes.h"
#include "results.h"
#include "run.h"

static void print_count(const char *name, uint64_t count, const struct moment *from, const struct moment *to)
{
    double seconds = (double)(to->at_ns - from->at_ns) / 1e9;
    results_begin();
    results_number("seconds", seconds);
    results_number(name, (double)count);
    results_cost(from, to, count);
}

int run_declare(void)
{
    char name[NAME_BYTES_MAX];
    struct connection *c = connection_open(IDLE, 0);
    struct moment from = moment_now();
    uint64_t limit = now_ns() + (uint64_t)(options.time_max_s * 1e9);
    for (uint64_t asked = 0; c->declared < options.queues && !run.interrupted;) {
        while (asked < options.queues && asked - c->declared < options.pipeline) {
            numbered_name(name, options.queue, asked++, options.queues);
            send_queue_declare(c, name, false);
        }
        await(c, QUEUE_DECLARE_OK);
        if (now_ns() > limit) run.interrupted = 1;
    }
    struct moment to = moment_now();
    print_count("queues", c->declared, &from, &to);
    connection_close(c);
    return results_end();
}

int run_connections(void)
{
    struct connection **all = new_memory(options.connections * sizeof *all);
    unsigned opened = 0, alive = 0;
    uint64_t limit = now_ns() + (uint64_t)(options.time_max_s * 1e9);
    struct moment from = moment_now();
    for (; opened < options.connections && now_ns() < limit; opened++) all[opened] = connection_open(IDLE, opened);
    uint64_t opened_ns = now_ns();
    nap(options.hold_s);
    struct moment to = moment_now();
    to.at_ns = opened_ns;
    for (unsigned i = 0; i < opened; i++) {
        fcntl(all[i]->fd, F_SETFL, fcntl(all[i]->fd, F_GETFL) | O_NONBLOCK);
        while (connection_read(all[i])) {}
        alive += all[i]->open;
    }
    print_count("connections", opened, &from, &to);
    results_number("channels", (double)(opened * options.channels));
    results_number("alive", alive);
    for (unsigned i = 0; i < opened; i++) connection_close(all[i]);
    free(all);
    return results_end();
}
