/* mover_steps.c - what all steps of a mover share: ids, requests, what comes next, and the wait for replicas. */
#include "node/mover.h"

#include <string.h>

#define MOVE_REST 8 /* times as long as something took, while jobs of the node end */
#define MOVE_REST_MOST_MS 400

/* ---- Ids ------------------------------------------------------------------------------------- */

const char *srt_move_id_bytes(const srt_move_id *id)
{
    return (const char *)(id + 1);
}

const char *srt_move_part(const srt_move_id *id)
{
    return srt_move_id_bytes(id) + id->id_len;
}

const char *srt_move_letters(const srt_move_id *id)
{
    return srt_move_part(id) + id->part_len;
}

srt_move_id *srt_move_id_new(srt_node *n, unsigned target, const srt_token *id, const srt_token *part,
                             const srt_token *letters)
{
    size_t part_len = part ? part->len : 0, letters_len = letters ? letters->len : 0;
    srt_move_id *made = srt_alloc(n->mem, sizeof *made + id->len + part_len + letters_len);
    char *at = (char *)(made + 1);
    if (!made)
        return NULL;
    made->target = target;
    made->id_len = id->len;
    made->part_len = part_len;
    made->letters_len = letters_len;
    memcpy(at, id->data, id->len);
    if (part_len)
        memcpy(at + id->len, part->data, part_len);
    if (letters_len)
        memcpy(at + id->len + part_len, letters->data, letters_len);
    return made;
}

void srt_move_id_free(srt_node *n, srt_move_id *id)
{
    srt_free(n->mem, id, sizeof *id + id->id_len + id->part_len + id->letters_len);
}

void srt_move_keep(srt_mover *m, srt_move_id *id)
{
    id->next = m->found[id->target];
    m->found[id->target] = id;
    m->found_counts[id->target]++;
    m->found_total++;
}

static void drop_list(srt_node *n, srt_move_id **list)
{
    while (*list) {
        srt_move_id *id = *list;
        *list = id->next;
        srt_move_id_free(n, id);
    }
}

void srt_move_drop_found(srt_node *n, srt_mover *m)
{
    unsigned target;
    drop_list(n, &m->sent);
    for (target = 0; m->found && target < m->layout.shards; target++) {
        drop_list(n, &m->found[target]);
        m->found_counts[target] = 0;
    }
    m->found_total = 0;
}

void srt_move_drop_batch(srt_node *n, srt_mover *m)
{
    drop_list(n, &m->batch);
    m->sliced = NULL;
}

/* The next call of a scan is the first one of a new scan. */
void srt_move_scan_begin(srt_mover *m)
{
    m->kind = 0;
    m->scanning = 0;
    m->scan_ms = 0;
    m->has_moved = 0;
    m->has_broken = 0;
    m->listed = 0;
    srt_bytes_clear(&m->cursor);
}

/* ---- Turns ----------------------------------------------------------------------------------- */

void srt_move_rest(srt_node *n, srt_shard *s, int64_t rest_ms, int64_t now)
{
    size_t i;
    if (n->moves.shard != s)
        return;
    n->moves.shard = NULL;
    n->moves.at = now + rest_ms;
    for (i = 0; i < n->shard_count; i++)
        if (n->shards[i]->mover && n->shards[i] != s)
            srt_node_wake(n, n->shards[i], n->moves.at);
    srt_node_wake(n, s, n->moves.at + 1);
}

void srt_move_rest_behind(srt_node *n, srt_shard *s, int64_t took, int64_t now)
{
    uint64_t ended = n->stats.processed + n->stats.failed;
    int64_t rest = MOVE_REST * took < MOVE_REST_MOST_MS ? MOVE_REST * took : MOVE_REST_MOST_MS;
    srt_move_rest(n, s, ended != n->moves.ended ? rest : 0, now);
    n->moves.ended = ended;
}

/* ---- Requests -------------------------------------------------------------------------------- */

/*
 * An open batch of an earlier layout was brought back by a failover. Its destinations may have been turned, and by the
 * later layout its ids lie there as well, or leave from there.
 */
srt_request *srt_move_request(srt_node *n, srt_shard *s, unsigned number, int script)
{
    srt_request *r;
    if (number >= s->queue->shards_known)
        return NULL;
    r = srt_session_begin(srt_cluster_pool(&n->cluster), script, &s->queue->shards[number]->args, SRT_SHARD_KEYS);
    if (!r)
        return NULL;
    r->kind = SRT_ASK_MOVE;
    r->subject = s;
    r->place = number;
    r->number = ++n->moves.serial;
    srt_request_int(r, s->mover->finishes && number != s->index ? s->queue->generation : s->mover->layout.generation);
    return r;
}

void srt_move_send(srt_node *n, srt_shard *s, srt_request *r, int64_t now)
{
    srt_mover *m = s->mover;
    m->serial = n->moves.serial;
    if (r && srt_cluster_send(&n->cluster, r) == SERIATIM_OK)
        m->asking = 1;
    else
        srt_move_anew(n, s, SRT_MOVE_REFUSED_MS, now);
}

void srt_move_go(srt_node *n, srt_shard *s, srt_move_step step, int64_t now)
{
    s->mover->step = step;
    if (s->mover->at > now || n->moves.shard != s)
        srt_node_wake(n, s, s->mover->at > now ? s->mover->at : now);
    else
        n->moves.table->send(n, s, now);
}

void srt_move_anew(srt_node *n, srt_shard *s, int64_t pause_ms, int64_t now)
{
    srt_mover *m = s->mover;
    srt_move_drop_found(n, m);
    srt_move_drop_batch(n, m);
    m->asking = 0;
    srt_move_scan_begin(m);
    m->step = SRT_MOVE_ASK;
    m->at = now + pause_ms;
    srt_move_rest(n, s, 0, now);
    srt_node_wake(n, s, m->at);
}

int srt_move_take_source(srt_mover *m, const srt_reply *reply)
{
    const srt_token *t = reply->tokens;
    size_t i;
    int failed;
    if (reply->count % 3 != 1 || t[2].type != SRT_STRING || t[2].len >= SRT_MOVE_NUMBER)
        return SERIATIM_PROTOCOL;
    memcpy(m->tick, t[2].data, t[2].len + 1);
    srt_bytes_clear(&m->about);
    for (i = 4; i + 2 < reply->count; i += 3)
        if (t[i].len == 0)
            srt_bytes_add(&m->about, t[i + 1].data, t[i + 1].len);
    failed = m->about.failed;
    m->about.failed = 0;
    return failed ? SERIATIM_NOMEM : SERIATIM_OK;
}

srt_request *srt_move_arrive_request(srt_node *n, srt_shard *s, unsigned number, const char *sequence)
{
    const srt_mover *m = s->mover;
    srt_request *r = srt_move_request(n, s, number, srt_script_arrive);
    if (!r)
        return NULL;
    srt_request_int(r, s->index);
    srt_request_text(r, sequence);
    srt_request_text(r, m->tick);
    srt_request_text(r, s->queue->now.fold);
    srt_request_int(r, s->queue->now.history_per_id);
    if (m->about.len) {
        srt_request_arg(r, "", 0);
        srt_request_arg(r, m->about.data, m->about.len);
    }
    return r;
}

/* ---- Replicas -------------------------------------------------------------------------------- */

void srt_move_take_sure(srt_node *n, srt_shard *s, srt_sure sure, int64_t now)
{
    srt_mover *m = s->mover;
    m->asking = sure == SRT_SURE_ASKED;
    if (sure == SRT_SURE_LATER || sure == SRT_SURE_REFUSED) {
        m->at = now + 5 * SRT_MOVE_RETRY_MS;
        srt_node_wake(n, s, m->at);
    } else if (sure == SRT_SURE_LOST) {
        srt_move_anew(n, s, SRT_MOVE_RETRY_MS, now);
    } else if (sure == SRT_SURE) {
        n->moves.table->sure(n, s, now);
    }
}

void srt_move_make_sure(srt_node *n, srt_shard *s, srt_move_step step, int64_t now)
{
    srt_mover *m = s->mover;
    srt_request like;
    if (m->step != step)
        srt_written_note(n, &m->written);
    m->step = step;
    memset(&like, 0, sizeof like);
    like.kind = SRT_ASK_MOVE;
    like.subject = s;
    like.place = s->index;
    like.number = m->serial = ++n->moves.serial;
    srt_move_take_sure(n, s, srt_sure_ask(n, &m->written, &like), now);
}

/* ---- Answers --------------------------------------------------------------------------------- */

int srt_move_is_list(srt_node *n, srt_shard *s, const srt_reply *reply, size_t count, int64_t now)
{
    if (srt_reply_is_list(reply, count))
        return 1;
    srt_node_tell(n, SERIATIM_EVENT_WARNING, SERIATIM_PROTOCOL, "shard %.*s: ids do not move: %s",
                  (int)s->keys->prefix.len - 1, s->keys->prefix.data, "an answer of a form that no script gives");
    srt_move_anew(n, s, SRT_MOVE_REFUSED_MS, now);
    return 0;
}
