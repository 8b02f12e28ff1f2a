/* ick_import.c - adds what the Redis::Ick gem has stored: a string KEY, and sorted sets KEY/ick/{KEY}/pset and cset. */
#include "client/ick.h"
#include "model/stored.h"

#include <string.h>

#define IMPORT_VERSION "ick.v1"
#define IMPORT_SLICE (SRT_ICK_SLICE_BYTES / SERIATIM_ICK_MAX_MEMBER) /* members that one script adds */

/* A request that is a plain command; its first argument is the command. */
static srt_request *import_command(seriatim_client *c, const char *command)
{
    srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_none, NULL, 0);
    if (r)
        srt_request_text(r, command);
    else
        srt_operator_nomem(c);
    return r;
}

/* KEY/ick/{KEY}/pset or cset */
static void import_set_key(srt_bytes *out, const ick_call *call)
{
    srt_bytes_clear(out);
    srt_bytes_add(out, call->key.data, call->key.len);
    srt_bytes_adds(out, "/ick/{");
    srt_bytes_add(out, call->key.data, call->key.len);
    srt_bytes_adds(out, call->reserved_set ? "}/cset" : "}/pset");
}

static int import_scan(seriatim_client *c, ick_state *s, ick_call *call)
{
    srt_request *r = import_command(c, "ZSCAN");
    if (!r)
        return SERIATIM_NOMEM;
    import_set_key(&s->keys, call);
    srt_request_arg(r, s->keys.data, s->keys.len);
    r->tail.failed |= s->keys.failed | call->cursor.failed;
    srt_request_arg(r, call->cursor.data, call->cursor.len);
    srt_request_text(r, "COUNT");
    srt_request_int(r, SERIATIM_ICK_SLICE / 2);
    return srt_ick_send(c, s, call, r, ICK_SCAN);
}

int srt_ick_import_ask(seriatim_client *c, ick_state *s, ick_call *call)
{
    srt_request *r = import_command(c, "GET");
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_arg(r, call->key.data, call->key.len);
    return srt_ick_send(c, s, call, r, ICK_VERSION);
}

static int import_check_version(seriatim_client *c, const ick_call *call, const srt_token *version)
{
    int shown = (int)(call->key.len < 100 ? call->key.len : 100);
    if (srt_token_is(version, IMPORT_VERSION))
        return SERIATIM_OK;
    return srt_client_fail(c, srt_fail(&c->error, SERIATIM_INVALID,
                                       version->type == SRT_NIL
                                           ? "import: there is no set of Redis::Ick at the key \"%.*s\""
                                           : "import: the key \"%.*s\" does not hold \"ick.v1\"",
                                       shown, call->key.data));
}

/* Members from `at` on, at most IMPORT_SLICE of them. */
static int import_add(seriatim_client *c, ick_state *s, ick_call *call, const srt_token *at, size_t count)
{
    srt_request *r = srt_ick_request(c, s, call, srt_script_ick_add, 0);
    size_t i;
    if (!r)
        return SERIATIM_NOMEM;
    for (i = 0; i < count; i++) {
        srt_request_arg(r, at[2 * i + 1].data, at[2 * i + 1].len);
        srt_request_arg(r, at[2 * i].data, at[2 * i].len);
    }
    return srt_ick_send(c, s, call, r, ICK_SCRIPT);
}

static int import_check_members(seriatim_client *c, const srt_token *at, size_t count)
{
    size_t i;
    for (i = 0; i < count; i++, at += 2) {
        if (at[0].type != SRT_STRING || at[1].type != SRT_STRING)
            return srt_operator_protocol(c, "ZSCAN");
        if (at[0].len > SERIATIM_ICK_MAX_MEMBER)
            return srt_client_fail(c, srt_fail(&c->error, SERIATIM_INVALID,
                                               "import: the member \"%.60s...\" has %lu bytes; it must have at most %d",
                                               at[0].data, (unsigned long)at[0].len, SERIATIM_ICK_MAX_MEMBER));
    }
    return SERIATIM_OK;
}

/*
 * Goes on with the scan, or with the next set. Both sets are checked before the first member is added. The answers of
 * the adds come before that of the scan.
 */
static int import_go_on(seriatim_client *c, ick_state *s, ick_call *call, const srt_token *cursor)
{
    int whole = srt_token_is(cursor, "0");
    srt_bytes_clear(&call->cursor);
    srt_bytes_add(&call->cursor, cursor->data, cursor->len);
    if (whole && call->reserved_set && call->checked)
        return SERIATIM_OK;
    if (whole && call->reserved_set)
        call->checked = 1;
    /* The producer set comes first: a member that a consumer of the gem reserves meanwhile is then found in the other.
     */
    if (whole)
        call->reserved_set = !call->reserved_set;
    return import_scan(c, s, call);
}

int srt_ick_import_take(seriatim_client *c, ick_state *s, ick_call *call, const srt_request *r, const srt_reply *reply)
{
    const srt_token *at = reply->tokens;
    size_t count, first;
    int status;
    if (r->kind == ICK_VERSION) {
        status = import_check_version(c, call, at);
        srt_bytes_adds(&call->cursor, "0");
        return status == SERIATIM_OK ? import_scan(c, s, call) : status;
    }
    if (reply->count < 3 || at->type != SRT_ARRAY || at->integer != 2 || at[1].type != SRT_STRING ||
        at[2].type != SRT_ARRAY || at[2].integer % 2 != 0 || reply->count != 3 + (size_t)at[2].integer)
        return srt_operator_protocol(c, "ZSCAN");
    count = (size_t)at[2].integer / 2;
    status = import_check_members(c, at + 3, count);
    for (first = call->checked ? 0 : count; status == SERIATIM_OK && first < count; first += IMPORT_SLICE)
        status =
            import_add(c, s, call, at + 3 + 2 * first, count - first < IMPORT_SLICE ? count - first : IMPORT_SLICE);
    return status == SERIATIM_OK ? import_go_on(c, s, call, &at[1]) : status;
}
