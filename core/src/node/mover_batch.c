/* mover_batch.c - moves a batch: opens it, copies what lies outside of its parts, and brings it to each destination. */
#include "node/mover.h"

#include <string.h>

#include "model/stored.h"

#define BATCH_SHORT_MS 10      /* a batch that took less is followed by one twice as large */
#define BATCH_LONG_MS 40       /* and one that took more by one half as large: ids stand still for less than 50 ms */
#define BATCH_WAITS 8          /* unless it is more than 8 times what its own calls took */
#define BATCH_STEP 10          /* ids by which any other is followed by a larger one */
#define BATCH_ID_US 100        /* of Redis that an id takes at most, its departure and its arrival */
#define BATCH_BYTES_OF_A_US 40 /* of what is stored of it: as many take a microsecond more */
#define BATCH_LEAST 8
#define BATCH_MOST 100
#define BATCH_ID_BYTES 16384 /* of the ids of a batch: depart.lua tests each where it belongs */
#define BATCH_FULL_MS 1000   /* until a Redis that is full is tried again */
#define BROKEN_MS 60000      /* until it is said again that a record is broken */
#define CATCH_MS 5           /* until ids are looked for again that ran when they were to leave; it doubles */
#define CATCH_MOST_MS 100
#define CATCH_REST 3 /* times as long as one took: until the next one of any mover */

/* ---- Requests -------------------------------------------------------------------------------- */

/* Asks for an open batch, or opens one with ids of m->target. */
static srt_request *depart_request(srt_node *n, srt_shard *s)
{
    srt_mover *m = s->mover;
    srt_request *r = srt_move_request(n, s, s->index, srt_script_depart);
    srt_move_id **last = &m->sent;
    unsigned count;
    size_t bytes = 0;
    if (r && m->step == SRT_MOVE_CATCH)
        srt_request_text(r, "");
    for (count = 0; r && m->step == SRT_MOVE_OPEN && count < m->limit && bytes < BATCH_ID_BYTES && m->found[m->target];
         count++) {
        srt_move_id *id = m->found[m->target];
        bytes += id->id_len;
        srt_request_arg(r, srt_move_id_bytes(id), id->id_len);
        srt_request_arg(r, srt_move_part(id), id->part_len);
        m->found[m->target] = id->next;
        m->found_counts[m->target]--;
        m->found_total--;
        id->next = NULL;
        *last = id;
        last = &id->next;
    }
    return r;
}

static srt_request *slice_out_request(srt_node *n, srt_shard *s)
{
    const srt_mover *m = s->mover;
    srt_request *r = srt_move_request(n, s, s->index, srt_script_slice_out);
    if (r) {
        srt_request_text(r, m->sequence);
        srt_request_arg(r, srt_move_id_bytes(m->sliced), m->sliced->id_len);
        srt_request_arg(r, srt_move_letters(m->sliced) + m->letter, 1);
        srt_request_text(r, m->place);
    }
    return r;
}

static srt_request *slice_in_request(srt_node *n, srt_shard *s)
{
    const srt_mover *m = s->mover;
    srt_request *r = srt_move_request(n, s, m->target, srt_script_slice_in);
    if (r) {
        srt_request_int(r, s->index);
        srt_request_text(r, m->sequence);
        srt_request_arg(r, srt_move_id_bytes(m->sliced), m->sliced->id_len);
        srt_request_arg(r, srt_move_letters(m->sliced) + m->letter, 1);
        srt_request_text(r, m->place);
        srt_request_arg(r, m->slice.data, m->slice.len);
        srt_request_text(r, s->queue->now.fold);
    }
    return r;
}

static srt_request *arrive_request(srt_node *n, srt_shard *s)
{
    const srt_mover *m = s->mover;
    srt_request *r = srt_move_arrive_request(n, s, m->target, m->sequence);
    const srt_move_id *id;
    if (!r)
        return NULL;
    for (id = m->batch; id; id = id->next) {
        if (id->target != m->target)
            continue;
        srt_request_arg(r, srt_move_id_bytes(id), id->id_len);
        srt_request_arg(r, srt_move_part(id), id->part_len);
    }
    return r;
}

static srt_request *departed_request(srt_node *n, srt_shard *s)
{
    const srt_mover *m = s->mover;
    srt_request *r = srt_move_request(n, s, s->index, srt_script_departed);
    const srt_move_id *id;
    if (!r)
        return NULL;
    srt_request_text(r, m->sequence);
    for (id = m->batch; id; id = id->next)
        if (id->target == m->target)
            srt_request_arg(r, srt_move_id_bytes(id), id->id_len);
    return r;
}

/*
 * Where one Redis has all shards, replicas get what is written in the order in which it was written, so a step that
 * goes over the connection of the step before needs no replica to have that. Slices go the usual way: they are written
 * before the arrival that looks at them.
 */
static int is_ordered(const srt_node *n, const srt_mover *m)
{
    return !n->cluster.many && !m->has_slices && !m->finishes;
}

int srt_move_is_bound(const srt_node *n, const srt_mover *m)
{
    return (m->step == SRT_MOVE_ARRIVE || m->step == SRT_MOVE_DEPARTED) && is_ordered(n, m);
}

void srt_move_batch_send(srt_node *n, srt_shard *s, int64_t now)
{
    srt_mover *m = s->mover;
    srt_request *r;
    if (srt_move_is_bound(n, m) && !srt_written_stands(n, &m->written)) {
        srt_move_anew(n, s, SRT_MOVE_RETRY_MS, now);
        return;
    }
    r = m->step == SRT_MOVE_SLICE_OUT  ? slice_out_request(n, s)
        : m->step == SRT_MOVE_SLICE_IN ? slice_in_request(n, s)
        : m->step == SRT_MOVE_ARRIVE   ? arrive_request(n, s)
        : m->step == SRT_MOVE_DEPARTED ? departed_request(n, s)
                                       : depart_request(n, s);
    if (r && srt_move_is_bound(n, m))
        srt_written_bind(n, &m->written, r);
    if (m->step == SRT_MOVE_ASK || m->step == SRT_MOVE_OPEN || m->step == SRT_MOVE_CATCH) {
        m->opened_at = now;
        m->caught = m->step == SRT_MOVE_CATCH;
    }
    srt_move_send(n, s, r, now);
}

/* ---- A batch is open ------------------------------------------------------------------------- */

/* {sequence, tick, how many stay, id, part, letters, ...} */
static int batch_take(srt_node *n, srt_mover *m, const srt_reply *reply)
{
    const srt_token *t = reply->tokens;
    srt_move_id **last = &m->batch;
    size_t i;
    int status = srt_move_take_source(m, reply);
    if (status != SERIATIM_OK || t[1].len >= SRT_MOVE_NUMBER)
        return status == SERIATIM_OK ? SERIATIM_PROTOCOL : status;
    memcpy(m->sequence, t[1].data, t[1].len + 1);
    m->has_slices = 0;
    m->missing = 0;
    m->cost_us = 0;
    for (i = 4; i + 2 < reply->count; i += 3) {
        unsigned target = seriatim_shard_of(t[i].data, t[i].len, m->layout.shards);
        srt_move_id *id;
        if (t[i].len == 0) /* the shard itself */
            continue;
        id = srt_move_id_new(n, target, &t[i], &t[i + 1], &t[i + 2]);
        if (!id)
            return SERIATIM_NOMEM;
        *last = id;
        last = &id->next;
        m->has_slices |= id->letters_len > 0;
        m->cost_us += BATCH_ID_US + (int64_t)id->part_len / BATCH_BYTES_OF_A_US;
    }
    return SERIATIM_OK;
}

static int is_same_id(const srt_move_id *a, const srt_move_id *b)
{
    return a->id_len == b->id_len && memcmp(srt_move_id_bytes(a), srt_move_id_bytes(b), a->id_len) == 0;
}

/*
 * The ids that the batch has not taken, which has them in the order in which they were sent. Most stay, and are
 * forgotten: another scan lists them. But ids with many payloads leave one a batch, and a scan for each would take too
 * long, so behind one of them the others are asked for again.
 */
static void forget_sent(srt_node *n, srt_mover *m)
{
    const srt_move_id *taken = m->batch;
    while (m->sent) {
        srt_move_id *id = m->sent;
        int is_taken = taken && is_same_id(id, taken);
        m->sent = id->next;
        if (is_taken)
            taken = taken->next;
        if (!is_taken && m->batch && m->has_slices)
            srt_move_keep(m, id);
        else
            srt_move_id_free(n, id);
    }
}

/* Their runs may end soon. */
static void catch_soon(srt_mover *m, int64_t now)
{
    m->catch_pause_ms = CATCH_MS;
    m->catch_at = now + CATCH_MS;
}

/* Also the movers of all shards together must not catch all the time: scans and other batches would get no turn. */
static void catch_ended(srt_node *n, srt_shard *s, int64_t now)
{
    n->moves.catch_at = now + CATCH_REST * (now - s->mover->opened_at);
    srt_move_rest(n, s, n->moves.at > now ? n->moves.at - now : 0, now);
}

static void caught_nothing(srt_node *n, srt_shard *s, int64_t now)
{
    srt_mover *m = s->mover;
    m->catch_at = now + m->catch_pause_ms;
    m->catch_pause_ms = m->catch_pause_ms * 2 < CATCH_MOST_MS ? m->catch_pause_ms * 2 : CATCH_MOST_MS;
    catch_ended(n, s, now);
}

/* It stays until somebody mends it; the others leave. */
static void broken_stays(srt_node *n, srt_shard *s, int64_t now)
{
    srt_mover *m = s->mover;
    m->has_broken = 1;
    if (now < m->broken_told)
        return;
    m->broken_told = now + BROKEN_MS;
    srt_node_tell(n, SERIATIM_EVENT_WARNING, 1,
                  "shard %.*s: an id does not move, because its record is broken: see seriatim check",
                  (int)s->keys->prefix.len - 1, s->keys->prefix.data);
}

void srt_move_opened(srt_node *n, srt_shard *s, const srt_reply *reply, int64_t now)
{
    srt_mover *m = s->mover;
    int64_t stay;
    if (!srt_move_is_list(n, s, reply, 3, now))
        return;
    stay = srt_token_int(&reply->tokens[3]);
    if (stay % SRT_STAYS_BROKEN > 0)
        catch_soon(m, now);
    if (stay >= SRT_STAYS_BROKEN)
        broken_stays(n, s, now);
    if (srt_token_int(&reply->tokens[1]) == 0) {
        forget_sent(n, m);
        if (m->caught)
            caught_nothing(n, s, now);
        n->moves.table->choose(n, s, now); /* all of these ids stay, or have gone */
        return;
    }
    if (batch_take(n, m, reply) != SERIATIM_OK || !m->batch) {
        srt_move_anew(n, s, BATCH_FULL_MS, now);
        return;
    }
    forget_sent(n, m);
    if (is_ordered(n, m)) {
        srt_written_note(n, &m->written);
        srt_move_bring(n, s, now);
    } else {
        srt_move_make_sure(n, s, SRT_MOVE_OPENED, now);
    }
}

/* ---- Each destination ------------------------------------------------------------------------ */

/* The first id of the target behind `after` that has payloads to be copied; NULL: there is none. */
static srt_move_id *next_sliced(const srt_mover *m, srt_move_id *after)
{
    srt_move_id *id = after ? after->next : m->batch;
    while (id && (id->target != m->target || id->letters_len == 0))
        id = id->next;
    return id;
}

static void slice_on(srt_node *n, srt_shard *s, int64_t now)
{
    srt_mover *m = s->mover;
    strcpy(m->place, "0");
    srt_move_go(n, s, m->sliced ? SRT_MOVE_SLICE_OUT : SRT_MOVE_ARRIVE, now);
}

void srt_move_bring(srt_node *n, srt_shard *s, int64_t now)
{
    srt_mover *m = s->mover;
    m->target = m->batch->target;
    m->sliced = next_sliced(m, NULL);
    m->letter = 0;
    slice_on(n, s, now);
}

/* {place of the next slice, text}; {}: the batch is open no more */
static void sliced_out(srt_node *n, srt_shard *s, const srt_reply *reply, int64_t now)
{
    srt_mover *m = s->mover;
    const srt_token *t = reply->tokens;
    srt_bytes_clear(&m->slice);
    if (!srt_reply_is_list(reply, 2) || t[1].type != SRT_STRING || t[1].len >= SRT_MOVE_NUMBER) {
        srt_move_anew(n, s, 0, now);
        return;
    }
    memcpy(m->next_place, t[1].data, t[1].len + 1);
    srt_bytes_add(&m->slice, t[2].data, t[2].len);
    if (m->slice.failed) {
        m->slice.failed = 0;
        srt_move_anew(n, s, BATCH_FULL_MS, now);
        return;
    }
    srt_move_go(n, s, SRT_MOVE_SLICE_IN, now);
}

static void sliced_in(srt_node *n, srt_shard *s, int64_t now)
{
    srt_mover *m = s->mover;
    if (m->next_place[0]) {
        strcpy(m->place, m->next_place);
        srt_move_go(n, s, SRT_MOVE_SLICE_OUT, now);
        return;
    }
    if (++m->letter == m->sliced->letters_len) {
        m->sliced = next_sliced(m, m->sliced);
        m->letter = 0;
    }
    slice_on(n, s, now);
}

/*
 * A failover has forgotten them, so they are copied again. If they are missing then, too, the source has lost some: the
 * departure that is asked for an open batch counts them anew. Meanwhile other movers get their turn.
 */
static void slices_missing(srt_node *n, srt_shard *s, int64_t now)
{
    if (++s->mover->missing == 1) {
        srt_move_bring(n, s, now);
        return;
    }
    srt_node_tell(n, SERIATIM_EVENT_WARNING, 1, "shard %.*s: ids do not move: payloads of a batch are missing",
                  (int)s->keys->prefix.len - 1, s->keys->prefix.data);
    srt_move_anew(n, s, SRT_MOVE_REFUSED_MS, now);
}

/* {OK}, {AGAIN}: it was there already, {MORE}: to be sent again, {SLICES, id}: payloads are missing */
static void arrived(srt_node *n, srt_shard *s, const srt_reply *reply, int64_t now)
{
    const srt_mover *m = s->mover;
    const srt_token *t = reply->tokens;
    if (!srt_move_is_list(n, s, reply, 1, now))
        return;
    if (srt_token_is(&t[1], "MORE"))
        srt_move_go(n, s, SRT_MOVE_ARRIVE, now);
    else if (srt_token_is(&t[1], "SLICES"))
        slices_missing(n, s, now);
    else if (is_ordered(n, m))
        srt_move_arrived(n, s, now);
    else
        srt_move_make_sure(n, s, SRT_MOVE_ARRIVED, now);
}

void srt_move_arrived(srt_node *n, srt_shard *s, int64_t now)
{
    srt_move_go(n, s, SRT_MOVE_DEPARTED, now);
}

/*
 * The time that the calls of a batch took of Redis, as far as that is known. Beside full load a batch waits for other
 * calls most of the time, and a mover that rested behind that as well would move next to nothing.
 */
static int64_t time_of_redis(const srt_mover *m, int64_t took)
{
    int64_t cost = m->cost_us / 1000 + 1;
    return m->has_slices || took < cost ? took : cost;
}

/* Where a batch took long because it waited for other calls, smaller ones would take as long, so it stays as it is. */
static unsigned next_limit(const srt_mover *m, int64_t took)
{
    unsigned limit = m->limit;
    if (took > BATCH_LONG_MS) {
        if (BATCH_WAITS * time_of_redis(m, took) < took)
            return limit;
        return limit / 2 > BATCH_LEAST ? limit / 2 : BATCH_LEAST;
    }
    limit += took < BATCH_SHORT_MS ? limit : BATCH_STEP;
    return limit < BATCH_MOST ? limit : BATCH_MOST;
}

/*
 * The next batch is larger or smaller, by the time that this one took. One of ids whose run has ended cuts no rest
 * short and adds nothing to it.
 */
static void batch_ended(srt_node *n, srt_shard *s, int64_t now)
{
    srt_mover *m = s->mover;
    int64_t took = now - m->opened_at;
    m->has_moved = 1;
    if (m->caught) {
        catch_soon(m, now);
        catch_ended(n, s, now);
    } else {
        if (!m->has_slices || took > BATCH_LONG_MS)
            m->limit = next_limit(m, took);
        srt_move_rest_behind(n, s, time_of_redis(m, took), now);
    }
    n->moves.table->choose(n, s, now);
}

static void departed(srt_node *n, srt_shard *s, const srt_reply *reply, int64_t now)
{
    srt_mover *m = s->mover;
    srt_move_id **at = &m->batch;
    if (srt_token_is(&reply->tokens[0], "MORE")) {
        srt_move_go(n, s, SRT_MOVE_DEPARTED, now);
        return;
    }
    while (*at) {
        srt_move_id *id = *at;
        if (id->target != m->target) {
            at = &id->next;
            continue;
        }
        *at = id->next;
        srt_move_id_free(n, id);
    }
    if (m->batch)
        srt_move_bring(n, s, now);
    else
        batch_ended(n, s, now);
}

void srt_move_batch_answered(srt_node *n, srt_shard *s, const srt_reply *reply, int64_t now)
{
    switch (s->mover->step) {
    case SRT_MOVE_SLICE_OUT:
        sliced_out(n, s, reply, now);
        break;
    case SRT_MOVE_SLICE_IN:
        sliced_in(n, s, now);
        break;
    case SRT_MOVE_ARRIVE:
        arrived(n, s, reply, now);
        break;
    default:
        departed(n, s, reply, now);
    }
}
