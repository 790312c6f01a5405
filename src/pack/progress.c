/* Progress of long jobs: see progress.h. */
#include "pack/progress.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/os.h"
#include "base/units.h"

#define BAR_INTERVAL_NS  100000000u
#define LINE_INTERVAL_NS 10000000000u
enum { BAR_CELLS_MAX = 40, LINE_BYTES = 256, STDERR = 2 };

void progress_start(struct progress *p, const char *label, uint64_t total)
{
    *p = (struct progress){.label = label, .total = total, .start_ns = clock_ns()};
    p->terminal = os_is_terminal(STDERR);
    atomic_init(&p->done, 0);
    atomic_init(&p->due_ns, total ? p->start_ns + (p->terminal ? BAR_INTERVAL_NS : LINE_INTERVAL_NS)
                                  : UINT64_MAX);
}

void progress_silence(struct progress *p)
{
    atomic_store(&p->due_ns, UINT64_MAX);
    p->terminal = false;
}

static void print(const struct progress *p, uint64_t now)
{
    char line[LINE_BYTES];
    double seconds = (double)(now - p->start_ns) * 1e-9;
    if (!p->terminal) {
        progress_line(p, seconds, 0, line, sizeof line);
        log_say(LOG_INFO, "%s", line);
        return;
    }
    progress_line(p, seconds, os_terminal_width(STDERR), line, sizeof line);
    fprintf(stderr, "\r%s\033[K", line);
    fflush(stderr);
}

void progress_add(struct progress *p, uint64_t bytes)
{
    atomic_fetch_add(&p->done, bytes);
    uint_fast64_t due = atomic_load(&p->due_ns);
    uint64_t now = clock_ns();
    if (now < due || !atomic_compare_exchange_strong(&p->due_ns, &due, UINT64_MAX))
        return;
    print(p, now);
    atomic_store(&p->due_ns, now + (p->terminal ? BAR_INTERVAL_NS : LINE_INTERVAL_NS));
}

double progress_end(struct progress *p)
{
    if (p->terminal) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
    }
    return clock_seconds_since(p->start_ns);
}

static void bar(char *room, int cells, double share)
{
    int full = (int)(share * cells + 0.5);
    room[0] = '[';
    memset(room + 1, '#', (size_t)full);
    memset(room + 1 + full, '.', (size_t)(cells - full));
    memcpy(room + 1 + cells, "] ", 3);
}

void progress_line(const struct progress *p, double seconds, int width, char *room, int room_bytes)
{
    char done[UNITS_ROOM], total[UNITS_ROOM], rate[UNITS_ROOM], left[UNITS_ROOM];
    char cells[BAR_CELLS_MAX + 4] = "", text[LINE_BYTES];
    uint64_t n = atomic_load(&((struct progress *)(uintptr_t)p)->done);
    double share = p->total ? (double)n / (double)p->total : 0;
    double per_second = seconds > 0 ? (double)n / seconds : 0;
    share = share > 1 ? 1 : share;
    int len = snprintf(text, sizeof text, "%3d%% %s of %s, %s/s", (int)(share * 100),
                       units_bytes(done, n), units_bytes(total, p->total),
                       units_bytes(rate, (uint64_t)per_second));
    if (per_second > 0 && n < p->total)
        len += snprintf(text + len, sizeof text - (size_t)len, ", %s left",
                        units_seconds(left, (double)(p->total - n) / per_second));
    int free_columns = width - (int)strlen(p->label) - len - 6;
    if (free_columns >= 8)
        bar(cells, free_columns < BAR_CELLS_MAX ? free_columns : BAR_CELLS_MAX, share);
    snprintf(room, (size_t)room_bytes, "%s: %s%s", p->label, cells, text);
}
