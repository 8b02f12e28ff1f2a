/* batch.c - a claim whose ids were all done is settled as one run, without naming the ids; any other claim id by id. */
#include "node/shard.h"

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
static void part_end(srt_shard *s, srt_claim *claim)
{
    if (claim->previous)
        claim->previous->next = claim->next;
    else
        s->partial_claims = claim->next;
    if (claim->next)
        claim->next->previous = claim->previous;
    else
        s->last_partial_claim = claim->previous;
    if (s->pending.count == 0 || claim->ended_since < s->pending_since)
        s->pending_since = claim->ended_since;
    srt_list_join(&s->pending, &claim->ended);
}

void srt_claim_part(srt_shard *s, srt_claim *claim)
{
    claim->whole = 0;
    if (claim->ended.count)
        part_end(s, claim);
}

void srt_claim_part_all(srt_shard *s)
{
    while (s->partial_claims)
        srt_claim_part(s, s->partial_claims);
}

void srt_claim_ended(srt_shard *s, srt_job *job, int64_t now)
{
    srt_claim *claim = job->claim;
    srt_list_add(&claim->ended, job);
    if (claim->ended.count == 1)
        part_add(s, claim, now);
    if (claim->ended.count == claim->ids)
        part_end(s, claim);
}
