/* Prints the result. */
#include "results.h"

#include <stdio.h>

#include "options.h"
#include "run.h"

struct moment moment_now(void)
{
    return (struct moment){.at_ns = now_ns(), .own_cpu_s = own_cpu_s(), .broker = broker_use()};
}

void results_begin(void) { printf("{\"mode\": \"%s\"", mode_names[options.mode]); }

void results_number(const char *name, double value)
{
    if (value == (double)(long long)value) printf(", \"%s\": %lld", name, (long long)value);
    else printf(", \"%s\": %.4f", name, value);
}

void results_histogram(const char *name, const struct histogram *h)
{
    if (!h->count) return;
    printf(", \"%s\": {\"count\": %llu, \"mean\": %.3f, \"p50\": %.3f, \"p90\": %.3f, \"p99\": %.3f, \"p999\": %.3f, "
           "\"max\": %.3f}",
           name, (unsigned long long)h->count, (double)h->sum / (double)h->count / 1e6, histogram_share_ms(h, .5),
           histogram_share_ms(h, .9), histogram_share_ms(h, .99), histogram_share_ms(h, .999), (double)h->max / 1e6);
}

void results_cost(const struct moment *from, const struct moment *to, uint64_t count)
{
    double each = count ? (double)count : 1, seconds = (double)(to->at_ns - from->at_ns) / 1e9;
    results_number("client_cpu_us", (to->own_cpu_s - from->own_cpu_s) * 1e6 / each);
    if (!options.pids) return;
    double cpu_s = to->broker.cpu_s - from->broker.cpu_s;
    results_number("broker_cpu_us", cpu_s * 1e6 / each);
    results_number("broker_cores", cpu_s / seconds);
    results_number("broker_written_bytes", (double)(to->broker.written_bytes - from->broker.written_bytes) / each);
    results_number("broker_rss_before_bytes", (double)from->broker.rss_bytes);
    results_number("broker_rss_bytes", (double)to->broker.rss_bytes);
}

int results_end(void)
{
    if (run.blocked) results_number("blocked", run.blocked);
    if (run.cancelled) results_number("cancelled", run.cancelled);
    if (run.interrupted && !run.error[0]) snprintf(run.error, sizeof run.error, "interrupted, or out of time");
    if (run.error[0]) {
        printf(", \"error\": \"");
        for (const char *p = run.error; *p; p++) putchar(*p == '"' || *p == '\\' || (unsigned char)*p < ' ' ? ' ' : *p);
        putchar('"');
    }
    puts("}");
    return run.error[0] ? 1 : 0;
}
