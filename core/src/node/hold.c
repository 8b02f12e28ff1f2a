/*
 * hold.c - how long what has ended waits for its settle: at a trickle few calls settle many ids, and all shards of the
 * node share a write.
 */
#include "node/shard.h"

#include <string.h>

/*
 * What has ended waits this long: for others to settle with, for the rest of its claim, to be settled with it as one
 * run, and for anything else that is written. A crash runs it again.
 */
#define HOLD_MS 35
#define HOLD_MOST 32     /* ids that have ended are not held if they are more, unless the shard's window is larger */
#define HOLD_PROMPT_MS 5 /* of a shard that does not hold: for others, while more is ready to run */
/* Ids a shard that pushes may claim for this node: those held are among them. Should the host vanish, they are in
 * doubt. */
#define HOLD_PUSHED 40
#define HOLD_SUSPENDED_MS 100 /* after a push behind a run, nothing of the shard is held for this long */

void srt_rate_add(srt_rate *rate, int64_t now)
{
    if (now - rate->since >= SHARD_WINDOW_MS) {
        rate->before = now - rate->since < 2 * SHARD_WINDOW_MS ? rate->count : 0;
        rate->count = 0;
        rate->since = now;
    }
    rate->count++;
}

size_t srt_rate_most(const srt_rate *rate)
{
    return rate->count > rate->before ? rate->count : rate->before;
}

size_t srt_rate_lately(const srt_rate *rate, int64_t now)
{
    return now - rate->since < 2 * SHARD_WINDOW_MS ? srt_rate_most(rate) : 0;
}

/*
 * The shard's part of what its worker may claim ahead: max_running, divided among the shards that the node owns, but at
 * least 1.
 */
static size_t limited_window(const srt_node *node, const srt_shard *s, size_t window)
{
    size_t owned = 0, part, i;
    for (i = 0; i < node->shard_count; i++)
        owned += node->shards[i]->queue == s->queue && node->shards[i]->state == SRT_OWNED;
    part = (size_t)s->queue->own.max_running / (owned ? owned : 1);
    if (part < 1)
        part = 1;
    return part < window ? part : window;
}

/* How many ids to have claimed: as many as were finished in a window, but at least two for each thread of the group. */
size_t srt_shard_window(const srt_node *node, const srt_shard *s)
{
    size_t window = 2 * node->groups[s->group].threads * (size_t)s->queue->own.batch_size;
    if (srt_rate_most(&s->finished) > window)
        window = srt_rate_most(&s->finished);
    if (s->queue->own.max_running)
        window = limited_window(node, s, window);
    return window < SHARD_MAX_CLAIM ? window : SHARD_MAX_CLAIM;
}

/* A push is refused while its id runs, and until its settle it does. */
static int is_unique(const srt_shard *s)
{
    return strcmp(s->queue->now.on_waiting, "unique") == 0;
}

/*
 * Does something wait for what ends in this shard? A push behind a run; the next owner; a time to run, which goes on
 * until the settle; a push that Redis refuses while its id runs.
 */
static int is_prompt(const srt_node *node, const srt_shard *s, int64_t now)
{
    return now < s->prompt_until || !s->wanted || node->quiet || node->stopping || s->queue->now.ttr > 0 ||
           is_unique(s);
}

/*
 * Not where a claim does more than to take the id (a time to run), where what a push claims is not to be begun, or
 * where the message is not heard.
 */
size_t srt_shard_push_window(const srt_node *node, const srt_shard *s)
{
    size_t window;
    if (!s->wanted || s->paused || s->reconcile || node->quiet || node->stopping || !node->hears ||
        node->quarantine.step != SRT_QUARANTINE_NONE || s->queue->now.ttr > 0 || is_unique(s))
        return 0;
    window = srt_shard_window(node, s) + (s->queue->own.max_running ? 0 : HOLD_MOST);
    return window < HOLD_PUSHED ? window : HOLD_PUSHED;
}

void srt_shard_prompt(srt_shard *s, int64_t now)
{
    s->prompt_until = now + HOLD_SUSPENDED_MS;
}

/* Of the claim that waits longest. */
static int64_t part_at(const srt_node *node, const srt_shard *s, int64_t now)
{
    int busy = s->ready.count || s->claiming || s->more;
    int prompt = busy ? is_unique(s) : is_prompt(node, s, now);
    if (!s->partial_claims)
        return SRT_NEVER;
    return s->partial_claims->ended_since + (prompt ? HOLD_PROMPT_MS : HOLD_MS);
}

void srt_shard_part_claims(const srt_node *node, srt_shard *s, int64_t now)
{
    while (part_at(node, s, now) <= now)
        srt_claim_part(s, s->partial_claims);
}

static int64_t held_until(const srt_node *node, const srt_shard *s, int64_t now)
{
    return s->pending_since + (is_prompt(node, s, now) ? HOLD_PROMPT_MS : HOLD_MS);
}

int srt_shard_should_settle(const srt_node *node, const srt_shard *s, int64_t now)
{
    size_t window;
    int prompt;
    if (s->pending.count == 0 || s->settling)
        return 0;
    if (s->urgent || (node->quarantine.step == SRT_QUARANTINE_SETTLE && node->quarantine.shard == s))
        return 1;
    prompt = is_prompt(node, s, now);
    if (prompt && (s->ready.count == 0 || s->claiming))
        return 1;
    window = srt_shard_window(node, s);
    if (!prompt && window < 2 * HOLD_MOST)
        window = 2 * HOLD_MOST;
    return s->pending.count * 2 >= window || now >= held_until(node, s, now);
}

int64_t srt_shard_settle_at(const srt_node *node, const srt_shard *s, int64_t now)
{
    int64_t part = part_at(node, s, now), held = SRT_NEVER;
    if (s->pending.count && !s->settling)
        held = held_until(node, s, now);
    return part < held ? part : held;
}

/*
 * What runs still is not held when it ends. The message may come before the answer to the claim of the id. Of a shard
 * with much to run, the claims go on as a whole: what was pushed waits behind all that is ready.
 */
void srt_shard_pushed_behind(srt_node *node, srt_shard *s, int64_t now)
{
    srt_shard_prompt(s, now);
    s->prompt_fence = s->seen;
    s->prompt_claim = s->claiming;
    if (s->state == SRT_OWNED && s->ready.count == 0)
        srt_claim_part_all(s);
    srt_node_wake(node, s, now);
}
