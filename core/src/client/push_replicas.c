/* push_replicas.c - a push that is done only when replicas have it: WAIT behind the chunks of a connection. */
#include "client/push.h"

#define PUSH_WAIT_SPARE_MS 250

/* Redis is to answer while the push still waits, and looks at timeouts ten times a second only. 0 would be for ever. */
static int64_t push_wait_ms(const seriatim_client *c)
{
    int64_t most = c->left_ms - PUSH_WAIT_SPARE_MS;
    most = most < c->push->wait_ms ? most : c->push->wait_ms;
    return most > 1 ? most : 1;
}

static int push_ask_peer(seriatim_client *c, srt_redis *peer)
{
    srt_push *p = c->push;
    srt_request *r = srt_wait_request(&c->cluster, peer, p->replicas, push_wait_ms(c));
    if (!r)
        return srt_client_fail(c, srt_fail_plain(&c->error, SERIATIM_NOMEM));
    r->kind = PUSH_KIND_WAIT;
    r->place = p->connection;
    return srt_client_send(c, r);
}

/*
 * WAIT counts the replicas that have what this very connection wrote, so it follows on each one when all chunks that
 * were sent are answered; until then nothing of them is settled, and on another connection they go again before the
 * next WAIT. It does not wait for what another queue asks of replicas, which may lag.
 */
int srt_push_ask_replicas(seriatim_client *c)
{
    srt_push *p = c->push;
    size_t i;
    if (p->unsure == 0 || c->asked - p->absences_elsewhere != 1 || c->failed != SERIATIM_OK)
        return c->failed;
    for (i = 0; i < c->cluster.peer_count && c->failed == SERIATIM_OK; i++) {
        srt_redis *peer = c->cluster.peers[i];
        if (peer->mark & PUSH_MARK_UNSURE)
            push_ask_peer(c, peer);
        peer->mark &= ~(size_t)PUSH_MARK_UNSURE;
    }
    return c->failed;
}

void srt_push_settle_unsure(srt_push *p)
{
    size_t i;
    for (i = 0; i < p->opened && p->unsure; i++)
        if (p->chunks[i].unsure)
            srt_push_settle_chunk(p, &p->chunks[i]);
    p->unsure = 0;
    p->sure = p->counts;
    p->sure_chunks = p->written_chunks;
}

int srt_push_take_replicas(seriatim_client *c, const srt_request *r, int64_t count)
{
    srt_push *p = c->push;
    size_t i, opened = p->opened;
    if (r->place == p->connection && count < p->fewest)
        p->fewest = count;
    if ((r->part ? r->part : c->asked) > 1 || p->fewest == INT64_MAX)
        return c->failed; /* another master's WAIT is under way, or it was asked for on a connection that was lost */
    count = p->fewest;
    if (count < p->replicas && p->shortage.status == SERIATIM_OK)
        srt_fail(&p->shortage, SERIATIM_REPLICAS, "the push is written, %lld of %lld replicas have it",
                 (long long)count, (long long)p->replicas);
    srt_push_settle_unsure(p);
    for (i = 0; i < opened; i++)
        if (p->chunks[i].unsure) {
            p->chunks[i].unsure = 0;
            srt_push_go_on(c, i);
        }
    return c->failed;
}

/* What is not known to be on the replicas does not count as written. */
void srt_push_forget_unsure(srt_push *p)
{
    if (!p->replicas || p->shortage.status != SERIATIM_OK)
        return;
    p->counts = p->sure;
    p->written_chunks = p->sure_chunks;
}

void srt_push_forget_marks(seriatim_client *c)
{
    size_t i;
    for (i = 0; i < c->cluster.peer_count; i++)
        c->cluster.peers[i]->mark = 0;
}

/*
 * Nobody can say whether the next master has it: all that is unsure goes again, and counts when it is answered again.
 */
void srt_push_on_disconnected(seriatim_client *c)
{
    srt_push *p = c->push;
    size_t i;
    p->connection++;
    p->absences = 0; /* also of the connections that still stand: see srt_push_take_absence */
    srt_push_forget_moved(p);
    srt_push_forget_marks(c);
    for (i = 0; i < p->opened && p->unsure; i++)
        if (p->chunks[i].unsure && srt_push_send_chunk(c, i) == SERIATIM_OK) {
            p->chunks[i].unsure = 0;
            p->unsure--;
        }
    srt_push_forget_unsure(p);
}
