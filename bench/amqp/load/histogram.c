/* Reading and joining histograms; adding to one is in the header, because it is done for every message. */
#include "histogram.h"

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    for (unsigned i = 0; i < CELLS; i++) into->cells[i] += from->cells[i];
    into->count += from->count;
    into->sum += from->sum;
    if (from->max > into->max) into->max = from->max;
}

/* The middle of a cell. */
static uint64_t cell_value(unsigned cell)
{
    unsigned group = cell >> STEP_BITS, step = cell & ((1u << STEP_BITS) - 1);
    if (!group) return step;
    uint64_t width = (uint64_t)1 << (group - 1);
    return (step | (1u << STEP_BITS)) * width + width / 2;
}

double histogram_share_ms(const struct histogram *h, double share)
{
    uint64_t wanted = (uint64_t)(share * (double)h->count + 0.5), seen = 0;
    if (wanted < 1) wanted = 1;
    for (unsigned cell = 0; cell < CELLS; cell++) {
        seen += h->cells[cell];
        if (seen < wanted) continue;
        uint64_t value = cell_value(cell);
        return (double)(value > h->max ? h->max : value) / 1e6;
    }
    return (double)h->max / 1e6;
}
