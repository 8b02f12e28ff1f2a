/* push.c - a push: begun, given jobs and options, and sent in chunks that are safe to repeat. */
#include "client/push.h"

#include <string.h>

#include "model/stored.h"

#define PUSH_MAX_REPLICAS 1000
#define PUSH_LIMIT_MS 10000
#define PUSH_MAX_LIMIT 50.0 /* seconds: less than the 60 for which a shard remembers a push */
#define PUSH_MAX_WAIT 10.0  /* seconds: less than the silence after which a connection counts as dead */

/* ---- Jobs and options ------------------------------------------------------------------------ */

void srt_push_default_options(srt_push *p)
{
    p->replicas = p->wait_ms = 0;
    p->limit_ms = PUSH_LIMIT_MS;
}

void srt_push_open(seriatim_client *c)
{
    srt_push *p = c->push;
    if (!p->arena.mem)
        srt_push_init(c);
    srt_push_forget_jobs(c);
    memset(&p->counts, 0, sizeof p->counts);
    p->pending_chunks = p->written_chunks = p->failed_chunks = p->pending_jobs = p->failed_jobs = 0;
    p->may_refuse = p->has_options = p->wants_handles = 0;
    p->handles = NULL;
    p->handle_count = 0;
    p->outcomes = NULL;
    p->first = p->flying = p->elsewhere = 0;
    srt_arena_reset(&p->handle_arena);
    p->outbox[0] = '\0';
    p->low = p->number = 0;
    srt_push_default_options(p);
    p->generation = 0;
    p->floor = 0;
    p->asks = p->asked = p->again = p->moved = 0;
    p->absences = 0;
    p->unanswered = p->unsure = p->sure_chunks = 0;
    memset(&p->sure, 0, sizeof p->sure);
    srt_error_clear(&p->failure);
    srt_error_clear(&p->shortage);
    srt_push_forget_marks(c); /* a push that failed or was given up leaves its own */
    p->open = 1;
}

int seriatim_push_begin(seriatim_client *c, size_t queue)
{
    int status = srt_client_begin(c);
    if (status != SERIATIM_OK)
        return status;
    srt_push_open(c);
    c->queue = queue;
    if (srt_client_queue_at(c, queue))
        return SERIATIM_OK;
    c->push->open = 0;
    return SERIATIM_INVALID;
}

/* A push that was not begun, or that cannot be sent any more. */
static int push_check_open(seriatim_client *c)
{
    if (!c->push->open)
        return srt_fail(&c->error, SERIATIM_INVALID, "no push was begun");
    if (c->push->failure.status != SERIATIM_OK)
        c->error = c->push->failure;
    return c->push->failure.status;
}

int seriatim_push_want_handles(seriatim_client *c)
{
    int status = push_check_open(c);
    if (status == SERIATIM_OK)
        c->push->wants_handles = !c->push->outbox[0];
    return status;
}

int seriatim_push_job(seriatim_client *c, const seriatim_job *job)
{
    int status = push_check_open(c);
    if (status != SERIATIM_OK)
        return status;
    status = srt_push_check(c, job, (unsigned long)(c->push->job_count - c->push->first));
    if (status == SERIATIM_OK)
        status = srt_push_add(c, job);
    if (status != SERIATIM_OK)
        c->push->failure = c->error;
    return status;
}

/* An option of the push was refused, as c->error says: it cannot be sent any more. */
static int push_refuse_option(seriatim_client *c)
{
    c->push->failure = c->error;
    return c->error.status;
}

int seriatim_push_outbox(seriatim_client *c, const char *name)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    int status = push_check_open(c);
    size_t len = name ? strlen(name) : 0;
    if (status != SERIATIM_OK)
        return status;
    if (c->push != &c->single) {
        srt_fail(&c->error, SERIATIM_INVALID, "a pipeline has no outboxes");
        return push_refuse_option(c);
    }
    if (len == 0 || len > SRT_OUTBOX_NAME || strspn(name, allowed) != len) {
        srt_fail(&c->error, SERIATIM_INVALID, "the name of an outbox must be 1 to %d letters, digits, '-' or '_'",
                 SRT_OUTBOX_NAME);
        return push_refuse_option(c);
    }
    if (c->push->job_count > 0) {
        srt_fail(&c->error, SERIATIM_INVALID, "the outbox must be named before the first job");
        return push_refuse_option(c);
    }
    memcpy(c->push->outbox, name, len + 1);
    c->push->has_options = 1;
    c->push->wants_handles = 0;
    return SERIATIM_OK;
}

int seriatim_push_timeout(seriatim_client *c, double seconds)
{
    int status = push_check_open(c);
    if (status != SERIATIM_OK)
        return status;
    if (!(seconds >= 0.001 && seconds <= PUSH_MAX_LIMIT)) {
        srt_fail(&c->error, SERIATIM_INVALID, "push_timeout must be from 0.001 to %.0f seconds", PUSH_MAX_LIMIT);
        return push_refuse_option(c);
    }
    c->push->limit_ms = (int64_t)(seconds * 1000);
    return SERIATIM_OK;
}

int seriatim_push_replicas(seriatim_client *c, int64_t count, double timeout)
{
    int status = push_check_open(c);
    if (status != SERIATIM_OK)
        return status;
    if (count < 0 || count > PUSH_MAX_REPLICAS)
        status = srt_fail(&c->error, SERIATIM_INVALID, "wait_replicas must be from 0 to %d, not %lld",
                          PUSH_MAX_REPLICAS, (long long)count);
    else if (!(timeout >= 0.001 && timeout <= PUSH_MAX_WAIT))
        status =
            srt_fail(&c->error, SERIATIM_INVALID, "wait_timeout must be from 0.001 to %.0f seconds", PUSH_MAX_WAIT);
    if (status != SERIATIM_OK)
        return push_refuse_option(c);
    c->push->replicas = count;
    c->push->wait_ms = (int64_t)(timeout * 1000);
    return SERIATIM_OK;
}

seriatim_push_counts seriatim_push_result(const seriatim_client *c)
{
    return c->push->counts;
}

const size_t *seriatim_push_refused(const seriatim_client *c, size_t *count)
{
    *count = c->push->counts.refused;
    return c->push->refused;
}

/* ---- The operation --------------------------------------------------------------------------- */

static void push_note_answer(srt_push *p, const srt_request *r)
{
    p->unanswered -= r->kind != PUSH_KIND_WAIT && r->kind != PUSH_KIND_ABSENCE;
}

void srt_push_take_answer(seriatim_client *c, const srt_request *r, const srt_reply *reply)
{
    const srt_token *root = &reply->tokens[0];
    push_note_answer(c->push, r);
    if (r->kind == PUSH_KIND_TOKEN)
        srt_push_take_token(c, r, root);
    else if (r->kind == PUSH_KIND_ABSENCE)
        srt_push_take_absence(c, r, reply);
    else if (root->type != (r->kind == PUSH_KIND_WAIT ? SRT_INTEGER : SRT_STRING))
        srt_client_fail(c, srt_push_fail_answer(c, "no text"));
    else if (r->kind == PUSH_KIND_WAIT)
        srt_push_take_replicas(c, r, root->integer);
    else if (r->kind == PUSH_KIND_ASK)
        srt_push_take_asked(c, r->place, root);
    else
        srt_push_take_written(c, r, root->data, root->len);
}

void srt_push_take_refusal(seriatim_client *c, const srt_request *r, const seriatim_error *error)
{
    srt_push *p = c->push;
    push_note_answer(p, r);
    if (r->kind == PUSH_KIND_TOKEN) {
        if (c->failed == SERIATIM_OK)
            srt_fail(&c->error, SERIATIM_UNKNOWN_OUTCOME, "outcome unknown: %.200s", error->message);
        srt_client_fail(c, SERIATIM_UNKNOWN_OUTCOME);
        return;
    }
    if (r->kind == PUSH_KIND_ABSENCE) { /* an ACL refuses it */
        srt_push_take_absence(c, r, NULL);
        return;
    }
    if (r->kind == PUSH_KIND_WAIT) {
        if (srt_push_take_replicas(c, r, 0))
            srt_fail(&p->shortage, SERIATIM_REPLICAS, "the push is written, and WAIT was refused: %.180s",
                     error->message);
        return;
    }
    if (p->failed_chunks++ == 0)
        p->failure = *error;
    if (p->outbox[0]) {      /* a later job must not be written before this one: they may be of one id */
        p->pending_chunks--; /* it counts as failed; its jobs stay pending */
        if (c->failed == SERIATIM_OK)
            c->error = *error;
        srt_client_fail(c, error->status);
        return;
    }
    srt_push_mark(p, &p->chunks[r->place], SERIATIM_JOB_UNWRITTEN);
    p->chunks[r->place].taken = p->chunks[r->place].count;
    p->failed_jobs += p->chunks[r->place].count;
    srt_push_settle_chunk(p, &p->chunks[r->place]);
    srt_push_go_on(c, r->place);
}

static void push_ask_token(seriatim_client *c, size_t chunk, const char *command, const char *milliseconds)
{
    const srt_queue *queue = c->registry.queues[c->queue];
    srt_request *ask = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_none, NULL, 0);
    if (!ask) {
        srt_client_fail(c, srt_fail_plain(&c->error, SERIATIM_NOMEM));
        return;
    }
    srt_request_text(ask, command);
    srt_push_token_arg(c, queue, c->push->chunks[chunk].shard, ask);
    if (milliseconds)
        srt_request_text(ask, milliseconds);
    srt_push_ask(c, ask, PUSH_KIND_TOKEN, chunk);
}

/*
 * Was an earlier sending of it applied, before the layout changed? Its token tells. The token is renewed behind that,
 * because WAIT tells only of what its own connection has written. If the connection ends between the two, the chunk is
 * sent again.
 */
void srt_push_take_stale(seriatim_client *c, const srt_request *r, int left)
{
    push_note_answer(c->push, r);
    if (r->kind == PUSH_KIND_ASK || !left || c->failed != SERIATIM_OK)
        return;
    push_ask_token(c, r->place, "GET", NULL);
    if (c->push->replicas && c->failed == SERIATIM_OK)
        push_ask_token(c, r->place, "PEXPIRE", SRT_PUSH_TOKEN_MS);
}

int srt_push_follow(seriatim_client *c)
{
    if (!srt_push_follow_moved(c) || c->stale)
        return 0;
    if (c->pause_ms > 0)
        return 1;
    srt_push_send(c, c->registry.queues[c->queue]); /* a shard of another layout refuses it */
    return 0;
}

static void push_follow(seriatim_client *c)
{
    if (srt_push_follow(c)) {
        c->stale = 1;
        c->stale_generation = 0;
    }
}

/* After an answer: asks for replicas; jobs whose ids have moved are planned anew. */
static int push_go_on(seriatim_client *c)
{
    int status = srt_push_ask_replicas(c);
    push_follow(c);
    return status;
}

static int push_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    srt_push_take_answer(c, r, reply);
    return push_go_on(c);
}

static int push_on_refused(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    srt_push_take_refusal(c, r, error);
    return push_go_on(c);
}

static int push_on_stale(seriatim_client *c, srt_request *r, int left)
{
    srt_push_take_stale(c, r, left);
    return push_go_on(c);
}

static void push_on_disconnected(seriatim_client *c)
{
    srt_push_on_disconnected(c);
    srt_push_forget_lost(c);
    push_follow(c);
}

int srt_push_seal(seriatim_client *c)
{
    int status = push_check_open(c);
    if (status == SERIATIM_OK && c->push != &c->single)
        status = srt_fail(&c->error, SERIATIM_INVALID, "the pushes of a pipeline are sent by seriatim_pipeline_send");
    if (status == SERIATIM_OK)
        status = srt_client_check_identity(c);
    c->push->open = 0;
    return status;
}

int seriatim_push_send(seriatim_client *c)
{
    static const srt_operation operation = {
        .creates = 1,
        .rereads = 1,
        .warns = 1,
        .limited = 1,
        .every_answer = 1,
        .send = srt_push_send,
        .on_reply = push_on_reply,
        .on_refused = push_on_refused,
        .on_stale = push_on_stale,
        .on_end = srt_push_on_end,
        .on_disconnected = push_on_disconnected,
        .on_give_up = srt_push_on_give_up,
    };
    int status = srt_client_check_idle(c);
    if (status != SERIATIM_OK)
        return status;
    status = srt_push_seal(c);
    if (status != SERIATIM_OK) {
        c->status = status;
        return status;
    }
    if (c->push->job_count == 0)
        return SERIATIM_OK;
    c->push->pending_jobs = c->push->job_count;
    return srt_client_start(c, &operation, c->queue);
}
