/*
 * elsewhere.c - calls for one id while ids move: to the old shard first, which acts only if the id is there, then to
 * the new one. That the id is not there is believed when a replica of the old shard has what that shard has written
 * before.
 */
#include "client/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ELSEWHERE_WAIT_MS 100 /* a WAIT ends after this time, and is repeated */

int srt_queue_moves_id(const srt_queue *queue, const char *id, size_t len)
{
    uint32_t crc = srt_crc32(id, len);
    return queue->old_count && crc % queue->old_count != crc % queue->shards_count;
}

srt_request *srt_client_id_request(seriatim_client *c, srt_queue *queue, const char *id, size_t len, int script,
                                   int place)
{
    char generation[48];
    srt_request *r;
    unsigned to = seriatim_shard_of(id, len, queue->shards_count);
    if (!srt_queue_moves_id(queue, id, len))
        return srt_client_shard_request(c, queue, to, script);
    r = srt_session_begin(srt_cluster_pool(&c->cluster), script,
                          &queue->shards[seriatim_shard_of(id, len, queue->old_count)]->args, SRT_SHARD_KEYS);
    if (!r) {
        srt_client_fail(c, srt_fail_plain(&c->error, SERIATIM_NOMEM));
        return NULL;
    }
    snprintf(generation, sizeof generation, "%lld here %d", (long long)queue->generation, place);
    srt_request_text(r, generation);
    r->next_shard = to + 1;
    return r;
}

/* To the new shard, with the same arguments. */
static void elsewhere_send_on(seriatim_client *c, srt_request *r)
{
    srt_queue *queue = c->registry.queues[c->queue];
    char generation[64];
    srt_request *next = srt_session_begin(srt_cluster_pool(&c->cluster), r->script,
                                          &queue->shards[r->next_shard - 1]->args, SRT_SHARD_KEYS);
    if (next) {
        snprintf(generation, sizeof generation, "%lld from %.0f", (long long)queue->generation, r->floor);
        srt_request_text(next, generation);
        srt_request_copy_args(next, r, SRT_SHARD_KEYS + 1);
        next->kind = r->kind;
        next->place = r->place;
        next->part = r->part;
        next->subject = r->subject;
        next->number = r->number;
        srt_client_send(c, next);
    } else {
        srt_client_fail(c, srt_fail_plain(&c->error, SERIATIM_NOMEM));
    }
    c->asked--;
    srt_cluster_done(&c->cluster, r);
}

/* number: by which the answer finds the call */
static void elsewhere_ask(seriatim_client *c, int waits, int64_t number)
{
    srt_request *r = waits ? srt_wait_request(&c->cluster, c->answering, 1, ELSEWHERE_WAIT_MS)
                           : srt_role_request(&c->cluster, c->answering);
    if (!r) {
        srt_client_fail(c, srt_fail_plain(&c->error, SERIATIM_NOMEM));
        return;
    }
    r->kind = SRT_CLIENT_ABSENCE;
    r->number = number;
    srt_client_send(c, r);
}

void srt_client_note_on_its_way(seriatim_client *c)
{
    srt_fail(&c->cluster.last, SERIATIM_TIMEOUT,
             "timed out: the id is on its way to another shard, and the server that moves it does not go on; start a "
             "server of the queue if none lives, and try again after its lease_time");
}

int srt_client_take_elsewhere(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    const char *words = r->next_shard && error->status == SERIATIM_SERVER ? strstr(error->message, "ELSEWHERE ") : NULL;
    if (!words || c->failed != SERIATIM_OK || c->status != SERIATIM_AGAIN)
        return 0;
    words += strlen("ELSEWHERE ");
    r->floor = strtod(words + strcspn(words, "0123456789"), NULL);
    if (strncmp(words, "again", 5) == 0) {
        srt_client_keep_early(c, r);
        srt_client_note_on_its_way(c);
        return 1;
    }
    srt_client_forget_held_up(c);
    r->session = NULL;
    r->absence = ++c->absences;
    r->next = c->absent;
    c->absent = r;
    elsewhere_ask(c, 0, r->absence);
    return 1;
}

void srt_client_take_absence(seriatim_client *c, srt_request *asked, const srt_reply *reply,
                             const seriatim_error *error)
{
    srt_replicated replicated = error->status == SERIATIM_OK ? srt_replicated_of(reply) : SRT_REPLICATED;
    srt_request **link = &c->absent, *r;
    while (*link && (*link)->absence != asked->number)
        link = &(*link)->next;
    r = *link;
    if (!r)
        return;
    if (replicated == SRT_REPLICATED_ASK || replicated == SRT_REPLICATED_LATER) {
        elsewhere_ask(c, replicated == SRT_REPLICATED_ASK, asked->number);
        return;
    }
    *link = r->next;
    r->next = NULL;
    if (replicated == SRT_REPLICATED)
        elsewhere_send_on(c, r);
    else
        srt_client_keep_early(c, r); /* a replica by now: the next master is asked anew */
}

void srt_client_forget_absences(seriatim_client *c)
{
    while (c->absent) {
        srt_request *r = c->absent;
        c->absent = r->next;
        srt_client_keep_early(c, r);
    }
}
