/* A histogram of nanoseconds: 128 equal steps within each power of two, so the error stays under 0.8 %. */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdint.h>

#define STEP_BITS 7
#define CELLS ((64 - STEP_BITS + 1) << STEP_BITS)

struct histogram { uint64_t count, sum, max; uint32_t cells[CELLS]; };

static inline unsigned histogram_cell(uint64_t value)
{
    if (value < (1u << STEP_BITS)) return (unsigned)value;
    unsigned exponent = 63u - (unsigned)__builtin_clzll(value);
    unsigned step = (unsigned)(value >> (exponent - STEP_BITS)) & ((1u << STEP_BITS) - 1);
    return ((exponent - STEP_BITS + 1) << STEP_BITS) + step;
}

static inline void histogram_add(struct histogram *h, uint64_t value)
{
    h->cells[histogram_cell(value)]++;
    h->count++;
    h->sum += value;
    if (value > h->max) h->max = value;
}

void histogram_merge(struct histogram *into, const struct histogram *from);

/* The value below which the share of all values lies, in milliseconds. */
double histogram_share_ms(const struct histogram *h, double share);

#endif
