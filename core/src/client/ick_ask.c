/* ick_ask.c - the requests of the calls on two-phase commit sets, and their answers. */
#include "base/json.h"
#include "client/ick.h"
#include "model/stored.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Requests -------------------------------------------------------------------------------- */

static void ick_score_arg(srt_request *r, double score)
{
    char text[SRT_JSON_DOUBLE_SIZE];
    if (isinf(score))
        srt_request_text(r, score > 0 ? "inf" : "-inf");
    else
        srt_request_arg(r, text, srt_json_double_text(score, text));
}

/* How many members the next slice has: at most SERIATIM_ICK_SLICE, with at most SRT_ICK_SLICE_BYTES bytes. */
static size_t ick_slice_size(const ick_call *call)
{
    size_t left = call->count - call->sent, bytes = 0, i;
    for (i = 0; i < left && i < SERIATIM_ICK_SLICE; i++) {
        bytes += call->members[call->sent + i].len;
        if (bytes > SRT_ICK_SLICE_BYTES)
            break;
    }
    return i;
}

/* The members of the next slice; counts them as sent. */
static const seriatim_ick_member *ick_slice(ick_call *call, size_t *count)
{
    const seriatim_ick_member *first = call->members + call->sent;
    *count = ick_slice_size(call);
    call->sent += *count;
    return first;
}

static int ick_ask_add(seriatim_client *c, ick_state *s, ick_call *call)
{
    srt_request *r = srt_ick_request(c, s, call, srt_script_ick_add, 0);
    const seriatim_ick_member *members;
    size_t i, count;
    if (!r)
        return SERIATIM_NOMEM;
    members = ick_slice(call, &count);
    for (i = 0; i < count; i++) {
        ick_score_arg(r, members[i].score);
        srt_request_arg(r, members[i].data, members[i].len);
    }
    return srt_ick_send(c, s, call, r, ICK_SCRIPT);
}

static void ick_token_arg(srt_request *r, int64_t token)
{
    if (token)
        srt_request_int(r, token);
    else
        srt_request_text(r, "");
}

static void ick_members_arg(srt_request *r, ick_call *call)
{
    size_t i, count;
    const seriatim_ick_member *members = ick_slice(call, &count);
    for (i = 0; i < count; i++)
        srt_request_arg(r, members[i].data, members[i].len);
}

static int ick_ask_commit(seriatim_client *c, ick_state *s, ick_call *call)
{
    srt_request *r = srt_ick_request(c, s, call, srt_script_ick_commit, 1);
    if (!r)
        return SERIATIM_NOMEM;
    ick_token_arg(r, call->token);
    ick_members_arg(r, call);
    return srt_ick_send(c, s, call, r, ICK_SCRIPT);
}

static int ick_ask_reserve(seriatim_client *c, ick_state *s, ick_call *call)
{
    srt_request *r = srt_ick_request(c, s, call, srt_script_ick_reserve, 1);
    if (!r)
        return SERIATIM_NOMEM;
    ick_token_arg(r, call->current);
    srt_request_int(r, call->max_size);
    srt_request_int(r, (int64_t)call->result->count);
    srt_request_int(r, call->us);
    srt_request_int(r, call->backwash);
    ick_token_arg(r, call->token);
    ick_members_arg(r, call);
    return srt_ick_send(c, s, call, r, ICK_SCRIPT);
}

static int ick_ask_plain(seriatim_client *c, ick_state *s, ick_call *call, int script)
{
    srt_request *r = srt_ick_request(c, s, call, script, 0);
    return r ? srt_ick_send(c, s, call, r, ICK_SCRIPT) : SERIATIM_NOMEM;
}

/* The next request of a call. */
static int ick_ask(seriatim_client *c, ick_state *s, ick_call *call)
{
    switch (call->kind) {
    case ICK_ADD:
        return ick_ask_add(c, s, call);
    case ICK_COMMIT:
        return ick_ask_commit(c, s, call);
    case ICK_EXCHANGE: /* the last slice of what is to be committed goes with the reserve */
        return call->count - call->sent > ick_slice_size(call) ? ick_ask_commit(c, s, call)
                                                               : ick_ask_reserve(c, s, call);
    case ICK_RESERVE:
        return ick_ask_reserve(c, s, call);
    case ICK_STATS:
        return ick_ask_plain(c, s, call, srt_script_ick_stats);
    case ICK_DELETE:
        return ick_ask_plain(c, s, call, srt_script_ick_delete);
    default:
        return srt_ick_import_ask(c, s, call);
    }
}

/* ---- Order ----------------------------------------------------------------------------------- */

/* 1: the call may be several scripts. Any reserve may: it first takes back what expired, or, with backwash, its own. */
static int ick_is_large(const ick_call *call)
{
    return call->kind == ICK_RESERVE || call->kind == ICK_EXCHANGE || call->kind == ICK_IMPORT ||
           call->count > ick_slice_size(call);
}

/* By the name of the set, then in the order of the trip. */
static int ick_by_set(const void *left, const void *right)
{
    const ick_call *a = *(ick_call *const *)left, *b = *(ick_call *const *)right;
    int order = srt_id_compare(a->name.data, a->name.len, b->name.data, b->name.len);
    return order ? order : (a > b) - (a < b);
}

int srt_ick_order(ick_state *s)
{
    ick_call **calls = srt_arena_alloc(&s->memory, (s->count + 1) * sizeof *calls);
    ick_set *sets = srt_arena_alloc(&s->memory, (s->count + 1) * sizeof *sets);
    size_t i;
    if (!calls || !sets)
        return SERIATIM_NOMEM;
    memset(sets, 0, (s->count + 1) * sizeof *sets);
    for (i = 0; i < s->count; i++)
        calls[i] = &s->calls[i];
    qsort(calls, s->count, sizeof *calls, ick_by_set);
    for (i = 0; i < s->count; i++) {
        const ick_call *last = i ? calls[i - 1] : NULL;
        int same =
            last && srt_id_compare(last->name.data, last->name.len, calls[i]->name.data, calls[i]->name.len) == 0;
        calls[i]->set = same ? last->set : &sets[i];
    }
    return SERIATIM_OK;
}

/*
 * Calls are sent without waiting for each other, but on one set only calls of one kind that are one script each. A
 * later call must see an earlier one whole, and a reserve between the scripts of another would take its reservations
 * over. A script that Redis does not know, or whose slot is moving, is sent once more, behind what was sent meanwhile.
 */
static int ick_may_send(const ick_call *call)
{
    const ick_set *set = call->set;
    return set->open == 0 || (set->kind == call->kind && !set->is_large);
}

static int ick_begin_call(seriatim_client *c, ick_state *s, ick_call *call)
{
    call->set->open++;
    call->set->kind = call->kind;
    call->set->is_large = ick_is_large(call);
    return ick_ask(c, s, call);
}

int srt_ick_go_on(seriatim_client *c, ick_state *s)
{
    int status = SERIATIM_OK;
    while (status == SERIATIM_OK && s->begun < s->count && ick_may_send(&s->calls[s->begun]))
        status = ick_begin_call(c, s, &s->calls[s->begun++]);
    return status;
}

/* ---- Answers --------------------------------------------------------------------------------- */

static int ick_take_added(seriatim_client *c, ick_call *call, const srt_reply *reply)
{
    if (!srt_reply_is_list(reply, 2))
        return srt_operator_protocol(c, "ick_add");
    call->result->added += srt_token_int(&reply->tokens[1]);
    call->result->lowered += srt_token_int(&reply->tokens[2]);
    return SERIATIM_OK;
}

static int ick_take_number(seriatim_client *c, int64_t *sum, const srt_reply *reply)
{
    if (reply->tokens[0].type != SRT_INTEGER)
        return srt_operator_protocol(c, "ick");
    *sum += srt_token_int(&reply->tokens[0]);
    return SERIATIM_OK;
}

/* Adds the pairs of an answer to what the call gives. */
static int ick_take_pairs(seriatim_client *c, ick_state *s, ick_call *call, const srt_token *at, size_t count)
{
    seriatim_ick_result *result = call->result;
    void *found = call->found;
    size_t i;
    if (srt_grow(s->mem, &found, &call->found_cap, result->count + count, sizeof *call->found) != SERIATIM_OK)
        return srt_operator_nomem(c);
    result->members = call->found = found;
    for (i = 0; i < count; i++, at += 2) {
        seriatim_ick_member *member = &call->found[result->count];
        if (at[0].type != SRT_STRING || at[0].len != 8 || at[1].type != SRT_STRING)
            return srt_operator_protocol(c, "ick_reserve");
        member->score = srt_little_double(at[0].data);
        member->len = at[1].len;
        member->data = srt_arena_copy(&s->memory, at[1].data, at[1].len);
        if (!member->data)
            return srt_operator_nomem(c);
        result->count++;
    }
    return SERIATIM_OK;
}

/* *more: the call needs another script. */
static int ick_take_reserved(seriatim_client *c, ick_state *s, ick_call *call, const srt_reply *reply, int *more)
{
    const srt_token *at = reply->tokens;
    int64_t what;
    if (!srt_reply_is_list(reply, 3) || reply->count % 2 != 0 || reply->count != (size_t)at[0].integer + 1)
        return srt_operator_protocol(c, "ick_reserve");
    what = srt_token_int(&at[2]);
    call->result->token = call->current = srt_token_int(&at[1]);
    call->result->ended += srt_token_int(&at[3]);
    call->backwash &= what != 1;
    *more = what != 0;
    if (*more && call->current == 0)
        return srt_operator_protocol(c, "ick_reserve");
    return ick_take_pairs(c, s, call, at + 4, (reply->count - 4) / 2);
}

static double ick_score(const srt_token *token)
{
    return token->len == 8 ? srt_little_double(token->data) : NAN;
}

/* fmin takes the other number where one is NaN. */
static void ick_total(seriatim_ick_result *result)
{
    result->total.size = result->producer.size + result->consumer.size;
    result->total.lowest = fmin(result->producer.lowest, result->consumer.lowest);
    result->total.highest = fmax(result->producer.highest, result->consumer.highest);
}

/* The names of the keys, for the answer. */
static int ick_name_keys(seriatim_client *c, ick_state *s, const ick_call *call)
{
    seriatim_ick_result *result = call->result;
    size_t prefix;
    srt_bytes_clear(&s->keys);
    srt_key_ick(&s->keys, c->registry.ns.data, call->name.data, call->name.len);
    prefix = s->keys.len;
    srt_bytes_adds(&s->keys, "psetcset:");
    srt_bytes_add(&s->keys, call->consumer.data, call->consumer.len);
    if (s->keys.failed)
        return srt_operator_nomem(c);
    result->producer_key.len = prefix + 4;
    result->producer_key.data = srt_arena_copy(&s->memory, s->keys.data, prefix + 4);
    memmove(s->keys.data + prefix, s->keys.data + prefix + 4, s->keys.len - prefix - 4);
    result->consumer_key.len = s->keys.len - 4;
    result->consumer_key.data = srt_arena_copy(&s->memory, s->keys.data, s->keys.len - 4);
    return result->producer_key.data && result->consumer_key.data ? SERIATIM_OK : srt_operator_nomem(c);
}

static int ick_take_stats(seriatim_client *c, ick_state *s, const ick_call *call, const srt_reply *reply)
{
    const srt_token *at = reply->tokens;
    seriatim_ick_result *result = call->result;
    if (at->type == SRT_ARRAY && at->integer == 0)
        return SERIATIM_OK;
    if (!srt_reply_is_list(reply, 8))
        return srt_operator_protocol(c, "ick_stats");
    result->exists = 1;
    result->version = SRT_ICK_VERSION;
    result->producer.size = srt_token_int(&at[2]);
    result->consumer.size = srt_token_int(&at[3]);
    result->consumers = srt_token_int(&at[4]);
    result->producer.lowest = ick_score(&at[5]);
    result->producer.highest = ick_score(&at[6]);
    result->consumer.lowest = ick_score(&at[7]);
    result->consumer.highest = ick_score(&at[8]);
    ick_total(result);
    return ick_name_keys(c, s, call);
}

/* The answer of a script. */
static int ick_take(seriatim_client *c, ick_state *s, ick_call *call, const srt_request *r, const srt_reply *reply)
{
    int more = call->sent < call->count, status;
    if (r->kind != ICK_SCRIPT)
        return srt_ick_import_take(c, s, call, r, reply);
    if (r->script == srt_script_ick_add)
        status = ick_take_added(c, call, reply);
    else if (r->script == srt_script_ick_commit)
        status = ick_take_number(c, &call->result->ended, reply);
    else if (r->script == srt_script_ick_delete)
        status = ick_take_number(c, &call->result->deleted, reply);
    else if (r->script == srt_script_ick_stats)
        status = ick_take_stats(c, s, call, reply);
    else
        status = ick_take_reserved(c, s, call, reply, &more);
    return status == SERIATIM_OK && more ? ick_ask(c, s, call) : status;
}

int srt_ick_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    ick_state *s = c->state;
    ick_call *call = &s->calls[r->place];
    int status;
    call->asked--;
    status = ick_take(c, s, call, r, reply);
    if (call->asked == 0)
        call->set->open--;
    return status == SERIATIM_OK ? srt_ick_go_on(c, s) : status;
}
