/* refusals.c - see refusals.h. */
#include "node/refusals.h"
#include "node/node_state.h"

#include <stdio.h>
#include <string.h>

#define REFUSAL_MS 60000
#define REFUSAL_SHA 40 /* hexadecimal digits of a script's name */

/*
 * The words of Redis without numbers and names of scripts: Redis says behind the cause where in which script it was,
 * so that it has other words for each script.
 */
static uint64_t refusal_cause(srt_refused what, const seriatim_error *error)
{
    char text[sizeof error->message + 32];
    const char *at = error->message;
    size_t len = (size_t)snprintf(text, 32, "%d %d ", (int)what, error->status), digits;
    while (*at) {
        digits = strspn(at, "0123456789abcdef");
        if (digits < REFUSAL_SHA)
            digits = strspn(at, "0123456789");
        at += digits;
        if (*at)
            text[len++] = *at++;
    }
    return srt_hash(text, len);
}

/* The cause's own place, or else that of the one that was told the longest time ago. */
static srt_refusal *refusal_place(srt_node *n, uint64_t cause)
{
    srt_refusal *oldest = n->refusals;
    size_t i;
    for (i = 0; i < SRT_REFUSALS; i++) {
        if (n->refusals[i].told_at && n->refusals[i].cause == cause)
            return &n->refusals[i];
        if (n->refusals[i].told_at < oldest->told_at)
            oldest = &n->refusals[i];
    }
    return oldest;
}

static const char *refused_words(srt_refused what)
{
    static const char *const words[] = {"heartbeats", "layouts", "requests of shards", "moves of ids"};
    return words[what];
}

/* Its place is needed for another cause. */
static void refusal_leave(srt_node *n, const srt_refusal *r)
{
    if (r->kept)
        srt_node_tell(n, SERIATIM_EVENT_WARNING, r->kept, "%lld more refusals of %s were not logged",
                      (long long)r->kept, refused_words(r->what));
}

/* Those that another node has do not count: they ask for nothing. */
static size_t refused_shards(const srt_node *n)
{
    size_t i, count = 0;
    for (i = 0; i < n->shard_count; i++)
        count += n->shards[i]->refused && (n->shards[i]->wanted || n->shards[i]->state != SRT_FOREIGN);
    return count;
}

/* " (10 shards are refused, 590 more refusals were not logged)", or one of these; nothing where there is one shard. */
static void refusal_numbers(char *out, size_t cap, size_t shards, int64_t kept)
{
    char others[48] = "", times[64] = "";
    if (shards > 1)
        snprintf(others, sizeof others, "%lu shards are refused", (unsigned long)shards);
    if (kept)
        snprintf(times, sizeof times, "%lld more refusals were not logged", (long long)kept);
    snprintf(out, cap, *others || *times ? " (%s%s%s)" : "%s%s%s", others, *others && *times ? ", " : "", times);
}

void srt_refusal_tell(srt_node *n, srt_refused what, const srt_shard *s, const seriatim_error *error, int64_t now)
{
    uint64_t cause = refusal_cause(what, error);
    srt_refusal *r = refusal_place(n, cause);
    char numbers[128];
    int is_known = r->told_at && r->cause == cause;
    if (is_known && now - r->told_at < REFUSAL_MS) {
        r->kept++;
        return;
    }
    if (!is_known)
        refusal_leave(n, r);
    refusal_numbers(numbers, sizeof numbers, what == SRT_REFUSED_SHARD ? refused_shards(n) : 0, is_known ? r->kept : 0);
    r->cause = cause;
    r->what = what;
    r->told_at = now ? now : 1;
    r->kept = 0;
    if (s)
        srt_node_tell(n, SERIATIM_EVENT_WARNING, error->status, "shard %.*s%s: %s%s", (int)s->keys->prefix.len - 1,
                      s->keys->prefix.data, numbers, what == SRT_REFUSED_MOVE ? "ids do not move: " : "",
                      error->message);
    else
        srt_node_tell(n, SERIATIM_EVENT_WARNING, error->status, "%s%s", error->message, numbers);
}

void srt_refusals_over(srt_node *n, srt_refused what)
{
    int64_t kept = 0;
    size_t i;
    for (i = 0; i < SRT_REFUSALS; i++) {
        srt_refusal *r = &n->refusals[i];
        if (r->told_at && r->what == what) {
            kept += r->kept;
            memset(r, 0, sizeof *r);
        }
    }
    if (kept)
        srt_node_tell(n, SERIATIM_EVENT_WARNING, kept,
                      "Redis does not refuse %s any more; %lld more refusals were not logged", refused_words(what),
                      (long long)kept);
}

void srt_shard_denied(srt_node *n, srt_shard *s, int kind, const seriatim_error *error, int64_t now)
{
    s->refused |= 1u << kind;
    srt_refusal_tell(n, SRT_REFUSED_SHARD, s, error, now);
}

void srt_shard_granted(srt_node *n, srt_shard *s, int kind)
{
    if (!s->refused)
        return;
    s->refused &= kind == SRT_ASK_ACQUIRE || kind == SRT_ASK_RELEASE ? 0 : ~(1u << kind);
    if (!s->refused && refused_shards(n) == 0)
        srt_refusals_over(n, SRT_REFUSED_SHARD);
}
