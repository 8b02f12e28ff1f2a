/* tick.c - what a node does when time passes and when the host asks: open, poll, quiet, stop, leave. */
#include "node/node_state.h"

#include <string.h>

/* an abandoned node sends its farewell this long before it gives up, whatever is unfinished */
#define NODE_FAREWELL_MS 1000

static int node_opened(const srt_node *n, int64_t now)
{
    size_t i;
    if (now >= n->opened_by)
        return 1;
    for (i = 0; i < n->shard_count; i++) {
        const srt_shard *s = n->shards[i];
        if (s->wanted && (s->state == SRT_ACQUIRING || (s->state == SRT_OWNED && s->first_claim) ||
                          (s->state == SRT_FOREIGN && s->owner.len == 0 && s->wake_at <= now)))
            return 0;
    }
    return n->shard_count > 0 && n->heartbeat.answered > 0;
}

static void node_open(srt_node *n, int64_t now)
{
    if (!n->opening || !node_opened(n, now))
        return;
    n->opening = 0;
    srt_node_wake_threads(n);
}

/*
 * Asks for one shard each poll interval, in case a wake-up message was lost; for all shards while no message can come.
 */
static void node_poll(srt_node *n, int64_t now)
{
    size_t tried;
    if (now < n->poll_at)
        return;
    n->poll_at = now + n->poll_ms;
    for (tried = 0; tried < n->shard_count; tried++) {
        srt_shard *s = n->shards[n->poll_place++ % n->shard_count];
        if (s->state != SRT_OWNED || s->claiming)
            continue;
        srt_shard_changed(n, s, now);
        if (n->hears)
            return;
    }
}

static void node_give_up(srt_node *n)
{
    n->stopped = 1;
    srt_node_tell(
        n, SERIATIM_EVENT_WARNING, 0,
        "Redis did not answer before the end: other servers get the shards of this one when its lease_time is "
        "over, and run again the ids whose outcome is not known in Redis");
}

static void node_leave(srt_node *n, int64_t now)
{
    if (!n->stopped && now >= n->give_up_at && n->give_up_at)
        node_give_up(n);
    if (!n->left && !n->heartbeat.in_flight &&
        (srt_node_drained(n) || (n->give_up_at && now >= n->give_up_at - NODE_FAREWELL_MS))) {
        if (!n->shard_count) { /* the layouts are not known: it has never sent a heartbeat, and sends none */
            n->left = n->stopped = 1;
        } else if (srt_node_may_send(n)) {
            srt_node_last_run_times(n);
            srt_heartbeat_send(n, 0, now);
            n->left = n->heartbeat.in_flight > 0;
        }
    }
}

/* Has the host called seriatim_runner_pulse within a lease time? */
static int node_lives(const srt_node *n, int64_t now)
{
    return now - n->heartbeat.pulse_at < n->lease_ms;
}

/* May the next heartbeat be sent, when its time has come? None is sent before the layouts are known. */
static int node_may_send_heartbeat(const srt_node *n)
{
    return srt_node_may_send(n) && n->shard_count && !n->left && !n->heartbeat.in_flight;
}

int srt_heartbeat_due(const srt_node *n, int64_t now)
{
    return node_may_send_heartbeat(n) && node_lives(n, now) && now >= n->heartbeat.at;
}

void srt_node_vitals(srt_node *n, int64_t resident, int64_t wall_us)
{
    n->heartbeat.resident = resident;
    n->heartbeat.wall_us = wall_us;
}

int64_t srt_node_tick(srt_node *n, int64_t now)
{
    int64_t next = n->poll_at, quarantine;
    srt_shard *s;
    srt_node_follow_masters(n, now);
    if (n->layouts.unasked && srt_node_may_send(n))
        srt_node_ask_layouts(n); /* after NOMEM the next tick asks for the rest */
    if (srt_heartbeat_due(n, now))
        srt_heartbeat_send(n, n->lease_ms, now);
    if (now >= n->follow_at)
        srt_node_follow_on(n, now);
    node_poll(n, now);
    quarantine = srt_quarantine_tick(n, now);
    while ((s = srt_timers_take(n, now)))
        srt_shard_step(n, s, now);
    node_open(n, now);
    srt_node_sample(n, now);
    srt_node_run_times(n, now);
    if (n->stopping && !n->stopped)
        node_leave(n, now);
    if (n->stopping && (n->stopped || srt_node_drained(n)))
        srt_node_wake_threads(n); /* a take gives CLOSED now, and not before */
    srt_node_settle_held(n, now);
    if (srt_timers_next(n) < next)
        next = srt_timers_next(n);
    if (quarantine < next)
        next = quarantine;
    if (n->opening && n->opened_by < next)
        next = n->opened_by;
    if (node_may_send_heartbeat(n) && n->heartbeat.at < next)
        next = node_lives(n, now) ? n->heartbeat.at : now + n->lease_ms / 4;
    if (n->give_up_at && !n->stopped && n->give_up_at < next)
        next = n->give_up_at;
    if (n->poll_at < next)
        next = n->poll_at;
    if (n->follow_at < next)
        next = n->follow_at;
    if (srt_cluster_due_ms(&n->cluster) < next)
        next = srt_cluster_due_ms(&n->cluster);
    return next > now ? next : now + 1;
}

void srt_node_pulse(srt_node *n, int64_t now)
{
    n->heartbeat.pulse_at = now;
}

static void wake_all(srt_node *n, int64_t now)
{
    size_t i;
    for (i = 0; i < n->shard_count; i++)
        srt_node_wake(n, n->shards[i], now);
}

/*
 * Writes into the description that this node gives up its shards, and wakes the other nodes, which share the shards
 * among them.
 */
static void announce_leaving(srt_node *n, int64_t now)
{
    if (n->described) /* until the start it is the host's text alone */
        n->description.data[0] = n->stopping ? 's' : 'q';
    srt_node_announce(n, now);
}

/* This node claims nothing more, so its shards go to other nodes as soon as other nodes live. */
void srt_node_quiet(srt_node *n, int64_t now)
{
    if (n->quiet)
        return;
    n->quiet = 1;
    announce_leaving(n, now);
    srt_node_share(n, now);
    wake_all(n, now);
}

void srt_node_stop(srt_node *n, int64_t now)
{
    if (n->stopping)
        return;
    n->stopping = 1;
    if (n->quiet)
        announce_leaving(n, now);
    srt_node_quiet(n, now);
    wake_all(n, now);
}

int srt_node_asked(const srt_node *n)
{
    int done = n->stopping ? SERIATIM_ORDER_STOP : n->quiet ? SERIATIM_ORDER_QUIET : SERIATIM_ORDER_NONE;
    return n->ordered > done ? n->ordered : SERIATIM_ORDER_NONE;
}

int srt_node_is_stopped(const srt_node *n)
{
    return n->stopped;
}
