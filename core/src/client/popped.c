/* popped.c - says what became of a popped id, by its token. */
#include "client/pop.h"
#include "model/policy.h"

#include <string.h>

#define POPPED_ERROR 65536 /* bytes of an error that are kept */
#define POPPED_REJECTS 250 /* payloads of a call */

typedef struct popped_state {
    srt_arena memory;
    srt_pop_token token;
    int kind;
    int repeat;      /* the next call of the shard has the number of the last one */
    unsigned shard;  /* that was asked last */
    int is_last;     /* it is asked first, though the layout names another one: it may have executed the report */
    int is_new;      /* while ids move: the id's old shard has not its run, the new one is asked */
    int64_t time_us; /* -1: the default back-off */
    seriatim_text text;
    const char *key;
    size_t key_len;
    int64_t without; /* CHECKPOINT: the number of delivered payloads that are not done, the last ones */
    char highest[8];
    const srt_queue *queue;
} popped_state;

static void popped_release(seriatim_client *c)
{
    popped_state *p = c->state;
    srt_arena_free(&p->memory);
    srt_free(c->mem, p, sizeof *p);
}

/* Is another shard asked, too, if this one refuses? */
static int popped_goes_on(const popped_state *p)
{
    return p->is_last || (!p->is_new && srt_queue_moves_id(p->queue, p->token.id.data, p->token.id.len));
}

/* The shard of the id; while ids move the old one first. */
static unsigned popped_shard(const popped_state *p)
{
    unsigned count = p->queue->old_count && !p->is_new ? p->queue->old_count : p->queue->shards_count;
    return seriatim_shard_of(p->token.id.data, p->token.id.len, count);
}

static int popped_ask(seriatim_client *c, popped_state *p)
{
    static const char *const kinds[] = {"ack", "fail", "release", "extend", "snooze", "checkpoint", "reject"};
    srt_request *r;
    c->sequence += !p->repeat;
    if (!p->is_last)
        p->shard = popped_shard(p);
    r = srt_pop_request(c, p->queue, p->shard, srt_script_popped);
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_text(r, kinds[p->kind]);
    srt_request_arg(r, p->token.id.data, p->token.id.len);
    srt_request_int(r, p->token.fence);
    if (p->time_us < 0)
        srt_request_text(r, "");
    else
        srt_request_int(r, p->time_us);
    srt_request_arg(r, p->text.data, p->text.len);
    srt_settings_limits(&p->queue->now, r);
    srt_request_arg(r, p->key, p->key_len);
    srt_request_int(r, p->without);
    srt_request_int(r, p->queue->now.remember_score);
    srt_request_arg(r, p->highest, p->token.scored ? sizeof p->highest : 0);
    srt_request_text(r, popped_goes_on(p) ? "1" : "0");
    return srt_client_send(c, r);
}

static int popped_stale(seriatim_client *c)
{
    return srt_client_fail(
        c, srt_fail(&c->error, SERIATIM_STALE,
                    "the delivery is not this consumer's any more: its time is over, it has ended, or it was taken"));
}

static int popped_send(seriatim_client *c, srt_queue *queue)
{
    popped_state *p = c->state;
    p->queue = queue;
    p->is_new = p->is_last = 0;
    if (!queue->shards_count)
        return popped_stale(c);
    p->is_last = p->repeat && p->shard < queue->shards_known && p->shard != popped_shard(p);
    return popped_ask(c, p);
}

/*
 * The layout changed, and Redis may have executed the report before: it is repeated with the same number, so the shard
 * gives the first answer again. With another number, or in another shard, an acknowledged delivery would be stale.
 */
static int popped_on_stale(seriatim_client *c, srt_request *r, int left)
{
    popped_state *p = c->state;
    (void)r;
    p->repeat |= left;
    return SERIATIM_OK;
}

static int popped_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    popped_state *p = c->state;
    int64_t answer = srt_token_int(&reply->tokens[0]);
    (void)r;
    p->repeat = 0;
    if (reply->tokens[0].type != SRT_INTEGER || answer < 0 || answer > 2)
        return srt_operator_protocol(c, "popped");
    if (answer == 2)
        return popped_ask(c, p);
    if (answer == 0 && popped_goes_on(p)) {
        p->is_new = !p->is_last;
        p->is_last = 0;
        return popped_ask(c, p);
    }
    return answer == 1 ? SERIATIM_OK : popped_stale(c);
}

/* The key that the script wants: the last delivered payload, or, of those that cannot be read, the stamps. */
static int popped_keep_key(popped_state *p, const seriatim_popped_outcome *outcome)
{
    size_t count = p->kind == SERIATIM_POPPED_REJECT ? outcome->payload_count : 0, i;
    char *key = srt_arena_alloc(&p->memory, SRT_KEY + 8 * count);
    if (!key)
        return SERIATIM_NOMEM;
    p->key = key;
    p->key_len = SRT_KEY;
    if (p->kind == SERIATIM_POPPED_REJECT) {
        for (i = 0; i < count; i++)
            srt_number_pack(key + 8 * i, outcome->payloads[i].stamp);
        p->key_len = 8 * count;
    } else if (p->kind == SERIATIM_POPPED_CHECKPOINT || (p->kind == SERIATIM_POPPED_ACK && p->token.more) ||
               (p->kind == SERIATIM_POPPED_SNOOZE && outcome->text.data)) {
        srt_number_pack(key, p->token.stamp);
        srt_number_pack(key + 8, p->token.score);
    } else {
        p->key_len = 0;
    }
    return SERIATIM_OK;
}

static int popped_keep_text(popped_state *p, const seriatim_popped_outcome *outcome)
{
    size_t most = p->kind == SERIATIM_POPPED_SNOOZE ? SERIATIM_MAX_PAYLOAD : POPPED_ERROR, len = outcome->text.len;
    p->text.len = outcome->text.data ? (len < most ? len : most) : 0;
    p->text.data = srt_arena_copy(&p->memory, p->text.len ? outcome->text.data : "", p->text.len);
    return p->text.data ? SERIATIM_OK : SERIATIM_NOMEM;
}

static int popped_check(seriatim_client *c, const seriatim_popped_outcome *o)
{
    int timed = o->kind == SERIATIM_POPPED_EXTEND || o->kind == SERIATIM_POPPED_SNOOZE;
    if (srt_client_check_identity(c) != SERIATIM_OK)
        return SERIATIM_INVALID;
    if (o->kind < SERIATIM_POPPED_ACK || o->kind > SERIATIM_POPPED_REJECT)
        return srt_fail(&c->error, SERIATIM_INVALID, "there is no outcome with the number %d", o->kind);
    if ((timed || o->kind == SERIATIM_POPPED_FAIL) && !(o->seconds <= SRT_CENTURY_SECONDS))
        return srt_fail(&c->error, SERIATIM_INVALID, "seconds must be at most 100 years");
    if (timed && o->seconds < 0)
        return srt_fail(&c->error, SERIATIM_INVALID, "seconds must not be negative");
    if (o->kind == SERIATIM_POPPED_REJECT && (o->payload_count < 1 || !o->payloads))
        return srt_fail(&c->error, SERIATIM_INVALID, "payloads are missing");
    if (o->kind == SERIATIM_POPPED_REJECT && o->payload_count > POPPED_REJECTS)
        return srt_fail(&c->error, SERIATIM_INVALID, "at most %d payloads are rejected at once", POPPED_REJECTS);
    if (o->kind == SERIATIM_POPPED_SNOOZE && o->text.len > SERIATIM_MAX_PAYLOAD)
        return srt_fail(&c->error, SERIATIM_INVALID, "payload is %lu bytes long; at most %d are allowed",
                        (unsigned long)o->text.len, SERIATIM_MAX_PAYLOAD);
    return SERIATIM_OK;
}

static int popped_read(seriatim_client *c, popped_state *p, seriatim_text token, const seriatim_popped_outcome *o)
{
    int status;
    srt_arena_init(&p->memory, c->mem);
    status = srt_pop_token_read(&p->token, &p->memory, token);
    if (status == SERIATIM_INVALID)
        return srt_fail(&c->error, status, "the text is no token of a delivery");
    if (status == SERIATIM_OK && o->kind == SERIATIM_POPPED_CHECKPOINT && o->payload_count > (size_t)p->token.delivered)
        return srt_fail(&c->error, SERIATIM_INVALID, "the delivery has only %lld payloads",
                        (long long)p->token.delivered);
    if (o->kind == SERIATIM_POPPED_CHECKPOINT)
        p->without = p->token.delivered - (int64_t)o->payload_count;
    srt_number_pack(p->highest, p->token.highest);
    p->kind = o->kind;
    p->time_us = o->kind == SERIATIM_POPPED_FAIL && o->seconds < 0 ? -1 : 0;
    if (o->seconds > 0 && o->kind != SERIATIM_POPPED_ACK)
        p->time_us = (int64_t)(o->seconds * 1e6);
    if (status == SERIATIM_OK)
        status = popped_keep_key(p, o);
    if (status == SERIATIM_OK)
        status = popped_keep_text(p, o);
    return status == SERIATIM_OK ? status : srt_fail_plain(&c->error, status);
}

/* The queue of the token; one that this client does not know yet becomes known. */
static int popped_queue(seriatim_client *c, const popped_state *p, size_t *queue)
{
    seriatim_queue_settings settings;
    *queue = srt_registry_number(&c->registry, p->token.queue.data, p->token.queue.len);
    if (*queue != SRT_NO_QUEUE)
        return SERIATIM_OK;
    seriatim_queue_settings_init(&settings);
    settings.name = p->token.queue.data;
    settings.name_len = p->token.queue.len;
    settings.shards_count = 0;
    return seriatim_client_queue(c, &settings, queue);
}

int seriatim_popped_begin(seriatim_client *c, seriatim_text token, const seriatim_popped_outcome *outcome)
{
    static const srt_operation operation = {
        .rereads = 1,
        .send = popped_send,
        .on_reply = popped_on_reply,
        .on_stale = popped_on_stale,
        .release = popped_release,
    };
    size_t queue;
    int status = srt_client_begin(c);
    if (status == SERIATIM_OK)
        status = popped_check(c, outcome);
    if (status != SERIATIM_OK)
        return status;
    c->state = srt_operator_state(c, sizeof(popped_state));
    if (!c->state)
        return SERIATIM_NOMEM;
    status = popped_read(c, c->state, token, outcome);
    if (status == SERIATIM_OK)
        status = popped_queue(c, c->state, &queue);
    if (status == SERIATIM_OK)
        return srt_client_start(c, &operation, queue);
    popped_release(c);
    c->state = NULL;
    return status;
}
