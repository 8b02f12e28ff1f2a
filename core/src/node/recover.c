/* recover.c - continues the recovery that an acquire, a claim or a settle left unfinished, one slice a call. */
#include "node/shard.h"

#include <string.h>

/* Runs of dead processes that were found are reported to a claim before more are looked for. */
int srt_shard_should_recover(const srt_shard *s, int leaving, int64_t now)
{
    return s->unfinished && !s->recovering && s->seen != 0 && now >= s->recover_at &&
           (!leaving || s->unfinished == SRT_RUNS);
}

/* Sends the next slice. */
void srt_shard_recover(srt_node *node, srt_shard *s, int64_t now)
{
    srt_request *r = srt_shard_begin(node, s, srt_script_recover, SRT_ASK_RECOVER);
    if (r) {
        srt_request_int(r, s->lease);
        srt_request_text(r, s->queue->now.fold);
        srt_request_text(r, s->cursor);
        r->number = s->lease;
    }
    if (srt_shard_send(node, s, r, now))
        s->recovering = 1;
}

void srt_shard_find_unfinished(srt_shard *s, int64_t flags)
{
    if (!(flags & SRT_SAYS_UNFINISHED) || s->unfinished)
        return;
    s->unfinished = SRT_UNITING;
    strcpy(s->cursor, "u");
}

void srt_shard_tell_recovered(srt_node *node, srt_shard *s)
{
    if (s->recovered)
        srt_node_tell(node, SERIATIM_EVENT_RECOVERED, s->recovered, "recovered %lld run%s in shard %.*s",
                      (long long)s->recovered, s->recovered == 1 ? "" : "s", (int)s->keys->prefix.len - 1,
                      s->keys->prefix.data);
    s->recovered = 0;
}

/* The answer to a slice of the recovery, or of uniting the payloads of an id. */
void srt_shard_recovered(srt_node *node, srt_shard *s, const srt_request *r, const srt_reply *reply, int64_t now)
{
    const srt_token *cursor = &reply->tokens[1];
    s->recovering = 0;
    if (r->number != s->lease || s->state != SRT_OWNED || cursor->len >= sizeof s->cursor)
        return;
    memcpy(s->cursor, cursor->data, cursor->len);
    s->cursor[cursor->len] = '\0';
    s->unfinished = cursor->len == 0 ? SRT_FINISHED : s->cursor[0] == 'u' ? SRT_UNITING : SRT_RUNS;
    s->recover_at = now + SHARD_SLICE_PAUSE_MS;
    s->recovered += srt_token_int(&reply->tokens[2]);
    if (srt_token_int(&reply->tokens[3]))
        s->seen = 0;
    s->more |= srt_token_int(&reply->tokens[4]) != 0;
    if (s->unfinished != SRT_RUNS)
        srt_shard_tell_recovered(node, s);
}
