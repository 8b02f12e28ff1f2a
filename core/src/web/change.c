/*
 * change.c - the audit: what a request asked to change and what came of it, as data for the host and as a line of a
 * log.
 */
#include "base/printable.h"
#include "web/web.h"

#include <string.h>

#define CHANGE_IDS 10  /* that a line names */
#define CHANGE_CUT 200 /* bytes of a text that a line has */

/* ---- A line ---------------------------------------------------------------------------------- */

static void change_add_text(srt_bytes *line, const char *text, size_t len)
{
    size_t at = 0, written;
    char shown[SRT_PRINTABLE_MOST];
    while (at < len && at < CHANGE_CUT) {
        if (text[at] == '"' || text[at] == '\\')
            srt_bytes_addc(line, '\\');
        at += srt_printable_next(text + at, len - at, shown, &written);
        srt_bytes_add(line, shown, written);
    }
    if (at < len)
        srt_bytes_adds(line, "...");
}

static void change_add_quoted(srt_bytes *line, const char *before, seriatim_text text)
{
    srt_bytes_adds(line, before);
    srt_bytes_addc(line, '"');
    change_add_text(line, text.data, text.len);
    srt_bytes_addc(line, '"');
}

static void change_add_ids(srt_bytes *line, const seriatim_web_change *change)
{
    size_t i;
    for (i = 0; i < change->id_count && i < CHANGE_IDS; i++)
        change_add_quoted(line, i ? ", " : change->id_count == 1 ? ", id " : ", ids ", change->ids[i]);
    if (i < change->id_count) {
        srt_bytes_adds(line, " and ");
        srt_bytes_add_int(line, (int64_t)(change->id_count - i));
        srt_bytes_adds(line, " more");
    }
}

static void change_add_outcome(srt_bytes *line, const seriatim_web_change *change)
{
    if (change->count >= 0) {
        srt_bytes_adds(line, "count ");
        srt_bytes_add_int(line, change->count);
    } else if (change->status) {
        srt_bytes_add_int(line, change->status);
        srt_bytes_addc(line, ' ');
        change_add_text(line, change->error, strlen(change->error));
    } else {
        srt_bytes_adds(line, "broken off, so its outcome is not known");
    }
}

static void change_write_line(srt_bytes *line, const seriatim_web_change *change)
{
    srt_bytes_adds(line, change->action);
    srt_bytes_adds(line, " by ");
    srt_bytes_adds(line, change->role);
    change_add_quoted(line, change->node.data ? ": node " : ": queue ",
                      change->node.data ? change->node : change->queue);
    if (change->fingerprint.data)
        change_add_quoted(line, ", errors ", change->fingerprint);
    if (change->shards.data)
        change_add_quoted(line, ", shards ", change->shards);
    change_add_ids(line, change);
    srt_bytes_adds(line, ": ");
    change_add_outcome(line, change);
}

/* ---- The change ------------------------------------------------------------------------------ */

static void change_take_names(srt_web *w, seriatim_web_change *change)
{
    if (strstr(w->route->pattern, "/:node/"))
        change->node = w->worker;
    else
        change->queue = w->worker;
    change->fingerprint = w->word;
    change->shards = w->shards;
    change->ids = w->ids;
    change->id_count = w->id_count;
}

const seriatim_web_change *seriatim_web_change_of(seriatim_client *c)
{
    static const seriatim_text no_line = {"", 0};
    srt_web *w = c->web;
    seriatim_web_change *change;
    if (!w || !w->route || !w->route->action)
        return NULL;
    change = &w->change;
    memset(change, 0, sizeof *change);
    change->action = w->route->action;
    change->role = srt_web_role_word(w->role);
    change->status = w->status;
    change->error = w->status && w->status != 200 ? w->error : "";
    change->count = w->count;
    change_take_names(w, change);
    srt_bytes_clear(&w->line);
    change_write_line(&w->line, change);
    change->line = no_line;
    if (!w->line.failed) {
        change->line.data = w->line.data;
        change->line.len = w->line.len;
    }
    return change;
}
