/* What --mode selects; each prints its line and gives the exit status. */
#ifndef MODES_H
#define MODES_H

int run_traffic(void);
int run_declare(void);
int run_connections(void);

#endif
