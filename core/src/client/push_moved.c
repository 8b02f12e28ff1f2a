/*
 * push_moved.c - a push while ids move. Where one Redis has all shards, the new shard looks into the old one and writes
 * what is not there. What is still there, and all jobs of an outbox or in a cluster, goes to the old shard first, which
 * writes only what joins an id that is there, then to the new one. What is not there will never be there again; but it
 * is believed only when a replica of the old shard has what that shard has written before: else a failover could bring
 * the id back.
 */
#include "client/push.h"

#define PUSH_AGAIN_MS 5                         /* before an id is asked for again that is on its way */
enum { AGAIN_UNSURE = 1, AGAIN_ON_ITS_WAY };    /* srt_push.again */
enum { MOVED_NONE, MOVED_UNSURE, MOVED_ASKED }; /* srt_push.moved */
#define PUSH_ABSENCE_MS 100                     /* a WAIT ends after this time, and is repeated */
#define PUSH_ASK_LEAST 20                       /* jobs of a push that asks for ids alone first */

/* ---- The steps of a plan --------------------------------------------------------------------- */

static int has_foreign_job(const srt_push *p, const srt_queue *queue)
{
    size_t i;
    for (i = 0; i < p->job_count; i++)
        if (p->jobs[i].bytes && p->jobs[i].crc % queue->old_count != p->jobs[i].crc % queue->shards_count)
            return 1;
    return 0;
}

/* A push of an outbox does not ask: the old shard may have taken a job whose id has left before its number does. */
void srt_push_begin_steps(seriatim_client *c, const srt_queue *queue)
{
    srt_push *p = c->push;
    if (p->generation != queue->generation) {
        srt_push_forget_moved(p);
        p->floor = 0;
        p->asked = 0;
        p->old_first = c->cluster.many || c->as_in_cluster || p->outbox[0];
    }
    p->generation = queue->generation;
    p->old_count = queue->old_count;
    p->again = p->moved = p->returned = 0;
    p->asks = queue->old_count && p->old_first && !p->asked && !p->outbox[0] && p->job_count >= PUSH_ASK_LEAST &&
              has_foreign_job(p, queue);
    p->asked |= p->asks;
}

void srt_push_note_away(seriatim_client *c, srt_push_job *job, char letter)
{
    job->away = 1;
    job->moved = letter == 'm';
    if (letter == 'h') { /* most ids that come back are there, so none is asked for alone */
        c->push->returned = c->push->old_first = c->push->asked = 1;
    } else if (letter == 'm') {
        c->push->moved = MOVED_UNSURE;
        c->answering->mark |= PUSH_MARK_ABSENT;
    } else {
        c->push->again = AGAIN_ON_ITS_WAY;
    }
}

/* ---- What shards have said ------------------------------------------------------------------- */

/*
 * Two jobs of an id may be in two chunks of its shard, and have to go the same way. Each chunk ends where the next one
 * begins.
 */
static void follow_asked(srt_push *p)
{
    size_t i, next, place = 0;
    for (i = 0; p->asks && i < p->chunk_count; i = next) {
        int found = 0;
        for (next = i; next < p->chunk_count && p->chunks[next].shard == p->chunks[i].shard; next++)
            found |= p->chunks[next].found;
        for (; place < p->chunks[next - 1].first; place++)
            if (found)
                p->jobs[p->places[place]].moved = 0;
    }
    p->asks = 0;
}

/* ---- Replicas -------------------------------------------------------------------------------- */

void srt_push_forget_moved(srt_push *p)
{
    size_t i;
    for (i = 0; i < p->job_count; i++)
        p->jobs[i].moved = 0;
    if (p->moved && !p->again)
        p->again = AGAIN_UNSURE;
    p->moved = 0;
}

static int moved_ask(seriatim_client *c, srt_redis *peer, int waits)
{
    srt_request *r =
        waits ? srt_wait_request(&c->cluster, peer, 1, PUSH_ABSENCE_MS) : srt_role_request(&c->cluster, peer);
    if (!r)
        return srt_client_fail(c, srt_fail_plain(&c->error, SERIATIM_NOMEM));
    r->kind = PUSH_KIND_ABSENCE;
    r->place = c->push->connection;
    r->subject = c->push;
    return srt_client_send(c, r);
}

/* Each master that has said that an id is not there. */
static int ask_roles(seriatim_client *c)
{
    srt_push *p = c->push;
    size_t i;
    p->moved = MOVED_ASKED;
    for (i = 0; i < c->cluster.peer_count && c->failed == SERIATIM_OK; i++)
        if (c->cluster.peers[i]->mark & PUSH_MARK_ABSENT) {
            moved_ask(c, c->cluster.peers[i], 0);
            p->absences++;
        }
    return c->failed;
}

int srt_push_follow_moved(seriatim_client *c)
{
    srt_push *p = c->push;
    if ((!p->moved && !p->again && !p->asks && !p->returned) || p->pending_chunks > 0 || c->failed != SERIATIM_OK)
        return 0;
    if (p->again) {
        srt_push_forget_moved(p);
        c->pause_ms = PUSH_AGAIN_MS;
        if (p->again == AGAIN_ON_ITS_WAY)
            srt_client_note_on_its_way(c);
    }
    if (p->moved == MOVED_UNSURE && ask_roles(c) != SERIATIM_OK)
        return 0;
    if (p->absences > 0 || c->failed != SERIATIM_OK)
        return 0;
    follow_asked(p);
    p->again = p->moved = p->returned = 0;
    return 1;
}

void srt_push_take_absence(seriatim_client *c, const srt_request *r, const srt_reply *reply)
{
    srt_replicated replicated = reply ? srt_replicated_of(reply) : SRT_REPLICATED;
    if (r->place != c->push->connection)
        return;
    if (replicated == SRT_REPLICATED_BY_NONE)
        srt_push_forget_moved(c->push);
    if (c->push->moved && replicated != SRT_REPLICATED)
        moved_ask(c, c->answering, replicated == SRT_REPLICATED_ASK);
    else
        c->push->absences--;
}
