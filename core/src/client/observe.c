/* observe.c - figures of a queue, the living nodes, and why an id is or is not running. */
#include "client/operator.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double observe_seconds(const srt_token *us)
{
    return (double)srt_token_int(us) / 1e6;
}

/* A reply's times of "never". */
static int observe_is_never(const srt_token *us)
{
    return srt_token_int(us) >= INT64_C(9000000000000000);
}

/* ---- Metrics ------------------------------------------------------------------------------- */

typedef struct metrics_state {
    srt_arena memory;
    seriatim_metrics total, *shards;
    size_t count;
} metrics_state;

static void metrics_release(seriatim_client *c)
{
    metrics_state *m = c->state;
    srt_arena_free(&m->memory);
    srt_free(c->mem, m, sizeof *m);
}

static int metrics_send(seriatim_client *c, srt_queue *queue)
{
    metrics_state *m = c->state;
    int status = SERIATIM_OK;
    unsigned shard;
    srt_arena_reset(&m->memory);
    m->count = 0;
    m->shards = srt_arena_alloc(&m->memory, queue->shards_count * sizeof *m->shards);
    if (!m->shards)
        return srt_operator_nomem(c);
    m->count = queue->shards_count;
    memset(m->shards, 0, m->count * sizeof *m->shards);
    for (shard = 0; shard < queue->shards_count && status == SERIATIM_OK; shard++) {
        srt_request *r = srt_client_shard_request(c, queue, shard, srt_script_metrics);
        if (!r)
            return SERIATIM_NOMEM;
        r->place = shard;
        status = srt_client_send(c, r);
    }
    return status;
}

static int metrics_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    metrics_state *m = c->state;
    seriatim_metrics *shard = &m->shards[r->place];
    const srt_token *at = &reply->tokens[1];
    if (!srt_reply_is_list(reply, 17))
        return srt_operator_protocol(c, "metrics");
    shard->now = observe_seconds(&at[0]);
    shard->length = srt_token_int(&at[1]);
    shard->retries = srt_token_int(&at[2]);
    shard->fresh = shard->length - shard->retries;
    shard->busy = srt_token_int(&at[3]);
    shard->parked = srt_token_int(&at[4]);
    shard->morgue_length = srt_token_int(&at[5]);
    shard->unproven = srt_token_int(&at[6]);
    shard->suspect = srt_token_int(&at[7]);
    shard->processed = srt_token_int(&at[8]);
    shard->failed = srt_token_int(&at[9]);
    shard->refused = srt_token_int(&at[10]);
    shard->paused = srt_token_int(&at[11]);
    shard->lag = observe_seconds(&at[12]);
    shard->first = observe_is_never(&at[13]) ? 0 : observe_seconds(&at[13]);
    shard->lease = srt_token_int(&at[14]);
    shard->fence = srt_token_int(&at[15]);
    shard->owner = srt_arena_copy(&m->memory, at[16].data, at[16].len);
    return shard->owner ? SERIATIM_OK : srt_operator_nomem(c);
}

static int metrics_on_end(seriatim_client *c, int failed)
{
    metrics_state *m = c->state;
    seriatim_metrics *total = &m->total;
    size_t i;
    memset(total, 0, sizeof *total);
    total->owner = "";
    for (i = 0; i < m->count; i++) {
        const seriatim_metrics *shard = &m->shards[i];
        total->length += shard->length;
        total->fresh += shard->fresh;
        total->retries += shard->retries;
        total->morgue_length += shard->morgue_length;
        total->busy += shard->busy;
        total->parked += shard->parked;
        total->unproven += shard->unproven;
        total->suspect += shard->suspect;
        total->processed += shard->processed;
        total->failed += shard->failed;
        total->refused += shard->refused;
        total->paused += shard->paused;
        if (shard->lag > total->lag)
            total->lag = shard->lag;
        if (shard->first > 0 && (!(total->first > 0) || shard->first < total->first))
            total->first = shard->first;
        if (shard->now > total->now)
            total->now = shard->now;
    }
    return failed;
}

int seriatim_metrics_begin(seriatim_client *c, size_t queue)
{
    static const srt_operation operation = {
        .send = metrics_send, .on_reply = metrics_on_reply, .on_end = metrics_on_end, .release = metrics_release};
    metrics_state *m;
    int status = srt_client_begin(c);
    if (status != SERIATIM_OK)
        return status;
    m = srt_operator_state(c, sizeof *m);
    if (!m)
        return SERIATIM_NOMEM;
    srt_arena_init(&m->memory, c->mem);
    m->total.owner = "";
    c->state = m;
    return srt_client_start(c, &operation, queue);
}

static const metrics_state *metrics_of(const seriatim_client *c)
{
    return c->operation && c->operation->send == metrics_send && c->status == SERIATIM_OK ? c->state : NULL;
}

const seriatim_metrics *seriatim_metrics_total(const seriatim_client *c)
{
    const metrics_state *m = metrics_of(c);
    return m ? &m->total : NULL;
}

const seriatim_metrics *seriatim_metrics_shards(const seriatim_client *c, size_t *count)
{
    const metrics_state *m = metrics_of(c);
    *count = m ? m->count : 0;
    return m ? m->shards : NULL;
}

/* ---- Nodes --------------------------------------------------------------------------------- */

typedef struct nodes_state {
    srt_arena memory;
    seriatim_living_node *nodes;
    size_t count;
} nodes_state;

srt_request *srt_nodes_request(seriatim_client *c, int script)
{
    srt_request *r = srt_session_begin(&c->session, script, NULL, 0);
    static const char *const kinds[] = {"alive", "info"};
    srt_bytes key;
    size_t i;
    int failed = !r;
    srt_bytes_init(&key, c->mem);
    for (i = 0; r && i < 2; i++) {
        srt_bytes_clear(&key);
        srt_key_global(&key, c->registry.ns.data, "nodes", kinds[i]);
        failed |= key.failed;
        srt_request_arg(r, key.data, key.len);
    }
    srt_bytes_free(&key);
    if (failed) {
        if (r)
            srt_session_done(&c->session, r);
        srt_operator_nomem(c);
        return NULL;
    }
    r->keys = 2;
    return r;
}

int srt_nodes_ask(seriatim_client *c, int kind)
{
    srt_request *r = srt_nodes_request(c, srt_script_nodes);
    if (!r)
        return SERIATIM_NOMEM;
    r->kind = kind;
    return srt_client_send(c, r);
}

static int nodes_send(seriatim_client *c, srt_queue *queue)
{
    (void)queue;
    return srt_nodes_ask(c, 0);
}

/* A node describes itself by a letter and the checksums of its queues, in front of the first ';' or '|' (node.c). */
int srt_node_serves(const srt_token *description, const srt_bytes *name)
{
    uint32_t crc = srt_crc32(name->data, name->len);
    char text[10] = " ";
    size_t i, end = 0;
    for (i = 0; i < 8; i++)
        text[i + 1] = "0123456789abcdef"[(crc >> (28 - 4 * i)) & 15];
    while (end < description->len && description->data[end] != ';' && description->data[end] != '|')
        end++;
    for (i = 1; i + 9 <= end; i += 9)
        if (memcmp(description->data + i, text, 9) == 0)
            return 1;
    return 0;
}

/* The first letter of what a node says of itself. */
static const char *node_state(char letter)
{
    return letter == 's' ? "stopping" : letter == 'q' ? "quiet" : "working";
}

/* A number that the node tells of its process, in front of the bar. 0: it does not. */
static int node_field(const char *description, const char *name, int64_t *value)
{
    const char *bar = strchr(description, '|'), *at = strstr(description, name);
    srt_token number = {SRT_STRING, 0, NULL, 0};
    if (!at || !bar || at > bar)
        return 0;
    number.data = at + strlen(name);
    number.len = strcspn(number.data, ";|");
    *value = srt_token_int(&number);
    return 1;
}

static int nodes_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    nodes_state *n = c->state;
    const srt_token *at = reply->tokens;
    int64_t now, skew_ms;
    size_t i;
    (void)r;
    if (!srt_reply_is_list(reply, 1) || (reply->count - 2) % 3 != 0)
        return srt_operator_protocol(c, "nodes");
    now = srt_token_int(&at[1]);
    n->nodes = srt_arena_alloc(&n->memory, reply->count * sizeof *n->nodes);
    if (!n->nodes)
        return srt_operator_nomem(c);
    for (i = 2; i < reply->count; i += 3) {
        seriatim_living_node *node = &n->nodes[n->count];
        int64_t left = srt_token_int(&at[i + 1]) - now;
        if (left <= 0)
            continue;
        node->name = srt_arena_copy(&n->memory, at[i].data, at[i].len);
        node->description = srt_arena_copy(&n->memory, at[i + 2].data, at[i + 2].len);
        node->expires_in = (double)left / 1e3;
        node->state = node_state(at[i + 2].len ? *at[i + 2].data : '\0');
        if (!node->name || !node->description)
            return srt_operator_nomem(c);
        if (!node_field(node->description, ";rss=", &node->rss))
            node->rss = -1;
        if (!node_field(node->description, ";threads=", &node->threads))
            node->threads = -1;
        if (!node_field(node->description, ";since=", &node->since))
            node->since = -1;
        node->clock_skew = node_field(node->description, ";skew_ms=", &skew_ms) ? (double)skew_ms / 1e3 : NAN;
        n->count++;
    }
    return SERIATIM_OK;
}

static void nodes_release(seriatim_client *c)
{
    nodes_state *n = c->state;
    srt_arena_free(&n->memory);
    srt_free(c->mem, n, sizeof *n);
}

int seriatim_nodes_begin(seriatim_client *c)
{
    static const srt_operation operation = {.send = nodes_send, .on_reply = nodes_on_reply, .release = nodes_release};
    nodes_state *n;
    int status = srt_client_begin(c);
    if (status != SERIATIM_OK)
        return status;
    n = srt_operator_state(c, sizeof *n);
    if (!n)
        return SERIATIM_NOMEM;
    srt_arena_init(&n->memory, c->mem);
    c->state = n;
    return srt_client_start(c, &operation, SRT_NO_QUEUE);
}

const seriatim_living_node *seriatim_nodes_result(const seriatim_client *c, size_t *count)
{
    const nodes_state *n = c->operation && c->operation->send == nodes_send && c->status == SERIATIM_OK ? c->state : NULL;
    *count = n ? n->count : 0;
    return n ? n->nodes : NULL;
}

/* ---- Orders -------------------------------------------------------------------------------- */

typedef struct order_state {
    srt_bytes node;
    int order, found;
} order_state;

static void order_release(seriatim_client *c)
{
    order_state *o = c->state;
    srt_bytes_free(&o->node);
    srt_free(c->mem, o, sizeof *o);
}

static int order_send(seriatim_client *c, srt_queue *queue)
{
    const order_state *o = c->state;
    const char *ns = c->registry.ns.data;
    srt_request *r = srt_nodes_request(c, srt_script_order);
    srt_bytes text;
    (void)queue;
    if (!r)
        return SERIATIM_NOMEM;
    srt_bytes_init(&text, c->mem);
    srt_key_order(&text, ns, o->node.data, o->node.len);
    srt_request_arg(r, text.data, text.len);
    r->keys++;
    srt_request_arg(r, o->node.data, o->node.len);
    srt_request_text(r, o->order == SERIATIM_ORDER_STOP ? "stop" : "quiet");
    r->tail.failed |= text.failed;
    srt_bytes_clear(&text);
    srt_key_wake(&text, ns, o->node.data, o->node.len);
    srt_request_arg(r, text.data, text.len);
    r->tail.failed |= text.failed;
    srt_bytes_free(&text);
    return srt_client_send(c, r);
}

static int order_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    order_state *o = c->state;
    (void)r;
    if (reply->tokens[0].type != SRT_INTEGER)
        return srt_operator_protocol(c, "order");
    o->found = srt_token_int(&reply->tokens[0]) == 1;
    return SERIATIM_OK;
}

int seriatim_order_begin(seriatim_client *c, const char *node, size_t len, int order)
{
    static const srt_operation operation = {.send = order_send, .on_reply = order_on_reply, .release = order_release};
    order_state *o;
    int status = srt_client_begin(c);
    if (status != SERIATIM_OK)
        return status;
    if (order != SERIATIM_ORDER_QUIET && order != SERIATIM_ORDER_STOP)
        return srt_fail(&c->error, SERIATIM_INVALID, "there is no order with the number %d", order);
    o = srt_operator_state(c, sizeof *o);
    if (!o)
        return SERIATIM_NOMEM;
    o->order = order;
    srt_bytes_init(&o->node, c->mem);
    srt_bytes_add(&o->node, node, len);
    c->state = o;
    if (o->node.failed) {
        order_release(c);
        c->state = NULL;
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    }
    return srt_client_start(c, &operation, SRT_NO_QUEUE);
}

int seriatim_order_result(const seriatim_client *c)
{
    return c->operation && c->operation->send == order_send && ((const order_state *)c->state)->found;
}

/* ---- Explain ------------------------------------------------------------------------------- */

enum { EXPLAIN_ID, EXPLAIN_NODES };

typedef struct explain_state {
    srt_arena args, memory;
    const srt_queue *queue; /* borrowed */
    const char *id;
    size_t len;
    unsigned shard;
    int runs, parks, deletes; /* what the run's flags say */
    char mode;                /* of the run */
    seriatim_explanation result;
    char text[512];
} explain_state;

static void explain_release(seriatim_client *c)
{
    explain_state *e = c->state;
    srt_arena_free(&e->args);
    srt_arena_free(&e->memory);
    srt_free(c->mem, e, sizeof *e);
}

static void explain_blank(const explain_state *e, seriatim_record *view)
{
    memset(view, 0, sizeof *view);
    view->id = e->id;
    view->id_len = e->len;
    view->state = "unknown";
    view->error = "";
    view->retry_count = -1;
    view->shard = e->shard;
}

static void explain_reset(explain_state *e)
{
    srt_arena_reset(&e->memory);
    memset(&e->result, 0, sizeof e->result);
    explain_blank(e, &e->result.job);
    explain_blank(e, &e->result.behind);
    explain_blank(e, &e->result.dead);
    e->result.owner = e->result.text = "";
    e->runs = e->parks = e->deletes = 0;
}

static int explain_send(seriatim_client *c, srt_queue *queue)
{
    explain_state *e = c->state;
    srt_request *r;
    int status;
    e->queue = queue;
    e->shard = seriatim_shard_of(e->id, e->len, queue->shards_count);
    explain_reset(e);
    if (queue->shards_count == 0)
        return SERIATIM_OK;
    r = srt_client_shard_request(c, queue, e->shard, srt_script_explain);
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_arg(r, e->id, e->len);
    r->kind = EXPLAIN_ID;
    status = srt_client_send(c, r);
    return status;
}

static int explain_view(seriatim_client *c, explain_state *e, seriatim_record *view, const srt_token *head, srt_part part,
                        const srt_token *run)
{
    srt_record record;
    char *data;
    if (head->len == 0)
        return SERIATIM_OK;
    data = srt_arena_copy(&e->memory, head->data, head->len);
    if (!data)
        return srt_operator_nomem(c);
    if (srt_record_read(&record, &e->memory, data, head->len) != SERIATIM_OK)
        return srt_operator_protocol(c, "explain");
    srt_record_view(view, &record, part, (int64_t)(e->result.now * 1e6 + 0.5), run);
    return SERIATIM_OK;
}

static int explain_on_id(seriatim_client *c, explain_state *e, const srt_reply *reply)
{
    const srt_token *at = &reply->tokens[1], *run = &at[5];
    seriatim_explanation *x = &e->result;
    int status;
    if (!srt_reply_is_list(reply, 10))
        return srt_operator_protocol(c, "explain");
    x->now = observe_seconds(&at[0]);
    x->paused = srt_token_int(&at[1]) != 0;
    x->lease = srt_token_int(&at[2]);
    x->fence = srt_token_int(&at[3]);
    x->owner = srt_arena_copy(&e->memory, at[4].data, at[4].len);
    if (!x->owner)
        return srt_operator_nomem(c);
    e->runs = run->len > 2;
    if (e->runs) {
        e->deletes = (run->data[0] & 2) != 0;
        e->parks = (run->data[0] & 4) != 0;
        e->mode = run->data[1];
    }
    x->behind.behind = 1;
    status = explain_view(c, e, &x->job, &at[7], e->runs ? SRT_PART_RUNNING : SRT_PART_WAITING, run);
    if (status == SERIATIM_OK)
        status = explain_view(c, e, &x->behind, &at[8], SRT_PART_WAITING, NULL);
    if (status == SERIATIM_OK)
        status = explain_view(c, e, &x->dead, &at[9], SRT_PART_DEAD, NULL);
    return status == SERIATIM_OK ? srt_nodes_ask(c, EXPLAIN_NODES) : status;
}

static int explain_on_nodes(seriatim_client *c, explain_state *e, const srt_reply *reply)
{
    const srt_token *at = reply->tokens;
    size_t i;
    if (!srt_reply_is_list(reply, 1) || (reply->count - 2) % 3 != 0)
        return srt_operator_protocol(c, "nodes");
    for (i = 2; i < reply->count; i += 3) {
        if (srt_token_int(&at[i + 1]) <= srt_token_int(&at[1]))
            continue;
        e->result.owner_alive |= srt_token_is(&at[i], e->result.owner);
        e->result.known |= srt_node_serves(&at[i + 2], &e->queue->name);
    }
    return SERIATIM_OK;
}

static int explain_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    return r->kind == EXPLAIN_ID ? explain_on_id(c, c->state, reply) : explain_on_nodes(c, c->state, reply);
}

/* Appends to the sentence; what does not fit is cut. */
static void explain_say(explain_state *e, const char *before, const char *text, const char *after)
{
    size_t len = strlen(e->text);
    snprintf(e->text + len, sizeof e->text - len, "%s%s%s", before, text, after);
}

/* "in 4.2 s", "3.0 s ago": tenths, in any locale. */
static void explain_say_time(explain_state *e, const char *before, double when)
{
    double left = when - e->result.now;
    long long tenths = (long long)((left < 0 ? -left : left) * 10 + 0.5);
    char text[48];
    snprintf(text, sizeof text, "%s%lld.%lld s%s", left > 0 ? "in " : "", tenths / 10, tenths % 10, left > 0 ? "" : " ago");
    explain_say(e, before, text, "");
}

static void explain_say_failures(explain_state *e, int64_t count)
{
    char text[32];
    snprintf(text, sizeof text, "%lld times; ", (long long)count);
    explain_say(e, "it failed ", count == 1 ? "once; " : text, "");
}

/* Who would run it, as part of the sentence. */
static void explain_say_owner(explain_state *e)
{
    const seriatim_explanation *x = &e->result;
    if (!*x->owner)
        explain_say(e, x->known ? "; no node owns its shard" : "; no server knows this queue, so no node owns its shard", "", "");
    else if (!x->owner_alive)
        explain_say(e, "; node ", x->owner, ", which owns its shard, has no heartbeat, and another will take the shard");
    else
        explain_say(e, "; node ", x->owner, " owns its shard");
}

static void explain_run(explain_state *e)
{
    explain_say(e, "it runs, or is claimed to run", *e->result.owner ? " on node " : "", e->result.owner);
    if (*e->result.owner && !e->result.owner_alive)
        explain_say(e, ", which has no heartbeat: when another takes the shard, it comes back", "", "");
    if (e->mode == 'o')
        explain_say(e, "; its process died with it alone in it", "", "");
    if (e->deletes)
        explain_say(e, "; it was deleted meanwhile and will not come back", "", "");
    if (e->parks)
        explain_say(e, "; it will be parked when its run ends", "", "");
    if (strcmp(e->result.behind.state, "unknown") != 0)
        explain_say(e, "; more waits for its next run", "", "");
}

static void explain_wait(explain_state *e)
{
    const seriatim_record *job = &e->result.job;
    if (strcmp(job->state, "parked") == 0) {
        explain_say(e, "it is parked until someone unparks it", "", "");
        return;
    }
    if (strcmp(job->state, "suspect") == 0)
        explain_say(e, "its process died twice: it runs with nothing beside it; ", "", "");
    else if (strcmp(job->state, "unproven") == 0)
        explain_say(e, "its process died: it is claimed singly; ", "", "");
    else if (job->retry_count >= 0)
        explain_say_failures(e, job->retry_count + 1);
    if (job->perform_in > e->result.now)
        explain_say_time(e, job->retry_count >= 0 ? "its next run is due " : "it is due ", job->perform_in);
    else
        explain_say_time(e, "it became due ", job->perform_in);
    if (e->result.paused)
        explain_say(e, "; its shard is paused", "", "");
    explain_say_owner(e);
}

static int explain_on_end(seriatim_client *c, int failed)
{
    explain_state *e = c->state;
    e->text[0] = '\0';
    if (e->runs)
        explain_run(e);
    else if (strcmp(e->result.job.state, "unknown") != 0)
        explain_wait(e);
    else
        explain_say(e, "nothing waits or runs under this id", e->result.known ? "" : "; no server knows this queue", "");
    if (strcmp(e->result.dead.state, "unknown") != 0)
        explain_say_time(e, "; dead payloads of it lie in the morgue, its last death was ", e->result.dead.updated_at);
    e->result.text = e->text;
    return failed;
}

int seriatim_explain_begin(seriatim_client *c, size_t queue, const char *id, size_t len)
{
    static const srt_operation operation = {
        .send = explain_send, .on_reply = explain_on_reply, .on_end = explain_on_end, .release = explain_release};
    const seriatim_text text = {id, len};
    srt_target *target;
    explain_state *e;
    int status = srt_client_begin(c);
    if (status != SERIATIM_OK)
        return status;
    e = srt_operator_state(c, sizeof *e);
    if (!e)
        return SERIATIM_NOMEM;
    srt_arena_init(&e->args, c->mem);
    srt_arena_init(&e->memory, c->mem);
    c->state = e;
    status = srt_targets_copy(c, &e->args, &text, 1, &target);
    if (status != SERIATIM_OK) {
        explain_release(c);
        c->state = NULL;
        return status;
    }
    e->id = target->id;
    e->len = target->len;
    explain_reset(e);
    return srt_client_start(c, &operation, queue);
}

const seriatim_explanation *seriatim_explain_result(const seriatim_client *c)
{
    return c->operation && c->operation->send == explain_send && c->status == SERIATIM_OK
               ? &((const explain_state *)c->state)->result
               : NULL;
}
