/* pop.c - takes one due id from the first queue that has one, and waits if none has. */
#include "client/pop.h"
#include "client/push.h"
#include "client/turns.h"

#include <stdio.h>
#include <string.h>

#define POP_MOST 1000
#define POP_LONGEST_WAIT 60.0
#define POP_LONGEST_RUN 31536000.0
#define POP_AGAIN 1000                  /* calls to one shard in a row, if it asks to be called again at once */
#define POP_POLL_MS 100                 /* without a subscription a waiting pop asks again after this time */
#define POP_RECHECK_MS 10000            /* with a subscription, because a message may be lost */
#define POP_UNKNOWN_MS 1000             /* after this time the layout of a queue that does not exist is read again */
#define POP_MISSED_MS 30000             /* how long a pop waits for a shard that could not be asked */
#define POP_BYTES ((size_t)1024 * 1024) /* payloads and contexts of a delivery that has more than one payload */

enum { POP_SLICE = 1 }; /* the kind of a request; 0: pop.lua */

typedef struct pop_state {
    srt_arena args, memory;
    size_t *queues;   /* in the order in which they are asked */
    int64_t *weights; /* of the queues in this order; NULL: the order is strict */
    srt_turn **turns; /* with weights: of the queues in this order */
    size_t queue_count, at;
    int64_t wait_ms, ttr_us, most;
    unsigned asked;  /* shards of the queue */
    unsigned shard;  /* that was called last */
    unsigned again;  /* calls of it */
    int repeat;      /* the next call is of this shard, and has the number of the last one */
    int64_t next_ms; /* until something may be due */
    int found;
    int host_waits;      /* as srt_pop_begin says */
    int missed;          /* a shard could not be asked since the first queue was last begun with, ... */
    seriatim_error miss; /* ... which is why */
    int64_t missed_ms; /* spent_ms when a pass over all queues first missed a shard, as all have since; -1: none has */
    seriatim_popped result;
    srt_record record; /* of the popped id; more of its payloads may be on their way */
    size_t bytes;      /* of these payloads with their contexts */
    size_t total;      /* payloads of the id */
} pop_state;

void seriatim_pop_init(seriatim_pop *pop)
{
    memset(pop, 0, sizeof *pop);
    pop->wait = 2;
    pop->ttr = 30;
    pop->max = POP_MOST;
}

static void pop_release(seriatim_client *c)
{
    pop_state *p = c->state;
    srt_arena_free(&p->args);
    srt_arena_free(&p->memory);
    srt_free(c->mem, p, sizeof *p);
}

/* ---- Requests ------------------------------------------------------------------------------ */

/*
 * A shard that the queue gets by a move is made by its turn, which knows whether it is paused. A call with the word
 * `from` is refused until then.
 */
static void pop_add_generation(srt_request *r, const srt_queue *queue, unsigned shard)
{
    char text[48];
    snprintf(text, sizeof text, "%lld%s", (long long)queue->generation,
             queue->old_count && shard >= queue->old_count ? " from 0" : "");
    srt_request_text(r, text);
}

srt_request *srt_pop_request(seriatim_client *c, const srt_queue *queue, unsigned shard, int script)
{
    srt_request *r =
        srt_session_begin(srt_cluster_pool(&c->cluster), script, &queue->shards[shard]->args, SRT_SHARD_KEYS);
    if (!r) {
        srt_operator_nomem(c);
        return NULL;
    }
    srt_push_token_arg(c, queue, shard, r);
    r->keys = r->args;
    pop_add_generation(r, queue, shard);
    srt_request_int(r, c->sequence);
    srt_request_text(r, queue->now.fold);
    srt_request_int(r, queue->now.history_per_id);
    return r;
}

/*
 * The shard that is asked next. The first one depends on the client's random identity: if all began with shard 0,
 * programs that pop once would leave the ids of the other shards waiting.
 */
static unsigned pop_next_shard(const seriatim_client *c, const pop_state *p, const srt_queue *queue)
{
    unsigned count = srt_queue_addressed(queue), first = seriatim_shard_of(c->identity, SRT_IDENTITY, count);
    return (first + queue->pop_shard + p->asked) % count;
}

static int pop_ask(seriatim_client *c, pop_state *p, const srt_queue *queue)
{
    srt_request *r;
    /* Also a shard that the queue has lost since: with ttr 0 only its answer has the payloads. */
    if (p->shard >= queue->shards_known)
        p->repeat = 0;
    if (!p->repeat) {
        c->sequence++;
        p->shard = pop_next_shard(c, p, queue);
    }
    r = srt_pop_request(c, queue, p->shard, srt_script_pop);
    if (!r)
        return SERIATIM_NOMEM;
    r->hurries = !p->repeat; /* one that is repeated may have taken an id already */
    srt_request_int(r, p->ttr_us);
    srt_request_int(r, p->most);
    srt_request_text(r, c->listener.subscribed ? "1" : "0");
    srt_request_int(r, queue->now.serial_shards);
    srt_settings_limits(&queue->now, r);
    srt_request_int(r, queue->now.remember_score);
    return srt_client_send(c, r);
}

/* Asks for more payloads of the popped id: pop.lua answers with the first ones only. */
static int pop_ask_slice(seriatim_client *c, pop_state *p, srt_queue *queue)
{
    char run[32];
    srt_request *r = srt_client_shard_request(c, queue, p->shard, srt_script_slice);
    if (!r)
        return SERIATIM_NOMEM;
    snprintf(run, sizeof run, "1%c%lld", SRT_RUN_POPPED, (long long)p->result.job.fence);
    r->kind = POP_SLICE;
    srt_request_arg(r, p->result.job.id, p->result.job.id_len);
    srt_request_text(r, run);
    srt_request_int(r, (int64_t)p->record.count);
    return srt_client_send(c, r);
}

/* ---- Sleep --------------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/*
 * The time is over, and no shard that could be asked has a due id: goes on asking all of them until a shard was missed
 * for as long as other operations wait for a slot that moves, and then says what was wrong.
 */
static int pop_outstay(seriatim_client *c, pop_state *p)
{
    int64_t left = (c->limit_ms ? c->limit_ms : POP_MISSED_MS) - (c->spent_ms - p->missed_ms);
    if (p->host_waits)
        return SERIATIM_OK;
    if (left > 0) {
        srt_client_sleep(c, least(least(left, POP_POLL_MS), p->next_ms));
        return SERIATIM_OK;
    }
    c->error = p->miss;
    c->waited_for_move = 1;
    return srt_client_fail(c, c->error.status);
}

/* No queue has a due id: ends, or sleeps until one may be due. */
static int pop_rest(seriatim_client *c, pop_state *p)
{
    int64_t left = p->wait_ms - c->spent_ms, most;
    size_t i;
    if (!p->missed)
        p->missed_ms = -1;
    else if (p->missed_ms < 0)
        p->missed_ms = c->spent_ms;
    if (left <= 0)
        return p->missed ? pop_outstay(c, p) : SERIATIM_OK;
    for (i = 0; i < p->queue_count; i++)
        if (srt_listener_add(c, srt_client_queue_at(c, p->queues[i])) != SERIATIM_OK)
            return srt_operator_nomem(c);
    most = c->listener.subscribed ? POP_RECHECK_MS : POP_POLL_MS; /* a channel that was just added is not confirmed */
    srt_client_sleep(c, least(least(left, most), p->next_ms));
    return SERIATIM_OK;
}

static int pop_next_queue(seriatim_client *c, pop_state *p)
{
    if (++p->at < p->queue_count)
        return srt_client_turn_to(c, p->queues[p->at]);
    return pop_rest(c, p);
}

static int pop_on_awake(seriatim_client *c)
{
    pop_state *p = c->state;
    p->at = 0;
    p->missed = 0;
    p->next_ms = INT64_MAX;
    return srt_client_turn_to(c, p->queues[0]);
}

static int pop_send(seriatim_client *c, srt_queue *queue)
{
    pop_state *p = c->state;
    if (!p->repeat || !queue->shards_count) {
        p->asked = p->again = 0;
        p->repeat = 0;
    }
    if (queue->shards_count)
        return pop_ask(c, p, queue);
    p->next_ms = least(p->next_ms, POP_UNKNOWN_MS);
    return pop_next_queue(c, p);
}

/* ---- Answers ------------------------------------------------------------------------------- */

/* What is wrong with an answer of a script, as the client's error. */
static int pop_fail(seriatim_client *c, int status, const char *script)
{
    return status == SERIATIM_PROTOCOL ? srt_operator_protocol(c, script) : srt_operator_nomem(c);
}

static int pop_read(seriatim_client *c, pop_state *p, const srt_token *at)
{
    seriatim_claimed *job = &p->result.job;
    char *id = srt_arena_copy(&p->memory, at[3].data, at[3].len);
    char *data = srt_arena_copy(&p->memory, at[4].data, at[4].len);
    int status = id && data ? srt_record_read(&p->record, &p->memory, data, at[4].len) : SERIATIM_NOMEM;
    if (status != SERIATIM_OK)
        return status;
    memset(&p->result, 0, sizeof p->result);
    p->bytes = 0;
    p->result.queue = c->queue;
    p->total = p->record.count + (size_t)srt_token_int(&at[5]);
    p->result.deliveries = srt_token_int(&at[6]);
    job->id = id;
    job->id_len = at[3].len;
    job->fence = srt_token_int(&at[2]);
    job->retry_count = p->record.retry_count;
    job->perform_in = (double)p->record.due_us / 1e6;
    job->error = p->record.error;
    job->error_len = p->record.error_len;
    return p->record.count < 1 ? SERIATIM_PROTOCOL : SERIATIM_OK;
}

/* Counts the bytes of the payloads from `from` on, and drops those that are too many. 1: the delivery is full. */
static int pop_limit(pop_state *p, size_t from)
{
    srt_record *r = &p->record;
    size_t i;
    for (i = from; i < r->count && (int64_t)i < p->most; i++) {
        p->bytes += r->payloads[i].len + r->payloads[i].context_len;
        if (i && p->bytes > POP_BYTES)
            break;
    }
    r->count = i;
    return (int64_t)i >= p->most || p->bytes >= POP_BYTES;
}

static srt_pop_token pop_token(const pop_state *p, const srt_queue *queue)
{
    const seriatim_payload *last = &p->record.payloads[p->record.count - 1];
    srt_pop_token token;
    token.queue.data = queue->name.data;
    token.queue.len = queue->name.len;
    token.id.data = p->result.job.id;
    token.id.len = p->result.job.id_len;
    token.fence = p->result.job.fence;
    token.stamp = last->stamp;
    token.score = last->score;
    token.delivered = (int64_t)p->record.count;
    token.more = p->result.more;
    token.highest = 0;
    token.scored = srt_record_score(&p->record, p->record.count, &token.highest);
    return token;
}

/* The next pop begins behind the shard that was asked last. */
static void pop_pass(const pop_state *p, srt_queue *queue)
{
    unsigned count = srt_queue_addressed(queue);
    if (count)
        queue->pop_shard = (queue->pop_shard + p->asked + 1) % count;
}

/* All payloads of the delivery are here. */
static int pop_finish(seriatim_client *c, pop_state *p, srt_queue *queue)
{
    seriatim_claimed *job = &p->result.job;
    srt_pop_token token;
    p->result.more = p->record.count < p->total;
    token = pop_token(p, queue);
    job->payloads = p->record.payloads;
    job->payload_count = job->payload_total = p->record.count;
    if (p->ttr_us)
        p->result.token = srt_pop_token_write(&p->memory, &token);
    if (p->ttr_us && !p->result.token.data)
        return srt_operator_nomem(c);
    p->found = 1;
    pop_pass(p, queue);
    if (p->weights)
        srt_turns_take(c->turns, p->turns, p->weights, p->queue_count, p->at);
    return SERIATIM_OK;
}

/* With ttr 0 the run has ended: there is nothing more to read. */
static int pop_take(seriatim_client *c, pop_state *p, srt_queue *queue, const srt_token *at)
{
    int status = pop_read(c, p, at), full = status == SERIATIM_OK && pop_limit(p, 0);
    if (status != SERIATIM_OK)
        return pop_fail(c, status, "pop");
    return p->record.count < p->total && !full && p->ttr_us ? pop_ask_slice(c, p, queue) : pop_finish(c, p, queue);
}

static int pop_take_slice(seriatim_client *c, pop_state *p, srt_queue *queue, const srt_reply *reply)
{
    const srt_token *entries = &reply->tokens[1];
    size_t before = p->record.count;
    char *data;
    int status;
    if (reply->count < 3 || entries->type != SRT_STRING)
        return srt_operator_protocol(c, "slice");
    data = srt_arena_copy(&p->memory, entries->data, entries->len);
    status = data ? srt_record_add(&p->record, &p->memory, data, entries->len) : SERIATIM_NOMEM;
    if (status != SERIATIM_OK)
        return pop_fail(c, status, "slice");
    if (entries->len == 0)
        p->total = p->record.count; /* a failover or an eviction has lost the others */
    return !pop_limit(p, before) && p->record.count < p->total ? pop_ask_slice(c, p, queue) : pop_finish(c, p, queue);
}

/* Nothing is to be taken from this shard for `ms`: asks the next one. */
static int pop_go_on(seriatim_client *c, pop_state *p, const srt_queue *queue, int64_t ms)
{
    p->next_ms = least(p->next_ms, ms);
    p->again = 0;
    return ++p->asked < srt_queue_addressed(queue) ? pop_ask(c, p, queue) : pop_next_queue(c, p);
}

/*
 * Of a slice: the run ended before all its payloads were read, and the pop begins anew. A shard whose slot moves is
 * passed over. What is wrong with another one may last: the next pop must not begin with it again.
 */
static int pop_on_refused(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    pop_state *p = c->state;
    srt_queue *queue = c->registry.queues[c->queue];
    if (r->kind == POP_SLICE && error->status == SERIATIM_STALE)
        return pop_ask(c, p, queue);
    if (r->gave_up) {
        p->missed = 1;
        p->miss = *error;
        return pop_go_on(c, p, queue, POP_POLL_MS);
    }
    pop_pass(p, queue);
    c->error = *error;
    return srt_client_fail(c, error->status);
}

/* A shard that does not answer may not do so for long. */
static void pop_on_give_up(seriatim_client *c)
{
    pop_pass(c->state, c->registry.queues[c->queue]);
}

/*
 * The layout changed after this client had taken an id, or may have taken one: the answer was lost, or a slice was
 * refused. The pop of the same shard is repeated with the same number, so it gives that id. With another number, or
 * from another shard, the next id would come, and the first one would fail when its time is over.
 */
static int pop_on_stale(seriatim_client *c, srt_request *r, int left)
{
    pop_state *p = c->state;
    p->repeat |= left || r->kind == POP_SLICE;
    return SERIATIM_OK;
}

static int pop_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    pop_state *p = c->state;
    srt_queue *queue = c->registry.queues[c->queue];
    const srt_token *at = &reply->tokens[1];
    int64_t next;
    int was_repeated = p->repeat;
    if (r->kind == POP_SLICE)
        return pop_take_slice(c, p, queue, reply);
    p->repeat = 0;
    if (!srt_reply_is_list(reply, 2))
        return srt_operator_protocol(c, "pop");
    if (reply->count == 8)
        return pop_take(c, p, queue, at);
    if (was_repeated) { /* the numbers of shards may be others than before: from the first one on */
        p->asked = p->again = 0;
        return pop_ask(c, p, queue);
    }
    next = srt_token_int(&at[1]);
    if (next == 0 && ++p->again < POP_AGAIN)
        return pop_ask(c, p, queue);
    next = next == 0 ? POP_POLL_MS : next >= SRT_FOREVER ? INT64_MAX : (next - srt_token_int(&at[0]) + 999) / 1000;
    return pop_go_on(c, p, queue, next);
}

/* ---- The public part ----------------------------------------------------------------------- */

static int pop_check(seriatim_client *c, const seriatim_pop *pop)
{
    size_t i;
    if (srt_client_check_identity(c) != SERIATIM_OK)
        return SERIATIM_INVALID;
    if (pop->queue_count < 1 || pop->queue_count > 1000 || !pop->queues)
        return srt_fail(&c->error, SERIATIM_INVALID, "a pop takes 1 to 1000 queues");
    if (!(pop->wait >= 0 && pop->wait <= POP_LONGEST_WAIT))
        return srt_fail(&c->error, SERIATIM_INVALID, "wait must be 0 to 60 seconds");
    if (pop->ttr != 0 && !(pop->ttr >= 0.001 && pop->ttr <= POP_LONGEST_RUN))
        return srt_fail(&c->error, SERIATIM_INVALID, "ttr must be 0, or 0.001 to 31536000 seconds");
    if (pop->max < 1 || pop->max > POP_MOST)
        return srt_fail(&c->error, SERIATIM_INVALID, "max must be 1 to 1000 payloads");
    for (i = 0; i < pop->queue_count; i++) {
        if (!srt_client_queue_at(c, pop->queues[i]))
            return SERIATIM_INVALID;
        if (pop->weights && (pop->weights[i] < 1 || pop->weights[i] > 1000000))
            return srt_fail(&c->error, SERIATIM_INVALID, "a weight must be 1 to 1000000");
    }
    return SERIATIM_OK;
}

/* With weights: puts the queues in the order of their turns. OK or NOMEM. */
static int pop_order(seriatim_client *c, pop_state *p)
{
    size_t i;
    p->turns = srt_arena_alloc(&p->args, p->queue_count * sizeof(srt_turn *));
    if (!c->turns)
        c->turns = c->own_turns = seriatim_turns_new(c->mem);
    if (!p->turns || !c->turns)
        return SERIATIM_NOMEM;
    for (i = 0; i < p->queue_count; i++)
        if (!(p->turns[i] = srt_turns_find(c->turns, srt_client_queue_at(c, p->queues[i]))))
            return SERIATIM_NOMEM;
    srt_turns_sort(c->turns, p->queues, p->turns, p->weights, p->queue_count);
    return SERIATIM_OK;
}

static int pop_keep(seriatim_client *c, pop_state *p, const seriatim_pop *pop)
{
    srt_arena_init(&p->args, c->mem);
    srt_arena_init(&p->memory, c->mem);
    p->queue_count = pop->queue_count;
    p->queues = srt_arena_alloc(&p->args, pop->queue_count * sizeof *p->queues);
    p->weights = pop->weights ? srt_arena_alloc(&p->args, pop->queue_count * sizeof *p->weights) : NULL;
    if (!p->queues || (pop->weights && !p->weights))
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    memcpy(p->queues, pop->queues, pop->queue_count * sizeof *p->queues);
    if (pop->weights)
        memcpy(p->weights, pop->weights, pop->queue_count * sizeof *p->weights);
    p->wait_ms = (int64_t)(pop->wait * 1000 + 0.5); /* 0.3 - 0.02 is a little less than 0.28 */
    p->ttr_us = (int64_t)(pop->ttr * 1e6 + 0.5);
    p->most = pop->max;
    p->next_ms = INT64_MAX;
    p->missed_ms = -1;
    return !p->weights || pop_order(c, p) == SERIATIM_OK ? SERIATIM_OK : srt_fail_plain(&c->error, SERIATIM_NOMEM);
}

void seriatim_client_share_turns(seriatim_client *c, seriatim_turns *turns)
{
    c->turns = turns;
}

int srt_pop_begin(seriatim_client *c, const seriatim_pop *pop, int host_waits)
{
    static const srt_operation operation = {.rereads = 1,
                                            .send = pop_send,
                                            .on_reply = pop_on_reply,
                                            .on_refused = pop_on_refused,
                                            .on_stale = pop_on_stale,
                                            .on_awake = pop_on_awake,
                                            .on_give_up = pop_on_give_up,
                                            .release = pop_release};
    int status = srt_client_begin(c);
    if (status == SERIATIM_OK)
        status = pop_check(c, pop);
    if (status != SERIATIM_OK)
        return status;
    c->state = srt_operator_state(c, sizeof(pop_state));
    if (!c->state)
        return SERIATIM_NOMEM;
    status = pop_keep(c, c->state, pop);
    if (status != SERIATIM_OK) {
        pop_release(c);
        c->state = NULL;
        return status;
    }
    ((pop_state *)c->state)->host_waits = host_waits;
    return srt_client_start(c, &operation, ((pop_state *)c->state)->queues[0]);
}

int seriatim_pop_begin(seriatim_client *c, const seriatim_pop *pop)
{
    return srt_pop_begin(c, pop, 0);
}

const seriatim_error *srt_pop_miss(const seriatim_client *c)
{
    const pop_state *p = c->state;
    return p->missed ? &p->miss : NULL;
}

int srt_client_channels(const seriatim_client *c, srt_bytes *names)
{
    const pop_state *p = c->state;
    size_t i;
    unsigned shard;
    if (srt_client_sleeps(c) < 0 || c->operation->send != pop_send) /* others rest while ids move */
        return SERIATIM_OK;
    for (i = 0; i < p->queue_count; i++) {
        const srt_queue *queue = c->registry.queues[p->queues[i]];
        for (shard = 0; shard < srt_queue_addressed(queue); shard++) {
            srt_listener_name(names, queue->shards[shard]);
            srt_bytes_add(names, "", 1);
        }
    }
    return names->failed ? SERIATIM_NOMEM : SERIATIM_OK;
}

const seriatim_popped *seriatim_pop_result(const seriatim_client *c)
{
    const pop_state *p = c->state;
    return c->operation && c->operation->send == pop_send && c->status == SERIATIM_OK && p->found ? &p->result : NULL;
}
