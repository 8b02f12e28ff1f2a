/* push.c - the steps push and pipeline. */
#include "conformance.h"

#include <stdio.h>
#include <string.h>

typedef struct pushing {
    scenario *s;
    queue *q;
    seriatim_client *client;
    size_t number;
} pushing;

static seriatim_text numbered(seriatim_text text, size_t number)
{
    char *copy = keep(text.len + 24);
    seriatim_text out;
    memcpy(copy, text.data, text.len);
    out.data = copy;
    out.len = text.len + (size_t)snprintf(copy + text.len, 24, "%lu", (unsigned long)number);
    return out;
}

static void set_time(const scenario *s, const value *from, seriatim_job *job)
{
    const value *at = value_get(from, "at"), *delay = value_get(from, "delay"),
                *absolute = value_get(from, "perform_in");
    if (!absolute)
        absolute = value_get(from, "perform_at");
    if (at || absolute) {
        job->when = SERIATIM_AT;
        job->time = at ? s->start + at->number : value_number(absolute, 0);
    } else if (delay) {
        job->when = SERIATIM_DELAY;
        job->time = value_number(delay, 0);
    }
}

static void set_delivery(const scenario *s, const value *from, seriatim_job *job)
{
    const value *deliver = value_get(from, "deliver"), *at = value_get(from, "deliver_at"),
                *in = value_get(from, "deliver_in");
    if (deliver || at) {
        job->deliver_when = SERIATIM_AT;
        job->deliver_time = deliver ? s->start + deliver->number : value_number(at, 0);
    } else if (in) {
        job->deliver_when = SERIATIM_DELAY;
        job->deliver_time = value_number(in, 0);
    }
}

seriatim_text payload_bytes(const value *payload, int raw)
{
    static const seriatim_text empty = {"", 0}, empty_json = {"\"\"", 2};
    if (!payload)
        return raw ? empty : empty_json;
    return raw ? value_bytes(payload) : value_canonical(payload);
}

/* The copy of a job with this number. */
static void make_job(const pushing *p, const value *from, size_t number, seriatim_job *job)
{
    const value *id = value_get(from, "id"), *score = value_get(from, "score"), *count = value_get(from, "retry_count");
    const value *context = value_get(from, "context"), *word = value_get(from, "on_waiting"),
                *numbering = value_get(from, "number");
    int both = value_says(numbering, "both");
    seriatim_text text = {NULL, 0}, payload = payload_bytes(value_get(from, "payload"), p->q->raw);
    static const seriatim_text none = {"", 0};
    if (id)
        text = both || value_says(numbering, "id") ? numbered(value_bytes(id), number) : value_bytes(id);
    if (both || value_says(numbering, "payload"))
        payload = numbered(none, number);
    seriatim_job_init(job);
    job->id = text.data;
    job->id_len = text.len;
    job->payload = payload.data;
    job->payload_len = payload.len;
    job->has_score = score != NULL;
    job->score = value_number(score, 0);
    set_time(p->s, from, job);
    set_delivery(p->s, from, job);
    job->retry_count = count ? count->integer : -1;
    job->on_waiting = word ? word->text.data : NULL;
    if (context && context->count) {
        text = value_canonical(context);
        job->context = text.data;
        job->context_len = text.len;
    }
}

/* Of a push or pipeline that is begun, or (one_by_one) each in a push of its own. */
static int add_jobs(const pushing *p, const value *jobs, int one_by_one)
{
    const value *from;
    int status = SERIATIM_OK;
    for (from = jobs->first; from; from = from->next) {
        size_t times = (size_t)value_number(value_get(from, "times"), 1), n;
        for (n = 0; n < times && status == SERIATIM_OK; n++) {
            seriatim_job job;
            make_job(p, from, n, &job);
            if (one_by_one)
                status = seriatim_push_begin(p->client, p->number);
            if (status == SERIATIM_OK)
                status = seriatim_push_job(p->client, &job);
            if (one_by_one && status == SERIATIM_OK)
                status = scenario_drive(p->s, seriatim_push_send(p->client));
        }
    }
    return status;
}

static int push_jobs(const pushing *p, const value *jobs, int want_handles)
{
    int status = seriatim_push_begin(p->client, p->number);
    if (want_handles && status == SERIATIM_OK)
        status = seriatim_push_want_handles(p->client);
    if (status == SERIATIM_OK)
        status = add_jobs(p, jobs, 0);
    return status == SERIATIM_OK ? scenario_drive(p->s, seriatim_push_send(p->client)) : status;
}

static void compare_places(check *c, const value *wanted, const size_t *places, size_t count)
{
    size_t i;
    if (!wanted)
        return;
    if (wanted->count != count)
        wrong(c, "refused_at has %lu places", (unsigned long)count);
    for (i = 0; i < count && i < wanted->count; i++)
        compare(c, value_at(wanted, i), found_number((double)places[i]), "refused_at");
}

/* Of each handle the place of the first that equals it, or null. */
static void compare_handles(check *c, const value *wanted, const seriatim_text *list, size_t count)
{
    size_t i, first;
    if (!wanted)
        return;
    if (wanted->count != count)
        wrong(c, "%lu handles", (unsigned long)count);
    for (i = 0; i < count && i < wanted->count; i++) {
        for (first = 0; list[i].data && (!list[first].data || list[first].len != list[i].len ||
                                         memcmp(list[first].data, list[i].data, list[i].len) != 0);)
            first++;
        compare(c, value_at(wanted, i), list[i].data ? found_number((double)first) : found_nothing(), "handles");
    }
}

void keep_handles(scenario *s, const value *name, const seriatim_text *list, size_t count)
{
    kept_handles *kept;
    size_t i;
    if (!name || s->kept_count == KEPT_HANDLES)
        return;
    kept = &s->kept[s->kept_count++];
    kept->name = name->text;
    kept->count = count;
    kept->list = keep((count + 1) * sizeof *kept->list);
    for (i = 0; i < count; i++) {
        char *copy = keep(list[i].len + 1);
        if (list[i].len)
            memcpy(copy, list[i].data ? list[i].data : "", list[i].data ? list[i].len : 0);
        kept->list[i].data = copy;
        kept->list[i].len = list[i].len;
    }
}

/* That of the step, kept by an earlier push, or the text itself. */
seriatim_text handle_of(const scenario *s, const value *step)
{
    const value *name = value_get(step, "handle");
    size_t place = (size_t)value_number(value_get(step, "place"), 0), i;
    for (i = s->kept_count; i-- > 0;)
        if (s->kept[i].name.len == name->text.len &&
            memcmp(s->kept[i].name.data, name->text.data, name->text.len) == 0 && place < s->kept[i].count)
            return s->kept[i].list[place];
    return name->text;
}

static int pushing_init(pushing *p, scenario *s, queue *q)
{
    p->s = s;
    p->q = q;
    p->client = seriatim_link_client(s->link);
    return scenario_number(s, q, &p->number);
}

/* What a push answered. */
typedef struct pushed {
    seriatim_push_counts counts;
    const size_t *places; /* of the refused jobs */
    size_t refused, handle_count;
    const seriatim_text *handles;
} pushed;

static void compare_pushed(scenario *s, const value *push, const pushed *answer, check *c)
{
    const value *expect = value_get(push, "expect");
    keep_handles(s, value_get(push, "keep"), answer->handles, answer->handle_count);
    compare_handles(c, value_get(expect, "handles"), answer->handles, answer->handle_count);
    compare(c, value_get(expect, "scheduled"), found_number((double)answer->counts.scheduled), "scheduled");
    compare(c, value_get(expect, "stale"), found_number((double)answer->counts.stale), "stale");
    compare(c, value_get(expect, "added"), found_number((double)answer->counts.added), "added");
    compare(c, value_get(expect, "folded"), found_number((double)answer->counts.folded), "folded");
    compare(c, value_get(expect, "refused"), found_number((double)answer->counts.refused), "refused");
    compare_places(c, value_get(expect, "refused_at"), answer->places, answer->refused);
}

int do_push(scenario *s, queue *q, const value *step, check *c)
{
    const value *jobs = value_get(step, "jobs");
    int one_by_one = value_true(value_get(step, "one_by_one"));
    pushing p;
    pushed answer;
    int status = pushing_init(&p, s, q);
    memset(&answer, 0, sizeof answer);
    if (status == SERIATIM_OK && one_by_one)
        return add_jobs(&p, jobs, 1);
    if (status == SERIATIM_OK && jobs->count)
        status = push_jobs(&p, jobs, value_true(value_get(step, "handle")));
    if (status != SERIATIM_OK)
        return status;
    if (jobs->count) {
        answer.counts = seriatim_push_result(p.client);
        answer.places = seriatim_push_refused(p.client, &answer.refused);
        answer.handles = seriatim_push_handles(p.client, &answer.handle_count);
    }
    compare_pushed(s, step, &answer, c);
    return SERIATIM_OK;
}

static int add_pushes(scenario *s, const value *pushes)
{
    seriatim_client *client = seriatim_link_client(s->link);
    const value *push;
    int status = seriatim_pipeline_begin(client);
    for (push = pushes->first; push && status == SERIATIM_OK; push = push->next) {
        pushing p;
        status = pushing_init(&p, s, scenario_queue(s, value_get(push, "queue")));
        if (status == SERIATIM_OK)
            status = seriatim_pipeline_push(client, p.number);
        if (status == SERIATIM_OK && value_true(value_get(push, "handle")))
            status = seriatim_push_want_handles(client);
        if (status == SERIATIM_OK)
            status = add_jobs(&p, value_get(push, "jobs"), 0);
    }
    return status;
}

/* The places of the jobs of a push that were refused. */
static size_t *refused_places(const seriatim_client *client, size_t number, const seriatim_push_counts *counts)
{
    size_t *places = keep((counts->refused + 1) * sizeof *places), count = 0, job;
    for (job = 0; count < counts->refused; job++)
        if (seriatim_pipeline_outcome(client, number, job) == SERIATIM_JOB_REFUSED)
            places[count++] = job;
    return places;
}

int do_pipeline(scenario *s, queue *q, const value *step, check *c)
{
    const value *pushes = value_get(step, "pushes"), *push;
    seriatim_client *client = seriatim_link_client(s->link);
    size_t number = 0;
    int status = add_pushes(s, pushes), may_fail = 0;
    (void)q;
    if (status != SERIATIM_OK || (status = seriatim_pipeline_send(client)) != SERIATIM_OK)
        return status;
    status = scenario_drive(s, status);
    for (push = pushes->first; push; push = push->next, number++) {
        pushed answer;
        seriatim_error error;
        int outcome = seriatim_pipeline_result(client, number, &answer.counts, &error);
        answer.refused = (size_t)answer.counts.refused;
        answer.places = refused_places(client, number, &answer.counts);
        answer.handles = seriatim_pipeline_handles(client, number, &answer.handle_count);
        check_outcome(c, value_get(push, "error"), outcome, error.message);
        compare_pushed(s, push, &answer, c);
        may_fail |= value_get(push, "error") != NULL;
    }
    return may_fail ? SERIATIM_OK : status;
}
