/*
 * heartbeat.c - renews a node's heartbeat and so the leases of its shards, tells other nodes which queues it serves,
 * learns which nodes live, and computes which node should own each shard.
 */
#include "node/node_state.h"
#include "seriatim/binding/names.h"

#include <string.h>

#define NODE_OPENING_MS 1000 /* a start waits at most this long for all first claims */
#define CLOCK_TRIP_MS 1000   /* after a longer round trip the offset of the clocks is too uncertain */
#define PEERS_FIRST 5        /* index of the first node in heartbeat.lua's answer */

int srt_node_lives(const srt_node *n, const char *id, size_t len)
{
    size_t i;
    for (i = 0; i < n->peers.count; i++)
        if (srt_bytes_equal(&n->peers.list[i].id, id, len))
            return 1;
    return 0;
}

void srt_heartbeat_soon(srt_node *n, int64_t now)
{
    if (n->heartbeat.in_flight)
        n->heartbeat.again = 1;
    else
        n->heartbeat.at = now;
}

static int serves(const srt_peer *peer, const srt_queue *queue)
{
    uint32_t crc = srt_crc32(queue->name.data, queue->name.len);
    const char *at = peer->description.data, *end;
    if (peer->description.len == 0 || *at++ != 'b')
        return 0;
    end = peer->description.data + peer->description.len;
    for (; end - at >= 9 && *at == ' '; at += 9) {
        uint32_t theirs = 0;
        size_t i;
        for (i = 1; i < 9; i++)
            theirs = theirs << 4 | (uint32_t)(at[i] <= '9' ? at[i] - '0' : at[i] - 'a' + 10);
        if (theirs == crc)
            return 1;
    }
    return 0;
}

void srt_shard_want(srt_node *n, srt_shard *s, int wanted, uint64_t next_owner, int64_t now)
{
    s->next_owner = next_owner;
    if (wanted == s->wanted)
        return;
    s->wanted = wanted;
    srt_node_wake(n, s, now);
}

/* How many shards of the queue there are to be shared; those behind them the queue has lost. */
static unsigned shared_count(const srt_queue *queue)
{
    unsigned all = srt_queue_addressed(queue);
    return all < queue->place_count ? all : queue->place_count;
}

/* Shares the shards of one queue among the living nodes that serve it. */
static int share_queue(srt_node *n, const srt_queue *queue, int64_t now)
{
    unsigned shards = shared_count(queue);
    size_t i, count = 0, cap = n->peers.count + 1;
    uint64_t *nodes = srt_alloc(n->mem, cap * sizeof *nodes);
    unsigned *load = srt_alloc(n->mem, cap * sizeof *load);
    unsigned *owners = srt_alloc(n->mem, shards * sizeof *owners);
    int status = nodes && load && owners ? SERIATIM_OK : SERIATIM_NOMEM;
    unsigned shard;
    for (i = 0; status == SERIATIM_OK && i < n->peers.count; i++)
        if (serves(&n->peers.list[i], queue) && !((n->quiet || queue->withdrawn) && n->peers.list[i].hash == n->hash))
            nodes[count++] = n->peers.list[i].hash;
    if (status == SERIATIM_OK && count > 0) {
        srt_share_shards(srt_hash(queue->name.data, queue->name.len), nodes, count, shards, owners, load);
        for (shard = 0; shard < shards; shard++)
            srt_shard_want(n, queue->places[shard], nodes[owners[shard]] == n->hash, nodes[owners[shard]], now);
    }
    srt_free(n->mem, nodes, cap * sizeof *nodes);
    srt_free(n->mem, load, cap * sizeof *load);
    srt_free(n->mem, owners, shards * sizeof *owners);
    return status;
}

/* A quiet node keeps its shards until others live; one that has withdrawn the worker has no code for them. */
void srt_node_share_queue(srt_node *n, const srt_queue *queue, int64_t now)
{
    unsigned i;
    for (i = queue->withdrawn ? 0 : shared_count(queue); i < queue->place_count; i++)
        srt_shard_want(n, queue->places[i], 0, 0, now);
    if (!queue->place_count || n->fixed.count || share_queue(n, queue, now) == SERIATIM_OK)
        return;
    n->peers.share_again = 1;
    srt_heartbeat_soon(n, now + 100);
}

void srt_node_share(srt_node *n, int64_t now)
{
    size_t worker;
    n->peers.share_again = 0;
    for (worker = 0; worker < n->worker_count; worker++)
        srt_node_share_queue(n, n->workers[worker], now);
}

void srt_node_forget_peers(srt_node *n)
{
    size_t i;
    for (i = 0; i < n->peers.count; i++) {
        srt_bytes_free(&n->peers.list[i].id);
        srt_bytes_free(&n->peers.list[i].description);
    }
    n->peers.count = 0;
}

/*
 * Length of the part of a description that other nodes act on. The state of the process and the host's text follow it.
 */
static size_t peer_head(const srt_token *description)
{
    size_t len;
    for (len = 0; len < description->len && description->data[len] != ';' && description->data[len] != '|'; len++)
        ;
    return len;
}

static int peers_changed(const srt_node *n, const srt_reply *reply)
{
    size_t i, count = (reply->count - PEERS_FIRST) / 2;
    if (count != n->peers.count)
        return 1;
    for (i = 0; i < count; i++) {
        const srt_token *id = &reply->tokens[PEERS_FIRST + 2 * i];
        if (!srt_node_lives(n, id->data, id->len) ||
            !srt_bytes_equal(&n->peers.list[i].description, id[1].data, peer_head(&id[1])))
            return 1;
    }
    return 0;
}

static int peers_take(srt_node *n, const srt_reply *reply)
{
    size_t i, count = (reply->count - PEERS_FIRST) / 2;
    void *list = n->peers.list;
    srt_node_forget_peers(n);
    if (srt_grow(n->mem, &list, &n->peers.cap, count, sizeof *n->peers.list) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    n->peers.list = list;
    for (i = 0; i < count; i++) {
        const srt_token *id = &reply->tokens[PEERS_FIRST + 2 * i];
        srt_peer *l = &n->peers.list[n->peers.count++];
        srt_bytes_init(&l->id, n->mem);
        srt_bytes_init(&l->description, n->mem);
        srt_bytes_add(&l->id, id[0].data, id[0].len);
        srt_bytes_add(&l->description, id[1].data, peer_head(&id[1]));
        l->hash = srt_hash(id[0].data, id[0].len);
        if (l->id.failed || l->description.failed)
            return SERIATIM_NOMEM;
    }
    return SERIATIM_OK;
}

/* An order that this version does not know is ignored: a later version sent it. */
static int order_of(const srt_token *word)
{
    int order = word->type == SRT_STRING ? seriatim_order_named(word->data, word->len) : -1;
    return order > 0 ? order : SERIATIM_ORDER_NONE;
}

int srt_node_expired(const srt_node *n, int64_t now)
{
    return now - n->heartbeat.answered_at >= n->lease_ms;
}

/* The heartbeat had expired: other nodes may have owned our shards, and messages about pushes may have gone to them. */
static int node_came_late(srt_node *n, int64_t redis_us, int64_t asked_at, int64_t now)
{
    int late = n->heartbeat.redis_us && redis_us - n->heartbeat.redis_us >= n->lease_ms * 1000;
    if (redis_us < n->heartbeat.redis_us)
        srt_node_tell(n, SERIATIM_EVENT_WARNING, (n->heartbeat.redis_us - redis_us) / 1000000,
                      "the clock of Redis went back by %lld seconds: delayed jobs start that much later",
                      (long long)((n->heartbeat.redis_us - redis_us) / 1000000));
    if (srt_node_expired(n, now))
        srt_node_wake_threads(n);
    n->heartbeat.redis_us = redis_us;
    n->heartbeat.answered_at = asked_at;
    return late;
}

/*
 * Redis was away, so no node could renew its heartbeat, and an expired one does not prove that its node is dead.
 * heartbeat.lua answers for how long every shard is left to the owner that it names, and for how many milliseconds no
 * heartbeat came (-1: not known). The host gets one event for each absence; if its length is not known, only when a
 * shard is left to its owner, because at a first start the length is never known.
 */
static void node_take_absence(srt_node *n, const srt_token *left, int64_t now)
{
    int64_t left_ms = srt_token_int(&left[0]), gap_ms = srt_token_int(&left[1]);
    int already = now < n->heartbeat.away_until;
    n->heartbeat.away_until = now + (left_ms > 0 ? left_ms : 0);
    if (left_ms <= 0 || already)
        return;
    n->heartbeat.away_unknown = gap_ms == -1;
    if (gap_ms > 0)
        srt_node_tell(n, SERIATIM_EVENT_WARNING, gap_ms / 1000,
                      "no node renewed its heartbeat for %lld.%lld seconds: Redis was away, or every node was; "
                      "for %lld.%lld seconds all shards stay with the nodes that own them",
                      (long long)(gap_ms / 1000), (long long)(gap_ms / 100 % 10), (long long)(left_ms / 1000),
                      (long long)(left_ms / 100 % 10));
}

int srt_node_leaves_to_owner(srt_node *n, const srt_shard *s, int64_t now)
{
    if (now >= n->heartbeat.away_until)
        return 0;
    if (n->heartbeat.away_unknown)
        srt_node_tell(n, SERIATIM_EVENT_WARNING, (n->heartbeat.away_until - now) / 1000,
                      "shard %.*s belongs to node %.*s, and Redis does not know when a heartbeat was last renewed: for "
                      "%lld.%lld seconds "
                      "all shards stay with the nodes that own them",
                      (int)s->keys->prefix.len - 1, s->keys->prefix.data, (int)s->owner.len, s->owner.data,
                      (long long)((n->heartbeat.away_until - now) / 1000),
                      (long long)((n->heartbeat.away_until - now) / 100 % 10));
    n->heartbeat.away_unknown = 0;
    return 1;
}

static void node_take_skew(srt_node *n, int64_t redis_us, int64_t asked_at, int64_t now)
{
    if (!n->heartbeat.wall_us || now - asked_at > CLOCK_TRIP_MS)
        return;
    n->heartbeat.skew_ms = (n->heartbeat.wall_us + (asked_at + now) * 500 - redis_us) / 1000;
    n->heartbeat.has_skew = 1;
}

int srt_heartbeat_answered(srt_node *n, const srt_reply *reply, int64_t asked_at, int64_t now)
{
    size_t i;
    int late;
    n->heartbeat.in_flight--;
    if (n->left) {
        n->stopped = n->heartbeat.in_flight == 0;
        return 0;
    }
    if (reply->count < PEERS_FIRST)
        return 0;
    n->ordered = order_of(&reply->tokens[2]);
    n->offset_us = srt_token_int(&reply->tokens[1]) - now * 1000;
    node_take_skew(n, srt_token_int(&reply->tokens[1]), asked_at, now);
    node_take_absence(n, &reply->tokens[3], now);
    late = node_came_late(n, srt_token_int(&reply->tokens[1]), asked_at, now);
    if (peers_changed(n, reply)) {
        if (peers_take(n, reply) != SERIATIM_OK) {
            srt_node_forget_peers(n);
            n->heartbeat.at = now + 100;
            return late;
        }
        n->heartbeat.answered++;
        srt_node_share(n, now);
    } else {
        n->heartbeat.answered++;
        if (n->peers.share_again)
            srt_node_share(n, now);
    }
    if (n->opened_by == SRT_NEVER)
        n->opened_by = now + NODE_OPENING_MS;
    for (i = 0; i < n->shard_count; i++)
        if (n->shards[i]->wanted && n->shards[i]->state == SRT_FOREIGN)
            srt_node_wake(n, n->shards[i], now);
    if (n->heartbeat.again)
        n->heartbeat.at = now;
    n->heartbeat.again = 0;
    return late;
}

/* A refused farewell needs no repetition: the heartbeat expires by itself. */
void srt_heartbeat_failed(srt_node *n, int64_t now)
{
    n->heartbeat.in_flight--;
    n->stopped |= n->left;
    n->heartbeat.at = now + 100;
}

/* The description, with the state of the process before the '|'. Readers skip fields that they do not know. */
static void beat_describe(const srt_node *n, srt_bytes *text)
{
    const char *bar = memchr(n->description.data, '|', n->description.len);
    size_t head = (size_t)(bar - n->description.data);
    seriatim_text host = {bar + 1, n->description.len - head - 1};
    srt_bytes_add(text, n->description.data, head);
    srt_bytes_adds(text, ";lease=");
    srt_bytes_add_int(text, n->lease_ms);
    srt_bytes_adds(text, ";can=move");
    srt_heartbeat_fields(n, host, text);
    srt_bytes_add(text, bar, n->description.len - head);
}

void srt_heartbeat_send(srt_node *n, int64_t lease_ms, int64_t now)
{
    srt_request *r =
        srt_session_begin(srt_cluster_pool(&n->cluster), srt_script_heartbeat, &n->heartbeat_keys, SRT_HEARTBEAT_KEYS);
    srt_bytes text;
    n->heartbeat.at = now + 100;
    if (!r)
        return;
    r->kind = SRT_ASK_HEARTBEAT;
    r->number = now;
    srt_request_arg(r, n->id.data, n->id.len);
    srt_request_int(r, lease_ms);
    srt_bytes_init(&text, n->mem);
    beat_describe(n, &text);
    srt_request_arg(r, text.data, text.len);
    r->tail.failed |= text.failed;
    srt_bytes_free(&text);
    srt_request_arg(r, n->nodes_channel.data, n->nodes_channel.len);
    if (srt_cluster_send(&n->cluster, r) != SERIATIM_OK)
        return;
    n->heartbeat.in_flight++;
    n->heartbeat.at = now + n->lease_ms / 4;
}

/* An order may have come before the start. */
static char first_state(const srt_node *n)
{
    if (n->stopping || n->quiet)
        return n->stopping ? 's' : 'q';
    return n->fixed.count ? 'f' : 'b';
}

/*
 * What other nodes read: 'b' (shares all shards), 'f' (fixed groups), 'q' (quiet) or 's' (stopping), the queues by
 * checksum, then the host's text.
 */
int srt_node_describe(srt_node *n)
{
    const char *host = n->description.data;
    size_t left = n->description.len, i, b;
    srt_bytes text;
    srt_bytes_init(&text, n->mem);
    srt_bytes_addc(&text, n->described ? *host : first_state(n));
    for (i = 0; i < n->worker_count; i++) {
        uint32_t crc = srt_crc32(n->workers[i]->name.data, n->workers[i]->name.len);
        if (n->workers[i]->withdrawn)
            continue;
        srt_bytes_addc(&text, ' ');
        for (b = 0; b < 8; b++)
            srt_bytes_addc(&text, "0123456789abcdef"[(crc >> (28 - 4 * b)) & 15]);
    }
    for (; n->described && *host != '|'; left--)
        host++;
    if (!n->described)
        srt_bytes_addc(&text, '|');
    srt_bytes_add(&text, host, left);
    if (text.failed) {
        srt_bytes_free(&text);
        return SERIATIM_NOMEM;
    }
    srt_bytes_free(&n->description);
    n->description = text;
    return SERIATIM_OK;
}

void srt_node_announce(srt_node *n, int64_t now)
{
    srt_request *r;
    if (!srt_node_may_send(n) || !n->shard_count)
        return;
    srt_heartbeat_send(n, n->lease_ms, now);
    r = srt_session_begin(srt_cluster_pool(&n->cluster), srt_script_none, NULL, 0);
    if (!r)
        return;
    r->kind = SRT_ASK_NOTHING;
    srt_request_text(r, "PUBLISH");
    srt_request_arg(r, n->nodes_channel.data, n->nodes_channel.len);
    srt_request_text(r, "stop");
    srt_cluster_send(&n->cluster, r);
}
