/* What the broker may say, method by method. */
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"
#include "run.h"

void send_empty_method(struct connection *c, uint16_t channel, uint32_t method)
{
    frame_end(&c->out, method_begin(&c->out, channel, method));
}

static void on_tune(struct connection *c, const uint8_t *payload, uint32_t size)
{
    if (size < 12) {
        connection_fail(c, "short connection.tune");
        return;
    }
    uint32_t frame_max = get32(payload + 6);
    uint16_t heartbeat_s = get16(payload + 10);
    c->channel_max = get16(payload + 4);
    c->frame_max = !frame_max || frame_max > options.frame_max ? (uint32_t)options.frame_max : frame_max;
    c->heartbeat_s = !heartbeat_s || options.heartbeat_s < heartbeat_s ? (uint16_t)options.heartbeat_s : heartbeat_s;
}

static void on_deliver(struct connection *c, const uint8_t *payload, uint32_t size)
{
    size_t at = after_short_string(payload, 4, size);
    if (at + 9 > size) {
        connection_fail(c, "short basic.deliver");
        return;
    }
    c->content = (struct content){
        .expected = true, .tag = get64(payload + at), .redelivered = payload[at + 8] & 1,
    };
}

static void on_declare_ok(struct connection *c, const uint8_t *payload, uint32_t size)
{
    size_t at = after_short_string(payload, 4, size);
    if (at + 8 <= size) c->message_count = get32(payload + at);
    c->declared++;
    if (c->sync_sent && !c->synced) {
        c->synced = true;
        c->last_event_ns = now_ns();
    }
}

static void on_flow(struct connection *c, uint16_t channel, const uint8_t *payload, uint32_t size)
{
    c->flow_stopped = size >= 5 && !(payload[4] & 1);
    size_t mark = method_begin(&c->out, channel, CHANNEL_FLOW_OK);
    add8(&c->out, !c->flow_stopped);
    frame_end(&c->out, mark);
}

/* What only comes when it was asked for. */
static void on_answer(struct connection *c, uint32_t method, const uint8_t *payload, uint32_t size)
{
    c->answer = method;
    if (method == QUEUE_DECLARE_OK) on_declare_ok(c, payload, size);
    if (method == CHANNEL_OPEN_OK) c->channels_opened++;
    if (method == CONNECTION_TUNE) on_tune(c, payload, size);
}

/* connection.close or channel.close: answered, and the end of the connection for us. */
static void on_close(struct connection *c, uint16_t channel, uint32_t method, const uint8_t *payload, uint32_t size)
{
    unsigned code = size >= 6 ? get16(payload + 4) : 0;
    size_t length = size >= 7 && 7 + (size_t)payload[6] <= size ? payload[6] : 0;
    send_empty_method(c, channel, method + 1);
    send(c->fd, c->out.bytes + c->out.start, buffer_length(&c->out), MSG_NOSIGNAL);
    connection_fail(c, "%s closed by the broker: %u %.*s", method == CONNECTION_CLOSE ? "connection" : "channel", code,
                    (int)length, length ? (const char *)payload + 7 : "");
}

void on_method(struct connection *c, uint16_t channel, const uint8_t *payload, uint32_t size)
{
    if (size < 4) {
        connection_fail(c, "method frame of %u bytes", size);
        return;
    }
    uint32_t method = get32(payload);
    switch (method) {
    case BASIC_DELIVER: on_deliver(c, payload, size); break;
    case BASIC_ACK:
    case BASIC_NACK:
        if (size < 13) connection_fail(c, "short confirm");
        else on_confirm(c, get64(payload + 4), payload[12] & 1, method == BASIC_NACK);
        break;
    case CONNECTION_BLOCKED: run.blocked++; break;
    case CHANNEL_FLOW: on_flow(c, channel, payload, size); break;
    case BASIC_CANCEL:
        run.cancelled++;
        c->cancelled = true;
        break;
    case CONNECTION_CLOSE:
    case CHANNEL_CLOSE: on_close(c, channel, method, payload, size); break;
    case CONNECTION_UNBLOCKED: break;
    default: on_answer(c, method, payload, size);
    }
}
