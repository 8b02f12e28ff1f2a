/* act.c - an operator's action on a queue: as a whole, or a slice of it with a cursor for the next slice. */
#include "web/web.h"

#include <string.h>

/* ---- Cursors: GENERATION.SHARD.TOTAL.BOUND.BEGAN.HEX, where HEX is the script's own cursor --- */

/* Digits up to the next dot or the end, which *at is moved behind. 0: that is no number. */
static int act_number(const char **at, const char *end, int64_t *value)
{
    const char *begin = *at;
    for (*value = 0; *at < end && **at >= '0' && **at <= '9' && *at - begin < 18; ++*at)
        *value = *value * 10 + (**at - '0');
    return *at > begin && *at < end && *(*at)++ == '.';
}

static int act_hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* OK, INVALID or NOMEM. */
static int act_unhex(srt_web *w, const char *at, const char *end, seriatim_text *text)
{
    size_t len = (size_t)(end - at) / 2, i;
    char *out = srt_arena_alloc(&w->memory, len + 1);
    if (!out)
        return SERIATIM_NOMEM;
    for (i = 0; i < len; i++) {
        int high = act_hex(at[2 * i]), low = act_hex(at[2 * i + 1]);
        if (high < 0 || low < 0)
            return SERIATIM_INVALID;
        out[i] = (char)(high * 16 + low);
    }
    text->data = out;
    text->len = len;
    return (end - at) % 2 ? SERIATIM_INVALID : SERIATIM_OK;
}

/* Where the slice begins; w->total is what the slices before it did. OK, INVALID or NOMEM. */
static int act_read_place(srt_web *w, srt_action_place *place)
{
    const char *at = w->cursor.data, *end = at ? at + w->cursor.len : at, *began;
    int64_t shard, number;
    memset(place, 0, sizeof *place);
    place->began.data = place->cursor.data = "";
    if (!at || w->cursor.len == 0)
        return SERIATIM_OK;
    if (!act_number(&at, end, &place->generation) || !act_number(&at, end, &shard) || shard > 1000000 ||
        !act_number(&at, end, &w->total) || !act_number(&at, end, &place->bound))
        return SERIATIM_INVALID;
    place->shard = (unsigned)shard;
    began = at;
    if (at < end && *at != '.' && !act_number(&at, end, &number))
        return SERIATIM_INVALID;
    place->began.data = began;
    place->began.len = at == began ? 0 : (size_t)(at - began - 1);
    at += at == began && at < end;
    return act_unhex(w, at, end, &place->cursor);
}

/* Into the request's memory; data NULL: out of memory. */
static seriatim_text act_write_place(srt_web *w, const srt_action_place *place)
{
    static const char digits[] = "0123456789abcdef";
    seriatim_text cursor = {NULL, 0};
    srt_bytes text;
    size_t i;
    srt_bytes_init(&text, w->mem);
    srt_bytes_add_int(&text, place->generation);
    srt_bytes_addc(&text, '.');
    srt_bytes_add_int(&text, place->shard);
    srt_bytes_addc(&text, '.');
    srt_bytes_add_int(&text, w->total);
    srt_bytes_addc(&text, '.');
    srt_bytes_add_int(&text, place->bound);
    srt_bytes_addc(&text, '.');
    srt_bytes_add(&text, place->began.data, place->began.len);
    srt_bytes_addc(&text, '.');
    for (i = 0; i < place->cursor.len; i++) {
        srt_bytes_addc(&text, digits[(unsigned char)place->cursor.data[i] >> 4]);
        srt_bytes_addc(&text, digits[(unsigned char)place->cursor.data[i] & 15]);
    }
    if (!text.failed)
        cursor.data = srt_arena_copy(&w->memory, text.data, text.len);
    cursor.len = text.len;
    srt_bytes_free(&text);
    return cursor;
}

/* ---- Actions ------------------------------------------------------------------------------- */

static int act_begin(seriatim_client *c, srt_web *w)
{
    srt_action_place place;
    int status;
    if (!w->is_slice) {
        w->is_changing = 1;
        return seriatim_action_begin(c, w->queue, w->handler->number, w->ids, w->id_count);
    }
    status = act_read_place(w, &place);
    if (status == SERIATIM_INVALID)
        return srt_web_refuse(w, 400, "cursor must be one that this action returned");
    if (status != SERIATIM_OK)
        return status;
    w->is_changing = 1;
    return srt_action_slice_begin(c, w->queue, w->handler->number, &place);
}

/* What the slice did, and where the next one goes on. */
static int act_take_slice(seriatim_client *c, srt_web *w)
{
    const seriatim_text none = {NULL, 0};
    srt_action_place place;
    w->total += seriatim_action_result(c);
    w->cursor = none;
    if (!srt_action_slice_more(c, &place))
        return SRT_WEB_DONE;
    w->cursor = act_write_place(w, &place);
    return w->cursor.data ? SRT_WEB_DONE : SERIATIM_NOMEM;
}

int srt_web_act_next(seriatim_client *c, srt_web *w)
{
    int kind = w->handler->number, wants = srt_action_takes_ids(kind), status;
    if (w->step == 0 && wants != w->has_ids)
        return srt_web_refuse(w, 400, wants ? "ids are missing" : "this action takes no ids");
    w->is_slice = (w->is_slice || w->cursor.data) && srt_action_is_whole(kind);
    status = srt_web_on_queue(c, w, act_begin);
    if (status != SRT_WEB_DONE || w->status)
        return status;
    if (w->is_slice && act_take_slice(c, w) == SERIATIM_NOMEM)
        return SERIATIM_NOMEM;
    return srt_web_done(w, seriatim_action_result(c));
}

static int act_begin_drop(seriatim_client *c, srt_web *w)
{
    w->is_changing = 1;
    return srt_drop_begin(c, w->queue, w->handler->number, w->id, w->key);
}

int srt_web_drop_next(seriatim_client *c, srt_web *w)
{
    int status;
    if (!w->id.data || !w->key.data)
        return srt_web_refuse(w, 400, "an id and the key of one of its payloads are missing");
    status = srt_web_on_queue(c, w, act_begin_drop);
    return status == SRT_WEB_DONE ? srt_web_done(w, seriatim_action_result(c)) : status;
}

static int act_begin_shards(seriatim_client *c, srt_web *w)
{
    w->is_changing = 1;
    return seriatim_action_begin(c, w->queue, w->handler->number, &w->shards, 1);
}

int srt_web_shards_next(seriatim_client *c, srt_web *w)
{
    int status;
    if (!w->shards.data)
        return srt_web_refuse(w, 400, "shards is missing: a whole number");
    status = srt_web_on_queue(c, w, act_begin_shards);
    return status == SRT_WEB_DONE && !w->status ? srt_web_done(w, seriatim_action_result(c)) : status;
}

void srt_web_count_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    (void)c;
    srt_json_begin_object(&out->json);
    srt_web_int(out, "count", w->count);
    if (w->is_slice) {
        srt_web_write_cursor(out, w->cursor);
        srt_web_int(out, "total", w->total);
    }
    srt_json_end_object(&out->json);
}
