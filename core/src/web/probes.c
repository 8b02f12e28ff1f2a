/* probes.c - answers /livez and /readyz. */
#include "web/web.h"

#include <string.h>

int srt_web_livez_next(seriatim_client *c, srt_web *w)
{
    (void)c;
    return w->stalled ? srt_web_refuse(w, 503, "%s", w->stalled) : SRT_WEB_DONE;
}

static int ready_send(seriatim_client *c, srt_queue *queue)
{
    srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_try_write, NULL, 0);
    srt_bytes key;
    (void)queue;
    if (!r)
        return srt_operator_nomem(c);
    srt_bytes_init(&key, c->mem);
    srt_key_global(&key, c->registry.ns.data, "nodes", "-");
    srt_request_arg(r, key.data, key.len);
    r->tail.failed |= key.failed;
    r->keys = 1;
    srt_bytes_free(&key);
    return srt_client_send(c, r);
}

/* Why Redis refuses a push. The probe is open to all, who need not read the words of Redis. */
static const char *ready_refusal(const char *error)
{
    static const char *const refusals[][2] = {
        {"READONLY", "Redis is a replica"},
        {"OOM", "Redis is out of memory"},
        {"MISCONF", "Redis cannot write its snapshot or its append-only file"},
        {"NOREPLICAS", "Redis has fewer replicas than min-replicas-to-write"},
        {"NOPERM", "Redis' user may not push"},
        {"user executing the script", "Redis' user may not push"}, /* what Redis says of a command in a script */
    };
    size_t i;
    for (i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (strstr(error, refusals[i][0]))
            return refusals[i][1];
    return "Redis does not accept a push";
}

static int ready_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    const srt_token *error = &reply->tokens[0];
    (void)r;
    if (error->type != SRT_STRING)
        return srt_operator_protocol(c, "try_write");
    if (error->len > 0)
        srt_web_refuse(c->web, 503, "%s", ready_refusal(error->data));
    return SERIATIM_OK;
}

int srt_web_readyz_next(seriatim_client *c, srt_web *w)
{
    static const srt_operation operation = {.send = ready_send, .on_reply = ready_on_reply};
    return w->step == 0 ? srt_client_begin_alone(c, &operation) : SRT_WEB_DONE;
}

void srt_web_well_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    (void)c;
    (void)w;
    srt_json_begin_object(&out->json);
    srt_web_bool(out, "ok", 1);
    srt_json_end_object(&out->json);
}
