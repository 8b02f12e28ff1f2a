/* errors.c - errors that differ only in numbers, as one group: what failed, how often, when. */
#include "web/scan.h"

#include <string.h>

#define ERRORS_GROUPS 200
#define ERRORS_IDS 10
#define ERRORS_MATCHES 1000 /* ids of one action */
#define ERRORS_LINE 200     /* bytes of a first line that are compared and shown */
/* Bytes of a first line that the redaction gets; browse.lua gives one more of a longer line. */
#define ERRORS_KEPT (ERRORS_LINE + SRT_WEB_UNSURE)
/* With a load_error a request ends its reading when it holds at least this number of errors, or of their bytes. */
#define ERRORS_LOADED 1000
#define ERRORS_LOADED_BYTES 4194304

typedef struct errors_group {
    uint64_t fingerprint;
    seriatim_text line; /* of the first that was seen; longer than ERRORS_KEPT: there was more of it */
    int64_t count, first, last;
    seriatim_text ids[ERRORS_IDS];
} errors_group;

/* An error as it was read, until the answer loads it. */
typedef struct errors_stored {
    struct errors_stored *next;
    seriatim_text id, error;
    int64_t when;
} errors_stored;

typedef struct errors_found {
    errors_group *groups;
    size_t count;
    int64_t rest; /* of groups beyond the last that is kept */
    /* Of an action: the ids of one fingerprint. */
    seriatim_text *ids;
    size_t id_count, id_most;
    /* With a load_error. */
    errors_stored *first, *last;
    size_t stored_count, stored_bytes;
} errors_found;

typedef int errors_taker(srt_web *w, srt_web_scan *scan, const srt_token *id, int64_t when, const srt_token *line);

/* ---- Fingerprints -------------------------------------------------------------------------- */

static int errors_is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int errors_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int errors_is_hex(char c)
{
    return errors_is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* A word of hex digits, some of them decimal, stands for a number. */
static int errors_is_number(const char *at, size_t len)
{
    size_t i = len > 2 && at[0] == '0' && (at[1] | 32) == 'x' ? 2 : 0, digits = 0, from = i;
    for (; i < len && errors_is_hex(at[i]); i++)
        digits += errors_is_digit(at[i]) ? 1 : 0;
    return i == len && (from == 2 || digits == len || (digits > 0 && len >= 4));
}

static uint64_t errors_mix(uint64_t hash, char c)
{
    return (hash ^ (unsigned char)c) * UINT64_C(1099511628211);
}

static uint64_t errors_mix_word(uint64_t hash, const char *at, size_t len)
{
    size_t i;
    if (errors_is_number(at, len))
        return errors_mix(hash, '#');
    for (i = 0; i < len; i++) {
        if (!errors_is_digit(at[i]))
            hash = errors_mix(hash, at[i]);
        else if (i == 0 || !errors_is_digit(at[i - 1]))
            hash = errors_mix(hash, '#');
    }
    return hash;
}

static uint64_t errors_fingerprint(const srt_token *line)
{
    const seriatim_text text = {line->data, line->len};
    const char *at = text.data;
    uint64_t hash = UINT64_C(14695981039346656037);
    size_t i = 0, from, len = srt_web_cut(text, ERRORS_LINE);
    while (i < len) {
        for (from = i; i < len && errors_is_word(at[i]); i++)
            ;
        if (i > from)
            hash = errors_mix_word(hash, at + from, i - from);
        else
            hash = errors_mix(hash, at[i++]);
    }
    return hash;
}

static void errors_hex(uint64_t fingerprint, char text[17])
{
    size_t i;
    for (i = 0; i < 16; i++)
        text[i] = "0123456789abcdef"[fingerprint >> (60 - 4 * i) & 15];
    text[16] = '\0';
}

int srt_web_error_is(seriatim_text fingerprint, const srt_token *line)
{
    char text[17];
    errors_hex(errors_fingerprint(line), text);
    return srt_web_word_is(fingerprint, text);
}

/* ---- Reading ------------------------------------------------------------------------------- */

static int errors_keep(srt_web *w, seriatim_text *text, const srt_token *token)
{
    text->data = srt_arena_copy(&w->memory, token->data, token->len);
    text->len = token->len;
    return text->data ? SERIATIM_OK : SERIATIM_NOMEM;
}

static errors_found *errors_found_of(srt_web *w, srt_web_scan *scan)
{
    errors_found *found = scan->groups;
    if (found)
        return found;
    found = srt_arena_alloc(&w->memory, sizeof *found);
    if (!found)
        return NULL;
    memset(found, 0, sizeof *found);
    found->groups = srt_arena_alloc(&w->memory, ERRORS_GROUPS * sizeof *found->groups);
    scan->groups = found->groups ? found : NULL;
    return scan->groups;
}

static int errors_take(srt_web *w, srt_web_scan *scan, const srt_token *id, int64_t when, const srt_token *line)
{
    errors_found *found = errors_found_of(w, scan);
    uint64_t fingerprint = errors_fingerprint(line);
    errors_group *group;
    size_t i;
    if (!found)
        return SERIATIM_NOMEM;
    for (i = 0; i < found->count && found->groups[i].fingerprint != fingerprint; i++)
        ;
    if (i == ERRORS_GROUPS) {
        found->rest++;
        return SERIATIM_OK;
    }
    group = &found->groups[i];
    if (i == found->count) {
        memset(group, 0, sizeof *group);
        group->fingerprint = fingerprint;
        group->first = group->last = when;
        if (errors_keep(w, &group->line, line) != SERIATIM_OK)
            return SERIATIM_NOMEM;
        found->count++;
    }
    if (group->count < ERRORS_IDS && errors_keep(w, &group->ids[group->count], id) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    group->count++;
    group->first = when < group->first ? when : group->first;
    group->last = when > group->last ? when : group->last;
    return SERIATIM_OK;
}

/* ---- With a load_error: whole errors are read, and taken when the answer has loaded them ----- */

static int errors_store(srt_web *w, srt_web_scan *scan, const srt_token *id, int64_t when, const srt_token *error)
{
    errors_found *found = errors_found_of(w, scan);
    errors_stored *stored = srt_arena_alloc(&w->memory, sizeof *stored);
    if (!found || !stored)
        return SERIATIM_NOMEM;
    memset(stored, 0, sizeof *stored);
    stored->when = when;
    if (errors_keep(w, &stored->id, id) != SERIATIM_OK || errors_keep(w, &stored->error, error) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    if (found->last)
        found->last->next = stored;
    else
        found->first = stored;
    found->last = stored;
    found->stored_bytes += error->len;
    scan->enough = ++found->stored_count >= ERRORS_LOADED || found->stored_bytes >= ERRORS_LOADED_BYTES;
    return SERIATIM_OK;
}

static size_t errors_line_of(seriatim_text text)
{
    size_t len;
    for (len = 0; len <= ERRORS_KEPT && len < text.len && text.data[len] != '\n' && text.data[len] != '\r'; len++)
        ;
    return len;
}

static int errors_load_one(srt_web *w, const errors_stored *stored, errors_taker *take)
{
    seriatim_text text = srt_web_load(w->hooks, stored->error);
    srt_token id = {SRT_STRING, 0, stored->id.data, stored->id.len}, line = {SRT_STRING, 0, text.data, 0};
    if (!text.data)
        return srt_web_refuse(w, 500, "load_error ended without a text");
    line.len = errors_line_of(text);
    return take(w, w->found, &id, stored->when, &line);
}

/* Takes what was read, if there is a load_error. DONE, LOADS or NOMEM. */
static int errors_load(srt_web *w, errors_taker *take)
{
    const srt_web_scan *scan = w->found;
    errors_found *found = scan->groups;
    const errors_stored *stored;
    int status = SERIATIM_OK;
    if (w->status || !found || !found->first)
        return SRT_WEB_DONE;
    if (!w->hooks)
        return SRT_WEB_LOADS;
    for (stored = found->first; stored && status == SERIATIM_OK; stored = stored->next)
        status = errors_load_one(w, stored, take);
    return status == SERIATIM_NOMEM ? status : SRT_WEB_DONE;
}

void srt_web_errors_hold(srt_web_scan *scan)
{
    scan->take = errors_store;
}

static int errors_choose(srt_web *w, srt_web_scan *scan, const srt_token *id, int64_t when, const srt_token *line)
{
    srt_target item = {NULL, 0, 0, 0};
    (void)w;
    if (!srt_web_error_is(scan->error, line))
        return SERIATIM_OK;
    item.id = id->data;
    item.len = id->len;
    item.key = scan->by_id ? 0 : when;
    scan->items[scan->count++] = item;
    return SERIATIM_OK;
}

int srt_web_errors_choose(srt_web *w)
{
    srt_web_scan *scan = w->found;
    const errors_found *found = scan->groups;
    int status;
    if (!found || !w->hooks)
        return found ? SRT_WEB_LOADS : SRT_WEB_DONE;
    scan->count = 0;
    scan->items = srt_arena_alloc(&w->memory, found->stored_count * sizeof *scan->items);
    if (!scan->items)
        return SERIATIM_NOMEM;
    status = errors_load(w, errors_choose);
    if (status != SRT_WEB_DONE || w->status)
        return status;
    return srt_web_scan_choose(w, scan) == SERIATIM_OK ? SRT_WEB_DONE : SERIATIM_NOMEM;
}

/* acts: an action reads all ids, shard by shard; else without a cursor some ids of every shard are read. */
static int errors_read(srt_web *w, const char *part, seriatim_text cursor, int acts, errors_taker *take)
{
    srt_web_scan *scan = srt_web_scan_new(w, w->loads_errors ? SRT_SCAN_WHOLE : SRT_SCAN_ERRORS);
    if (!scan)
        return SERIATIM_NOMEM;
    scan->stages[0] = part;
    scan->stage_count = 1;
    scan->take = w->loads_errors ? errors_store : take;
    scan->spread = !acts;
    scan->acts = acts;
    scan->bounds = acts && strcmp(part, "dead") == 0; /* other numbers are of the next run */
    if (w->loads_errors)
        scan->most = ERRORS_LOADED;
    return srt_web_scan_cursor(w, scan, cursor);
}

int srt_web_errors_next(seriatim_client *c, srt_web *w)
{
    seriatim_text part = srt_web_param_of(w, "part");
    int retrying = srt_web_word_is(part, "retrying"), status;
    if (w->step == 0) {
        if (part.data && !retrying && !srt_web_word_is(part, "dead"))
            return srt_web_refuse(w, 400, "part must be dead or retrying");
        status = errors_read(w, retrying ? "retrying" : "dead", srt_web_param_of(w, "cursor"), 0, errors_take);
        if (status != SERIATIM_OK)
            return status;
    }
    status = srt_web_on_queue(c, w, srt_web_scan_begin);
    return status == SRT_WEB_DONE ? errors_load(w, errors_take) : status;
}

/* ---- The groups ---------------------------------------------------------------------------- */

static void errors_write_line(const srt_web *w, seriatim_text line, srt_web_out *out)
{
    static const seriatim_text nobody = {"", 0};
    out->most = ERRORS_LINE;
    if (line.len > ERRORS_KEPT) {
        line.len = srt_web_cut(line, ERRORS_KEPT);
        srt_web_beginning(out, "error", w->worker, nobody, line);
    } else {
        srt_web_shown(out, "error", w->worker, nobody, line.data, line.len);
    }
    out->most = 0;
}

static void errors_write_group(srt_web *w, const errors_group *group, srt_web_out *out)
{
    char text[17];
    size_t i;
    errors_hex(group->fingerprint, text);
    srt_json_begin_object(&out->json);
    srt_web_int(out, "count", group->count);
    errors_write_line(w, group->line, out);
    srt_web_chars(out, "fingerprint", text);
    srt_web_double(out, "first", (double)group->first / 1e6);
    srt_web_key(out, "ids");
    srt_json_begin_array(&out->json);
    for (i = 0; i < ERRORS_IDS && (int64_t)i < group->count; i++)
        srt_web_text(out, NULL, group->ids[i].data, group->ids[i].len);
    srt_json_end_array(&out->json);
    srt_web_double(out, "last", (double)group->last / 1e6);
    srt_json_end_object(&out->json);
}

static errors_group *errors_largest(errors_found *found)
{
    errors_group *best = NULL;
    size_t i;
    for (i = 0; i < found->count; i++)
        if (found->groups[i].count > 0 && (!best || found->groups[i].count > best->count))
            best = &found->groups[i];
    return best;
}

void srt_web_write_seen(const srt_web_scan *scan, srt_web_out *out)
{
    if (scan->next.data)
        srt_web_text(out, "cursor", scan->next.data, scan->next.len);
    else
        srt_web_null(out, "cursor");
    srt_web_int(out, "of", scan->total);
    srt_web_int(out, "seen", scan->seen);
}

void srt_web_write_sample(const srt_web_scan *scan, srt_web_out *out)
{
    srt_web_bool(out, "sample", scan->sample);
    srt_web_write_seen(scan, out);
}

void srt_web_errors_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    srt_web_scan *scan = w->found;
    errors_found *found = scan->groups;
    int64_t counts[ERRORS_GROUPS];
    size_t i;
    errors_group *group;
    (void)c;
    srt_json_begin_object(&out->json);
    srt_web_key(out, "groups");
    srt_json_begin_array(&out->json);
    for (i = 0; found && i < found->count; i++)
        counts[i] = found->groups[i].count;
    while (found && (group = errors_largest(found))) {
        errors_write_group(w, group, out);
        group->count = 0;
    }
    for (i = 0; found && i < found->count; i++) /* so that the answer can be written again */
        found->groups[i].count = counts[i];
    srt_json_end_array(&out->json);
    srt_web_int(out, "rest", found ? found->rest : 0);
    srt_web_write_sample(scan, out);
    srt_json_end_object(&out->json);
}

/* ---- An action on one group ---------------------------------------------------------------- */

static int errors_match(srt_web *w, srt_web_scan *scan, const srt_token *id, int64_t when, const srt_token *line)
{
    errors_found *found = errors_found_of(w, scan);
    (void)when;
    if (!found)
        return SERIATIM_NOMEM;
    if (!srt_web_error_is(w->word, line))
        return SERIATIM_OK;
    if (!found->ids) {
        found->id_most = found->stored_count ? found->stored_count : ERRORS_MATCHES;
        found->ids = srt_arena_alloc(&w->memory, found->id_most * sizeof *found->ids);
        if (!found->ids)
            return SERIATIM_NOMEM;
    }
    if (found->id_count == found->id_most) {
        scan->full = 1;
        return SERIATIM_OK;
    }
    return errors_keep(w, &found->ids[found->id_count++], id);
}

static int errors_act(seriatim_client *c, srt_web *w)
{
    const srt_web_scan *scan = w->found;
    const errors_found *found = scan->groups;
    w->is_changing = 1;
    return seriatim_action_begin(c, w->queue, w->handler->number, found->ids, found->id_count);
}

int srt_web_group_next(seriatim_client *c, srt_web *w)
{
    const srt_web_scan *scan = w->found;
    int status;
    if (w->step == 0) {
        if (w->has_ids)
            return srt_web_refuse(w, 400, "this action takes no ids");
        status = errors_read(w, w->handler->flag ? "retrying" : "dead", w->cursor, 1, errors_match);
        if (status != SERIATIM_OK)
            return status;
    }
    if (w->step <= 1)
        return srt_web_on_queue(c, w, srt_web_scan_begin);
    status = w->step == 2 ? errors_load(w, errors_match) : SRT_WEB_DONE;
    if (status != SRT_WEB_DONE || w->status)
        return status;
    if (w->step > 2 || !scan->groups || ((const errors_found *)scan->groups)->id_count == 0)
        return srt_web_done(w, seriatim_action_result(c));
    return errors_act(c, w);
}

void srt_web_group_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    const srt_web_scan *scan = w->found;
    (void)c;
    srt_json_begin_object(&out->json);
    srt_web_int(out, "count", w->count);
    srt_web_write_cursor(out, scan->next);
    srt_json_end_object(&out->json);
}
