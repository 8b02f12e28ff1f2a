/* queue_names.c - the names of all queues of a namespace, found by SCAN: the keys of their layouts tell them. */
#include "model/queue_names.h"
#include "wire/keys.h"

#include <stdio.h>
#include <string.h>

#define NAMES_SLICE 4000 /* keys that Redis looks at in one call, which takes it up to 3 ms */
#define NAMES_LONGEST 512

void srt_queue_names_init(srt_queue_names *names, const seriatim_allocator *mem)
{
    memset(names, 0, sizeof *names);
    srt_arena_init(&names->memory, mem);
    strcpy(names->cursor, "0");
}

void srt_queue_names_free(srt_queue_names *names)
{
    const seriatim_allocator *mem = names->memory.mem;
    if (!mem)
        return;
    srt_arena_free(&names->memory);
    srt_free(mem, names->names, names->cap * sizeof *names->names);
    memset(names, 0, sizeof *names);
}

void srt_queue_names_clear(srt_queue_names *names)
{
    srt_arena_reset(&names->memory);
    names->count = names->slices = 0;
    memset(&names->scan, 0, sizeof names->scan);
    strcpy(names->cursor, "0");
}

srt_request *srt_queue_names_request(const srt_queue_names *names, srt_session *session, const char *ns)
{
    srt_request *r = srt_session_begin(session, srt_script_none, NULL, 0);
    srt_bytes pattern;
    if (!r)
        return NULL;
    srt_bytes_init(&pattern, names->memory.mem);
    srt_key_layouts(&pattern, ns);
    srt_request_text(r, "SCAN");
    srt_request_text(r, names->cursor);
    srt_request_text(r, "MATCH");
    srt_request_arg(r, pattern.data, pattern.len);
    srt_request_text(r, "COUNT");
    srt_request_int(r, NAMES_SLICE);
    r->tail.failed |= pattern.failed;
    srt_bytes_free(&pattern);
    return r;
}

/* [cursor, [key, ...]] */
static int names_is_slice(const srt_queue_names *names, const srt_reply *reply)
{
    const srt_token *at = reply->tokens;
    size_t i;
    if (reply->count < 3 || at[0].type != SRT_ARRAY || at[0].integer != 2 || at[1].type != SRT_STRING ||
        at[1].len >= sizeof names->cursor || at[2].type != SRT_ARRAY || at[2].integer != (int64_t)reply->count - 3)
        return 0;
    for (i = 3; i < reply->count; i++)
        if (at[i].type != SRT_STRING)
            return 0;
    return 1;
}

static int names_add(srt_queue_names *names, const srt_bytes *name)
{
    const seriatim_allocator *mem = names->memory.mem;
    void *grown = names->names;
    const char *copy = srt_arena_copy(&names->memory, name->data, name->len);
    if (!copy || srt_grow(mem, &grown, &names->cap, names->count + 1, sizeof *names->names) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    names->names = grown;
    names->names[names->count].data = copy;
    names->names[names->count++].len = name->len;
    return SERIATIM_OK;
}

int srt_queue_names_take(srt_queue_names *names, const char *ns, const srt_reply *reply, size_t most)
{
    srt_bytes name;
    size_t i;
    int status = SERIATIM_OK;
    if (!names_is_slice(names, reply))
        return SERIATIM_PROTOCOL;
    srt_bytes_init(&name, names->memory.mem);
    for (i = 3; i < reply->count && status != SERIATIM_NOMEM; i++) {
        status = srt_key_read_layout(&name, ns, reply->tokens[i].data, reply->tokens[i].len);
        if (status == SERIATIM_OK && name.len >= 1 && name.len <= NAMES_LONGEST && names->count < most)
            status = names_add(names, &name);
    }
    srt_bytes_free(&name);
    if (status == SERIATIM_NOMEM)
        return status;
    snprintf(names->cursor, sizeof names->cursor, "%.*s", (int)reply->tokens[1].len, reply->tokens[1].data);
    names->slices++;
    return SERIATIM_OK;
}

int srt_queue_names_complete(const srt_queue_names *names)
{
    return names->slices > 0 && strcmp(names->cursor, "0") == 0 && !names->scan.more;
}

void srt_queue_names_route(srt_queue_names *names, const srt_cluster *cluster, srt_request *r)
{
    srt_scan_route(&names->scan, cluster, r);
}

void srt_queue_names_turn(srt_queue_names *names, const srt_cluster *cluster)
{
    names->scan.more = strcmp(names->cursor, "0") == 0 && srt_scan_turn(&names->scan, cluster);
}
