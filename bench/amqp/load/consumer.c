/* A consumer: measures each delivery, checks its order, acknowledges it. */
#include <stdatomic.h>
#include <stdio.h>

#include "connection.h"
#include "run.h"

void consumer_prepare(struct connection *c)
{
    if (!options.no_acks && options.prefetch) {
        size_t mark = method_begin(&c->out, 1, BASIC_QOS);
        add32(&c->out, 0);
        add16(&c->out, (uint16_t)options.prefetch);
        add8(&c->out, 0);
        frame_end(&c->out, mark);
        await(c, BASIC_QOS_OK);
    }
    c->last_sequence = new_memory(PRODUCERS_MAX * sizeof *c->last_sequence);
}

void consumer_start(struct connection *c)
{
    enum { NO_ACK = 2 };
    char tag[32];
    snprintf(tag, sizeof tag, "consumer-%u", c->number);
    size_t mark = method_begin(&c->out, 1, BASIC_CONSUME);
    add16(&c->out, 0);
    add_short_string(&c->out, c->queue);
    add_short_string(&c->out, tag);
    add8(&c->out, options.no_acks ? NO_ACK : 0);
    add_arguments(&c->out, &options.consumer_arguments);
    frame_end(&c->out, mark);
}

static void send_ack(struct connection *c, uint64_t tag, bool multiple)
{
    static const uint8_t head[11] = {FRAME_METHOD, 0, 1, 0, 0, 0, 13, 0, 60, 0, 80};
    uint8_t *to = buffer_room(&c->out, 21);
    memcpy(to, head, sizeof head);
    put64(to + 11, tag);
    to[19] = multiple;
    to[20] = FRAME_END;
    c->out.end += 21;
    c->to_acknowledge = 0;
}

/* Priorities and redeliveries change the order on purpose. */
static void check_order(struct connection *c)
{
    uint64_t *last = &c->last_sequence[(c->content.sequence >> 48) % PRODUCERS_MAX];
    uint64_t sequence = c->content.sequence & 0xFFFFFFFFFFFFull;
    if (sequence <= *last && !c->content.redelivered && !options.priority_max) c->out_of_order++;
    *last = sequence;
}

void on_delivery(struct connection *c)
{
    struct content *content = &c->content;
    content->expected = content->header_seen = false;
    if (c->closing || !c->last_sequence) return;
    c->received++;
    c->received_bytes += content->size;
    c->redelivered += content->redelivered;
    if (content->size >= STAMP_BYTES && atomic_load_explicit(&run.measuring, memory_order_relaxed)) {
        uint64_t now = now_ns();
        if (now > content->sent_ns) histogram_add(c->latency, now - content->sent_ns);
    }
    if (content->size >= SEQUENCE_BYTES) check_order(c);
    bool last = ++run.consumed == run.consume_target;
    if (!options.no_acks && (++c->to_acknowledge >= options.ack_every || last))
        send_ack(c, content->tag, options.ack_every > 1);
}

/* In the end: acknowledge the rest, and ask for an answer that comes after everything. */
void consumer_step(struct connection *c)
{
    bool enough = run.consume_target && run.consumed >= run.consume_target;
    if (!c->sync_sent && (enough || c->cancelled || run.stop_all)) {
        if (c->to_acknowledge) send_ack(c, c->content.tag, true);
        c->sync_sent = true;
        send_queue_declare(c, c->queue, true);
    }
    c->finished |= c->synced;
    connection_flush(c);
}
