/* Reads /proc/PID/{stat,statm,io}. A process that is gone counts as nothing. */
#include "process.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "options.h"

/* Opens /proc/PID/NAME; NULL if there is no such process. */
static FILE *open_proc(uint64_t pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%llu/%s", (unsigned long long)pid, name);
    return fopen(path, "r");
}

static double cpu_s(uint64_t pid)
{
    char line[1024];
    unsigned long user = 0, system = 0;
    FILE *file = open_proc(pid, "stat");
    if (!file) return 0;
    /* The command's name may contain anything, so the fields are counted from its closing bracket. */
    char *bracket = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    if (bracket) sscanf(bracket + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
    fclose(file);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static uint64_t rss_bytes(uint64_t pid)
{
    unsigned long long pages = 0;
    FILE *file = open_proc(pid, "statm");
    if (!file) return 0;
    if (fscanf(file, "%*u %llu", &pages) != 1) pages = 0;
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t written_bytes(uint64_t pid)
{
    char line[128];
    unsigned long long bytes = 0;
    FILE *file = open_proc(pid, "io");
    if (!file) return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "write_bytes: %llu", &bytes) == 1) break;
    fclose(file);
    return bytes;
}

struct use broker_use(void)
{
    struct use sum = {0, 0, 0};
    for (unsigned i = 0; i < options.pids; i++) {
        sum.cpu_s += cpu_s(options.pid[i]);
        sum.rss_bytes += rss_bytes(options.pid[i]);
        sum.written_bytes += written_bytes(options.pid[i]);
    }
    return sum;
}

double own_cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}
