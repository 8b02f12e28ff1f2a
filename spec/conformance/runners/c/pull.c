/* pull.c - the steps pop and popped. */
#include "conformance.h"

#include <string.h>

/* What a pop gave, kept under a name beyond the client's next operation. */
static void keep_delivery(scenario *s, const value *name, const seriatim_popped *p)
{
    kept_delivery *kept;
    char *token;
    if (!name || !p || s->delivery_count == KEPT_DELIVERIES)
        return;
    kept = &s->deliveries[s->delivery_count++];
    token = keep(p->token.len + 1);
    memcpy(token, p->token.data, p->token.len);
    kept->name = name->text;
    kept->token.data = token;
    kept->token.len = p->token.len;
}

static seriatim_text token_of(const scenario *s, const value *name)
{
    static const seriatim_text none = {"", 0};
    size_t i;
    for (i = s->delivery_count; i-- > 0;)
        if (name && text_equal(s->deliveries[i].name, name->text))
            return s->deliveries[i].token;
    return none;
}

static void compare_payloads(check *c, const value *wanted, const seriatim_popped *p, const queue *q)
{
    const value *payloads = value_get(wanted, "payloads"), *scores = value_get(wanted, "scores"),
                *contexts = value_get(wanted, "contexts");
    size_t i;
    if (payloads && payloads->count != p->job.payload_count)
        wrong(c, "%lu payloads", (unsigned long)p->job.payload_count);
    for (i = 0; i < p->job.payload_count; i++) {
        seriatim_text bytes;
        bytes.data = p->job.payloads[i].data;
        bytes.len = p->job.payloads[i].len;
        if (payloads && i < payloads->count)
            compare_payload(c, value_at(payloads, i), bytes, q->raw, "payload");
        if (scores && i < scores->count)
            compare(c, value_at(scores, i), found_number(p->job.payloads[i].score), "score");
        bytes.len = p->job.payloads[i].context_len;
        bytes.data = bytes.len ? p->job.payloads[i].context : "{}";
        bytes.len = bytes.len ? bytes.len : 2;
        if (contexts && i < contexts->count)
            compare_payload(c, value_at(contexts, i), bytes, 0, "context");
    }
}

static void compare_delivery(const scenario *s, check *c, const value *wanted, const seriatim_popped *p)
{
    const queue *q = &s->queues[0];
    seriatim_text id, error;
    size_t i;
    if (!wanted)
        return;
    if (wanted->kind == VALUE_NULL || !p) {
        if (p)
            wrong(c, "the id %.*s was popped", (int)p->job.id_len, p->job.id);
        else if (wanted->kind != VALUE_NULL)
            wrong(c, "nothing was popped");
        return;
    }
    for (i = 0; i < s->queue_count; i++)
        if (s->popped_numbers[i] == p->queue)
            q = &s->queues[i];
    id.data = p->job.id;
    id.len = p->job.id_len;
    error.data = p->job.error;
    error.len = p->job.error_len;
    compare(c, value_get(wanted, "queue"), found_text(q->label), "queue");
    compare(c, value_get(wanted, "id"), found_text(id), "id");
    compare(c, value_get(wanted, "deliveries"), found_number((double)p->deliveries), "deliveries");
    compare(c, value_get(wanted, "retry_count"), found_number((double)p->job.retry_count), "retry_count");
    compare(c, value_get(wanted, "error"), error.len ? found_text(error) : found_nothing(), "error");
    compare(c, value_get(wanted, "more"), found_number(p->more), "more");
    compare(c, value_get(wanted, "count"), found_number((double)p->job.payload_count), "count");
    compare_payloads(c, wanted, p, q);
}

/* The queues of the step, by their labels; without them all of the scenario. */
static int pop_queues(scenario *s, const value *labels, size_t *numbers, size_t *count)
{
    size_t i;
    *count = labels ? labels->count : s->queue_count;
    for (i = 0; i < s->queue_count; i++) {
        int status = scenario_number(s, &s->queues[i], &s->popped_numbers[i]);
        if (status != SERIATIM_OK)
            return status;
    }
    for (i = 0; i < *count && i < QUEUES; i++)
        numbers[i] = s->popped_numbers[labels ? scenario_queue(s, value_at(labels, i)) - s->queues : (ptrdiff_t)i];
    return SERIATIM_OK;
}

int do_pop(scenario *s, queue *q, const value *step, check *c)
{
    seriatim_client *client = seriatim_link_client(s->link);
    const value *weights = value_get(step, "weights");
    size_t numbers[QUEUES], i;
    int64_t weight[QUEUES];
    seriatim_pop pop;
    int status;
    (void)q;
    seriatim_pop_init(&pop);
    pop.queues = numbers;
    status = pop_queues(s, value_get(step, "queues"), numbers, &pop.queue_count);
    for (i = 0; weights && i < weights->count && i < QUEUES; i++)
        weight[i] = value_at(weights, i)->integer;
    pop.weights = weights ? weight : NULL;
    pop.wait = value_number(value_get(step, "wait"), 0);
    pop.ttr = value_number(value_get(step, "ttr"), pop.ttr);
    pop.max = value_get(step, "max") ? value_get(step, "max")->integer : pop.max;
    if (status == SERIATIM_OK)
        status = scenario_drive(s, seriatim_pop_begin(client, &pop));
    if (status != SERIATIM_OK)
        return status;
    compare_delivery(s, c, value_get(step, "expect"), seriatim_pop_result(client));
    keep_delivery(s, value_get(step, "keep"), seriatim_pop_result(client));
    return SERIATIM_OK;
}

int do_popped(scenario *s, queue *q, const value *step, check *c)
{
    static const char *const reports[] = {"ack", "fail", "release", "extend", "snooze", "checkpoint"};
    const value *payload = value_get(step, "payload"), *text = value_get(step, "text");
    seriatim_popped_outcome outcome;
    (void)c;
    memset(&outcome, 0, sizeof outcome);
    while (outcome.kind < 6 && !value_says(value_get(step, "report"), reports[outcome.kind]))
        outcome.kind++;
    outcome.seconds = value_number(value_get(step, "seconds"), -1);
    outcome.payload_count = (size_t)value_number(value_get(step, "count"), 0);
    if (text)
        outcome.text = text->text;
    if (payload)
        outcome.text = q->raw ? value_bytes(payload) : value_canonical(payload);
    return scenario_drive(
        s, seriatim_popped_begin(seriatim_link_client(s->link), token_of(s, value_get(step, "delivery")), &outcome));
}
