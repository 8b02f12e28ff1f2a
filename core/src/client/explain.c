/* explain.c - why an id is or is not running. */
#include "base/json.h"
#include "client/operator.h"
#include "model/event.h"

#include <stdio.h>
#include <string.h>

enum { EXPLAIN_ID, EXPLAIN_NODES };
enum { EXPLAIN_STAYS, EXPLAIN_LEAVES, EXPLAIN_IN_BATCH }; /* as explain.lua says it */

typedef struct explain_state {
    srt_arena args, memory;
    const srt_queue *queue; /* borrowed */
    const char *id;
    size_t len;
    unsigned shard;           /* that is asked */
    unsigned next;            /* to which the id moves; the same if it does not */
    int leaves;               /* EXPLAIN_LEAVES and so on */
    int runs, parks, deletes; /* the flags of the run */
    char mode;                /* of the run */
    double ends;              /* Unix time in seconds at which its time is over; 0: it has no end */
    seriatim_explanation result;
    const seriatim_history_entry *earlier; /* the history in the shard that was asked before */
    size_t earlier_count;
    char text[768];
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
    memset(&e->result, 0, sizeof e->result);
    explain_blank(e, &e->result.job);
    explain_blank(e, &e->result.behind);
    explain_blank(e, &e->result.dead);
    e->result.owner = e->result.text = "";
    e->runs = e->parks = e->deletes = e->leaves = 0;
}

static int explain_ask(seriatim_client *c, explain_state *e, unsigned shard)
{
    srt_request *r = srt_client_shard_request(c, c->registry.queues[c->queue], shard, srt_script_explain);
    e->shard = shard;
    e->earlier = e->result.history;
    e->earlier_count = e->result.history_count;
    explain_reset(e);
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_arg(r, e->id, e->len);
    r->kind = EXPLAIN_ID;
    return srt_client_send(c, r);
}

static int explain_send(seriatim_client *c, srt_queue *queue)
{
    explain_state *e = c->state;
    e->queue = queue;
    e->shard = e->next = seriatim_shard_of(e->id, e->len, queue->shards_count);
    srt_arena_reset(&e->memory);
    explain_reset(e);
    if (queue->shards_count == 0)
        return SERIATIM_OK;
    return explain_ask(c, e, queue->old_count ? seriatim_shard_of(e->id, e->len, queue->old_count) : e->shard);
}

/* Is it neither here nor in a batch? What has left its shard lies in the next one. */
static int explain_is_elsewhere(const explain_state *e)
{
    const seriatim_explanation *x = &e->result;
    return e->shard != e->next && e->leaves != EXPLAIN_IN_BATCH && strcmp(x->job.state, "unknown") == 0 &&
           strcmp(x->dead.state, "unknown") == 0 && x->scheduled == 0 && !x->has_score;
}

static int explain_view(seriatim_client *c, explain_state *e, seriatim_record *view, const srt_token *head,
                        srt_part part, const srt_token *run)
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

/* Is an event in the list? Then its whole history has moved there. */
static int explain_has_event(const seriatim_history_entry *list, size_t count, const seriatim_history_entry *event)
{
    size_t i;
    for (i = 0; i < count; i++)
        if (list[i].at == event->at && strcmp(list[i].text, event->text) == 0)
            return 1;
    return 0;
}

/*
 * What happened to the id: the `count` tokens at `at`. A history moves after the rest of its id, so before it comes
 * what the first shard had, unless that has moved between both questions.
 */
static int explain_history(seriatim_client *c, explain_state *e, const srt_token *at, size_t count)
{
    seriatim_history_entry *entries, *later;
    size_t i, earlier = e->earlier_count;
    int status = SERIATIM_OK;
    if (earlier + count == 0)
        return SERIATIM_OK;
    entries = srt_arena_alloc(&e->memory, (earlier + count) * sizeof *entries);
    if (!entries)
        return srt_operator_nomem(c);
    if (earlier)
        memcpy(entries, e->earlier, earlier * sizeof *entries);
    later = entries + earlier;
    for (i = 0; i < count && status == SERIATIM_OK; i++) {
        char *data = srt_arena_copy(&e->memory, at[i].data, at[i].len);
        status = data ? srt_event_read(&later[i], &e->memory, data, at[i].len) : SERIATIM_NOMEM;
    }
    if (status != SERIATIM_OK)
        return srt_operator_nomem(c);
    if (earlier && explain_has_event(later, count, &later[-1]))
        earlier = 0;
    if (earlier + count > SRT_HISTORY_MOST)
        earlier = SRT_HISTORY_MOST - count;
    e->result.history = later - earlier;
    e->result.history_count = earlier + count;
    return SERIATIM_OK;
}

/* A score that is still remembered: score and end, <dd. */
static void explain_take_score(seriatim_explanation *x, const srt_token *text)
{
    if (text->len != 16)
        return;
    x->score = srt_little_double(text->data);
    x->score_until = srt_little_double(text->data + 8) / 1e6;
    x->has_score = x->score_until > x->now;
}

static int explain_on_id(seriatim_client *c, explain_state *e, const srt_reply *reply)
{
    const srt_token *at = &reply->tokens[1], *run = &at[5];
    seriatim_explanation *x = &e->result;
    int status;
    if (!srt_reply_is_list(reply, 14) || reply->count > 15 + SRT_HISTORY_MOST)
        return srt_operator_protocol(c, "explain");
    x->now = srt_operator_seconds(&at[0]);
    x->paused = srt_token_int(&at[1]) != 0;
    x->lease = srt_token_int(&at[2]);
    x->fence = srt_token_int(&at[3]);
    x->owner = srt_arena_copy(&e->memory, at[4].data, at[4].len);
    if (!x->owner)
        return srt_operator_nomem(c);
    e->runs = run->len > 2;
    if (e->runs) {
        e->deletes = (run->data[0] & SRT_RUN_DELETED) != 0;
        e->parks = (run->data[0] & SRT_RUN_TO_PARK) != 0;
        e->mode = run->data[1];
        e->ends = at[6].len ? srt_operator_seconds(&at[6]) : 0;
    }
    x->scheduled = srt_token_int(&at[10]);
    x->deliver_at = at[11].len ? srt_operator_seconds(&at[11]) : 0;
    explain_take_score(x, &at[12]);
    e->leaves = (int)srt_token_int(&at[13]);
    x->behind.behind = 1;
    status = explain_view(c, e, &x->job, &at[7], e->runs ? SRT_PART_RUNNING : SRT_PART_WAITING, run);
    if (status == SERIATIM_OK)
        status = explain_view(c, e, &x->behind, &at[8], SRT_PART_WAITING, NULL);
    if (status == SERIATIM_OK)
        status = explain_view(c, e, &x->dead, &at[9], SRT_PART_DEAD, NULL);
    if (status == SERIATIM_OK)
        status = explain_history(c, e, &at[14], reply->count - 15);
    if (status == SERIATIM_OK && explain_is_elsewhere(e))
        return explain_ask(c, e, e->next);
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

/* Appends to the sentence, which is cut at the end of its buffer. */
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
    snprintf(text, sizeof text, "%s%lld.%lld s%s", left > 0 ? "in " : "", tenths / 10, tenths % 10,
             left > 0 ? "" : " ago");
    explain_say(e, before, text, "");
}

/*
 * A Unix time as "2026-11-23 04:00:00 UTC". The years are counted from March on, so that a leap day is the last of its
 * year.
 */
static void explain_say_moment(explain_state *e, const char *before, double when)
{
    long long seconds = (long long)when, days = seconds / 86400 + 719468,
              of_day = seconds % 86400; /* days since 0000-03-01 */
    long long era = days / 146097, day = days % 146097;
    long long year = (day - day / 1460 + day / 36524 - day / 146096) / 365, month;
    char text[64];
    day -= 365 * year + year / 4 - year / 100;
    month = (5 * day + 2) / 153;
    day -= (153 * month + 2) / 5;
    snprintf(text, sizeof text, "%04lld-%02lld-%02lld %02lld:%02lld:%02lld UTC", era * 400 + year + (month >= 10),
             month < 10 ? month + 3 : month - 9, day + 1, of_day / 3600, of_day / 60 % 60, of_day % 60);
    explain_say(e, before, text, "");
}

static void explain_say_failures(explain_state *e, int64_t count)
{
    char text[32];
    snprintf(text, sizeof text, "%lld times; ", (long long)count);
    explain_say(e, "it failed ", count == 1 ? "once; " : text, "");
}

/* Appends which node would run the id. */
static void explain_say_owner(explain_state *e)
{
    const seriatim_explanation *x = &e->result;
    if (!*x->owner)
        explain_say(e,
                    x->known ? "; no node owns its shard" : "; no server knows this queue, so no node owns its shard",
                    "", "");
    else if (!x->owner_alive)
        explain_say(e, "; node ", x->owner,
                    ", which owns its shard, has no heartbeat, and another will take the shard");
    else
        explain_say(e, "; node ", x->owner, " owns its shard");
}

/* The payloads whose deliver_at has not come, or that no claim has moved yet. */
static void explain_scheduled(explain_state *e, const char *before)
{
    const seriatim_explanation *x = &e->result;
    char count[32];
    snprintf(count, sizeof count, "%lld", (long long)x->scheduled);
    explain_say(e, before, count, x->scheduled == 1 ? " scheduled payload" : " scheduled payloads");
    if (x->deliver_at > x->now) {
        explain_say_moment(e, ": the next payload arrives at ", x->deliver_at);
        explain_say_time(e, ", ", x->deliver_at);
    } else {
        explain_say_time(e, ": the next payload is to arrive with the next claim of its shard, its time came ",
                         x->deliver_at);
    }
}

/* Its run has ended, and nobody has it. */
static void explain_unite(explain_state *e)
{
    explain_say(
        e,
        "its run has ended, and many payloads came meanwhile: a server or a pop is to unite them before its next run",
        "", "");
    explain_say_owner(e);
    if (e->deletes)
        explain_say(e, "; what ran was deleted and will not come back", "", "");
    if (e->parks)
        explain_say(e, "; it will be parked then", "", "");
}

static void explain_run(explain_state *e)
{
    if (e->mode == SRT_RUN_POPPED)
        explain_say(e, "it was popped and is not acknowledged yet", "", "");
    else
        explain_say(e, "it runs, or is claimed to run", *e->result.owner ? " on node " : "", e->result.owner);
    if (e->mode == SRT_RUN_POPPED && e->ends > 0)
        explain_say_time(e, ": if it is not, it has failed ", e->ends);
    else if (e->mode != SRT_RUN_POPPED && *e->result.owner && !e->result.owner_alive)
        explain_say(e, ", which has no heartbeat: when another takes the shard, it comes back", "", "");
    if (e->mode == SRT_RUN_DIED)
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
        explain_say(e, "its process died twice: it runs alone in a process; ", "", "");
    else if (strcmp(job->state, "unproven") == 0)
        explain_say(e, "its process died: it is claimed alone; ", "", "");
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

static void explain_say_score(explain_state *e)
{
    char score[SRT_JSON_DOUBLE_SIZE];
    score[srt_json_double_text(e->result.score, score)] = '\0';
    explain_say(e, "; jobs whose score is not above ", score, " are refused; that ends ");
    explain_say_time(e, "", e->result.score_until);
}

/* That it changes its shard, because the queue is given another number of them. */
static void explain_say_move(explain_state *e)
{
    char text[80];
    snprintf(text, sizeof text, "from shard %u to shard %u", e->shard, e->next);
    if (e->leaves == EXPLAIN_IN_BATCH)
        explain_say(e, "it is on its way ", text, ", in a batch of a server that moves ids");
    else
        explain_say(e,
                    !e->runs                     ? "; a server is to move it "
                    : e->mode == SRT_RUN_UNITING ? "; then it moves "
                                                 : "; when its run has ended it moves ",
                    text, "");
}

static int explain_on_end(seriatim_client *c, int failed)
{
    explain_state *e = c->state;
    e->text[0] = '\0';
    if (e->runs && e->mode == SRT_RUN_UNITING)
        explain_unite(e);
    else if (e->runs)
        explain_run(e);
    else if (strcmp(e->result.job.state, "unknown") != 0)
        explain_wait(e);
    else if (e->leaves == EXPLAIN_IN_BATCH)
        explain_say_move(e);
    else if (e->result.scheduled == 0)
        explain_say(e, "nothing waits or runs under this id", e->result.known ? "" : "; no server knows this queue",
                    "");
    if (e->result.scheduled)
        explain_scheduled(e, e->text[0] ? "; it has " : "nothing waits or runs under this id, it has ");
    if (e->result.scheduled && !e->runs && strcmp(e->result.job.state, "unknown") == 0)
        explain_say_owner(e);
    if (strcmp(e->result.dead.state, "unknown") != 0)
        explain_say_time(e, "; dead payloads of it lie in the morgue, its last death was ", e->result.dead.updated_at);
    if (e->result.has_score)
        explain_say_score(e);
    if (e->leaves == EXPLAIN_LEAVES && !explain_is_elsewhere(e))
        explain_say_move(e);
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
    int status = srt_operator_begin(c, sizeof *e);
    if (status != SERIATIM_OK)
        return status;
    e = c->state;
    srt_arena_init(&e->args, c->mem);
    srt_arena_init(&e->memory, c->mem);
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
