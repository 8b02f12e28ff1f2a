/* fuzz_client.c - libFuzzer target: every operation of a client fed with random replies, cuts and reconnects. */
#include "fuzz.h"
#include "client/client.h"

typedef struct conversation {
    seriatim_client *c;
    size_t queue;
    unsigned operation;
    unsigned sum;
} conversation;

#define ACTIONS SERIATIM_ACTIONS_COUNT
#define QUERIES SERIATIM_QUERIES_COUNT
#define OPERATIONS (ACTIONS + QUERIES + 10)

/* ---- Begin --------------------------------------------------------------------------------- */

static int begin_push(seriatim_client *c, size_t queue, fuzz_input *in)
{
    unsigned jobs = fuzz_below(in, 40), i;
    int status = seriatim_push_begin(c, queue);
    if (status == SERIATIM_OK && fuzz_below(in, 4) == 0)
        status =
            seriatim_push_replicas(c, fuzz_below(in, 8) ? 1 : fuzz_int(in), fuzz_below(in, 8) ? 1 : fuzz_double(in));
    for (i = 0; i < jobs && status == SERIATIM_OK; i++) {
        char id = (char)fuzz_below(in, 16);
        seriatim_job job;
        seriatim_job_init(&job);
        job.id = &id;
        job.id_len = 1;
        job.payload = "{}";
        job.payload_len = 2;
        job.on_waiting = i % 2 ? "reject" : NULL;
        status = seriatim_push_job(c, &job);
    }
    return status == SERIATIM_OK ? seriatim_push_send(c) : status;
}

static int begin_query(seriatim_client *c, size_t queue, fuzz_input *in, int kind)
{
    size_t lens[2], i;
    char *bounds[2];
    seriatim_text ids[3] = {{"a", 1}, {"b", 1}, {"c", 1}};
    seriatim_query query;
    int status;
    seriatim_query_init(&query, kind);
    query.reverse = (int)fuzz_below(in, 2);
    query.limit = fuzz_below(in, 8) ? 1 + (int64_t)fuzz_below(in, 20) : fuzz_int(in);
    query.payload_limit = fuzz_below(in, 8) ? 1 + (int64_t)fuzz_below(in, 5) : fuzz_int(in);
    query.shard = fuzz_below(in, 8) ? -1 : fuzz_int(in);
    for (i = 0; i < 2; i++)
        bounds[i] = fuzz_text(in, fuzz_below(in, 4) ? 0 : 30, 0, &lens[i]);
    query.min.data = lens[0] ? bounds[0] : NULL;
    query.min.len = lens[0];
    query.max.data = lens[1] ? bounds[1] : NULL;
    query.max.len = lens[1];
    if (kind == SERIATIM_FETCH || kind == SERIATIM_MORGUE_FETCH) {
        query.ids = ids;
        query.id_count = 3;
    }
    status = seriatim_query_begin(c, queue, &query);
    free(bounds[0]);
    free(bounds[1]);
    return status;
}

/* How many texts an action takes. */
enum { NOTHING = 0, IDS = 3, PAYLOAD = 2, HANDLE = 1, HANDLE_AT = 2, RECORD = 2, SHARDS = 1, QUEUE = 0 };

static int begin_action(conversation *t, int kind)
{
    static const seriatim_text ids[] = {{"a", 1}, {"b", 1}, {"c", 1}}, shards[] = {{"3", 1}};
    /* of the queue "Q" and the id "a" */
    static const seriatim_text handle[] = {{"AQAAAAAAAAAAAAFRYQ", 18}, {"2000000000", 10}};
#define X(number, name, takes, role) takes,
    static const size_t counts[] = {SERIATIM_ACTIONS(X)};
#undef X
    return seriatim_action_begin(t->c, t->queue, kind,
                                 kind == SERIATIM_CANCEL || kind == SERIATIM_RESCHEDULE ? handle
                                 : kind == SERIATIM_RESHARD                             ? shards
                                                                                        : ids,
                                 counts[kind]);
}

static int begin(conversation *t, fuzz_input *in)
{
    unsigned number = t->operation;
    if (number < ACTIONS)
        return begin_action(t, (int)number);
    number -= ACTIONS;
    if (number < QUERIES)
        return begin_query(t->c, t->queue, in, (int)number);
    switch (number - QUERIES) {
    case 0:
        return begin_push(t->c, t->queue, in);
    case 1:
        return seriatim_layout_begin(t->c, t->queue);
    case 2:
        return seriatim_metrics_begin(t->c, t->queue);
    case 3:
        return seriatim_explain_begin(t->c, t->queue, "a", 1);
    case 4:
        return seriatim_check_begin(t->c, t->queue, (int)fuzz_below(in, 2));
    case 5:
        return seriatim_nodes_begin(t->c);
    case 6:
        return seriatim_queues_begin(t->c);
    case 7:
        return seriatim_check_begin(t->c, SERIATIM_NO_QUEUE, (int)fuzz_below(in, 2));
    case 8:
        return seriatim_order_begin(t->c, "n1", 2, SERIATIM_ORDER_QUIET);
    default:
        return seriatim_health_begin(t->c);
    }
}

/* ---- Results ------------------------------------------------------------------------------- */

static void look(conversation *t, const void *data, size_t len)
{
    t->sum += fuzz_sum(data, len);
}

static void look_at_text(conversation *t, const char *text)
{
    look(t, text, text ? strlen(text) : 0);
}

static void look_at_record(conversation *t, const seriatim_record *r)
{
    size_t i;
    look(t, r->id, r->id_len);
    look_at_text(t, r->state);
    look(t, r->error, r->error_len);
    for (i = 0; i < r->payload_count; i++) {
        look(t, r->payloads[i].data, r->payloads[i].len);
        look(t, r->payloads[i].context, r->payloads[i].context_len);
    }
}

static void look_at_records(conversation *t)
{
    size_t count, i;
    const seriatim_record *records = seriatim_query_result(t->c, &count);
    for (i = 0; i < count; i++)
        look_at_record(t, &records[i]);
}

static void look_at_push(conversation *t)
{
    size_t count;
    const size_t *places = seriatim_push_refused(t->c, &count);
    look(t, places, count * sizeof *places);
    (void)seriatim_push_result(t->c);
}

static void look_at_metrics(conversation *t)
{
    size_t count, i;
    const seriatim_metrics *shards = seriatim_metrics_shards(t->c, &count);
    for (i = 0; i < count; i++)
        look_at_text(t, shards[i].owner);
    if (seriatim_metrics_total(t->c))
        look_at_text(t, seriatim_metrics_total(t->c)->owner);
}

static void look_at_explanation(conversation *t)
{
    const seriatim_explanation *x = seriatim_explain_result(t->c);
    size_t i;
    if (!x)
        return;
    look_at_text(t, x->text);
    look_at_text(t, x->owner);
    look_at_record(t, &x->job);
    look_at_record(t, &x->behind);
    look_at_record(t, &x->dead);
    for (i = 0; i < x->history_count; i++) {
        look_at_text(t, x->history[i].text);
        look_at_text(t, x->history[i].event);
        look_at_text(t, x->history[i].node);
        look(t, x->history[i].error, x->history[i].error_len);
    }
}

static void look_at_findings(conversation *t)
{
    size_t count, i;
    const seriatim_finding *found = seriatim_check_result(t->c, &count);
    for (i = 0; i < count; i++) {
        look_at_text(t, found[i].kind);
        look_at_text(t, found[i].detail);
        look(t, found[i].id, found[i].id_len);
    }
    (void)seriatim_check_looked_at(t->c);
}

static void look_at_nodes(conversation *t)
{
    size_t count, i;
    const seriatim_living_node *nodes = seriatim_nodes_result(t->c, &count);
    for (i = 0; i < count; i++) {
        look_at_text(t, nodes[i].name);
        look_at_text(t, nodes[i].description);
        look_at_text(t, nodes[i].state);
    }
}

static void look_at_order(conversation *t)
{
    (void)seriatim_order_result(t->c);
}

static void look_at_queues(conversation *t)
{
    size_t count, i;
    const seriatim_text *names = seriatim_queues_result(t->c, &count);
    for (i = 0; i < count; i++)
        look(t, names[i].data, names[i].len);
}

static void look_at_result(conversation *t)
{
    static void (*const looks[])(conversation *) = {
        look_at_push,  NULL,           look_at_metrics,  look_at_explanation, look_at_findings,
        look_at_nodes, look_at_queues, look_at_findings, look_at_order,       NULL};
    unsigned number = t->operation;
    if (number < ACTIONS) {
        (void)seriatim_action_result(t->c);
    } else if (number - ACTIONS < QUERIES) {
        look_at_records(t);
    } else if (looks[number - ACTIONS - QUERIES]) {
        looks[number - ACTIONS - QUERIES](t);
    } else if (number == OPERATIONS - 1 && seriatim_health_result(t->c)) {
        look_at_text(t, seriatim_health_result(t->c)->maxmemory_policy);
    }
}

/* ---- The network --------------------------------------------------------------------------- */

static void hear(conversation *t, const srt_bytes *reply, fuzz_input *in)
{
    seriatim_error error;
    size_t cut = fuzz_below(in, 8) ? 0 : reply->len * fuzz_byte(in) / 256;
    int status = SERIATIM_OK;
    if (cut)
        status = srt_client_input(t->c, reply->data, cut, &error);
    if (status == SERIATIM_OK)
        status = srt_client_input(t->c, reply->data + cut, reply->len - cut, &error);
    if (status != SERIATIM_OK) {
        srt_client_disconnected(t->c);
        srt_client_connected(t->c, NULL, NULL, 0);
    }
}

/* What the layout's script says goes first, else nothing is ever asked. */
static void answer(conversation *t, fuzz_input *in, srt_bytes *reply)
{
    srt_bytes_clear(reply);
    if (t->c->cluster.peers[0]->commands.first && t->c->cluster.peers[0]->commands.first->script == srt_script_layout &&
        fuzz_below(in, 8))
        fuzz_bulk(reply, fuzz_below(in, 2) ? "1 1 3" : "2 3 3", 5);
    else
        fuzz_reply(reply, in, 3);
}

static void talk(conversation *t, fuzz_input *in)
{
    static const unsigned char identity[16] = "another_process";
    const char *data;
    srt_bytes reply;
    size_t len;
    srt_bytes_init(&reply, seriatim_default_allocator());
    while (in->left > 0 && srt_client_status(t->c) == SERIATIM_AGAIN) {
        unsigned event = fuzz_byte(in);
        srt_client_output(t->c, &data, &len);
        t->sum += fuzz_sum(data, len);
        srt_client_sent(t->c, event % 2 ? len : len / 2);
        if (event >= 252) {
            srt_client_disconnected(t->c);
            srt_client_connected(t->c, event % 2 ? "u" : NULL, event % 2 ? "p" : NULL, (int)(event % 2));
        } else if (event >= 250) {
            srt_client_give_up(t->c, SERIATIM_TIMEOUT, "too late");
        } else if (event == 249) {
            srt_client_forked(t->c, identity);
            srt_client_connected(t->c, NULL, NULL, 0);
        } else {
            answer(t, in, &reply);
            hear(t, &reply, in);
        }
    }
    srt_bytes_free(&reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned char identity[16] = "0123456789abcde";
    fuzz_input in = {data, size};
    seriatim_queue_settings settings;
    conversation t;
    int rounds;
    memset(&t, 0, sizeof t);
    FUZZ_CHECK(seriatim_client_new(NULL, &t.c, NULL) == SERIATIM_OK);
    srt_client_identify(t.c, identity);
    seriatim_queue_settings_init(&settings);
    settings.name = "Q";
    settings.name_len = 1;
    settings.shards_count = fuzz_below(&in, 2);
    FUZZ_CHECK(seriatim_client_queue(t.c, &settings, &t.queue) == SERIATIM_OK);
    srt_client_connected(t.c, NULL, NULL, 0);
    for (rounds = 0; rounds < 2; rounds++) {
        t.operation = fuzz_below(&in, OPERATIONS);
        if (begin(&t, &in) == SERIATIM_OK) {
            talk(&t, &in);
            look_at_result(&t);
        }
        look_at_text(&t, seriatim_client_error(t.c)->message);
        if (srt_client_status(t.c) == SERIATIM_AGAIN) {
            srt_client_give_up(t.c, SERIATIM_IO, "gone");
            srt_client_disconnected(t.c);
            srt_client_connected(t.c, NULL, NULL, 0);
        }
    }
    seriatim_client_free(t.c);
    return 0;
}
