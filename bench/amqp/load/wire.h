/*
 * The bytes of AMQP 0-9-1: integers in network order, growing buffers, frames, field tables.
 *
 *     frame:  type 1 | channel 2 | size 4 | payload ... | 0xCE        type: 1 method, 2 header, 3 body, 8 heartbeat
 *     method: class 2 | method 2 | arguments ...
 *     header: class 2 | weight 2 | body size 8 | property flags 2 | properties ...
 */
#ifndef WIRE_H
#define WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { FRAME_METHOD = 1, FRAME_HEADER = 2, FRAME_BODY = 3, FRAME_HEARTBEAT = 8, FRAME_END = 0xCE };
enum { FRAME_OVERHEAD_BYTES = 8, SHORT_STRING_BYTES_MAX = 255 };

#define METHOD(class, method) (((uint32_t)(class) << 16) | (method))
enum {
    CONNECTION_START = METHOD(10, 10),
    CONNECTION_START_OK = METHOD(10, 11),
    CONNECTION_TUNE = METHOD(10, 30),
    CONNECTION_TUNE_OK = METHOD(10, 31),
    CONNECTION_OPEN = METHOD(10, 40),
    CONNECTION_OPEN_OK = METHOD(10, 41),
    CONNECTION_CLOSE = METHOD(10, 50),
    CONNECTION_CLOSE_OK = METHOD(10, 51),
    CONNECTION_BLOCKED = METHOD(10, 60),
    CONNECTION_UNBLOCKED = METHOD(10, 61),
    CHANNEL_OPEN = METHOD(20, 10),
    CHANNEL_OPEN_OK = METHOD(20, 11),
    CHANNEL_FLOW = METHOD(20, 20),
    CHANNEL_FLOW_OK = METHOD(20, 21),
    CHANNEL_CLOSE = METHOD(20, 40),
    CHANNEL_CLOSE_OK = METHOD(20, 41),
    EXCHANGE_DECLARE = METHOD(40, 10),
    EXCHANGE_DECLARE_OK = METHOD(40, 11),
    QUEUE_DECLARE = METHOD(50, 10),
    QUEUE_DECLARE_OK = METHOD(50, 11),
    QUEUE_BIND = METHOD(50, 20),
    QUEUE_BIND_OK = METHOD(50, 21),
    QUEUE_DELETE = METHOD(50, 40),
    QUEUE_DELETE_OK = METHOD(50, 41),
    BASIC_QOS = METHOD(60, 10),
    BASIC_QOS_OK = METHOD(60, 11),
    BASIC_CONSUME = METHOD(60, 20),
    BASIC_CANCEL = METHOD(60, 30),
    BASIC_PUBLISH = METHOD(60, 40),
    BASIC_DELIVER = METHOD(60, 60),
    BASIC_ACK = METHOD(60, 80),
    BASIC_NACK = METHOD(60, 120),
    CONFIRM_SELECT = METHOD(85, 10),
    CONFIRM_SELECT_OK = METHOD(85, 11),
};

static inline void put16(uint8_t *to, uint16_t value) { value = __builtin_bswap16(value); memcpy(to, &value, 2); }
static inline void put32(uint8_t *to, uint32_t value) { value = __builtin_bswap32(value); memcpy(to, &value, 4); }
static inline void put64(uint8_t *to, uint64_t value) { value = __builtin_bswap64(value); memcpy(to, &value, 8); }
static inline uint16_t get16(const uint8_t *from) { uint16_t v; memcpy(&v, from, 2); return __builtin_bswap16(v); }
static inline uint32_t get32(const uint8_t *from) { uint32_t v; memcpy(&v, from, 4); return __builtin_bswap32(v); }
static inline uint64_t get64(const uint8_t *from) { uint64_t v; memcpy(&v, from, 8); return __builtin_bswap64(v); }

/* Bytes that are appended at `end` and taken at `start`. */
struct buffer { uint8_t *bytes; size_t start, end, capacity; };

static inline size_t buffer_length(const struct buffer *b) { return b->end - b->start; }

/* Room for so many more bytes at the end; what was taken already is given up for it. */
uint8_t *buffer_room(struct buffer *b, size_t bytes);
void buffer_free(struct buffer *b);

void add8(struct buffer *b, uint8_t value);
void add16(struct buffer *b, uint16_t value);
void add32(struct buffer *b, uint32_t value);
void add64(struct buffer *b, uint64_t value);
void add_bytes(struct buffer *b, const void *bytes, size_t length);
void add_short_string(struct buffer *b, const char *text);
void add_long_string(struct buffer *b, const char *text);

/* A frame, method or table is begun, filled and ended with the mark that its beginning gave: the length goes there. */
size_t frame_begin(struct buffer *b, uint8_t type, uint16_t channel);
size_t method_begin(struct buffer *b, uint16_t channel, uint32_t method);
void frame_end(struct buffer *b, size_t mark);
size_t table_begin(struct buffer *b);
void table_end(struct buffer *b, size_t mark);

/* "key=value" becomes a table entry: a number, true or false, otherwise a string. */
void add_table_entry(struct buffer *b, const char *key_and_value);

/* Where the short string at `at` ends; beyond `end` when it does not fit. */
static inline size_t after_short_string(const uint8_t *payload, size_t at, size_t end)
{
    return at >= end || at + 1 + payload[at] > end ? end + 1 : at + 1 + payload[at];
}

#endif
