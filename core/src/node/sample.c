/*
 * sample.c - a node measures all queues of the namespace for their histories, while it is the one that does.
 *
 * A round every ten seconds: asks whether it is this node's (sampler.lua), looks for queues by some calls of SCAN, then
 * measures the idle queues, many in a call (sample_idle.lua), and of each other one reads the layout and the shards and
 * writes a sample. One request is under way at a time, so that claims and settles never wait behind more than one short
 * call. Beside them goes the one that renews the lease of a long round.
 */
#include "node/node_state.h"

#include "wire/keys.h"

#include <stdio.h>
#include <string.h>

#define SAMPLE_SCANS 5       /* of a round, 4,000 keys each; a larger keyspace takes several rounds */
#define SAMPLE_MOST 100000   /* queues */
#define SAMPLE_SLOW_MS 60000 /* without an answer for this time a new round begins */

enum { SAMPLE_ROUND, SAMPLE_LEASE }; /* a request's place: it is the one under way, or renews the lease */

/* Sends the request and keeps it as the one under way. If memory is short, the round ends. */
static void sample_send(srt_node *n, srt_request *r, srt_sampling step)
{
    srt_sampler *s = &n->sampler;
    s->step = SRT_SAMPLING_NOTHING;
    if (!r)
        return;
    r->kind = SRT_ASK_SAMPLE;
    r->number = s->rounds;
    if (srt_cluster_send(&n->cluster, r) == SERIATIM_OK)
        s->step = step;
}

static void sample_ask(srt_node *n, srt_sampling step, const char *const *words, size_t count)
{
    srt_request *r = srt_session_begin(srt_cluster_pool(&n->cluster), srt_script_none, NULL, 0);
    size_t i;
    for (i = 0; r && i < count; i++)
        srt_request_text(r, words[i]);
    sample_send(n, r, step);
}

static void sample_scan(srt_node *n)
{
    srt_sampler *s = &n->sampler;
    srt_queue_names *found = &s->names[!s->shown];
    srt_request *r;
    s->scans++;
    if (s->master == 0 && strcmp(found->cursor, "0") == 0) {
        srt_queue_names_clear(found);
        s->is_whole = 1;
    }
    r = srt_queue_names_request(found, srt_cluster_pool(&n->cluster), n->registry.ns.data);
    if (r && n->cluster.many)
        srt_request_route(r, SRT_ROUTE_PEER, srt_cluster_master(&n->cluster, s->master));
    sample_send(n, r, SRT_SAMPLING_NAMES);
}

/* Has the scan come to the end of the last master? Else it goes on with the next one. */
static int sample_scanned_all(srt_node *n)
{
    srt_sampler *s = &n->sampler;
    if (!srt_queue_names_complete(&s->names[!s->shown]))
        return 0;
    s->master = srt_cluster_master(&n->cluster, s->master + 1) ? s->master + 1 : 0;
    return s->master == 0;
}

/* Reads the layout of the queue at this place, then its shards. */
static void sample_one(srt_node *n, size_t place)
{
    srt_sampler *s = &n->sampler;
    srt_bytes key;
    s->queue = s->names[s->shown].names[place];
    memset(&s->sample, 0, sizeof s->sample);
    s->sample.since_us = s->is_whole ? s->before_us : 0;
    s->soon_us = SRT_FOREVER;
    s->shard = 0;
    srt_bytes_init(&key, n->mem);
    srt_key_layout(&key, n->registry.ns.data, s->queue.data, s->queue.len);
    srt_bytes_addc(&key, '\0');
    if (!key.failed) {
        const char *const words[] = {"GET", key.data};
        sample_ask(n, SRT_SAMPLING_LAYOUT, words, 2);
    }
    srt_bytes_free(&key);
}

/* Measures the queue behind the last one, or ends the round. */
static void sample_next(srt_node *n)
{
    srt_sampler *s = &n->sampler;
    const srt_queue_names *names = &s->names[s->shown];
    size_t left;
    s->step = SRT_SAMPLING_NOTHING;
    if (n->stopping)
        return;
    if (s->busy_next < s->busy_count) {
        sample_one(n, s->busy[s->busy_next++]);
        return;
    }
    left = names->count > s->next ? names->count - s->next : 0;
    if (left == 0)
        return;
    if (s->group == 0) {
        sample_one(n, s->next++);
        return;
    }
    s->group = left < SRT_IDLE_QUEUES ? left : SRT_IDLE_QUEUES;
    sample_send(n,
                srt_idle_request(srt_cluster_pool(&n->cluster), n->registry.ns.data, &names->names[s->next], s->group,
                                 s->is_whole ? s->before_us : 0),
                SRT_SAMPLING_IDLE);
}

static void sample_shards(srt_node *n)
{
    srt_sampler *s = &n->sampler;
    unsigned left = s->shards - s->shard;
    s->asked = left < s->together ? left : s->together;
    sample_send(n,
                srt_sample_request(srt_cluster_pool(&n->cluster), n->registry.ns.data, s->queue.data, s->queue.len,
                                   s->generation, s->used, s->shard, s->asked),
                SRT_SAMPLING_SHARDS);
}

/* All shards of the queue were read: writes its figures. */
static void sample_write(srt_node *n)
{
    srt_sampler *s = &n->sampler;
    s->sample.lag_us = s->sample.time_us > s->soon_us ? s->sample.time_us - s->soon_us : 0;
    sample_send(n,
                srt_history_request(srt_cluster_pool(&n->cluster), n->registry.ns.data, s->queue.data, s->queue.len,
                                    &s->sample),
                SRT_SAMPLING_WRITE);
}

/* ---- Answers ------------------------------------------------------------------------------- */

static void sample_on_renewed(srt_node *n, const srt_reply *reply, const seriatim_error *error)
{
    if (error || !srt_reply_is_list(reply, 3) || srt_token_int(&reply->tokens[1]) != 1)
        n->sampler.step = SRT_SAMPLING_NOTHING; /* another process measures */
}

static void sample_on_lease(srt_node *n, const srt_reply *reply)
{
    srt_sampler *s = &n->sampler;
    s->step = SRT_SAMPLING_NOTHING;
    if (!srt_reply_is_list(reply, 3) || srt_token_int(&reply->tokens[1]) != 1)
        return;
    s->before_us = srt_token_int(&reply->tokens[3]);
    s->next = s->scans = s->busy_count = s->busy_next = 0;
    s->group = s->together > 1;
    s->is_whole = 0;
    sample_scan(n);
}

static void sample_on_scan(srt_node *n, const srt_reply *reply)
{
    srt_sampler *s = &n->sampler;
    srt_queue_names *found = &s->names[!s->shown];
    s->step = SRT_SAMPLING_NOTHING;
    if (srt_queue_names_take(found, n->registry.ns.data, reply, SAMPLE_MOST) != SERIATIM_OK)
        return;
    if (sample_scanned_all(n)) {
        s->shown = !s->shown;
    } else if (s->scans < SAMPLE_SCANS) {
        sample_scan(n);
        return;
    } else {
        s->is_whole = 0;
    }
    sample_next(n);
}

/* [how many were looked at, the place of each that is not idle, from 1...] */
static void sample_on_idle(srt_node *n, const srt_reply *reply)
{
    srt_sampler *s = &n->sampler;
    int64_t seen = reply->count > 1 ? srt_token_int(&reply->tokens[1]) : 0;
    size_t i;
    s->busy_count = s->busy_next = 0;
    if (reply->tokens[0].type != SRT_ARRAY || seen < 1 || seen > (int64_t)s->group) {
        s->group = 0; /* not an answer of this script: the queues are measured one by one */
        sample_next(n);
        return;
    }
    for (i = 2; i < reply->count && s->busy_count < SRT_IDLE_QUEUES; i++) {
        int64_t place = srt_token_int(&reply->tokens[i]);
        if (place >= 1 && place <= seen)
            s->busy[s->busy_count++] = s->next + (size_t)place - 1;
    }
    s->next += (size_t)seen;
    sample_next(n);
}

static void sample_on_layout(srt_node *n, const srt_reply *reply)
{
    srt_sampler *s = &n->sampler;
    const srt_token *text = &reply->tokens[0];
    srt_layout layout;
    if (text->type == SRT_STRING && srt_layout_read(text->data, text->len, &layout, NULL) == SERIATIM_OK) {
        s->generation = layout.generation;
        s->used = layout.old > layout.shards ? layout.old : layout.shards;
        s->shards = layout.most; /* also those that hold nothing but the figures of jobs that have ended */
        sample_shards(n);
    } else {
        sample_next(n);
    }
}

static void sample_on_shards(srt_node *n, const srt_reply *reply)
{
    srt_sampler *s = &n->sampler;
    const srt_token *at = &reply->tokens[1];
    int64_t soon;
    if (!srt_reply_is_list(reply, 5)) {
        sample_next(n);
        return;
    }
    s->sample.time_us = srt_token_int(&at[0]);
    s->sample.processed += srt_token_int(&at[1]);
    s->sample.failed += srt_token_int(&at[2]);
    s->sample.pushed += srt_token_int(&at[3]);
    soon = srt_token_int(&at[4]);
    s->soon_us = soon < s->soon_us ? soon : s->soon_us;
    s->shard += s->asked;
    if (s->shard < s->shards)
        sample_shards(n);
    else
        sample_write(n);
}

/*
 * A Redis that refuses keys of several shards in one call (a proxy, a cluster) is asked for one at a time from then on.
 * Idle queues are measured one by one for the rest of the round, whatever was refused.
 */
static void sample_refused(srt_node *n, const seriatim_error *error)
{
    srt_sampler *s = &n->sampler;
    if (s->step == SRT_SAMPLING_IDLE) {
        s->group = 0;
        sample_next(n);
        return;
    }
    if (s->step == SRT_SAMPLING_SHARDS && s->asked > 1 && s->together > 1 && error->status != SERIATIM_GENERATION) {
        s->together = 1;
        sample_shards(n);
        return;
    }
    if (!s->warned && error->status != SERIATIM_GENERATION) {
        s->warned = 1;
        srt_node_tell(n, SERIATIM_EVENT_WARNING, error->status, "a queue cannot be measured for the history: %s",
                      error->message);
    }
    if (s->step == SRT_SAMPLING_LAYOUT || s->step == SRT_SAMPLING_SHARDS || s->step == SRT_SAMPLING_WRITE) {
        sample_next(n);
    } else {
        s->step = SRT_SAMPLING_NOTHING;
    }
}

void srt_node_sampled(srt_node *n, const srt_request *r, const srt_reply *reply, const seriatim_error *error)
{
    srt_sampler *s = &n->sampler;
    if (r->number != s->rounds || s->step == SRT_SAMPLING_NOTHING) /* the answer belongs to a round that has ended */
        return;
    if (r->place == SAMPLE_LEASE) {
        sample_on_renewed(n, reply, error);
        return;
    }
    s->heard = 1;
    if (error)
        sample_refused(n, error);
    else if (s->step == SRT_SAMPLING_LEASE)
        sample_on_lease(n, reply);
    else if (s->step == SRT_SAMPLING_NAMES)
        sample_on_scan(n, reply);
    else if (s->step == SRT_SAMPLING_IDLE)
        sample_on_idle(n, reply);
    else if (s->step == SRT_SAMPLING_LAYOUT)
        sample_on_layout(n, reply);
    else if (s->step == SRT_SAMPLING_SHARDS)
        sample_on_shards(n, reply);
    else
        sample_next(n);
}

/* ---- Time ---------------------------------------------------------------------------------- */

void srt_sampler_init(srt_node *n)
{
    srt_sampler *s = &n->sampler;
    srt_queue_names_init(&s->names[0], n->mem);
    srt_queue_names_init(&s->names[1], n->mem);
}

void srt_sampler_free(srt_node *n)
{
    srt_queue_names_free(&n->sampler.names[0]);
    srt_queue_names_free(&n->sampler.names[1]);
}

static srt_request *sample_lease(srt_node *n, int goes_on)
{
    return srt_sampler_request(srt_cluster_pool(&n->cluster), n->registry.ns.data, n->id.data, n->id.len, goes_on);
}

/* Not if no answers come: another process may get them. */
static void sample_renew(srt_node *n, int64_t now)
{
    srt_sampler *s = &n->sampler;
    srt_request *r;
    if (s->step <= SRT_SAMPLING_LEASE || now < s->renew_at || now >= s->heard_at + SRT_SAMPLER_LEASE_MS ||
        n->stopping || !srt_node_may_send(n))
        return;
    s->renew_at = now + SRT_SAMPLER_LEASE_MS / 2;
    r = sample_lease(n, 1);
    if (!r)
        return;
    r->kind = SRT_ASK_SAMPLE;
    r->number = s->rounds;
    r->place = SAMPLE_LEASE;
    srt_cluster_send(&n->cluster, r);
}

void srt_node_sample(srt_node *n, int64_t now)
{
    srt_sampler *s = &n->sampler;
    if (s->heard)
        s->heard_at = now;
    s->heard = 0;
    sample_renew(n, now);
    if (now < s->at || (s->step != SRT_SAMPLING_NOTHING && now < s->heard_at + SAMPLE_SLOW_MS) || !n->shard_count ||
        n->stopping || !srt_node_may_send(n))
        return;
    s->at = now + SRT_SAMPLE_EVERY_MS;
    s->heard_at = now;
    s->renew_at = now + SRT_SAMPLER_LEASE_MS / 2;
    if (s->together == 0)
        s->together = n->cluster.many ? 1 : SRT_SAMPLE_SHARDS; /* the shards of a queue have slots of their own */
    s->rounds++;
    sample_send(n, sample_lease(n, 0), SRT_SAMPLING_LEASE);
}
