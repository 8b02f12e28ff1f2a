/* integrity_keys.c - is every key below a queue, or below the whole namespace, one that Seriatim knows? */
#include "client/integrity.h"

#include <string.h>

#define INTEGRITY_DIGITS 10 /* of a shard's number */

static const char *const integrity_nodes[] = {"{/nodes}:alive", "{/nodes}:info", "{/nodes}:renewed", "{/nodes}:sampler",
                                              NULL};

/* Kinds of a shard beside those that its scripts declare. */
static const char *const integrity_more[] = {"uniting", "scheduled", "traced", "scores",   "scoreends",
                                             "reshard", "leaving",   "moving", "outboxes", NULL};
/* Kinds of which each key names an id or a client. */
static const char *const integrity_owned[] = {"spill",        "nextspill",    "deadspill", "spillmap",
                                              "nextspillmap", "deadspillmap", "push",      "sched",
                                              "schedmap",     "events",       "outbox",    NULL};

/* Those of them that are an id's, and may be all that is stored of it. */
static const char *const integrity_of_id[] = {"sched", "events", NULL};

/* The same of keys in which nothing is compared: what was set aside, of batches of a move. */
static const char *const integrity_apart[] = {"misplaced",      "leavesched",  "leaveschedmap",   "arrivespill",
                                              "arrivespillmap", "arrivesched", "arrivedeadspill", "arrivedeadspillmap",
                                              "arriveschedmap", NULL};

/* The number between `at` and `end` as srt_key_shard writes it; -1 if the text has no such number. */
static int64_t integrity_number(const char *at, const char *end)
{
    srt_token token = {SRT_STRING, 0, at, (size_t)(end - at)};
    const char *p;
    for (p = at; p < end && *p >= '0' && *p <= '9'; p++)
        ;
    return p == end && p > at && p - at <= INTEGRITY_DIGITS && (*at != '0' || p - at == 1) ? srt_token_int(&token) : -1;
}

/* What a key says of its queue, by what follows the '}'. 0: a key of no known kind. */
static int integrity_kind(const char *kind, const char *end, int of_shard)
{
    size_t len = (size_t)(end - kind);
    if (of_shard)
        return (len == 7 && memcmp(kind, "}:state", 7) == 0) || (len > 7 && memcmp(kind, "}:push:", 7) == 0) ||
                       (len > 9 && memcmp(kind, "}:outbox:", 9) == 0) ||
                       (len == 10 && memcmp(kind, "}:outboxes", 10) == 0) ||
                       (len == 9 && memcmp(kind, "}:reshard", 9) == 0)
                   ? INTEGRITY_HAS_MARK
                   : INTEGRITY_HAS_CONTENT;
    if (len < 2 || kind[1] != ':' || !srt_integrity_listed(srt_queue_kinds, kind + 2, len - 2))
        return 0;
    return kind[2] == 'l' ? INTEGRITY_HAS_LAYOUT : kind[2] == 'd' ? INTEGRITY_HAS_MARK : INTEGRITY_HAS_CONTENT;
}

/* Its keys stay as they are: how many shards it had is known to its application alone. */
static int integrity_find_lost(seriatim_client *c, integrity_state *k, const char *name, size_t len)
{
    seriatim_text queue;
    queue.data = name;
    queue.len = len;
    return srt_integrity_find_plain(c, k, "layout", queue,
                                    "keys of a queue that has no layout; its application makes one");
}

/* The owner of a key that stands alone, or of that of an id or a client: KIND or KIND:ID. */
static int integrity_ask_owner(seriatim_client *c, integrity_state *k, unsigned shard, const char *kind,
                               const char *end)
{
    const char *colon = memchr(kind, ':', (size_t)(end - kind));
    size_t len = (size_t)((colon ? colon : end) - kind);
    seriatim_text id;
    srt_request *r;
    int status = SERIATIM_OK;
    id.data = colon ? colon + 1 : end;
    id.len = (size_t)(end - id.data);
    if (srt_integrity_listed(integrity_of_id, kind, len))
        status = srt_integrity_place(c, k, shard, *kind == 's' ? "scheduled payloads" : "history", id);
    if (status != SERIATIM_OK)
        return status;
    srt_bytes_clear(&k->name);
    srt_bytes_add(&k->name, kind, len);
    srt_bytes_addc(&k->name, '\0');
    r = k->name.failed ? NULL : srt_integrity_request(c, k, shard, k->name.data, NULL);
    if (!r)
        return srt_operator_nomem(c);
    if (colon)
        srt_request_arg(r, id.data, id.len);
    r->kind = INTEGRITY_OWNED;
    return srt_client_send(c, r);
}

int srt_integrity_key(seriatim_client *c, integrity_state *k, const srt_token *key)
{
    size_t prefix = key->type == SRT_STRING && key->len > k->prefix ? k->prefix : 0;
    const char *at = prefix ? key->data + prefix : "", *end = prefix ? key->data + key->len : at, *kind, *colon;
    const char *brace = memchr(at, '}', (size_t)(end - at));
    int64_t shard = brace ? integrity_number(at, brace) : -1;
    if (k->queue->shards_count == 0)
        return shard >= 0 && k->count == 0 && integrity_kind(brace, end, 1) == INTEGRITY_HAS_CONTENT
                   ? integrity_find_lost(c, k, k->queue->name.data, k->queue->name.len)
                   : SERIATIM_OK;
    if (shard < 0 || end - brace < 3 || brace[1] != ':')
        return srt_integrity_stray(c, k, key, 0, "the key names no shard");
    kind = brace + 2;
    colon = memchr(kind, ':', (size_t)(end - kind));
    if (shard >= (int64_t)srt_queue_addressed(k->queue) &&
        (integrity_kind(brace, end, 1) == INTEGRITY_HAS_MARK || (end - kind == 7 && memcmp(kind, "running", 7) == 0)))
        return SERIATIM_OK; /* the queue, or an earlier one of this name, had more shards: it refuses old layouts. What
                               an owner that has died marked its shard with stays, and no id runs there. */
    if (shard >= (int64_t)srt_queue_addressed(k->queue))
        return srt_integrity_stray(c, k, key, (unsigned)shard, "the layout has no such shard");
    if (!colon && (srt_integrity_listed(srt_shard_kinds, kind, (size_t)(end - kind)) ||
                   srt_integrity_listed(integrity_more, kind, (size_t)(end - kind))))
        return SERIATIM_OK;
    if (colon && srt_integrity_listed(integrity_apart, kind, (size_t)(colon - kind)))
        return SERIATIM_OK;
    if (!srt_integrity_listed(colon ? integrity_owned : srt_integrity_single, kind,
                              (size_t)((colon ? colon : end) - kind)))
        return srt_integrity_stray(c, k, key, (unsigned)shard, "the key is not of a known kind");
    return k->left.data[shard] ? SERIATIM_OK : integrity_ask_owner(c, k, (unsigned)shard, kind, end);
}

/* *place: of the queue k->name in k->queues. */
static int integrity_note_queue(seriatim_client *c, integrity_state *k, int seen, size_t *place)
{
    void *queues = k->queues;
    integrity_queue *q;
    size_t i;
    for (i = k->queue_count; i-- > 0;) { /* neighbours are often of one queue */
        q = &k->queues[i];
        if (q->name.len == k->name.len && memcmp(q->name.data, k->name.data, k->name.len) == 0) {
            q->seen |= seen;
            *place = i;
            return SERIATIM_OK;
        }
    }
    if (srt_grow(k->mem, &queues, &k->queue_cap, k->queue_count + 1, sizeof *q) != SERIATIM_OK)
        return srt_operator_nomem(c);
    k->queues = queues;
    q = &k->queues[k->queue_count];
    q->name.data = srt_arena_copy(&k->memory, k->name.data, k->name.len);
    q->name.len = k->name.len;
    q->seen = seen;
    if (!q->name.data)
        return srt_operator_nomem(c);
    *place = k->queue_count++;
    return SERIATIM_OK;
}

/* Layout and settings of the queue k->name, which has this place in k->queues. */
static int integrity_ask_layout(seriatim_client *c, integrity_state *k, size_t place)
{
    srt_queue queue;
    srt_request *r;
    memset(&queue, 0, sizeof queue);
    queue.name = k->name;
    r = srt_layout_request(&c->registry, srt_cluster_pool(&c->cluster), &queue, SRT_LAYOUT_LOOK, 0);
    if (!r)
        return srt_operator_nomem(c);
    r->kind = INTEGRITY_LAYOUT;
    r->place = place;
    return srt_client_send(c, r);
}

/* The name of the queue whose shard's or layout's key this is into k->name; INVALID when it is neither. */
static int integrity_read_queue(integrity_state *k, const char *ns, const char *key, const char *brace,
                                const char *slash)
{
    srt_bytes layout;
    int status;
    srt_bytes_init(&layout, k->mem);
    srt_bytes_add(&layout, key, (size_t)((slash ? slash : brace) - key));
    srt_bytes_adds(&layout, "}:layout");
    status = layout.failed ? SERIATIM_NOMEM : srt_key_read_layout(&k->name, ns, layout.data, layout.len);
    srt_bytes_free(&layout);
    return status;
}

static const char *integrity_last(const char *at, const char *end, char wanted)
{
    while (end-- > at)
        if (*end == wanted)
            return end;
    return NULL;
}

int srt_integrity_any_key(seriatim_client *c, integrity_state *k, const srt_token *key)
{
    const char *at, *end, *brace, *slash;
    size_t place = 0;
    int status, kind;
    if (key->type != SRT_STRING || key->len <= k->prefix)
        return SERIATIM_OK;
    at = key->data + k->prefix;
    end = key->data + key->len;
    brace = memchr(at, '}', (size_t)(end - at));
    if (*at != '{' || !brace)
        return memchr(at, '{', (size_t)(end - at)) ? SERIATIM_OK
                                                   : srt_integrity_stray(c, k, key, 0, "the key belongs to no queue");
    if (at[1] == '/') {
        int known = srt_integrity_listed(integrity_nodes, at, (size_t)(end - at)) ||
                    (end - at > 15 && memcmp(at, "{/nodes}:order:", 15) == 0);
        if (srt_integrity_of_ick(at, brace, end))
            return srt_integrity_ick(c, k, key);
        return known ? SERIATIM_OK : srt_integrity_stray(c, k, key, 0, "the key belongs to no queue");
    }
    slash = integrity_last(at, brace, '/');
    kind = integrity_kind(brace, end, slash != NULL);
    if (!kind)
        return srt_integrity_stray(c, k, key, 0, "the key is not of a known kind");
    status = integrity_read_queue(k, c->registry.ns.data, key->data, brace, slash);
    if (status == SERIATIM_NOMEM)
        return srt_operator_nomem(c);
    if (status != SERIATIM_OK)
        return srt_integrity_stray(c, k, key, 0, "the key belongs to no queue");
    status = integrity_note_queue(c, k, kind, &place);
    return kind != INTEGRITY_HAS_LAYOUT || status != SERIATIM_OK ? status : integrity_ask_layout(c, k, place);
}

static int integrity_ask_nodes(seriatim_client *c, integrity_state *k)
{
    srt_request *r = srt_nodes_request(c, srt_script_check_nodes);
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_int(r, k->repair);
    r->kind = INTEGRITY_NODES;
    return srt_client_send(c, r);
}

int srt_integrity_send_namespace(seriatim_client *c, srt_queue *queue)
{
    integrity_state *k = c->state;
    (void)queue;
    srt_key_escape(&k->pattern, c->registry.ns.data, strlen(c->registry.ns.data));
    srt_bytes_addc(&k->pattern, ':');
    k->prefix = k->pattern.len;
    srt_bytes_addc(&k->pattern, '*');
    if (k->pattern.failed)
        return srt_operator_nomem(c);
    return integrity_ask_nodes(c, k);
}

int srt_integrity_on_layout(seriatim_client *c, integrity_state *k, const srt_request *r, const srt_reply *reply)
{
    const srt_token *at = reply->tokens + 1;
    srt_layout layout;
    srt_settings settings = {0};
    seriatim_error error;
    if (reply->count < 2 || at->type != SRT_STRING)
        return srt_operator_protocol(c, "layout");
    if (at->len == 0) /* it was deleted meanwhile */
        return SERIATIM_OK;
    if (srt_layout_read(at->data, at->len, &layout, NULL) != SERIATIM_OK)
        return srt_integrity_find_plain(c, k, "layout", k->queues[r->place].name,
                                        "the layout of the queue cannot be read");
    if (srt_settings_take(&settings, at + 1, reply->count - 2, &error) != SERIATIM_OK)
        return srt_integrity_find_plain(c, k, "layout", k->queues[r->place].name, error.message);
    return SERIATIM_OK;
}

int srt_integrity_on_end(seriatim_client *c, int failed)
{
    integrity_state *k = c->state;
    size_t i;
    for (i = 0; i < k->queue_count && failed == SERIATIM_OK; i++)
        if (!(k->queues[i].seen & INTEGRITY_HAS_LAYOUT) && k->queues[i].seen != INTEGRITY_HAS_MARK)
            failed = integrity_find_lost(c, k, k->queues[i].name.data, k->queues[i].name.len);
    return failed;
}
