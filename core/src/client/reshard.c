/*
 * reshard.c - gives a queue another number of shards. The operation writes the intention, and turns the shards to it;
 * servers that serve the queue move its ids. Whoever dies in between leaves nothing that the servers, or the same
 * operation again, do not do.
 */
#include "client/operator.h"
#include "model/stored.h"

#include <stdio.h>
#include <string.h>

#define RESHARD_WAIT_MS 50    /* until a replica has the layout */
#define RESHARD_AGAIN_MS 100  /* before it is asked again */
#define RESHARD_WAITS 60      /* after which the servers do the rest, which wait as well */
#define RESHARD_SCANNED 4000  /* keys that Redis looks at in one call */
#define RESHARD_NAME_SHOWN 60 /* bytes of a queue's name in an error */

enum {
    RESHARD_NODES,
    RESHARD_STATE,
    RESHARD_TEXT,
    RESHARD_OUTBOXES,
    RESHARD_RIGHT,
    RESHARD_SET,
    RESHARD_ROLE,
    RESHARD_WAIT,
    RESHARD_TURN,
    RESHARD_PAUSE,
    RESHARD_TELL
};

typedef struct reshard_state {
    unsigned wanted; /* number of shards */
    srt_queue *queue;
    char text[SRT_LAYOUT_TEXT]; /* the layout that shards are turned to */
    size_t waiting;             /* answers of shards */
    int written;                /* replicas have the layout, and states are asked for once more */
    int behind;                 /* a shard was turned to an earlier layout */
    int paused, others;         /* is a shard that was used paused; is one not paused? */
    char cursor[24];            /* of SCAN, for keys of outboxes */
    srt_scan scan;              /* over the masters */
    srt_redis *peer;            /* that has the layout; its replicas are to have it */
    int waits;                  /* how often they were asked */
    int begun;                  /* this operation has written the layout */
} reshard_state;

/* Two arguments of printf for "%.*s". */
#define NAME_OF(queue)                                                                                                 \
    (int)((queue)->name.len < RESHARD_NAME_SHOWN ? (queue)->name.len : RESHARD_NAME_SHOWN), (queue)->name.data

static void reshard_release(seriatim_client *c)
{
    srt_free(c->mem, c->state, sizeof(reshard_state));
}

/* The layout is asked for again, and `send` sees what the queue is by then. */
static int reshard_anew(seriatim_client *c)
{
    c->stale = 1;
    c->pause_ms = RESHARD_AGAIN_MS;
    return SERIATIM_OK;
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

/* A queue of which no shard was used yet is not. */
static int reshard_is_paused(const reshard_state *s)
{
    return s->paused && !s->others;
}

/* The queue has the wanted number, and no ids move. */
static int has_ended(const reshard_state *s)
{
    return s->queue->shards_count == s->wanted && s->queue->old_count == 0;
}

/*
 * The state of each shard that has ids says whether it is paused, its text whether a failover has forgotten a later
 * layout, or nobody has turned it to this one. Both are asked for directly before the layout is written, because an
 * operator may pause the queue meanwhile; and the states behind that.
 */
static int reshard_ask_shards(seriatim_client *c, reshard_state *s)
{
    static const char *const words[2][2] = {{"GET", "state"}, {"HGET", "reshard"}};
    unsigned shard, i, asked = s->written ? 1 : 2;
    unsigned count = s->queue->old_count ? s->queue->old_count : s->queue->shards_count;
    int status = SERIATIM_OK;
    if (has_ended(s))
        count = s->queue->most_count;
    s->paused = s->others = s->behind = 0;
    s->waiting = asked * (size_t)count;
    for (shard = 0; shard < count; shard++)
        for (i = 0; i < asked && status == SERIATIM_OK; i++) {
            srt_request *r = srt_client_key_request(c, s->queue, shard, words[i][0], words[i][1]);
            if (!r)
                return SERIATIM_NOMEM;
            if (i == 1)
                srt_request_text(r, "");
            r->kind = i == 0 ? RESHARD_STATE : RESHARD_TEXT;
            status = srt_client_send(c, r);
        }
    return status;
}

/* {now in milliseconds, node, expiry, description, ...} */
static int reshard_check_nodes(seriatim_client *c, const reshard_state *s, const srt_reply *reply)
{
    const srt_token *at = reply->tokens;
    size_t i;
    if (!srt_reply_is_list(reply, 1))
        return srt_operator_protocol(c, "nodes");
    for (i = 2; i + 2 < reply->count; i += 3) {
        if (srt_token_int(&at[i + 1]) <= srt_token_int(&at[1]) || !srt_node_serves(&at[i + 2], &s->queue->name))
            continue;
        if (!can_move(&at[i + 2]))
            return srt_client_fail(
                c, srt_fail(&c->error, SERIATIM_UNSUPPORTED,
                            "the node %.*s serves the queue \"%.*s\" and is of a version that cannot move ids; restart "
                            "it with this version first",
                            (int)(at[i].len < 100 ? at[i].len : 100), at[i].data, NAME_OF(s->queue)));
    }
    return SERIATIM_OK;
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
    moving.paused = reshard_is_paused(s);
    srt_layout_write(&moving, text);
    srt_request_text(r, queue->layout);
    srt_request_text(r, strchr(text, ' ') + 1); /* the script gives the generation */
    r->kind = RESHARD_SET;
    return srt_client_send(c, r);
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

/* What is sent behind the new layout is tried before it: the user may lack the right to one of the two commands. */
static int reshard_ask_rights(seriatim_client *c, reshard_state *s)
{
    size_t i;
    s->waiting = 2;
    for (i = 0; i < 2; i++) {
        srt_request *r = i == 0 ? srt_role_request(&c->cluster, s->peer)
                                : srt_wait_request(&c->cluster, s->peer, 0, RESHARD_WAIT_MS); /* it waits for nothing */
        if (!r)
            return srt_operator_nomem(c);
        r->kind = RESHARD_RIGHT;
        if (srt_client_send(c, r) != SERIATIM_OK)
            return SERIATIM_NOMEM;
    }
    return SERIATIM_OK;
}

/* ---- Outboxes of which an earlier version wrote a number, which cannot be moved ----------------- */

/* Keys of outboxes, of any shard of the queue. */
static void outbox_pattern(const seriatim_client *c, const srt_queue *queue, srt_bytes *out)
{
    srt_key_escape(out, c->registry.ns.data, strlen(c->registry.ns.data)); /* nothing in it is special to a pattern */
    srt_bytes_adds(out, ":{");
    srt_key_escape(out, queue->name.data, queue->name.len);
    srt_bytes_adds(out, "/*}:outbox:*");
}

static int reshard_ask_outboxes(seriatim_client *c, reshard_state *s)
{
    srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_none, NULL, 0);
    srt_bytes pattern;
    if (!r)
        return srt_operator_nomem(c);
    srt_bytes_init(&pattern, c->mem);
    outbox_pattern(c, s->queue, &pattern);
    srt_request_text(r, "SCAN");
    srt_request_text(r, s->cursor);
    srt_request_text(r, "MATCH");
    srt_request_arg(r, pattern.data, pattern.len);
    srt_request_text(r, "COUNT");
    srt_request_int(r, RESHARD_SCANNED);
    srt_request_text(r, "TYPE");
    srt_request_text(r, "string");
    r->tail.failed |= pattern.failed;
    srt_bytes_free(&pattern);
    r->kind = RESHARD_OUTBOXES;
    srt_scan_route(&s->scan, &c->cluster, r);
    return srt_client_send(c, r);
}

/* [cursor, [key, ...]] */
static int reshard_on_outboxes(seriatim_client *c, reshard_state *s, const srt_reply *reply)
{
    const srt_token *t = reply->tokens;
    if (reply->count < 3 || t[0].type != SRT_ARRAY || t[1].type != SRT_STRING || t[1].len >= sizeof s->cursor)
        return srt_operator_protocol(c, "SCAN");
    if (reply->count > 3)
        return srt_client_fail(
            c, srt_fail(&c->error, SERIATIM_INVALID,
                        "an earlier version wrote the number of an outbox into %.*s, and it cannot be moved: delete "
                        "the key when no row waits in the outbox",
                        (int)(t[3].len < 300 ? t[3].len : 300), t[3].data));
    snprintf(s->cursor, sizeof s->cursor, "%.*s", (int)t[1].len, t[1].data);
    if (strcmp(s->cursor, "0") != 0 || srt_scan_turn(&s->scan, &c->cluster))
        return reshard_ask_outboxes(c, s);
    return reshard_ask_rights(c, s);
}

/* ---- The layout is written, and replicas have it ----------------------------------------------- */

/* {1 or 0: somebody was faster, or the answer of an earlier sending was lost; the layout that the queue has now} */
static int reshard_on_set(seriatim_client *c, reshard_state *s, const srt_reply *reply)
{
    const srt_token *t = reply->tokens;
    if (!srt_reply_is_list(reply, 2) || t[2].type != SRT_STRING || t[2].len >= sizeof s->text)
        return srt_operator_protocol(c, "set_layout");
    s->begun |= srt_token_int(&t[1]) == 1;
    if (srt_token_int(&t[1]) != 1 || c->stale)
        return reshard_anew(c);
    memcpy(s->text, t[2].data, t[2].len + 1);
    if (srt_queue_set_layout(&c->registry, s->queue, s->text, t[2].len, &c->error) != SERIATIM_OK)
        return srt_operator_nomem(c);
    s->peer = c->answering;
    return reshard_ask_replicas(c, s, RESHARD_ROLE);
}

/* ---- Turning the shards ---------------------------------------------------------------------- */

static int reshard_turn(seriatim_client *c, reshard_state *s)
{
    unsigned shard, count = has_ended(s) ? s->queue->most_count : srt_queue_addressed(s->queue);
    int status = SERIATIM_OK;
    s->waiting = count;
    for (shard = 0; shard < count && status == SERIATIM_OK; shard++) {
        srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_turn,
                                           &s->queue->shards[shard]->args, SRT_SHARD_KEYS);
        if (!r)
            return srt_operator_nomem(c);
        srt_request_text(r, s->text);
        r->kind = RESHARD_TURN;
        r->place = shard;
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

/*
 * {OK, SAME, OPEN or NEWER, ...}. A shard that the queue gets is paused or not as the layout says. If the queue was
 * paused or resumed while that was written, the shard is told.
 */
static int reshard_on_turned(seriatim_client *c, reshard_state *s, const srt_request *turned, const srt_reply *reply)
{
    const srt_token *word = &reply->tokens[1];
    srt_layout layout;
    srt_request *r;
    if (srt_reply_is_list(reply, 1) && (srt_token_is(word, "OK") || srt_token_is(word, "SAME")) &&
        srt_layout_read(s->text, strlen(s->text), &layout, NULL) == SERIATIM_OK && layout.old &&
        turned->place >= layout.old && layout.paused != reshard_is_paused(s)) {
        r = srt_client_shard_request(c, s->queue, (unsigned)turned->place,
                                     reshard_is_paused(s) ? srt_script_pause : srt_script_resume);
        if (!r)
            return SERIATIM_NOMEM;
        r->kind = RESHARD_PAUSE;
        s->waiting++;
        if (srt_client_send(c, r) != SERIATIM_OK)
            return SERIATIM_NOMEM;
    }
    return --s->waiting > 0 ? SERIATIM_OK : reshard_tell(c, s);
}

/* ---- What the shards say --------------------------------------------------------------------- */

static int reshard_on_shard(seriatim_client *c, reshard_state *s, const srt_request *r, const srt_token *answer)
{
    srt_layout seen;
    if (r->kind == RESHARD_STATE && answer->type == SRT_STRING && answer->len > SRT_STATE_FLAGS)
        *((unsigned char)answer->data[SRT_STATE_FLAGS] & SRT_FLAG_PAUSED ? &s->paused : &s->others) = 1;
    if (r->kind == RESHARD_TEXT && answer->type == SRT_STRING &&
        srt_layout_read(answer->data, answer->len, &seen, NULL) == SERIATIM_OK) {
        if (seen.generation > s->queue->generation)
            return srt_client_fail(
                c, srt_fail(&c->error, SERIATIM_INVALID,
                            "a failover has forgotten the layout of the queue \"%.*s\"; its servers write it back, "
                            "then try again",
                            NAME_OF(s->queue)));
        s->behind |= seen.generation < s->queue->generation;
    }
    if (--s->waiting > 0)
        return SERIATIM_OK;
    if (s->written)
        return reshard_turn(c, s);
    if (has_ended(s) && !s->behind)
        return SERIATIM_OK;
    return s->queue->shards_count == s->wanted ? reshard_ask_replicas(c, s, RESHARD_ROLE) : reshard_set(c, s);
}

/* Who is no master any more, or has lost its connection, may not have the layout: it is read again. */
static int reshard_on_replicas(seriatim_client *c, reshard_state *s, const srt_reply *reply)
{
    switch (srt_replicated_of(reply)) {
    case SRT_REPLICATED:
        s->written = 1;
        return reshard_ask_shards(c, s);
    case SRT_REPLICATED_ASK:
        return reshard_ask_replicas(c, s, RESHARD_WAIT);
    case SRT_REPLICATED_BY_NONE:
        return reshard_anew(c);
    default:
        break;
    }
    if (++s->waits >= RESHARD_WAITS)
        return reshard_tell(c, s);
    srt_client_sleep(c, RESHARD_AGAIN_MS);
    return SERIATIM_OK;
}

static int reshard_on_awake(seriatim_client *c)
{
    return c->stale ? SERIATIM_OK : reshard_ask_replicas(c, c->state, RESHARD_ROLE);
}

static void reshard_on_disconnected(seriatim_client *c)
{
    if (((const reshard_state *)c->state)->queue)
        reshard_anew(c);
}

/* ---- The operation --------------------------------------------------------------------------- */

static int reshard_send(seriatim_client *c, srt_queue *queue)
{
    reshard_state *s = c->state;
    s->queue = queue;
    s->peer = c->answering; /* the layout was read there just now */
    s->written = 0;
    memset(&s->scan, 0, sizeof s->scan);
    strcpy(s->cursor, "0");
    if (queue->shards_count == 0)
        return srt_client_fail(c, srt_fail(&c->error, SERIATIM_INVALID,
                                           "there is no queue \"%.*s\" yet: its first push or server makes it",
                                           NAME_OF(queue)));
    memcpy(s->text, queue->layout, sizeof s->text);
    if (queue->shards_count == s->wanted)
        return reshard_ask_shards(c, s);
    if (s->begun)
        return SERIATIM_OK; /* it has ended already, and somebody has begun another one */
    if (queue->old_count)
        return srt_client_fail(
            c, srt_fail(&c->error, SERIATIM_INVALID,
                        "shards must be %u, not %u, while the ids of the queue \"%.*s\" move from %u "
                        "to %u shards: wait until that has ended",
                        queue->shards_count, s->wanted, NAME_OF(queue), queue->old_count, queue->shards_count));
    return srt_nodes_ask(c, RESHARD_NODES);
}

static int reshard_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    reshard_state *s = c->state;
    if (r->kind == RESHARD_SET)
        return reshard_on_set(c, s, reply);
    if (c->stale)
        return SERIATIM_OK;
    switch (r->kind) {
    case RESHARD_NODES:
        return reshard_check_nodes(c, s, reply) == SERIATIM_OK ? reshard_ask_outboxes(c, s) : c->failed;
    case RESHARD_STATE:
    case RESHARD_TEXT:
        return reshard_on_shard(c, s, r, &reply->tokens[0]);
    case RESHARD_OUTBOXES:
        return reshard_on_outboxes(c, s, reply);
    case RESHARD_RIGHT:
        return --s->waiting > 0 ? SERIATIM_OK : reshard_ask_shards(c, s);
    case RESHARD_ROLE:
    case RESHARD_WAIT:
        return reshard_on_replicas(c, s, reply);
    case RESHARD_TURN:
        return reshard_on_turned(c, s, r, reply);
    case RESHARD_PAUSE:
        return --s->waiting > 0 ? SERIATIM_OK : reshard_tell(c, s);
    default:
        return SERIATIM_OK;
    }
}

/* A whole number of decimal digits; any other text is 0. */
static unsigned reshard_number(const seriatim_text *text)
{
    unsigned number = 0;
    size_t i;
    for (i = 0; text->data && i < text->len; i++) {
        if (text->data[i] < '0' || text->data[i] > '9' || i == 9)
            return 0;
        number = 10 * number + (unsigned)(text->data[i] - '0');
    }
    return number;
}

int srt_reshard_begin(seriatim_client *c, size_t queue, const seriatim_text *texts, size_t count)
{
    static const srt_operation operation = {.fresh = 1,
                                            .send = reshard_send,
                                            .on_reply = reshard_on_reply,
                                            .on_awake = reshard_on_awake,
                                            .on_disconnected = reshard_on_disconnected,
                                            .release = reshard_release};
    const seriatim_text none = {NULL, 0}, *given = count == 1 && texts ? texts : &none;
    unsigned shards = reshard_number(given);
    reshard_state *s;
    if (shards < 1 || shards > SERIATIM_MAX_SHARDS)
        return srt_fail(&c->error, SERIATIM_INVALID, "shards must be a whole number from 1 to %d, not \"%.*s\"",
                        SERIATIM_MAX_SHARDS, (int)(given->len < 40 ? given->len : 40), given->data ? given->data : "");
    s = srt_operator_state(c, sizeof *s);
    if (!s)
        return SERIATIM_NOMEM;
    s->wanted = shards;
    c->state = s;
    return srt_client_start(c, &operation, queue);
}

int64_t srt_reshard_result(const seriatim_client *c)
{
    return c->operation && c->operation->send == reshard_send && ((const reshard_state *)c->state)->begun;
}
