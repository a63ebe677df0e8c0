/* Moving bytes of a connection, and finding the frames in them. */
#include "connection.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "run.h"

enum { READ_BYTES = 65536 };
static const char *const role_names[] = {"producer", "consumer", "connection"};

void connection_fail(struct connection *c, const char *format, ...)
{
    c->open = false;
    c->finished = true;
    if (c->closing) return; /* we said goodbye: whatever the broker does now is fine */
    if (!run.error[0]) {
        char reason[400];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(reason, sizeof reason, format, arguments);
        va_end(arguments);
        snprintf(run.error, sizeof run.error, "%s %u: %s", role_names[c->role], c->number, reason);
    }
    run.failed = true;
}

static void on_header(struct connection *c, const uint8_t *payload, uint32_t size)
{
    struct content *content = &c->content;
    if (!content->expected || content->header_seen || size < 14) {
        connection_fail(c, "unexpected header frame of %u bytes", size);
        return;
    }
    content->header_seen = true;
    content->size = content->left = get64(payload + 4);
    content->sent_ns = content->sequence = 0;
    if (!content->size) on_delivery(c);
}

static void on_body(struct connection *c, const uint8_t *payload, uint32_t size)
{
    struct content *content = &c->content;
    if (!content->header_seen || size > content->left) {
        connection_fail(c, "unexpected body frame of %u bytes", size);
        return;
    }
    if (content->left == content->size) {
        if (size >= STAMP_BYTES) content->sent_ns = get64(payload);
        if (size >= SEQUENCE_BYTES) content->sequence = get64(payload + STAMP_BYTES);
    }
    content->left -= size;
    if (!content->left) on_delivery(c);
}

static void on_frame(struct connection *c, const uint8_t *frame, uint32_t size)
{
    const uint8_t *payload = frame + 7;
    switch (frame[0]) {
    case FRAME_METHOD:
        if (c->content.expected) connection_fail(c, "method frame inside content");
        else on_method(c, get16(frame + 1), payload, size);
        break;
    case FRAME_HEADER: on_header(c, payload, size); break;
    case FRAME_BODY: on_body(c, payload, size); break;
    case FRAME_HEARTBEAT: break;
    default: connection_fail(c, "frame of type %u", frame[0]);
    }
}

static void handle_frames(struct connection *c)
{
    struct buffer *in = &c->in;
    while (c->open && buffer_length(in) >= FRAME_OVERHEAD_BYTES) {
        const uint8_t *frame = in->bytes + in->start;
        uint32_t size = get32(frame + 3);
        if (size > c->frame_max) {
            connection_fail(c, "frame of %u bytes, %u were agreed", size, c->frame_max);
            return;
        }
        if (buffer_length(in) < (size_t)size + FRAME_OVERHEAD_BYTES) return;
        if (frame[7 + size] != FRAME_END) {
            connection_fail(c, "frame of type %u and %u bytes ends with 0x%02x", frame[0], size, frame[7 + size]);
            return;
        }
        on_frame(c, frame, size);
        in->start += (size_t)size + FRAME_OVERHEAD_BYTES;
    }
}

bool connection_read(struct connection *c)
{
    uint8_t *to = buffer_room(&c->in, READ_BYTES);
    ssize_t count = read(c->fd, to, c->in.capacity - c->in.end);
    if (count > 0) {
        c->in.end += (size_t)count;
        c->read_ns = now_ns();
        handle_frames(c);
        return true;
    }
    if (count == 0) connection_fail(c, "connection closed by the broker");
    else if (errno != EAGAIN && errno != EINTR) connection_fail(c, "read: %s", strerror(errno));
    return false;
}

static void ask_for_writability(struct connection *c, bool wanted)
{
    if (wanted == c->waits_to_write || c->epoll < 0) return;
    struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(c->epoll, EPOLL_CTL_MOD, c->fd, &event);
    c->waits_to_write = wanted;
}

void connection_flush(struct connection *c)
{
    struct buffer *out = &c->out;
    while (buffer_length(out)) {
        ssize_t count = send(c->fd, out->bytes + out->start, buffer_length(out), MSG_NOSIGNAL);
        if (count > 0) {
            out->start += (size_t)count;
            c->wrote_ns = now_ns();
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            int reason = errno;
            while (c->open && connection_read(c)) {} /* the broker may have said why before it closed */
            if (c->open) connection_fail(c, "write: %s", strerror(reason));
            return;
        }
    }
    ask_for_writability(c, buffer_length(out) > 0);
}
