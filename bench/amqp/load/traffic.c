/*
 * Modes both, publish and consume: messages through the broker.
 *
 * By count, the time ends with the last confirm (publish) or the answer after the last acknowledgement. By duration,
 * a warm-up comes before the measured interval, and after it everything must come out: what does not is reported.
 */
#include <pthread.h>
#include <stdlib.h>

#include "modes.h"
#include "results.h"
#include "run.h"
#include "worker.h"

struct totals { uint64_t sent, confirmed, received, received_bytes, nacked, redelivered, out_of_order; };

struct traffic { struct worker worker; uint64_t waiting; struct totals before, after; struct moment from, to; };

static struct totals totals_of(const struct worker *w)
{
    struct totals t = {0};
    for (unsigned i = 0; i < w->count; i++) {
        const struct connection *c = w->connections[i];
        t.sent += c->sent;
        t.confirmed += c->confirmed;
        t.received += c->received;
        t.received_bytes += c->received_bytes;
        t.nacked += c->nacked;
        t.redelivered += c->redelivered;
        t.out_of_order += c->out_of_order;
    }
    return t;
}

static struct connection *open_consumer(unsigned number)
{
    struct connection *c = connection_open(CONSUMER, number);
    numbered_name(c->queue, options.queue, number % options.queues, options.queues);
    c->latency = new_memory(sizeof *c->latency);
    consumer_prepare(c);
    return c;
}

static struct connection *open_producer(unsigned number)
{
    struct connection *c = connection_open(PRODUCER, number);
    uint64_t share = options.messages / options.producers + (number < options.messages % options.producers);
    numbered_name(c->queue, options.queue, number % options.queues, options.queues);
    c->confirm_latency = new_memory(sizeof *c->confirm_latency);
    if (options.rate > 0) {
        c->schedule_interval_ns = 1e9 * (double)options.producers / options.rate;
        c->schedule_phase = (double)number / (double)options.producers;
    }
    producer_prepare(c, options.duration_s > 0 ? 0 : share);
    return c;
}

/* Consumers come first: a message must find them waiting. */
static void open_all(struct traffic *t)
{
    unsigned consumers = options.mode == MODE_PUBLISH ? 0 : (unsigned)options.consumers;
    unsigned producers = options.mode == MODE_CONSUME ? 0 : (unsigned)options.producers;
    t->worker.connections = new_memory((consumers + producers) * sizeof *t->worker.connections);
    for (unsigned i = 0; i < consumers; i++) t->worker.connections[t->worker.count++] = open_consumer(i);
    for (unsigned i = 0; i < producers; i++) t->worker.connections[t->worker.count++] = open_producer(i);
}

static bool everything_came_out(const struct traffic *t)
{
    struct totals now = totals_of(&t->worker);
    return now.received >= now.sent * copies() + t->waiting && (options.no_confirms || now.confirmed >= now.sent);
}

static void measure_duration(struct traffic *t)
{
    nap(options.warmup_s);
    t->from = moment_now();
    t->before = totals_of(&t->worker);
    run.measuring = true;
    nap(options.duration_s);
    run.measuring = false;
    t->after = totals_of(&t->worker);
    t->to = moment_now();
    run.stop_producers = true;
    uint64_t limit = now_ns() + (uint64_t)(options.drain_s * 1e9);
    do nap(0.02); /* at least once: a publish may be under way */
    while (!everything_came_out(t) && !run.failed && !run.interrupted && now_ns() < limit);
}

static void measure_count(struct traffic *t)
{
    uint64_t limit = now_ns() + (uint64_t)(options.time_max_s * 1e9), last_ns = 0;
    t->from = moment_now();
    run.measuring = true;
    while (!all_finished(&t->worker) && !run.failed && !run.interrupted) {
        nap(0.002);
        if (now_ns() > limit) run.interrupted = 1;
    }
    t->to = moment_now();
    t->after = totals_of(&t->worker);
    for (unsigned i = 0; i < t->worker.count; i++)
        if (t->worker.connections[i]->last_event_ns > last_ns) last_ns = t->worker.connections[i]->last_event_ns;
    if (last_ns > t->from.at_ns && last_ns < t->to.at_ns) t->to.at_ns = last_ns;
}

static void print_latencies(const struct traffic *t)
{
    struct histogram *latency = new_memory(sizeof *latency), *confirm_latency = new_memory(sizeof *confirm_latency);
    for (unsigned i = 0; i < t->worker.count; i++) {
        const struct connection *c = t->worker.connections[i];
        if (c->latency) histogram_merge(latency, c->latency);
        if (c->confirm_latency) histogram_merge(confirm_latency, c->confirm_latency);
    }
    results_histogram("latency_ms", latency);
    results_histogram("confirm_ms", confirm_latency);
    free(latency);
    free(confirm_latency);
}

static void print_traffic(const struct traffic *t)
{
    struct totals end = totals_of(&t->worker);
    double seconds = (double)(t->to.at_ns - t->from.at_ns) / 1e9;
    uint64_t sent = t->after.sent - t->before.sent, received = t->after.received - t->before.received;
    uint64_t through = options.mode == MODE_PUBLISH ? sent : received;
    uint64_t bytes = t->after.received_bytes - t->before.received_bytes;
    if (options.mode == MODE_PUBLISH) bytes = sent * options.body_bytes;
    results_begin();
    results_number("seconds", seconds);
    results_number("messages", (double)through);
    results_number("messages_per_s", (double)through / seconds);
    results_number("bytes_per_s", (double)bytes / seconds);
    if (options.mode == MODE_BOTH) results_number("published_per_s", (double)sent / seconds);
    print_latencies(t);
    results_cost(&t->from, &t->to, through);
    if (options.mode == MODE_BOTH)
        results_number("undelivered", (double)(end.sent * copies() + t->waiting) - (double)end.received);
    if (options.mode != MODE_CONSUME && !options.no_confirms)
        results_number("unconfirmed", (double)(end.sent - end.confirmed));
    if (end.nacked) results_number("nacked", (double)end.nacked);
    if (end.redelivered) results_number("redelivered", (double)end.redelivered);
    if (end.out_of_order) results_number("out_of_order", (double)end.out_of_order);
}

int run_traffic(void)
{
    struct traffic t = {0};
    pthread_t thread;
    struct connection *control = connection_open(IDLE, 0);
    t.waiting = declare_topology(control);
    bool timed = options.mode == MODE_BOTH && options.duration_s > 0;
    if (options.mode == MODE_CONSUME) run.consume_target = options.messages ? options.messages : t.waiting;
    if (options.mode == MODE_CONSUME && !run.consume_target) die("there is nothing to consume");
    if (options.mode == MODE_BOTH && !timed) run.consume_target = options.messages * copies();
    open_all(&t);
    if (pthread_create(&thread, NULL, worker_run, &t.worker)) die("no second thread");
    if (timed) measure_duration(&t);
    else measure_count(&t);
    run.stop_producers = run.stop_all = true;
    pthread_join(thread, NULL);
    print_traffic(&t);
    for (unsigned i = 0; i < t.worker.count; i++) connection_close(t.worker.connections[i]);
    free(t.worker.connections);
    if (options.delete_after) delete_queues(control);
    connection_close(control);
    return results_end();
}
