/* integrity_ick.c - does every key of a two-phase commit set agree with the others? */
#include "client/integrity.h"

#include <string.h>

int srt_integrity_of_ick(const char *at, const char *brace, const char *end)
{
    const char *kind = brace + 2;
    if (brace - at < 6 || memcmp(at, "{/ick/", 6) != 0 || end - brace < 3 || brace[1] != ':')
        return 0;
    return srt_integrity_listed(srt_ick_kinds, kind, (size_t)(end - kind)) ||
           (end - kind > 5 && memcmp(kind, "cset:", 5) == 0);
}

/* The KEYS of the set whose prefix the key begins with, as bulk strings; with the key itself if it is a cset. */
static srt_request *integrity_begin_ick(seriatim_client *c, seriatim_text key, size_t prefix, int cset)
{
    srt_request *r;
    srt_bytes keys;
    srt_bytes_init(&keys, c->mem);
    srt_key_ick_args(&keys, key.data, prefix);
    if (cset)
        srt_resp_arg(&keys, key.data, key.len);
    r = keys.failed ? NULL
                    : srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_check_ick, &keys,
                                        SRT_ICK_KEYS + (size_t)(cset != 0));
    srt_bytes_free(&keys);
    return r;
}

static int integrity_ask_ick(seriatim_client *c, const integrity_state *k, size_t place, const srt_token *cursor)
{
    seriatim_text key = k->ick_keys[place];
    const char *brace = memchr(key.data + k->prefix, '}', key.len - k->prefix);
    size_t prefix = (size_t)(brace - key.data) + 2;
    const char *kind = key.data + prefix;
    int cset = key.len > prefix + 5 && memcmp(kind, "cset:", 5) == 0;
    srt_request *r = integrity_begin_ick(c, key, prefix, cset);
    if (!r)
        return srt_operator_nomem(c);
    srt_request_arg(r, kind, cset ? 4 : key.len - prefix);
    srt_request_arg(r, cursor ? cursor->data : "0", cursor ? cursor->len : 1);
    srt_request_int(r, k->repair);
    if (cset)
        srt_request_arg(r, kind + 5, key.len - prefix - 5);
    r->kind = INTEGRITY_ICK;
    r->place = place;
    return srt_client_send(c, r);
}

int srt_integrity_ick(seriatim_client *c, integrity_state *k, const srt_token *key)
{
    void *keys = k->ick_keys;
    seriatim_text *kept;
    if (srt_grow(k->mem, &keys, &k->ick_cap, k->ick_count + 1, sizeof *kept) != SERIATIM_OK)
        return srt_operator_nomem(c);
    k->ick_keys = keys;
    kept = &k->ick_keys[k->ick_count];
    kept->data = srt_arena_copy(&k->memory, key->data, key->len);
    kept->len = key->len;
    if (!kept->data)
        return srt_operator_nomem(c);
    return integrity_ask_ick(c, k, k->ick_count++, NULL);
}

int srt_integrity_on_ick(seriatim_client *c, integrity_state *k, const srt_request *r, const srt_reply *reply)
{
    size_t first = k->count;
    int status = srt_integrity_take(c, k, r, reply);
    for (; first < k->count; first++)
        k->findings[first].shard = 0; /* the place of the request is the number of a key */
    if (status != SERIATIM_OK || srt_token_is(&reply->tokens[1], "0"))
        return status;
    return integrity_ask_ick(c, k, r->place, &reply->tokens[1]);
}

int srt_integrity_ick_refused(seriatim_client *c, integrity_state *k, const srt_request *r, const char *message)
{
    return srt_integrity_find_plain(c, k, "error", k->ick_keys[r->place], message);
}
