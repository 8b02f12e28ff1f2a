/*
 * reshard.c - gives a queue another number of shards. The operation writes the intention, and turns the shards to it;
 * servers that serve the queue move its ids. Whoever dies in between leaves nothing that the servers do not do.
 */
#include "client/operator.h"
#include "model/stored.h"

#include <stdio.h>
#include <string.h>

#define RESHARD_WAIT_MS 50   /* until a replica has the layout */
#define RESHARD_AGAIN_MS 100 /* before it is asked again */

enum {
    RESHARD_NODES,
    RESHARD_STATE,
    RESHARD_TEXT,
    RESHARD_SET,
    RESHARD_ROLE,
    RESHARD_WAIT,
    RESHARD_TURN,
    RESHARD_TELL,
    RESHARD_OUT
};

typedef struct reshard_state {
    int looks;       /* only says how far a move has come */
    unsigned wanted; /* number of shards */
    srt_queue *queue;
    char text[SRT_LAYOUT_TEXT]; /* the layout that shards are turned to */
    size_t waiting;             /* answers of shards */
    int paused;                 /* all shards that were used are paused */
    srt_redis *peer;            /* that has the layout; its replicas are to have it */
    srt_resharding result;
} reshard_state;

static void reshard_release(seriatim_client *c)
{
    srt_free(c->mem, c->state, sizeof(reshard_state));
}

/* ---- Who serves it, and what its shards are -------------------------------------------------- */

static int can_move(const srt_token *description)
{
    static const char word[] = ";can=move";
    size_t len = sizeof word - 1, i;
    for (i = 0; i + len <= description->len && description->data[i] != '|'; i++)
        if (memcmp(description->data + i, word, len) == 0)
            return 1;
    return 0;
}

/* The state of each shard says whether it is paused, its text whether a failover has forgotten a later layout. */
static int reshard_ask_shards(seriatim_client *c, reshard_state *s)
{
    static const char *const words[2][2] = {{"GET", "state"}, {"HGET", "reshard"}};
    unsigned shard, i;
    int status = SERIATIM_OK;
    s->paused = 1;
    s->waiting = 2 * (size_t)s->queue->shards_count;
    for (shard = 0; shard < s->queue->shards_count; shard++)
        for (i = 0; i < 2 && status == SERIATIM_OK; i++) {
            const srt_bytes *prefix = &s->queue->shards[shard]->prefix;
            srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_none, NULL, 0);
            srt_bytes key;
            if (!r)
                return srt_operator_nomem(c);
            srt_bytes_init(&key, c->mem);
            srt_bytes_add(&key, prefix->data, prefix->len);
            srt_bytes_adds(&key, words[i][1]);
            srt_request_text(r, words[i][0]);
            srt_request_arg(r, key.data, key.len);
            r->tail.failed |= key.failed;
            srt_bytes_free(&key);
            if (i == 1)
                srt_request_text(r, "");
            r->kind = i == 0 ? RESHARD_STATE : RESHARD_TEXT;
            status = srt_client_send(c, r);
        }
    return status;
}

/* {now in milliseconds, node, expiry, description, ...} */
static int reshard_on_nodes(seriatim_client *c, reshard_state *s, const srt_reply *reply)
{
    const srt_token *at = reply->tokens;
    size_t i;
    if (!srt_reply_is_list(reply, 1))
        return srt_operator_protocol(c, "nodes");
    for (i = 2; i + 2 < reply->count; i += 3) {
        if (srt_token_int(&at[i + 1]) <= srt_token_int(&at[1]) || !srt_node_serves(&at[i + 2], &s->queue->name))
            continue;
        s->result.servers++;
        if (!can_move(&at[i + 2]))
            return srt_client_fail(
                c, srt_fail(&c->error, SERIATIM_UNSUPPORTED,
                            "the node %.*s serves the queue and is of a version that cannot move ids; restart it first",
                            (int)(at[i].len < 100 ? at[i].len : 100), at[i].data));
    }
    return reshard_ask_shards(c, s);
}

/* ---- The intention --------------------------------------------------------------------------- */

static int reshard_set(seriatim_client *c, const reshard_state *s)
{
    const srt_queue *queue = s->queue;
    srt_request *r = srt_queue_request(&c->registry, srt_cluster_pool(&c->cluster), queue, srt_script_set_layout);
    srt_layout moving;
    char text[SRT_LAYOUT_TEXT];
    if (!r)
        return srt_operator_nomem(c);
    moving.generation = queue->generation;
    moving.shards = s->wanted;
    moving.old = queue->shards_count;
    moving.most = queue->most_count > s->wanted ? queue->most_count : s->wanted;
    srt_layout_write(&moving, text);
    srt_request_text(r, queue->layout);
    srt_request_text(r, strchr(text, ' ') + 1); /* the script gives the generation */
    r->kind = RESHARD_SET;
    return srt_client_send(c, r);
}

static int reshard_on_shard(seriatim_client *c, reshard_state *s, const srt_request *r, const srt_token *answer)
{
    srt_layout seen;
    if (r->kind == RESHARD_STATE && answer->type == SRT_STRING && answer->len > SRT_STATE_FLAGS)
        s->paused &= ((unsigned char)answer->data[SRT_STATE_FLAGS] & SRT_FLAG_PAUSED) != 0;
    if (r->kind == RESHARD_TEXT && answer->type == SRT_STRING &&
        srt_layout_read(answer->data, answer->len, &seen, NULL) == SERIATIM_OK &&
        seen.generation > s->queue->generation)
        return srt_client_fail(c, srt_fail(&c->error, SERIATIM_INVALID,
                                           "a failover has forgotten the layout of the queue; its servers write it "
                                           "back, then try again"));
    return --s->waiting > 0 ? SERIATIM_OK : reshard_set(c, s);
}

static int reshard_ask_replicas(seriatim_client *c, reshard_state *s, int kind)
{
    srt_request *r = kind == RESHARD_ROLE ? srt_role_request(&c->cluster, s->peer)
                                          : srt_wait_request(&c->cluster, s->peer, 1, RESHARD_WAIT_MS);
    if (!r)
        return srt_operator_nomem(c);
    r->kind = kind;
    return srt_client_send(c, r);
}

/* {1 or 0: somebody was faster, the layout that the queue has now} */
static int reshard_on_set(seriatim_client *c, reshard_state *s, const srt_reply *reply)
{
    const srt_token *t = reply->tokens;
    srt_layout layout;
    if (!srt_reply_is_list(reply, 2) || t[2].type != SRT_STRING)
        return srt_operator_protocol(c, "set_layout");
    if (srt_token_int(&t[1]) != 1 || t[2].len >= sizeof s->text ||
        srt_layout_read(t[2].data, t[2].len, &layout, NULL) != SERIATIM_OK)
        return srt_client_fail(
            c, srt_fail(&c->error, SERIATIM_INVALID, "the queue was changed meanwhile; look at it again"));
    memcpy(s->text, t[2].data, t[2].len + 1);
    if (srt_queue_set_layout(&c->registry, s->queue, s->text, t[2].len, &c->error) != SERIATIM_OK)
        return srt_operator_nomem(c);
    s->result.generation = layout.generation;
    s->result.begun = 1;
    s->peer = c->answering;
    return reshard_ask_replicas(c, s, RESHARD_ROLE);
}

/* ---- Turning the shards ---------------------------------------------------------------------- */

static int reshard_turn(seriatim_client *c, reshard_state *s)
{
    unsigned shard, count = srt_queue_addressed(s->queue);
    int status = SERIATIM_OK;
    s->waiting = count;
    for (shard = 0; shard < count && status == SERIATIM_OK; shard++) {
        srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_turn,
                                           &s->queue->shards[shard]->args, SRT_SHARD_KEYS);
        if (!r)
            return srt_operator_nomem(c);
        srt_request_text(r, s->text);
        srt_request_text(r, s->paused ? "1" : "0");
        r->kind = RESHARD_TURN;
        status = srt_client_send(c, r);
    }
    return status;
}

/* The servers are told. What an open batch keeps from being turned, they turn. */
static int reshard_tell(seriatim_client *c, const reshard_state *s)
{
    srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_none, NULL, 0);
    srt_bytes text;
    if (!r)
        return srt_operator_nomem(c);
    srt_bytes_init(&text, c->mem);
    srt_key_escape(&text, c->registry.ns.data, strlen(c->registry.ns.data));
    srt_bytes_adds(&text, ":nodes");
    srt_request_text(r, "PUBLISH");
    srt_request_arg(r, text.data, text.len);
    r->tail.failed |= text.failed;
    srt_bytes_clear(&text);
    srt_bytes_adds(&text, "layout ");
    srt_bytes_add(&text, s->queue->name.data, s->queue->name.len);
    srt_request_arg(r, text.data, text.len);
    r->tail.failed |= text.failed;
    srt_bytes_free(&text);
    r->kind = RESHARD_TELL;
    return srt_client_send(c, r);
}

static int reshard_on_role(seriatim_client *c, reshard_state *s, const srt_reply *reply)
{
    if (srt_role_replicas(reply) > 0)
        return reshard_ask_replicas(c, s, RESHARD_WAIT);
    return reshard_turn(c, s);
}

static int reshard_on_awake(seriatim_client *c)
{
    reshard_state *s = c->state;
    return reshard_ask_replicas(c, s, RESHARD_ROLE);
}

/* ---- How far it has come --------------------------------------------------------------------- */

static int reshard_look(seriatim_client *c, reshard_state *s)
{
    unsigned shard;
    int status = SERIATIM_OK;
    s->result.sources_left = s->queue->old_count;
    for (shard = 0; shard < s->queue->old_count && status == SERIATIM_OK; shard++) {
        srt_request *r = srt_client_shard_request(c, s->queue, shard, srt_script_out);
        if (!r)
            return SERIATIM_NOMEM;
        srt_request_text(r, "");
        r->kind = RESHARD_OUT;
        status = srt_client_send(c, r);
    }
    return status;
}

/* ---- The operation --------------------------------------------------------------------------- */

static int reshard_refuse(seriatim_client *c, const reshard_state *s)
{
    const srt_queue *queue = s->queue;
    if (queue->shards_count == 0)
        return srt_client_fail(c, srt_fail(&c->error, SERIATIM_INVALID, "there is no such queue"));
    if (queue->old_count && queue->shards_count != s->wanted)
        return srt_client_fail(c, srt_fail(&c->error, SERIATIM_INVALID,
                                           "the queue is being given %u shards; wait until that has ended",
                                           queue->shards_count));
    if (!queue->old_count && queue->shards_count == s->wanted)
        return srt_client_fail(c, srt_fail(&c->error, SERIATIM_INVALID, "the queue has %u shards already", s->wanted));
    return SERIATIM_OK;
}

static int reshard_send(seriatim_client *c, srt_queue *queue)
{
    reshard_state *s = c->state;
    s->queue = queue;
    s->result.generation = queue->generation;
    s->result.from = queue->old_count ? queue->old_count : queue->shards_count;
    s->result.to = s->looks || queue->old_count ? queue->shards_count : s->wanted;
    s->result.servers = 0;
    if (s->looks && queue->shards_count)
        return reshard_look(c, s);
    if (reshard_refuse(c, s) != SERIATIM_OK)
        return c->failed;
    memcpy(s->text, queue->layout, sizeof s->text);
    return queue->old_count ? reshard_turn(c, s) : srt_nodes_ask(c, RESHARD_NODES);
}

static int reshard_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    reshard_state *s = c->state;
    switch (r->kind) {
    case RESHARD_NODES:
        return reshard_on_nodes(c, s, reply);
    case RESHARD_STATE:
    case RESHARD_TEXT:
        return reshard_on_shard(c, s, r, &reply->tokens[0]);
    case RESHARD_SET:
        return reshard_on_set(c, s, reply);
    case RESHARD_ROLE:
        return reshard_on_role(c, s, reply);
    case RESHARD_WAIT:
        if (srt_token_int(&reply->tokens[0]) >= 1)
            return reshard_turn(c, s);
        srt_client_sleep(c, RESHARD_AGAIN_MS);
        return SERIATIM_OK;
    case RESHARD_TURN:
        return --s->waiting > 0 ? SERIATIM_OK : reshard_tell(c, s);
    case RESHARD_OUT:
        s->result.sources_left -= srt_token_int(&reply->tokens[0]) == 1;
        return SERIATIM_OK;
    default:
        return SERIATIM_OK;
    }
}

static int reshard_begin(seriatim_client *c, size_t queue, unsigned shards, int looks)
{
    static const srt_operation operation = {.fresh = 1,
                                            .send = reshard_send,
                                            .on_reply = reshard_on_reply,
                                            .on_awake = reshard_on_awake,
                                            .release = reshard_release};
    reshard_state *s;
    int status = srt_client_begin(c);
    if (status != SERIATIM_OK)
        return status;
    if (!looks && (shards < 1 || shards > SERIATIM_MAX_SHARDS))
        return srt_fail(&c->error, SERIATIM_INVALID, "shards must be from 1 to %d, not %u", SERIATIM_MAX_SHARDS,
                        shards);
    s = srt_operator_state(c, sizeof *s);
    if (!s)
        return SERIATIM_NOMEM;
    s->looks = looks;
    s->wanted = shards;
    c->state = s;
    return srt_client_start(c, &operation, queue);
}

int srt_reshard_begin(seriatim_client *c, size_t queue, unsigned shards)
{
    return reshard_begin(c, queue, shards, 0);
}

int srt_reshard_look_begin(seriatim_client *c, size_t queue)
{
    return reshard_begin(c, queue, 0, 1);
}

const srt_resharding *srt_reshard_result(const seriatim_client *c)
{
    return c->operation && c->operation->send == reshard_send ? &((const reshard_state *)c->state)->result : NULL;
}
