/*
 * A connection to the broker with one channel in use, as producer, consumer or neither.
 *
 * A body says when it was sent and by whom, so that its consumer can measure and check the order:
 *     sent 8 (CLOCK_MONOTONIC ns) | producer 2 | sequence number 6 | 'x' ...
 * Shorter bodies carry as much of that as fits. At a fixed rate, "sent" is when it was due, not when it was sent: a
 * broker that makes the producer late is then seen in the latency.
 */
#ifndef CONNECTION_H
#define CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "histogram.h"
#include "options.h"
#include "wire.h"

enum { STAMP_BYTES = 8, SEQUENCE_BYTES = 16, PRODUCERS_MAX = 4096 };
enum role { PRODUCER, CONSUMER, IDLE };

/* What the broker is in the middle of sending. */
struct content { bool expected, header_seen, redelivered; uint64_t tag, size, left, sent_ns, sequence; };

struct connection {
    int fd, epoll;
    enum role role;
    unsigned number; /* among those of its role */
    char queue[NAME_BYTES_MAX];
    uint32_t frame_max;
    uint16_t channel_max, heartbeat_s;
    uint64_t wrote_ns, read_ns;
    struct buffer in, out;
    bool open, closing, finished, waits_to_write, flow_stopped, cancelled;

    /* The answer that a caller waits for, and what it says. */
    uint32_t answer, message_count;
    uint64_t declared, channels_opened;
    bool sync_sent, synced; /* the last request of a run, answered after everything before it */

    struct content content;

    /* A producer: the bytes of a publish, where in them something changes, and when each unconfirmed one was sent. */
    struct buffer publish;
    size_t key_at, priority_at, body_at;
    uint64_t quota; /* 0: none */
    uint64_t published, lowest_unconfirmed;
    uint64_t *sent_at, sent_mask; /* a ring by delivery tag; 0: confirmed */
    uint64_t schedule_start;
    double schedule_interval_ns, schedule_phase;

    /* A consumer. */
    uint64_t to_acknowledge;
    uint64_t *last_sequence; /* by producer */

    /* Counted by the worker, looked at by the main thread. */
    volatile uint64_t sent, confirmed, nacked, received, received_bytes, redelivered, out_of_order;
    volatile uint64_t last_event_ns;
    struct histogram *latency, *confirm_latency;
};

struct connection *connection_open(enum role role, unsigned number);
void connection_close(struct connection *c);

/* One read() and what it brought; false when there was nothing. */
bool connection_read(struct connection *c);
void connection_flush(struct connection *c);
__attribute__((format(printf, 2, 3))) void connection_fail(struct connection *c, const char *format, ...);

/* Sends what is to be sent and waits for one answer: only before the worker runs. */
void await(struct connection *c, uint32_t method);

/* Handles everything that the broker may say (methods.c). */
void on_method(struct connection *c, uint16_t channel, const uint8_t *payload, uint32_t size);
void send_empty_method(struct connection *c, uint16_t channel, uint32_t method);

/* Declares exchange, queues and bindings; gives the number of messages that are in them already. */
uint64_t declare_topology(struct connection *c);
void add_arguments(struct buffer *b, const struct arguments *arguments);
void send_queue_declare(struct connection *c, const char *name, bool passive);
void delete_queues(struct connection *c);

void producer_prepare(struct connection *c, uint64_t quota);
void on_confirm(struct connection *c, uint64_t tag, bool multiple, bool nack);

/* Sends what window, schedule and quota allow, one chunk at most. True if more could go at once; else `wake_ns` may
 * come earlier. */
bool producer_step(struct connection *c, uint64_t now, uint64_t *wake_ns);

void consumer_prepare(struct connection *c);
void consumer_start(struct connection *c);
void consumer_step(struct connection *c);
void on_delivery(struct connection *c);

#endif
