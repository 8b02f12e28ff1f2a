/*
 * morgue.c - keeps the morgue of a shard within morgue_max_age and morgue_max_count of its queue.
 *
 * The owner of a shard looks when it has taken the shard, soon after ids have died by its own runs, and once a minute;
 * each look is one short call (trim_morgue.lua) that removes at most 30 ids. Of a queue without limits nothing is
 * asked.
 */
#include "node/node_state.h"

#define MORGUE_EVERY_MS 60000 /* between looks, and between two lines of the log about one shard */
#define MORGUE_SOON_MS 100    /* wait after ids have died, so that several settles share one look */
#define MORGUE_PAUSE_MS 5     /* pause between the calls of one look, so that other clients get their turn */

static int morgue_has_limits(const srt_shard *s)
{
    return s->queue->now.morgue_max_age > 0 || s->queue->now.morgue_max_count > 0;
}

/*
 * What this shard keeps of the queue's morgue_max_count: an equal part, rounded up. 0: all. While ids move, dead ids
 * may still lie in the old shards alone, or all in the new ones already.
 */
static int64_t morgue_share(const srt_shard *s)
{
    const srt_queue *queue = s->queue;
    int64_t shards =
        queue->old_count && queue->old_count < queue->shards_count ? queue->old_count : queue->shards_count;
    return shards > 0 ? (queue->now.morgue_max_count + shards - 1) / shards : 0;
}

static void morgue_ask(srt_node *node, srt_shard *s, int64_t now)
{
    srt_request *r = srt_shard_begin(node, s, srt_script_trim_morgue, SRT_ASK_TRIM);
    if (r) {
        r->number = s->lease;
        srt_request_int(r, s->lease);
        srt_request_int(r, s->queue->now.morgue_max_age);
        srt_request_int(r, morgue_share(s));
    }
    s->morgue.asking = srt_shard_send(node, s, r, now);
}

/* Logs at most one line for each shard and minute, however often ids are removed. */
static void morgue_tell(srt_node *node, srt_shard *s, int64_t now)
{
    if (s->morgue.removed == 0)
        return;
    srt_node_tell(node, SERIATIM_EVENT_MORGUE, s->morgue.removed,
                  "removed %lld dead id%s from shard %.*s, which are beyond the limits of the morgue",
                  (long long)s->morgue.removed, s->morgue.removed == 1 ? "" : "s", (int)s->keys->prefix.len - 1,
                  s->keys->prefix.data);
    s->morgue.removed = 0;
    s->morgue.tell_at = now + MORGUE_EVERY_MS;
}

void srt_morgue_taken(srt_shard *s, int64_t now)
{
    s->morgue.ask_at = s->morgue.tell_at = now;
}

void srt_morgue_step(srt_node *node, srt_shard *s, int leaving, int64_t now)
{
    if (leaving || now >= s->morgue.tell_at)
        morgue_tell(node, s, now);
    if (leaving || s->morgue.asking || !morgue_has_limits(s))
        return;
    if (now >= s->morgue.ask_at)
        morgue_ask(node, s, now);
    else
        srt_node_wake(node, s, s->morgue.ask_at);
}

void srt_morgue_grew(srt_node *node, srt_shard *s, int64_t now)
{
    if (s->morgue.ask_at <= now + MORGUE_SOON_MS || !morgue_has_limits(s))
        return;
    s->morgue.ask_at = now + MORGUE_SOON_MS;
    srt_node_wake(node, s, s->morgue.ask_at);
}

/* trim_morgue.lua has answered: {removed, 'more' or ''}. */
void srt_morgue_trimmed(srt_node *node, srt_shard *s, const srt_reply *reply, int64_t now)
{
    s->morgue.asking = 0;
    s->morgue.removed += srt_token_int(&reply->tokens[1]);
    s->morgue.ask_at = now + (srt_token_is(&reply->tokens[2], "more") ? MORGUE_PAUSE_MS : MORGUE_EVERY_MS);
    if (s->state != SRT_OWNED)
        morgue_tell(node, s, now); /* the shard was given up meanwhile */
}

void srt_morgue_refused(srt_shard *s, int64_t now)
{
    s->morgue.asking = 0;
    s->morgue.ask_at = now + MORGUE_EVERY_MS;
}
