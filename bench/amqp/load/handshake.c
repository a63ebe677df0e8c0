/* Opening and closing connections: the only part that waits for answers one by one. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"
#include "run.h"

enum { ANSWER_S_MAX = 60, GOODBYE_S_MAX = 3, FRAME_BYTES_BEFORE_TUNE = 1 << 20, INPUT_BYTES = 512 * 1024 };

void await(struct connection *c, uint32_t method)
{
    uint64_t limit = now_ns() + ANSWER_S_MAX * SECOND_NS;
    c->answer = 0;
    connection_flush(c);
    while (c->answer != method) {
        if (!c->open) die("%s", run.error);
        if (run.interrupted) die("interrupted");
        if (now_ns() > limit) die("no %u.%u from the broker in %d s", method >> 16, method & 0xFFFF, ANSWER_S_MAX);
        connection_read(c); /* comes back after a second at the latest: SO_RCVTIMEO */
        if (c->open) connection_flush(c);
    }
}

static int connect_socket(void)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *address = NULL;
    int failure = getaddrinfo(options.host, options.port, &hints, &address);
    if (failure) die("%s: %s", options.host, gai_strerror(failure));
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) die("socket: %s", strerror(errno));
    if (connect(fd, address->ai_addr, address->ai_addrlen))
        die("connect %s:%s: %s", options.host, options.port, strerror(errno));
    freeaddrinfo(address);
    int one = 1;
    struct timeval second = {.tv_sec = 1};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    return fd;
}

static void send_start_ok(struct connection *c)
{
    static const char *const capabilities[] = {
        "publisher_confirms=true", "basic.nack=true", "consumer_cancel_notify=true", "connection.blocked=true",
        "authentication_failure_close=true",
    };
    struct buffer *out = &c->out;
    size_t mark = method_begin(out, 0, CONNECTION_START_OK), properties = table_begin(out);
    add_table_entry(out, "product=amqpload");
    add_short_string(out, "capabilities");
    add8(out, 'F');
    size_t nested = table_begin(out);
    for (unsigned i = 0; i < sizeof capabilities / sizeof *capabilities; i++) add_table_entry(out, capabilities[i]);
    table_end(out, nested);
    table_end(out, properties);
    add_short_string(out, "PLAIN");
    add32(out, (uint32_t)(strlen(options.user) + strlen(options.password) + 2));
    add8(out, 0);
    add_bytes(out, options.user, strlen(options.user));
    add8(out, 0);
    add_bytes(out, options.password, strlen(options.password));
    add_short_string(out, "en_US");
    frame_end(out, mark);
}

static void send_tune_ok_and_open(struct connection *c)
{
    size_t mark = method_begin(&c->out, 0, CONNECTION_TUNE_OK);
    add16(&c->out, c->channel_max);
    add32(&c->out, c->frame_max);
    add16(&c->out, c->heartbeat_s);
    frame_end(&c->out, mark);
    mark = method_begin(&c->out, 0, CONNECTION_OPEN);
    add_short_string(&c->out, options.vhost);
    add_short_string(&c->out, "");
    add8(&c->out, 0);
    frame_end(&c->out, mark);
}

static void open_channels(struct connection *c, uint64_t channels)
{
    if (c->channel_max && channels > c->channel_max) die("the broker allows %u channels", c->channel_max);
    for (uint64_t channel = 1; channel <= channels; channel++) {
        size_t mark = method_begin(&c->out, (uint16_t)channel, CHANNEL_OPEN);
        add_short_string(&c->out, "");
        frame_end(&c->out, mark);
    }
    while (c->channels_opened < channels) await(c, CHANNEL_OPEN_OK);
}

struct connection *connection_open(enum role role, unsigned number)
{
    struct connection *c = new_memory(sizeof *c);
    c->fd = connect_socket();
    c->epoll = -1;
    c->role = role;
    c->number = number;
    c->open = true;
    c->frame_max = FRAME_BYTES_BEFORE_TUNE;
    c->lowest_unconfirmed = 1;
    if (role != IDLE) buffer_room(&c->in, INPUT_BYTES);
    add_bytes(&c->out, "AMQP\0\0\x09\x01", 8);
    await(c, CONNECTION_START);
    send_start_ok(c);
    await(c, CONNECTION_TUNE);
    send_tune_ok_and_open(c);
    await(c, CONNECTION_OPEN_OK);
    open_channels(c, options.mode == MODE_CONNECTIONS ? options.channels : 1);
    return c;
}

static void say_goodbye(struct connection *c)
{
    size_t mark = method_begin(&c->out, 0, CONNECTION_CLOSE);
    add16(&c->out, 200);
    add_short_string(&c->out, "bye");
    add32(&c->out, 0);
    frame_end(&c->out, mark);
    fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) & ~O_NONBLOCK);
    connection_flush(c);
    c->closing = true;
    uint64_t limit = now_ns() + GOODBYE_S_MAX * SECOND_NS;
    while (c->open && c->answer != CONNECTION_CLOSE_OK && now_ns() < limit) connection_read(c);
}

void connection_close(struct connection *c)
{
    if (c->open && !run.interrupted) say_goodbye(c);
    close(c->fd);
    buffer_free(&c->in);
    buffer_free(&c->out);
    buffer_free(&c->publish);
    free(c->sent_at);
    free(c->last_sequence);
    free(c->latency);
    free(c->confirm_latency);
    free(c);
}
