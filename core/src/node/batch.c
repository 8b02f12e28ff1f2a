/* batch.c - a claim whose ids were all done is settled as one run, without naming the ids; any other claim id by id. */
#include "node/shard.h"

/* an id that has ended waits this long for the others of its claim, to be settled with them as one run */
#define BATCH_HOLD_MS 35

static void part_add(srt_shard *s, srt_claim *claim, int64_t now)
{
    claim->ended_since = now;
    claim->next = NULL;
    claim->previous = s->last_partial_claim;
    if (s->last_partial_claim)
        s->last_partial_claim->next = claim;
    else
        s->partial_claims = claim;
    s->last_partial_claim = claim;
}

/* Gives the ids of the claim that have ended to the next settle: all of its ids, or those that ended so far. */
static void part_end(srt_shard *s, srt_claim *claim, int64_t now)
{
    if (claim->previous)
        claim->previous->next = claim->next;
    else
        s->partial_claims = claim->next;
    if (claim->next)
        claim->next->previous = claim->previous;
    else
        s->last_partial_claim = claim->previous;
    if (s->pending.count == 0)
        s->pending_since = now;
    srt_list_join(&s->pending, &claim->ended);
}

void srt_claim_part(srt_shard *s, srt_claim *claim, int64_t now)
{
    claim->whole = 0;
    if (claim->ended.count)
        part_end(s, claim, now);
}

void srt_claim_part_all(srt_shard *s, int64_t now)
{
    while (s->partial_claims)
        srt_claim_part(s, s->partial_claims, now);
}

/*
 * When the ids that ended are settled without the others: soon if the shard has nothing else to do, else after
 * BATCH_HOLD_MS.
 */
int64_t srt_claim_part_until(const srt_shard *s)
{
    int busy = s->ready.count || s->claiming || s->more;
    return s->partial_claims ? s->partial_claims->ended_since + (busy ? BATCH_HOLD_MS : SHARD_FLUSH_MS) : SRT_NEVER;
}

void srt_claim_ended(srt_shard *s, srt_job *job, int64_t now)
{
    srt_claim *claim = job->claim;
    srt_list_add(&claim->ended, job);
    if (claim->ended.count == 1)
        part_add(s, claim, now);
    if (claim->ended.count == claim->ids)
        part_end(s, claim, now);
}
