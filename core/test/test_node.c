/*
 * test_node.c - nodes on a fake clock against a model of Redis, with every fault at random.
 *
 * SEED=n ROUNDS=m test_node replays; a failure prints its seed. ONLY=*f36* runs the tests of these names. script/soak
 * makes 200 rounds.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"

#define MAX_NODES 6
#define MAX_THREADS 5
#define LEASE_MS 400
#define MAX_RETRY 3

/* Kinds of absence of Redis. */
#define OUTAGES 5
enum {
    OUTAGE_KILL = 1,      /* connections end; what it knew is kept */
    OUTAGE_STALL = 2,     /* connections stay, nothing is answered */
    OUTAGE_LIST_LOST = 4, /* as KILL, and the nodes' list is gone */
    OUTAGE_JUMP = 8,      /* none: its clock jumps */
    OUTAGE_FAILOVER = 16  /* as KILL, and it forgets the last moments before */
};

/* What goes wrong in a round: chances are parts in a million, each step of a node. */
typedef struct profile {
    const char *name;
    unsigned nodes, threads, batch;
    unsigned cut, noscript, error, crash, freeze, stop, quiet, pause, nomem;
    unsigned abandon_percent;
    unsigned killers, fail_percent, long_percent, huge_percent, delay_percent;
    double ttr;
    int serial, clean, scheduler;
    int64_t chaos_ms;
    unsigned outage; /* of Redis, each step of the round */
    int outages;     /* which kinds, see begin_outage */
    unsigned pops;   /* each step of the round */
} profile;

#define POPPERS 6

/* What a popper holds; id NULL: nothing. */
typedef struct sim_popper {
    store_id *id;
    int64_t fence, until_us;
} sim_popper;

typedef struct sim_thread {
    seriatim_delivery *delivery;
    int64_t ends;
    int waiting, open[64];
} sim_thread;

typedef struct sim_node {
    srt_node *node;
    char id[32];
    store_conn *conns[SRT_CHANNELS];
    int64_t reconnect[SRT_CHANNELS];
    int64_t skew_ms, frozen_until, born_again, next_tick, abandon_at, pulse_until;
    sim_thread threads[MAX_THREADS];
    int stopping, door;
} sim_node;

typedef struct sim {
    const profile *p;
    store *store;
    sim_node nodes[MAX_NODES];
    int chaos;
    unsigned lives, deaths;
    uint64_t processed, refused, handed, stale, confirmed;
    int64_t owned_blocks;
    size_t blocks; /* of memory in nodes' hands */
    int64_t last_fault;
    int outage;                    /* the kind that is under way */
    int64_t down_from, down_until; /* Redis is away between these */
    int64_t jumped_us;             /* Redis' clock less ours */
    store_image replica;           /* of a failover */
    sim_popper poppers[POPPERS];
} sim;

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

/* Our own clock: Redis' may jump. */
static int64_t wall_ms(const sim *s)
{
    return (s->store->now_us - s->jumped_us) / 1000;
}

static int64_t local_now(const sim *s, const sim_node *n)
{
    return wall_ms(s) - INT64_C(1790000000000) + n->skew_ms;
}

static int add_workers(sim *s, srt_node *node)
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

static void node_born(sim *s, sim_node *n)
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
        n->reconnect[i] = local_now(s, n) + (int64_t)store_random(s->store, 20);
    if (srt_node_new(&settings, &n->node, &error) != SERIATIM_OK) {
        n->node = NULL;
        free(mem);
    } else if (!add_workers(s, n->node) || srt_node_start(n->node, local_now(s, n), &error) != SERIATIM_OK) {
        srt_node_free(n->node);
        n->node = NULL;
        free(mem);
    }
}

static void node_disconnect(sim *s, sim_node *n, int channel)
{
    if (n->conns[channel])
        store_disconnect(n->conns[channel]);
    n->conns[channel] = NULL;
    n->reconnect[channel] = local_now(s, n) + 5 + (int64_t)store_random(s->store, 40);
}

/* The process is gone, whatever it did. */
static void node_gone(sim *s, sim_node *n, int64_t back_in)
{
    const seriatim_allocator *mem = n->node->mem;
    int i;
    for (i = 0; i < SRT_CHANNELS; i++)
        node_disconnect(s, n, i);
    s->processed += n->node->stats.processed;
    s->refused += n->node->stats.refused;
    srt_node_free(n->node);
    free((void *)(uintptr_t)mem);
    n->node = NULL;
    n->born_again = wall_ms(s) + back_in;
    s->last_fault = s->store->now_us;
}

static void node_crash(sim *s, sim_node *n)
{
    const char *data;
    size_t len;
    s->deaths++;
    if (n->conns[SRT_COMMANDS]) { /* some of what it wrote still arrives */
        srt_node_output(n->node, SRT_COMMANDS, &data, &len);
        store_feed(n->conns[SRT_COMMANDS], data, (size_t)store_random(s->store, len + 1));
    }
    node_gone(s, n, (int64_t)store_random(s->store, 600));
}

/* ---- Bytes --------------------------------------------------------------------------------- */

static void connection_lost(sim *s, sim_node *n, int channel)
{
    node_disconnect(s, n, channel);
    srt_node_disconnected(n->node, (srt_channel)channel, local_now(s, n));
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
    status = srt_node_input(n->node, (srt_channel)channel, exact, len, local_now(s, n), &error);
    free(exact);
    if (status == SERIATIM_PROTOCOL)
        store_violated(s->store, "protocol error: %s", error.message);
    if (status != SERIATIM_OK)
        connection_lost(s, n, channel);
    return 1;
}

static int redis_away(const sim *s)
{
    return s->outage && wall_ms(s) >= s->down_from;
}

static void node_without_redis(sim *s, sim_node *n)
{
    int channel;
    for (channel = 0; s->outage != OUTAGE_STALL && channel < SRT_CHANNELS; channel++)
        if (n->conns[channel])
            connection_lost(s, n, channel);
        else if (local_now(s, n) >= n->reconnect[channel])
            node_disconnect(s, n, channel);
}

static int node_io(sim *s, sim_node *n)
{
    int channel, busy = 0;
    if (redis_away(s)) {
        node_without_redis(s, n);
        return 0;
    }
    for (channel = 0; channel < SRT_CHANNELS; channel++) {
        if (!n->conns[channel]) {
            if (local_now(s, n) < n->reconnect[channel])
                continue;
            n->conns[channel] = store_connect(s->store);
            if (srt_node_connected(n->node, (srt_channel)channel, NULL, NULL, 0, local_now(s, n)) != SERIATIM_OK)
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
 * frozen, no two processes do.
 */
static void check_one_run(sim *s, const sim_node *n, const sim_thread *t, const seriatim_claimed *job)
{
    size_t i, k;
    for (i = 0; i < s->p->nodes; i++) {
        const sim_node *other = &s->nodes[i];
        if (!other->node || !(s->p->outages || (other == n && s->p->ttr <= 0)))
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
        srt_node_checkpoint(n->node, d, i, count, local_now(s, n));
    }
}

static void begin_delivery(sim *s, sim_node *n, sim_thread *t)
{
    int64_t now = local_now(s, n), takes = (int64_t)store_random(s->store, 8);
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
    int status = srt_node_take(n->node, 0, local_now(s, n), &t->delivery);
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

/* What Redis has confirmed is gone there, unless a failover has taken it back. */
static void check_checkpoint(sim *s, const seriatim_delivery *d, size_t i)
{
    const srt_job *job = d->jobs[i];
    const store_id *id = store_find(s->store, job->view.id, job->view.id_len);
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
            node_crash(s, n);
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
            srt_node_extend(n->node, t->delivery, i, 0.3, local_now(s, n));
        outcome_of(s, t, i);
    }
    srt_node_settle(n->node, t->delivery, local_now(s, n));
    t->delivery = NULL;
    return 1;
}

static void node_threads(sim *s, sim_node *n)
{
    size_t i, from = (size_t)store_random(s->store, s->p->threads);
    for (i = 0; i < s->p->threads; i++) {
        sim_thread *t = &n->threads[(i + from) % s->p->threads];
        if (t->delivery && t->ends <= local_now(s, n) && !end_delivery(s, n, t))
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

/* ---- A step -------------------------------------------------------------------------------- */

/* Its wall clock is off by up to 5 s; what it says of that is wrong by half a beat's round trip at most. */
static void node_vitals(sim *s, sim_node *n, int64_t now)
{
    int64_t ahead_ms = n->skew_ms % 10000 - 5000, told = n->node->heartbeat.skew_ms - ahead_ms;
    if (n->node->heartbeat.has_skew && !(s->p->outages & OUTAGE_JUMP) && (told < -501 || told > 501))
        store_violated(s->store, "%s: its clock is %lld ms ahead, not %lld", n->id, (long long)ahead_ms,
                       (long long)n->node->heartbeat.skew_ms);
    if (srt_heartbeat_due(n->node, now))
        srt_node_vitals(n->node, 1 + (int64_t)store_random(s->store, 1000000),
                        s->store->now_us + (ahead_ms - now) * 1000);
}

static void node_tick(sim *s, sim_node *n, int busy)
{
    srt_group *g = &n->node->groups[0];
    int64_t now = local_now(s, n);
    node_vitals(s, n, now);
    if (!busy && now < n->next_tick && srt_timers_next(n->node) >= n->next_tick &&
        n->node->quarantine.step == SRT_QUARANTINE_NONE && !n->node->stopping)
        return;
    n->next_tick = srt_node_tick(n->node, now);
    n->door |= g->wake_pending && g->waiting > 0;
    g->wake_pending = 0;
}

static void node_orders(sim *s, sim_node *n)
{
    const profile *p = s->p;
    int64_t now = local_now(s, n);
    seriatim_event event;
    while (srt_node_event(n->node, now, &event) == SERIATIM_OK) {
        if (getenv("VERBOSE"))
            fprintf(stderr, "%lld %s event %d %lld %s\n", (long long)(s->store->now_us / 1000 % 1000000), n->id,
                    event.kind, (long long)event.number, event.text);
        if (event.kind == SERIATIM_EVENT_RECOVERED &&
            (event.number == 1) != (strstr(event.text, "recovered 1 run in ") != NULL))
            store_violated(s->store, "%s: %s", n->id, event.text);
        if (p->clean && (event.kind == SERIATIM_EVENT_REFUSED || event.kind == SERIATIM_EVENT_LOST))
            store_violated(s->store, "%s: %s", n->id, event.text);
    }
    if (now >= n->pulse_until)
        srt_node_pulse(n->node, now);
    if (!s->chaos)
        return;
    if (store_chance(s->store, p->freeze)) {
        n->frozen_until = wall_ms(s) + (int64_t)store_random(s->store, 4 * LEASE_MS);
        s->last_fault = s->store->now_us;
    }
    if (store_chance(s->store, p->freeze / 2))
        n->pulse_until = now + (int64_t)store_random(s->store, 4 * LEASE_MS);
    if (store_chance(s->store, p->quiet))
        srt_node_quiet(n->node, now);
    if (!n->stopping && (store_chance(s->store, p->stop) || (n->node->quiet && store_chance(s->store, 5000)))) {
        n->stopping = 1;
        srt_node_stop(n->node, now);
        n->abandon_at =
            store_random(s->store, 100) < p->abandon_percent ? now + (int64_t)store_random(s->store, 500) : SRT_NEVER;
    }
}

static void node_step(sim *s, sim_node *n)
{
    int64_t wall = wall_ms(s);
    int busy;
    if (!n->node) {
        if (wall >= n->born_again)
            node_born(s, n);
        return;
    }
    if (wall < n->frozen_until)
        return;
    if (s->chaos && store_chance(s->store, s->p->crash)) {
        node_crash(s, n);
        return;
    }
    busy = node_io(s, n);
    node_orders(s, n);
    node_tick(s, n, busy);
    node_threads(s, n);
    if (!n->node)
        return;
    if (n->stopping && local_now(s, n) >= n->abandon_at) {
        srt_node_abandon(n->node, local_now(s, n));
        n->abandon_at = SRT_NEVER;
    }
    if (n->node->stopped)
        node_gone(s, n, (int64_t)store_random(s->store, 500));
}

/* Poppers beside the nodes: some acknowledge in time, some late, some hand back, some are never heard of again. */
static void poppers_step(sim *s)
{
    store *st = s->store;
    size_t i;
    for (i = 0; i < POPPERS; i++) {
        sim_popper *popper = &s->poppers[i];
        if (popper->id && st->now_us >= popper->until_us) {
            if (store_random(st, 10))
                store_popped(st, popper->id, popper->fence, store_random(st, 5) != 0);
            popper->id = NULL;
        } else if (!popper->id && store_chance(st, s->p->pops)) {
            int64_t ttr = 20000 + (int64_t)store_random(st, 400000);
            popper->id = store_pop(st, (size_t)store_random(st, st->shard_count), ttr);
            popper->fence = popper->id ? popper->id->fence : 0;
            popper->until_us = st->now_us + (int64_t)store_random(st, (uint64_t)(ttr + ttr / 4));
        }
    }
}

static void clients_step(sim *s)
{
    store *st = s->store;
    const profile *p = s->p;
    size_t i, count = store_random(st, 4) == 0 ? 1 : 0;
    if (!s->chaos)
        return;
    for (i = 0; i < count; i++) {
        store_id *id = &st->ids[store_random(st, st->id_count)];
        int64_t delay = store_random(st, 100) < p->delay_percent ? (int64_t)store_random(st, 500000) : 0;
        size_t k, many = store_random(st, 100) < p->huge_percent ? 30 : 1;
        if (id->kills && id->pushed)
            continue;
        for (k = 0; k < (id->kills ? 1 : many); k++)
            store_push(st, id, delay);
    }
    poppers_step(s);
    if (store_chance(st, p->pause))
        store_pause(st, (size_t)store_random(st, st->shard_count), (int)store_random(st, 2));
}

/* Redis goes, or its clock jumps: from half a lease time to three, or ten. */
static void begin_outage(sim *s)
{
    static const int64_t tenths[] = {5, 8, 12, 30};
    int64_t jump = (int64_t)store_random(s->store, 20 * LEASE_MS) - 10 * LEASE_MS;
    do
        s->outage = 1 << store_random(s->store, OUTAGES);
    while (!(s->outage & s->p->outages));
    s->down_from = wall_ms(s);
    s->down_until = s->down_from + LEASE_MS * tenths[store_random(s->store, 4)] / 10;
    if (s->outage == OUTAGE_JUMP) {
        s->store->now_us += jump * 1000;
        s->jumped_us += jump * 1000;
        s->outage = 0;
    } else if (s->outage == OUTAGE_FAILOVER) {
        store_copy(s->store, &s->replica);
        s->down_from += (int64_t)store_random(s->store, LEASE_MS / 4);
    }
}

/* Redis is back. At times the first to be heard is a node that was not there before. */
static void end_outage(sim *s)
{
    int64_t late = store_random(s->store, 2) ? 60 : 0;
    size_t i, channel;
    if (s->outage != OUTAGE_STALL)
        memset(s->store->loaded, 0, sizeof s->store->loaded);
    if (s->outage == OUTAGE_FAILOVER)
        store_restore(s->store, &s->replica);
    if (s->outage == OUTAGE_LIST_LOST)
        s->store->member_count = 0, s->store->renewed_ms = s->store->away_until_ms = 0;
    for (i = 0; i < s->p->nodes; i++)
        if (!s->nodes[i].node)
            s->nodes[i].born_again = wall_ms(s);
        else
            for (channel = 0; channel < SRT_CHANNELS; channel++)
                s->nodes[i].reconnect[channel] += late;
    s->outage = 0;
}

static void outages_step(sim *s)
{
    if (s->outage && wall_ms(s) >= s->down_until)
        end_outage(s);
    else if (!s->outage && s->chaos && store_chance(s->store, s->p->outage))
        begin_outage(s);
}

static void sim_step(sim *s)
{
    size_t i, from = (size_t)store_random(s->store, s->p->nodes);
    s->store->now_us += 1000 + (int64_t)store_random(s->store, 4000);
    outages_step(s);
    clients_step(s);
    for (i = 0; i < s->p->nodes; i++)
        node_step(s, &s->nodes[(i + from) % s->p->nodes]);
}

/* ---- The end of a round -------------------------------------------------------------------- */

static const sim_node *owner_of(const sim *s, const store_shard *sh)
{
    size_t i;
    for (i = 0; i < s->p->nodes; i++)
        if (s->nodes[i].node && strcmp(s->nodes[i].id, sh->owner) == 0)
            return &s->nodes[i];
    return NULL;
}

static const srt_shard *shard_of(const srt_node *n, const store_shard *sh)
{
    size_t i;
    for (i = 0; i < n->shard_count; i++)
        if (n->shards[i]->keys->prefix.len == strlen(sh->prefix) &&
            memcmp(n->shards[i]->keys->prefix.data, sh->prefix, strlen(sh->prefix)) == 0)
            return n->shards[i];
    return NULL;
}

static void check_idle(sim *s)
{
    size_t i, k;
    for (i = 0; i < s->store->id_count; i++)
        if (s->store->ids[i].running || s->store->ids[i].open)
            store_violated(s->store, "%s: still running after the drain", s->store->ids[i].name);
    for (i = 0; i < s->p->nodes; i++) {
        const srt_node *n = s->nodes[i].node;
        if (n->held_count || n->stats.running || n->quarantine.step != SRT_QUARANTINE_NONE || n->groups[0].exhausted ||
            n->groups[0].held || n->groups[0].quarantine_claims)
            store_violated(s->store, "%s: not idle after the drain", s->nodes[i].id);
        for (k = 0; k < n->shard_count; k++)
            if (!srt_shard_idle(n->shards[k]))
                store_violated(s->store, "%s: shard %d is not idle after the drain", s->nodes[i].id, (int)k);
    }
}

static void check_payloads(sim *s)
{
    size_t i;
    for (i = 0; i < s->store->id_count; i++) {
        store_id *id = &s->store->ids[i];
        while (id->expected < id->pushed && id->buried[id->expected])
            id->expected++;
        if (id->expected != id->pushed)
            store_violated(s->store, "%s: %d of %d payloads are done", id->name, id->expected, id->pushed);
        if (id->kills && id->pushed && !id->buried[0])
            store_violated(s->store, "%s: kills and is not in the morgue", id->name);
    }
}

/* Everybody has a fair share, knows it, and nobody else thinks so, too. */
static int shares_are_even(sim *s, char *why, size_t cap)
{
    size_t queue, i;
    unsigned k;
    for (queue = 0; queue < 2; queue++) {
        unsigned least = 1000, most = 0;
        for (i = 0; i < s->p->nodes; i++) {
            const srt_node *n = s->nodes[i].node;
            unsigned count = 0;
            for (k = 0; k < s->store->queues[queue].shards; k++) {
                const store_shard *sh = &s->store->shards[s->store->queues[queue].from + k];
                const srt_shard *own = n ? shard_of(n, sh) : NULL;
                int owned = own && own->state == SRT_OWNED;
                count += owned != 0;
                if (owned != (owner_of(s, sh) == &s->nodes[i])) {
                    snprintf(why, cap, "%s: %s a shard %s, which %s owns", s->nodes[i].id,
                             owned ? "thinks it has" : "does not know of", sh->prefix, sh->owner);
                    return 0;
                }
            }
            least = count < least ? count : least;
            most = count > most ? count : most;
        }
        if (most > least + 1) {
            snprintf(why, cap, "queue %d: one node has %u shards, another %u", (int)queue, most, least);
            return 0;
        }
    }
    return 1;
}

static void run_for(sim *s, int64_t ms)
{
    int64_t until = s->store->now_us + ms * 1000;
    while (s->store->now_us < until && !s->store->violation[0])
        sim_step(s);
}

static void calm(sim *s)
{
    size_t i;
    s->chaos = 0;
    s->store->errors_ppm = s->store->noscript_ppm = 0;
    for (i = 0; i < s->store->shard_count; i++)
        store_pause(s->store, i, 0);
    for (i = 0; i < s->p->nodes; i++) {
        sim_node *n = &s->nodes[i];
        n->pulse_until = 0;
        if (n->node && n->node->quiet && !n->stopping) {
            n->stopping = 1;
            n->abandon_at = SRT_NEVER;
            srt_node_stop(n->node, local_now(s, n));
        }
    }
}

static int all_live(const sim *s)
{
    size_t i;
    for (i = 0; i < s->p->nodes; i++)
        if (!s->nodes[i].node || s->nodes[i].stopping || s->nodes[i].frozen_until > wall_ms(s))
            return 0;
    return 1;
}

static int any_lives(const sim *s)
{
    size_t i;
    for (i = 0; i < s->p->nodes; i++)
        if (s->nodes[i].node)
            return 1;
    return 0;
}

/* With VERBOSE: what is open, here and there. */
static void dump(const sim *s)
{
    size_t i, k;
    for (i = 0; getenv("VERBOSE") && i < s->store->id_count; i++) {
        const store_id *id = &s->store->ids[i];
        if (id->first.there)
            fprintf(stderr, "%s in %s of %s: place %d mark %d due %lld ms ago, running %d, behind %d\n", id->name + 3,
                    id->shard->prefix, id->shard->owner, id->first.place, id->first.mark,
                    (long long)(s->store->now_us - id->first.due) / 1000, id->running, id->behind.there);
    }
    for (i = 0; getenv("VERBOSE") && i < s->p->nodes; i++) {
        const srt_node *n = s->nodes[i].node;
        fprintf(stderr, "%s:%s", s->nodes[i].id, n ? "" : " gone\n");
        if (!n)
            continue;
        fprintf(
            stderr,
            " quarantine %d held %d waiting %d quarantined %d doubts %d stopping %d left %d heartbeats %d next %lld\n",
            n->quarantine.step, (int)n->held_count, (int)n->groups[0].waiting, (int)n->groups[0].quarantined.count,
            (int)n->groups[0].quarantine_claims, n->stopping, n->left, n->heartbeat.in_flight,
            (long long)(s->nodes[i].next_tick - local_now(s, &s->nodes[i])));
        for (k = 0; k < n->shard_count; k++) {
            const srt_shard *h = n->shards[k];
            if (h->state != SRT_FOREIGN || h->wanted)
                fprintf(stderr,
                        "  %.*s state %d wanted %d claiming %d settling %d slicing %d reconcile %d paused %d more %d "
                        "due %d "
                        "unproven %d suspect %d ready %d pending %d apart %d running %d wake %d\n",
                        (int)h->keys->prefix.len, h->keys->prefix.data, h->state, h->wanted, h->claiming, h->settling,
                        h->slicing, h->reconcile, h->paused, h->more, h->due_at != SRT_NEVER,
                        h->unproven_at != SRT_NEVER, h->suspect_at != SRT_NEVER, (int)h->ready.count,
                        (int)h->pending.count, (int)h->quarantined, (int)h->running, h->wake_at != SRT_NEVER);
        }
    }
}

static void drain(sim *s)
{
    char why[160] = "";
    int64_t until = s->store->now_us + 60000000;
    while (!(store_empty(s->store) && all_live(s)) && s->store->now_us < until && !s->store->violation[0])
        sim_step(s);
    if (!store_empty(s->store) || !all_live(s))
        dump(s);
    if (!store_empty(s->store))
        store_violated(s->store, "not drained");
    else if (!all_live(s))
        store_violated(s->store, "a node does not stop");
    run_for(s, 3 * LEASE_MS + 200); /* the longest job whose time to run is over may still be in a thread */
    if (s->store->violation[0])
        return; /* a node may be gone */
    if (!shares_are_even(s, why, sizeof why))
        store_violated(s->store, "%s", why);
    check_idle(s);
    check_payloads(s);
}

static void stop_all(sim *s)
{
    int64_t until = s->store->now_us + 3000000;
    size_t i;
    for (i = 0; i < s->p->nodes; i++) {
        sim_node *n = &s->nodes[i];
        if (!n->node)
            continue;
        n->stopping = 1;
        n->abandon_at = SRT_NEVER;
        srt_node_stop(n->node, local_now(s, n));
    }
    while (any_lives(s) && s->store->now_us < until && !s->store->violation[0]) {
        sim_step(s);
        for (i = 0; i < s->p->nodes; i++)
            if (!s->nodes[i].node)
                s->nodes[i].born_again = INT64_MAX;
    }
    if (any_lives(s))
        store_violated(s->store, "a node does not stop");
    for (i = 0; i < s->store->shard_count; i++)
        if (s->store->shards[i].owner[0])
            store_violated(s->store, "%s was not released", s->store->shards[i].prefix);
    if (s->store->member_count)
        store_violated(s->store, "a node has not left");
}

/* ---- Rounds -------------------------------------------------------------------------------- */

typedef struct totals {
    unsigned lives, deaths, rounds;
    uint64_t handed, stale, refused, commands, noticed, taken_over, retold, confirmed, pops, pops_done, pops_refused;
} totals;

static void round_free(sim *s, totals *sum)
{
    size_t i;
    for (i = 0; i < s->p->nodes; i++)
        if (s->nodes[i].node)
            node_gone(s, &s->nodes[i], 0);
    if (s->blocks && !s->store->violation[0])
        store_violated(s->store, "%d blocks of memory are lost", (int)s->blocks);
    sum->rounds++;
    sum->lives += s->lives;
    sum->deaths += s->deaths;
    sum->handed += s->handed;
    sum->stale += s->stale;
    sum->refused += s->refused;
    sum->commands += s->store->commands;
    sum->noticed += s->store->noticed;
    sum->taken_over += s->store->taken_over;
    sum->retold += s->store->retold;
    sum->confirmed += s->confirmed;
    sum->pops += s->store->pops;
    sum->pops_done += s->store->pops_done;
    sum->pops_refused += s->store->pops_refused;
}

typedef struct control {
    int no_fence, forget_seen, no_absence, no_heir;
} control;

/* Returns the text of the first violation, or "". */
static void run_round(const profile *p, uint64_t seed, control c, totals *sum, char *violation, size_t cap)
{
    sim s;
    size_t i;
    memset(&s, 0, sizeof s);
    s.p = p;
    s.store = store_new(seed, 40);
    s.store->errors_ppm = p->error;
    s.store->noscript_ppm = p->noscript;
    s.store->no_fence = c.no_fence;
    s.store->remembers = !p->outages; /* rounds of outages have settles of whole claims alone */
    s.store->forget_seen = c.forget_seen;
    s.store->no_absence = c.no_absence;
    s.store->answer_past = p->outages == OUTAGE_FAILOVER && seed % 2;
    s.store->nobody_died = p->outages != 0;
    s.store->no_heir = c.no_heir;
    for (i = 0; i < p->killers; i++)
        s.store->ids[i * 7].kills = 1;
    s.chaos = 1;
    for (i = 0; i < p->nodes; i++)
        s.nodes[i].born_again = wall_ms(&s) + (int64_t)store_random(s.store, 1000);
    run_for(&s, p->chaos_ms);
    calm(&s);
    if (!s.store->violation[0])
        drain(&s);
    for (i = 0; p->killers && !p->crash && !p->freeze && !p->cut && !p->error && i < s.store->id_count; i++) {
        const store_id *id = &s.store->ids[i];
        if (id->kills && id->starts > MAX_RETRY + 3)
            store_violated(s.store, "%s: %d starts", id->name, id->starts);
    }
    if (!s.store->violation[0])
        stop_all(&s);
    if (p->clean && s.store->refused)
        store_violated(s.store, "%d settles were refused", (int)s.store->refused);
    if (!p->crash && !p->freeze && !p->abandon_percent && !p->killers && s.store->retold)
        store_violated(s.store, "%d notices were told again", (int)s.store->retold);
    round_free(&s, sum);
    snprintf(violation, cap, "%s", s.store->violation);
    store_free(s.store);
}

/*
 *   name          n  t  b  cut    noscr  error  crash freeze stop  quiet pause nomem ab k  fail long huge delay ttr ser
 * clean sched ms    outages
 */
static const profile profiles[] = {
    {"calm", 3, 3, 4, 0, 5000, 0, 0, 0, 2000, 0, 0, 0, 0, 0, 0, 5, 2, 10, 0, 0, 1, 0, 20000, 0, 0, 0},
    {"cuts", 3, 3, 4, 4000, 20000, 0, 0, 0, 800, 0, 0, 0, 0, 0, 10, 5, 2, 10, 0, 0, 0, 0, 20000, 0, 0, 0},
    {"errors", 3, 3, 2, 500, 20000, 10000, 0, 0, 800, 0, 1000, 0, 0, 0, 10, 5, 2, 10, 0, 0, 0, 1, 20000, 0, 0, 0},
    {"crashes", 4, 3, 4, 0, 1000, 0, 2000, 0, 500, 0, 0, 0, 0, 0, 10, 10, 2, 10, 0, 0, 0, 0, 20000, 0, 0, 0},
    {"freezes", 4, 3, 4, 0, 1000, 0, 0, 1500, 500, 0, 0, 0, 0, 0, 10, 10, 2, 10, 0, 0, 0, 2, 20000, 0, 0, 0},
    {"everything", 4,  3, 4,  1500, 5000, 2000, 800, 600,   1000, 200, 2000, 0, 50, 0,
     10,           10, 4, 10, 0,    0,    0,    0,   20000, 0,    0,   0},
    {"deadlines", 4, 3, 2, 200, 1000, 0, 0, 0, 3000, 300, 0, 0, 100, 0, 10, 30, 2, 10, 0, 0, 0, 0, 20000, 0, 0, 0},
    {"killers", 2, 3, 4, 0, 1000, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 5, 0, 10, 0, 0, 0, 0, 15000, 0, 0, 0},
    {"killers+", 3, 3, 4, 500, 1000, 500, 200, 300, 500, 0, 1000, 0, 50, 2, 10, 5, 2, 10, 0, 0, 0, 0, 20000, 0, 0, 0},
    {"ttr", 3, 3, 2, 500, 1000, 500, 300, 300, 500, 0, 500, 0, 50, 0, 10, 20, 2, 10, 0.2, 0, 0, 0, 20000, 0, 0, 0},
    {"serial", 3, 3, 2, 500, 1000, 500, 300, 300, 500, 0, 500, 0, 50, 0, 10, 10, 2, 10, 0, 1, 0, 1, 20000, 0, 0, 0},
    {"pauses", 2, 2, 1, 0, 0, 0, 500, 0, 500, 100, 20000, 0, 0, 1, 10, 10, 2, 10, 0, 0, 0, 0, 20000, 0, 0, 0},
    {"notices", 4, 3, 4, 500, 1000, 500, 3000, 300, 1000, 200, 0, 0, 50, 0, 60, 20, 0, 5, 0, 0, 0, 0, 20000, 0, 0, 0},
    {"no memory", 3, 3, 4, 200, 2000, 200, 200, 0, 500, 0, 500, 3000, 50, 0, 10, 5, 4, 10, 0, 0, 0, 0, 20000, 0, 0, 0},
    {"poppers", 3, 3, 4, 0, 1000, 0, 0, 0, 1000, 0, 2000, 0, 50, 0, 10, 10, 2, 10, 0, 0, 0, 0, 20000, 0, 0, 30000},
    {"poppers+", 4,  3,  2, 500, 1000, 500, 500, 300, 800,   100, 1000, 0,    50,
     0,          10, 10, 2, 10,  0.2,  0,   0,   0,   20000, 0,   0,    30000},
};
#define PROFILES (sizeof profiles / sizeof *profiles)
static const control honest = {0, 0, 0, 0};

static uint64_t number_from_env(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : fallback;
}

static void test_random_rounds_keep_every_promise(void **state)
{
    uint64_t seed = number_from_env("SEED", 1), rounds = number_from_env("ROUNDS", 4 * PROFILES), i;
    totals sum;
    unsigned bad = 0;
    (void)state;
    memset(&sum, 0, sizeof sum);
    for (i = seed; i < seed + rounds; i++) {
        const profile *p = &profiles[i % PROFILES];
        char violation[256];
        run_round(p, i, honest, &sum, violation, sizeof violation);
        if (violation[0]) {
            print_error("SEED=%llu ROUNDS=1 (%s): %s\n", (unsigned long long)i, p->name, violation);
            bad++;
        }
    }
    print_message("%llu pops, %llu acknowledged, %llu too late\n", (unsigned long long)sum.pops,
                  (unsigned long long)sum.pops_done, (unsigned long long)sum.pops_refused);
    print_message("%u rounds, %u lives, %u deaths, %llu hand-outs, %llu of them stale, %llu refused, %llu commands, "
                  "%llu notices, %llu of them taken over, %llu told again, %llu confirmed checkpoints\n",
                  sum.rounds, sum.lives, sum.deaths, (unsigned long long)sum.handed, (unsigned long long)sum.stale,
                  (unsigned long long)sum.refused, (unsigned long long)sum.commands, (unsigned long long)sum.noticed,
                  (unsigned long long)sum.taken_over, (unsigned long long)sum.retold,
                  (unsigned long long)sum.confirmed);
    assert_int_equal(bad, 0);
}

/* Nobody is killed or frozen: only Redis is away, again and again, while jobs run for up to three lease times. */
static const profile outages[] = {
    {.name = "killed", .outages = OUTAGE_KILL, .clean = 1, .stop = 500},
    {.name = "stalled", .outages = OUTAGE_STALL, .clean = 1, .stop = 500},
    {.name = "list lost", .outages = OUTAGE_LIST_LOST, .clean = 1, .stop = 500},
    {.name = "clock jumps", .outages = OUTAGE_JUMP, .clean = 1, .stop = 500},
    {.name = "failovers", .outages = OUTAGE_FAILOVER}, /* to a replica that heard less */
};
#define OUTAGE_PROFILES (sizeof outages / sizeof *outages)

/* The profile of one kind, with what all share. */
static profile outage_of(int kind)
{
    profile p;
    size_t i;
    for (i = 0; outages[i].outages != kind; i++)
        ;
    p = outages[i];
    p.nodes = 4;
    p.threads = 3;
    p.batch = 2;
    p.long_percent = 30;
    p.huge_percent = 2;
    p.delay_percent = 10;
    p.outage = 2000;
    p.chaos_ms = 20000;
    return p;
}

static void test_f36_no_outage_of_redis_makes_an_id_run_twice(void **state)
{
    uint64_t seed = number_from_env("SEED", 1), rounds = number_from_env("ROUNDS", 6 * OUTAGE_PROFILES), i;
    totals sum;
    unsigned bad = 0;
    (void)state;
    memset(&sum, 0, sizeof sum);
    for (i = seed; i < seed + rounds; i++) {
        const profile p = outage_of(outages[i % OUTAGE_PROFILES].outages);
        char violation[256];
        run_round(&p, i, honest, &sum, violation, sizeof violation);
        if (violation[0]) {
            print_error("SEED=%llu ROUNDS=1 (%s): %s\n", (unsigned long long)i, p.name, violation);
            bad++;
        }
    }
    print_message("%u rounds, %llu hand-outs, %llu commands\n", sum.rounds, (unsigned long long)sum.handed,
                  (unsigned long long)sum.commands);
    assert_int_equal(bad, 0);
}

/*
 * A failover forgets that a node gave a shard up, and that it had taken it anew before: Redis names it as the owner
 * under an older lease than the last one. In these rounds nobody served such a shard while the node lived.
 */
static void test_f36_a_shard_that_a_failover_gives_back_is_served(void **state)
{
    static const uint64_t seeds[] = {139, 559};
    const profile p = outage_of(OUTAGE_FAILOVER);
    totals sum;
    size_t i;
    (void)state;
    memset(&sum, 0, sizeof sum);
    for (i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        char violation[256];
        run_round(&p, seeds[i], honest, &sum, violation, sizeof violation);
        assert_string_equal(violation, "");
    }
}

/* A checker that finds nothing where something is wrong proves nothing. */
static void controlled(const profile *p, control c)
{
    totals sum;
    unsigned found = 0;
    uint64_t seed;
    memset(&sum, 0, sizeof sum);
    for (seed = 1; seed <= 6; seed++) {
        char violation[256];
        run_round(p, seed, c, &sum, violation, sizeof violation);
        found += violation[0] != 0;
    }
    assert_true(found > 0);
}

static void test_control_without_fences_a_promise_breaks(void **state)
{
    const control no_fence = {1, 0, 0, 0};
    (void)state;
    controlled(&profiles[4], no_fence);
}

static void test_control_without_the_last_claim_seen_a_promise_breaks(void **state)
{
    const control forget_seen = {0, 1, 0, 0};
    (void)state;
    controlled(&profiles[7], forget_seen);
}

static void test_f36_control_an_unnoticed_absence_breaks_a_promise(void **state)
{
    const control no_absence = {0, 0, 1, 0};
    int kind;
    (void)state;
    for (kind = OUTAGE_KILL; kind <= OUTAGE_JUMP; kind *= 2) {
        const profile p = outage_of(kind);
        controlled(&p, no_absence);
    }
}

/* Notices of nodes that died are lost where nobody takes them over. */
static void test_control_notices_without_a_next_owner_are_lost(void **state)
{
    const control no_heir = {0, 0, 0, 1};
    (void)state;
    controlled(&profiles[12], no_heir);
}

/* ---- The n-th allocation fails -------------------------------------------------------------- */

typedef struct short_memory {
    size_t calls, fail_from, fail_count, blocks;
} short_memory;

static void *short_alloc(void *user, void *ptr, size_t old_size, size_t new_size)
{
    short_memory *m = user;
    (void)old_size;
    if (new_size == 0) {
        m->blocks -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    m->calls++;
    if (m->calls > m->fail_from && m->calls <= m->fail_from + m->fail_count)
        return NULL;
    m->blocks += ptr == NULL;
    return realloc(ptr, new_size);
}

/* A life with a failure, a huge id and a stop; 1 when all went well and nothing was short. */
static int short_life(size_t fail_from, size_t fail_count)
{
    static const profile p = {.name = "short", .nodes = 1, .threads = 2, .batch = 4};
    short_memory memory = {0, fail_from, fail_count, 0};
    seriatim_allocator mem = {short_alloc, &memory};
    seriatim_node_settings settings;
    seriatim_error error;
    sim s;
    sim_node *n = &s.nodes[0];
    int64_t until;
    int i, made;
    memset(&s, 0, sizeof s);
    memset(&settings, 0, sizeof settings);
    s.p = &p;
    s.store = store_new(7, 10);
    for (i = 0; i < 30; i++)
        store_push(s.store, &s.store->ids[i % 9 < 3 ? 0 : i % 9], 0);
    settings.options.allocator = &mem;
    settings.options.ns = STORE_NS;
    settings.id = "short";
    settings.lease_ms = LEASE_MS;
    settings.poll_ms = 100;
    settings.threads = 2;
    snprintf(n->id, sizeof n->id, "short");
    made = srt_node_new(&settings, &n->node, &error) == SERIATIM_OK;
    if (made && (!add_workers(&s, n->node) || srt_node_start(n->node, local_now(&s, n), &error) != SERIATIM_OK)) {
        srt_node_free(n->node);
        made = 0;
    }
    until = s.store->now_us + 20000000;
    while (made && n->node && s.store->now_us < until) {
        if (store_empty(s.store) && !n->stopping) {
            n->stopping = 1;
            n->abandon_at = SRT_NEVER;
            srt_node_stop(n->node, local_now(&s, n));
        }
        s.store->now_us += 3000;
        n->born_again = INT64_MAX;
        if (n->node->stopped) {
            srt_node_free(n->node);
            for (i = 0; i < SRT_CHANNELS; i++)
                node_disconnect(&s, n, i);
            n->node = NULL;
        } else {
            int busy = node_io(&s, n);
            srt_node_pulse(n->node, local_now(&s, n));
            node_tick(&s, n, busy);
            node_threads(&s, n);
        }
    }
    if (made && n->node)
        dump(&s);
    if (made && n->node)
        fail_msg("allocation %lu: the node does not come to its end", (unsigned long)fail_from);
    if (s.store->violation[0])
        fail_msg("allocation %lu: %s", (unsigned long)fail_from, s.store->violation);
    if (made)
        check_payloads(&s);
    assert_string_equal(s.store->violation, "");
    assert_int_equal(memory.blocks, 0);
    store_free(s.store);
    return made && memory.calls <= fail_from;
}

/* How many of this number of failures at `now` are logged one by one. */
static int told_of(srt_node *node, int failures, int64_t now)
{
    int told = 0;
    while (failures-- > 0)
        told += srt_node_may_log(node, 0, now);
    return told;
}

/* The count that an event tells at `now`; 0 when none does. */
static int64_t counted(srt_node *node, int64_t now)
{
    seriatim_event event;
    if (srt_node_event(node, now, &event) != SERIATIM_OK)
        return 0;
    assert_int_equal(event.kind, SERIATIM_EVENT_FAILURES);
    assert_non_null(strstr(event.text, "more failures in queue Q are not logged"));
    return event.number;
}

/* With the queue Q. */
static srt_node *new_logging_node(void)
{
    seriatim_node_settings settings;
    seriatim_queue_settings q;
    seriatim_error error;
    srt_node *node;
    size_t worker;
    memset(&settings, 0, sizeof settings);
    settings.id = "n";
    settings.lease_ms = 10000;
    settings.poll_ms = 1000;
    settings.threads = 1;
    seriatim_queue_settings_init(&q);
    q.name = "Q";
    q.name_len = 1;
    assert_int_equal(srt_node_new(&settings, &node, &error), SERIATIM_OK);
    assert_int_equal(srt_node_worker(node, &q, &worker, &error), SERIATIM_OK);
    return node;
}

static void test_many_failures_are_logged_as_a_count(void **state)
{
    srt_node *node = new_logging_node();
    (void)state;
    assert_int_equal(told_of(node, 10, 5000), 10);
    assert_int_equal(told_of(node, 10, 6000), 10);
    assert_int_equal(counted(node, 7000), 0);
    assert_int_equal(told_of(node, 500, 7000), 10);
    assert_int_equal(counted(node, 7999), 0);
    assert_int_equal(counted(node, 8000), 490);
    assert_int_equal(counted(node, 8000), 0);
    assert_int_equal(told_of(node, 11, 8100), 0); /* one line a second as long as there are many */
    assert_int_equal(counted(node, 9000), 11);
    assert_int_equal(told_of(node, 10, 9100), 0);
    assert_int_equal(counted(node, 10000), 10);
    assert_int_equal(told_of(node, 10, 10100), 10);
    srt_node_free(node);
}

/* 100,000 failures of a queue within 20 seconds; the log is looked at each 10 ms, and 2 seconds longer. */
static void test_r_log_1_of_100000_failures_at_most_1000_lines_are_logged(void **state)
{
    srt_node *node = new_logging_node();
    int64_t now, told = 0, lines = 0, count, counts = 0;
    (void)state;
    for (now = 5000; now < 27000; now += 10) {
        told += now < 25000 ? told_of(node, 50, now) : 0;
        count = counted(node, now);
        counts += count;
        lines += count > 0;
    }
    assert_int_equal(told + counts, 100000); /* none is missing in the counts */
    assert_in_range(told + lines, 10, 1000);
    srt_node_free(node);
}

static void test_every_allocation_fails(void **state)
{
    size_t from = 0;
    (void)state;
    while (!short_life(from, 1 + from % 4))
        from++;
    assert_true(from > 50);
    print_message("%lu allocations\n", (unsigned long)from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_rounds_keep_every_promise),
        cmocka_unit_test(test_control_without_fences_a_promise_breaks),
        cmocka_unit_test(test_control_without_the_last_claim_seen_a_promise_breaks),
        cmocka_unit_test(test_f36_no_outage_of_redis_makes_an_id_run_twice),
        cmocka_unit_test(test_f36_a_shard_that_a_failover_gives_back_is_served),
        cmocka_unit_test(test_f36_control_an_unnoticed_absence_breaks_a_promise),
        cmocka_unit_test(test_many_failures_are_logged_as_a_count),
        cmocka_unit_test(test_r_log_1_of_100000_failures_at_most_1000_lines_are_logged),
        cmocka_unit_test(test_control_notices_without_a_next_owner_are_lost),
        cmocka_unit_test(test_every_allocation_fails),
    };
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
