/* progress.c - one line on a terminal that says how far an operation is. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1 /* struct winsize */
#endif
#include "io/progress.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define PROGRESS_EVERY_MS 100
#define PROGRESS_RATE_MS 200 /* a rate of a shorter time says nothing */
#define PROGRESS_COLUMNS 80  /* of a terminal that does not say how wide it is */

/* ---- The text ------------------------------------------------------------------------------ */

/* Seconds as M:SS or H:MM:SS. */
static int progress_left(char *out, size_t cap, int64_t seconds)
{
    int minutes = (int)(seconds / 60 % 60), rest = (int)(seconds % 60);
    if (seconds >= 3600)
        return snprintf(out, cap, ", %lld:%02d:%02d left", (long long)(seconds / 3600), minutes, rest);
    return snprintf(out, cap, ", %d:%02d left", minutes, rest);
}

size_t srt_progress_text(char *line, const char *what, const srt_done *done, int64_t total, int64_t elapsed_ms)
{
    const size_t cap = SRT_PROGRESS_LINE; /* more than all parts together ever take */
    int is_known = total > 0 && total >= done->count;
    double rate = elapsed_ms >= PROGRESS_RATE_MS ? (double)done->count * 1000.0 / (double)elapsed_ms : 0;
    size_t len = (size_t)snprintf(line, cap, "%.*s: %lld", SRT_PROGRESS_WHAT, what, (long long)done->count);
    if (is_known)
        len += (size_t)snprintf(line + len, cap - len, " of %lld", (long long)total);
    len += (size_t)snprintf(line + len, cap - len, " %.20s", done->unit);
    if (is_known)
        len += (size_t)snprintf(line + len, cap - len, " (%d%%)", (int)((double)done->count * 100.0 / (double)total));
    if (rate > 0)
        len += (size_t)snprintf(line + len, cap - len, ", %.0f/s", rate);
    if (rate > 0 && is_known)
        len += (size_t)progress_left(line + len, cap - len, (int64_t)((double)(total - done->count) / rate));
    return len;
}

/* ---- The terminal -------------------------------------------------------------------------- */

static void progress_write(const srt_progress *p, const char *text, size_t len)
{
    while (len) {
        ssize_t n = write(p->fd, text, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        text += n;
        len -= (size_t)n;
    }
}

/* A line that fills the last column would be broken, and its first part never drawn over. Cuts no
 * character of UTF-8 in two. */
static size_t progress_cut(const srt_progress *p, const char *line, size_t len)
{
    struct winsize size;
    size_t columns = PROGRESS_COLUMNS;
    if (ioctl(p->fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        columns = size.ws_col;
    if (len < columns)
        return len;
    for (len = columns - 1; len > 0 && ((unsigned char)line[len] & 0xC0) == 0x80;)
        len--;
    return len;
}

/* Over what stands there: blanks instead of an escape sequence, which some terminals would show. */
static void progress_draw(srt_progress *p, const char *line, size_t len)
{
    char out[2 * SRT_PROGRESS_LINE + 2];
    size_t blanks = p->width > len ? p->width - len : 0;
    out[0] = '\r';
    memcpy(out + 1, line, len);
    memset(out + 1 + len, ' ', blanks);
    progress_write(p, out, 1 + len + blanks);
    p->width = len;
}

int srt_progress_begin(srt_progress *p, int fd, const char *what, size_t len, int64_t total)
{
    size_t shown;
    srt_progress_end(p);
    if (!isatty(fd))
        return 0;
    shown = seriatim_printable(what, len, p->what, sizeof p->what - 1);
    if (shown >= sizeof p->what)
        shown = (size_t)snprintf(p->what, sizeof p->what, "..."); /* too long to be read */
    p->what[shown] = '\0';
    p->on = 1;
    p->fd = fd;
    p->total = total;
    p->unit = NULL;
    return 1;
}

void srt_progress_show(srt_progress *p, const srt_done *done, int64_t now_ms)
{
    char line[SRT_PROGRESS_LINE];
    size_t len;
    if (p->unit != done->unit) {
        p->total = p->unit ? -1 : p->total;
        p->unit = done->unit;
        p->began_ms = now_ms;
    }
    if (p->drawn_ms && now_ms - p->drawn_ms < PROGRESS_EVERY_MS)
        return;
    p->drawn_ms = now_ms;
    len = srt_progress_text(line, p->what, done, p->total, now_ms - p->began_ms);
    progress_draw(p, line, progress_cut(p, line, len));
}

void srt_progress_end(srt_progress *p)
{
    if (p->width) {
        progress_draw(p, "", 0);
        progress_write(p, "\r", 1);
    }
    p->width = 0;
    p->on = 0;
}
