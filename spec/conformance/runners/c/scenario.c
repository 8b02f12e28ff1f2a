/* scenario.c - a scenario: its queues, its connection, and its steps but those of the other files. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include "conformance.h"
#include "seriatim/binding/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Queues ---------------------------------------------------------------------------------- */

void queue_init(queue *q, seriatim_text label, const value *settings)
{
    const value *name = value_get(settings, "name");
    q->label = label;
    q->name = name ? value_bytes(name) : label;
    q->settings = settings;
    q->raw = value_says(value_get(settings, "codec"), "raw");
}

static int64_t setting(const queue *q, const char *name, int64_t otherwise)
{
    const value *v = value_get(q->settings, name);
    return v ? v->integer : otherwise;
}

static const char *setting_word(const queue *q, const char *name, const char *otherwise)
{
    const value *v = value_get(q->settings, name);
    return v ? v->text.data : otherwise;
}

void queue_core_settings(const queue *q, seriatim_queue_settings *settings)
{
    seriatim_queue_settings_init(settings);
    settings->name = q->name.data;
    settings->name_len = q->name.len;
    settings->shards_count = setting(q, "shards_count", 1);
    settings->batch_size = setting(q, "batch_size", settings->batch_size);
    settings->max_retry_count = setting(q, "max_retry_count", settings->max_retry_count);
    settings->fold = setting_word(q, "fold", settings->fold);
    settings->on_waiting = setting_word(q, "on_waiting", settings->on_waiting);
    settings->on_exhausted = setting_word(q, "on_exhausted", settings->on_exhausted);
    settings->ttr = value_number(value_get(q->settings, "ttr"), 0);
    settings->history_per_id = setting(q, "history_per_id", 0);
    settings->remember_score = value_number(value_get(q->settings, "remember_score"), 0);
    settings->serial_shards = value_true(value_get(q->settings, "serial_shards"));
    settings->morgue_max_age = value_number(value_get(q->settings, "morgue_max_age"), 0);
    settings->morgue_max_count = setting(q, "morgue_max_count", 0);
    settings->priority = setting(q, "priority", 0);
    settings->exhausted_hook = 1;
}

queue *scenario_queue(scenario *s, const value *label)
{
    static const seriatim_text usual = {"q", 1};
    size_t i;
    for (i = 0; i < s->queue_count; i++)
        if (text_equal(s->queues[i].label, label ? label->text : usual))
            return &s->queues[i];
    return &s->queues[0];
}

/* ---- The connection -------------------------------------------------------------------------- */

void scenario_connect(scenario *s, seriatim_text ns)
{
    seriatim_options options;
    seriatim_error error;
    if (s->link)
        seriatim_link_free(s->link);
    memset(&options, 0, sizeof options);
    options.ns = ns.data;
    s->ns = ns;
    if (seriatim_link_new(&options, the_suite.url, &s->link, &error) != SERIATIM_OK) {
        fprintf(stderr, "%s\n", error.message);
        abort();
    }
}

int scenario_number(scenario *s, const queue *q, size_t *number)
{
    seriatim_queue_settings settings;
    queue_core_settings(q, &settings);
    return seriatim_client_queue(seriatim_link_client(s->link), &settings, number);
}

int scenario_drive(scenario *s, int begun)
{
    int status = begun;
    if (begun != SERIATIM_OK)
        return begun;
    while ((status = seriatim_link_step(s->link)) == SERIATIM_AGAIN)
        seriatim_link_wait(s->link);
    return status;
}

/* ---- query ----------------------------------------------------------------------------------- */

static seriatim_text bound(const scenario *s, const value *v)
{
    seriatim_text none = {NULL, 0};
    char text[64];
    if (!v)
        return none;
    if (v->kind == VALUE_TEXT)
        return v->text;
    if (v->kind == VALUE_INT)
        snprintf(text, sizeof text, "%ld", (long)v->integer);
    else
        snprintf(text, sizeof text, "%.6f", v->kind == VALUE_MAP ? s->start + value_get(v, "at")->number : v->number);
    return keep_text(text, strlen(text));
}

/* The query's number; sets reverse for the rev_ forms. */
static int query_kind(const value *name, int *reverse)
{
    char plain[64];
    const char *rev = strstr(name->text.data, "rev_");
    snprintf(plain, sizeof plain, "%.*s%s", rev ? (int)(rev - name->text.data) : 0, name->text.data,
             rev ? rev + 4 : name->text.data);
    *reverse = rev != NULL;
    return seriatim_query_named(plain, strlen(plain));
}

static seriatim_text *texts_of(const value *list, size_t *count)
{
    seriatim_text *texts = keep((list ? list->count : 0) * sizeof *texts + 1);
    const value *item;
    *count = 0;
    for (item = list ? list->first : NULL; item; item = item->next)
        texts[(*count)++] = value_bytes(item);
    return texts;
}

static void compare_scheduled_payload(check *c, const value *wanted, const seriatim_scheduled *s, int raw)
{
    seriatim_text bytes = {s->payload.data, s->payload.len};
    compare_payload(c, value_get(wanted, "payload"), bytes, raw, "scheduled payload");
    compare(c, value_get(wanted, "score"), s->scored ? found_number(s->payload.score) : found_nothing(), "score");
    compare(c, value_get(wanted, "deliver_at"), found_number(s->deliver_at), "deliver_at");
    compare(c, value_get(wanted, "pushed_at"), found_number(s->pushed_at), "pushed_at");
}

/* What a fetch tells of an id's scheduled payloads. */
static void compare_scheduled(check *c, const value *wanted, const seriatim_record *r, int raw)
{
    const value *payloads = value_get(wanted, "payloads"), *item;
    size_t n = 0;
    if (!wanted)
        return;
    if (wanted->kind != VALUE_MAP) {
        compare(c, wanted, r->scheduled_total ? found_number((double)r->scheduled_total) : found_nothing(),
                "scheduled");
        return;
    }
    compare(c, value_get(wanted, "count"), found_number((double)r->scheduled_total), "scheduled count");
    compare(c, value_get(wanted, "deliver_at"), found_number(r->deliver_at), "deliver_at");
    if (payloads && payloads->count != r->scheduled_count)
        wrong(c, "%lu scheduled payloads, not %lu", (unsigned long)r->scheduled_count, (unsigned long)payloads->count);
    for (item = payloads ? payloads->first : NULL; item && n < r->scheduled_count; item = item->next)
        compare_scheduled_payload(c, item, &r->scheduled[n++], raw);
}

static void compare_record(check *c, const value *wanted, const seriatim_record *r, int raw)
{
    const value *id = value_get(wanted, "id"), *payloads = value_get(wanted, "payloads"), *pair;
    seriatim_text text = {r->id, r->id_len}, error = {r->error, r->error_len};
    size_t n = 0;
    if (id && !text_equal(value_bytes(id), text))
        wrong(c, "the id is %.*s, not %.64s", (int)(text.len < 64 ? text.len : 64), text.data, value_bytes(id).data);
    compare(c, value_get(wanted, "perform_in"), found_number(r->perform_in), "perform_in");
    compare(c, value_get(wanted, "updated_at"), found_number(r->updated_at), "updated_at");
    compare(c, value_get(wanted, "retry_count"), found_number((double)r->retry_count), "retry_count");
    compare(c, value_get(wanted, "payloads_count"), found_number((double)r->payload_total), "payloads_count");
    compare(c, value_get(wanted, "error"), error.len ? found_text(error) : found_nothing(), "error");
    compare_scheduled(c, value_get(wanted, "scheduled"), r, raw);
    if (value_get(wanted, "deliver_at") && r->scheduled_count)
        compare_scheduled_payload(c, wanted, r->scheduled, raw);
    if (payloads && payloads->count != r->payload_count)
        wrong(c, "%lu payloads, not %lu", (unsigned long)r->payload_count, (unsigned long)payloads->count);
    for (pair = payloads ? payloads->first : NULL; pair && n < r->payload_count; pair = pair->next, n++) {
        seriatim_text bytes = {r->payloads[n].data, r->payloads[n].len};
        compare_payload(c, value_at(pair, 0), bytes, raw, "payload");
        compare(c, value_at(pair, 1), found_number(r->payloads[n].score), "score");
    }
}

/* The handles of a range of scheduled payloads. */
static void keep_found_handles(scenario *s, const value *name, const seriatim_record *records, size_t count)
{
    seriatim_text *handles = keep((count + 1) * sizeof *handles);
    size_t i;
    for (i = 0; i < count; i++)
        if (records[i].scheduled_count)
            handles[i] = records[i].scheduled->handle;
    keep_handles(s, name, handles, count);
}

static int do_query(scenario *s, queue *q, const value *step, check *c)
{
    const value *ids = value_get(step, "expect_ids"), *wanted = ids ? ids : value_get(step, "expect"), *item;
    const seriatim_record *records;
    seriatim_client *client = seriatim_link_client(s->link);
    seriatim_query query;
    seriatim_text id;
    size_t number, count, i = 0;
    int status, reverse, kind = query_kind(value_get(step, "query"), &reverse);
    seriatim_query_init(&query, kind);
    query.reverse = reverse;
    query.min = bound(s, value_get(step, "min"));
    query.max = bound(s, value_get(step, "max"));
    query.limit = (int64_t)value_number(value_get(step, "limit"), (double)query.limit);
    query.ids = texts_of(value_get(step, "ids"), &query.id_count);
    if (value_get(step, "id")) {
        id = value_bytes(value_get(step, "id"));
        query.ids = &id;
        query.id_count = 1;
    }
    if ((status = scenario_number(s, q, &number)) != SERIATIM_OK ||
        (status = scenario_drive(s, seriatim_query_begin(client, number, &query))) != SERIATIM_OK)
        return status;
    records = seriatim_query_result(client, &count);
    if (value_get(step, "keep"))
        keep_found_handles(s, value_get(step, "keep"), records, count);
    if (wanted && wanted->count != count)
        wrong(c, "%lu records, not %lu", (unsigned long)count, (unsigned long)wanted->count);
    for (item = wanted ? wanted->first : NULL; item && i < count; item = item->next, i++) {
        seriatim_text name = {records[i].id, records[i].id_len};
        if (!ids)
            compare_record(c, item, &records[i], q->raw);
        else if (!text_equal(value_bytes(item), name))
            wrong(c, "id %lu is %.*s", (unsigned long)i, (int)(name.len < 64 ? name.len : 64), name.data);
    }
    return SERIATIM_OK;
}

/* ---- explain, metrics, action ---------------------------------------------------------------- */

static found state_of(const seriatim_record *r)
{
    return found_word(strcmp(r->state, "unknown") == 0 ? NULL : r->state);
}

/* `wanted`: a list of what is expected of each event. */
static void compare_history(check *c, const value *wanted, const seriatim_explanation *x)
{
    const value *item;
    size_t i = 0;
    if (wanted->count != x->history_count)
        wrong(c, "%lu events, not %lu", (unsigned long)x->history_count, (unsigned long)wanted->count);
    for (item = wanted->first; item && i < x->history_count; item = item->next, i++) {
        const seriatim_history_entry *entry = &x->history[i];
        const seriatim_text error = {entry->error, entry->error_len};
        compare(c, value_get(item, "event"), found_word(entry->event), "event");
        compare(c, value_get(item, "due"), entry->due > 0 ? found_number(entry->due) : found_nothing(), "due");
        compare(c, value_get(item, "fence"), entry->fence ? found_number((double)entry->fence) : found_nothing(),
                "fence");
        compare(c, value_get(item, "payloads_count"),
                entry->payloads ? found_number((double)entry->payloads) : found_nothing(), "payloads_count");
        compare(c, value_get(item, "node"), *entry->node ? found_word(entry->node) : found_nothing(), "node");
        compare(c, value_get(item, "error"), error.len ? found_text(error) : found_nothing(), "error");
    }
}

static int do_explain(scenario *s, queue *q, const value *step, check *c)
{
    const value *expect = value_get(step, "expect");
    seriatim_text id = value_bytes(value_get(step, "id"));
    const seriatim_explanation *x;
    size_t number;
    int status = scenario_number(s, q, &number);
    if (status == SERIATIM_OK)
        status = scenario_drive(s, seriatim_explain_begin(seriatim_link_client(s->link), number, id.data, id.len));
    if (status != SERIATIM_OK)
        return status;
    x = seriatim_explain_result(seriatim_link_client(s->link));
    compare(c, value_get(expect, "job"), state_of(&x->job), "job");
    compare(c, value_get(expect, "behind"), state_of(&x->behind), "behind");
    compare(c, value_get(expect, "dead"), state_of(&x->dead), "dead");
    if (value_get(expect, "scheduled")) {
        const value *scheduled = value_get(expect, "scheduled");
        compare(c, scheduled->kind == VALUE_MAP ? value_get(scheduled, "payloads_count") : scheduled,
                x->scheduled ? found_number((double)x->scheduled) : found_nothing(), "scheduled");
        if (scheduled->kind == VALUE_MAP)
            compare(c, value_get(scheduled, "deliver_at"), found_number(x->deliver_at), "deliver_at");
    }
    compare(c, value_get(expect, "paused"), found_number(x->paused), "paused");
    compare(c, value_get(expect, "text"), found_word(x->text), "text");
    if (value_get(expect, "history"))
        compare_history(c, value_get(expect, "history"), x);
    return SERIATIM_OK;
}

static int do_metrics(scenario *s, queue *q, const value *step, check *c)
{
    const value *expect = value_get(step, "expect");
    const seriatim_metrics *m;
    const seriatim_resharding *moving;
    size_t number, shards, i;
    int status = scenario_number(s, q, &number);
    if (status == SERIATIM_OK)
        status = scenario_drive(s, seriatim_metrics_begin(seriatim_link_client(s->link), number));
    if (status != SERIATIM_OK)
        return status;
    m = seriatim_metrics_total(seriatim_link_client(s->link));
    moving = seriatim_metrics_resharding(seriatim_link_client(s->link));
    seriatim_metrics_shards(seriatim_link_client(s->link), &shards);
    {
        const struct {
            const char *name;
            double found;
        } figures[] = {
            {"length", (double)m->length},
            {"scheduled", (double)m->scheduled},
            {"stale", (double)m->stale},
            {"fresh", (double)m->fresh},
            {"retries", (double)m->retries},
            {"morgue_length", (double)m->morgue_length},
            {"busy", (double)m->busy},
            {"parked", (double)m->parked},
            {"processed", (double)m->processed},
            {"failed", (double)m->failed},
            {"refused", (double)m->refused},
            {"morgue_removed", (double)m->morgue_removed},
            {"lag", m->lag},
            {"first", m->first},
            {"paused", (double)m->paused},
            {"shards", (double)shards},
        };
        for (i = 0; i < sizeof figures / sizeof *figures; i++)
            compare(c, value_get(expect, figures[i].name), found_number(figures[i].found), figures[i].name);
        compare(c, value_get(expect, "moves_to"), moving ? found_number(moving->to) : found_nothing(), "moves_to");
    }
    return SERIATIM_OK;
}

static int do_action(scenario *s, queue *q, const value *step, check *c)
{
    const value *ids = value_get(step, "ids"), *id = value_get(step, "id"), *deliver = value_get(step, "deliver");
    seriatim_text name = value_bytes(value_get(step, "action"));
    seriatim_client *client = seriatim_link_client(s->link);
    size_t number, count;
    seriatim_text *texts = texts_of(ids, &count), named[2];
    char at[32];
    int64_t answer = 0;
    int status = scenario_number(s, q, &number);
    if (id) {
        named[0] = value_bytes(id);
        named[1] = payload_bytes(value_get(step, "payload"), q->raw);
    } else if (value_get(step, "handle")) {
        named[0] = handle_of(s, step);
        named[1].data = at;
        named[1].len = (size_t)snprintf(at, sizeof at, "%.17g", s->start + (deliver ? value_number(deliver, 0) : 0));
    }
    if (value_get(step, "shards")) {
        named[0].data = at;
        named[0].len = (size_t)snprintf(at, sizeof at, "%.0f", value_number(value_get(step, "shards"), 0));
        texts = named;
        count = 1;
    }
    if (id || value_get(step, "handle")) {
        texts = named;
        count = id || deliver ? 2 : 1;
    }
    if (status == SERIATIM_OK && (!ids || count)) {
        status = scenario_drive(s, seriatim_action_begin(client, number, seriatim_action_named(name.data, name.len),
                                                         count ? texts : NULL, count));
        answer = status == SERIATIM_OK ? seriatim_action_result(client) : 0;
    }
    if (status == SERIATIM_OK)
        compare(c, value_get(step, "expect"), found_number((double)answer), "answer");
    return status;
}

/* ---- The other verbs ------------------------------------------------------------------------- */

static int do_declare(scenario *s, queue *q, const value *step, check *c)
{
    static const seriatim_text label = {"declared", 8};
    queue declared;
    (void)q;
    queue_init(&declared, label, value_get(step, "settings"));
    return do_metrics(s, &declared, step, c);
}

static int do_namespace(scenario *s, queue *q, const value *step, check *c)
{
    (void)q, (void)c;
    scenario_connect(s, value_bytes(value_get(step, "name")));
    return SERIATIM_OK;
}

static int do_redis(scenario *s, queue *q, const value *step, check *c)
{
    const value *wanted = value_get(step, "expect");
    const char *words[16];
    size_t lengths[16], count, i;
    seriatim_text *texts = texts_of(value_get(step, "command"), &count);
    redisReply *reply;
    (void)s, (void)q;
    for (i = 0; i < count && i < 16; i++) {
        words[i] = texts[i].data;
        lengths[i] = texts[i].len;
    }
    reply = redisCommandArgv(the_suite.redis, (int)i, words, lengths);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        wrong(c, "Redis says %s", reply ? reply->str : "nothing");
    else if (wanted && reply->type == REDIS_REPLY_INTEGER)
        compare(c, wanted, found_number((double)reply->integer), "answer");
    else if (wanted)
        compare(c, wanted, found_word(reply->str), "answer");
    freeReplyObject(reply);
    return SERIATIM_OK;
}

static int do_keys(scenario *s, queue *q, const value *step, check *c)
{
    (void)s, (void)q;
    compare_keys(c, value_get(step, "expect"));
    return SERIATIM_OK;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static const struct verb {
    const char *name;
    int (*run)(scenario *s, queue *q, const value *step, check *c);
} verbs[] = {
    {"push", do_push},       {"pipeline", do_pipeline}, {"query", do_query},     {"explain", do_explain},
    {"metrics", do_metrics}, {"action", do_action},     {"declare", do_declare}, {"namespace", do_namespace},
    {"redis", do_redis},     {"keys", do_keys},         {"pop", do_pop},         {"popped", do_popped},
    {"ick", do_ick},
};

void check_outcome(check *c, const value *error, int status, const char *message)
{
    const char *name = seriatim_status_name(status);
    const value *part;
    seriatim_text text = {message, strlen(message)};
    if (!error && status != SERIATIM_OK)
        wrong(c, "%s: %s", name, message);
    if (error && !value_says(value_get(error, "kind"), name))
        wrong(c, "the status is %s, not %s", name, value_get(error, "kind")->text.data);
    for (part = error ? value_get(error, "says")->first : NULL; part && status != SERIATIM_OK; part = part->next)
        if (!text_has(text, part->text))
            wrong(c, "the error is not %s, but %s", part->text.data, message);
}

static void step_other(scenario *s, const value *step, const value *verb, check *c)
{
    size_t i;
    for (i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (value_says(verb, verbs[i].name)) {
            int status = verbs[i].run(s, scenario_queue(s, value_get(step, "queue")), step, c);
            check_outcome(c, value_get(step, "error"), status,
                          seriatim_client_error(seriatim_link_client(s->link))->message);
            return;
        }
    wrong(c, "there is no such verb");
}

static void step_do(scenario *s, const value *step, const char *where)
{
    const value *verb = value_get(step, "do");
    check c;
    memset(&c, 0, sizeof c);
    c.start = s->start;
    if (value_says(verb, "run"))
        step_run(s, step, where, &c);
    lock();
    if (!value_says(verb, "run"))
        step_other(s, step, verb, &c);
    conclude(&c, where);
    unlock();
}

void steps_run(scenario *s, const value *list, const char *where)
{
    const value *step;
    size_t number = 1;
    for (step = list->first; step; step = step->next, number++) {
        char here[512];
        snprintf(here, sizeof here, "%s, step %lu (%s)", where, (unsigned long)number,
                 value_get(step, "do")->text.data);
        if (value_says(value_get(step, "do"), "wait"))
            pause_seconds(value_get(step, "seconds")->number);
        else
            step_do(s, step, here);
    }
}

/* ---- A scenario ------------------------------------------------------------------------------ */

static double redis_time(void)
{
    redisReply *reply = redis_command("TIME");
    double seconds = atof(reply->element[0]->str), micros = atof(reply->element[1]->str);
    freeReplyObject(reply);
    return seconds + micros / 1e6;
}

static void make_queues(scenario *s, const value *queues)
{
    static const seriatim_text usual = {"q", 1};
    const value *settings;
    if (!queues)
        queue_init(&s->queues[s->queue_count++], usual, NULL);
    for (settings = queues ? queues->first : NULL; settings && s->queue_count < QUEUES; settings = settings->next)
        queue_init(&s->queues[s->queue_count++], settings->key, settings);
}

static void check_at_end(scenario *s)
{
    seriatim_client *client = seriatim_link_client(s->link);
    char where[512];
    check c;
    size_t i, n, number, count;
    memset(&c, 0, sizeof c);
    for (i = 0; i < s->queue_count; i++) {
        const seriatim_finding *findings;
        int status = scenario_number(s, &s->queues[i], &number);
        if (status == SERIATIM_OK)
            status = scenario_drive(s, seriatim_check_begin(client, number, 0));
        check_outcome(&c, NULL, status, seriatim_client_error(seriatim_link_client(s->link))->message);
        findings = seriatim_check_result(client, &count);
        for (n = 0; n < count; n++)
            wrong(&c, "%s %s", findings[n].kind, findings[n].detail);
    }
    snprintf(where, sizeof where, "%s, check at the end", s->where);
    conclude(&c, where);
}

void scenario_run(const char *file, const value *from)
{
    static const seriatim_text ns = {"spec", 4};
    scenario s;
    char where[512];
    memset(&s, 0, sizeof s);
    snprintf(where, sizeof where, "%s: %s", file, value_get(from, "name")->text.data);
    s.where = where;
    freeReplyObject(redis_command("CONFIG SET maxmemory 0"));
    freeReplyObject(redis_command("FLUSHALL"));
    s.start = redis_time();
    make_queues(&s, value_get(from, "queues"));
    scenario_connect(&s, ns);
    steps_run(&s, value_get(from, "steps"), where);
    check_at_end(&s);
    seriatim_link_free(s.link);
}
