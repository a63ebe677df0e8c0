/* Every option, once: the table in options.c has default, limits and help. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ARGUMENTS_MAX = 16, PIDS_MAX = 64, NAME_BYTES_MAX = 256 };

enum mode { MODE_BOTH, MODE_PUBLISH, MODE_CONSUME, MODE_DECLARE, MODE_CONNECTIONS };
extern const char *const mode_names[];

struct arguments {
    unsigned count;
    const char *entry[ARGUMENTS_MAX];
};

struct options {
    enum mode mode;
    const char *mode_name, *host, *port, *user, *password, *vhost, *queue, *exchange, *exchange_type;
    uint64_t messages, body_bytes, producers, consumers, queues, keys, window, prefetch, ack_every, priority_max;
    uint64_t frame_max, chunk_bytes, pipeline, connections, channels, heartbeat_s;
    double rate, duration_s, warmup_s, drain_s, hold_s, time_max_s;
    bool transient, no_confirms, no_acks, no_declare, delete_after;
    struct arguments queue_arguments, consumer_arguments;
    unsigned pids;
    uint64_t pid[PIDS_MAX];
};
extern struct options options;

void options_read(int count, char **words);

/* How many queues get each message. */
uint64_t copies(void);

/* The name itself, or with six digits when there is more than one: the digits can then be changed in place. */
enum { DIGITS = 6, NUMBERED_MAX = 1000000 };
void numbered_name(char to[NAME_BYTES_MAX], const char *name, uint64_t number, uint64_t of);

#endif
