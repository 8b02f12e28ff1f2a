/* mover.c - what the mover of a shard does next: looks for ids that are to leave, and takes them in batches. */
#include "node/mover.h"

#include <string.h>

#define MOVE_LIMIT 100 /* ids of a batch at most: as in depart.lua */
#define MOVE_FIRST_LIMIT 50
#define MOVE_FOUND 4000 /* ids that are found before a batch is opened, whatever their destinations */
#define MOVE_RETRY_MOST_MS 1000
#define MOVE_SCAN_REST_MS 5    /* behind so much of a scan the mover rests */
#define MOVE_SCAN_CALL_MS 2    /* of Redis that a call of it takes at most */
#define MOVE_SCAN_AGAIN_MS 100 /* between scans that find only ids that stay */

static const char *const move_kinds[] = {"jobs", "scheduled", "dead", "scores", "events", "notices", "outboxes"};
#define MOVE_KINDS (sizeof move_kinds / sizeof *move_kinds)

/* What the steps call of this file, which calls them. */
static void step_send(srt_node *n, srt_shard *s, int64_t now);
static void mover_choose(srt_node *n, srt_shard *s, int64_t now);
static void mover_sure(srt_node *n, srt_shard *s, int64_t now);
static const srt_move_table move_table = {step_send, mover_choose, mover_sure};

/* ---- Life ------------------------------------------------------------------------------------ */

static srt_mover *mover_new(srt_node *n, srt_shard *s, const srt_layout *layout)
{
    srt_mover *m = srt_alloc(n->mem, sizeof *m);
    if (!m)
        return NULL;
    m->layout = *layout;
    m->limit = MOVE_FIRST_LIMIT;
    m->catch_pause_ms = 1;
    m->pause_ms = SRT_MOVE_RETRY_MS;
    srt_bytes_init(&m->cursor, n->mem);
    srt_move_scan_begin(m);
    srt_bytes_init(&m->slice, n->mem);
    srt_bytes_init(&m->about, n->mem);
    m->found = srt_alloc(n->mem, layout->shards * sizeof *m->found);
    m->found_counts = srt_alloc(n->mem, layout->shards * sizeof *m->found_counts);
    s->mover = m;
    n->moves.table = &move_table;
    if (m->found && m->found_counts)
        return m;
    srt_mover_free(n, s);
    return NULL;
}

void srt_mover_free(srt_node *n, srt_shard *s)
{
    srt_mover *m = s->mover;
    if (!m)
        return;
    srt_move_drop_found(n, m);
    srt_move_drop_batch(n, m);
    srt_bytes_free(&m->cursor);
    srt_bytes_free(&m->slice);
    srt_bytes_free(&m->about);
    srt_free(n->mem, m->found, m->layout.shards * sizeof *m->found);
    srt_free(n->mem, m->found_counts, m->layout.shards * sizeof *m->found_counts);
    srt_free(n->mem, m, sizeof *m);
    s->mover = NULL;
    if (n->moves.shard == s)
        n->moves.shard = NULL;
}

int srt_mover_is_busy(const srt_shard *s)
{
    return s->mover && (s->mover->batch || (s->mover->asking && s->mover->step == SRT_MOVE_OPEN));
}

void srt_mover_finish(srt_node *n, srt_shard *s, const srt_token *text, int64_t now)
{
    srt_layout layout;
    if ((s->mover && s->mover->finishes) || srt_layout_read(text->data, text->len, &layout, NULL) != SERIATIM_OK) {
        srt_node_wake(n, s, now + SRT_MOVE_REFUSED_MS);
        return;
    }
    srt_mover_free(n, s);
    if (mover_new(n, s, &layout))
        s->mover->finishes = 1;
    srt_node_wake(n, s, s->mover ? now : now + SRT_MOVE_REFUSED_MS);
}

/* ---- Turns ----------------------------------------------------------------------------------- */

/* One mover of the node works at a time, so that a move takes a bounded part of Redis. */
static int is_its_turn(srt_node *n, srt_shard *s, int64_t now)
{
    if (n->moves.shard == s)
        return 1;
    if (n->moves.shard)
        return 0; /* it is woken when that one rests */
    if (now < n->moves.at && s->mover->step != SRT_MOVE_CATCH) {
        srt_node_wake(n, s, n->moves.at);
        return 0;
    }
    n->moves.shard = s;
    return 1;
}

static void mover_scan_send(srt_node *n, srt_shard *s, int64_t now)
{
    srt_mover *m = s->mover;
    srt_request *r = srt_move_request(n, s, s->index, srt_script_foreign);
    m->scan_asked = now;
    if (r) {
        srt_request_text(r, move_kinds[m->kind]);
        srt_request_arg(r, m->cursor.len ? m->cursor.data : "0", m->cursor.len ? m->cursor.len : 1);
    }
    srt_move_send(n, s, r, now);
}

static void step_send(srt_node *n, srt_shard *s, int64_t now)
{
    srt_mover *m = s->mover;
    if (m->step == SRT_MOVE_SCAN)
        mover_scan_send(n, s, now);
    else if (m->step == SRT_MOVE_OPENED || m->step == SRT_MOVE_ARRIVED || m->step == SRT_MOVE_LIFTED ||
             m->step == SRT_MOVE_IS_OUT || m->step == SRT_MOVE_POLLED)
        srt_move_make_sure(n, s, m->step, now);
    else if (m->step >= SRT_MOVE_TICK)
        srt_move_end_send(n, s, now);
    else
        srt_move_batch_send(n, s, now);
}

/* ---- Replicas -------------------------------------------------------------------------------- */

static int waits_for_replicas(const srt_mover *m)
{
    return m->step == SRT_MOVE_OPENED || m->step == SRT_MOVE_ARRIVED || m->step == SRT_MOVE_LIFTED ||
           m->step == SRT_MOVE_IS_OUT || m->step == SRT_MOVE_POLLED;
}

/* They have what the step has written. */
static void mover_sure(srt_node *n, srt_shard *s, int64_t now)
{
    if (s->mover->step == SRT_MOVE_OPENED)
        srt_move_bring(n, s, now);
    else if (s->mover->step == SRT_MOVE_ARRIVED)
        srt_move_arrived(n, s, now);
    else
        srt_move_end_sure(n, s, now);
}

void srt_node_moves_lost(srt_node *n, int64_t now)
{
    size_t i;
    for (i = 0; i < n->shard_count; i++) {
        srt_shard *s = n->shards[i];
        srt_mover *m = s->mover;
        if (m && m->asking &&
            (((waits_for_replicas(m) || srt_move_is_bound(n, m)) && !srt_written_stands(n, &m->written)) ||
             (m->step == SRT_MOVE_OUT && !srt_written_stands(n, &m->scanned))))
            srt_move_anew(n, s, SRT_MOVE_RETRY_MS, now);
    }
}

/* ---- The scan -------------------------------------------------------------------------------- */

static int copy_number(char to[SRT_MOVE_NUMBER], const srt_token *from)
{
    if (from->type != SRT_STRING || from->len < 1 || from->len >= SRT_MOVE_NUMBER)
        return 0;
    memcpy(to, from->data, from->len);
    to[from->len] = '\0';
    return 1;
}

static int mover_scan_keep(srt_node *n, srt_shard *s, const srt_token *id, const srt_token *extra)
{
    srt_mover *m = s->mover;
    unsigned target = seriatim_shard_of(id->data, id->len, m->layout.shards);
    srt_move_id *found;
    if (target == s->index)
        return 1;
    found = srt_move_id_new(n, target, id, extra, NULL);
    if (!found)
        return 0;
    srt_move_keep(m, found);
    m->listed++;
    return 1;
}

/* {cursor, mark, id, extra, ...} */
static void mover_scan_answered(srt_node *n, srt_shard *s, const srt_reply *reply, int64_t now)
{
    srt_mover *m = s->mover;
    const srt_token *t = reply->tokens;
    int64_t took = now - m->scan_asked;
    size_t i;
    char mark[SRT_MOVE_NUMBER];
    if (!srt_move_is_list(n, s, reply, 2, now))
        return;
    srt_bytes_clear(&m->cursor);
    if (!srt_token_is(&t[1], "0"))
        srt_bytes_add(&m->cursor, t[1].data, t[1].len);
    if (reply->count % 2 == 0 || t[1].type != SRT_STRING || m->cursor.failed || !copy_number(mark, &t[2])) {
        m->cursor.failed = 0;
        srt_move_anew(n, s, SRT_MOVE_REFUSED_MS, now);
        return;
    }
    if (!m->scanning) {
        memcpy(m->mark, mark, sizeof mark);
        srt_written_note(n, &m->scanned);
    }
    m->scanning = 1;
    m->scan_ms += took;
    m->unrested_ms += took < MOVE_SCAN_CALL_MS ? took : MOVE_SCAN_CALL_MS;
    for (i = 3; i + 1 < reply->count; i += 2)
        if (!mover_scan_keep(n, s, &t[i], &t[i + 1])) {
            srt_move_anew(n, s, SRT_MOVE_REFUSED_MS, now);
            return;
        }
    if (m->cursor.len == 0)
        m->kind++;
    if (m->unrested_ms >= MOVE_SCAN_REST_MS) {
        srt_move_rest_behind(n, s, m->unrested_ms, now);
        m->unrested_ms = 0;
    }
    mover_choose(n, s, now);
}

static unsigned fullest(const srt_mover *m)
{
    unsigned target, best = 0;
    for (target = 1; target < m->layout.shards; target++)
        if (m->found_counts[target] > m->found_counts[best])
            best = target;
    return best;
}

/*
 * A scan that has found something is repeated: at once if ids have left, or else, because all of them run or are
 * broken, after a while, the longer its calls took the later.
 */
static void mover_scan_ended(srt_node *n, srt_shard *s, int64_t now)
{
    srt_mover *m = s->mover;
    int64_t least = m->has_broken ? SRT_MOVE_REFUSED_MS : MOVE_SCAN_AGAIN_MS;
    int64_t pause = m->has_moved ? 0 : 4 * m->scan_ms > least ? 4 * m->scan_ms : least;
    if (m->listed == 0) {
        srt_move_go(n, s, SRT_MOVE_TICK, now);
        return;
    }
    srt_move_scan_begin(m);
    m->step = SRT_MOVE_SCAN;
    m->at = now + pause;
    srt_move_rest(n, s, 0, now);
    srt_node_wake(n, s, m->at);
}

/* When are ids looked for whose run has ended? */
static int64_t catch_due(const srt_node *n, const srt_mover *m)
{
    return m->catch_at > n->moves.catch_at ? m->catch_at : n->moves.catch_at;
}

static void mover_choose(srt_node *n, srt_shard *s, int64_t now)
{
    srt_mover *m = s->mover;
    int is_over = m->kind == MOVE_KINDS;
    if (!m->finishes && (!s->wanted || n->stopping)) {
        srt_move_anew(n, s, 0, now); /* the shard is given up: its next step frees it */
    } else if (m->finishes) {
        srt_move_go(n, s, SRT_MOVE_ASK, now);
    } else if (now >= catch_due(n, m)) {
        srt_move_go(n, s, SRT_MOVE_CATCH, now);
    } else if (m->found_total && (is_over || m->found_total >= MOVE_FOUND || m->found_counts[fullest(m)] >= m->limit)) {
        m->target = fullest(m);
        srt_move_go(n, s, SRT_MOVE_OPEN, now);
    } else if (is_over) {
        mover_scan_ended(n, s, now);
    } else {
        srt_move_go(n, s, SRT_MOVE_SCAN, now);
    }
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* No batch is open. */
static void asked(srt_node *n, srt_shard *s, int64_t now)
{
    srt_mover *m = s->mover;
    if (m->finishes) {
        srt_move_rest(n, s, 0, now);
        srt_mover_free(n, s);
        srt_shard_turn(n, s, now);
        return;
    }
    mover_choose(n, s, now);
}

static void refused(srt_node *n, srt_shard *s, const srt_request *r, const seriatim_error *error, int64_t now)
{
    srt_mover *m = s->mover;
    srt_queue *queue = s->queue;
    int64_t pause = SRT_MOVE_REFUSED_MS;
    if (error->status == SERIATIM_GENERATION && r->place < queue->place_count &&
        srt_shard_refused(n, queue->places[r->place], error->message, now)) {
        pause = m->pause_ms;
        m->pause_ms = m->pause_ms * 2 < MOVE_RETRY_MOST_MS ? m->pause_ms * 2 : MOVE_RETRY_MOST_MS;
    } else {
        srt_refusal_tell(n, SRT_REFUSED_MOVE, s, error, now);
    }
    srt_move_anew(n, s, pause, now);
}

void srt_mover_answered(srt_node *n, srt_request *r, const srt_reply *reply, int64_t now)
{
    srt_shard *s = r->subject;
    srt_mover *m = s->mover;
    seriatim_error error;
    if (!m || !m->asking || m->serial != r->number)
        return;
    m->asking = 0;
    if (!m->finishes && m->layout.generation != s->queue->generation) {
        srt_move_anew(n, s, 0, now); /* the shard's next step frees it */
        return;
    }
    if (waits_for_replicas(m)) {
        srt_move_take_sure(n, s, srt_sure_answered(n, &m->written, r, reply), now);
        return;
    }
    if (srt_reply_status(&reply->tokens[0], &error) != SERIATIM_OK) {
        refused(n, s, r, &error, now);
        return;
    }
    m->pause_ms = SRT_MOVE_RETRY_MS;
    if (m->step == SRT_MOVE_SCAN)
        mover_scan_answered(n, s, reply, now);
    else if (m->step == SRT_MOVE_ASK && srt_reply_is_list(reply, 3) && srt_token_int(&reply->tokens[1]) == 0)
        asked(n, s, now);
    else if (m->step == SRT_MOVE_ASK || m->step == SRT_MOVE_OPEN || m->step == SRT_MOVE_CATCH)
        srt_move_opened(n, s, reply, now);
    else if (m->step >= SRT_MOVE_TICK)
        srt_move_end_answered(n, s, reply, now);
    else
        srt_move_batch_answered(n, s, reply, now);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static int has_work(const srt_shard *s)
{
    return s->index < s->queue->old_count && s->turned == s->queue->generation && !s->reconcile;
}

static int mover_begin(srt_node *n, srt_shard *s)
{
    srt_layout layout;
    return srt_layout_read(s->queue->layout, strlen(s->queue->layout), &layout, NULL) == SERIATIM_OK &&
           mover_new(n, s, &layout);
}

/*
 * A mover of another shard than 0 that rests looks at its own shard alone, by a call now and then. That needs no turn:
 * the end of a turn steps the shards of all movers, and of thousands most rest for most of a move.
 */
static int only_looks(const srt_shard *s)
{
    return s->mover->step == SRT_MOVE_REST && s->index > 0;
}

/* Redis may forget that the shard is out when the connection ends, or when another master gets its slot. */
static int may_be_forgotten(const srt_node *n, const srt_shard *s)
{
    const srt_redis *p = srt_shard_master(n, s);
    return !srt_written_stands(n, &s->mover->scanned) || (p && p->number != s->mover->scanned.peer);
}

void srt_mover_step(srt_node *n, srt_shard *s, int leaving, int64_t now)
{
    srt_mover *m = s->mover;
    if (m && !m->asking && !m->finishes &&
        (m->layout.generation != s->queue->generation || (leaving && !srt_mover_is_busy(s)))) {
        srt_move_rest(n, s, 0, now);
        srt_mover_free(n, s);
    }
    if (!s->mover && (leaving || !has_work(s) || !mover_begin(n, s)))
        return;
    m = s->mover;
    if (m->step == SRT_MOVE_REST && may_be_forgotten(n, s))
        srt_move_anew(n, s, SRT_MOVE_RETRY_MS, now);
    if (m->asking)
        return;
    if (m->step == SRT_MOVE_SCAN || m->step == SRT_MOVE_OPEN) {
        if (now >= catch_due(n, m))
            m->step = SRT_MOVE_CATCH; /* what follows it is chosen anew */
        else
            srt_node_wake(n, s, catch_due(n, m));
    }
    if (now < m->at && m->step != SRT_MOVE_CATCH)
        srt_node_wake(n, s, m->at);
    else if (only_looks(s) || is_its_turn(n, s, now))
        step_send(n, s, now);
}
