/* store_members.c - the scripts of nodes in the model of Redis: layout, heartbeat, acquire, recover, release. */
#include "store_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void store_do_layout(store_conn *c, store_arg key, store_arg wanted)
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
        store_say_text(c, text);
        return;
    }
    store_say_line(c, "-ERR unknown layout");
}

size_t store_find_member(const store *s, const char *name)
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

void store_do_beat(store_conn *c, const store_arg *argv)
{
    store *s = c->store;
    int64_t now = s->now_us / 1000, time = store_number_of(argv[1]);
    char name[72], channel[96], text[32];
    size_t i;
    int known;
    store_arg_copy(name, sizeof name, argv[0]);
    store_arg_copy(channel, sizeof channel, argv[3]);
    note_absence(s, now, time);
    for (i = s->member_count; i-- > 0;)
        if (s->members[i].until_ms <= now)
            drop_member(s, i);
    i = store_find_member(s, name);
    known = i < s->member_count;
    if (time > 0) {
        if (!known)
            s->member_count++;
        store_arg_copy(s->members[i].name, sizeof s->members[i].name, argv[0]);
        store_arg_copy(s->members[i].description, sizeof s->members[i].description, argv[2]);
        s->members[i].until_ms = now + time;
        s->members[i].lease_ms = time;
        s->members[i].extended = 0;
    } else if (known) {
        drop_member(s, i);
    }
    if ((time > 0) != known)
        store_publish(s, channel, known ? "leave" : "join", strlen(known ? "leave" : "join"));
    qsort(s->members, s->member_count, sizeof *s->members, by_expiry);
    s->renewed_ms = s->member_count ? now : 0;
    srt_resp_array(&c->out, 4 + 2 * s->member_count);
    snprintf(text, sizeof text, "%lld", (long long)s->now_us);
    store_say_text(c, text);
    store_say_text(c, "");
    srt_resp_arg_int(&c->out, s->away_until_ms > now ? s->away_until_ms - now : 0);
    srt_resp_arg_int(&c->out, s->gap_ms);
    for (i = 0; i < s->member_count; i++) {
        store_say_text(c, s->members[i].name);
        store_say_text(c, s->members[i].description);
    }
}

/* The next claim answers it as a death. */
static void report(store *s, store_shard *sh, store_id *id, int64_t *deaths)
{
    if (*deaths == 0)
        sh->claimed = store_advance(s, sh);
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
    if (id->mode != 'b' && (id->first.mark == 2 || id->mode == 'o') && id->first.count) {
        report(s, sh, id, deaths);
        return;
    }
    if (id->mode != 'b') {
        id->first.mark = id->first.mark == 1 ? 2 : 1;
        id->first.due = s->now_us;
        id->first.place = 3;
    }
    store_put_back(s, id);
}

static int64_t fence_of(store_arg run)
{
    store_arg digits = {run.data + 2, run.len - 2};
    return store_number_of(digits);
}

/* The run of an id that the owner names, the latest of several; NULL if it names none. argv: from the first id on. */
static const store_arg *known_run(store_arg id, const store_arg *argv, size_t argc)
{
    const store_arg *found = NULL;
    size_t k;
    for (k = 0; k + 1 < argc; k += 2)
        if (argv[k].len == id.len && memcmp(argv[k].data, id.data, id.len) == 0 &&
            (!found || fence_of(*found) < fence_of(argv[k + 1])))
            found = &argv[k + 1];
    return found;
}

/*
 * The last claim of the owner that is there: those behind it were forgotten by a failover. Pushes may have claimed for
 * the owner since.
 */
static int64_t last_heard(store *s, const store_shard *sh, const store_arg *argv, size_t argc)
{
    int64_t heard = sh->claimed, fence;
    size_t k;
    for (k = 5; !s->hears_last_claim && store_arg_is(argv[2], "1") && k + 1 < argc; k += 2) {
        const store_id *id = store_find(s, argv[k].data, argv[k].len);
        fence = fence_of(argv[k + 1]);
        if (fence <= heard && !(id && store_run_is(id, argv[k + 1])) &&
            known_run(argv[k], argv + 5, argc - 5) == &argv[k + 1])
            heard = fence - 1;
    }
    return heard;
}

static int is_known(const store_id *id, const store_arg *argv, size_t argc)
{
    store_arg name = {id->name, id->len};
    const store_arg *run = known_run(name, argv + 5, argc - 5);
    return run && store_run_is(id, *run);
}

/* Of the owner's own runs, those that it does not know are left for recover.lua, or reported. */
static int64_t keep_known(store *s, store_shard *sh, int64_t heard, const store_arg *argv, size_t argc)
{
    int64_t deaths = 0;
    size_t i;
    for (i = 0; i < s->id_count; i++) {
        store_id *id = &s->ids[i];
        if (id->shard != sh || !id->running || id->mode == 'm' || id->mode == 'b' || id->mode == 'p' ||
            id->fence < sh->since || (id->fence <= heard && is_known(id, argv, argc)))
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

int store_is_unfinished(const store *s, const store_shard *sh)
{
    size_t i;
    for (i = 0; i < s->id_count; i++)
        if (s->ids[i].shard == sh && s->ids[i].running && s->ids[i].mode == 'm')
            return 1;
    return sh->pending;
}

void store_do_acquire(store_conn *c, store_shard *sh, const store_arg *argv, size_t argc)
{
    store *s = c->store;
    int mine = store_arg_is(argv[1], sh->owner);
    int64_t deaths = 0, heard = 0, number = sh->owner[0] ? sh->lease : sh->claimed;
    size_t i;
    if (store_number_of(argv[4]) != number || (!mine && !store_arg_is(argv[3], sh->owner))) {
        srt_resp_array(&c->out, 3);
        store_say_text(c, "TAKEN");
        store_say_text(c, sh->owner);
        srt_resp_arg_int(&c->out, number);
        return;
    }
    if (store_arg_is(argv[1], sh->forgotten_owner))
        sh->forgotten_owner[0] = '\0';
    sh->lease = store_advance(s, sh);
    sh->wake = 0;
    sh->window = 0;
    for (i = 0; i < s->id_count; i++) {
        store_id *id = &s->ids[i];
        id->whole &= id->shard != sh;
        if (!mine && id->shard == sh && id->running && id->mode != 'p') {
            id->open = 0; /* the node that had it may not settle it any more */
            sh->pending = 1;
        }
    }
    if (mine) {
        heard = last_heard(s, sh, argv, argc);
        deaths = keep_known(s, sh, heard, argv, argc);
    } else {
        store_arg_copy(sh->owner, sizeof sh->owner, argv[1]);
        heard = sh->claimed = sh->since = sh->lease;
        sh->settled = 0;
    }
    srt_resp_array(&c->out, 5);
    store_say_text(c, mine ? "KEPT" : "OK");
    srt_resp_arg_int(&c->out, sh->lease);
    srt_resp_arg_int(&c->out, deaths ? 0 : heard);
    store_say_int(c, deaths);
    store_say_int(c, store_is_unfinished(s, sh));
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
        store_add_payload(&id->first, n->numbers[i], n->stamps[i]);
    n->count -= moved;
    memmove(n->numbers, n->numbers + moved, (size_t)n->count * sizeof *n->numbers);
    memmove(n->stamps, n->stamps + moved, (size_t)n->count * sizeof *n->stamps);
    if (n->count <= STORE_SLICE)
        store_put_back(s, id);
}

void store_do_recover(store_conn *c, store_shard *sh, const store_arg *argv)
{
    store *s = c->store;
    int64_t recovered = 0, deaths = 0;
    size_t at = store_arg_is(argv[3], "u") ? 0 : (size_t)store_number_of(argv[3]), i;
    int pending = sh->pending;
    char cursor[24] = "u";
    if (store_number_of(argv[1]) != sh->lease) {
        srt_bytes_adds(&c->out, "-STALE ");
        store_say_line(c, sh->owner);
        return;
    }
    sh->wake = 0;
    if (pending)
        at = recover_some(s, sh, at, &recovered, &deaths);
    for (i = 0; !pending && i < s->id_count; i++)
        if (s->ids[i].shard == sh && s->ids[i].running && s->ids[i].mode == 'm') {
            unite_some(s, &s->ids[i]);
            break;
        }
    if (sh->pending)
        snprintf(cursor, sizeof cursor, "%lu", (unsigned long)at);
    else if (!pending && !store_is_unfinished(s, sh))
        cursor[0] = '\0';
    srt_resp_array(&c->out, 4);
    store_say_text(c, cursor);
    store_say_int(c, recovered);
    store_say_int(c, deaths);
    store_say_int(c, 1);
}

void store_do_release(store_conn *c, store_shard *sh, const store_arg *argv)
{
    store *s = c->store;
    char channel[160];
    size_t i;
    if (store_number_of(argv[1]) != sh->lease) {
        store_say_text(c, "STALE");
        return;
    }
    for (i = 0; i < s->id_count; i++)
        if (s->ids[i].shard == sh && s->ids[i].running && s->ids[i].mode != 'm' && s->ids[i].mode != 'p') {
            store_say_text(c, "BUSY");
            return;
        }
    sh->owner[0] = '\0';
    sh->lease = sh->wake = 0;
    sh->window = 0;
    store_arg_copy(channel, sizeof channel, argv[2]);
    if (channel[0])
        store_publish(s, channel, sh->prefix, strlen(sh->prefix));
    store_say_text(c, "OK");
}
