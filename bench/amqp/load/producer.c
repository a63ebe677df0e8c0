/*
 * A producer copies the bytes of one prepared publish (method, header and body frames) for each message and changes
 * the few that differ: so it costs a fraction of a microsecond, and the broker is what is measured.
 */
#include <stdatomic.h>

#include "connection.h"
#include "run.h"

enum { FLAG_DELIVERY_MODE = 0x1000, FLAG_PRIORITY = 0x0800, TRANSIENT = 1, PERSISTENT = 2 };

static void select_confirms(struct connection *c)
{
    size_t mark = method_begin(&c->out, 1, CONFIRM_SELECT);
    add8(&c->out, 0);
    frame_end(&c->out, mark);
    await(c, CONFIRM_SELECT_OK);
    uint64_t slots = 2;
    while (slots < options.window + 2) slots *= 2;
    c->sent_at = new_memory(slots * sizeof *c->sent_at);
    c->sent_mask = slots - 1;
}

static void prepare_method(struct connection *c)
{
    char key[NAME_BYTES_MAX];
    struct buffer *b = &c->publish;
    numbered_name(key, options.queue, 0, options.keys);
    size_t mark = method_begin(b, 1, BASIC_PUBLISH);
    add16(b, 0);
    add_short_string(b, options.exchange);
    add_short_string(b, options.keys > 1 ? key : c->queue);
    if (options.keys > 1) c->key_at = b->end - DIGITS;
    add8(b, 0);
    frame_end(b, mark);
}

static void prepare_header(struct connection *c)
{
    struct buffer *b = &c->publish;
    size_t mark = frame_begin(b, FRAME_HEADER, 1);
    add32(b, BASIC_PUBLISH & 0xFFFF0000u); /* class and weight */
    add64(b, options.body_bytes);
    add16(b, FLAG_DELIVERY_MODE | (options.priority_max ? FLAG_PRIORITY : 0));
    add8(b, options.transient ? TRANSIENT : PERSISTENT);
    if (options.priority_max) {
        c->priority_at = b->end;
        add8(b, 0);
    }
    frame_end(b, mark);
}

static void prepare_body(struct connection *c)
{
    struct buffer *b = &c->publish;
    size_t left = options.body_bytes, piece_max = c->frame_max - FRAME_OVERHEAD_BYTES;
    while (left) {
        size_t piece = left < piece_max ? left : piece_max, mark = frame_begin(b, FRAME_BODY, 1);
        if (!c->body_at) c->body_at = b->end;
        memset(buffer_room(b, piece), 'x', piece);
        b->end += piece;
        frame_end(b, mark);
        left -= piece;
    }
}

void producer_prepare(struct connection *c, uint64_t quota)
{
    c->quota = quota;
    if (!options.no_confirms) select_confirms(c);
    prepare_method(c);
    prepare_header(c);
    prepare_body(c);
    buffer_room(&c->out, options.chunk_bytes + c->publish.end);
}

static void add_publish(struct connection *c, uint64_t stamp)
{
    uint64_t tag = ++c->published;
    uint8_t *to = buffer_room(&c->out, c->publish.end);
    memcpy(to, c->publish.bytes, c->publish.end);
    if (options.body_bytes >= STAMP_BYTES) put64(to + c->body_at, stamp);
    if (options.body_bytes >= SEQUENCE_BYTES) put64(to + c->body_at + STAMP_BYTES, ((uint64_t)c->number << 48) | tag);
    if (c->priority_at) to[c->priority_at] = (uint8_t)(tag % (options.priority_max + 1));
    if (c->key_at) {
        uint64_t key = (tag - 1) % options.keys;
        for (unsigned digit = DIGITS; digit; digit--, key /= 10) to[c->key_at + digit - 1] = (uint8_t)('0' + key % 10);
    }
    if (c->sent_at) c->sent_at[tag & c->sent_mask] = stamp;
    c->out.end += c->publish.end;
    c->sent++;
}

/* When the next message is due; now, if there is no schedule. */
static uint64_t next_due_ns(const struct connection *c)
{
    if (!(c->schedule_interval_ns > 0)) return now_ns();
    return c->schedule_start + (uint64_t)(((double)c->published + c->schedule_phase) * c->schedule_interval_ns);
}

static bool window_is_open(const struct connection *c)
{
    if (!c->sent_at) return true;
    /* A single confirm may overtake others: then their slots, not the window, are what runs out. */
    return c->published - c->confirmed < options.window && c->published + 1 - c->lowest_unconfirmed <= c->sent_mask;
}

/* True if only the size of a chunk ended it. */
static bool fill_chunk(struct connection *c, uint64_t now, uint64_t *wake_ns)
{
    if (c->flow_stopped || c->waits_to_write) return false;
    while (buffer_length(&c->out) < options.chunk_bytes) {
        if ((c->quota && c->published >= c->quota) || !window_is_open(c)) return false;
        uint64_t due = next_due_ns(c);
        if (c->schedule_interval_ns > 0 && due > now) {
            if (due < *wake_ns) *wake_ns = due;
            return false;
        }
        add_publish(c, due);
    }
    return true;
}

/* After the last publish: its confirm, or without confirms an answer that comes after it. */
static void finish_quota(struct connection *c)
{
    if (c->sent_at) {
        c->finished = c->confirmed >= c->quota;
    } else if (!c->sync_sent) {
        c->sync_sent = true;
        send_queue_declare(c, c->queue, true);
    } else {
        c->finished = c->synced;
    }
}

bool producer_step(struct connection *c, uint64_t now, uint64_t *wake_ns)
{
    if (c->finished) return false;
    if (!c->schedule_start) c->schedule_start = now;
    if (atomic_load_explicit(&run.stop_producers, memory_order_relaxed)) {
        c->finished = true;
        return false;
    }
    bool more = fill_chunk(c, now, wake_ns);
    if (c->quota && c->published >= c->quota) finish_quota(c);
    connection_flush(c);
    return more && !c->waits_to_write && c->open;
}

static void confirm_one(struct connection *c, uint64_t tag, uint64_t now)
{
    uint64_t *sent_at = &c->sent_at[tag & c->sent_mask];
    if (!*sent_at) return;
    if (atomic_load_explicit(&run.measuring, memory_order_relaxed) && now > *sent_at)
        histogram_add(c->confirm_latency, now - *sent_at);
    *sent_at = 0;
    c->confirmed++;
}

void on_confirm(struct connection *c, uint64_t tag, bool multiple, bool nack)
{
    if (!c->sent_at || tag > c->published) {
        connection_fail(c, "confirm of %llu, %llu were published", (unsigned long long)tag,
                        (unsigned long long)c->published);
        return;
    }
    uint64_t now = now_ns(), before = c->confirmed, last = tag ? tag : c->published;
    for (uint64_t t = multiple ? c->lowest_unconfirmed : last; t <= last && t >= c->lowest_unconfirmed; t++)
        confirm_one(c, t, now);
    while (c->lowest_unconfirmed <= c->published && !c->sent_at[c->lowest_unconfirmed & c->sent_mask])
        c->lowest_unconfirmed++;
    if (nack) c->nacked += c->confirmed - before;
    c->last_event_ns = now;
}
