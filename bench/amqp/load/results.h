/* The line of JSON that a run prints, piece by piece; and the figures that runs of every mode have. */
#ifndef RESULTS_H
#define RESULTS_H

#include "histogram.h"
#include "process.h"

/* A moment of the run: what happened between two of them is the result. */
struct moment { uint64_t at_ns; double own_cpu_s; struct use broker; };

struct moment moment_now(void);

void results_begin(void);
void results_number(const char *name, double value);
void results_histogram(const char *name, const struct histogram *h);
/* CPU of both sides for each of so many things, and the broker's memory. */
void results_cost(const struct moment *from, const struct moment *to, uint64_t count);
/* Ends the line; gives the exit status. */
int results_end(void);

#endif
