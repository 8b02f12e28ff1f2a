/* store.c - a model of Redis and the scripts of a shard, with faults on order; it checks what nodes say. */
#define SRT_SCRIPT_TEXTS
#include "store.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOREVER INT64_C(9000000000000000)

typedef struct store_arg {
    const char *data;
    size_t len;
} store_arg;

static const struct {
    const char *text;
    size_t len;
    const char *sha;
} store_scripts[] = {
#define X(name, sha) {srt_script_text_##name, sizeof srt_script_text_##name, sha},
    SRT_SCRIPTS(X)
#undef X
};
#define SCRIPTS (sizeof store_scripts / sizeof *store_scripts)

/* ---- Making -------------------------------------------------------------------------------- */

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

/* ---- Answers ------------------------------------------------------------------------------- */

static void say_int(store_conn *c, int64_t value)
{
    srt_bytes_addc(&c->out, ':');
    srt_bytes_add_int(&c->out, value);
    srt_bytes_adds(&c->out, "\r\n");
}

static void say_text(store_conn *c, const char *text)
{
    srt_resp_arg(&c->out, text, strlen(text));
}

static void say_line(store_conn *c, const char *line)
{
    srt_bytes_adds(&c->out, line);
    srt_bytes_adds(&c->out, "\r\n");
}

static void publish(store *s, const char *channel, const char *text)
{
    store_conn *c;
    int i;
    for (c = s->conns; c; c = c->next)
        for (i = 0; i < c->channel_count; i++)
            if (strcmp(c->channels[i], channel) == 0) {
                srt_resp_array(&c->out, 3);
                say_text(c, "message");
                say_text(c, channel);
                say_text(c, text);
            }
}

static void tell_owner(store *s, const store_shard *sh)
{
    char channel[160];
    if (!sh->owner[0])
        return;
    snprintf(channel, sizeof channel, STORE_NS ":wake:%s", sh->owner);
    publish(s, channel, sh->prefix);
}

static void wake_owner(store *s, store_shard *sh, int64_t time)
{
    if (time >= sh->wake)
        return;
    sh->wake = 0;
    tell_owner(s, sh);
}

/* ---- Records ------------------------------------------------------------------------------- */

store_id *store_find(store *s, const char *name, size_t len)
{
    size_t i;
    for (i = 0; i < s->id_count; i++)
        if (s->ids[i].len == len && memcmp(s->ids[i].name, name, len) == 0)
            return &s->ids[i];
    return NULL;
}

static int64_t advance(const store *s, store_shard *sh)
{
    sh->tick = sh->tick + 1 > s->now_us ? sh->tick + 1 : s->now_us;
    return sh->tick;
}

static void add_payload(store_record *r, int number, int64_t stamp)
{
    r->numbers[r->count] = number;
    r->stamps[r->count++] = stamp;
}

static void place(store *s, store_id *id)
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

static void finish(store *s, store_id *id);

static void put_back(store *s, store_id *id)
{
    int i;
    if (id->first.count == 0) {
        finish(s, id); /* all of it was checkpointed */
        return;
    }
    if (unites_later(s, id))
        return;
    for (i = 0; i < id->behind.count; i++)
        add_payload(&id->first, id->behind.numbers[i], id->behind.stamps[i]);
    memset(&id->behind, 0, sizeof id->behind);
    id->running = 0;
    id->overrun = 0;
    id->open = 0;
    place(s, id);
}

static void finish(store *s, store_id *id)
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
    int64_t stamp = advance(s, id->shard);
    if (id->pushed >= STORE_MAX_PAYLOADS)
        return;
    if (!r->there) {
        r->there = 1;
        r->retry = -1;
        r->due = delay_us ? s->now_us + delay_us : stamp;
        r->place = delay_us ? 1 : 0;
        r->rank = ++id->shard->last_rank;
        if (!id->running)
            wake_owner(s, id->shard, delay_us ? r->due : 0);
    }
    add_payload(r, id->pushed++, stamp);
}

void store_pause(store *s, size_t shard, int on)
{
    s->shards[shard].paused = on;
    tell_owner(s, &s->shards[shard]);
}

static void pack_little(srt_bytes *out, uint64_t value, size_t bytes)
{
    while (bytes--) {
        srt_bytes_addc(out, (char)(value & 255));
        value >>= 8;
    }
}

static void pack_double(srt_bytes *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, 8);
    pack_little(out, bits, 8);
}

/* Ids of the second queue, which remembers scores, are pushed with scores: these ascend as the numbers do. */
static int is_scored(const store *s, const store_id *id)
{
    return s->remembers && id->shard->queue == 1;
}

static double score_of(const store_record *r, int i)
{
    return r->numbers[i] - 1000;
}

static void pack_entry(srt_bytes *out, const store_record *r, int i, int scored)
{
    char text[16];
    int len = snprintf(text, sizeof text, "%d", r->numbers[i]);
    pack_double(out, (double)r->stamps[i]);
    pack_double(out, scored ? score_of(r, i) : (double)r->stamps[i] / 1e6);
    pack_little(out, 0, 4);
    pack_little(out, (uint64_t)len, 4);
    srt_bytes_add(out, text, (size_t)len);
}

static void pack_record(srt_bytes *out, const store_record *r, int scored)
{
    int i, spilled = r->count > STORE_SPILL;
    if (r->count == 1 && r->due == r->stamps[0] && r->retry == -1 && !r->mark) {
        pack_little(out, (uint64_t)(r->place + (scored ? 4 : 0)), 1);
        pack_double(out, (double)r->stamps[0]);
        if (scored)
            pack_double(out, score_of(r, 0));
        srt_bytes_add_int(out, r->numbers[0]);
        return;
    }
    pack_little(out, (uint64_t)(r->place + (spilled ? 12 : 8)), 1);
    pack_double(out, (double)r->due);
    pack_little(out, (uint64_t)(uint32_t)r->retry, 4);
    pack_little(out, (uint64_t)r->mark, 1);
    pack_little(out, (uint64_t)r->count, 4);
    pack_little(out, 0, 4);
    for (i = 0; !spilled && i < r->count; i++)
        pack_entry(out, r, i, scored);
}

/* ---- The checker --------------------------------------------------------------------------- */

int store_handed(store *s, const seriatim_claimed *job, int kind)
{
    store_id *id = store_find(s, job->id, job->id_len);
    size_t i;
    if (!id) {
        store_violated(s, "an unknown id was handed out");
        return 0;
    }
    if (!id->open || job->fence != id->open)
        return 0; /* of a run that was lost meanwhile */
    if (id->handed == id->open)
        store_violated(s, "%s: one run was handed out twice", id->name);
    id->handed = id->open;
    id->starts += kind == SERIATIM_RUN;
    if (job->retry_count != id->first.retry)
        store_violated(s, "%s: retry_count is %d, not %d", id->name, (int)job->retry_count, id->first.retry);
    if (job->payload_count != (size_t)id->first.count)
        store_violated(s, "%s: %d of %d payloads were handed out", id->name, (int)job->payload_count, id->first.count);
    for (i = 0; i < job->payload_count && !s->violation[0]; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", id->first.numbers[i]);
        if (strlen(text) != job->payloads[i].len || memcmp(text, job->payloads[i].data, job->payloads[i].len) != 0)
            store_violated(s, "%s: payload %s was not handed out in its place", id->name, text);
    }
    return 1;
}

/* A settle is accepted: it must be that of the run that is open, and a thread must have had it. */
static void check_settle(store *s, const store_id *id, int64_t fence, int run)
{
    if (fence != id->open)
        store_violated(s, "%s: a settle was accepted that is not the open run's", id->name);
    else if (run && id->handed != fence)
        store_violated(s, "%s: an outcome of a run that no thread had", id->name);
}

/* The first payloads are done: they must be those that are next. */
static void check_in_order(store *s, store_id *id, int count)
{
    int i;
    for (i = 0; i < count; i++) {
        while (id->expected < id->pushed && id->buried[id->expected])
            id->expected++;
        if (id->first.numbers[i] != id->expected)
            store_violated(s, "%s: payload %d is done, expected %d", id->name, id->first.numbers[i], id->expected);
        id->expected++;
    }
}

static void check_done(store *s, store_id *id)
{
    check_in_order(s, id, id->first.count);
    id->runs++;
}

/* Of a run that is done without a score. */
static void check_plain(store *s, const store_id *id)
{
    if (is_scored(s, id) && id->first.count)
        store_violated(s, "%s: the score of a run that is done is not told", id->name);
}

void store_hooked(store *s, const seriatim_claimed *job)
{
    store_id *id = store_find(s, job->id, job->id_len);
    size_t i;
    char text[16];
    if (job->payload_count != 1 || job->payload_total != 1) {
        store_violated(s, "%s: the hook was told of %d payloads", id->name, (int)job->payload_count);
        return;
    }
    for (i = 0; i < s->notice_count; i++) {
        store_notice *notice = &s->notices[i];
        snprintf(text, sizeof text, "%d", notice->payload);
        if (notice->id != id || strlen(text) != job->payloads[0].len ||
            memcmp(text, job->payloads[0].data, strlen(text)) != 0)
            continue;
        s->retold += notice->told++ > 0;
        return;
    }
    s->retold++; /* another node told it meanwhile */
}

int store_empty(const store *s)
{
    size_t i;
    if (s->notice_count)
        return 0;
    for (i = 0; i < s->id_count; i++)
        if (s->ids[i].first.there || s->ids[i].behind.there)
            return 0;
    return 1;
}

/* ---- Scripts ------------------------------------------------------------------------------- */

static int64_t number_of(store_arg arg)
{
    int64_t value = 0;
    size_t i, below = arg.len > 0 && arg.data[0] == '-';
    for (i = below; i < arg.len; i++)
        value = value * 10 + (arg.data[i] - '0');
    return below ? -value : value;
}

static int arg_is(store_arg arg, const char *text)
{
    return arg.len == strlen(text) && memcmp(arg.data, text, arg.len) == 0;
}

static void arg_copy(char *to, size_t cap, store_arg arg)
{
    size_t len = arg.len < cap - 1 ? arg.len : cap - 1;
    memcpy(to, arg.data, len);
    to[len] = '\0';
}

static void run_text(const store_id *id, char *text, size_t cap)
{
    snprintf(text, cap, "%c%c%lld", id->digit, id->mode, (long long)id->fence);
}

static int run_is(const store_id *id, store_arg run)
{
    char text[40];
    run_text(id, text, sizeof text);
    if (run.len == 0)
        return 0;
    run.data++; /* the digit is for others to set, and a checkpoint may leave so few payloads that they are no more read
                   in slices */
    run.len--;
    return id->running && arg_is(run, text + 1);
}

static void do_layout(store_conn *c, store_arg key, store_arg wanted)
{
    store *s = c->store;
    char text[32];
    size_t i;
    for (i = 0; i < 2; i++) {
        srt_bytes own;
        int same;
        srt_bytes_init(&own, seriatim_default_allocator());
        srt_key_layout(&own, STORE_NS, s->queues[i].name, strlen(s->queues[i].name));
        same = own.len == key.len && memcmp(own.data, key.data, key.len) == 0;
        srt_bytes_free(&own);
        if (!same)
            continue;
        (void)wanted;
        snprintf(text, sizeof text, "1 %u 3", s->queues[i].shards);
        say_text(c, text);
        return;
    }
    say_line(c, "-ERR unknown layout");
}

static size_t find_member(const store *s, const char *name)
{
    size_t i;
    for (i = 0; i < s->member_count; i++)
        if (strcmp(s->members[i].name, name) == 0)
            break;
    return i;
}

static void drop_member(store *s, size_t i)
{
    s->members[i] = s->members[--s->member_count];
}

static int by_expiry(const void *a, const void *b)
{
    const store_member *x = a, *y = b;
    return x->until_ms < y->until_ms ? -1 : x->until_ms > y->until_ms ? 1 : strcmp(x->name, y->name);
}

/*
 * Redis was away, or every node was: whoever is listed lives on for the longest lease. For who has not come back since
 * the last absence, and for that absence itself, the time that has passed now does not count.
 */
static void note_absence(store *s, int64_t now, int64_t time)
{
    int64_t shortest = time > 0 ? time : INT64_MAX, longest = time, gap = now - s->renewed_ms, passed;
    size_t i;
    for (i = 0; i < s->member_count; i++) {
        const store_member *m = &s->members[i];
        shortest = !m->extended && m->lease_ms < shortest ? m->lease_ms : shortest;
        longest = m->lease_ms > longest ? m->lease_ms : longest;
    }
    if (s->no_absence || (s->renewed_ms && gap <= shortest / 2 && gap >= -shortest / 2)) {
        if (s->away_until_ms <= now)
            s->away_until_ms = s->gap_ms = 0;
        return;
    }
    passed = s->renewed_ms && gap > 0 ? gap - shortest / 4 : 0;
    for (i = 0; i < s->member_count; i++) {
        store_member *m = &s->members[i];
        m->until_ms = passed && m->extended ? m->until_ms + passed : now + longest;
        m->extended = 1;
    }
    s->gap_ms = s->renewed_ms ? gap : -1;
    s->away_until_ms = passed && s->away_until_ms > s->renewed_ms ? s->away_until_ms + passed : now + longest;
}

static void do_beat(store_conn *c, const store_arg *argv)
{
    store *s = c->store;
    int64_t now = s->now_us / 1000, time = number_of(argv[1]);
    char name[72], channel[96], text[32];
    size_t i;
    int known;
    arg_copy(name, sizeof name, argv[0]);
    arg_copy(channel, sizeof channel, argv[3]);
    note_absence(s, now, time);
    for (i = s->member_count; i-- > 0;)
        if (s->members[i].until_ms <= now)
            drop_member(s, i);
    i = find_member(s, name);
    known = i < s->member_count;
    if (time > 0) {
        if (!known)
            s->member_count++;
        arg_copy(s->members[i].name, sizeof s->members[i].name, argv[0]);
        arg_copy(s->members[i].description, sizeof s->members[i].description, argv[2]);
        s->members[i].until_ms = now + time;
        s->members[i].lease_ms = time;
        s->members[i].extended = 0;
    } else if (known) {
        drop_member(s, i);
    }
    if ((time > 0) != known)
        publish(s, channel, known ? "leave" : "join");
    qsort(s->members, s->member_count, sizeof *s->members, by_expiry);
    s->renewed_ms = s->member_count ? now : 0;
    srt_resp_array(&c->out, 4 + 2 * s->member_count);
    snprintf(text, sizeof text, "%lld", (long long)s->now_us);
    say_text(c, text);
    say_text(c, "");
    srt_resp_arg_int(&c->out, s->away_until_ms > now ? s->away_until_ms - now : 0);
    srt_resp_arg_int(&c->out, s->gap_ms);
    for (i = 0; i < s->member_count; i++) {
        say_text(c, s->members[i].name);
        say_text(c, s->members[i].description);
    }
}

/* The next claim answers it as a death. */
static void report(store *s, store_shard *sh, store_id *id, int64_t *deaths)
{
    if (*deaths == 0)
        sh->claimed = advance(s, sh);
    ++*deaths;
    id->mode = 'o';
    id->fence = id->open = sh->claimed;
    id->overrun = 0;
}

/* What becomes of a run of a dead owner, or (mode b) of one that its owner does not know. */
static void recover(store *s, store_shard *sh, store_id *id, int64_t *deaths)
{
    if (id->mode != 'b' && s->nobody_died)
        store_violated(s, "%s: its process lives, and %s recovers it as a dead one's", id->name, sh->owner);
    if ((id->mode == 's' || id->mode == 'o') && id->first.count) {
        report(s, sh, id, deaths);
        return;
    }
    if (id->mode != 'b') {
        id->first.mark = id->mode == 'u' ? 2 : 1;
        id->first.due = s->now_us;
        id->first.place = 3;
    }
    put_back(s, id);
}

static int is_known(const store_id *id, const store_arg *argv, size_t argc)
{
    size_t k;
    for (k = 5; k + 1 < argc; k += 2)
        if (argv[k].len == id->len && memcmp(argv[k].data, id->name, id->len) == 0)
            return run_is(id, argv[k + 1]);
    return 0;
}

/* Of the owner's own runs, those that it does not know are left for recover.lua, or reported. */
static int64_t keep_known(store *s, store_shard *sh, const store_arg *argv, size_t argc)
{
    int64_t deaths = 0;
    size_t i;
    for (i = 0; i < s->id_count; i++) {
        store_id *id = &s->ids[i];
        if (id->shard != sh || !id->running || id->mode == 'm' || id->mode == 'b' || id->mode == 'p' ||
            id->fence < sh->since || is_known(id, argv, argc))
            continue;
        if (id->mode == 'o') {
            report(s, sh, id, &deaths);
            continue;
        }
        id->mode = 'b';
        id->fence = id->open = id->overrun = 0;
        sh->pending = 1;
    }
    return deaths;
}

static int is_unfinished(const store *s, const store_shard *sh)
{
    size_t i;
    for (i = 0; i < s->id_count; i++)
        if (s->ids[i].shard == sh && s->ids[i].running && s->ids[i].mode == 'm')
            return 1;
    return sh->pending;
}

/* ARGV: generation, node, fold, owner, lease, known runs... */
static void do_acquire(store_conn *c, store_shard *sh, const store_arg *argv, size_t argc)
{
    store *s = c->store;
    int mine = arg_is(argv[1], sh->owner);
    int64_t deaths = 0;
    size_t i;
    if (!mine && (!arg_is(argv[3], sh->owner) || number_of(argv[4]) != sh->lease)) {
        srt_resp_array(&c->out, 3);
        say_text(c, "TAKEN");
        say_text(c, sh->owner);
        srt_resp_arg_int(&c->out, sh->lease);
        return;
    }
    sh->lease = advance(s, sh);
    sh->wake = 0;
    for (i = 0; i < s->id_count; i++) {
        store_id *id = &s->ids[i];
        id->whole &= id->shard != sh;
        if (!mine && id->shard == sh && id->running && id->mode != 'p') {
            id->open = 0; /* the node that had it may not settle it any more */
            sh->pending = 1;
        }
    }
    if (mine) {
        deaths = keep_known(s, sh, argv, argc);
    } else {
        arg_copy(sh->owner, sizeof sh->owner, argv[1]);
        sh->claimed = sh->since = sh->lease;
        sh->settled = 0;
    }
    srt_resp_array(&c->out, 5);
    say_text(c, mine ? "KEPT" : "OK");
    srt_resp_arg_int(&c->out, sh->lease);
    srt_resp_arg_int(&c->out, deaths ? 0 : sh->claimed);
    say_int(c, deaths);
    say_int(c, is_unfinished(s, sh));
}

/* The runs from a place on: some a call. Returns where to go on. */
static size_t recover_some(store *s, store_shard *sh, size_t at, int64_t *recovered, int64_t *deaths)
{
    for (; at < s->id_count; at++) {
        store_id *id = &s->ids[at];
        if (id->shard != sh || !id->running || id->mode == 'm' || id->mode == 'p' ||
            (id->mode != 'b' && id->fence >= sh->since))
            continue;
        if (*recovered == 2)
            return at;
        recover(s, sh, id, deaths);
        ++*recovered;
    }
    sh->pending = 0;
    return at;
}

/* Moves some of the payloads that came meanwhile; the last ones bring the id back. */
static void unite_some(store *s, store_id *id)
{
    store_record *n = &id->behind;
    int i, moved = n->count < STORE_SLICE ? n->count : STORE_SLICE;
    for (i = 0; i < moved; i++)
        add_payload(&id->first, n->numbers[i], n->stamps[i]);
    n->count -= moved;
    memmove(n->numbers, n->numbers + moved, (size_t)n->count * sizeof *n->numbers);
    memmove(n->stamps, n->stamps + moved, (size_t)n->count * sizeof *n->stamps);
    if (n->count <= STORE_SLICE)
        put_back(s, id);
}

/* ARGV: generation, lease, fold, cursor */
static void do_recover(store_conn *c, store_shard *sh, const store_arg *argv)
{
    store *s = c->store;
    int64_t recovered = 0, deaths = 0;
    size_t at = arg_is(argv[3], "u") ? 0 : (size_t)number_of(argv[3]), i;
    int pending = sh->pending;
    char cursor[24] = "u";
    if (number_of(argv[1]) != sh->lease) {
        srt_bytes_adds(&c->out, "-STALE ");
        say_line(c, sh->owner);
        return;
    }
    if (pending)
        at = recover_some(s, sh, at, &recovered, &deaths);
    for (i = 0; !pending && i < s->id_count; i++)
        if (s->ids[i].shard == sh && s->ids[i].running && s->ids[i].mode == 'm') {
            unite_some(s, &s->ids[i]);
            break;
        }
    if (sh->pending)
        snprintf(cursor, sizeof cursor, "%lu", (unsigned long)at);
    else if (!pending && !is_unfinished(s, sh))
        cursor[0] = '\0';
    srt_resp_array(&c->out, 4);
    say_text(c, cursor);
    say_int(c, recovered);
    say_int(c, deaths);
    say_int(c, 1);
}

static void do_release(store_conn *c, store_shard *sh, const store_arg *argv)
{
    store *s = c->store;
    char channel[160];
    size_t i;
    if (number_of(argv[1]) != sh->lease) {
        say_text(c, "STALE");
        return;
    }
    for (i = 0; i < s->id_count; i++)
        if (s->ids[i].shard == sh && s->ids[i].running && s->ids[i].mode != 'm' && s->ids[i].mode != 'p') {
            say_text(c, "BUSY");
            return;
        }
    sh->owner[0] = '\0';
    sh->lease = sh->wake = 0;
    arg_copy(channel, sizeof channel, argv[2]);
    if (channel[0])
        publish(s, channel, sh->prefix);
    say_text(c, "OK");
}

/* The next id of a shard in a place; ready ones by rank, others by due time. */
static store_id *first_in(store *s, const store_shard *sh, int where, int mark)
{
    store_id *best = NULL;
    size_t i;
    for (i = 0; i < s->id_count; i++) {
        store_id *id = &s->ids[i];
        const store_record *r = &id->first;
        if (id->shard != sh || id->running || !r->there || r->place != where || (where == 3 && r->mark != mark))
            continue;
        if (!best || (where == 0 ? r->rank < best->first.rank : r->due < best->first.due))
            best = id;
    }
    return best;
}

static int64_t due_of(const store_id *id)
{
    return id ? id->first.due : FOREVER;
}

static int64_t earliest_overrun(const store *s, const store_shard *sh)
{
    int64_t first = FOREVER;
    size_t i;
    for (i = 0; i < s->id_count; i++)
        if (s->ids[i].shard == sh && s->ids[i].overrun && s->ids[i].overrun < first)
            first = s->ids[i].overrun;
    return first;
}

static int64_t earliest_popped(const store *s, const store_shard *sh)
{
    int64_t first = FOREVER;
    size_t i;
    for (i = 0; i < s->id_count; i++)
        if (s->ids[i].shard == sh && s->ids[i].running && s->ids[i].mode == 'p' && s->ids[i].overrun < first)
            first = s->ids[i].overrun;
    return first > s->now_us ? first : 0;
}

static void add_text(srt_bytes *out, const char *data, size_t len)
{
    srt_bytes_addc(out, '\xdb');
    srt_bytes_addc(out, (char)(len >> 24));
    srt_bytes_addc(out, (char)(len >> 16));
    srt_bytes_addc(out, (char)(len >> 8));
    srt_bytes_addc(out, (char)len);
    srt_bytes_add(out, data, len);
}

/* The ids, and their records, as MessagePack arrays. */
static void say_texts(store_conn *c, store_id **ids, size_t count)
{
    srt_bytes names, records, record;
    size_t i;
    srt_bytes_init(&names, seriatim_default_allocator());
    srt_bytes_init(&records, seriatim_default_allocator());
    srt_bytes_init(&record, seriatim_default_allocator());
    srt_bytes_addc(&names, '\xdc');
    srt_bytes_addc(&names, (char)(count >> 8));
    srt_bytes_addc(&names, (char)count);
    srt_bytes_add(&records, names.data, names.len);
    for (i = 0; i < count; i++) {
        add_text(&names, ids[i]->name, ids[i]->len);
        srt_bytes_clear(&record);
        pack_record(&record, &ids[i]->first, is_scored(c->store, ids[i]));
        add_text(&records, record.data, record.len);
    }
    srt_resp_arg(&c->out, names.data, names.len);
    srt_resp_arg(&c->out, records.data, records.len);
    srt_bytes_free(&names);
    srt_bytes_free(&records);
    srt_bytes_free(&record);
}

static int shard_notices(const store *s, const store_shard *sh)
{
    int count = 0;
    size_t i;
    for (i = 0; i < s->notice_count; i++)
        count += s->notices[i].shard == sh;
    return count;
}

static void claim_answer(store_conn *c, store_shard *sh, store_id **ids, size_t count, int more, int timed)
{
    store *s = c->store;
    int64_t unproven = due_of(first_in(s, sh, 3, 1)), suspect = due_of(first_in(s, sh, 3, 2)), soon = FOREVER;
    if (!sh->paused) {
        soon = more || first_in(s, sh, 0, 0) ? 0 : due_of(first_in(s, sh, 1, 0));
        if (timed && earliest_overrun(s, sh) < soon)
            soon = earliest_overrun(s, sh);
    }
    if (earliest_popped(s, sh) < soon)
        soon = earliest_popped(s, sh);
    sh->wake = sh->paused ? 0 : soon < unproven ? soon : unproven;
    if (!sh->paused && suspect < sh->wake)
        sh->wake = suspect;
    if (sh->wake <= s->now_us)
        sh->wake = 0;
    srt_resp_array(&c->out, count ? 10 : 8);
    srt_resp_arg_int(&c->out, s->now_us);
    srt_resp_arg_int(&c->out, sh->claimed);
    srt_resp_arg_int(&c->out, soon);
    srt_resp_arg_int(&c->out, unproven);
    srt_resp_arg_int(&c->out, suspect);
    say_int(c, sh->paused + 2 * is_unfinished(s, sh) + (shard_notices(s, sh) > 0 ? 4 : 0));
    srt_resp_arg(&c->out, count ? &ids[0]->mode : "n", 1);
    say_int(c, count && ids[0]->whole);
    if (count)
        say_texts(c, ids, count);
}

static void take_run(store *s, store_shard *sh, store_id *id, char mode, int64_t ttr)
{
    if (id->open)
        store_violated(s, "%s: claimed while a run is open", id->name);
    id->running = 1;
    id->digit = id->first.count > STORE_SPILL ? '1' : '0';
    id->mode = mode;
    id->fence = id->open = sh->claimed;
    id->overrun = ttr ? s->now_us + ttr : 0;
}

static void settle_fail(store *s, store_id *id, int64_t time, int64_t limit, int *exhausted);

static void void_overrun(store *s, store_shard *sh)
{
    size_t i;
    for (i = 0; i < s->id_count; i++) {
        store_id *id = &s->ids[i];
        if (id->shard != sh || !id->overrun || id->overrun > s->now_us)
            continue;
        if (id->mode == 'p') { /* it was not acknowledged: a failure, due at once */
            int exhausted = 0;
            settle_fail(s, id, 0, 1000000, &exhausted);
            continue;
        }
        if (id->fence < sh->since)
            continue;
        id->first.due = s->now_us;
        id->first.place = 1;
        put_back(s, id);
    }
}

/* ARGV: generation, lease, seen, limit, doubt, ttr, fold */
static void do_claim(store_conn *c, store_shard *sh, const store_arg *argv)
{
    static const char modes[] = "nus";
    store *s = c->store;
    store_id *ids[1001], *id;
    size_t count = 0, i, limit = (size_t)number_of(argv[3]), payloads = 0;
    int64_t ttr = number_of(argv[5]);
    int doubt = (int)number_of(argv[4]), whole = !doubt && !ttr;
    if (number_of(argv[1]) != sh->lease) {
        srt_bytes_adds(&c->out, "-STALE ");
        say_line(c, sh->owner);
        return;
    }
    if (sh->claimed != number_of(argv[2]) && !s->forget_seen) {
        int later = sh->claimed > number_of(argv[2]) || s->answer_past;
        for (i = 0; later && i < s->id_count; i++)
            if (s->ids[i].shard == sh && s->ids[i].running && s->ids[i].fence == sh->claimed)
                ids[count++] = &s->ids[i];
        s->again++;
        claim_answer(c, sh, ids, count, 1, ttr > 0);
        return;
    }
    void_overrun(s, sh);
    if (sh->paused || limit == 0) {
        claim_answer(c, sh, ids, 0, 0, ttr > 0);
        return;
    }
    while (count < (doubt ? 1 : limit) && payloads < 40) {
        store_id *ready = doubt ? first_in(s, sh, 3, doubt) : first_in(s, sh, 0, 0);
        store_id *due = doubt ? NULL : first_in(s, sh, 1, 0);
        id = due_of(due) <= s->now_us && !(ready && ready->first.due < due->first.due) ? due : ready;
        if (!id || (doubt && id->first.due > s->now_us))
            break;
        if (count == 0)
            sh->claimed = advance(s, sh);
        take_run(s, sh, id, modes[doubt], ttr);
        payloads += (size_t)id->first.count;
        whole &= id->digit == '0';
        ids[count++] = id;
    }
    for (i = 0; i < count; i++)
        ids[i]->whole = whole;
    claim_answer(c, sh, ids, count, doubt ? count > 0 : count == limit || payloads >= 40, ttr > 0);
}

/* The first payload of an id goes to the morgue: the owner's hook is to be told. */
static void add_notice(store *s, store_id *id, int payload)
{
    store_notice *notice;
    if (s->notice_count == s->notice_cap) {
        s->notice_cap = s->notice_cap ? 2 * s->notice_cap : 64;
        s->notices = realloc(s->notices, s->notice_cap * sizeof *s->notices);
    }
    notice = &s->notices[s->notice_count++];
    memset(notice, 0, sizeof *notice);
    notice->id = id;
    notice->shard = id->shard;
    notice->payload = payload;
    notice->number = advance(s, id->shard);
    snprintf(notice->node, sizeof notice->node, "%s", id->shard->owner);
    s->noticed++;
}

static void number_text(int64_t number, char *text)
{
    srt_number_pack(text, (double)number);
}

/* The first notice of a node behind a number, or of any node that is not among `living`; NULL: none. */
static store_notice *next_notice(store *s, const store_shard *sh, const char *node, int64_t behind)
{
    store_notice *best = NULL;
    size_t i;
    for (i = 0; i < s->notice_count; i++) {
        store_notice *notice = &s->notices[i];
        if (notice->shard == sh && strcmp(notice->node, node) == 0 && notice->number > behind &&
            (!best || notice->number < best->number))
            best = notice;
    }
    return best;
}

static int among(const char *node, const store_arg *names, size_t count)
{
    size_t i;
    for (i = 0; i < count; i++)
        if (arg_is(names[i], node))
            return 1;
    return 0;
}

static int64_t packed_number(store_arg arg)
{
    uint64_t bits = 0;
    double number;
    size_t k;
    if (arg.len < 8)
        return 0;
    for (k = 0; k < 8; k++)
        bits = bits << 8 | (unsigned char)arg.data[k];
    memcpy(&number, &bits, 8);
    return (int64_t)number;
}

static void pack_notice(const store *s, srt_bytes *out, const store_notice *notice)
{
    store_record r;
    size_t len = notice->id->len;
    memset(&r, 0, sizeof r);
    r.count = 1;
    r.numbers[0] = notice->payload;
    r.stamps[0] = 1;
    pack_little(out, len, 4);
    srt_bytes_add(out, notice->id->name, len);
    pack_little(out, 1, 4);
    pack_record(out, &r, is_scored(s, notice->id));
}

#define STORE_TELL 4 /* notices an answer, so that there are more than one */

/* ARGV: generation, node, lease, number seen, limit, living nodes */
static void do_tell(store_conn *c, store_shard *sh, const store_arg *argv, size_t argc)
{
    store *s = c->store;
    store_notice *given[STORE_TELL];
    int64_t seen = packed_number(argv[3]);
    size_t count = 0, i;
    char me[72];
    arg_copy(me, sizeof me, argv[1]);
    while (count < STORE_TELL && (given[count] = next_notice(s, sh, me, count ? given[count - 1]->number : seen)))
        count++;
    for (i = 0; i < s->notice_count && count < STORE_TELL && argc > 5 && number_of(argv[2]) == sh->lease && sh->lease;
         i++) {
        store_notice *notice = &s->notices[i];
        if (notice->shard != sh || strcmp(notice->node, me) == 0 || among(notice->node, &argv[5], argc - 5))
            continue;
        if (find_member(s, notice->node) < s->member_count &&
            s->members[find_member(s, notice->node)].until_ms > s->now_us / 1000 + 400)
            store_violated(s, "a notice of a living node was taken over");
        if (s->no_heir)
            continue;
        s->taken_over++;
        notice->number = advance(s, sh);
        snprintf(notice->node, sizeof notice->node, "%s", me);
        given[count++] = notice;
    }
    srt_resp_array(&c->out, 2 + 2 * count);
    say_int(c, count == STORE_TELL);
    say_int(c, shard_notices(s, sh));
    for (i = 0; i < count; i++) {
        srt_bytes out;
        char number[8];
        srt_bytes_init(&out, seriatim_default_allocator());
        pack_notice(s, &out, given[i]);
        number_text(given[i]->number, number);
        srt_resp_arg(&c->out, number, sizeof number);
        srt_resp_arg(&c->out, out.data, out.len);
        srt_bytes_free(&out);
    }
}

/* ARGV: generation, node, numbers */
static void do_told(store_conn *c, store_shard *sh, const store_arg *argv, size_t argc)
{
    store *s = c->store;
    size_t i, k;
    for (i = 2; i < argc; i++)
        for (k = 0; k < s->notice_count; k++) {
            store_notice *notice = &s->notices[k];
            if (notice->shard != sh || notice->number != packed_number(argv[i]) || !arg_is(argv[1], notice->node))
                continue;
            if (!notice->told)
                store_violated(s, "%s: a notice went before its hook returned", notice->id->name);
            *notice = s->notices[--s->notice_count];
            break;
        }
    say_int(c, shard_notices(s, sh));
}

static int64_t fence_of(store_arg run)
{
    store_arg digits = {run.data + 2, run.len - 2};
    return number_of(digits);
}

static double packed_double(const char *at)
{
    uint64_t bits = 0;
    double number;
    size_t k;
    for (k = 0; k < 8; k++)
        bits = bits << 8 | (unsigned char)at[k];
    memcpy(&number, &bits, 8);
    return number;
}

static void drop_first(store_record *r, int count)
{
    r->count -= count;
    memmove(r->numbers, r->numbers + count, (size_t)r->count * sizeof *r->numbers);
    memmove(r->stamps, r->stamps + count, (size_t)r->count * sizeof *r->stamps);
}

#define STORE_CHECKPOINT 4 /* payloads that one call removes */

/* argv: id, run, time, stamp and score of the last payload that is done. Returns the digit of the answer. */
static char checkpoint_run(store *s, const store_arg *argv)
{
    store_id *id = store_find(s, argv[0].data, argv[0].len);
    int done = 0, more;
    if (!id || !run_is(id, argv[1]))
        return '0';
    check_settle(s, id, fence_of(argv[1]), 1);
    while (done < id->first.count && (double)id->first.stamps[done] <= packed_double(argv[3].data))
        done++;
    more = done > STORE_CHECKPOINT;
    done = more ? STORE_CHECKPOINT : done;
    check_in_order(s, id, done);
    drop_first(&id->first, done);
    id->first.retry = -1;
    return more ? '2' : '1';
}

/* argv: time, payload, limit, stamp of the first payload or nothing */
static void settle_snooze(store *s, store_id *id, const store_arg *argv)
{
    store_record *r = &id->first;
    if (argv[3].len == 8 && r->count && (int64_t)packed_double(argv[3].data) != r->stamps[0])
        store_violated(s, "%s: a payload that is not the first is replaced", id->name);
    r->mark = 0;
    r->due = s->now_us + number_of(argv[0]);
    r->place = 1;
    put_back(s, id);
}

/* argv: time, score, limit, action. What waits behind the run has higher scores: nothing of it is stale. */
static void settle_scored(store *s, store_id *id, const store_arg *argv)
{
    const store_record *r = &id->first;
    if (!is_scored(s, id) || number_of(argv[0]) != STORE_REMEMBERS || argv[1].len != 8)
        store_violated(s, "%s: a score is told that is not to be remembered", id->name);
    else if (r->count && packed_double(argv[1].data) != score_of(r, r->count - 1))
        store_violated(s, "%s: a run is done with another score than its highest", id->name);
    check_done(s, id);
    finish(s, id);
}

static void settle_fail(store *s, store_id *id, int64_t time, int64_t limit, int *exhausted)
{
    store_record *r = &id->first;
    if (r->count == 0) {
        finish(s, id);
        return;
    }
    r->retry++;
    r->mark = r->mark == 0 ? 0 : r->mark;
    r->due = s->now_us + time;
    r->place = 1;
    if (r->retry < limit) {
        put_back(s, id);
        return;
    }
    *exhausted = 1;
    id->buried[r->numbers[0]] = 1;
    drop_first(r, 1);
    r->retry = 0;
    r->due = s->now_us;
    r->place = 1;
    put_back(s, id);
}

static void settle_reject(store *s, store_id *id, store_arg stamps, int goes_on)
{
    store_record *r = &id->first;
    size_t at;
    int i;
    for (at = 0; at + 8 <= stamps.len; at += 8) {
        double stamp = packed_double(stamps.data + at);
        for (i = 0; i < r->count && r->stamps[i] != (int64_t)stamp; i++)
            ;
        if (i == r->count) {
            store_violated(s, "%s: an unknown payload is rejected", id->name);
            return;
        }
        id->buried[r->numbers[i]] = 1;
        r->count--;
        memmove(r->numbers + i, r->numbers + i + 1, (size_t)(r->count - i) * sizeof *r->numbers);
        memmove(r->stamps + i, r->stamps + i + 1, (size_t)(r->count - i) * sizeof *r->stamps);
    }
    if (goes_on)
        return;
    r->place = r->place == 0 && r->due <= s->now_us ? 0 : 1;
    if (r->count == 0)
        finish(s, id);
    else
        put_back(s, id);
}

/* The id if the run is still the caller's, or NULL. */
static store_id *settle_find(store *s, store_arg name, store_arg run, int outcome, int64_t *late)
{
    store_id *id = store_find(s, name.data, name.len);
    if (id && (run_is(id, run) || (s->no_fence && id->running))) {
        check_settle(s, id, fence_of(run), outcome);
        return id;
    }
    ++*late;
    return NULL;
}

/* Its claim, if it has one, is no whole any more. */
static void part_claim(store *s, const store_shard *sh, int64_t fence)
{
    size_t i;
    for (i = 0; i < s->id_count; i++)
        if (s->ids[i].shard == sh && s->ids[i].fence == fence)
            s->ids[i].whole = 0;
}

/* Settles all ids of a claim. Returns whether any id became due by it. */
static int settle_whole(store *s, store_shard *sh, store_arg run, size_t count, int64_t *late)
{
    int promoted = 0;
    size_t i, found = 0;
    for (i = 0; i < s->id_count; i++) {
        store_id *id = &s->ids[i];
        if (id->shard != sh || !id->running || id->fence != fence_of(run))
            continue;
        if (!id->whole)
            store_violated(s, "%s: settled with a claim that is no whole", id->name);
        check_settle(s, id, id->fence, 1);
        promoted |= id->behind.there;
        check_plain(s, id);
        check_done(s, id);
        finish(s, id);
        found++;
    }
    *late += (int64_t)(count - found);
    return promoted;
}

/* argv: id, run, time */
static void extend_run(store *s, const store_arg *argv)
{
    store_id *id = store_find(s, argv[0].data, argv[0].len);
    if (id && run_is(id, argv[1]) && id->overrun)
        id->overrun = s->now_us + number_of(argv[2]);
}

/* Of a group: how many ids it has, and in *named how many of them follow. */
static size_t group_size(const store_arg *group, size_t *named)
{
    int64_t count = number_of(group[1]);
    *named = count > 0 ? (size_t)count : 0;
    return (size_t)(count > 0 ? count : -count);
}

/*
 * ARGV: generation, lease, sequence, fold, groups, then run, count and ids each (or the count below zero of a whole
 * claim); then seven each: kind, id, run, time, text, limit, action
 */
static void do_settle(store_conn *c, store_shard *sh, const store_arg *argv, size_t argc)
{
    store *s = c->store;
    size_t groups = (size_t)number_of(argv[4]), at = 5, count = 0, done;
    const store_arg *dead[1001];
    char digits[1001];
    size_t digit_count = 0;
    int64_t late = 0;
    int promoted = 0;
    store_id *id;
    if (number_of(argv[1]) != sh->lease && !s->no_fence) {
        for (; groups > 0; groups--, at += 2 + done)
            s->refused += group_size(&argv[at], &done);
        s->refused += (argc - at) / 7;
        srt_resp_array(&c->out, 2);
        say_text(c, "STALE");
        say_text(c, sh->owner);
        return;
    }
    if (number_of(argv[2]) <= sh->settled) {
        srt_resp_array(&c->out, 1);
        say_text(c, "AGAIN");
        return;
    }
    sh->settled = number_of(argv[2]);
    for (; groups > 0; groups--, at += done) {
        store_arg run = argv[at];
        size_t size = group_size(&argv[at], &done);
        at += 2;
        if (done == 0)
            promoted |= settle_whole(s, sh, run, size, &late);
        else
            part_claim(s, sh, fence_of(run));
        for (size_t i = 0; i < done; i++)
            if ((id = settle_find(s, argv[at + i], run, 1, &late))) {
                promoted |= id->behind.there;
                check_plain(s, id);
                check_done(s, id);
                finish(s, id);
            }
    }
    for (; at + 7 <= argc; at += 7) {
        int exhausted = 0, release = arg_is(argv[at], "release");
        if (arg_is(argv[at], "extend")) {
            extend_run(s, &argv[at + 1]);
            continue;
        }
        part_claim(s, sh, fence_of(argv[at + 2]));
        if (arg_is(argv[at], "checkpoint")) {
            digits[digit_count++] = checkpoint_run(s, &argv[at + 1]);
            continue;
        }
        id = settle_find(s, argv[at + 1], argv[at + 2], !release, &late);
        if (!id)
            continue;
        promoted = 1;
        if (arg_is(argv[at], "fail"))
            settle_fail(s, id, number_of(argv[at + 3]), number_of(argv[at + 5]), &exhausted);
        else if (arg_is(argv[at], "fail+")) {
            int oldest = id->first.numbers[0];
            settle_fail(s, id, number_of(argv[at + 3]), number_of(argv[at + 5]), &exhausted);
            if (exhausted)
                add_notice(s, id, oldest);
        } else if (arg_is(argv[at], "reject+") || arg_is(argv[at], "bury+")) {
            add_notice(s, id, id->first.numbers[0]);
            settle_reject(s, id, argv[at + 6], arg_is(argv[at], "bury+"));
        } else if (arg_is(argv[at], "reject") || arg_is(argv[at], "bury"))
            settle_reject(s, id, argv[at + 6], arg_is(argv[at], "bury"));
        else if (arg_is(argv[at], "done"))
            settle_scored(s, id, &argv[at + 3]);
        else if (arg_is(argv[at], "snooze"))
            settle_snooze(s, id, &argv[at + 3]);
        else if (release)
            put_back(s, id);
        if (exhausted)
            dead[count++] = &argv[at + 1];
    }
    s->refused += (uint64_t)late;
    srt_resp_array(&c->out, 3 + count);
    say_int(c, late);
    say_int(c, promoted + 2 * is_unfinished(s, sh));
    srt_resp_arg(&c->out, digits, digit_count);
    for (at = 0; at < count; at++)
        srt_resp_arg(&c->out, dead[at]->data, dead[at]->len);
}

/* ARGV: generation, id, run, from */
static void do_slice(store_conn *c, const store_shard *sh, const store_arg *argv)
{
    store_id *id = store_find(c->store, argv[1].data, argv[1].len);
    int from = (int)number_of(argv[3]), i;
    srt_bytes out;
    if (!id || !run_is(id, argv[2])) {
        srt_bytes_adds(&c->out, "-STALE ");
        say_line(c, sh->owner);
        return;
    }
    srt_bytes_init(&out, seriatim_default_allocator());
    for (i = from; i < id->first.count && i < from + STORE_SLICE; i++)
        pack_entry(&out, &id->first, i, is_scored(c->store, id));
    srt_resp_array(&c->out, 2);
    srt_resp_arg(&c->out, out.data, out.len);
    say_text(c, "");
    srt_bytes_free(&out);
}

/* ---- Commands ------------------------------------------------------------------------------ */

static store_shard *shard_of_key(store *s, store_arg key)
{
    size_t i;
    for (i = 0; i < s->shard_count; i++)
        if (key.len == strlen(s->shards[i].prefix) + 5 && memcmp(key.data, s->shards[i].prefix, key.len - 5) == 0)
            return &s->shards[i];
    return NULL;
}

/* Another process measures the queues. */
static void do_sampler(store_conn *c)
{
    srt_resp_array(&c->out, 3);
    say_int(c, 0);
    say_int(c, 1);
    say_int(c, 0);
}

static void do_script(store_conn *c, int script, const store_arg *keys, size_t key_count, const store_arg *argv,
                      size_t argc)
{
    store_shard *sh = shard_of_key(c->store, keys[0]);
    if (script == srt_script_layout)
        do_layout(c, keys[0], argv[2]);
    else if (script == srt_script_heartbeat)
        do_beat(c, argv);
    else if (script == srt_script_sampler)
        do_sampler(c);
    else if (!sh || key_count != SRT_SHARD_KEYS || number_of(argv[0]) != 1)
        say_line(c, "-ERR keys");
    else if (script == srt_script_acquire)
        do_acquire(c, sh, argv, argc);
    else if (script == srt_script_claim)
        do_claim(c, sh, argv);
    else if (script == srt_script_settle)
        do_settle(c, sh, argv, argc);
    else if (script == srt_script_release)
        do_release(c, sh, argv);
    else if (script == srt_script_tell)
        do_tell(c, sh, argv, argc);
    else if (script == srt_script_told)
        do_told(c, sh, argv, argc);
    else if (script == srt_script_slice)
        do_slice(c, sh, argv);
    else if (script == srt_script_recover)
        do_recover(c, sh, argv);
    else
        say_line(c, "-ERR unknown script");
}

static int find_script(store_arg word, int by_text)
{
    size_t i;
    for (i = 0; i < SCRIPTS; i++) {
        const char *data = by_text ? store_scripts[i].text : store_scripts[i].sha;
        size_t len = by_text ? store_scripts[i].len : 40;
        if (word.len == len && memcmp(word.data, data, len) == 0)
            return (int)i;
    }
    return -1;
}

static void do_eval(store_conn *c, const store_arg *words, size_t count, int by_text)
{
    static const char *const errors[STORE_IN_DOUBT_FAULTS] = {"-LOADING Redis is loading", "-OOM command not allowed",
                                                              "-ERR something else"};
    store *s = c->store;
    int script = find_script(words[1], by_text);
    size_t keys = (size_t)number_of(words[2]);
    if (store_chance(s, s->noscript_ppm))
        memset(s->loaded, 0, sizeof s->loaded);
    if (script < 0 || count < 3 + keys) {
        say_line(c, "-ERR eval");
        return;
    }
    if (by_text)
        s->loaded[script] = 1;
    if (!s->loaded[script])
        say_line(c, "-NOSCRIPT No matching script.");
    else if (store_chance(s, s->errors_ppm))
        say_line(c, errors[store_random(s, STORE_IN_DOUBT_FAULTS)]);
    else
        do_script(c, script, words + 3, keys, words + 3 + keys, count - 3 - keys);
}

static void do_subscribe(store_conn *c, const store_arg *words, size_t count)
{
    size_t i;
    for (i = 1; i < count && c->channel_count < 2; i++) {
        arg_copy(c->channels[c->channel_count++], 96, words[i]);
        srt_resp_array(&c->out, 3);
        say_text(c, "subscribe");
        srt_resp_arg(&c->out, words[i].data, words[i].len);
        say_int(c, c->channel_count);
    }
}

static void do_command(store_conn *c, const store_arg *words, size_t count)
{
    char channel[160], text[160];
    c->store->commands++;
    if (arg_is(words[0], "EVALSHA") || arg_is(words[0], "EVAL")) {
        do_eval(c, words, count, words[0].len == 4);
    } else if (arg_is(words[0], "SUBSCRIBE")) {
        do_subscribe(c, words, count);
    } else if (arg_is(words[0], "PUBLISH")) {
        arg_copy(channel, sizeof channel, words[1]);
        arg_copy(text, sizeof text, words[2]);
        publish(c->store, channel, text);
        say_int(c, 0);
    } else if (arg_is(words[0], "PING")) {
        srt_resp_array(&c->out, 2);
        say_text(c, "pong");
        say_text(c, "");
    } else {
        say_line(c, "+OK");
    }
}

/* A line's number behind `mark`; 0 when the line is not whole. */
static size_t read_line(const char **at, const char *end, char mark, size_t *value)
{
    const char *p = *at;
    if (p == end || *p++ != mark)
        return 0;
    for (*value = 0; p < end && *p >= '0' && *p <= '9'; p++)
        *value = *value * 10 + (size_t)(*p - '0');
    if (end - p < 2)
        return 0;
    *at = p + 2;
    return 1;
}

/* Returns the bytes of one whole command, which was done; 0 when there is none. */
static size_t take_command(store_conn *c)
{
    const char *at = c->in.data, *end = at + c->in.len;
    store_arg *words;
    size_t count, i;
    if (!read_line(&at, end, '*', &count))
        return 0;
    words = malloc(count * sizeof *words);
    for (i = 0; i < count; i++) {
        if (!read_line(&at, end, '$', &words[i].len) || (size_t)(end - at) < words[i].len + 2)
            break;
        words[i].data = at;
        at += words[i].len + 2;
    }
    if (i == count)
        do_command(c, words, count);
    free(words);
    return i == count ? (size_t)(at - c->in.data) : 0;
}

void store_feed(store_conn *c, const char *data, size_t len)
{
    size_t used;
    srt_bytes_add(&c->in, data, len);
    while (c->in.len && (used = take_command(c)) > 0)
        srt_bytes_consume(&c->in, used);
}

/* ---- Poppers ------------------------------------------------------------------------------- */

/* Of the ids that are due the oldest, whatever is noted of them. */
static store_id *oldest_due(store *s, store_shard *sh)
{
    store_id *best = first_in(s, sh, 0, 0), *others[3];
    size_t i;
    others[0] = first_in(s, sh, 1, 0);
    others[1] = first_in(s, sh, 3, 1);
    others[2] = first_in(s, sh, 3, 2);
    for (i = 0; i < 3; i++)
        if (due_of(others[i]) <= s->now_us && (!best || others[i]->first.due < best->first.due))
            best = others[i];
    return best;
}

store_id *store_pop(store *s, size_t shard, int64_t ttr_us)
{
    store_shard *sh = &s->shards[shard];
    store_id *id;
    void_overrun(s, sh);
    id = sh->paused ? NULL : oldest_due(s, sh);
    if (!id || id->kills || id->fails)
        return NULL;
    if (id->open)
        store_violated(s, "%s: popped while a run is open", id->name);
    id->running = 1;
    id->digit = id->first.count > STORE_SPILL ? '1' : '0';
    id->mode = 'p';
    id->whole = 0;
    id->fence = id->open = advance(s, sh);
    id->overrun = s->now_us + ttr_us;
    wake_owner(s, sh, id->overrun);
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
        check_done(s, id);
        finish(s, id);
        s->pops_done++;
    } else {
        put_back(s, id);
    }
    if (id->first.there || id->running)
        wake_owner(s, id->shard, 0);
}
