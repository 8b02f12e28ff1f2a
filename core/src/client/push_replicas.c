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
    srt_request *r = srt_wait_request(&c->cluster, peer, c->push->replicas, push_wait_ms(c));
    int status;
    if (!r)
        return srt_client_fail(c, srt_fail_plain(&c->error, SERIATIM_NOMEM));
    r->kind = PUSH_KIND_WAIT;
    status = srt_client_send(c, r);
    if (status == SERIATIM_OK)
        peer->waited = r->starts;
    return status;
}

static int push_needs_wait(const srt_push *p, const srt_redis *peer)
{
    size_t i;
    for (i = 0; i < p->opened; i++)
        if (p->chunks[i].doubt == SRT_PUSH_UNCOUNTED && p->chunks[i].peer == peer &&
            p->chunks[i].starts >= peer->waited)
            return 1;
    return 0;
}

static int push_is_counted(const srt_push *p)
{
    size_t i;
    for (i = 0; i < p->opened; i++)
        if (p->chunks[i].doubt == SRT_PUSH_UNCOUNTED)
            return 0;
    return 1;
}

static void push_settle_counted(seriatim_client *c)
{
    srt_push *p = c->push;
    size_t i, opened = p->opened;
    if (p->fewest < p->replicas && p->shortage.status == SERIATIM_OK)
        srt_fail(&p->shortage, SERIATIM_REPLICAS, "the push is written, %lld of %lld replicas have it",
                 (long long)p->fewest, (long long)p->replicas);
    srt_push_settle_unsure(p);
    for (i = 0; i < opened; i++)
        if (p->chunks[i].doubt != SRT_PUSH_CERTAIN) {
            p->chunks[i].doubt = SRT_PUSH_CERTAIN;
            srt_push_go_on(c, i);
        }
}

/*
 * WAIT counts the replicas that have what this very connection wrote before. It follows on each one when all that was
 * sent for the queue is answered, unless one that another queue has sent comes behind all of it; until then nothing of
 * the queue is settled, and on another connection it goes again before the next WAIT. When the operation has failed, no
 * WAIT is sent any more, and the answers to those that were sent count.
 */
int srt_push_ask_replicas(seriatim_client *c)
{
    srt_push *p = c->push;
    size_t i;
    if (p->unsure == 0 || p->unanswered > 0)
        return c->failed;
    for (i = 0; i < c->cluster.peer_count && c->failed == SERIATIM_OK; i++)
        if (push_needs_wait(p, c->cluster.peers[i]))
            push_ask_peer(c, c->cluster.peers[i]);
    if (push_is_counted(p))
        push_settle_counted(c);
    return c->failed;
}

void srt_push_settle_unsure(srt_push *p)
{
    size_t i;
    for (i = 0; i < p->opened && p->unsure; i++)
        if (p->chunks[i].doubt != SRT_PUSH_CERTAIN)
            srt_push_settle_chunk(p, &p->chunks[i]);
    p->unsure = 0;
    p->sure = p->counts;
    p->sure_chunks = p->written_chunks;
}

int srt_push_take_replicas(seriatim_client *c, const srt_request *r, int64_t count)
{
    srt_push *p = c->push;
    size_t i;
    int found = 0;
    for (i = 0; i < p->opened && p->unsure; i++) {
        srt_push_chunk *chunk = &p->chunks[i];
        if (chunk->doubt != SRT_PUSH_UNCOUNTED || chunk->peer != c->answering || chunk->starts >= r->starts)
            continue;
        chunk->doubt = SRT_PUSH_COUNTED;
        found = 1;
    }
    if (found && count < p->fewest)
        p->fewest = count;
    return found;
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
        c->cluster.peers[i]->mark = c->cluster.peers[i]->waited = 0;
}

void srt_push_forget_lost(seriatim_client *c)
{
    size_t i;
    for (i = 0; c->lost->mark && i < c->cluster.peer_count; i++)
        if (c->cluster.peers[i] != c->lost)
            c->cluster.peers[i]->mark = 0;
    c->lost->mark = c->lost->waited = 0;
}

static int push_has_lost(const seriatim_client *c)
{
    const srt_push *p = c->push;
    size_t i;
    for (i = 0; i < p->opened && p->unsure; i++)
        if (p->chunks[i].doubt != SRT_PUSH_CERTAIN && p->chunks[i].peer == c->lost)
            return 1;
    return 0;
}

/*
 * Nobody can say whether the next master has it: all that is unsure goes again, and counts when it is answered again.
 * What the other masters have said holds on.
 */
void srt_push_on_disconnected(seriatim_client *c)
{
    srt_push *p = c->push;
    size_t i;
    if (c->lost->mark) {
        p->connection++;
        p->absences = 0; /* also of the connections that still stand: see srt_push_take_absence */
        srt_push_forget_moved(p);
    }
    if (!push_has_lost(c))
        return;
    for (i = 0; i < p->opened && p->unsure; i++)
        if (p->chunks[i].doubt != SRT_PUSH_CERTAIN && srt_push_send_chunk(c, i) == SERIATIM_OK) {
            p->chunks[i].doubt = SRT_PUSH_CERTAIN;
            srt_push_mark(p, &p->chunks[i], SERIATIM_JOB_UNWRITTEN); /* the next master may take fewer jobs */
            p->unsure--;
        }
    srt_push_forget_unsure(p);
}
