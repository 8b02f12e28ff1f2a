/*
 * notice.c - notices for the hook retries_exhausted. The script that ends an id's retries writes a notice into the
 * shard. The node fetches it, hands it to a thread as a SERIATIM_EXHAUSTED delivery, and removes it from Redis when the
 * hook has returned. Notices of a node that died are taken over by the node that owns the shard then
 * (core/scripts/lib/notices.lua).
 */
#include "node/node_state.h"

#include <string.h>

#define NOTICE_LIMIT 100 /* ids in one call of the hook */
#define NOTICE_LOOKS 4   /* how often in a lease time the node looks for notices of nodes that died */

/* ---- Asking -------------------------------------------------------------------------------- */

static void retry_later(srt_node *node, srt_shard *s, int64_t now)
{
    s->notice_at = now + node->lease_ms / NOTICE_LOOKS;
    srt_node_wake(node, s, s->notice_at);
}

/*
 * Was a heartbeat answered that was sent after the shard was taken? Then the list of living nodes is new enough to take
 * over notices.
 */
static int may_take_over(const srt_node *node, const srt_shard *s, int64_t now)
{
    return s->state == SRT_OWNED && !s->reconcile && node->heartbeat.answered >= s->notice_asked_at &&
           now >= node->heartbeat.away_until && !node->quiet;
}

static void fetch(srt_node *node, srt_shard *s, int64_t now)
{
    srt_request *r = srt_shard_begin(node, s, srt_script_tell, SRT_ASK_TELL);
    size_t i;
    if (r) {
        srt_request_arg(r, node->id.data, node->id.len);
        srt_request_int(r, s->lease);
        srt_request_arg(r, s->notice_seen, s->notice_seen_len);
        srt_request_int(r, NOTICE_LIMIT);
        for (i = 0; may_take_over(node, s, now) && i < node->peers.count; i++)
            srt_request_arg(r, node->peers.list[i].id.data, node->peers.list[i].id.len);
    }
    if (!srt_shard_send(node, s, r, now))
        return;
    s->notices = SRT_NOTICES_NONE;
    s->telling = SRT_TELLING_FETCH;
}

static void forget_told(srt_node *node, srt_shard *s, int64_t now)
{
    srt_request *r = srt_shard_begin(node, s, srt_script_told, SRT_ASK_TOLD);
    size_t i;
    if (r)
        srt_request_arg(r, node->id.data, node->id.len);
    for (i = 0; r && i < s->told->count; i++)
        srt_request_arg(r, s->told->jobs[i]->run, s->told->jobs[i]->run_len);
    if (srt_shard_send(node, s, r, now))
        s->telling = SRT_TELLING_REMOVE;
}

void srt_notice_step(srt_node *node, srt_shard *s, int64_t now)
{
    int wants =
        s->telling == SRT_TELLING_RETURNED || (s->telling == SRT_TELLING_NONE && s->notices != SRT_NOTICES_NONE);
    if (!wants)
        return;
    if (s->notice_at > now && s->notices != SRT_NOTICES_OWN)
        srt_node_wake(node, s, s->notice_at);
    else if (s->telling == SRT_TELLING_RETURNED)
        forget_told(node, s, now);
    else
        fetch(node, s, now);
}

void srt_notice_seen(srt_node *node, srt_shard *s, srt_notices notices, int64_t now)
{
    if (notices > s->notices)
        s->notices = notices;
    srt_node_wake(node, s, now);
}

/* ---- Answers ------------------------------------------------------------------------------- */

static uint32_t little32(const char *at)
{
    const unsigned char *b = (const unsigned char *)at;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* A notice: length of the id, id, number of all payloads, a record. */
static int read_notice(srt_job *job, srt_arena *memory, const srt_token *notice)
{
    size_t id_len;
    int status;
    if (notice->type != SRT_STRING || notice->len < 8 || (id_len = little32(notice->data)) > notice->len - 8)
        return SERIATIM_PROTOCOL;
    job->view.id = notice->data + 4;
    job->view.id_len = id_len;
    job->view.payload_total = little32(notice->data + 4 + id_len);
    status = srt_record_read(&job->record, memory, notice->data + 8 + id_len, notice->len - 8 - id_len);
    srt_job_view(job);
    return status;
}

/* A job that stands for a notice. Its run is the number of the notice. */
static int add_notice(srt_shard *s, srt_claim *claim, seriatim_delivery *d, const srt_token *number,
                      const srt_token *notice)
{
    srt_job *job = srt_arena_alloc(&claim->memory, sizeof *job);
    int status;
    if (!job)
        return SERIATIM_NOMEM;
    memset(job, 0, sizeof *job);
    status = read_notice(job, &claim->memory, notice);
    if (status != SERIATIM_OK)
        return status;
    job->claim = claim;
    job->shard = s;
    job->run = number->data;
    job->run_len = number->len;
    job->text = "";
    claim->jobs++;
    d->jobs[d->count++] = job;
    return SERIATIM_OK;
}

/* Adds the notices of an answer, whose memory becomes theirs. OK or NOMEM. One that cannot be read is left out. */
static int add_notices(srt_node *node, srt_shard *s, seriatim_delivery *d, const srt_reply *reply)
{
    srt_claim *claim = srt_alloc(node->mem, sizeof *claim);
    int status = SERIATIM_OK;
    size_t i;
    if (!claim)
        return SERIATIM_NOMEM;
    memset(claim, 0, sizeof *claim);
    claim->memory = srt_reader_take(node->answering->commands.reader);
    claim->jobs = 1; /* owned by this function until all notices are added */
    for (i = 0; i < d->cap && status != SERIATIM_NOMEM; i++) {
        status = add_notice(s, claim, d, &reply->tokens[3 + 2 * i], &reply->tokens[4 + 2 * i]);
        if (status == SERIATIM_PROTOCOL)
            srt_node_tell(node, SERIATIM_EVENT_WARNING, 1, "shard %.*s: a notice for retries_exhausted cannot be read",
                          (int)s->keys->prefix.len - 1, s->keys->prefix.data);
    }
    srt_claim_free_one(claim);
    return status == SERIATIM_NOMEM ? status : SERIATIM_OK;
}

/* What is fetched next: more notices of this node, or notices of other nodes. */
static void note_rest(srt_node *node, srt_shard *s, int at_once, int64_t left, int64_t now)
{
    if (at_once)
        s->notices = SRT_NOTICES_OWN;
    else if (left > 0 && s->notices == SRT_NOTICES_NONE)
        s->notices = SRT_NOTICES_OTHERS;
    retry_later(node, s, now);
}

/* Hands out the notices of an answer. Out of memory it hands out nothing, and they are fetched again. */
static void hand_out(srt_node *node, srt_shard *s, const srt_reply *reply)
{
    srt_group *group = &node->groups[s->group];
    size_t count = (reply->count - 3) / 2;
    seriatim_delivery *d = srt_delivery_new(node->mem, SERIATIM_EXHAUSTED, s, count);
    char seen[sizeof s->notice_seen];
    if (!d)
        return;
    memcpy(seen, reply->tokens[1 + 2 * count].data, sizeof seen);
    if (add_notices(node, s, d, reply) != SERIATIM_OK) {
        srt_delivery_free(node->mem, d);
        return;
    }
    memcpy(s->notice_seen, seen, sizeof seen);
    s->notice_seen_len = sizeof seen;
    if (d->count == 0) {
        srt_delivery_free(node->mem, d);
        return;
    }
    s->telling = SRT_TELLING_HOOK;
    d->notices = 1;
    d->next = group->exhausted;
    group->exhausted = d;
    group->wake_pending = 1;
}

/*
 * tell.lua has answered: {more, left, number, notice, ...}. The rest is fetched when the hooks of these have returned.
 */
void srt_notice_fetched(srt_node *node, srt_shard *s, const srt_reply *reply, int64_t now)
{
    size_t i;
    s->telling = SRT_TELLING_NONE;
    if (reply->count < 3)
        return;
    note_rest(node, s, 0, srt_token_int(&reply->tokens[2]), now);
    for (i = 3; i < reply->count; i += 2)
        if (i + 1 == reply->count || reply->tokens[i].len != sizeof s->notice_seen)
            return;
    if (reply->count > 3)
        hand_out(node, s, reply);
}

void srt_notice_settled(srt_node *node, seriatim_delivery *d, int64_t now)
{
    srt_shard *s = d->shard;
    s->told = d;
    s->telling = SRT_TELLING_RETURNED;
    s->notice_at = now;
    srt_node_wake(node, s, now);
}

/* told.lua has answered how many notices the shard still has. */
void srt_notice_told(srt_node *node, srt_shard *s, const srt_reply *reply, int64_t now)
{
    srt_delivery_free(node->mem, s->told);
    s->told = NULL;
    s->telling = SRT_TELLING_NONE;
    note_rest(node, s, srt_token_int(&reply->tokens[0]) > 0, 0, now);
}

void srt_notice_refused(srt_node *node, srt_shard *s, int64_t now)
{
    s->telling = s->told ? SRT_TELLING_RETURNED : SRT_TELLING_NONE;
    note_rest(node, s, 0, 1, now);
}
