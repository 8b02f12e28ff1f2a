/* scan.c - reads ids by what no index holds, for a bounded time. A cursor says where the next request goes on. */
#include "web/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCAN_SPARE 4096 /* ids beyond the limit before they are cut */

/* How long what was read is read again for its next page: until the same place, which takes longer only rarely. */
#define SCAN_AGAIN_US ((int64_t)5 * SRT_WEB_READING_US)

enum { SCAN_TOTAL, SCAN_SLICE, SCAN_BATCH };

static const srt_web_place scan_beginning = {0, "0"};

/* What a look at all shards reads of one position, a stage of a shard. */
typedef struct scan_share {
    int64_t total;   /* ids of the part there, */
    int64_t size;    /* and all ids among which they lie: parked ones, say */
    int64_t left;    /* ids to read; 0: nothing more */
    unsigned rounds; /* ends of the hash that may be met: 1 if it is read from its beginning, 2 if from anywhere */
    char cursor[24]; /* of HSCAN */
} scan_share;

typedef struct scan_state {
    srt_web_scan *scan;
    srt_web *w;
    srt_queue *queue;
    srt_arena memory; /* the ids' bytes */
    srt_target *items;
    size_t count, cap, open;
    int over;           /* more were found than are kept */
    scan_share *shares; /* of each position; NULL unless all shards are looked at */
    size_t shares_cap;
    uint64_t seed;      /* of the places from which a look at all shards reads */
    int64_t began_us;   /* 0: no slice was read yet */
    srt_web_place here; /* of the slice that was asked for last */
    /* Of an action while ids move: */
    srt_batches batches; /* those that were open behind the first pass */
    int is_settled;      /* these have ended */
    unsigned looks;
} scan_state;

/* ---- Asking -------------------------------------------------------------------------------- */

static unsigned scan_positions(const scan_state *s)
{
    return srt_queue_addressed(s->queue) * s->scan->stage_count;
}

/* An action reads all positions a second time while ids move: an id may have moved to a shard that was read before. */
static unsigned scan_steps(const scan_state *s)
{
    return scan_positions(s) * (s->scan->acts && s->queue->old_count ? 2 : 1);
}

static int scan_ask(seriatim_client *c, scan_state *s, unsigned position, const char *cursor, int64_t count, int kind)
{
    static const char *const words[] = {"ids", "due", "hot", "errors", "whole"};
    const srt_web_scan *scan = s->scan;
    srt_request *r =
        srt_client_shard_request(c, s->queue, position % scan_positions(s) / scan->stage_count, srt_script_browse);
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_text(r, scan->stages[position % scan->stage_count]);
    srt_request_text(r, cursor);
    srt_request_int(r, count);
    srt_request_text(r, words[scan->what]);
    srt_request_arg(r, scan->prefix.data ? scan->prefix.data : "", scan->prefix.len);
    r->kind = kind;
    r->place = position;
    return srt_client_send(c, r);
}

static int scan_ask_slice(seriatim_client *c, scan_state *s)
{
    if (s->scan->place.position == scan_positions(s) && strcmp(s->scan->place.cursor, "0") == 0 && !s->is_settled)
        return srt_batches_begin(c, &s->batches, s->queue, SCAN_BATCH);
    s->here = s->scan->place;
    return scan_ask(c, s, s->scan->place.position, s->scan->place.cursor, s->scan->slice, SCAN_SLICE);
}

/* ---- A look at all shards ------------------------------------------------------------------ */

/* Splitmix64: the places from which a look reads follow from the moment at which it begins. */
static uint64_t scan_random(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* All of a queue with few ids; of another one a part of each position, from a place of the hash that is another in each
   look. HSCAN takes any number for a cursor, because it may have given it while the hash was larger. */
static void scan_share_out(scan_state *s, scan_share *share)
{
    const int64_t total = s->scan->total;
    double part;
    share->left = share->total;
    share->rounds = 1;
    snprintf(share->cursor, sizeof share->cursor, "0");
    if (total <= s->scan->most || share->total < 1)
        return;
    part = (double)share->total / (double)total;
    share->left = 1 + (int64_t)((part < 1 ? part : 1) * (double)s->scan->most);
    share->rounds = 2;
    snprintf(share->cursor, sizeof share->cursor, "%lu", (unsigned long)(scan_random(&s->seed) & 0xffffffff));
}

/* How many ids a call looks at to find those that a sample still wants of a position. */
static int64_t scan_share_slice(const scan_state *s, const scan_share *share)
{
    const double wanted = (double)share->left * (double)share->size / (double)share->total;
    return s->scan->sample && wanted < (double)s->scan->slice ? 1 + (int64_t)wanted : s->scan->slice;
}

/* A slice of a position from the present one on of which something is left to read. None: the look has ended. */
static int scan_ask_share(seriatim_client *c, scan_state *s)
{
    const unsigned positions = scan_positions(s);
    unsigned i;
    for (i = 0; i < positions; i++) {
        unsigned at = (s->scan->place.position + i) % positions;
        const scan_share *share = &s->shares[at];
        if (share->left > 0) {
            s->scan->place.position = at;
            return scan_ask(c, s, at, share->cursor, scan_share_slice(s, share), SCAN_SLICE);
        }
    }
    return SERIATIM_OK;
}

/* The time may end before every position had its turn, so a look takes them as they come by chance. */
static int scan_begin_shares(seriatim_client *c, scan_state *s)
{
    const unsigned positions = scan_positions(s);
    unsigned i;
    s->seed = (uint64_t)s->scan->now_us;
    s->scan->place.position = (unsigned)(scan_random(&s->seed) % positions);
    s->scan->sample = s->scan->total > s->scan->most;
    for (i = 0; i < positions; i++)
        scan_share_out(s, &s->shares[i]);
    return scan_ask_share(c, s);
}

/* Notes what a slice read of its position, and goes to the next one. */
static void scan_take_share(scan_state *s, const srt_token *cursor, int64_t looked)
{
    scan_share *share = &s->shares[s->scan->place.position];
    snprintf(share->cursor, sizeof share->cursor, "%.20s", cursor->type == SRT_STRING ? cursor->data : "0");
    if (strcmp(share->cursor, "0") == 0)
        share->rounds--;
    share->left -= looked > 0 ? looked : 0;
    /*
     * A position that is read from its beginning ends with its hash, though more ids came or went since they were
     * counted.
     */
    if (share->rounds == 0)
        share->left = 0;
    else if (!s->scan->sample && share->left < 1)
        share->left = 1;
    s->scan->place.position = (unsigned)(scan_random(&s->seed) % scan_positions(s));
}

/* Those that a look without the time to read all of a small queue left over. */
static int scan_has_left(const scan_state *s)
{
    unsigned i;
    for (i = 0; i < scan_positions(s); i++)
        if (s->shares[i].left > 0)
            return 1;
    return 0;
}

static int scan_on_share(seriatim_client *c, scan_state *s, const srt_reply *reply)
{
    const int64_t now = srt_token_int(&reply->tokens[1]), looked = srt_token_int(&reply->tokens[4]);
    s->scan->looked += looked;
    scan_take_share(s, &reply->tokens[3], looked);
    return s->scan->enough || now - s->began_us >= SRT_WEB_READING_US ? SERIATIM_OK : scan_ask_share(c, s);
}

/* Shares for `positions`, zeroed. */
static int scan_make_shares(scan_state *s, unsigned positions)
{
    void *shares = s->shares;
    if (srt_grow(s->w->mem, &shares, &s->shares_cap, positions, sizeof *s->shares) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    s->shares = shares;
    if (positions > 0) /* else nothing was allocated, and memset takes no NULL */
        memset(s->shares, 0, positions * sizeof *s->shares);
    return SERIATIM_OK;
}

/* ---- Beginning ----------------------------------------------------------------------------- */

/* Where the request goes on. */
static void scan_take_place(scan_state *s)
{
    srt_web_scan *scan = s->scan;
    if (scan->acts && scan->generation != s->queue->generation) {
        scan->asked = scan_beginning;
        scan->generation = s->queue->generation;
    }
    s->is_settled = 0;
    scan->place = scan->asked;
}

static int scan_send(seriatim_client *c, srt_queue *queue)
{
    scan_state *s = c->state;
    srt_web_scan *scan = s->scan;
    unsigned position;
    int status = SERIATIM_OK;
    s->queue = queue;
    srt_arena_reset(&s->memory);
    s->count = s->open = 0;
    s->began_us = 0;
    s->over = 0;
    scan->total = scan->looked = 0;
    scan->groups = scan->kept;
    if (scan->kept)
        memset(scan->kept, 0, scan->kept_size);
    scan->full = scan->enough = scan->sample = 0;
    scan->complete = scan_positions(s) == 0; /* the queue was deleted just now */
    scan_take_place(s);
    if (scan->spread && scan_make_shares(s, scan_positions(s)) != SERIATIM_OK)
        return srt_operator_nomem(c);
    for (position = 0; position < scan_positions(s) && status == SERIATIM_OK; position++) {
        s->open++;
        status = scan_ask(c, s, position, "0", 0, SCAN_TOTAL);
    }
    return status;
}

/* ---- Ids ----------------------------------------------------------------------------------- */

/* Is it among the `kept`? Of the hottest, an id may have had other payloads when it was read a second time. */
static int scan_is_double(const scan_state *s, size_t kept, const srt_target *item)
{
    size_t i, from = s->scan->what == SRT_SCAN_HOT || kept == 0 ? 0 : kept - 1;
    for (i = from; i < kept; i++)
        if (srt_id_compare(item->id, item->len, s->items[i].id, s->items[i].len) == 0)
            return 1;
    return 0;
}

/* HSCAN may give an id twice, and one that unites or moves lies in two places. No more than `most` are needed. */
static void scan_drop_doubles(scan_state *s, size_t most)
{
    size_t i, kept = 0;
    for (i = 0; i < s->count && kept < most; i++)
        if (!scan_is_double(s, kept, &s->items[i]))
            s->items[kept++] = s->items[i];
    s->count = kept;
}

/* Keeps the first `keep` in order, each once. */
static void scan_cut(scan_state *s, size_t keep)
{
    size_t i;
    if (s->count > 1)
        qsort(s->items, s->count, sizeof *s->items, srt_target_by_key);
    if (s->scan->reverse)
        for (i = 0; i < s->count / 2; i++) {
            srt_target swap = s->items[i];
            s->items[i] = s->items[s->count - 1 - i];
            s->items[s->count - 1 - i] = swap;
        }
    scan_drop_doubles(s, keep + 1);
    if (s->count > keep) {
        s->count = keep;
        s->over = 1;
    }
}

static int scan_is_wanted(const srt_web_scan *scan, const srt_target *target)
{
    int order;
    if (scan->from.data) {
        order = srt_id_compare(target->id, target->len, scan->from.data, scan->from.len);
        if (scan->reverse ? order > 0 : order < 0)
            return 0;
    }
    if (target->key < scan->range.low || target->key > scan->range.high)
        return 0;
    order = scan->has_after ? srt_target_by_key(target, &scan->after) : 0;
    return !scan->has_after || (scan->reverse ? order < 0 : order > 0);
}

static int scan_add(seriatim_client *c, scan_state *s, const srt_token *id, int64_t key, unsigned shard)
{
    void *items = s->items;
    srt_target *target, candidate = {NULL, 0, 0, 0};
    candidate.id = id->data;
    candidate.len = id->len;
    candidate.key = key;
    if (!scan_is_wanted(s->scan, &candidate))
        return SERIATIM_OK;
    if (s->count >= s->scan->limit + SCAN_SPARE)
        scan_cut(s, s->scan->limit);
    if (srt_grow(s->w->mem, &items, &s->cap, s->count + 1, sizeof *s->items) != SERIATIM_OK)
        return srt_operator_nomem(c);
    s->items = items;
    target = &s->items[s->count];
    target->id = srt_arena_copy(&s->memory, id->data, id->len);
    target->len = id->len;
    target->key = key;
    target->shard = shard;
    if (!target->id)
        return srt_operator_nomem(c);
    s->count++;
    return SERIATIM_OK;
}

/* ---- Answers ------------------------------------------------------------------------------- */

static int scan_take(seriatim_client *c, scan_state *s, const srt_request *r, const srt_reply *reply)
{
    unsigned shard = (unsigned)r->place / s->scan->stage_count;
    size_t i;
    int status = SERIATIM_OK;
    for (i = 5; i < reply->count && status == SERIATIM_OK; i += 3) {
        const srt_token *at = &reply->tokens[i];
        if (s->scan->bounds && srt_token_int(&at[1]) > s->scan->bound)
            continue;
        if (s->scan->take)
            status = s->scan->take(s->w, s->scan, at, srt_token_int(&at[1]), &at[2]) == SERIATIM_OK
                         ? SERIATIM_OK
                         : srt_operator_nomem(c);
        else if (!s->scan->matches || s->scan->matches(s->scan->error, &at[2]))
            status = scan_add(c, s, at, s->scan->by_id ? 0 : srt_token_int(&at[1]), shard);
    }
    return status;
}

/* To the slice behind the one that was read; NULL: to the next position. 0 at the end of all. */
static int scan_advance(scan_state *s, const srt_token *cursor)
{
    srt_web_scan *scan = s->scan;
    snprintf(scan->place.cursor, sizeof scan->place.cursor, "%.20s",
             cursor && cursor->type == SRT_STRING ? cursor->data : "0");
    if (strcmp(scan->place.cursor, "0") == 0)
        scan->place.position++;
    return scan->place.position < scan_steps(s);
}

static int scan_is_enough(const scan_state *s, int64_t now)
{
    const srt_web_scan *scan = s->scan;
    if (scan->enough)
        return 1;
    if (scan->has_after)
        return srt_web_place_compare(&scan->place, &scan->end) >= 0 || now - s->began_us >= SCAN_AGAIN_US;
    return now - s->began_us >= SRT_WEB_READING_US;
}

static int scan_on_slice(seriatim_client *c, scan_state *s, const srt_request *r, const srt_reply *reply)
{
    srt_web_scan *scan = s->scan;
    int64_t now = srt_token_int(&reply->tokens[1]);
    int status;
    if (!s->began_us)
        s->began_us = now;
    status = scan_take(c, s, r, reply);
    if (status != SERIATIM_OK)
        return status;
    if (scan->spread)
        return scan_on_share(c, s, reply);
    if (scan->full) { /* the slice holds more than is wanted: it comes again */
        scan->place = s->here;
        return SERIATIM_OK;
    }
    scan->looked += srt_token_int(&reply->tokens[4]);
    if (!scan_advance(s, &reply->tokens[3])) {
        scan->complete = 1;
        return SERIATIM_OK;
    }
    return scan_is_enough(s, now) ? SERIATIM_OK : scan_ask_slice(c, s);
}

/* How many ids a position has. Behind the last answer the reading begins. */
static int scan_on_total(seriatim_client *c, scan_state *s, size_t position, int64_t total, int64_t size)
{
    s->scan->total += total;
    if (s->scan->spread) {
        s->shares[position].total = total;
        s->shares[position].size = size;
        return --s->open > 0 ? SERIATIM_OK : scan_begin_shares(c, s);
    }
    if (--s->open > 0)
        return SERIATIM_OK;
    if (!s->scan->bound)
        s->scan->bound = s->scan->now_us;
    if (s->scan->place.position >= scan_steps(s)) {
        s->scan->complete = 1;
        return SERIATIM_OK;
    }
    return scan_ask_slice(c, s);
}

static int scan_on_batch(seriatim_client *c, scan_state *s, const srt_request *r, const srt_token *sequence)
{
    if (!srt_batches_take(c, &s->batches, r, sequence))
        return SERIATIM_OK;
    s->is_settled = 1;
    return scan_ask_slice(c, s);
}

/* A request that has looked often enough ends, and the next one looks again. */
static int scan_on_awake(seriatim_client *c)
{
    scan_state *s = c->state;
    return ++s->looks == SRT_BATCHES_LOOKS ? SERIATIM_OK : srt_batches_ask(c, &s->batches, s->queue, SCAN_BATCH);
}

static int scan_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    scan_state *s = c->state;
    if (r->kind == SCAN_BATCH)
        return scan_on_batch(c, s, r, &reply->tokens[0]);
    if (!srt_reply_is_list(reply, 4) || (reply->count - 5) % 3 != 0)
        return srt_operator_protocol(c, "browse");
    if (r->kind == SCAN_SLICE)
        return scan_on_slice(c, s, r, reply);
    s->scan->now_us = srt_token_int(&reply->tokens[1]);
    return scan_on_total(c, s, r->place, srt_token_int(&reply->tokens[2]), srt_token_int(&reply->tokens[4]));
}

/* A shard whose slot moves is left out. */
static int scan_on_refused(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    scan_state *s = c->state;
    if (!r->gave_up) {
        c->error = *error;
        return srt_client_fail(c, error->status);
    }
    if (r->kind != SCAN_SLICE)
        return scan_on_total(c, s, r->place, 0, 0);
    if (s->scan->spread) {
        s->shares[s->scan->place.position].left = 0;
        return scan_ask_share(c, s);
    }
    if (scan_advance(s, NULL))
        return scan_ask_slice(c, s);
    s->scan->complete = 1;
    return SERIATIM_OK;
}

static int scan_keep(scan_state *s)
{
    srt_web_scan *scan = s->scan;
    size_t i;
    scan->items = srt_arena_alloc(&s->w->memory, (s->count + 1) * sizeof *scan->items);
    if (!scan->items)
        return SERIATIM_NOMEM;
    for (i = 0; i < s->count; i++) {
        scan->items[i] = s->items[i];
        scan->items[i].id = srt_arena_copy(&s->w->memory, s->items[i].id, s->items[i].len);
        if (!scan->items[i].id)
            return SERIATIM_NOMEM;
    }
    scan->count = s->count;
    return SERIATIM_OK;
}

/* Where the next page begins: behind the last id of this one among what was read, or behind what was read. */
static int scan_page(scan_state *s)
{
    srt_web_scan *scan = s->scan;
    scan_cut(s, scan->limit);
    if (scan_keep(s) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    if (s->over && s->count && scan->what != SRT_SCAN_HOT)
        return srt_web_scan_next(s->w, scan, &scan->asked, scan->seen - scan->looked, &s->items[s->count - 1]);
    if (scan->spread &&
        !scan->complete) /* a reading of all begins anew, because a sample has no place where it ended */
        return srt_web_scan_next(s->w, scan, &scan_beginning, 0, NULL);
    return scan->complete ? SERIATIM_OK : srt_web_scan_next(s->w, scan, &scan->end, scan->seen, NULL);
}

/*
 * What was read a second time may reach further than the first time, if ids have gone since. Of what lies there nothing
 * was shown, so it is read again from `end` on. If it ended before, the next pages are of what lies before.
 */
static void scan_set_end(srt_web_scan *scan)
{
    int order = scan->has_after ? srt_web_place_compare(&scan->place, &scan->end) : -1;
    if (order < 0)
        scan->end = scan->place;
    else if (order > 0)
        scan->complete = 0;
}

static int scan_finish(scan_state *s)
{
    srt_web_scan *scan = s->scan;
    if (scan->spread) {
        scan->sample |= scan_has_left(s);
        scan->complete = !scan->sample;
    } else {
        scan_set_end(scan);
    }
    scan->seen += scan->looked;
    return scan_page(s);
}

int srt_web_scan_choose(srt_web *w, srt_web_scan *scan)
{
    scan_state s;
    size_t i;
    memset(&s, 0, sizeof s);
    s.scan = scan;
    s.w = w;
    s.items = scan->items;
    for (i = 0; i < scan->count; i++)
        if (scan_is_wanted(scan, &s.items[i]))
            s.items[s.count++] = s.items[i];
    return scan_page(&s);
}

static int scan_on_end(seriatim_client *c, int failed)
{
    scan_state *s = c->state;
    if (failed != SERIATIM_OK)
        return failed;
    return scan_finish(s) == SERIATIM_OK ? SERIATIM_OK : srt_fail_plain(&c->error, SERIATIM_NOMEM);
}

static void scan_release(seriatim_client *c)
{
    scan_state *s = c->state;
    srt_arena_free(&s->memory);
    srt_batches_free(&s->batches);
    srt_free(c->mem, s->shares, s->shares_cap * sizeof *s->shares);
    srt_free(c->mem, s->items, s->cap * sizeof *s->items);
    srt_free(c->mem, s, sizeof *s);
}

srt_web_scan *srt_web_scan_new(srt_web *w, int what)
{
    srt_web_scan *scan = srt_arena_alloc(&w->memory, sizeof *scan);
    if (!scan)
        return NULL;
    memset(scan, 0, sizeof *scan);
    scan->what = what;
    scan->limit = SRT_WEB_ROWS;
    scan->place = scan_beginning;
    scan->range.low = -SRT_FOREVER;
    scan->range.high = SRT_FOREVER;
    scan->slice = what == SRT_SCAN_WHOLE ? 20 : what == SRT_SCAN_ERRORS ? 100 : 250;
    scan->most = SRT_WEB_SAMPLED;
    w->found = scan;
    return scan;
}

srt_web_scan *srt_web_scan_sample(srt_web *w, int what, const char *stage)
{
    srt_web_scan *scan = srt_web_scan_new(w, what);
    if (!scan)
        return NULL;
    scan->stages[0] = stage;
    scan->stages[1] = "behind";
    scan->stage_count = 2;
    scan->spread = 1;
    return scan;
}

int srt_web_sample_ids(seriatim_client *c, srt_web *w)
{
    int status = w->step == 0 ? srt_web_scan_cursor(w, w->found, srt_web_param_of(w, "cursor")) : SERIATIM_OK;
    return status == SERIATIM_OK ? srt_web_on_queue(c, w, srt_web_scan_begin) : status;
}

int srt_web_scan_begin(seriatim_client *c, srt_web *w)
{
    static const srt_operation operation = {.send = scan_send,
                                            .on_reply = scan_on_reply,
                                            .on_refused = scan_on_refused,
                                            .on_awake = scan_on_awake,
                                            .on_end = scan_on_end,
                                            .release = scan_release};
    srt_web_scan *scan = w->found;
    scan_state *s;
    int status = srt_operator_begin(c, sizeof *s);
    if (status != SERIATIM_OK)
        return status;
    s = c->state;
    s->scan = scan;
    s->w = w;
    srt_arena_init(&s->memory, c->mem);
    s->batches.mem = c->mem;
    scan->asked = scan->place;
    return srt_client_start(c, &operation, w->queue);
}
