/* Exchange, queues and bindings of a run. */
#include <stdio.h>

#include "connection.h"

void add_arguments(struct buffer *b, const struct arguments *arguments)
{
    size_t table = table_begin(b);
    for (unsigned i = 0; i < arguments->count; i++) add_table_entry(b, arguments->entry[i]);
    table_end(b, table);
}

void send_queue_declare(struct connection *c, const char *name, bool passive)
{
    enum { PASSIVE = 1, DURABLE = 2 };
    size_t mark = method_begin(&c->out, 1, QUEUE_DECLARE);
    add16(&c->out, 0);
    add_short_string(&c->out, name);
    add8(&c->out, passive ? PASSIVE : options.transient ? 0 : DURABLE);
    static const struct arguments none;
    add_arguments(&c->out, passive ? &none : &options.queue_arguments);
    frame_end(&c->out, mark);
}

static void declare_exchange(struct connection *c)
{
    enum { DURABLE = 2 };
    size_t mark = method_begin(&c->out, 1, EXCHANGE_DECLARE);
    add16(&c->out, 0);
    add_short_string(&c->out, options.exchange);
    add_short_string(&c->out, options.exchange_type);
    add8(&c->out, options.transient ? 0 : DURABLE);
    add32(&c->out, 0);
    frame_end(&c->out, mark);
    await(c, EXCHANGE_DECLARE_OK);
}

static void bind_queue(struct connection *c, const char *queue, const char *key)
{
    size_t mark = method_begin(&c->out, 1, QUEUE_BIND);
    add16(&c->out, 0);
    add_short_string(&c->out, queue);
    add_short_string(&c->out, options.exchange);
    add_short_string(&c->out, key);
    add8(&c->out, 0);
    add32(&c->out, 0);
    frame_end(&c->out, mark);
    await(c, QUEUE_BIND_OK);
}

/* Every key leads to one queue, and every queue has its share of them; a fanout has no keys. */
static void bind_all(struct connection *c)
{
    char queue[NAME_BYTES_MAX], key[NAME_BYTES_MAX];
    bool topic = !strcmp(options.exchange_type, "topic");
    uint64_t bindings = options.keys > options.queues ? options.keys : options.queues;
    for (uint64_t i = 0; i < bindings; i++) {
        numbered_name(queue, options.queue, i % options.queues, options.queues);
        numbered_name(key, topic ? "*" : options.queue, i % options.keys, options.keys);
        bind_queue(c, queue, topic && options.keys == 1 ? "#" : key);
    }
}

uint64_t declare_topology(struct connection *c)
{
    uint64_t waiting = 0;
    if (*options.exchange) declare_exchange(c);
    for (uint64_t i = 0; i < options.queues; i++) {
        numbered_name(c->queue, options.queue, i, options.queues);
        send_queue_declare(c, c->queue, options.no_declare);
        await(c, QUEUE_DECLARE_OK);
        waiting += c->message_count;
    }
    if (*options.exchange) bind_all(c);
    return waiting;
}

void delete_queues(struct connection *c)
{
    for (uint64_t i = 0; i < options.queues && c->open; i++) {
        numbered_name(c->queue, options.queue, i, options.queues);
        size_t mark = method_begin(&c->out, 1, QUEUE_DELETE);
        add16(&c->out, 0);
        add_short_string(&c->out, c->queue);
        add8(&c->out, 0);
        frame_end(&c->out, mark);
        await(c, QUEUE_DELETE_OK);
    }
}
