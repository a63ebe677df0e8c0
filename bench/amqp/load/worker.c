/* One epoll loop over all connections. */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "run.h"

enum { EVENTS_MAX = 256, TIMER_SLACK_NS = 1000 };

static void attach(struct worker *w, int epoll)
{
    for (unsigned i = 0; i < w->count; i++) {
        struct connection *c = w->connections[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK);
        epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
        c->epoll = epoll;
        c->read_ns = c->wrote_ns = now_ns();
        if (c->role == CONSUMER) consumer_start(c);
        connection_flush(c);
    }
}

static void keep_alive(struct connection *c, uint64_t now)
{
    uint64_t interval = c->heartbeat_s * SECOND_NS;
    if (!c->open || !interval) return;
    if (now > c->wrote_ns + interval / 2) {
        frame_end(&c->out, frame_begin(&c->out, FRAME_HEARTBEAT, 0));
        connection_flush(c);
    }
    if (now > c->read_ns + 2 * interval) connection_fail(c, "nothing from the broker for two heartbeats");
}

/* Lets every connection send what it may; true if one of them could go on at once. */
static bool step_all(struct worker *w, uint64_t now, uint64_t *wake_ns)
{
    bool more = false;
    for (unsigned i = 0; i < w->count; i++) {
        struct connection *c = w->connections[i];
        if (!c->open) continue;
        if (c->role == PRODUCER) more |= producer_step(c, now, wake_ns);
        else consumer_step(c);
    }
    return more;
}

static void handle_events(int epoll, uint64_t wait_ns)
{
    struct epoll_event events[EVENTS_MAX];
    /* Not epoll_wait: at a fixed rate, milliseconds are too coarse. */
    struct timespec wait = {.tv_sec = (time_t)(wait_ns / SECOND_NS), .tv_nsec = (long)(wait_ns % SECOND_NS)};
    int count = epoll_pwait2(epoll, events, EVENTS_MAX, &wait, NULL);
    if (count < 0 && errno != EINTR) die("epoll_pwait2: %s (it needs Linux 5.11)", strerror(errno));
    for (int i = 0; i < count; i++) {
        struct connection *c = events[i].data.ptr;
        if (c->open && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) connection_read(c);
        if (c->open) connection_flush(c);
    }
}

bool all_finished(const struct worker *w)
{
    for (unsigned i = 0; i < w->count; i++)
        if (!w->connections[i]->finished) return false;
    return true;
}

void *worker_run(void *argument)
{
    struct worker *w = argument;
    uint64_t next_heartbeat = now_ns() + SECOND_NS;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) die("epoll_create1 failed");
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
    attach(w, epoll);
    while (!run.interrupted && !run.failed && !(run.stop_all && all_finished(w))) {
        uint64_t now = now_ns(), wake_ns = now + 50 * MILLISECOND_NS;
        if (now >= next_heartbeat) {
            for (unsigned i = 0; i < w->count; i++) keep_alive(w->connections[i], now);
            next_heartbeat = now + SECOND_NS;
        }
        bool more = step_all(w, now, &wake_ns);
        uint64_t after = now_ns();
        handle_events(epoll, more || wake_ns <= after ? 0 : wake_ns - after);
    }
    for (unsigned i = 0; i < w->count; i++) w->connections[i]->epoll = -1;
    close(epoll);
    return NULL;
}
