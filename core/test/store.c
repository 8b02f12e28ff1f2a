/*
 * store.c - a model of Redis and the scripts of a shard, with faults on order: its state, and what clients and poppers
 * do to it.
 */
#include "store_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t store_random(store *s, uint64_t below)
{
    uint64_t x = s->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (x ^ (x >> 31)) % below;
}

int store_chance(store *s, unsigned ppm)
{
    return ppm > 0 && store_random(s, 1000000) < ppm;
}

void store_violated(store *s, const char *format, ...)
{
    va_list args;
    if (s->violation[0])
        return;
    va_start(args, format);
    vsnprintf(s->violation, sizeof s->violation, format, args);
    va_end(args);
}

static void make_queue(store *s, size_t queue, const char *name, unsigned shards)
{
    srt_bytes prefix;
    unsigned i;
    s->queues[queue].name = name;
    s->queues[queue].shards = shards;
    s->queues[queue].from = (unsigned)s->shard_count;
    for (i = 0; i < shards; i++) {
        store_shard *sh = &s->shards[s->shard_count++];
        srt_bytes_init(&prefix, seriatim_default_allocator());
        srt_key_shard(&prefix, STORE_NS, name, strlen(name), i);
        memcpy(sh->prefix, prefix.data, prefix.len);
        srt_bytes_free(&prefix);
        sh->queue = queue;
    }
}

store *store_new(uint64_t seed, size_t ids)
{
    store *s = calloc(1, sizeof *s);
    size_t i;
    s->random = seed;
    s->now_us = INT64_C(1790000000000000) + (int64_t)store_random(s, 1000000);
    make_queue(s, 0, "or:ders {1}", 5);
    make_queue(s, 1, "users", 3);
    s->ids = calloc(ids, sizeof *s->ids);
    s->id_count = ids;
    for (i = 0; i < ids; i++) {
        store_id *id = &s->ids[i];
        const store_queue *queue = &s->queues[i % 2];
        id->len = (size_t)snprintf(id->name, sizeof id->name, "id:%lu", (unsigned long)i);
        id->shard = &s->shards[queue->from + seriatim_shard_of(id->name, id->len, queue->shards)];
    }
    return s;
}

void store_free(store *s)
{
    while (s->conns)
        store_disconnect(s->conns);
    free(s->ids);
    free(s->notices);
    free(s);
}

void store_copy(const store *s, store_image *image)
{
    memcpy(image->shards, s->shards, sizeof s->shards);
    memcpy(image->members, s->members, sizeof s->members);
    image->member_count = s->member_count;
    image->renewed_ms = s->renewed_ms;
    image->away_until_ms = s->away_until_ms;
    image->gap_ms = s->gap_ms;
    image->ids = malloc(s->id_count * sizeof *s->ids);
    memcpy(image->ids, s->ids, s->id_count * sizeof *s->ids);
}

/* The processes remember what they began: so the last fence that was handed out is not restored. */
void store_restore(store *s, store_image *image)
{
    size_t i;
    for (i = 0; i < s->shard_count; i++)
        if (strcmp(image->shards[i].owner, s->shards[i].owner) != 0)
            memcpy(image->shards[i].forgotten_owner, s->shards[i].owner, sizeof s->shards[i].owner);
    memcpy(s->shards, image->shards, sizeof s->shards);
    memcpy(s->members, image->members, sizeof s->members);
    s->member_count = image->member_count;
    s->renewed_ms = image->renewed_ms;
    s->away_until_ms = image->away_until_ms;
    s->gap_ms = image->gap_ms;
    for (i = 0; i < s->id_count; i++)
        image->ids[i].handed = s->ids[i].handed;
    memcpy(s->ids, image->ids, s->id_count * sizeof *s->ids);
    free(image->ids);
    image->ids = NULL;
}

store_conn *store_connect(store *s)
{
    store_conn *c = calloc(1, sizeof *c);
    c->store = s;
    srt_bytes_init(&c->in, seriatim_default_allocator());
    srt_bytes_init(&c->out, seriatim_default_allocator());
    c->next = s->conns;
    s->conns = c;
    return c;
}

void store_disconnect(store_conn *c)
{
    store_conn **at = &c->store->conns;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    srt_bytes_free(&c->in);
    srt_bytes_free(&c->out);
    free(c);
}

store_id *store_find(store *s, const char *name, size_t len)
{
    size_t i;
    for (i = 0; i < s->id_count; i++)
        if (s->ids[i].len == len && memcmp(s->ids[i].name, name, len) == 0)
            return &s->ids[i];
    return NULL;
}

int64_t store_advance(const store *s, store_shard *sh)
{
    sh->tick = sh->tick + 1 > s->now_us ? sh->tick + 1 : s->now_us;
    return sh->tick;
}

void store_add_payload(store_record *r, int number, int64_t stamp)
{
    r->numbers[r->count] = number;
    r->stamps[r->count++] = stamp;
}

void store_place(store *s, store_id *id)
{
    store_record *r = &id->first;
    if (r->mark) {
        r->place = 3;
    } else if (r->due <= s->now_us && r->place == 0) {
        r->rank = --id->shard->first_rank;
    } else {
        r->place = 1;
    }
}

static void promote(store *s, store_id *id)
{
    id->first = id->behind;
    memset(&id->behind, 0, sizeof id->behind);
    id->first.place = id->first.due <= s->now_us ? 0 : 1;
    id->first.rank = ++id->shard->last_rank;
}

/* Payloads that are many on both sides are united later, some a call: until then the id has a run that is nobody's. */
static int unites_later(store *s, store_id *id)
{
    if (id->mode == 'm' || id->first.count <= STORE_SPILL || id->behind.count <= STORE_SPILL || store_random(s, 2))
        return 0;
    id->running = 1;
    id->mode = 'm';
    id->digit = '1';
    id->fence = id->open = id->overrun = 0;
    id->whole = 0;
    id->first.place = 1;
    return 1;
}

void store_put_back(store *s, store_id *id)
{
    int i;
    if (id->first.count == 0) {
        store_finish(s, id); /* all of it was checkpointed */
        return;
    }
    if (unites_later(s, id))
        return;
    for (i = 0; i < id->behind.count; i++)
        store_add_payload(&id->first, id->behind.numbers[i], id->behind.stamps[i]);
    memset(&id->behind, 0, sizeof id->behind);
    id->running = 0;
    id->overrun = 0;
    id->open = 0;
    store_place(s, id);
}

void store_finish(store *s, store_id *id)
{
    memset(&id->first, 0, sizeof id->first);
    id->running = 0;
    id->overrun = 0;
    id->open = 0;
    if (id->behind.there)
        promote(s, id);
}

void store_push(store *s, store_id *id, int64_t delay_us)
{
    store_record *r = id->running ? &id->behind : &id->first;
    int64_t stamp = store_advance(s, id->shard);
    size_t i;
    if (id->pushed >= STORE_MAX_PAYLOADS)
        return;
    for (i = 0; id->first.there && i < s->id_count; i++) /* what is noted of the id is looked at: see spread.lua */
        s->ids[i].spread |= s->ids[i].shard == id->shard && s->ids[i].running && s->ids[i].whole;
    if (!r->there) {
        r->there = 1;
        r->retry = -1;
        r->due = delay_us ? s->now_us + delay_us : stamp;
        r->place = delay_us ? 1 : 0;
        r->rank = ++id->shard->last_rank;
        if (!id->running && !delay_us && store_hand_over(s, id, stamp))
            return;
        if (!id->running)
            store_wake_owner(s, id->shard, delay_us ? r->due : 0);
        else if (id->mode != 'p' && !s->no_word_behind)
            store_tell_owner(s, id->shard, "~");
    }
    store_add_payload(r, id->pushed++, stamp);
}

void store_pause(store *s, size_t shard, int on)
{
    s->shards[shard].paused = on;
    store_tell_owner(s, &s->shards[shard], "");
}

void store_say(store *s, size_t shard, const char *mark, const char *rest)
{
    char channel[160], text[192];
    int len = snprintf(text, sizeof text, "%s%s%s", mark, s->shards[shard].prefix, rest);
    store_wake_channel(&s->shards[shard], channel, sizeof channel);
    store_publish(s, channel, text, (size_t)len);
}

/* Of the ids that are due the oldest, whatever is noted of them. */
static store_id *oldest_due(store *s, store_shard *sh)
{
    store_id *best = store_first_in(s, sh, 0, 0), *others[3];
    size_t i;
    others[0] = store_first_in(s, sh, 1, 0);
    others[1] = store_first_in(s, sh, 3, 1);
    others[2] = store_first_in(s, sh, 3, 2);
    for (i = 0; i < 3; i++)
        if (store_due_of(others[i]) <= s->now_us && (!best || others[i]->first.due < best->first.due))
            best = others[i];
    return best;
}

store_id *store_pop(store *s, size_t shard, int64_t ttr_us)
{
    store_shard *sh = &s->shards[shard];
    store_id *id;
    store_void_overrun(s, sh);
    id = sh->paused ? NULL : oldest_due(s, sh);
    if (!id || id->kills || id->fails)
        return NULL;
    if (id->open)
        store_violated(s, "%s: popped while a run is open", id->name);
    id->running = 1;
    id->digit = id->first.count > STORE_SPILL ? '1' : '0';
    id->mode = 'p';
    id->whole = 0;
    id->fence = id->open = store_advance(s, sh);
    id->overrun = s->now_us + ttr_us;
    store_wake_owner(s, sh, id->overrun);
    s->pops++;
    return id;
}

void store_popped(store *s, store_id *id, int64_t fence, int done)
{
    if (!id->running || id->mode != 'p' || id->fence != fence || id->overrun <= s->now_us) {
        s->pops_refused++;
        return;
    }
    if (done) {
        store_check_done(s, id);
        store_finish(s, id);
        s->pops_done++;
    } else {
        store_put_back(s, id);
    }
    if (id->first.there || id->running)
        store_wake_owner(s, id->shard, 0);
}
