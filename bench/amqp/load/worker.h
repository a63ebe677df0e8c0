/* The thread that does everything on the connections of a run. */
#ifndef WORKER_H
#define WORKER_H

#include <stdbool.h>

#include "connection.h"

struct worker { struct connection **connections; unsigned count; };

/* The thread's function; ends when the run fails, or when it is told to stop and all connections are finished. */
void *worker_run(void *worker);

bool all_finished(const struct worker *worker);

#endif
