/* sim_rounds.c - rounds of random faults: steps of the clock, outages of Redis, and what must hold at the end. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sim_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* What has ended waits at most this long for its settle, if Redis answers and memory is there. */
#define HELD_MS 35

static void check_held(const sim *s, const sim_node *n, int64_t now)
{
    size_t i;
    for (i = 0;
         s->p->chaos_ms && !s->p->nomem && n->node->cluster.peers[0]->commands.connected && i < n->node->shard_count;
         i++) {
        const srt_shard *h = n->node->shards[i];
        int64_t since = h->pending.count ? h->pending_since : now;
        if (h->partial_claims && h->partial_claims->ended_since < since)
            since = h->partial_claims->ended_since;
        if (h->state == SRT_OWNED && !h->reconcile && !h->settling && now - since >= HELD_MS)
            store_violated(s->store, "%s: what has ended is held for %d ms", n->id, (int)(now - since));
    }
}

void sim_node_tick(sim *s, sim_node *n, int busy)
{
    srt_group *g = &n->node->groups[0];
    int64_t now = sim_local_now(s, n);
    node_vitals(s, n, now);
    if (!busy && now < n->next_tick && srt_timers_next(n->node) >= n->next_tick &&
        n->node->quarantine.step == SRT_QUARANTINE_NONE && !n->node->stopping)
        return;
    n->next_tick = srt_node_tick(n->node, now);
    check_held(s, n, now);
    n->door |= g->wake_pending && g->waiting > 0;
    g->wake_pending = 0;
}

static void node_orders(sim *s, sim_node *n)
{
    const profile *p = s->p;
    int64_t now = sim_local_now(s, n);
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
        n->frozen_until = sim_wall_ms(s) + (int64_t)store_random(s->store, 4 * LEASE_MS);
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
    int64_t wall = sim_wall_ms(s);
    int busy;
    if (!n->node) {
        if (wall >= n->born_again)
            sim_node_born(s, n);
        return;
    }
    if (wall < n->frozen_until)
        return;
    if (s->chaos && store_chance(s->store, s->p->crash)) {
        sim_node_crash(s, n);
        return;
    }
    busy = sim_node_io(s, n);
    node_orders(s, n);
    sim_node_tick(s, n, busy);
    sim_node_threads(s, n);
    if (!n->node)
        return;
    if (n->stopping && sim_local_now(s, n) >= n->abandon_at) {
        srt_node_abandon(n->node, sim_local_now(s, n));
        n->abandon_at = SRT_NEVER;
    }
    if (n->node->stopped)
        sim_node_gone(s, n, (int64_t)store_random(s->store, 500));
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
    s->down_from = sim_wall_ms(s);
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
            s->nodes[i].born_again = sim_wall_ms(s);
        else
            for (channel = 0; channel < SRT_CHANNELS; channel++)
                s->nodes[i].reconnect[channel] += late;
    s->outage = 0;
}

static void outages_step(sim *s)
{
    if (s->outage && sim_wall_ms(s) >= s->down_until)
        end_outage(s);
    else if (!s->outage && s->chaos && store_chance(s->store, s->p->outage))
        begin_outage(s);
}

static void sim_step(sim *s)
{
    size_t i, from = (size_t)store_random(s->store, s->p->nodes);
    s->store->now_us += 1000 + (int64_t)store_random(s->store, 4000);
    outages_step(s);
    store_send_late(s->store);
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
            n->groups[0].held || n->groups[0].unproven_coming)
            store_violated(s->store, "%s: not idle after the drain", s->nodes[i].id);
        for (k = 0; k < n->shard_count; k++)
            if (!srt_shard_idle(n->shards[k]))
                store_violated(s->store, "%s: shard %d is not idle after the drain", s->nodes[i].id, (int)k);
    }
}

void sim_check_payloads(sim *s)
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
    s->store->errors_ppm = s->store->noscript_ppm = s->store->lost_ppm = s->store->late_ppm = 0;
    for (i = 0; i < s->store->shard_count; i++)
        store_pause(s->store, i, 0);
    for (i = 0; i < s->p->nodes; i++) {
        sim_node *n = &s->nodes[i];
        n->pulse_until = 0;
        if (n->node && n->node->quiet && !n->stopping) {
            n->stopping = 1;
            n->abandon_at = SRT_NEVER;
            srt_node_stop(n->node, sim_local_now(s, n));
        }
    }
}

static int all_live(const sim *s)
{
    size_t i;
    for (i = 0; i < s->p->nodes; i++)
        if (!s->nodes[i].node || s->nodes[i].stopping || s->nodes[i].frozen_until > sim_wall_ms(s))
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

void sim_dump(const sim *s)
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
            (int)n->groups[0].unproven_coming, n->stopping, n->left, n->heartbeat.in_flight,
            (long long)(s->nodes[i].next_tick - sim_local_now(s, &s->nodes[i])));
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
        sim_dump(s);
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
    sim_check_payloads(s);
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
        srt_node_stop(n->node, sim_local_now(s, n));
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

static void round_free(sim *s, totals *sum)
{
    size_t i;
    for (i = 0; i < s->p->nodes; i++)
        if (s->nodes[i].node)
            sim_node_gone(s, &s->nodes[i], 0);
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
    sum->handed_over += s->store->handed_over;
    sum->unheard += s->store->unheard;
    sum->lost_messages += s->store->lost_messages;
    sum->late_messages += s->store->late_messages;
    sum->missed += s->store->missed;
}

void sim_run_round(const profile *p, uint64_t seed, control c, totals *sum, char *violation, size_t cap)
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
    s.store->hands_over = !p->outages || seed % 2 == 0; /* odd seeds of outages were chosen for other things */
    s.store->lost_ppm = s.store->late_ppm = p->outages ? 0 : 100000;
    s.no_gaps = c.no_gaps;
    s.acquiring = c.acquiring;
    for (i = 0; i < p->killers; i++)
        s.store->ids[i * 7].kills = 1;
    s.chaos = 1;
    for (i = 0; i < p->nodes; i++)
        s.nodes[i].born_again = sim_wall_ms(&s) + (int64_t)store_random(s.store, 1000);
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

const control sim_honest = {.no_fence = 0};

uint64_t sim_number_from_env(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : fallback;
}

void sim_breaks_a_promise(const profile *p, control c)
{
    totals sum;
    char violation[256] = "";
    uint64_t seed;
    memset(&sum, 0, sizeof sum);
    for (seed = 1; seed <= 6 && !violation[0]; seed++)
        sim_run_round(p, seed, c, &sum, violation, sizeof violation);
    assert_string_not_equal(violation, "");
}
