/* sim.c - nodes on a fake clock: their memory, connections, threads and jobs. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sim_parts.h"
#include "store_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Memory -------------------------------------------------------------------------------- */

static void *sim_alloc(void *user, void *ptr, size_t old_size, size_t new_size)
{
    sim *s = user;
    (void)old_size;
    if (new_size == 0) {
        if (ptr)
            s->blocks--;
        free(ptr);
        return NULL;
    }
    if (s->chaos && store_chance(s->store, s->p->nomem))
        return NULL;
    if (!ptr)
        s->blocks++;
    return realloc(ptr, new_size);
}

/* ---- Nodes --------------------------------------------------------------------------------- */

int64_t sim_wall_ms(const sim *s)
{
    return (s->store->now_us - s->jumped_us) / 1000;
}

int64_t sim_local_now(const sim *s, const sim_node *n)
{
    return sim_wall_ms(s) - INT64_C(1790000000000) + n->skew_ms;
}

int sim_add_workers(sim *s, srt_node *node)
{
    seriatim_error error;
    size_t worker, i;
    for (i = 0; i < 2; i++) {
        seriatim_queue_settings q;
        seriatim_queue_settings_init(&q);
        q.name = s->store->queues[i].name;
        q.name_len = strlen(q.name);
        q.shards_count = (int64_t)s->store->queues[i].shards + (int64_t)i;
        q.batch_size = (int64_t)(i == 0 ? s->p->batch : 1);
        q.max_retry_count = MAX_RETRY;
        q.ttr = s->p->ttr;
        q.serial_shards = s->p->serial;
        q.exhausted_hook = i == 0;
        q.remember_score = s->store->remembers && i == 1 ? STORE_REMEMBERS / 1e6 : 0;
        if (srt_node_worker(node, &q, &worker, &error) != SERIATIM_OK)
            return 0;
    }
    return 1;
}

void sim_node_born(sim *s, sim_node *n)
{
    seriatim_allocator *mem = malloc(sizeof *mem); /* outlives the node; freed by node_gone */
    seriatim_node_settings settings;
    seriatim_error error;
    int i;
    memset(n, 0, sizeof *n);
    n->skew_ms = (int64_t)store_random(s->store, 1000000);
    snprintf(n->id, sizeof n->id, "node-%u", ++s->lives);
    memset(&settings, 0, sizeof settings);
    mem->alloc = sim_alloc;
    mem->user = s;
    settings.options.allocator = mem;
    settings.options.ns = STORE_NS;
    settings.id = n->id;
    settings.lease_ms = LEASE_MS;
    settings.poll_ms = 3600000; /* nothing may depend on it */
    settings.threads = s->p->threads;
    settings.scheduler = s->p->scheduler;
    for (i = 0; i < SRT_CHANNELS; i++)
        n->reconnect[i] = sim_local_now(s, n) + (int64_t)store_random(s->store, 20);
    if (srt_node_new(&settings, &n->node, &error) != SERIATIM_OK) {
        n->node = NULL;
        free(mem);
    } else if (!sim_add_workers(s, n->node) || srt_node_start(n->node, sim_local_now(s, n), &error) != SERIATIM_OK) {
        srt_node_free(n->node);
        n->node = NULL;
        free(mem);
    }
}

void sim_node_disconnect(sim *s, sim_node *n, int channel)
{
    if (n->conns[channel])
        store_disconnect(n->conns[channel]);
    n->conns[channel] = NULL;
    n->reconnect[channel] = sim_local_now(s, n) + 5 + (int64_t)store_random(s->store, 40);
}

void sim_node_gone(sim *s, sim_node *n, int64_t back_in)
{
    const seriatim_allocator *mem = n->node->mem;
    int i;
    for (i = 0; i < SRT_CHANNELS; i++)
        sim_node_disconnect(s, n, i);
    s->processed += n->node->stats.processed;
    s->refused += n->node->stats.refused;
    srt_node_free(n->node);
    free((void *)(uintptr_t)mem);
    n->node = NULL;
    n->born_again = sim_wall_ms(s) + back_in;
    s->last_fault = s->store->now_us;
}

void sim_node_crash(sim *s, sim_node *n)
{
    const char *data;
    size_t len;
    s->deaths++;
    if (n->conns[SRT_COMMANDS]) { /* some of what it wrote still arrives */
        srt_node_output(n->node, SRT_COMMANDS, &data, &len);
        store_feed(n->conns[SRT_COMMANDS], data, (size_t)store_random(s->store, len + 1));
    }
    sim_node_gone(s, n, (int64_t)store_random(s->store, 600));
}

/* ---- Bytes --------------------------------------------------------------------------------- */

static void connection_lost(sim *s, sim_node *n, int channel)
{
    sim_node_disconnect(s, n, channel);
    srt_node_disconnected(n->node, (srt_channel)channel, sim_local_now(s, n));
}

static size_t piece(sim *s, size_t len)
{
    return store_chance(s->store, 100000) ? (size_t)store_random(s->store, len) + 1 : len;
}

static int send_bytes(sim *s, sim_node *n, int channel)
{
    const char *data;
    size_t len;
    srt_node_output(n->node, (srt_channel)channel, &data, &len);
    if (len == 0)
        return 0;
    len = piece(s, len);
    store_feed(n->conns[channel], data, len);
    srt_node_sent(n->node, (srt_channel)channel, len);
    return 1;
}

/* A shard that is being acquired, as a node without that rule would see it: as its own. */
#define SEEN_AS_OWNED 100

/* Negative controls: the node is made to believe that a push claimed behind what it has seen, or that it owns the
 * shard. */
static void break_rules(const sim *s, srt_node *n, char *data, size_t len)
{
    size_t i, at;
    for (i = 0; (s->no_gaps || s->acquiring) && i < n->shard_count; i++) {
        srt_shard *h = n->shards[i];
        const srt_bytes *prefix = &h->keys->prefix;
        int acquires = s->acquiring && h->state == SRT_ACQUIRING && h->lease;
        for (at = 0; at + 1 + prefix->len + 16 <= len; at++) {
            srt_bytes seen;
            if (data[at] != '=' || memcmp(data + at + 1, prefix->data, prefix->len) != 0)
                continue;
            if (acquires) {
                h->state = SRT_OWNED;
                h->running += SEEN_AS_OWNED;
            }
            if (!s->no_gaps && !acquires)
                break;
            srt_bytes_init(&seen, seriatim_default_allocator());
            store_pack_double(&seen, (double)h->seen);
            memcpy(data + at + 1 + prefix->len + 8, seen.data, 8);
            srt_bytes_free(&seen);
            break;
        }
    }
}

static void restore_states(srt_node *n)
{
    size_t i;
    for (i = 0; i < n->shard_count; i++)
        if (n->shards[i]->running >= SEEN_AS_OWNED) {
            n->shards[i]->running -= SEEN_AS_OWNED;
            n->shards[i]->state = SRT_ACQUIRING;
        }
}

static int receive_bytes(sim *s, sim_node *n, int channel)
{
    srt_bytes *from = &n->conns[channel]->out;
    seriatim_error error = {0, ""};
    char *exact;
    size_t len;
    int status;
    if (from->len == 0 || store_chance(s->store, 300000))
        return 0;
    len = piece(s, from->len);
    exact = malloc(len);
    memcpy(exact, from->data, len);
    srt_bytes_consume(from, len);
    if (channel == SRT_WAKES)
        break_rules(s, n->node, exact, len);
    status = srt_node_input(n->node, (srt_channel)channel, exact, len, sim_local_now(s, n), &error);
    restore_states(n->node);
    free(exact);
    if (status == SERIATIM_PROTOCOL)
        store_violated(s->store, "protocol error: %s", error.message);
    if (status != SERIATIM_OK)
        connection_lost(s, n, channel);
    return 1;
}

static int redis_away(const sim *s)
{
    return s->outage && sim_wall_ms(s) >= s->down_from;
}

static void node_without_redis(sim *s, sim_node *n)
{
    int channel;
    for (channel = 0; s->outage != OUTAGE_STALL && channel < SRT_CHANNELS; channel++)
        if (n->conns[channel])
            connection_lost(s, n, channel);
        else if (sim_local_now(s, n) >= n->reconnect[channel])
            sim_node_disconnect(s, n, channel);
}

int sim_node_io(sim *s, sim_node *n)
{
    int channel, busy = 0;
    if (redis_away(s)) {
        node_without_redis(s, n);
        return 0;
    }
    for (channel = 0; channel < SRT_CHANNELS; channel++) {
        if (!n->conns[channel]) {
            if (sim_local_now(s, n) < n->reconnect[channel])
                continue;
            n->conns[channel] = store_connect(s->store);
            if (srt_node_connected(n->node, (srt_channel)channel, NULL, NULL, 0, sim_local_now(s, n)) != SERIATIM_OK)
                connection_lost(s, n, channel);
            busy = 1;
            continue;
        }
        busy |= send_bytes(s, n, channel);
        if (s->chaos && store_chance(s->store, s->p->cut)) {
            connection_lost(s, n, channel);
            continue;
        }
        busy |= receive_bytes(s, n, channel);
        if (n->conns[channel] && s->chaos && store_chance(s->store, s->p->cut))
            connection_lost(s, n, channel);
    }
    return busy;
}

/* ---- Threads ------------------------------------------------------------------------------- */

static int group_has(const srt_group *g)
{
    return g->ready_count || g->exhausted || g->quarantined.first || g->died.first;
}

static void check_alone(sim *s, sim_node *n)
{
    size_t i, running = 0, suspects = 0;
    for (i = 0; i < s->p->threads; i++) {
        const seriatim_delivery *d = n->threads[i].delivery;
        if (!d || d->kind != SERIATIM_RUN)
            continue;
        running++;
        suspects += d->jobs[0]->mode == 's';
    }
    if (suspects > 0 && running > 1)
        store_violated(s->store, "%s: a suspect does not run alone", n->id);
}

static int has_id(const seriatim_delivery *d, const seriatim_claimed *job)
{
    size_t i;
    for (i = 0; d && d->kind == SERIATIM_RUN && i < d->count; i++)
        if (d->jobs[i]->view.id_len == job->id_len && memcmp(d->jobs[i]->view.id, job->id, job->id_len) == 0)
            return 1;
    return 0;
}

/*
 * One process never runs one id twice at once, but for a run whose time is over; and where no process is killed or
 * frozen, no two processes do. After a failover that has forgotten that a node acquired a shard nobody can know of its
 * runs there: fences decide which of them is accepted.
 */
static void check_one_run(sim *s, const sim_node *n, const sim_thread *t, const seriatim_claimed *job)
{
    const char *forgotten = store_find(s->store, job->id, job->id_len)->shard->forgotten_owner;
    size_t i, k;
    for (i = 0; i < s->p->nodes; i++) {
        const sim_node *other = &s->nodes[i];
        if (!other->node || !(s->p->outages || (other == n && s->p->ttr <= 0)))
            continue;
        if (other != n && strcmp(forgotten, other->id) == 0)
            continue;
        for (k = 0; k < s->p->threads; k++)
            if (&other->threads[k] != t && has_id(other->threads[k].delivery, job))
                store_violated(s->store, "%.*s: begun by %s while %s runs it", (int)job->id_len, job->id, n->id,
                               other->id);
    }
}

/*
 * Some payloads are done before their run ends, at its begin or at its very end. Redis' outages are tried with seeds
 * that were chosen for other things, so there the choice takes no number of the seed's.
 */
static void checkpoint_some(sim *s, const sim_node *n, seriatim_delivery *d)
{
    size_t i, count;
    if (d->kind != SERIATIM_RUN || !s->chaos || (!s->p->outages && store_random(s->store, 100) >= 20))
        return;
    for (i = 0; i < d->count; i++) {
        const seriatim_claimed *job = seriatim_delivery_job(d, i);
        uint64_t chosen = s->p->outages ? (uint64_t)job->fence / 1000 : store_random(s->store, 1000000);
        if (chosen % 2 || store_find(s->store, job->id, job->id_len)->kills)
            continue;
        count = (size_t)(chosen / 2) % (job->payload_count + 1);
        srt_node_checkpoint(n->node, d, i, count, sim_local_now(s, n));
    }
}

static void begin_delivery(sim *s, sim_node *n, sim_thread *t)
{
    int64_t now = sim_local_now(s, n), takes = (int64_t)store_random(s->store, 8);
    size_t i;
    if (store_random(s->store, 100) < s->p->long_percent)
        takes = (int64_t)store_random(s->store, 3 * LEASE_MS);
    for (i = 0; i < t->delivery->count; i++) {
        const seriatim_claimed *job = seriatim_delivery_job(t->delivery, i);
        if (t->delivery->kind == SERIATIM_EXHAUSTED)
            continue;
        if (t->delivery->kind == SERIATIM_RUN)
            check_one_run(s, n, t, job);
        t->open[i] = store_handed(s->store, job, t->delivery->kind);
        s->handed++;
        s->stale += !t->open[i];
        if (s->p->clean && !t->open[i])
            store_violated(s->store, "%s: a stale run was handed out", n->id);
    }
    check_alone(s, n);
    checkpoint_some(s, n, t->delivery);
    t->ends = now + takes;
}

static void thread_take(sim *s, sim_node *n, sim_thread *t)
{
    srt_group *g = &n->node->groups[0];
    int status = srt_node_take(n->node, 0, sim_local_now(s, n), &t->delivery);
    if (status == SERIATIM_OK) {
        n->door |= g->waiting > 0 && group_has(g);
        begin_delivery(s, n, t);
        return;
    }
    t->delivery = NULL;
    if (status == SERIATIM_AGAIN) {
        g->waiting++;
        t->waiting = 1;
    }
}

static void outcome_of(sim *s, sim_thread *t, size_t i)
{
    seriatim_delivery *d = t->delivery;
    const seriatim_claimed *job = seriatim_delivery_job(d, i);
    size_t first = d->jobs[i]->checkpoint ? d->jobs[i]->checkpoint->wanted : 0;
    int status = SERIATIM_OK;
    if (d->kind == SERIATIM_DIED)
        status = seriatim_delivery_fail(d, i, "worker died", 11, 0.05);
    else if (store_random(s->store, 100) >= s->p->fail_percent || !s->chaos)
        status = seriatim_delivery_done(d, i);
    else if (first < job->payload_count && store_random(s->store, 20) == 0)
        status = seriatim_delivery_reject(d, i, &first, 1, "unreadable", 10);
    else if (store_random(s->store, 10) == 0)
        status = seriatim_delivery_snooze(d, i, (double)store_random(s->store, 500) / 1000,
                                          store_random(s->store, 2) ? "another" : NULL, 7);
    else if (store_random(s->store, 10) > 0)
        status = seriatim_delivery_fail(d, i, "wrong", 5, (double)store_random(s->store, 500) / 1000);
    (void)status;
    (void)job;
}

/*
 * What Redis has confirmed is gone there, unless a failover has taken it back. A run that is lost by a newer claim has
 * ended there.
 */
static void check_checkpoint(sim *s, const seriatim_delivery *d, size_t i)
{
    const srt_job *job = d->jobs[i];
    const store_id *id = store_find(s->store, job->view.id, job->view.id_len);
    if (job->lost && !job->old && !s->p->outages && id->open == job->view.fence)
        store_violated(s->store, "%s: its run counts as lost, and is not", id->name);
    if (!job->checkpoint || s->p->outages || srt_node_flushed(d) != SERIATIM_OK || id->open != job->view.fence)
        return;
    s->confirmed++;
    if ((size_t)id->first.count > job->view.payload_count - job->checkpoint->wanted)
        store_violated(s->store, "%s: %d payloads are left behind a checkpoint of %d that is confirmed", id->name,
                       id->first.count, (int)job->checkpoint->wanted);
}

/* Returns 0 when the job has killed the process. */
static int end_delivery(sim *s, sim_node *n, sim_thread *t)
{
    size_t i;
    checkpoint_some(s, n, t->delivery);
    for (i = 0; i < t->delivery->count; i++) {
        const seriatim_claimed *job = seriatim_delivery_job(t->delivery, i);
        const store_id *id = store_find(s->store, job->id, job->id_len);
        if (id->kills && t->delivery->kind == SERIATIM_RUN) {
            sim_node_crash(s, n);
            return 0;
        }
        if (t->delivery->kind == SERIATIM_EXHAUSTED) {
            if (t->delivery->notices)
                store_hooked(s->store, job);
            continue;
        }
        if (t->delivery->kind == SERIATIM_RUN)
            check_checkpoint(s, t->delivery, i);
        if (s->p->ttr > 0 && s->chaos && store_chance(s->store, 100000))
            srt_node_extend(n->node, t->delivery, i, 0.3, sim_local_now(s, n));
        outcome_of(s, t, i);
    }
    srt_node_settle(n->node, t->delivery, sim_local_now(s, n));
    t->delivery = NULL;
    return 1;
}

void sim_node_threads(sim *s, sim_node *n)
{
    size_t i, from = (size_t)store_random(s->store, s->p->threads);
    for (i = 0; i < s->p->threads; i++) {
        sim_thread *t = &n->threads[(i + from) % s->p->threads];
        if (t->delivery && t->ends <= sim_local_now(s, n) && !end_delivery(s, n, t))
            return;
        if (t->delivery)
            continue;
        if (t->waiting && !n->door)
            continue;
        if (t->waiting) {
            n->door = t->waiting = 0;
            n->node->groups[0].waiting--;
        }
        thread_take(s, n, t);
    }
}
