/* action.c - the actions of operators on a queue: on chosen ids, or on all ids in slices. */
#include "client/operator.h"
#include "seriatim/binding/names.h"

#include <string.h>

/* How an action's script is called and answers. */
typedef enum action_form {
    ACTION_SHARD,  /* once a shard: an integer; again if the layout is another one behind that */
    ACTION_IDS,    /* with ids: an integer */
    ACTION_ALL,    /* {began, cursor, changed}, again until the cursor is '' */
    ACTION_MORE,   /* the same, with ids, which are given again until the cursor is '' */
    ACTION_NAMED,  /* one payload: find tells its key, drop takes it */
    ACTION_RECORD, /* an id and a record: an integer */
    ACTION_HANDLE, /* one payload, by its handle: handle.c */
    ACTION_QUEUE,  /* the queue itself: delete.c */
    ACTION_SHARDS  /* its number of shards: reshard.c */
} action_form;

static const struct {
    int script;
    action_form form;
} action_table[] = {
    [SERIATIM_PERFORM_ALL_JOBS_NOW] = {srt_script_perform_now, ACTION_ALL},
    [SERIATIM_KILL_ALL_FAILED_JOBS] = {srt_script_kill_failed, ACTION_ALL},
    [SERIATIM_DELETE_ALL_FAILED_JOBS] = {srt_script_delete_failed, ACTION_ALL},
    [SERIATIM_MORGUE_QUEUE_UP_ALL_JOBS] = {srt_script_dead_requeue, ACTION_ALL},
    [SERIATIM_MORGUE_DELETE_ALL_JOBS] = {srt_script_dead_delete, ACTION_ALL},
    [SERIATIM_PAUSE] = {srt_script_pause, ACTION_SHARD},
    [SERIATIM_RESUME] = {srt_script_resume, ACTION_SHARD},
    [SERIATIM_DELETE] = {srt_script_delete, ACTION_MORE},
    [SERIATIM_MORGUE_QUEUE_UP] = {srt_script_dead_requeue, ACTION_MORE},
    [SERIATIM_MORGUE_DELETE] = {srt_script_dead_delete, ACTION_MORE},
    [SERIATIM_PARK] = {srt_script_park, ACTION_IDS},
    [SERIATIM_UNPARK] = {srt_script_unpark, ACTION_IDS},
    [SERIATIM_PERFORM_NOW] = {srt_script_perform_ids, ACTION_IDS},
    [SERIATIM_UNPARK_ALL] = {srt_script_unpark_all, ACTION_ALL},
    [SERIATIM_DROP_PAYLOAD] = {srt_script_drop, ACTION_NAMED},
    [SERIATIM_MORGUE_DROP_PAYLOAD] = {srt_script_drop, ACTION_NAMED},
    [SERIATIM_PERFORM_ALL_FAILED_JOBS_NOW] = {srt_script_perform_failed, ACTION_ALL},
    [SERIATIM_KILL] = {srt_script_kill_failed, ACTION_MORE},
    [SERIATIM_CANCEL] = {srt_script_cancel, ACTION_HANDLE},
    [SERIATIM_RESCHEDULE] = {srt_script_reschedule, ACTION_HANDLE},
    [SERIATIM_IMPORT] = {srt_script_import, ACTION_RECORD},
    [SERIATIM_DELETE_QUEUE] = {srt_script_none, ACTION_QUEUE},
    [SERIATIM_RESHARD] = {srt_script_none, ACTION_SHARDS},
};

/*
 * Calls of one action that Redis has at once. It runs all calls that have come over a connection before it reads from
 * the next one, and a call may take 10 ms: with one for each shard, the requests of others would wait for all shards.
 * The second one is run while the answer to the first is on its way.
 */
#define ACTION_AHEAD 2

int srt_action_takes_ids(int kind)
{
    return action_table[kind].form == ACTION_IDS || action_table[kind].form == ACTION_MORE;
}

int srt_action_is_whole(int kind)
{
    return action_table[kind].form == ACTION_ALL;
}

typedef struct action_state {
    int kind;
    int is_slice;
    int walks;              /* a slice, or an action on all ids that began before the last move of ids has ended */
    unsigned calls, looks;  /* of a slice: calls for ids, and looks at open batches */
    srt_action_place place; /* of a walk: where it goes on; its texts lie in the two below. `bound` of every action on
                               all ids */
    srt_bytes began, cursor;
    srt_batches batches; /* of a walk: those that were open behind its first pass */
    int is_settled;      /* these have ended */
    srt_arena args;
    srt_target *targets;
    size_t count;
    size_t next;                /* the first shard, or the first of the targets, that no call was sent for yet */
    seriatim_text payload, key; /* of the one to drop; either may be empty. payload: also a record */
    srt_queue *queue;
    int64_t acted; /* ACTION_SHARD: the generation of the layout whose shards were called; 0: none */
    int64_t changed;
} action_state;

enum { ACTION_CALL, ACTION_BATCH }; /* kinds of requests */

static void action_release(seriatim_client *c)
{
    action_state *a = c->state;
    srt_arena_free(&a->args);
    srt_bytes_free(&a->began);
    srt_bytes_free(&a->cursor);
    srt_batches_free(&a->batches);
    srt_free(c->mem, a, sizeof *a);
}

/* began: the time that an earlier call answered, so that this one continues it; NULL: the action begins. */
static int action_ask_ids(seriatim_client *c, action_state *a, size_t first, size_t n, const srt_token *began)
{
    action_form form = action_table[a->kind].form;
    const srt_target *id = &a->targets[first];
    int place = form != ACTION_MORE ? 2 : a->kind == SERIATIM_KILL ? 6 : 5;
    srt_request *r = n == 1 ? srt_client_id_request(c, a->queue, id->id, id->len, action_table[a->kind].script, place)
                            : srt_client_shard_request(c, a->queue, id->shard, action_table[a->kind].script);
    size_t i;
    if (!r)
        return SERIATIM_NOMEM;
    if (form == ACTION_MORE) {
        if (began && a->kind == SERIATIM_DELETE)
            srt_request_arg(r, began->data, began->len);
        else
            srt_request_text(r, a->kind == SERIATIM_KILL ? "0" : "");
        srt_request_text(r, "");
        srt_request_text(r, a->queue->now.fold);
    }
    if (a->kind == SERIATIM_KILL)
        srt_request_int(r, a->queue->now.exhausted_hook);
    for (i = first; i < first + n; i++)
        srt_request_arg(r, a->targets[i].id, a->targets[i].len);
    r->place = first;
    r->part = n;
    return srt_client_send(c, r);
}

/*
 * 1: ids have changed their shards since the action began, or do so now. Then it begins in each shard at the time at
 * which it began in the first one, or it would act again on an id on which it has acted in another shard. Otherwise
 * each shard gives the time itself. The number of a layout is the time at which it was written.
 */
static int action_is_bound(const action_state *a)
{
    return a->place.bound > 0 && (a->queue->old_count > 0 || a->queue->generation > a->place.bound);
}

static int action_ask_shard(seriatim_client *c, action_state *a, unsigned shard, const srt_token *began,
                            const srt_token *cursor)
{
    srt_request *r = srt_client_shard_request(c, a->queue, shard, action_table[a->kind].script);
    if (!r)
        return SERIATIM_NOMEM;
    if (action_table[a->kind].form == ACTION_ALL) {
        if (began)
            srt_request_arg(r, began->data, began->len);
        else
            srt_request_int(r, action_is_bound(a) ? a->place.bound : 0);
        srt_request_arg(r, cursor ? cursor->data : "", cursor ? cursor->len : 0);
        srt_request_text(r, a->queue->now.fold);
    }
    if (a->kind == SERIATIM_KILL_ALL_FAILED_JOBS)
        srt_request_int(r, a->queue->now.exhausted_hook);
    r->place = shard;
    return srt_client_send(c, r);
}

/* ---- A walk: one call after another, in a slice as many as it has ----------------------------- */

static int action_keep(srt_bytes *kept, seriatim_text *text, const char *data, size_t len)
{
    srt_bytes_clear(kept);
    srt_bytes_add(kept, data, len);
    text->data = kept->data ? kept->data : "";
    text->len = kept->len;
    return kept->failed ? SERIATIM_NOMEM : SERIATIM_OK;
}

static int action_place_at(action_state *a, unsigned shard, const char *began, size_t began_len, const char *cursor,
                           size_t cursor_len)
{
    int status = action_keep(&a->began, &a->place.began, began, began_len);
    a->place.shard = shard;
    return status == SERIATIM_OK ? action_keep(&a->cursor, &a->place.cursor, cursor, cursor_len) : status;
}

/*
 * The shards that a walk comes to, each of them again while ids move: an id that leaves a shard before the walk comes
 * there may arrive in one that the walk has left, or be in a batch. It moves once, so it lies still in the second pass,
 * which begins when the batches have ended that were open behind the first.
 */
static unsigned action_steps(const action_state *a)
{
    return srt_queue_addressed(a->queue) * (a->queue->old_count ? 2 : 1);
}

/* Sends the next call of a walk, unless all shards are done or the slice has made all of its calls. */
static int action_walk(seriatim_client *c, action_state *a)
{
    srt_token began = {SRT_STRING, 0, a->place.began.data, a->place.began.len};
    srt_token cursor = {SRT_STRING, 0, a->place.cursor.data, a->place.cursor.len};
    unsigned addressed = srt_queue_addressed(a->queue);
    if (a->place.shard >= action_steps(a) || (a->is_slice && a->calls == SRT_ACTION_CALLS))
        return SERIATIM_OK;
    if (a->place.shard == addressed && began.len == 0 && !a->is_settled)
        return srt_batches_begin(c, &a->batches, a->queue, ACTION_BATCH);
    a->calls++;
    return action_ask_shard(c, a, a->place.shard % addressed, began.len ? &began : NULL, &cursor);
}

static int action_begin_walk(seriatim_client *c, action_state *a)
{
    if (a->place.generation != a->queue->generation && action_place_at(a, 0, "", 0, "", 0) != SERIATIM_OK)
        return srt_operator_nomem(c);
    a->place.generation = a->queue->generation;
    a->is_settled = 0;
    return action_walk(c, a);
}

/* root: {began, cursor, changed} */
static int action_walk_on(seriatim_client *c, action_state *a, const srt_token *root)
{
    int ends = root[2].len == 0;
    if (action_place_at(a, a->place.shard + (ends ? 1 : 0), root[1].data, ends ? 0 : root[1].len, root[2].data,
                        root[2].len) != SERIATIM_OK)
        return srt_operator_nomem(c);
    return action_walk(c, a);
}

static int action_on_batch(seriatim_client *c, action_state *a, const srt_request *r, const srt_token *sequence)
{
    if (!srt_batches_take(c, &a->batches, r, sequence))
        return SERIATIM_OK;
    a->is_settled = 1;
    return action_walk(c, a);
}

/* The second pass of a slice that has looked often enough is begun by the next slice; another action waits longer. */
static int action_on_awake(seriatim_client *c)
{
    action_state *a = c->state;
    if (a->is_slice && ++a->looks == SRT_BATCHES_LOOKS)
        return SERIATIM_OK;
    if (srt_batches_stay(c, &a->batches)) {
        c->waited_for_move = 1;
        return srt_client_fail(
            c, srt_fail(&c->error, SERIATIM_TIMEOUT,
                        "timed out: %lld ids are done, others are on their way to another shard, and the server that "
                        "moves them does not go on; start a server of the queue if none lives, and try again after its "
                        "lease_time",
                        (long long)a->changed));
    }
    return srt_batches_ask(c, &a->batches, a->queue, ACTION_BATCH);
}

int srt_action_slice_more(const seriatim_client *c, srt_action_place *place)
{
    const action_state *a = c->state;
    *place = a->place;
    return a->queue && a->place.shard < action_steps(a);
}

/* ---- All forms ------------------------------------------------------------------------------- */

/* Drops the payload with the key. Without a key it is looked for by its bytes, from where the last search ended. */
static int action_ask_named(seriatim_client *c, action_state *a, const char *key, size_t len, const srt_token *from)
{
    srt_request *r = srt_client_id_request(c, a->queue, a->targets[0].id, a->targets[0].len,
                                           len ? srt_script_drop : srt_script_find, 3);
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_text(r, a->kind == SERIATIM_DROP_PAYLOAD ? "waiting" : "dead");
    srt_request_arg(r, a->targets[0].id, a->targets[0].len);
    if (len) {
        srt_request_arg(r, key, len);
    } else {
        srt_request_arg(r, a->payload.data, a->payload.len);
        srt_request_arg(r, from ? from->data : "", from ? from->len : 0);
    }
    return srt_client_send(c, r);
}

static int action_ask_record(seriatim_client *c, action_state *a)
{
    srt_request *r = srt_client_id_request(c, a->queue, a->targets[0].id, a->targets[0].len, srt_script_import, 3);
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_text(r, a->queue->now.fold);
    srt_request_arg(r, a->targets[0].id, a->targets[0].len);
    srt_request_arg(r, a->payload.data, a->payload.len);
    return srt_client_send(c, r);
}

/*
 * The queue does not exist. That is an error also of pause: the first push would make the queue, and it would not be
 * paused; and of import: whoever hears that nothing failed removes what it has given.
 */
static int action_without_queue(seriatim_client *c, const srt_queue *queue, int kind)
{
    if (kind != SERIATIM_PAUSE && kind != SERIATIM_RESUME && kind != SERIATIM_IMPORT)
        return SERIATIM_OK;
    return srt_client_fail(c, srt_fail(&c->error, SERIATIM_INVALID,
                                       "there is no queue \"%.*s\" yet: its first push or server makes it",
                                       (int)(queue->name.len < 150 ? queue->name.len : 150), queue->name.data));
}

/* Are there shards, or targets, that no call was sent for yet? */
static int action_has_next(const action_state *a)
{
    int takes_ids = srt_action_takes_ids(a->kind);
    return !a->walks && a->next < (takes_ids ? a->count : srt_queue_addressed(a->queue));
}

/* Sends the first call for the next shard, or for the next targets. */
static int action_ask_next(seriatim_client *c, action_state *a)
{
    size_t first = a->next, n;
    if (!srt_action_takes_ids(a->kind)) {
        a->next++;
        return action_ask_shard(c, a, (unsigned)first, NULL, NULL);
    }
    n = srt_targets_chunk(a->queue, a->targets, a->count, first);
    a->next += n;
    return action_ask_ids(c, a, first, n, NULL);
}

static int action_send(seriatim_client *c, srt_queue *queue)
{
    action_state *a = c->state;
    action_form form = action_table[a->kind].form;
    int status = SERIATIM_OK, calls;
    a->queue = queue;
    a->next = 0;
    if (a->kind == SERIATIM_PARK)
        a->changed = 0; /* all ids are asked for, and one that was parked before counts as well */
    if (queue->shards_count == 0)
        return action_without_queue(c, queue, a->kind);
    if (form == ACTION_SHARD && a->acted == queue->generation)
        return SERIATIM_OK;
    a->acted = queue->generation;
    a->walks = a->is_slice || (form == ACTION_ALL && (queue->old_count || a->place.bound));
    if (a->walks)
        return action_begin_walk(c, a);
    a->count = srt_targets_route(a->targets, a->count, queue->shards_count);
    if (form == ACTION_NAMED)
        return action_ask_named(c, a, a->key.data, a->key.len, NULL);
    if (form == ACTION_RECORD)
        return action_ask_record(c, a);
    /* A call that pauses or resumes a shard is short, so all shards are called at once. */
    for (calls = 0; status == SERIATIM_OK && action_has_next(a) && (calls < ACTION_AHEAD || form == ACTION_SHARD);
         calls++)
        status = action_ask_next(c, a);
    return status;
}

/*
 * Behind the last answer the layout is read again. Whoever gives the queue more shards reads behind the new layout
 * whether it is paused; so an operator who still finds the old one was seen there.
 */
static void action_look_again(seriatim_client *c)
{
    if (c->asked > 1 || c->stale)
        return;
    c->stale = 1;
    c->stale_generation = 0;
}

static int action_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    action_state *a = c->state;
    action_form form = action_table[a->kind].form;
    const srt_token *root = &reply->tokens[0];
    if (r->kind == ACTION_BATCH)
        return action_on_batch(c, a, r, root);
    if (form == ACTION_SHARD || form == ACTION_IDS || form == ACTION_RECORD || r->script == srt_script_drop) {
        if (root->type != SRT_INTEGER)
            return srt_operator_protocol(c, "an action");
        a->changed += srt_token_int(root);
        if (form == ACTION_SHARD)
            action_look_again(c);
        return form == ACTION_IDS && action_has_next(a) ? action_ask_next(c, a) : SERIATIM_OK;
    }
    if (form == ACTION_NAMED) {
        if (!srt_reply_is_list(reply, 2))
            return srt_operator_protocol(c, "find");
        return root[1].len || root[2].len ? action_ask_named(c, a, root[1].data, root[1].len, &root[2]) : SERIATIM_OK;
    }
    if (!srt_reply_is_list(reply, 3))
        return srt_operator_protocol(c, "an action");
    a->changed += srt_token_int(&root[3]);
    if (form == ACTION_ALL && !a->place.bound)
        a->place.bound = srt_token_int(&root[1]);
    if (a->walks)
        return action_walk_on(c, a, root);
    if (form == ACTION_ALL && root[2].len > 0)
        return action_ask_shard(c, a, (unsigned)r->place, &root[1], &root[2]);
    if (form == ACTION_MORE && root[2].len > 0)
        return action_ask_ids(c, a, r->place, r->part, &root[1]);
    return action_has_next(a) ? action_ask_next(c, a) : SERIATIM_OK;
}

/* Copies the ids that the action is for. by_key: the text behind the id is a payload's key. */
static int action_take(seriatim_client *c, action_state *a, const seriatim_text *texts, size_t count, int by_key)
{
    action_form form = action_table[a->kind].form;
    int named = form == ACTION_NAMED || form == ACTION_RECORD, status = SERIATIM_OK;
    seriatim_text *given = by_key ? &a->key : &a->payload;
    if (count > 0 && (form == ACTION_SHARD || form == ACTION_ALL))
        return srt_fail(&c->error, SERIATIM_INVALID, "%s takes no texts, not %lu", seriatim_action_name(a->kind),
                        (unsigned long)count);
    if (named && (count != 2 || !texts))
        return srt_fail(&c->error, SERIATIM_INVALID,
                        form == ACTION_RECORD ? "an id and its record are to be given"
                                              : "an id and one of its payloads are to be given");
    if (named || srt_action_takes_ids(a->kind)) {
        a->count = named ? 1 : count;
        status = srt_targets_copy(c, &a->args, texts, a->count, &a->targets);
    }
    if (!named || status != SERIATIM_OK)
        return status;
    given->len = texts[1].data ? texts[1].len : 0;
    given->data = srt_arena_copy(&a->args, given->len ? texts[1].data : "", given->len);
    return given->data ? SERIATIM_OK : srt_fail_plain(&c->error, SERIATIM_NOMEM);
}

/* Only of actions whose work grows with the queue. */
static srt_done action_done(const seriatim_client *c)
{
    const action_state *a = c->state;
    srt_done done = {0, NULL};
    if (!srt_action_is_whole(a->kind))
        return done;
    done.count = a->changed;
    done.unit = "ids";
    return done;
}

static int action_begin(seriatim_client *c, size_t queue, int kind, const seriatim_text *texts, size_t count,
                        int by_key, const srt_action_place *from)
{
    static const srt_operation operation = {.fresh = 1,
                                            .send = action_send,
                                            .on_reply = action_on_reply,
                                            .on_awake = action_on_awake,
                                            .release = action_release,
                                            .done = action_done};
    action_state *a;
    int status = srt_client_begin(c);
    if (status != SERIATIM_OK)
        return status;
    if (kind < 0 || kind >= SERIATIM_ACTIONS_COUNT)
        return srt_fail(&c->error, SERIATIM_INVALID, "there is no action with the number %d", kind);
    if (action_table[kind].form == ACTION_QUEUE)
        return srt_delete_begin(c, queue, texts, count);
    if (action_table[kind].form == ACTION_SHARDS)
        return srt_reshard_begin(c, queue, texts, count);
    if (action_table[kind].form == ACTION_HANDLE)
        return srt_handle_begin(c, queue, action_table[kind].script, texts, count);
    a = srt_operator_state(c, sizeof *a);
    if (!a)
        return SERIATIM_NOMEM;
    a->kind = kind;
    srt_arena_init(&a->args, c->mem);
    srt_bytes_init(&a->began, c->mem);
    srt_bytes_init(&a->cursor, c->mem);
    a->batches.mem = c->mem;
    c->state = a;
    status = action_take(c, a, texts, count, by_key);
    if (status == SERIATIM_OK && from) {
        a->is_slice = 1;
        a->place.generation = from->generation;
        a->place.bound = from->bound;
        status =
            action_place_at(a, from->shard, from->began.data, from->began.len, from->cursor.data, from->cursor.len);
        if (status != SERIATIM_OK)
            srt_fail_plain(&c->error, status);
    }
    if (status != SERIATIM_OK) {
        action_release(c);
        c->state = NULL;
        return status;
    }
    return srt_client_start(c, &operation, queue);
}

int seriatim_action_begin(seriatim_client *c, size_t queue, int kind, const seriatim_text *texts, size_t count)
{
    return action_begin(c, queue, kind, texts, count, 0, NULL);
}

int srt_action_slice_begin(seriatim_client *c, size_t queue, int kind, const srt_action_place *from)
{
    return action_begin(c, queue, kind, NULL, 0, 0, from);
}

int srt_drop_begin(seriatim_client *c, size_t queue, int kind, seriatim_text id, seriatim_text key)
{
    seriatim_text texts[2];
    texts[0] = id;
    texts[1] = key;
    return action_begin(c, queue, kind, texts, 2, 1, NULL);
}

int64_t seriatim_action_result(const seriatim_client *c)
{
    if (c->operation && c->operation->send == action_send)
        return ((const action_state *)c->state)->changed;
    return srt_delete_result(c) + srt_handle_result(c) + srt_reshard_result(c);
}
