/* master_facts.c - what each master of a cluster says of itself, and which of its slots are on their way to another. */
#include "client/operator.h"

#include <stdlib.h>
#include <string.h>

enum { FACTS_TIME, FACTS_INFO, FACTS_NODES }; /* kinds of requests */

typedef struct facts_state {
    srt_arena memory;
    srt_master_facts *masters;
    size_t count;
} facts_state;

static int facts_ask(seriatim_client *c, srt_redis *peer, size_t place, int kind)
{
    srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_none, NULL, 0);
    if (!r)
        return srt_operator_nomem(c);
    if (kind == FACTS_NODES) {
        srt_request_text(r, "CLUSTER");
        srt_request_text(r, "NODES");
    } else {
        srt_request_text(r, kind == FACTS_TIME ? "TIME" : "INFO");
    }
    r->kind = kind;
    r->place = place;
    srt_request_route(r, peer ? SRT_ROUTE_PEER : SRT_ROUTE_ANY, peer);
    return srt_client_send(c, r);
}

/* The masters are known when the first answer has come. */
static int facts_send(seriatim_client *c, srt_queue *queue)
{
    (void)queue;
    return facts_ask(c, NULL, 0, FACTS_TIME);
}

static int facts_ask_all(seriatim_client *c)
{
    facts_state *s = c->state;
    srt_redis *peer;
    int status = SERIATIM_OK;
    while (srt_cluster_master(&c->cluster, s->count))
        s->count++;
    s->masters = srt_arena_alloc(&s->memory, (s->count + 1) * sizeof *s->masters);
    if (!s->masters)
        return srt_operator_nomem(c);
    memset(s->masters, 0, (s->count + 1) * sizeof *s->masters);
    for (s->count = 0; (peer = srt_cluster_master(&c->cluster, s->count)) != NULL; s->count++) {
        srt_master_facts *facts = &s->masters[s->count];
        srt_redis_address(peer, facts->address, sizeof facts->address);
        facts->slots = peer->slots;
        facts->info = "";
        status = facts_ask(c, peer, s->count, FACTS_INFO);
        if (status == SERIATIM_OK)
            status = facts_ask(c, peer, s->count, FACTS_NODES);
        if (status != SERIATIM_OK)
            return status;
    }
    return SERIATIM_OK;
}

/* ---- CLUSTER NODES --------------------------------------------------------------------------- */

/* The line of the node with this id, or, id NULL, of the one that answered; NULL: there is none. */
static const char *facts_line(const char *text, const char *id, size_t len)
{
    const char *line, *end;
    for (line = text; *line; line = *end ? end + 1 : end) {
        const char *myself = strstr(line, "myself");
        end = line + strcspn(line, "\n");
        if (id ? strncmp(line, id, len) == 0 : myself && myself < end)
            return line;
    }
    return NULL;
}

/* "127.0.0.1:7001" of "127.0.0.1:7001@17001,host", the second word of a line. */
static int facts_take_address(srt_moving_slot *moving, const char *line)
{
    const char *address = line ? line + strcspn(line, " \n") : "";
    size_t len = *address == ' ' ? strcspn(++address, "@, \n") : 0;
    if (len >= sizeof moving->to)
        len = 0;
    memcpy(moving->to, address, len);
    moving->to[len] = '\0';
    return len > 0;
}

/* "[93->-ID]" are slots that it gives away; "[77-<-ID]" those that it takes, which their owner tells. */
static int facts_read_moving(srt_arena *memory, srt_master_facts *facts, const char *text)
{
    const char *line = facts_line(text, NULL, 0), *end, *at;
    size_t most = 0;
    facts->tells_moving = line != NULL;
    if (!line)
        return SERIATIM_OK;
    end = line + strcspn(line, "\n");
    for (at = line; at < end; at++)
        most += *at == '[';
    facts->moving = srt_arena_alloc(memory, (most + 1) * sizeof *facts->moving);
    if (!facts->moving)
        return SERIATIM_NOMEM;
    for (at = line; at < end; at++) {
        srt_moving_slot *moving = &facts->moving[facts->moving_count];
        char *arrow;
        if (*at != '[')
            continue;
        moving->slot = (unsigned)strtoul(at + 1, &arrow, 10);
        if (strncmp(arrow, "->-", 3) != 0 || moving->slot >= SRT_SLOTS)
            continue;
        facts_take_address(moving, facts_line(text, arrow + 3, strcspn(arrow + 3, "] \n")));
        facts->moving_count++;
    }
    return SERIATIM_OK;
}

/* ---- Answers ------------------------------------------------------------------------------- */

static int facts_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    facts_state *s = c->state;
    char *text;
    if (r->kind == FACTS_TIME)
        return facts_ask_all(c);
    if (reply->tokens[0].type != SRT_STRING)
        return srt_operator_protocol(c, r->kind == FACTS_INFO ? "INFO" : "CLUSTER NODES");
    text = srt_arena_copy(&s->memory, reply->tokens[0].data, reply->tokens[0].len);
    if (!text)
        return srt_operator_nomem(c);
    if (r->kind == FACTS_INFO)
        s->masters[r->place].info = text;
    else if (facts_read_moving(&s->memory, &s->masters[r->place], text) != SERIATIM_OK)
        return srt_operator_nomem(c);
    return SERIATIM_OK;
}

/* If an ACL forbids the question, the answer is "not known". */
static int facts_on_refused(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    if (r->kind != FACTS_TIME)
        return SERIATIM_OK;
    c->error = *error;
    return srt_client_fail(c, error->status);
}

static void facts_release(seriatim_client *c)
{
    facts_state *s = c->state;
    srt_arena_free(&s->memory);
    srt_free(c->mem, s, sizeof *s);
}

int srt_master_facts_begin(seriatim_client *c)
{
    static const srt_operation operation = {
        .send = facts_send, .on_reply = facts_on_reply, .on_refused = facts_on_refused, .release = facts_release};
    int status = srt_operator_begin(c, sizeof(facts_state));
    if (status != SERIATIM_OK)
        return status;
    srt_arena_init(&((facts_state *)c->state)->memory, c->mem);
    return srt_client_start_alone(c, &operation);
}

const srt_master_facts *srt_master_facts_result(const seriatim_client *c, size_t *count)
{
    const facts_state *s = c->operation && c->operation->send == facts_send ? c->state : NULL;
    *count = s ? s->count : 0;
    return s ? s->masters : NULL;
}
