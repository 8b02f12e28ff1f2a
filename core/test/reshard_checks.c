/* reshard_checks.c - what must hold while ids move: each payload runs once and in order, and an id is in one shard. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reshard_sim.h"

void rsim_violated(rsim *s, const char *format, ...)
{
    va_list args;
    if (s->violation[0])
        return;
    va_start(args, format);
    vsnprintf(s->violation, sizeof s->violation, format, args);
    va_end(args);
}

/* "3.17" is payload 17 of client 3. */
static void read_payload(const seriatim_claimed *job, size_t i, int *client, int *payload)
{
    char text[32];
    snprintf(text, sizeof text, "%.*s", (int)job->payloads[i].len, job->payloads[i].data);
    assert_int_equal(sscanf(text, "%d.%d", client, payload), 2);
    assert_true(*client >= 0 && *client < RSIM_CLIENTS);
}

static rsim_id *id_of_job(rsim *s, const seriatim_claimed *job)
{
    char text[32];
    int id;
    snprintf(text, sizeof text, "%.*s", (int)job->id_len, job->id);
    assert_int_equal(sscanf(text, "id-%d", &id), 1);
    assert_true(id >= 0 && id < RSIM_IDS);
    return &s->ids[id];
}

void rsim_begin_run(rsim *s, const rsim_node *n, const seriatim_claimed *job)
{
    rsim_id *id = id_of_job(s, job);
    int number = (int)(id - s->ids), client, payload;
    size_t i;
    s->totals->runs++;
    if (id->runs)
        rsim_violated(s, "id-%d runs in %s while it runs in %s", number, n->id, id->runs->id);
    if (job->fence <= id->fence)
        rsim_violated(s, "the fence of id-%d falls", number);
    id->fence = job->fence;
    read_payload(job, 0, &client, &payload);
    if (id->may_run_again && client == id->first_client && payload == id->first_payload) {
        memcpy(id->ran, id->before, sizeof id->ran);
        s->totals->again++;
    }
    id->may_run_again = 0;
    memcpy(id->before, id->ran, sizeof id->ran);
    id->first_client = client;
    id->first_payload = payload;
    for (i = 0; i < job->payload_count; i++) {
        read_payload(job, i, &client, &payload);
        if (payload != id->ran[client] + 1)
            rsim_violated(s, "payload %d.%d of id-%d runs behind %d.%d", client, payload, number, client,
                          id->ran[client]);
        id->ran[client] = payload;
    }
    id->runs = id->ran_by = n;
    id->is_sure = 0;
}

void rsim_end_run(rsim *s, const seriatim_claimed *job)
{
    id_of_job(s, job)->runs = NULL;
}

void rsim_settles_answered(rsim *s, const rsim_node *n)
{
    int i;
    for (i = 0; i < RSIM_IDS; i++)
        if (s->ids[i].ran_by == n && !s->ids[i].runs)
            s->ids[i].is_sure = 1;
}

void rsim_died(rsim *s, const rsim_node *n)
{
    int i;
    for (i = 0; i < RSIM_IDS; i++) {
        rsim_id *id = &s->ids[i];
        if (id->ran_by != n)
            continue;
        id->may_run_again |= !id->is_sure;
        id->runs = id->ran_by = NULL;
    }
}

void rsim_look(rsim *s)
{
    static const char script[] =
        "local layout, turned, used, shards, twice, leaving = redis.call('GET', 'seriatim:{Q}:layout'), 0, 0, {}, '', "
        "{}\n"
        "local count = tonumber(string.match(layout or '', '^%d+ (%d+)')) or 0\n"
        "local places = {}\n"
        "for i = 1, #ARGV do places[ARGV[i]] = i end\n"
        "local function mark(found, key)\n" /* most hashes are empty: to ask for each id would take ten times as long */
        "  for _, id in ipairs(redis.call('HKEYS', key)) do\n"
        "    if places[id] then found[places[id]] = true end\n"
        "  end\n"
        "  return found\n"
        "end\n"
        "for shard = 0, 15 do\n"
        "  local prefix = 'seriatim:{Q/' .. shard .. '}:'\n"
        "  if redis.call('HGET', prefix .. 'reshard', '') == layout then\n"
        "    turned = turned + 1\n"
        "    if shard < count then used = used + 1 end\n"
        "  end\n"
        "  local here, left = mark(mark({}, prefix .. 'jobs'), prefix .. 'running'), mark({}, prefix .. 'leaving')\n"
        "  for i = 1, #ARGV do\n"
        "    if left[i] then leaving[#leaving + 1] = i - 1 end\n"
        "    if here[i] then\n"
        "      if shards[i] then twice = ARGV[i] .. ' is in shards ' .. shards[i] .. ' and ' .. shard end\n"
        "      shards[i] = shard\n"
        "    end\n"
        "  end\n"
        "end\n"
        "return {layout, turned, twice, used, leaving}\n";
    const char *argv[3 + RSIM_IDS] = {"EVAL", script, "0"};
    redisReply *reply;
    int i;
    for (i = 0; i < RSIM_IDS; i++)
        argv[3 + i] = rsim_name(i);
    reply = redisCommandArgv(server_redis, 3 + RSIM_IDS, argv, NULL);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    snprintf(s->layout, sizeof s->layout, "%s", reply->element[0]->str ? reply->element[0]->str : "");
    s->shards = s->old = 0;
    sscanf(s->layout, "%*s %u %*u %u", &s->shards, &s->old);
    s->turned = (unsigned)reply->element[1]->integer;
    s->used = (unsigned)reply->element[3]->integer;
    s->leaving_count = reply->element[4]->elements;
    assert_true(s->leaving_count <= RSIM_IDS);
    for (i = 0; i < (int)s->leaving_count; i++)
        s->leaving[i] = (int)reply->element[4]->element[i]->integer;
    if (reply->element[2]->len > 0)
        rsim_violated(s, "%s", reply->element[2]->str);
    freeReplyObject(reply);
}

int rsim_left(const rsim *s, int waiting)
{
    int i, c, left = 0;
    for (i = 0; i < RSIM_IDS; i++)
        for (c = 0; c < RSIM_CLIENTS && (waiting || !rsim_waits(i)); c++)
            left += s->ids[i].sent[c] - s->ids[i].ran[c];
    return left;
}
