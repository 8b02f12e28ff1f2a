/* integrity_request.c - what the check asks for next. */
#include "client/integrity.h"

#include <string.h>

#define INTEGRITY_READY_SLICE 150
#define INTEGRITY_CONFIRM 25 /* ids of a call that looks through the ends of the ready list */

static const char *const integrity_words[INTEGRITY_STEPS] = {
    "",        "",      "jobs", "",        "ready",     "next",   "running", "dead",      "due",  "parked",  "unproven",
    "suspect", "retry", "died", "overrun", "scheduled", "traced", "scores",  "scoreends", "told", "outboxes"};

/* Parts of check_scheduled.lua. */
static const char *const integrity_scheduled[] = {"scheduled", "sched", "schedmap", NULL};

/* Parts of check_events.lua. */
static const char *const integrity_events[] = {"traced", "events", NULL};

/* Parts of check_scores.lua. */
static const char *const integrity_scores[] = {"scores", "scoreends", NULL};

/* Parts of check_outboxes.lua. */
static const char *const integrity_outboxes[] = {"outboxes", "outbox", NULL};

/* A part of check_notices.lua, as those of srt_integrity_single. */
static const char *const integrity_notices[] = {"told", NULL};

/* Kinds of a shard that are there only at times, each one key. */
const char *const srt_integrity_single[] = {"notices", "tellers", NULL};

static int integrity_ask_types(seriatim_client *c, integrity_state *k)
{
    srt_request *r = srt_client_shard_request(c, k->queue, k->shard, srt_script_check_types);
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_int(r, k->repair);
    r->place = k->shard;
    r->kind = INTEGRITY_TYPES;
    return srt_client_send(c, r);
}

int srt_integrity_ask_list(seriatim_client *c, integrity_state *k, int64_t from)
{
    srt_request *r = srt_client_shard_request(c, k->queue, k->shard, srt_script_list);
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_text(r, "ready");
    srt_request_text(r, "down");
    srt_request_text(r, "-inf");
    srt_request_text(r, "+inf");
    srt_request_int(r, from);
    srt_request_int(r, INTEGRITY_READY_SLICE);
    r->kind = (int)k->step;
    return srt_client_send(c, r);
}

int srt_integrity_listed(const char *const *words, const char *at, size_t len)
{
    size_t i;
    for (i = 0; words[i]; i++)
        if (strlen(words[i]) == len && memcmp(words[i], at, len) == 0)
            return 1;
    return 0;
}

srt_request *srt_integrity_request(seriatim_client *c, integrity_state *k, unsigned shard, const char *part,
                                   const srt_token *cursor)
{
    size_t len = strlen(part);
    int script = srt_integrity_listed(srt_integrity_single, part, len)  ? srt_script_check_notices
                 : srt_integrity_listed(integrity_notices, part, len)   ? srt_script_check_notices
                 : srt_integrity_listed(integrity_scheduled, part, len) ? srt_script_check_scheduled
                 : srt_integrity_listed(integrity_events, part, len)    ? srt_script_check_events
                 : srt_integrity_listed(integrity_scores, part, len)    ? srt_script_check_scores
                 : srt_integrity_listed(integrity_outboxes, part, len)  ? srt_script_check_outboxes
                                                                        : srt_script_check;
    srt_request *r = srt_client_shard_request(c, k->queue, shard, script);
    if (!r)
        return NULL;
    srt_request_text(r, part);
    srt_request_arg(r, cursor ? cursor->data : "0", cursor ? cursor->len : 1);
    srt_request_int(r, k->repair);
    r->place = shard;
    return r;
}

int srt_integrity_ask(seriatim_client *c, integrity_state *k, const srt_token *cursor)
{
    srt_request *r = srt_integrity_request(c, k, k->shard, integrity_words[k->step], cursor);
    size_t i;
    if (!r)
        return SERIATIM_NOMEM;
    if (k->step == INTEGRITY_CONFIRM_READY) {
        for (i = 0; i < INTEGRITY_CONFIRM && k->confirmed < k->missing_count; i++, k->confirmed++)
            srt_request_arg(r, k->missing[k->confirmed].data, k->missing[k->confirmed].len);
    }
    r->kind = (int)k->step;
    return srt_client_send(c, r);
}

int srt_integrity_ask_scan(seriatim_client *c, integrity_state *k, const srt_token *cursor, int kind)
{
    srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_none, NULL, 0);
    if (!r)
        return srt_operator_nomem(c);
    srt_request_text(r, "SCAN");
    srt_request_arg(r, cursor ? cursor->data : "0", cursor ? cursor->len : 1);
    srt_request_text(r, "MATCH");
    srt_request_arg(r, k->pattern.data, k->pattern.len);
    srt_request_text(r, "COUNT");
    srt_request_int(r, SRT_SLICE);
    r->kind = kind;
    if (!cursor)
        memset(&k->scan, 0, sizeof k->scan);
    srt_scan_route(&k->scan, &c->cluster, r);
    return srt_client_send(c, r);
}

int srt_integrity_go_on(seriatim_client *c, integrity_state *k)
{
    if (k->step == INTEGRITY_LIST_AGAIN && k->missing_count == 0)
        k->step = INTEGRITY_CONFIRM_READY;
    if (k->step == INTEGRITY_CONFIRM_READY && k->confirmed == k->missing_count)
        k->step = INTEGRITY_NEXT;
    if (k->step == INTEGRITY_STEPS && k->shard + 1 < srt_queue_addressed(k->queue)) {
        k->shard++;
        k->step = INTEGRITY_TYPES;
    }
    if (k->step == INTEGRITY_TYPES) {
        srt_arena_reset(&k->memory);
        k->missing_count = k->confirmed = 0;
        k->unlisted = 0;
        return integrity_ask_types(c, k);
    }
    if (k->step == INTEGRITY_LIST_READY || k->step == INTEGRITY_LIST_AGAIN) {
        k->listed_count = 0;
        return srt_integrity_ask_list(c, k, 0);
    }
    return k->step == INTEGRITY_SCAN ? srt_integrity_ask_scan(c, k, NULL, INTEGRITY_SCAN)
                                     : srt_integrity_ask(c, k, NULL);
}
