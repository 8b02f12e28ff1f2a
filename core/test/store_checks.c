/* store_checks.c - what the model of Redis checks of each answer of a node: order, fences, no payload lost. */
#include "store_parts.h"

#include <stdio.h>
#include <string.h>

int store_handed(store *s, const seriatim_claimed *job, int kind)
{
    store_id *id = store_find(s, job->id, job->id_len);
    size_t i;
    if (!id) {
        store_violated(s, "an unknown id was handed out");
        return 0;
    }
    if (!id->open || job->fence != id->open)
        return 0; /* of a run that was lost meanwhile */
    if (id->handed == id->open)
        store_violated(s, "%s: one run was handed out twice", id->name);
    id->handed = id->open;
    id->starts += kind == SERIATIM_RUN;
    if (job->retry_count != id->first.retry)
        store_violated(s, "%s: retry_count is %d, not %d", id->name, (int)job->retry_count, id->first.retry);
    if (job->payload_count != (size_t)id->first.count)
        store_violated(s, "%s: %d of %d payloads were handed out", id->name, (int)job->payload_count, id->first.count);
    for (i = 0; i < job->payload_count && !s->violation[0]; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", id->first.numbers[i]);
        if (strlen(text) != job->payloads[i].len || memcmp(text, job->payloads[i].data, job->payloads[i].len) != 0)
            store_violated(s, "%s: payload %s was not handed out in its place", id->name, text);
    }
    return 1;
}

void store_check_settle(store *s, const store_id *id, int64_t fence, int run)
{
    if (fence != id->open)
        store_violated(s, "%s: a settle was accepted that is not the open run's", id->name);
    else if (run && id->handed != fence)
        store_violated(s, "%s: an outcome of a run that no thread had", id->name);
}

void store_check_in_order(store *s, store_id *id, int count)
{
    int i;
    for (i = 0; i < count; i++) {
        while (id->expected < id->pushed && id->buried[id->expected])
            id->expected++;
        if (id->first.numbers[i] != id->expected)
            store_violated(s, "%s: payload %d is done, expected %d", id->name, id->first.numbers[i], id->expected);
        id->expected++;
    }
}

void store_check_done(store *s, store_id *id)
{
    store_check_in_order(s, id, id->first.count);
    id->runs++;
}

void store_check_plain(store *s, const store_id *id)
{
    if (store_is_scored(s, id) && id->first.count)
        store_violated(s, "%s: the score of a run that is done is not told", id->name);
}

void store_hooked(store *s, const seriatim_claimed *job)
{
    store_id *id = store_find(s, job->id, job->id_len);
    size_t i;
    char text[16];
    if (job->payload_count != 1 || job->payload_total != 1) {
        store_violated(s, "%s: the hook was told of %d payloads", id->name, (int)job->payload_count);
        return;
    }
    for (i = 0; i < s->notice_count; i++) {
        store_notice *notice = &s->notices[i];
        snprintf(text, sizeof text, "%d", notice->payload);
        if (notice->id != id || strlen(text) != job->payloads[0].len ||
            memcmp(text, job->payloads[0].data, strlen(text)) != 0)
            continue;
        s->retold += notice->told++ > 0;
        return;
    }
    s->retold++; /* another node told it meanwhile */
}

int store_empty(const store *s)
{
    size_t i;
    if (s->notice_count)
        return 0;
    for (i = 0; i < s->id_count; i++)
        if (s->ids[i].first.there || s->ids[i].behind.there)
            return 0;
    return 1;
}
