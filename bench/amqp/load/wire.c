/* Growing buffers and what is written into them: strings, frames, field tables. */
#include "wire.h"

#include <stdlib.h>

#include "run.h"

enum { BUFFER_BYTES_MIN = 4096 };

uint8_t *buffer_room(struct buffer *b, size_t bytes)
{
    if (b->start == b->end) b->start = b->end = 0;
    if (b->end + bytes > b->capacity && b->start) {
        memmove(b->bytes, b->bytes + b->start, buffer_length(b));
        b->end -= b->start;
        b->start = 0;
    }
    if (b->end + bytes > b->capacity) {
        size_t capacity = b->capacity ? b->capacity : BUFFER_BYTES_MIN;
        while (capacity < b->end + bytes) capacity *= 2;
        b->bytes = realloc(b->bytes, capacity);
        if (!b->bytes) die("out of memory (%zu bytes)", capacity);
        b->capacity = capacity;
    }
    return b->bytes + b->end;
}

void buffer_free(struct buffer *b)
{
    free(b->bytes);
    *b = (struct buffer){0};
}

void add8(struct buffer *b, uint8_t value) { *buffer_room(b, 1) = value; b->end += 1; }
void add16(struct buffer *b, uint16_t value) { put16(buffer_room(b, 2), value); b->end += 2; }
void add32(struct buffer *b, uint32_t value) { put32(buffer_room(b, 4), value); b->end += 4; }
void add64(struct buffer *b, uint64_t value) { put64(buffer_room(b, 8), value); b->end += 8; }

void add_bytes(struct buffer *b, const void *bytes, size_t length)
{
    if (length) memcpy(buffer_room(b, length), bytes, length);
    b->end += length;
}

void add_short_string(struct buffer *b, const char *text)
{
    size_t length = strlen(text);
    if (length > SHORT_STRING_BYTES_MAX) die("a name may have %d bytes: %s", SHORT_STRING_BYTES_MAX, text);
    add8(b, (uint8_t)length);
    add_bytes(b, text, length);
}

void add_long_string(struct buffer *b, const char *text)
{
    add32(b, (uint32_t)strlen(text));
    add_bytes(b, text, strlen(text));
}

/* The length field is the last four bytes before the mark. The mark counts from `start`: the buffer may move. */
static void fill_length(struct buffer *b, size_t mark)
{
    size_t at = b->start + mark;
    put32(b->bytes + at - 4, (uint32_t)(b->end - at));
}

size_t frame_begin(struct buffer *b, uint8_t type, uint16_t channel)
{
    add8(b, type);
    add16(b, channel);
    add32(b, 0);
    return buffer_length(b);
}

size_t method_begin(struct buffer *b, uint16_t channel, uint32_t method)
{
    size_t mark = frame_begin(b, FRAME_METHOD, channel);
    add32(b, method);
    return mark;
}

void frame_end(struct buffer *b, size_t mark)
{
    fill_length(b, mark);
    add8(b, FRAME_END);
}

size_t table_begin(struct buffer *b)
{
    add32(b, 0);
    return buffer_length(b);
}

void table_end(struct buffer *b, size_t mark) { fill_length(b, mark); }

void add_table_entry(struct buffer *b, const char *key_and_value)
{
    const char *equals = strchr(key_and_value, '=');
    if (!equals || equals - key_and_value > SHORT_STRING_BYTES_MAX) die("not KEY=VALUE: %s", key_and_value);
    const char *value = equals + 1;
    char *end;
    long long number = strtoll(value, &end, 10);
    add8(b, (uint8_t)(equals - key_and_value));
    add_bytes(b, key_and_value, (size_t)(equals - key_and_value));
    if (*value && !*end) {
        add8(b, 'l');
        add64(b, (uint64_t)number);
    } else if (!strcmp(value, "true") || !strcmp(value, "false")) {
        add8(b, 't');
        add8(b, *value == 't');
    } else {
        add8(b, 'S');
        add_long_string(b, value);
    }
}
