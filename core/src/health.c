/* health.c - whether Redis is set up to keep jobs, as it says itself. */
#include "operator.h"

#include <stdio.h>
#include <string.h>

typedef struct health_state {
    seriatim_health result;
    char policy[64];
} health_state;

/* INFO needs fewer rights than CONFIG GET, and hosted Redis answers it. */
static int health_send(seriatim_client *c, srt_queue *queue)
{
    srt_request *r = srt_session_begin(&c->session, srt_script_none, NULL, 0);
    (void)queue;
    if (!r)
        return srt_operator_nomem(c);
    srt_request_text(r, "INFO");
    return srt_client_send(c, r);
}

/* What follows `name`, "\nfield:", in the text, up to the end of the line; NULL when there is no such line. */
static const char *health_field(const char *text, const char *name, size_t *len)
{
    const char *at = strstr(text, name);
    if (!at)
        return NULL;
    at += strlen(name);
    *len = strcspn(at, "\r\n");
    return at;
}

static int health_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    health_state *h = c->state;
    const char *field;
    size_t len;
    (void)r;
    if (reply->tokens[0].type != SRT_STRING)
        return srt_operator_protocol(c, "INFO");
    field = health_field(reply->tokens[0].data, "\nmaxmemory_policy:", &len);
    if (field)
        snprintf(h->policy, sizeof h->policy, "%.*s", (int)(len < sizeof h->policy ? len : sizeof h->policy), field);
    field = health_field(reply->tokens[0].data, "\naof_enabled:", &len);
    if (field && len == 1 && (*field == '0' || *field == '1'))
        h->result.append_only = *field == '1';
    return SERIATIM_OK;
}

/* Who may not ask does not know. */
static int health_on_refused(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    (void)c;
    (void)r;
    (void)error;
    return SERIATIM_OK;
}

static void health_release(seriatim_client *c)
{
    srt_free(c->mem, c->state, sizeof(health_state));
}

int seriatim_health_begin(seriatim_client *c)
{
    static const srt_operation operation = {
        .send = health_send, .on_reply = health_on_reply, .on_refused = health_on_refused, .release = health_release};
    health_state *h;
    int status = srt_client_begin(c);
    if (status != SERIATIM_OK)
        return status;
    h = srt_operator_state(c, sizeof *h);
    if (!h)
        return SERIATIM_NOMEM;
    h->result.maxmemory_policy = h->policy;
    h->result.append_only = -1;
    c->state = h;
    return srt_client_start(c, &operation, SRT_NO_QUEUE);
}

const seriatim_health *seriatim_health_result(const seriatim_client *c)
{
    return c->operation && c->operation->send == health_send && c->status == SERIATIM_OK
               ? &((const health_state *)c->state)->result
               : NULL;
}
