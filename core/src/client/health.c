/* health.c - whether Redis is set up to keep jobs, as it says itself. */
#include "client/operator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct health_state {
    seriatim_health result;
    char policy[64], role[16], address[272];
    srt_arena memory;
    const char *info; /* the whole text of INFO */
} health_state;

enum { HEALTH_FIRST, HEALTH_OTHER }; /* kinds of requests: other masters are asked when the first has answered */

/* INFO needs fewer rights than CONFIG GET, and hosted Redis answers it. peer: NULL: any master. */
static int health_ask(seriatim_client *c, srt_redis *peer, int kind)
{
    srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_none, NULL, 0);
    if (!r)
        return srt_operator_nomem(c);
    srt_request_text(r, "INFO");
    r->kind = kind;
    srt_request_route(r, peer ? SRT_ROUTE_PEER : SRT_ROUTE_ANY, peer);
    return srt_client_send(c, r);
}

static int health_send(seriatim_client *c, srt_queue *queue)
{
    (void)queue;
    return health_ask(c, NULL, HEALTH_FIRST);
}

static int health_ask_others(seriatim_client *c)
{
    srt_redis *peer;
    size_t i;
    int status = SERIATIM_OK;
    for (i = 0; status == SERIATIM_OK && (peer = srt_cluster_master(&c->cluster, i)) != NULL; i++)
        if (peer != c->answering)
            status = health_ask(c, peer, HEALTH_OTHER);
    return status;
}

const char *srt_info_field(const char *text, const char *name, size_t *len)
{
    const char *at = strstr(text, name);
    if (!at)
        return NULL;
    at += strlen(name);
    *len = strcspn(at, "\r\n");
    return at;
}

/* Copies a field's text, as far as it fits; a field that is not there stays empty. */
static void health_copy(const char *text, const char *name, char *out, size_t cap)
{
    size_t len = 0;
    const char *field = srt_info_field(text, name, &len);
    if (field)
        snprintf(out, cap, "%.*s", (int)(len < cap ? len : cap), field);
}

/* What this Redis says, on top of what others said: of them all, what is worst for the jobs. */
static void health_take(health_state *h, const char *text)
{
    char policy[sizeof h->policy] = "";
    const char *field;
    size_t len;
    health_copy(text, "\nmaxmemory_policy:", policy, sizeof policy);
    if (!h->policy[0] || strcmp(h->policy, "noeviction") == 0)
        memcpy(h->policy, policy, sizeof policy);
    field = srt_info_field(text, "\naof_enabled:", &len);
    if (field && len == 1 && (*field == '0' || *field == '1') && h->result.append_only != 0)
        h->result.append_only = *field == '1';
    field = srt_info_field(text, "\nconnected_slaves:", &len);
    if (field && len > 0 && len < 9) {
        int replicas = (int)strtol(field, NULL, 10);
        if (h->result.replicas < 0 || replicas < h->result.replicas)
            h->result.replicas = replicas;
    }
}

static int health_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    health_state *h = c->state;
    const char *text = reply->tokens[0].data;
    if (reply->tokens[0].type != SRT_STRING)
        return srt_operator_protocol(c, "INFO");
    health_take(h, text);
    if (r->kind == HEALTH_OTHER)
        return SERIATIM_OK;
    h->info = srt_arena_copy(&h->memory, text, reply->tokens[0].len);
    if (!h->info)
        return srt_operator_nomem(c);
    health_copy(text, "\nrole:", h->role, sizeof h->role);
    if (c->cluster.many)
        srt_redis_address(c->answering, h->address, sizeof h->address);
    else
        snprintf(h->address, sizeof h->address, "%s", c->address ? c->address : "");
    return c->cluster.many ? health_ask_others(c) : SERIATIM_OK;
}

/* If an ACL forbids the question, the answer is "not known". */
static int health_on_refused(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    (void)c;
    (void)r;
    (void)error;
    return SERIATIM_OK;
}

static void health_release(seriatim_client *c)
{
    health_state *h = c->state;
    srt_arena_free(&h->memory);
    srt_free(c->mem, h, sizeof *h);
}

int seriatim_health_begin(seriatim_client *c)
{
    static const srt_operation operation = {
        .send = health_send, .on_reply = health_on_reply, .on_refused = health_on_refused, .release = health_release};
    health_state *h;
    int status = srt_operator_begin(c, sizeof *h);
    if (status != SERIATIM_OK)
        return status;
    h = c->state;
    h->result.maxmemory_policy = h->policy;
    h->result.role = h->role;
    h->result.address = h->address;
    h->result.append_only = h->result.replicas = -1;
    h->info = "";
    srt_arena_init(&h->memory, c->mem);
    return srt_client_start_alone(c, &operation);
}

static const health_state *health_of(const seriatim_client *c)
{
    return c->operation && c->operation->send == health_send && c->status == SERIATIM_OK ? c->state : NULL;
}

const seriatim_health *seriatim_health_result(const seriatim_client *c)
{
    const health_state *h = health_of(c);
    return h ? &h->result : NULL;
}

seriatim_text srt_health_field(const seriatim_client *c, const char *name)
{
    const health_state *h = health_of(c);
    seriatim_text text = {NULL, 0};
    text.data = h ? srt_info_field(h->info, name, &text.len) : NULL;
    return text;
}
