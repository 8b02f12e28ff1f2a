/* early.c - requests to shards that were not turned to the layout of the request yet. */
#include "client/client.h"

#include <stdlib.h>

/* Was the request refused because the shard has an earlier layout than the request, or is closed for its deletion? */
int srt_client_is_early(seriatim_client *c, const srt_request *r, const seriatim_error *error)
{
    int64_t generation;
    const char *text;
    size_t len;
    if (error->status != SERIATIM_GENERATION || c->queue == SRT_NO_QUEUE || r->kind == SRT_CLIENT_LAYOUT ||
        c->failed != SERIATIM_OK || c->status != SERIATIM_AGAIN ||
        !srt_layout_refused(error->message, &generation, &text, &len))
        return 0;
    if (c->operation->before_answer)
        c->operation->before_answer(c, r);
    return llabs(generation) < c->registry.queues[c->queue]->generation;
}

/*
 * A shard that was not turned to the layout of a request yet. A copy of the request may lie in a connection that has
 * ended, and is executed when the shard is turned: so the request stays as it is, and is sent until it is answered.
 */
void srt_client_keep_early(seriatim_client *c, srt_request *r)
{
    if (!c->early)
        c->early_ms = c->spent_ms;
    r->next = c->early;
    c->early = r;
    c->early_count++;
}

static srt_request *early_take(seriatim_client *c)
{
    srt_request *r = c->early;
    if (!r)
        return NULL;
    c->early = r->next;
    c->early_count--;
    r->next = NULL;
    return r;
}

void srt_client_forget_held_up(seriatim_client *c)
{
    if (c->cluster.last.status == SERIATIM_TIMEOUT && !c->early)
        srt_error_clear(&c->cluster.last);
}

int srt_client_repeats(const seriatim_client *c)
{
    return c->early != NULL;
}

void srt_client_send_early(seriatim_client *c)
{
    srt_request *r;
    while ((r = early_take(c)) != NULL)
        srt_cluster_again(&c->cluster, r); /* NOMEM: it goes with the next connection */
}

void srt_client_repeat_early(seriatim_client *c)
{
    srt_request *r;
    if (!c->cluster.many) {
        if (c->spent_ms - c->early_ms >= SRT_CLIENT_EARLY_MS)
            srt_client_send_early(c);
        return;
    }
    while ((r = early_take(c)) != NULL)
        srt_cluster_delay(&c->cluster, r);
}

void srt_client_drop_early(seriatim_client *c)
{
    srt_request *r;
    while ((r = early_take(c)) != NULL)
        srt_cluster_done(&c->cluster, r);
}
