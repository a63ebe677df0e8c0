/* The table of options, and reading the command line by it. */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"
#include "wire.h"

const char *const mode_names[] = {"both", "publish", "consume", "declare", "connections", NULL};

struct options options = {
    .mode_name = "both", .host = "127.0.0.1", .port = "5672", .user = "guest", .password = "guest", .vhost = "/",
    .queue = "load", .exchange = "", .exchange_type = "direct", .body_bytes = 1024, .producers = 1, .consumers = 1,
    .queues = 1, .keys = 1, .window = 1000, .prefetch = 1000, .ack_every = 1, .frame_max = 131072,
    .chunk_bytes = 65536, .pipeline = 100, .connections = 100, .channels = 1, .heartbeat_s = 60, .warmup_s = 1,
    .drain_s = 30, .hold_s = 1, .time_max_s = 300,
};

enum kind { TEXT, COUNT, NUMBER, FLAG, ARGUMENT, PID };

static const struct spec {
    const char *name;
    enum kind kind;
    void *to;
    double min, max;
    const char *help;
} specs[] = {
    {"mode", TEXT, &options.mode_name, 0, 0, "both, publish, consume, declare, connections"},
    {"host", TEXT, &options.host, 0, 0, "of the broker"},
    {"port", TEXT, &options.port, 0, 0, "of the broker"},
    {"user", TEXT, &options.user, 0, 0, "name to log in with"},
    {"password", TEXT, &options.password, 0, 0, "password to log in with"},
    {"vhost", TEXT, &options.vhost, 0, 0, "virtual host"},
    {"queue", TEXT, &options.queue, 0, 0, "name; NAME.000000 and up if there are several"},
    {"queues", COUNT, &options.queues, 1, NUMBERED_MAX, "how many; producers and consumers take turns on them"},
    {"argument", ARGUMENT, &options.queue_arguments, 0, 0, "KEY=VALUE of queue.declare; may be repeated"},
    {"consumer-argument", ARGUMENT, &options.consumer_arguments, 0, 0, "KEY=VALUE of basic.consume; may be repeated"},
    {"no-declare", FLAG, &options.no_declare, 0, 0, "the queues are there already"},
    {"delete-after", FLAG, &options.delete_after, 0, 0, "delete the queues in the end"},
    {"exchange", TEXT, &options.exchange, 0, 0, "declared, and bound to all queues"},
    {"exchange-type", TEXT, &options.exchange_type, 0, 0, "direct, fanout or topic"},
    {"keys", COUNT, &options.keys, 1, NUMBERED_MAX, "routing keys used in turn, NAME.000000 and up, each bound once"},
    {"messages", COUNT, &options.messages, 0, 1e12, "end after so many"},
    {"duration", NUMBER, &options.duration_s, 0, 86400, "or measure so many seconds (mode both)"},
    {"warmup", NUMBER, &options.warmup_s, 0, 3600, "seconds before the measured ones"},
    {"drain", NUMBER, &options.drain_s, 0, 3600, "seconds allowed for the rest to come out after the measured ones"},
    {"time-max", NUMBER, &options.time_max_s, 0, 86400, "seconds allowed for --messages"},
    {"rate", NUMBER, &options.rate, 0, 1e9, "messages a second in all, sent on a fixed schedule; 0: as fast as possible"},
    {"body", COUNT, &options.body_bytes, 0, 1 << 28, "bytes of each message"},
    {"transient", FLAG, &options.transient, 0, 0, "messages and queues need not survive a restart"},
    {"producers", COUNT, &options.producers, 1, 4096, "connections that publish"},
    {"consumers", COUNT, &options.consumers, 1, 4096, "connections that consume"},
    {"no-confirms", FLAG, &options.no_confirms, 0, 0, "do not ask for confirms"},
    {"window", COUNT, &options.window, 1, 1 << 24, "unconfirmed messages of a producer"},
    {"prefetch", COUNT, &options.prefetch, 0, 65535, "unacknowledged messages of a consumer; 0: no limit"},
    {"no-acks", FLAG, &options.no_acks, 0, 0, "the broker need not wait for acknowledgements"},
    {"ack-every", COUNT, &options.ack_every, 1, 65535, "acknowledge so many messages with one method"},
    {"priority-max", COUNT, &options.priority_max, 0, 255, "priorities 0..MAX in turn"},
    {"frame-max", COUNT, &options.frame_max, 4096, 1 << 24, "bytes of a frame"},
    {"chunk", COUNT, &options.chunk_bytes, 1, 1 << 26, "bytes encoded before each write"},
    {"pipeline", COUNT, &options.pipeline, 1, 65535, "queue.declares under way at once (mode declare)"},
    {"connections", COUNT, &options.connections, 1, 65535, "idle connections (mode connections)"},
    {"channels", COUNT, &options.channels, 1, 65535, "channels on each of them"},
    {"hold", NUMBER, &options.hold_s, 0, 3600, "seconds to hold them before memory is read"},
    {"heartbeat", COUNT, &options.heartbeat_s, 0, 65535, "seconds; 0: none"},
    {"pid", PID, NULL, 1, 1 << 30, "process of the broker, for CPU and memory; may be repeated"},
};
enum { SPECS = sizeof specs / sizeof *specs };

static void usage(void)
{
    puts("usage: amqpload [--option value]...    prints one line of JSON\n");
    for (unsigned i = 0; i < SPECS; i++) printf("  --%-16s %s\n", specs[i].name, specs[i].help);
}

static double number(const struct spec *spec, const char *word)
{
    char *end;
    double value = strtod(word, &end);
    if (!*word || *end || !(value >= spec->min && value <= spec->max))
        die("--%s takes a number from %.0f to %.0f, not %s", spec->name, spec->min, spec->max, word);
    return value;
}

static void take(const struct spec *spec, const char *word)
{
    struct arguments *arguments = spec->to;
    switch (spec->kind) {
    case TEXT: *(const char **)spec->to = word; break;
    case COUNT: *(uint64_t *)spec->to = (uint64_t)number(spec, word); break;
    case NUMBER: *(double *)spec->to = number(spec, word); break;
    case FLAG: *(bool *)spec->to = true; break;
    case ARGUMENT:
        if (arguments->count == ARGUMENTS_MAX) die("at most %d --%s", ARGUMENTS_MAX, spec->name);
        arguments->entry[arguments->count++] = word;
        break;
    case PID:
        if (options.pids == PIDS_MAX) die("at most %d --pid", PIDS_MAX);
        options.pid[options.pids++] = (uint64_t)number(spec, word);
        break;
    }
}

static const struct spec *find(const char *word)
{
    for (unsigned i = 0; i < SPECS; i++)
        if (!strncmp(word, "--", 2) && !strcmp(word + 2, specs[i].name)) return &specs[i];
    die("unknown option %s: --help lists them", word);
}

static enum mode find_mode(const char *name)
{
    for (unsigned i = 0; mode_names[i]; i++)
        if (!strcmp(name, mode_names[i])) return (enum mode)i;
    die("unknown mode %s: --help lists them", name);
}

void options_read(int count, char **words)
{
    for (int i = 1; i < count; i++) {
        if (!strcmp(words[i], "--help")) {
            usage();
            exit(0);
        }
        const struct spec *spec = find(words[i]);
        if (spec->kind != FLAG && i + 1 == count) die("--%s needs a value", spec->name);
        take(spec, spec->kind == FLAG ? "" : words[++i]);
    }
    options.mode = find_mode(options.mode_name);
    if (strlen(options.queue) > SHORT_STRING_BYTES_MAX - DIGITS - 1) die("--queue is too long");
    if (options.prefetch && options.ack_every > options.prefetch) die("--ack-every over --prefetch would wait for ever");
    if (options.duration_s > 0 && options.mode != MODE_BOTH) die("--duration is for mode both");
    if (!options.messages && options.mode == MODE_PUBLISH) die("publish needs --messages");
    if (!options.messages && !options.duration_s && options.mode == MODE_BOTH) die("--messages or --duration is needed");
}

uint64_t copies(void)
{
    return *options.exchange && !strcmp(options.exchange_type, "fanout") ? options.queues : 1;
}

void numbered_name(char to[NAME_BYTES_MAX], const char *name, uint64_t number, uint64_t of)
{
    if (of == 1) snprintf(to, NAME_BYTES_MAX, "%s", name);
    else snprintf(to, NAME_BYTES_MAX, "%s.%0*llu", name, DIGITS, (unsigned long long)number);
}
