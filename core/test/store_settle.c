/* store_settle.c - the script settle in the model of Redis. */
#include "store_parts.h"

#include <string.h>

static int64_t fence_of(store_arg run)
{
    store_arg digits = {run.data + 2, run.len - 2};
    return store_number_of(digits);
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
    if (!id || !store_run_is(id, argv[1]))
        return '0';
    store_check_settle(s, id, fence_of(argv[1]), 1);
    while (done < id->first.count && (double)id->first.stamps[done] <= packed_double(argv[3].data))
        done++;
    more = done > STORE_CHECKPOINT;
    done = more ? STORE_CHECKPOINT : done;
    store_check_in_order(s, id, done);
    drop_first(&id->first, done);
    id->first.retry = -1;
    if (done > 0)
        id->first.mark = 0;
    return more ? '2' : '1';
}

/* argv: time, payload, limit, stamp of the first payload or nothing */
static void settle_snooze(store *s, store_id *id, const store_arg *argv)
{
    store_record *r = &id->first;
    if (argv[3].len == 8 && r->count && (int64_t)packed_double(argv[3].data) != r->stamps[0])
        store_violated(s, "%s: a payload that is not the first is replaced", id->name);
    r->mark = 0;
    r->due = s->now_us + store_number_of(argv[0]);
    r->place = 1;
    store_put_back(s, id);
}

/* argv: time, score, limit, action. What waits behind the run has higher scores: nothing of it is stale. */
static void settle_scored(store *s, store_id *id, const store_arg *argv)
{
    const store_record *r = &id->first;
    if (!store_is_scored(s, id) || store_number_of(argv[0]) != STORE_REMEMBERS || argv[1].len != 8)
        store_violated(s, "%s: a score is told that is not to be remembered", id->name);
    else if (r->count && packed_double(argv[1].data) != store_score_of(r, r->count - 1))
        store_violated(s, "%s: a run is done with another score than its highest", id->name);
    store_check_done(s, id);
    store_finish(s, id);
}

void store_settle_fail(store *s, store_id *id, int64_t time, int64_t limit, int *exhausted)
{
    store_record *r = &id->first;
    if (r->count == 0) {
        store_finish(s, id);
        return;
    }
    r->retry++;
    r->due = s->now_us + time;
    r->place = 1;
    if (r->retry < limit) {
        store_put_back(s, id);
        return;
    }
    *exhausted = 1;
    id->buried[r->numbers[0]] = 1;
    drop_first(r, 1);
    r->retry = 0;
    r->mark = 0;
    r->due = s->now_us;
    r->place = 1;
    store_put_back(s, id);
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
        store_finish(s, id);
    else
        store_put_back(s, id);
}

/* The id if the run is still the caller's, or NULL. */
static store_id *settle_find(store *s, store_arg name, store_arg run, int outcome, int64_t *late)
{
    store_id *id = store_find(s, name.data, name.len);
    if (id && (store_run_is(id, run) || (s->no_fence && id->running))) {
        store_check_settle(s, id, fence_of(run), outcome);
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
        store_check_settle(s, id, id->fence, 1);
        promoted |= id->behind.there;
        store_check_plain(s, id);
        store_check_done(s, id);
        store_finish(s, id);
        found++;
    }
    *late += (int64_t)(count - found);
    return promoted;
}

/* argv: id, run, time */
static void extend_run(store *s, const store_arg *argv)
{
    store_id *id = store_find(s, argv[0].data, argv[0].len);
    if (id && store_run_is(id, argv[1]) && id->overrun)
        id->overrun = s->now_us + store_number_of(argv[2]);
}

/* Of a group: how many ids it has, and in *named how many of them follow. */
static size_t group_size(const store_arg *group, size_t *named)
{
    int64_t count = store_number_of(group[1]);
    *named = count > 0 ? (size_t)count : 0;
    return (size_t)(count > 0 ? count : -count);
}

void store_do_settle(store_conn *c, store_shard *sh, const store_arg *argv, size_t argc)
{
    store *s = c->store;
    size_t groups = (size_t)store_number_of(argv[4]), at = 5, count = 0, done;
    const store_arg *dead[1001];
    char digits[1001];
    size_t digit_count = 0;
    int64_t late = 0;
    int promoted = 0;
    store_id *id;
    if (store_number_of(argv[1]) != sh->lease && !s->no_fence) {
        for (; groups > 0; groups--, at += 2 + done)
            s->refused += group_size(&argv[at], &done);
        s->refused += (argc - at) / 7;
        srt_resp_array(&c->out, 2);
        store_say_text(c, "STALE");
        store_say_text(c, sh->owner);
        return;
    }
    if (store_number_of(argv[2]) <= sh->settled) {
        srt_resp_array(&c->out, 1);
        store_say_text(c, "AGAIN");
        return;
    }
    sh->settled = store_number_of(argv[2]);
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
                store_check_plain(s, id);
                store_check_done(s, id);
                store_finish(s, id);
            }
    }
    for (; at + 7 <= argc; at += 7) {
        int exhausted = 0, release = store_arg_is(argv[at], "release");
        if (store_arg_is(argv[at], "extend")) {
            extend_run(s, &argv[at + 1]);
            continue;
        }
        part_claim(s, sh, fence_of(argv[at + 2]));
        if (store_arg_is(argv[at], "checkpoint")) {
            digits[digit_count++] = checkpoint_run(s, &argv[at + 1]);
            continue;
        }
        id = settle_find(s, argv[at + 1], argv[at + 2], !release, &late);
        if (!id)
            continue;
        promoted = 1;
        if (store_arg_is(argv[at], "fail"))
            store_settle_fail(s, id, store_number_of(argv[at + 3]), store_number_of(argv[at + 5]), &exhausted);
        else if (store_arg_is(argv[at], "fail+")) {
            int oldest = id->first.numbers[0];
            store_settle_fail(s, id, store_number_of(argv[at + 3]), store_number_of(argv[at + 5]), &exhausted);
            if (exhausted)
                store_add_notice(s, id, oldest);
        } else if (store_arg_is(argv[at], "reject+") || store_arg_is(argv[at], "bury+")) {
            store_add_notice(s, id, id->first.numbers[0]);
            settle_reject(s, id, argv[at + 6], store_arg_is(argv[at], "bury+"));
        } else if (store_arg_is(argv[at], "reject") || store_arg_is(argv[at], "bury"))
            settle_reject(s, id, argv[at + 6], store_arg_is(argv[at], "bury"));
        else if (store_arg_is(argv[at], "done"))
            settle_scored(s, id, &argv[at + 3]);
        else if (store_arg_is(argv[at], "snooze"))
            settle_snooze(s, id, &argv[at + 3]);
        else if (release)
            store_put_back(s, id);
        if (exhausted)
            dead[count++] = &argv[at + 1];
    }
    s->refused += (uint64_t)late;
    srt_resp_array(&c->out, 3 + count);
    store_say_int(c, late);
    if (promoted)
        sh->wake = 0;
    store_say_int(c, promoted + 2 * store_is_unfinished(s, sh));
    srt_resp_arg(&c->out, digits, digit_count);
    for (at = 0; at < count; at++)
        srt_resp_arg(&c->out, dead[at]->data, dead[at]->len);
}
