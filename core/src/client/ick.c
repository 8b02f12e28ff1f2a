/* ick.c - two-phase commit sets: checks and copies the calls of one trip to Redis. */
#include "client/ick.h"
#include "seriatim/binding/ick.h"

#include <math.h>
#include <string.h>

#define ICK_CONSUMER "consumer"
#define ICK_RESERVE_TIME 30.0

static const char *const ick_names[] = {"ickadd",   "ickreserve", "ickcommit", "ickexchange",
                                        "ickstats", "ickdel",     "import"};

static void ick_release(seriatim_client *c)
{
    ick_state *s = c->state;
    size_t i;
    for (i = 0; i < s->count; i++) {
        srt_bytes_free(&s->calls[i].cursor);
        srt_free(s->mem, s->calls[i].found, s->calls[i].found_cap * sizeof *s->calls[i].found);
    }
    srt_free(s->mem, s->calls, s->cap * sizeof *s->calls);
    srt_arena_free(&s->memory);
    srt_bytes_free(&s->keys);
    srt_free(s->mem, s, sizeof *s);
}

static int ick_send(seriatim_client *c, srt_queue *queue)
{
    (void)queue;
    return srt_ick_go_on(c, c->state);
}

static const srt_operation ick_operation = {.send = ick_send, .on_reply = srt_ick_on_reply, .release = ick_release};

int seriatim_ick_begin(seriatim_client *c)
{
    ick_state *s;
    int status = srt_operator_begin(c, sizeof *s);
    if (status != SERIATIM_OK)
        return status;
    s = c->state;
    s->mem = c->mem;
    s->open = 1;
    srt_arena_init(&s->memory, c->mem);
    srt_bytes_init(&s->keys, c->mem);
    c->operation = &ick_operation;
    return SERIATIM_OK;
}

static ick_state *ick_of(const seriatim_client *c)
{
    return c->operation == &ick_operation ? c->state : NULL;
}

/* The trip cannot be sent any more. Returns status, whose text is in c->error. */
static int ick_refuse(ick_state *s, int status)
{
    s->open = 0;
    return status;
}

int seriatim_ick_send(seriatim_client *c)
{
    ick_state *s = ick_of(c);
    size_t i;
    if (!s || !s->open)
        return srt_fail(&c->error, SERIATIM_INVALID, "there are no calls of two-phase commit sets to send");
    s->open = 0;
    s->results = srt_arena_alloc(&s->memory, (s->count + 1) * sizeof *s->results);
    if (!s->results || srt_ick_order(s) != SERIATIM_OK)
        return srt_operator_nomem(c);
    memset(s->results, 0, (s->count + 1) * sizeof *s->results);
    for (i = 0; i < s->count; i++)
        s->calls[i].result = &s->results[i];
    return srt_client_start_alone(c, &ick_operation);
}

const seriatim_ick_result *seriatim_ick_results(const seriatim_client *c, size_t *count)
{
    const ick_state *s = ick_of(c);
    int valid = s && s->results && c->status == SERIATIM_OK;
    *count = valid ? s->count : 0;
    return valid ? s->results : NULL;
}

/* ---- The calls ------------------------------------------------------------------------------- */

static int ick_check_text(seriatim_client *c, const char *call, const char *what, seriatim_text text, size_t least,
                          size_t most)
{
    if (!text.data && text.len)
        return srt_fail(&c->error, SERIATIM_INVALID, "%s: %s is missing", call, what);
    if (text.len >= least && text.len <= most)
        return SERIATIM_OK;
    return srt_fail(&c->error, SERIATIM_INVALID, "%s: %s has %lu bytes; it must have %lu to %lu", call, what,
                    (unsigned long)text.len, (unsigned long)least, (unsigned long)most);
}

static int ick_check(seriatim_client *c, const char *call, const seriatim_ick *ick)
{
    int status = ick_check_text(c, call, "the name", ick->name, 0, SERIATIM_ICK_MAX_NAME);
    if (status == SERIATIM_OK && ick->consumer.data)
        status = ick_check_text(c, call, "consumer", ick->consumer, 1, SERIATIM_ICK_MAX_CONSUMER);
    if (status == SERIATIM_OK && ick->reserve_time != 0 && !(ick->reserve_time >= 0.1 && ick->reserve_time <= 86400))
        status = srt_fail(&c->error, SERIATIM_INVALID, "%s: reserve_time is %g; it must be 0.1 to 86400 seconds", call,
                          ick->reserve_time);
    return status;
}

static int ick_check_member(seriatim_client *c, ick_kind kind, size_t i, const seriatim_ick_member *member)
{
    if (!member->data && member->len)
        return srt_fail(&c->error, SERIATIM_INVALID, "%s: member %lu is missing", ick_names[kind],
                        (unsigned long)i + 1);
    if (member->len > SERIATIM_ICK_MAX_MEMBER)
        return srt_fail(&c->error, SERIATIM_INVALID, "%s: member %lu has %lu bytes; it must have at most %d",
                        ick_names[kind], (unsigned long)i + 1, (unsigned long)member->len, SERIATIM_ICK_MAX_MEMBER);
    if (kind == ICK_ADD && isnan(member->score))
        return srt_fail(&c->error, SERIATIM_INVALID,
                        "%s: the score of member %lu is NaN; it must be a number, which may be infinite",
                        ick_names[kind], (unsigned long)i + 1);
    return SERIATIM_OK;
}

static int ick_nomem(seriatim_client *c, ick_state *s)
{
    return ick_refuse(s, srt_fail_plain(&c->error, SERIATIM_NOMEM));
}

/* Copies the name and the consumer. Returns 0 if memory is short. */
static int ick_copy(ick_state *s, ick_call *call, const seriatim_ick *ick)
{
    static const seriatim_text consumer = {ICK_CONSUMER, sizeof ICK_CONSUMER - 1};
    call->name.len = ick->name.len;
    call->name.data = srt_arena_copy(&s->memory, ick->name.len ? ick->name.data : "", ick->name.len);
    call->consumer = ick->consumer.data ? ick->consumer : consumer;
    call->consumer.data = srt_arena_copy(&s->memory, call->consumer.data, call->consumer.len);
    return call->name.data && call->consumer.data;
}

/* Adds a call of which only the kind and what `ick` says are set. */
static int ick_append(seriatim_client *c, const seriatim_ick *ick, ick_kind kind, ick_call **appended)
{
    ick_state *s = ick_of(c);
    void *calls;
    ick_call *call;
    int status;
    if (!s || !s->open)
        return srt_fail(&c->error, SERIATIM_INVALID, "%s: seriatim_ick_begin comes first", ick_names[kind]);
    status = ick_check(c, ick_names[kind], ick);
    if (status != SERIATIM_OK)
        return ick_refuse(s, status);
    calls = s->calls;
    if (srt_grow(s->mem, &calls, &s->cap, s->count + 1, sizeof *call) != SERIATIM_OK)
        return ick_nomem(c, s);
    s->calls = calls;
    call = *appended = &s->calls[s->count++];
    memset(call, 0, sizeof *call);
    srt_bytes_init(&call->cursor, s->mem);
    call->kind = kind;
    call->token = ick->token;
    call->us = (int64_t)((ick->reserve_time != 0 ? ick->reserve_time : ICK_RESERVE_TIME) * 1e6);
    return ick_copy(s, call, ick) ? SERIATIM_OK : ick_nomem(c, s);
}

static int ick_take_members(seriatim_client *c, ick_call *call, const seriatim_ick_member *members, size_t count)
{
    ick_state *s = c->state;
    seriatim_ick_member *copies;
    size_t i;
    if (count && !members)
        return ick_refuse(s, srt_fail(&c->error, SERIATIM_INVALID, "%s: members are missing", ick_names[call->kind]));
    copies = srt_arena_alloc(&s->memory, (count + 1) * sizeof *copies);
    if (!copies)
        return ick_nomem(c, s);
    for (i = 0; i < count; i++) {
        int status = ick_check_member(c, call->kind, i, &members[i]);
        if (status != SERIATIM_OK)
            return ick_refuse(s, status);
        copies[i] = members[i];
        copies[i].data = srt_arena_copy(&s->memory, members[i].len ? members[i].data : "", members[i].len);
        if (!copies[i].data)
            return ick_nomem(c, s);
    }
    call->members = copies;
    call->count = count;
    return SERIATIM_OK;
}

int seriatim_ick_add(seriatim_client *c, const seriatim_ick *ick, const seriatim_ick_member *members, size_t count)
{
    ick_call *call;
    int status = ick_append(c, ick, ICK_ADD, &call);
    return status == SERIATIM_OK ? ick_take_members(c, call, members, count) : status;
}

int seriatim_ick_commit(seriatim_client *c, const seriatim_ick *ick, const seriatim_ick_member *members, size_t count)
{
    ick_call *call;
    int status = ick_append(c, ick, ICK_COMMIT, &call);
    return status == SERIATIM_OK ? ick_take_members(c, call, members, count) : status;
}

static int ick_reserve(seriatim_client *c, const seriatim_ick *ick, ick_kind kind, int64_t max_size, int backwash,
                       ick_call **appended)
{
    int status = ick_append(c, ick, kind, appended);
    if (status != SERIATIM_OK)
        return status;
    if (max_size < 0 || max_size > SERIATIM_ICK_MAX_SIZE)
        return ick_refuse(c->state, srt_fail(&c->error, SERIATIM_INVALID, "%s: max_size is %ld; it must be 0 to %d",
                                             ick_names[kind], (long)max_size, SERIATIM_ICK_MAX_SIZE));
    (*appended)->max_size = max_size;
    (*appended)->backwash = backwash != 0;
    return SERIATIM_OK;
}

int seriatim_ick_reserve(seriatim_client *c, const seriatim_ick *ick, int64_t max_size, int backwash)
{
    ick_call *call;
    return ick_reserve(c, ick, ICK_RESERVE, max_size, backwash, &call);
}

int seriatim_ick_exchange(seriatim_client *c, const seriatim_ick *ick, int64_t max_size, int backwash,
                          const seriatim_ick_member *members, size_t count)
{
    ick_call *call;
    int status = ick_reserve(c, ick, ICK_EXCHANGE, max_size, backwash, &call);
    return status == SERIATIM_OK ? ick_take_members(c, call, members, count) : status;
}

int seriatim_ick_stats(seriatim_client *c, const seriatim_ick *ick)
{
    ick_call *call;
    return ick_append(c, ick, ICK_STATS, &call);
}

int seriatim_ick_delete(seriatim_client *c, const seriatim_ick *ick)
{
    ick_call *call;
    return ick_append(c, ick, ICK_DELETE, &call);
}

int seriatim_ick_import(seriatim_client *c, const seriatim_ick *ick, seriatim_text key)
{
    ick_call *call;
    int status = ick_append(c, ick, ICK_IMPORT, &call);
    ick_state *s = c->state;
    if (status == SERIATIM_OK)
        status = ick_check_text(c, "import", "the key", key, 0, SERIATIM_ICK_MAX_NAME);
    if (status != SERIATIM_OK)
        return s && ick_of(c) ? ick_refuse(s, status) : status;
    call->key.len = key.len;
    call->key.data = srt_arena_copy(&s->memory, key.len ? key.data : "", key.len);
    return call->key.data ? SERIATIM_OK : ick_nomem(c, s);
}

/* ---- For bindings ----------------------------------------------------------------------------- */

int srt_ick_call(seriatim_client *c, const char *name, size_t len, const seriatim_ick *ick, int64_t max_size,
                 int backwash, const seriatim_ick_member *members, size_t count)
{
    size_t kind = 0, kinds = sizeof ick_names / sizeof *ick_names;
    seriatim_text key = {NULL, 0};
    while (kind < kinds && (strlen(ick_names[kind]) != len || memcmp(ick_names[kind], name, len) != 0))
        kind++;
    if (kind == ICK_ADD)
        return seriatim_ick_add(c, ick, members, count);
    if (kind == ICK_COMMIT)
        return seriatim_ick_commit(c, ick, members, count);
    if (kind == ICK_RESERVE)
        return seriatim_ick_reserve(c, ick, max_size, backwash);
    if (kind == ICK_EXCHANGE)
        return seriatim_ick_exchange(c, ick, max_size, backwash, members, count);
    if (kind == ICK_STATS)
        return seriatim_ick_stats(c, ick);
    if (kind == ICK_DELETE)
        return seriatim_ick_delete(c, ick);
    if (kind != ICK_IMPORT || count != 1)
        return srt_fail(&c->error, SERIATIM_INVALID, "there is no such call of a two-phase commit set");
    key.data = members[0].data;
    key.len = members[0].len;
    return seriatim_ick_import(c, ick, key);
}

int srt_ick_is_whole(double score)
{
    return score >= -9007199254740992.0 && score <= 9007199254740992.0 && floor(score) == score;
}
