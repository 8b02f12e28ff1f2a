/* store_claims.c - the scripts claim, slice, tell and told in the model of Redis. */
#include "store_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

store_id *store_first_in(store *s, const store_shard *sh, int where, int mark)
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

int64_t store_due_of(const store_id *id)
{
    return id ? id->first.due : FOREVER;
}

size_t store_held(const store *s, const store_shard *sh)
{
    size_t held = 0, i;
    for (i = 0; i < s->id_count; i++)
        held += s->ids[i].shard == sh && s->ids[i].running && s->ids[i].whole && !s->ids[i].spread;
    return held;
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

static int shard_notices(const store *s, const store_shard *sh)
{
    int count = 0;
    size_t i;
    for (i = 0; i < s->notice_count; i++)
        count += s->notices[i].shard == sh;
    return count;
}

static void claim_answer(store_conn *c, store_shard *sh, int64_t fence, store_id **ids, size_t count, int more,
                         int timed)
{
    store *s = c->store;
    int64_t unproven = store_due_of(store_first_in(s, sh, 3, 1)), suspect = store_due_of(store_first_in(s, sh, 3, 2)),
            soon = FOREVER;
    if (!sh->paused) {
        soon = more || store_first_in(s, sh, 0, 0) ? 0 : store_due_of(store_first_in(s, sh, 1, 0));
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
    srt_resp_arg_int(&c->out, fence);
    srt_resp_arg_int(&c->out, soon);
    srt_resp_arg_int(&c->out, unproven);
    srt_resp_arg_int(&c->out, suspect);
    store_say_int(c, sh->paused + 2 * store_is_unfinished(s, sh) + (shard_notices(s, sh) > 0 ? 4 : 0));
    srt_resp_arg(&c->out, count ? &ids[0]->mode : "n", 1);
    store_say_int(c, count && ids[0]->whole);
    if (count)
        store_say_texts(c, ids, count);
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
    id->spread = id->handed_over = 0;
}

/* The claim that is answered again: the first behind the last one that the caller has seen. */
static int64_t first_unseen(const store *s, const store_shard *sh, int64_t seen)
{
    int64_t fence = sh->claimed;
    size_t i;
    if (seen == 0 || (s->again_by_held && store_held(s, sh) == 0))
        return fence;
    for (i = 0; i < s->id_count; i++) {
        const store_id *id = &s->ids[i];
        if (id->shard == sh && id->running && id->mode != 'p' && id->fence > seen && id->fence < fence)
            fence = id->fence;
    }
    return fence;
}

/* Answers what the caller has not seen; nothing if a failover forgot what it has seen. */
static void claim_again(store_conn *c, store_shard *sh, int64_t seen, int timed)
{
    store *s = c->store;
    store_id *ids[1001];
    int64_t fence = sh->claimed > seen ? first_unseen(s, sh, seen) : sh->claimed;
    int later = sh->claimed > seen || s->answer_past;
    size_t count = 0, i;
    for (i = 0; later && i < s->id_count; i++)
        if (s->ids[i].shard == sh && s->ids[i].running && s->ids[i].mode != 'p' && s->ids[i].fence == fence) {
            ids[count++] = &s->ids[i];
            s->missed += (uint64_t)s->ids[i].handed_over;
            s->ids[i].handed_over = 0;
        }
    s->again++;
    claim_answer(c, sh, fence, ids, count, 1, timed);
}

void store_void_overrun(store *s, store_shard *sh)
{
    size_t i;
    for (i = 0; i < s->id_count; i++) {
        store_id *id = &s->ids[i];
        if (id->shard != sh || !id->overrun || id->overrun > s->now_us)
            continue;
        if (id->mode == 'p') { /* it was not acknowledged: a failure, due at once */
            int exhausted = 0;
            store_settle_fail(s, id, 0, 1000000, &exhausted);
            continue;
        }
        if (id->fence < sh->since)
            continue;
        id->first.due = s->now_us;
        id->first.place = 1;
        store_put_back(s, id);
    }
}

void store_do_claim(store_conn *c, store_shard *sh, const store_arg *argv)
{
    static const char modes[] = "nus";
    store *s = c->store;
    store_id *ids[1001], *id;
    size_t count = 0, i, limit = (size_t)store_number_of(argv[3]), payloads = 0;
    int64_t ttr = store_number_of(argv[5]);
    int doubt = (int)store_number_of(argv[4]), whole = !doubt && !ttr;
    if (store_number_of(argv[1]) != sh->lease) {
        srt_bytes_adds(&c->out, "-STALE ");
        store_say_line(c, sh->owner);
        return;
    }
    sh->window = (size_t)store_number_of(argv[11]);
    if (sh->claimed != store_number_of(argv[2]) && !s->forget_seen) {
        claim_again(c, sh, store_number_of(argv[2]), ttr > 0);
        return;
    }
    store_void_overrun(s, sh);
    if (sh->paused || limit == 0) {
        claim_answer(c, sh, sh->claimed, ids, 0, 0, ttr > 0);
        return;
    }
    while (count < (doubt ? 1 : limit) && payloads < 40) {
        store_id *ready = doubt ? store_first_in(s, sh, 3, doubt) : store_first_in(s, sh, 0, 0);
        store_id *due = doubt ? NULL : store_first_in(s, sh, 1, 0);
        id = store_due_of(due) <= s->now_us && !(ready && ready->first.due < due->first.due) ? due : ready;
        if (!id || (doubt && id->first.due > s->now_us))
            break;
        if (count == 0)
            sh->claimed = store_advance(s, sh);
        take_run(s, sh, id, modes[doubt], ttr);
        payloads += (size_t)id->first.count;
        whole &= id->digit == '0';
        ids[count++] = id;
    }
    for (i = 0; i < count; i++)
        ids[i]->whole = whole;
    claim_answer(c, sh, sh->claimed, ids, count, doubt ? count > 0 : count == limit || payloads >= 40, ttr > 0);
}

void store_add_notice(store *s, store_id *id, int payload)
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
    notice->number = store_advance(s, id->shard);
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
        if (store_arg_is(names[i], node))
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
    store_pack_little(out, len, 4);
    srt_bytes_add(out, notice->id->name, len);
    store_pack_little(out, 1, 4);
    store_pack_record(out, &r, store_is_scored(s, notice->id));
}

#define STORE_TELL 4 /* notices an answer, so that there are more than one */

void store_do_tell(store_conn *c, store_shard *sh, const store_arg *argv, size_t argc)
{
    store *s = c->store;
    store_notice *given[STORE_TELL];
    int64_t seen = packed_number(argv[3]);
    size_t count = 0, i;
    char me[72];
    store_arg_copy(me, sizeof me, argv[1]);
    while (count < STORE_TELL && (given[count] = next_notice(s, sh, me, count ? given[count - 1]->number : seen)))
        count++;
    for (i = 0;
         i < s->notice_count && count < STORE_TELL && argc > 5 && store_number_of(argv[2]) == sh->lease && sh->lease;
         i++) {
        store_notice *notice = &s->notices[i];
        if (notice->shard != sh || strcmp(notice->node, me) == 0 || among(notice->node, &argv[5], argc - 5))
            continue;
        if (store_find_member(s, notice->node) < s->member_count &&
            s->members[store_find_member(s, notice->node)].until_ms > s->now_us / 1000 + 400)
            store_violated(s, "a notice of a living node was taken over");
        if (s->no_heir)
            continue;
        s->taken_over++;
        notice->number = store_advance(s, sh);
        snprintf(notice->node, sizeof notice->node, "%s", me);
        given[count++] = notice;
    }
    srt_resp_array(&c->out, 2 + 2 * count);
    store_say_int(c, count == STORE_TELL);
    store_say_int(c, shard_notices(s, sh));
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

void store_do_told(store_conn *c, store_shard *sh, const store_arg *argv, size_t argc)
{
    store *s = c->store;
    size_t i, k;
    for (i = 2; i < argc; i++)
        for (k = 0; k < s->notice_count; k++) {
            store_notice *notice = &s->notices[k];
            if (notice->shard != sh || notice->number != packed_number(argv[i]) || !store_arg_is(argv[1], notice->node))
                continue;
            if (!notice->told)
                store_violated(s, "%s: a notice went before its hook returned", notice->id->name);
            *notice = s->notices[--s->notice_count];
            break;
        }
    store_say_int(c, shard_notices(s, sh));
}

void store_do_slice(store_conn *c, const store_shard *sh, const store_arg *argv)
{
    store_id *id = store_find(c->store, argv[1].data, argv[1].len);
    int from = (int)store_number_of(argv[3]), i;
    srt_bytes out;
    if (!id || !store_run_is(id, argv[2])) {
        srt_bytes_adds(&c->out, "-STALE ");
        store_say_line(c, sh->owner);
        return;
    }
    srt_bytes_init(&out, seriatim_default_allocator());
    for (i = from; i < id->first.count && i < from + STORE_SLICE; i++)
        store_pack_entry(&out, &id->first, i, store_is_scored(c->store, id));
    srt_resp_array(&c->out, 2);
    srt_resp_arg(&c->out, out.data, out.len);
    store_say_text(c, "");
    srt_bytes_free(&out);
}
