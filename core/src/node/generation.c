/*
 * generation.c - follows the layouts of the queues while the node runs. That a layout is another one is seen when it is
 * read again, said by a message, or told by a shard that refuses a request because of its generation.
 *
 * A newer layout is read, replicas must have it unless the user may not ask for that, and then the node adopts it. A
 * shard of an earlier generation is turned to it. If a failover has forgotten a layout that a shard or this node knows,
 * it is written back.
 */
#include "node/node_state.h"

#include <string.h>

#define FOLLOW_PAUSE_MS 200 /* until replicas are asked again, or memory is there */

enum { FOLLOW_NOTHING, FOLLOW_RAISE, FOLLOW_LOOK, FOLLOW_SURE, FOLLOW_ADOPT };

static void turn_all(srt_node *n, srt_queue *queue, int64_t now);

/* ---- Reading a layout ------------------------------------------------------------------------ */

static void follow_pause(srt_node *n, size_t worker, int step, int64_t now)
{
    srt_queue *queue = n->workers[worker];
    queue->follow.step = step;
    queue->follow.at = now + FOLLOW_PAUSE_MS;
    if (queue->follow.at < n->follow_at)
        n->follow_at = queue->follow.at;
}

static void follow_adopt(srt_node *n, size_t worker, int64_t now)
{
    srt_queue *queue = n->workers[worker];
    if (srt_node_adopt(n, worker, queue->follow.text, now) != SERIATIM_OK) {
        follow_pause(n, worker, FOLLOW_ADOPT, now);
        return;
    }
    queue->follow.step = FOLLOW_NOTHING;
    if (queue->ends)
        turn_all(n, queue, now);
    queue->ends = 0;
    if (queue->old_count)
        srt_node_tell(n, SERIATIM_EVENT_WARNING, queue->shards_count,
                      "queue \"%.*s\" is given %u shards instead of %u: its ids move", (int)queue->name.len,
                      queue->name.data, queue->shards_count, queue->old_count);
    else
        srt_node_tell(n, SERIATIM_EVENT_WARNING, queue->shards_count, "queue \"%.*s\" has %u shards now",
                      (int)queue->name.len, queue->name.data, queue->shards_count);
}

static void follow_sure(srt_node *n, size_t worker, srt_sure sure, int64_t now)
{
    if (sure == SRT_SURE || sure == SRT_SURE_REFUSED)
        follow_adopt(n, worker, now); /* turned shards write back what a failover forgets */
    else if (sure == SRT_SURE_LATER)
        follow_pause(n, worker, FOLLOW_SURE, now);
    else if (sure == SRT_SURE_LOST)
        follow_pause(n, worker, FOLLOW_LOOK, now);
    else
        n->workers[worker]->follow.step = FOLLOW_SURE;
}

static void follow_ask_replicas(srt_node *n, size_t worker, int64_t now)
{
    srt_request like;
    memset(&like, 0, sizeof like);
    like.kind = SRT_ASK_FOLLOW;
    like.place = worker;
    like.part = FOLLOW_SURE;
    follow_sure(n, worker, srt_sure_ask(n, &n->workers[worker]->follow.written, &like), now);
}

static srt_request *follow_request(srt_node *n, const srt_queue *queue, int step)
{
    srt_request *r;
    if (step == FOLLOW_LOOK)
        return srt_layout_request(&n->registry, srt_cluster_pool(&n->cluster), queue, SRT_LAYOUT_LOOK,
                                  queue->generation);
    r = srt_queue_request(&n->registry, srt_cluster_pool(&n->cluster), queue, srt_script_set_layout);
    if (r) {
        srt_request_text(r, "");
        srt_request_text(r, queue->follow.text);
    }
    return r;
}

static void follow_send(srt_node *n, size_t worker, int step, int64_t now)
{
    srt_queue *queue = n->workers[worker];
    srt_request *r = follow_request(n, queue, step);
    if (r) {
        r->kind = SRT_ASK_FOLLOW;
        r->place = worker;
        r->part = (size_t)step;
    }
    if (!r || srt_cluster_send(&n->cluster, r) != SERIATIM_OK) {
        follow_pause(n, worker, step, now);
        return;
    }
    queue->follow.step = step;
    queue->follow.at = SRT_NEVER;
}

/* text: of a layout that Redis may have lost, or NULL: it is only read. */
static void follow_begin(srt_node *n, size_t worker, const char *text, size_t len, int64_t now)
{
    srt_queue *queue = n->workers[worker];
    if (queue->follow.step != FOLLOW_NOTHING)
        return;
    if (text && len > 0 && len < sizeof queue->follow.text) {
        memcpy(queue->follow.text, text, len);
        queue->follow.text[len] = '\0';
        follow_send(n, worker, FOLLOW_RAISE, now);
    } else {
        follow_send(n, worker, FOLLOW_LOOK, now);
    }
}

/* What Redis has: newer than what the node knows, the same, or, after a failover, older. */
static void follow_looked(srt_node *n, size_t worker, const srt_reply *reply, int64_t now)
{
    srt_queue *queue = n->workers[worker];
    const srt_token *text = srt_layout_of(reply);
    srt_layout layout;
    queue->follow.step = FOLLOW_NOTHING;
    if (text->type != SRT_STRING || text->len == 0 || text->len >= sizeof queue->follow.text ||
        srt_layout_read(text->data, text->len, &layout, NULL) != SERIATIM_OK)
        return;
    if (layout.generation < queue->generation) {
        follow_begin(n, worker, queue->layout, strlen(queue->layout), now);
        return;
    }
    if (layout.generation == queue->generation)
        return;
    memcpy(queue->follow.text, text->data, text->len);
    queue->follow.text[text->len] = '\0';
    srt_written_note(n, &queue->follow.written);
    follow_ask_replicas(n, worker, now);
}

void srt_node_followed(srt_node *n, srt_request *r, const srt_reply *reply, int64_t now)
{
    srt_queue *queue = n->workers[r->place];
    seriatim_error error;
    if ((size_t)queue->follow.step != r->part)
        return;
    if (r->part == FOLLOW_SURE) {
        follow_sure(n, r->place, srt_sure_answered(n, &queue->follow.written, r, reply), now);
        return;
    }
    if (srt_reply_status(&reply->tokens[0], &error) != SERIATIM_OK) {
        srt_node_tell(n, SERIATIM_EVENT_WARNING, error.status, "the layout of queue \"%.*s\" cannot be read: %s",
                      (int)queue->name.len, queue->name.data, error.message);
        queue->follow.step = FOLLOW_NOTHING; /* the next refusal or heartbeat asks again */
    } else if (r->part == FOLLOW_RAISE) {
        follow_send(n, r->place, FOLLOW_LOOK, now);
    } else {
        follow_looked(n, r->place, reply, now);
    }
}

void srt_node_follow_on(srt_node *n, int64_t now)
{
    size_t i;
    n->follow_at = SRT_NEVER;
    for (i = 0; i < n->worker_count; i++) {
        srt_queue *queue = n->workers[i];
        if (queue->follow.step == FOLLOW_NOTHING || queue->follow.at == SRT_NEVER)
            continue;
        if (now < queue->follow.at) {
            n->follow_at = queue->follow.at < n->follow_at ? queue->follow.at : n->follow_at;
            continue;
        }
        queue->follow.at = SRT_NEVER;
        if (queue->follow.step == FOLLOW_ADOPT)
            follow_adopt(n, i, now);
        else if (queue->follow.step == FOLLOW_SURE)
            follow_ask_replicas(n, i, now);
        else
            follow_send(n, i, queue->follow.step, now);
    }
}

void srt_node_follow_lost(srt_node *n, int64_t now)
{
    size_t i;
    for (i = 0; i < n->worker_count; i++)
        if (n->workers[i]->follow.step == FOLLOW_SURE && !srt_written_stands(n, &n->workers[i]->follow.written))
            follow_pause(n, i, FOLLOW_LOOK, now);
}

/* ---- Who tells of it ------------------------------------------------------------------------- */

void srt_node_see_layout(srt_node *n, size_t worker, const srt_token *text, int64_t now)
{
    srt_layout layout;
    if (srt_layout_read(text->data, text->len, &layout, NULL) == SERIATIM_OK &&
        layout.generation != n->workers[worker]->generation)
        follow_begin(n, worker, NULL, 0, now);
}

void srt_node_hear_layout(srt_node *n, const char *name, size_t len, int64_t now)
{
    size_t i;
    for (i = 0; i < n->worker_count; i++)
        if (n->workers[i]->generation && srt_bytes_equal(&n->workers[i]->name, name, len))
            follow_begin(n, i, NULL, 0, now);
}

int srt_shard_refused(srt_node *n, srt_shard *s, const char *message, int64_t now)
{
    int64_t generation;
    const char *text;
    size_t len;
    if (!srt_layout_refused(message, &generation, &text, &len) || -generation > s->queue->generation)
        return 0;
    if (generation > s->queue->generation)
        follow_begin(n, s->worker, text, len, now);
    else if (generation < s->queue->generation) /* also if it was closed for the deletion of an earlier layout */
        srt_shard_turn(n, s, now);
    else
        srt_node_wake(n, s, now); /* it was turned meanwhile, or the layout was adopted */
    return 1;
}

/* ---- Turning a shard ------------------------------------------------------------------------- */

static srt_request *turn_request(srt_node *n, const srt_queue *queue, unsigned number)
{
    srt_request *r =
        srt_session_begin(srt_cluster_pool(&n->cluster), srt_script_turn, &queue->shards[number]->args, SRT_SHARD_KEYS);
    if (!r)
        return NULL;
    r->kind = SRT_ASK_TURN;
    r->number = queue->generation;
    srt_request_text(r, queue->layout);
    return r;
}

void srt_shard_turn(srt_node *n, srt_shard *s, int64_t now)
{
    srt_request *r;
    if (s->turning)
        return;
    r = turn_request(n, s->queue, s->index);
    if (r)
        r->subject = s;
    s->turning = srt_shard_send(n, s, r, now);
}

/*
 * Who has ended a move turns all shards, also those that the queue has lost; and tells the other nodes. What is lost of
 * that is done by whoever is refused by a shard.
 */
static void turn_all(srt_node *n, srt_queue *queue, int64_t now)
{
    srt_request *r;
    srt_bytes text;
    unsigned i;
    for (i = 0; i < queue->most_count; i++) {
        r = i < queue->place_count ? NULL : turn_request(n, queue, i);
        if (i < queue->place_count)
            srt_shard_turn(n, queue->places[i], now);
        else if (r)
            srt_cluster_send(&n->cluster, r);
    }
    srt_bytes_init(&text, n->mem);
    srt_bytes_adds(&text, "layout ");
    srt_bytes_add(&text, queue->name.data, queue->name.len);
    r = text.failed ? NULL : srt_session_begin(srt_cluster_pool(&n->cluster), srt_script_none, NULL, 0);
    if (r) {
        r->kind = SRT_ASK_NOTHING;
        srt_request_text(r, "PUBLISH");
        srt_request_arg(r, n->nodes_channel.data, n->nodes_channel.len);
        srt_request_arg(r, text.data, text.len);
        srt_cluster_send(&n->cluster, r);
    }
    srt_bytes_free(&text);
}

/* {OK, SAME, OPEN or NEWER; its generation; the text of its layout}. */
int srt_shard_turn_answered(srt_node *n, srt_request *r, const srt_reply *reply, int64_t now)
{
    srt_shard *s = r->subject;
    const srt_token *t = reply->tokens;
    seriatim_error error;
    if (!s)
        return 0;
    s->turning = 0;
    if (srt_reply_status(t, &error) != SERIATIM_OK) {
        srt_shard_denied(n, s, SRT_ASK_TURN, &error, now);
        srt_node_wake(n, s, now + 5 * FOLLOW_PAUSE_MS);
        return 0;
    }
    srt_shard_granted(n, s, SRT_ASK_TURN);
    if (srt_reply_is_list(reply, 3) && (srt_token_is(&t[1], "OK") || srt_token_is(&t[1], "SAME"))) {
        s->turned = r->number;
        srt_node_wake(n, s, now);
    } else if (srt_reply_is_list(reply, 3) && srt_token_is(&t[1], "OPEN")) {
        return 1;
    } else {
        if (srt_reply_is_list(reply, 3) && srt_token_is(&t[1], "NEWER") && srt_token_int(&t[2]) > 0)
            follow_begin(n, s->worker, t[3].data, t[3].len, now);
        srt_node_wake(n, s, now + FOLLOW_PAUSE_MS);
    }
    return 0;
}
