/*
 * mover_end.c - ends a move. A mover that finds nothing more gives the tick of its shard to all destinations and says
 * that the shard is out; when all are, the mover of shard 0 writes the layout without the old number.
 */
#include "node/mover.h"

#include <stdio.h>
#include <string.h>

#define END_POLL_MS 250  /* the mover of shard 0 asks whether all are out */
#define END_LOOK_MS 5000 /* another one asks of its own shard */
#define LIFTS 64         /* destinations that are told the tick, until the mover rests */
#define LIFT_REST_MS 10

/* ---- Requests -------------------------------------------------------------------------------- */

static srt_request *lift_request(srt_node *n, srt_shard *s)
{
    return srt_move_arrive_request(n, s, s->mover->asked, "0");
}

/* On the connection on which the scan began, and lost with it: a failover may have brought an id back. */
static srt_request *out_request(srt_node *n, srt_shard *s)
{
    srt_request *r = srt_move_request(n, s, s->index, srt_script_out);
    if (!r)
        return NULL;
    srt_request_text(r, s->mover->mark);
    srt_written_bind(n, &s->mover->scanned, r);
    return r;
}

static srt_request *poll_request(srt_node *n, srt_shard *s)
{
    srt_request *r = srt_move_request(n, s, s->mover->asked, srt_script_out);
    if (r)
        srt_request_text(r, "");
    return r;
}

/* What stands in a layout behind the generation, which the script gives. */
static srt_request *end_request(srt_node *n, srt_shard *s)
{
    const srt_mover *m = s->mover;
    srt_layout quiet = m->layout;
    char text[SRT_LAYOUT_TEXT];
    srt_request *r = srt_queue_request(&n->registry, srt_cluster_pool(&n->cluster), s->queue, srt_script_set_layout);
    if (!r)
        return NULL;
    quiet.old = 0;
    quiet.paused = 0;
    srt_layout_write(&quiet, text);
    r->kind = SRT_ASK_MOVE;
    r->subject = s;
    r->place = s->index;
    r->number = ++n->moves.serial;
    srt_request_text(r, s->queue->layout);
    srt_request_text(r, strchr(text, ' ') + 1);
    return r;
}

void srt_move_end_send(srt_node *n, srt_shard *s, int64_t now)
{
    srt_mover *m = s->mover;
    if (m->step == SRT_MOVE_OUT && !srt_written_stands(n, &m->scanned)) {
        srt_move_anew(n, s, 0, now);
        return;
    }
    if (m->step == SRT_MOVE_REST) {
        m->asked = s->index;
        m->step = SRT_MOVE_POLL;
    }
    srt_move_send(n, s,
                  m->step == SRT_MOVE_TICK   ? srt_move_request(n, s, s->index, srt_script_depart)
                  : m->step == SRT_MOVE_LIFT ? lift_request(n, s)
                  : m->step == SRT_MOVE_OUT  ? out_request(n, s)
                  : m->step == SRT_MOVE_POLL ? poll_request(n, s)
                                             : end_request(n, s),
                  now);
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* Calls of a move between thousands of shards are millions, and jobs are to get their turn between them. */
static void lift_next(srt_node *n, srt_shard *s, unsigned number, int64_t now)
{
    srt_mover *m = s->mover;
    m->asked = number + (number == s->index);
    if (number > 0 && m->asked / LIFTS > (number - 1) / LIFTS)
        srt_move_rest(n, s, LIFT_REST_MS, now);
    srt_move_go(n, s, m->asked < m->layout.shards ? SRT_MOVE_LIFT : SRT_MOVE_OUT, now);
}

/* No batch is open, so this is the tick with which ids have left the shard. */
static void tick_came(srt_node *n, srt_shard *s, const srt_reply *reply, int64_t now)
{
    const srt_token *t = reply->tokens;
    if (!srt_move_is_list(n, s, reply, 3, now))
        return;
    if (srt_token_int(&t[1]) != 0 || srt_move_take_source(s->mover, reply) != SERIATIM_OK) {
        srt_move_anew(n, s, 0, now); /* another mover opened it */
        return;
    }
    lift_next(n, s, 0, now);
}

/* Waits until others are ready, too, and looks whether its own shard is still out. */
static void wait_for_others(srt_node *n, srt_shard *s, int64_t now)
{
    srt_mover *m = s->mover;
    m->step = SRT_MOVE_REST;
    m->at = now + (s->index == 0 ? END_POLL_MS : END_LOOK_MS);
    srt_move_rest(n, s, 0, now);
    srt_node_wake(n, s, now + 1); /* its step waits until m->at, or frees the mover of a shard that was given up */
}

/* {1 or 0: somebody was faster, the layout} */
static void ended(srt_node *n, srt_shard *s, const srt_reply *reply, int64_t now)
{
    if (!srt_move_is_list(n, s, reply, 2, now))
        return;
    s->queue->ends |= srt_token_int(&reply->tokens[1]) == 1;
    srt_node_hear_layout(n, s->queue->name.data, s->queue->name.len, now);
    wait_for_others(n, s, now);
}

void srt_move_end_answered(srt_node *n, srt_shard *s, const srt_reply *reply, int64_t now)
{
    srt_mover *m = s->mover;
    int yes = srt_token_int(&reply->tokens[0]) == 1;
    switch (m->step) {
    case SRT_MOVE_TICK:
        tick_came(n, s, reply, now);
        break;
    case SRT_MOVE_LIFT:
        srt_move_make_sure(n, s, SRT_MOVE_LIFTED, now);
        break;
    case SRT_MOVE_OUT:
        if (yes)
            srt_move_make_sure(n, s, SRT_MOVE_IS_OUT, now);
        else
            srt_move_anew(n, s, 0, now);
        break;
    case SRT_MOVE_POLL:
        if (!yes && m->asked == s->index)
            srt_move_anew(n, s, 0, now); /* an id may have come back */
        else if (yes && s->index == 0)
            srt_move_make_sure(n, s, SRT_MOVE_POLLED, now);
        else
            wait_for_others(n, s, now);
        break;
    default:
        ended(n, s, reply, now);
    }
}

void srt_move_end_sure(srt_node *n, srt_shard *s, int64_t now)
{
    srt_mover *m = s->mover;
    if (m->step == SRT_MOVE_LIFTED) {
        lift_next(n, s, m->asked + 1, now);
    } else if (m->step == SRT_MOVE_IS_OUT) {
        wait_for_others(n, s, now);
    } else {
        m->asked++;
        srt_move_go(n, s, m->asked < m->layout.old ? SRT_MOVE_POLL : SRT_MOVE_END, now);
    }
}
