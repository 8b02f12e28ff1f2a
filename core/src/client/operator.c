/* operator.c - what queries, actions and checks share: ids by shard, bounds, views of records. */
#include "client/operator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Answers ------------------------------------------------------------------------------- */

void *srt_operator_state(seriatim_client *c, size_t size)
{
    void *state = srt_alloc(c->mem, size);
    if (!state)
        srt_fail_plain(&c->error, SERIATIM_NOMEM);
    return state;
}

int srt_operator_begin(seriatim_client *c, size_t size)
{
    int status = srt_client_begin(c);
    if (status != SERIATIM_OK)
        return status;
    c->state = srt_operator_state(c, size);
    return c->state ? SERIATIM_OK : SERIATIM_NOMEM;
}

int srt_operator_protocol(seriatim_client *c, const char *script)
{
    return srt_client_fail(c, srt_fail(&c->error, SERIATIM_PROTOCOL, "the answer of %s cannot be read", script));
}

int srt_operator_nomem(seriatim_client *c)
{
    return srt_client_fail(c, srt_fail_plain(&c->error, SERIATIM_NOMEM));
}

double srt_operator_seconds(const srt_token *us)
{
    return (double)srt_token_int(us) / 1e6;
}

int srt_operator_is_never(const srt_token *us)
{
    return srt_token_int(us) >= SRT_FOREVER;
}

/* ---- Ids ----------------------------------------------------------------------------------- */

int srt_id_compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t len = a_len < b_len ? a_len : b_len;
    int order = len ? memcmp(a, b, len) : 0;
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

int srt_target_by_key(const void *left, const void *right)
{
    const srt_target *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return srt_id_compare(a->id, a->len, b->id, b->len);
}

int srt_target_by_id(const void *left, const void *right)
{
    const srt_target *a = left, *b = right;
    int order;
    if (a->shard != b->shard)
        return a->shard < b->shard ? -1 : 1;
    order = srt_id_compare(a->id, a->len, b->id, b->len);
    return order ? order : (a->key > b->key) - (a->key < b->key);
}

int srt_targets_copy(seriatim_client *c, srt_arena *arena, const seriatim_text *ids, size_t count, srt_target **targets)
{
    size_t i;
    if (count > 0 && !ids)
        return srt_fail(&c->error, SERIATIM_INVALID, "ids are missing");
    *targets = srt_arena_alloc(arena, count * sizeof **targets);
    for (i = 0; *targets && i < count; i++) {
        srt_target *target = &(*targets)[i];
        if (!ids[i].data || ids[i].len < 1 || ids[i].len > SERIATIM_MAX_ID)
            return srt_fail(&c->error, SERIATIM_INVALID, "ids[%lu] must be 1 to %d bytes, not %lu", (unsigned long)i,
                            SERIATIM_MAX_ID, (unsigned long)ids[i].len);
        target->id = srt_arena_copy(arena, ids[i].data, ids[i].len);
        if (!target->id)
            return srt_fail_plain(&c->error, SERIATIM_NOMEM);
        target->len = ids[i].len;
        target->key = (int64_t)i;
        target->shard = 0;
    }
    return *targets ? SERIATIM_OK : srt_fail_plain(&c->error, SERIATIM_NOMEM);
}

size_t srt_targets_route(srt_target *targets, size_t count, unsigned shards_count)
{
    size_t i, kept = 0;
    for (i = 0; i < count; i++)
        targets[i].shard = seriatim_shard_of(targets[i].id, targets[i].len, shards_count);
    if (count > 1)
        qsort(targets, count, sizeof *targets, srt_target_by_id);
    for (i = 0; i < count; i++)
        if (kept == 0 ||
            srt_id_compare(targets[i].id, targets[i].len, targets[kept - 1].id, targets[kept - 1].len) != 0)
            targets[kept++] = targets[i];
    return kept;
}

static int target_moves(const srt_queue *queue, const srt_target *target)
{
    return queue && srt_queue_moves_id(queue, target->id, target->len);
}

size_t srt_targets_chunk(const srt_queue *queue, const srt_target *targets, size_t count, size_t first)
{
    size_t n = 1;
    if (target_moves(queue, &targets[first]))
        return 1;
    while (first + n < count && n < SRT_SLICE && targets[first + n].shard == targets[first].shard &&
           !target_moves(queue, &targets[first + n]))
        n++;
    return n;
}

/* ---- Bounds -------------------------------------------------------------------------------- */

static int bound_word(seriatim_text text, const char *word)
{
    size_t i;
    if (text.len != strlen(word))
        return 0;
    for (i = 0; i < text.len; i++)
        if ((text.data[i] | 32) != (word[i] | 32))
            return 0;
    return 1;
}

int srt_decimal_read(const char *at, size_t len, double *value)
{
    const char *end = at + len;
    int negative = len && *at == '-', seen = 0, point = 0, exponent = 0, sign = 1, power = 0;
    uint64_t whole = 0;
    if (len && (*at == '-' || *at == '+'))
        at++;
    for (; at < end && ((*at >= '0' && *at <= '9') || (*at == '.' && !point)); at++) {
        if (*at == '.') {
            point = 1;
            continue;
        }
        seen = 1;
        if (whole < UINT64_C(100000000000000000)) {
            whole = whole * 10 + (uint64_t)(*at - '0');
            exponent -= point;
        } else {
            exponent += !point;
        }
    }
    if (!seen)
        return 0;
    if (at < end && (*at | 32) == 'e') {
        at++;
        if (at < end && (*at == '-' || *at == '+'))
            sign = *at++ == '-' ? -1 : 1;
        if (at == end)
            return 0;
        for (; at < end && *at >= '0' && *at <= '9'; at++)
            if (power < 10000)
                power = power * 10 + (*at - '0');
    }
    exponent += sign * power;
    *value =
        (negative ? -1 : 1) * (exponent < 0 ? (double)whole / pow(10, -exponent) : (double)whole * pow(10, exponent));
    return at == end;
}

/* The whole number that a bound stands for: the smallest of a minimum, the largest of a maximum. */
static int bound_number(seriatim_client *c, const char *name, seriatim_text text, double scale, int low, int64_t *bound)
{
    const double limit = 9e15;
    double value;
    size_t skip = text.len && text.data[0] == '(' ? 1 : 0;
    seriatim_text number = {text.data, text.len};
    if (!text.data)
        return SERIATIM_OK;
    number.data += skip;
    number.len -= skip;
    if (bound_word(number, "-inf") || bound_word(number, "-infinity")) {
        value = -limit;
    } else if (bound_word(number, "inf") || bound_word(number, "+inf") || bound_word(number, "infinity") ||
               bound_word(number, "+infinity")) {
        value = limit;
    } else {
        if (!srt_decimal_read(number.data, number.len, &value))
            return srt_fail(&c->error, SERIATIM_INVALID,
                            "%s must be a number, \"(\" and a number, -inf or +inf, not \"%.*s\"", name,
                            (int)(text.len < 60 ? text.len : 60), text.data);
        value *= scale;
        if (scale > 1)
            value = floor(value + 0.5);
    }
    if (skip)
        value = low ? floor(value) + 1 : ceil(value) - 1;
    else
        value = low ? ceil(value) : floor(value);
    *bound = (int64_t)(value < -limit ? -limit : value > limit ? limit : value);
    return SERIATIM_OK;
}

int srt_range_read(seriatim_client *c, srt_range *range, seriatim_text min, seriatim_text max, double scale)
{
    int status;
    range->low = -SRT_FOREVER;
    range->high = SRT_FOREVER;
    status = bound_number(c, "min", min, scale, 1, &range->low);
    return status == SERIATIM_OK ? bound_number(c, "max", max, scale, 0, &range->high) : status;
}

int srt_id_bound_read(seriatim_client *c, srt_arena *arena, srt_id_bound *bound, const char *name, seriatim_text text)
{
    bound->kind = strcmp(name, "min") == 0 ? '-' : '+';
    bound->id = "";
    bound->len = 0;
    if (!text.data)
        return SERIATIM_OK;
    if (text.len < 1 || !memchr("-+[(", text.data[0], 4) ||
        (text.len > 1 && (text.data[0] == '-' || text.data[0] == '+')))
        return srt_fail(&c->error, SERIATIM_INVALID, "%s must be \"-\", \"+\", \"[\" or \"(\" and an id, not \"%.*s\"",
                        name, (int)(text.len < 60 ? text.len : 60), text.data);
    bound->kind = text.data[0];
    bound->len = text.len - 1;
    bound->id = srt_arena_copy(arena, text.data + 1, bound->len);
    return bound->id ? SERIATIM_OK : srt_fail_plain(&c->error, SERIATIM_NOMEM);
}

/* Where an id lies beside a bound: below, at or above it. */
static int bound_side(const srt_id_bound *bound, const char *id, size_t len)
{
    if (bound->kind == '-' || bound->kind == '+')
        return bound->kind == '-' ? 1 : -1;
    return srt_id_compare(id, len, bound->id, bound->len);
}

int srt_id_within(const srt_id_bound *min, const srt_id_bound *max, const char *id, size_t len)
{
    int above = bound_side(min, id, len), below = bound_side(max, id, len);
    return (above > 0 || (above == 0 && min->kind == '[')) && (below < 0 || (below == 0 && max->kind == '['));
}

/* ---- Views --------------------------------------------------------------------------------- */

static const char *view_state(const srt_record *record, srt_part part, int64_t now_us, int behind, int unites)
{
    if (part == SRT_PART_DEAD)
        return "dead";
    if (unites && !behind)
        return "waiting";
    if (part == SRT_PART_RUNNING)
        return "running";
    if (!behind && record->place == SRT_PLACE_PARKED)
        return "parked";
    if (!behind && record->place == SRT_PLACE_IN_DOUBT)
        return record->mark == SRT_MARK_SUSPECT ? "suspect" : "unproven";
    if (record->retry_count >= 0)
        return "retrying";
    return record->due_us > now_us ? "delayed" : "waiting";
}

void srt_record_view(seriatim_record *view, const srt_record *record, srt_part part, int64_t now_us,
                     const srt_token *run)
{
    int unites = run && run->len > 2 && run->data[1] == SRT_RUN_UNITING; /* nothing runs of it */
    view->state = view_state(record, part, now_us, view->behind, unites);
    if (part == SRT_PART_DEAD)
        view->updated_at = (double)record->due_us / 1e6;
    else
        view->perform_in = (double)record->due_us / 1e6;
    view->retry_count = record->retry_count;
    view->error = record->error;
    view->error_len = record->error_len;
    view->payloads = record->payloads;
    view->payload_count = record->count;
    view->payload_total = record->count + record->missing;
    if (part == SRT_PART_RUNNING && run && run->len > 2 && !unites) {
        srt_token fence = {SRT_STRING, 0, run->data + 2, run->len - 2};
        view->fence = srt_token_int(&fence);
    }
}
