/*
 * test_allocation.c - the n-th allocation fails, for every n, under every public function; nothing leaks, nothing
 * hangs, and the status says so. A function of seriatim.h that is not called here fails the test.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "seriatim.h"
#include "server.h"

#define MOST 3000 /* allocations of one scenario */

/* Called by the runner's thread as well. */
static struct memory {
    pthread_mutex_t lock;
    size_t calls, fail_at;
    long live;
} memory = {PTHREAD_MUTEX_INITIALIZER, 0, 0, 0};

static void *allocate(void *user, void *ptr, size_t old_size, size_t new_size)
{
    int fails;
    (void)user;
    pthread_mutex_lock(&memory.lock);
    fails = new_size > 0 && ++memory.calls == memory.fail_at;
    if (!fails)
        memory.live += (long)new_size - (long)(ptr ? old_size : 0);
    pthread_mutex_unlock(&memory.lock);
    if (fails)
        return NULL;
    if (new_size > 0)
        return realloc(ptr, new_size);
    free(ptr);
    return NULL;
}

static const seriatim_allocator allocator = {allocate, NULL};

/* ---- Scenarios of a client ----------------------------------------------------------------- */

static seriatim_queue_settings settings_of_queue(void)
{
    seriatim_queue_settings q;
    seriatim_queue_settings_init(&q);
    q.name = "Q";
    q.name_len = 1;
    q.shards_count = 2;
    q.fold = "list";
    q.remember_score = 60;
    return q;
}

static int push(seriatim_client *c, size_t queue)
{
    int i, status = seriatim_push_begin(c, queue);
    if (status == SERIATIM_OK)
        status = seriatim_push_replicas(c, 0, 1);
    if (status == SERIATIM_OK)
        status = seriatim_push_timeout(c, 50);
    for (i = 0; i < 30 && status == SERIATIM_OK; i++) {
        char id = (char)('a' + i % 9);
        seriatim_job job;
        seriatim_job_init(&job);
        job.id = &id;
        job.id_len = 1;
        job.payload = "{\"some\":\"payload\"}";
        job.payload_len = 18;
        job.on_waiting = i % 2 ? "reject" : NULL;
        if (i % 3 == 0)
            job.has_score = 1, job.score = i;
        if (i % 5 == 4)
            job.retry_count = 3, job.when = SERIATIM_DELAY, job.time = 60;
        status = seriatim_push_job(c, &job);
    }
    return status == SERIATIM_OK ? seriatim_push_send(c) : status;
}

/* With handles: one job that arrives later, and one that waits at once. */
static int push_scheduled(seriatim_client *c, size_t queue)
{
    int i, status = seriatim_push_begin(c, queue);
    if (status == SERIATIM_OK)
        status = seriatim_push_want_handles(c);
    for (i = 0; i < 2 && status == SERIATIM_OK; i++) {
        seriatim_job job;
        seriatim_job_init(&job);
        job.id = "s";
        job.id_len = 1;
        job.payload = i ? "1" : "2";
        job.payload_len = 1;
        if (i)
            job.deliver_when = SERIATIM_DELAY, job.deliver_time = 3600;
        status = seriatim_push_job(c, &job);
    }
    return status == SERIATIM_OK ? seriatim_push_send(c) : status;
}

/* The handle of a payload of the queue "Q" and the id "a" that is not there. */
static seriatim_text some_handle(void)
{
    seriatim_text handle = {"AQAAAAAAAAAAAAFRYQ", 18};
    return handle;
}

/* The next check or action shows its progress, where there is a pseudo-terminal to show it on. */
static int check_shown(seriatim_link *link, size_t queue)
{
    static int ours = -1, theirs = -1;
    if (ours < 0) {
        ours = posix_openpt(O_RDWR | O_NOCTTY);
        assert_true(ours >= 0 && grantpt(ours) == 0 && unlockpt(ours) == 0);
        theirs = open(ptsname(ours), O_RDWR | O_NOCTTY | O_NONBLOCK);
        assert_true(theirs >= 0);
    }
    (void)seriatim_link_progress(link, theirs, "check", 5, -1);
    return seriatim_check_begin(seriatim_link_client(link), queue, 1);
}

/* Waits a little where nothing is due, so that it listens. */
static int pop(seriatim_client *c, size_t queue)
{
    seriatim_pop settings;
    seriatim_pop_init(&settings);
    settings.queues = &queue;
    settings.queue_count = 1;
    settings.wait = 0.01;
    return seriatim_pop_begin(c, &settings);
}

/* Hands back what was popped, if anything was. */
static int hand_back(seriatim_client *c)
{
    static const seriatim_popped_outcome release = {SERIATIM_POPPED_RELEASE, 0, {NULL, 0}, NULL, 0};
    const seriatim_popped *p = seriatim_pop_result(c);
    char token[256];
    seriatim_text kept = {token, 0};
    if (!p)
        return SERIATIM_OK;
    kept.len = p->token.len < sizeof token ? p->token.len : 0;
    memcpy(token, p->token.data, kept.len);
    return seriatim_popped_begin(c, kept, &release);
}

static int query(seriatim_client *c, size_t queue, int kind)
{
    static const seriatim_text ids[] = {{"a", 1}, {"b", 1}, {"unknown", 7}};
    seriatim_query q;
    seriatim_query_init(&q, kind);
    if (kind == SERIATIM_FETCH || kind == SERIATIM_MORGUE_FETCH) {
        q.ids = ids;
        q.id_count = 3;
    }
    return seriatim_query_begin(c, queue, &q);
}

static int act(seriatim_client *c, size_t queue, int kind)
{
    static const seriatim_text ids[] = {{"a", 1}, {"b", 1}, {"unknown", 7}},
                               named[] = {{"a", 1}, {"{\"some\":\"payload\"}", 18}};
    const seriatim_text handle[] = {some_handle(), {"2000000000", 10}};
#define X(number, name, takes, role) takes,
    static const enum { NOTHING, IDS, PAYLOAD, HANDLE, HANDLE_AT, QUEUE } takes[] = {SERIATIM_ACTIONS(X)};
#undef X
    const seriatim_text *const texts[] = {NULL, ids, named, handle, handle, NULL};
    static const size_t counts[] = {0, 3, 2, 1, 2, 0};
    return seriatim_action_begin(c, queue, kind, texts[takes[kind]], counts[takes[kind]]);
}

#define ACTIONS SERIATIM_DELETE_QUEUE /* the last one, which succeeds only once, is left out */
#define QUERIES SERIATIM_QUERIES_COUNT
#define OPERATIONS (ACTIONS + QUERIES + 13)
#define POP (QUERIES + 9) /* what is popped is handed back */

static int begin(seriatim_link *link, size_t queue, int number)
{
    seriatim_client *c = seriatim_link_client(link);
    if (number < QUERIES)
        return query(c, queue, number);
    number -= QUERIES;
    if (number < 7) /* those that leave something for the next */
        return number == 0   ? push(c, queue)
               : number == 1 ? seriatim_metrics_begin(c, queue)
               : number == 2 ? seriatim_explain_begin(c, queue, "a", 1)
               : number == 3 ? seriatim_check_begin(c, queue, 1)
               : number == 4 ? seriatim_check_begin(c, SERIATIM_NO_QUEUE, 0)
               : number == 5 ? seriatim_nodes_begin(c)
                             : seriatim_queues_begin(c);
    number -= 7;
    if (number < 3)
        return number == 0 ? push_scheduled(c, queue) : number == 1 ? check_shown(link, queue) : pop(c, queue);
    number -= 3;
    if (number < 3)
        return number == 0   ? seriatim_health_begin(c)
               : number == 1 ? seriatim_layout_begin(c, queue)
                             : seriatim_order_begin(c, "n1", 2, SERIATIM_ORDER_STOP);
    return act(c, queue, number - 3);
}

static void read_all(seriatim_client *c, size_t queue)
{
    size_t count;
    (void)seriatim_query_result(c, &count);
    (void)seriatim_push_result(c);
    (void)seriatim_push_refused(c, &count);
    (void)seriatim_push_handles(c, &count);
    (void)seriatim_metrics_total(c);
    (void)seriatim_metrics_shards(c, &count);
    (void)seriatim_explain_result(c);
    (void)seriatim_check_result(c, &count);
    (void)seriatim_check_looked_at(c);
    (void)seriatim_nodes_result(c, &count);
    (void)seriatim_order_result(c);
    (void)seriatim_queues_result(c, &count);
    (void)seriatim_health_result(c);
    (void)seriatim_action_result(c);
    (void)seriatim_pop_result(c);
    (void)seriatim_layout_shards(c, queue);
    (void)seriatim_client_warning(c);
}

static int drive(seriatim_link *link)
{
    int status;
    while ((status = seriatim_link_step(link)) == SERIATIM_AGAIN) {
        (void)seriatim_link_fd(link);
        (void)seriatim_link_wants(link);
        (void)seriatim_link_timeout_ms(link);
        status = seriatim_link_wait(link);
        if (status != SERIATIM_OK)
            return status;
    }
    return status;
}

static int operate(int number)
{
    seriatim_options options = {&allocator, NULL, "a-name", 0};
    seriatim_queue_settings settings = settings_of_queue();
    seriatim_link *link;
    seriatim_client *c;
    size_t queue;
    int status = seriatim_link_new(&options, server.url, &link, NULL);
    if (status != SERIATIM_OK)
        return status;
    c = seriatim_link_client(link);
    status = seriatim_client_queue(c, &settings, &queue);
    if (status == SERIATIM_OK)
        status = begin(link, queue, number);
    if (status == SERIATIM_OK)
        status = drive(link);
    if (status == SERIATIM_OK && number == POP)
        status = hand_back(c);
    if (status == SERIATIM_OK)
        status = drive(link);
    if (status == SERIATIM_OK)
        read_all(c, queue);
    else if (seriatim_client_error(c)->message[0] == '\0')
        fail_msg("operation %d failed without a word", number);
    (void)seriatim_link_url(link);
    (void)seriatim_link_address(link);
    seriatim_link_reset(link);
    seriatim_link_free(link);
    return status;
}

static int client_alone(int number)
{
    seriatim_options options = {&allocator, "another", "a-name", 0};
    seriatim_queue_settings settings = settings_of_queue();
    seriatim_client *c;
    size_t queue;
    int status = seriatim_client_new(&options, &c, NULL);
    (void)number;
    if (status != SERIATIM_OK)
        return status;
    status = seriatim_client_queue(c, &settings, &queue);
    if (status == SERIATIM_OK)
        status = seriatim_layout_begin(c, queue);
    seriatim_client_free(c);
    return status;
}

/* The calls of a trip on the set `ick`. */
static int call_ick(seriatim_client *c, const seriatim_ick *ick)
{
    static const seriatim_ick_member members[] = {{"a", 1, 1}, {"b", 1, 0.5}};
    const seriatim_text old = {"old", 3};
    int status = seriatim_ick_begin(c);
    if (status == SERIATIM_OK)
        status = seriatim_ick_add(c, ick, members, 2);
    if (status == SERIATIM_OK)
        status = seriatim_ick_reserve(c, ick, 2, 1);
    if (status == SERIATIM_OK)
        status = seriatim_ick_commit(c, ick, members, 2);
    if (status == SERIATIM_OK)
        status = seriatim_ick_exchange(c, ick, 2, 0, members, 1);
    if (status == SERIATIM_OK)
        status = seriatim_ick_stats(c, ick);
    if (status == SERIATIM_OK)
        status = seriatim_ick_import(c, ick, old);
    if (status == SERIATIM_OK)
        status = seriatim_ick_delete(c, ick);
    return status == SERIATIM_OK ? seriatim_ick_send(c) : status;
}

static int trip(int number)
{
    seriatim_options options = {&allocator, NULL, NULL, 0};
    const seriatim_ick ick = {{"K", 1}, {"me", 2}, 5, 0};
    seriatim_link *link;
    size_t count;
    int status = seriatim_link_new(&options, server.url, &link, NULL);
    (void)number;
    if (status != SERIATIM_OK)
        return status;
    status = call_ick(seriatim_link_client(link), &ick);
    if (status == SERIATIM_OK)
        status = drive(link);
    (void)seriatim_ick_results(seriatim_link_client(link), &count);
    if (status != SERIATIM_OK && seriatim_client_error(seriatim_link_client(link))->message[0] == '\0')
        fail_msg("a trip failed without a word");
    seriatim_link_free(link);
    return status;
}

static int ask_sentinels(int number)
{
    static const char answer[] = "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n";
    seriatim_sentinel *s;
    seriatim_address where;
    const char *data;
    size_t len;
    int status = seriatim_sentinel_new(&allocator, "redis+sentinel://a,b:7000/m", &s, NULL);
    (void)number;
    if (status != SERIATIM_OK)
        return status;
    seriatim_sentinel_begin(s);
    status = seriatim_sentinel_next(s, &where);
    if (status == SERIATIM_OK) {
        seriatim_sentinel_failed(s, "nobody is there");
        status = seriatim_sentinel_next(s, &where);
    }
    if (status == SERIATIM_OK) {
        seriatim_sentinel_output(s, &data, &len);
        status = seriatim_sentinel_input(s, answer, sizeof answer - 1, &where);
    }
    (void)seriatim_sentinel_error(s);
    seriatim_sentinel_free(s);
    return status;
}

/* ---- Scenarios of the web ------------------------------------------------------------------ */

static const char *const web_reads[] = {"/",
                                        "/assets/x/app/api.js",
                                        "/none/\xff",
                                        "/api/none",
                                        "/livez",
                                        "/readyz",
                                        "/metrics",
                                        "/api/v1/stats",
                                        "/api/web/dashboard",
                                        "/api/web/Q/range_by_id?min=-&max=%2B",
                                        "/api/web/Q/morgue_range_by_updated_at",
                                        "/api/web/Q/range_by_id?min=x",
                                        "/api/v1/queues/Q",
                                        "/api/v1/queues/None",
                                        "/api/v1/queues/Q/records?part=waiting&limit=2",
                                        "/api/v1/queues/Q/records?by=time&limit=2&cursor=000000000000000061",
                                        "/api/v1/queues/Q/records?part=retrying&by=time&limit=1",
                                        "/api/v1/queues/Q/records?cursor=0.0.0.1.000000000000000061",
                                        "/api/v1/queues/Q/id?id=a",
                                        "/api/v1/queues/Q/hottest",
                                        "/api/v1/queues/Q/ages",
                                        "/api/v1/queues/Q/bytes",
                                        "/api/v1/queues/Q/errors?part=retrying",
                                        "/api/v1/queues/Q/records?part=dead&error=0123456789abcdef",
                                        "/api/v1/queues/Q/errors?part=retrying&loads",
                                        "/api/v1/queues/Q/records?part=retrying&error=cbf29ce484222325&loads",
                                        "/api/v1/running",
                                        "/api/v1/nodes",
                                        "/api/v1/search?q=a",
                                        "/api/v1/search?q=a&queue=Q&prefix=1",
                                        "/api/v1/history?span=1h",
                                        "/api/v1/history?queue=Q"};
static const char *const web_writes[] = {"/api/web/Q/park",
                                         "/api/web/Q/unpark",
                                         "/api/v1/queues/Q/errors/0123456789abcdef/queue_up",
                                         "/api/web/Q/unpark_all",
                                         "/api/web/Q/perform_now",
                                         "/api/v1/nodes/n1/quiet",
                                         "/api/web/Q/drop_payload",
                                         "/api/v1/queues/Q/errors/cbf29ce484222325/kill?loads"};

#define WEB_READS (int)(sizeof web_reads / sizeof *web_reads)
#define WEB_WRITES (int)(sizeof web_writes / sizeof *web_writes)

static seriatim_text text_of(const char *text)
{
    seriatim_text t = {text, text ? strlen(text) : 0};
    return t;
}

static seriatim_text shorten(void *context, seriatim_text queue, seriatim_text id, seriatim_text text)
{
    (void)context;
    (void)queue;
    (void)id;
    text.len = text.len > 3 ? 3 : text.len;
    return text;
}

static seriatim_text load(void *context, seriatim_text stored)
{
    (void)context;
    return stored;
}

/* The status of the drive, or of what the answer says: without memory it is a 503. */
static int browse(seriatim_link *link, int number)
{
    seriatim_web_request request;
    seriatim_web_settings settings;
    static const seriatim_web_hooks hooks = {shorten, load, NULL};
    const seriatim_web_response *response;
    const seriatim_web_change *change;
    const char *target = number < WEB_READS ? web_reads[number] : web_writes[number - WEB_READS],
               *question = strchr(target, '?');
    int status;
    memset(&request, 0, sizeof request);
    memset(&settings, 0, sizeof settings);
    settings.title = "A title";
    settings.loads_errors = strstr(target, "loads") != NULL;
    request.method = number < WEB_READS ? "GET" : "POST";
    request.role = SERIATIM_WEB_ADMIN;
    request.path.data = target;
    request.path.len = question ? (size_t)(question - target) : strlen(target);
    request.query = text_of(question ? question + 1 : NULL);
    request.sec_fetch_site = text_of("same-origin");
    request.content_type = text_of("application/json");
    request.body = text_of(number == WEB_READS ? "{\"ids\":[\"a\",7,{\"base64\":\"Yg==\"}]}"
                           : number == WEB_READS + 1 || number == WEB_READS + 4 ? "{\"ids\":[\"a\"]}"
                           : number == WEB_READS + 6 ? "{\"id\":\"a\",\"key\":\"00000000000000000000000000000000\"}"
                                                     : NULL);
    status = seriatim_web_begin(seriatim_link_client(link), &settings, &request);
    if (status == SERIATIM_OK)
        status = drive(link);
    while (!(response = seriatim_web_answer(seriatim_link_client(link), status, &hooks)))
        status = drive(link);
    assert_true(response->header_count >= 2 && response->body.data);
    if (status == SERIATIM_OK && response->status == 503 && strstr(response->body.data, "out of memory"))
        status = SERIATIM_NOMEM;
    if (status == SERIATIM_OK && response->status >= 500)
        fail_msg("%s: %d %s", target, response->status, response->body.data);
    change = seriatim_web_change_of(seriatim_link_client(link));
    assert_int_equal(status == SERIATIM_OK && change != NULL, status == SERIATIM_OK && number >= WEB_READS);
    if (change && change->line.len == 0) /* all else is told without memory */
        status = SERIATIM_NOMEM;
    return status;
}

static int browse_twice(int number)
{
    seriatim_options options = {&allocator, NULL, NULL, 0};
    seriatim_link *link;
    size_t count;
    int status = seriatim_link_new(&options, server.url, &link, NULL);
    (void)seriatim_web_routes(&count);
    if (status != SERIATIM_OK)
        return status;
    status = browse(link, number);
    if (status == SERIATIM_OK)
        status = browse(link, number);
    seriatim_link_free(link);
    return status;
}

/* What consumers send; the token of the last names an id that does not run. */
static const char *const consumer_posts[][2] = {
    {"push",
     "{\"handles\":true,\"queue\":\"Q\",\"jobs\":[{\"id\":{\"base64\":\"Yg==\"},\"payload\":{\"a\":[1.5,null,true]},"
     "\"context\":{\"c\":\"d\"},\"on_waiting\":\"keep\"}]}"},
    {"push", "{\"raw\":true,\"queue\":\"Q\",\"jobs\":[{\"id\":1,\"payload\":\"AAE=\"}]}"},
    {"pop", "{\"queues\":[\"Q\"],\"weights\":[2],\"wait\":0,\"ttr\":0}"},
    {"pop", "{\"queues\":[\"Q\"],\"wait\":0,\"raw\":true}"},
    {"fail", "{\"token\":\"AUAUAAAAAAAAP_AAAAAAAAA_8AAAAAAAAD_wAAAAAAAAAAEAAQBRYQ\",\"error\":\"e\"}"},
};

static int consume(seriatim_link *link, int number)
{
    seriatim_web_request request;
    seriatim_web_settings settings;
    const seriatim_web_response *response;
    char path[64];
    int status;
    memset(&request, 0, sizeof request);
    memset(&settings, 0, sizeof settings);
    settings.consume = 1;
    snprintf(path, sizeof path, "/api/v1/consume/%s", consumer_posts[number][0]);
    request.method = "POST";
    request.role = SERIATIM_WEB_CONSUMER;
    request.path = text_of(path);
    request.content_type = text_of("application/json");
    request.body = text_of(consumer_posts[number][1]);
    status = seriatim_web_begin(seriatim_link_client(link), &settings, &request);
    if (status == SERIATIM_OK)
        status = drive(link);
    while (!(response = seriatim_web_answer(seriatim_link_client(link), status, NULL)))
        status = drive(link);
    if (response->status == 503)
        return SERIATIM_NOMEM;
    if (response->status >= 400 && response->status != 409)
        fail_msg("%s: %d %s", path, response->status, response->body.data);
    return SERIATIM_OK;
}

static int consume_once(int number)
{
    seriatim_options options = {&allocator, NULL, NULL, 0};
    seriatim_link *link;
    int status = seriatim_link_new(&options, server.url, &link, NULL);
    if (status != SERIATIM_OK)
        return status;
    status = consume(link, number);
    seriatim_link_free(link);
    return status;
}

/* ---- Scenario of a runner ------------------------------------------------------------------ */

static void say_outcomes(seriatim_runner *runner, seriatim_delivery *d)
{
    size_t first = 0, i;
    (void)seriatim_delivery_worker(d);
    for (i = 0; i < seriatim_delivery_size(d); i++) {
        char which = seriatim_delivery_kind_of(d) == SERIATIM_RUN ? seriatim_delivery_job(d, i)->id[0] : 0;
        int status = seriatim_runner_extend(runner, d, i, 60);
        if (which && seriatim_delivery_job(d, i)->payload_count > 1)
            status |= seriatim_runner_checkpoint(runner, d, i, 1);
        if (which % 8 == 0)
            status |= seriatim_delivery_snooze(d, i, 60, "1", 1);
        else if (which % 4 == 0)
            status |= seriatim_delivery_done(d, i);
        else if (which % 4 == 1)
            status |= seriatim_delivery_fail(d, i, "wrong", 5, 60);
        else if (which % 4 == 2)
            status |= seriatim_delivery_reject(d, i, &first, 1, "unreadable", 10);
        else
            status |= seriatim_delivery_release(d, i);
        seriatim_runner_failure(runner, d, i);
        assert_true(status == SERIATIM_OK || status == SERIATIM_NOMEM);
    }
    (void)seriatim_runner_flush(runner, d, 0);
}

static int take(seriatim_runner *runner, seriatim_delivery **d, int turn)
{
    seriatim_candidate list[2];
    if (turn % 2 && seriatim_runner_candidates(runner, 0, list, 2) > 0)
        return seriatim_runner_take_from(runner, 0, list[0].shard, d);
    return seriatim_runner_take(runner, 0, d);
}

/* Takes what is there, for a little while. */
/* Settles, on odd turns taking up to three more as it does so. The status of the last take. */
static int settle(seriatim_runner *runner, seriatim_delivery *d, int turn)
{
    int more, status = SERIATIM_OK;
    for (more = turn % 2 ? 3 : 0; status == SERIATIM_OK; more--) {
        (void)seriatim_delivery_shard(d);
        say_outcomes(runner, d);
        if (more == 0) {
            assert_int_equal(seriatim_runner_settle(runner, d), SERIATIM_OK);
            break;
        }
        status = seriatim_runner_settle_and_take(runner, d, 0, &d);
    }
    return status;
}

/* As seriatim_runner_wait does. */
static void wait_begin_and_end(seriatim_runner *runner)
{
    seriatim_waiter *waiter;
    struct pollfd fd = {seriatim_runner_wait_begin(runner, 0, &waiter), POLLIN, 0};
    assert_true(waiter || fd.fd == seriatim_runner_fd(runner, 0));
    seriatim_runner_wake_all(runner);
    assert_int_equal(poll(&fd, 1, 5000), 1);
    seriatim_runner_wait_end(runner, 0, waiter);
}

static void work(seriatim_runner *runner)
{
    seriatim_event event;
    int turn;
    for (turn = 0; turn < 12; turn++) {
        seriatim_delivery *d;
        int status = take(runner, &d, turn);
        seriatim_runner_pulse(runner);
        while (seriatim_runner_event(runner, &event) == SERIATIM_OK)
            ;
        if (status == SERIATIM_OK)
            status = settle(runner, d, turn);
        if (status != SERIATIM_OK && turn % 2)
            wait_begin_and_end(runner);
        else if (status != SERIATIM_OK)
            seriatim_runner_wait(runner, 0, 5);
    }
}

static void leave(seriatim_runner *runner, int abandon)
{
    int i;
    seriatim_delivery *d;
    seriatim_runner_quiet(runner);
    seriatim_runner_stop(runner);
    if (abandon)
        seriatim_runner_abandon(runner);
    for (i = 0; i < 2000 && !seriatim_runner_stopped(runner); i++) {
        if (seriatim_runner_take(runner, 0, &d) == SERIATIM_OK)
            seriatim_runner_settle(runner, d);
        else
            seriatim_runner_clear(runner, 0);
        pause_ms(2);
    }
    assert_true(seriatim_runner_stopped(runner));
}

static int run(int number)
{
    static const seriatim_shard shards[] = {{0, 0}, {0, 1}};
    seriatim_queue_settings queue = settings_of_queue();
    seriatim_node_settings settings;
    seriatim_runner *runner;
    size_t worker, group;
    int status;
    char id[32], unfinished[128];
    static int lives;
    memset(&settings, 0, sizeof settings);
    snprintf(id, sizeof id, "node-%d", ++lives);
    settings.id = id;
    settings.options.allocator = &allocator;
    settings.lease_ms = 10000;
    settings.poll_ms = 10;
    settings.threads = 1;
    queue.ttr = 60;
    status = seriatim_runner_new(&settings, server.url, &runner, NULL);
    if (status != SERIATIM_OK)
        return status;
    status = seriatim_runner_worker(runner, &queue, &worker, NULL);
    if (status == SERIATIM_OK && number)
        status = seriatim_runner_group(runner, SERIATIM_LAG, shards, 2, &group, NULL);
    if (status == SERIATIM_OK)
        status = seriatim_runner_start(runner, NULL);
    if (status == SERIATIM_OK) {
        work(runner);
        (void)seriatim_runner_stats_now(runner);
        (void)seriatim_runner_asked(runner);
        (void)seriatim_runner_unfinished(runner, unfinished, sizeof unfinished);
        leave(runner, number);
    }
    seriatim_runner_free(runner);
    return status;
}

/* ---- The n-th allocation ------------------------------------------------------------------- */

static int attempt(const char *what, int (*scenario)(int), int number, size_t fail_at)
{
    int status;
    memory.calls = 0;
    memory.live = 0;
    memory.fail_at = fail_at;
    status = scenario(number);
    if (status != SERIATIM_OK && status != SERIATIM_NOMEM)
        fail_msg("%s %d, allocation %lu: %s", what, number, (unsigned long)fail_at, seriatim_status_name(status));
    if (memory.live != 0)
        fail_msg("%s %d, allocation %lu: %ld bytes live on", what, number, (unsigned long)fail_at, memory.live);
    return status;
}

/* Every n up to the number that a whole scenario needs; beyond `dense` only some. */
static void fail_each(const char *what, int (*scenario)(int), int number, size_t dense)
{
    size_t n, failed = 0;
    for (n = 1; n < MOST; n += n < dense ? 1 : n / 8) {
        failed += attempt(what, scenario, number, n) == SERIATIM_NOMEM;
        if (memory.calls < n)
            break;
    }
    assert_true(n < MOST && failed > 0);
    assert_int_equal(attempt(what, scenario, number, 0), SERIATIM_OK);
}

static void test_every_allocation_of_a_client_may_fail(void **state)
{
    int number;
    (void)state;
    fail_each("client", client_alone, 0, MOST);
    fail_each("sentinel", ask_sentinels, 0, MOST);
    REDIS("SET old ick.v1");
    REDIS("ZADD old/ick/{old}/pset 1 c 2 d");
    fail_each("trip", trip, 0, MOST);
    assert_int_equal(operate(QUERIES), SERIATIM_OK); /* a push: something to look at */
    for (number = 0; number < OPERATIONS; number++) {
        memory.fail_at = 0;
        assert_int_equal(operate(QUERIES), SERIATIM_OK);
        fail_each("operation", operate, number, MOST);
    }
}

static void test_every_allocation_of_the_dashboard_may_fail(void **state)
{
    int number;
    (void)state;
    memory.fail_at = 0;
    assert_int_equal(operate(QUERIES), SERIATIM_OK);
    for (number = 0; number < WEB_READS + WEB_WRITES; number++)
        fail_each("web", browse_twice, number, 200);
    for (number = 0; number < (int)(sizeof consumer_posts / sizeof *consumer_posts); number++)
        fail_each("consumer", consume_once, number, 200);
}

static void test_every_allocation_of_a_runner_may_fail(void **state)
{
    int number;
    (void)state;
    for (number = 0; number < 2; number++) {
        memory.fail_at = 0;
        assert_int_equal(operate(QUERIES), SERIATIM_OK);
        fail_each("runner", run, number, 80);
    }
}

/* ---- Is everything here? -------------------------------------------------------------------- */

/* These have no allocator, and need none. */
static const char *const allocate_nothing[] = {
    "seriatim_status_name",  "seriatim_status_text", "seriatim_version",       "seriatim_default_allocator",
    "seriatim_back_off",     "seriatim_split",       "seriatim_shard_of",      "seriatim_printable",
    "seriatim_command_text", "seriatim_web_redact",  "seriatim_web_load_error"}; /* the last two: types of the host's */

static char *read_source(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    if (!file || !text)
        fail_msg("cannot read %s", path);
    text[fread(text, 1, (1 << 20) - 1, file)] = '\0';
    fclose(file);
    return text;
}

static int is_called(const char *source, const char *name)
{
    char call[128];
    size_t i;
    snprintf(call, sizeof call, "%.100s(", name);
    for (i = 0; i < sizeof allocate_nothing / sizeof *allocate_nothing; i++)
        if (strcmp(allocate_nothing[i], name) == 0)
            return 1;
    return strstr(source, call) != NULL;
}

static void test_every_public_function_is_called_here(void **state)
{
    char *header = read_source(SERIATIM_SOURCE_DIR "/core/include/seriatim.h");
    char *source = read_source(SERIATIM_SOURCE_DIR "/core/test/test_allocation.c"), *at;
    int count = 0;
    (void)state;
    for (at = header; (at = strstr(at, "seriatim_"));) {
        char name[128];
        size_t len = 0;
        while (len < sizeof name - 1 && (isalnum((unsigned char)at[len]) || at[len] == '_'))
            len++;
        memcpy(name, at, len);
        name[len] = '\0';
        at += len;
        if (*at != '(' || strcmp(name, "seriatim_") == 0)
            continue;
        count++;
        if (!is_called(source, name))
            fail_msg("%s is not called in test_allocation.c", name);
    }
    assert_true(count > 70);
    free(header);
    free(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_public_function_is_called_here),
        cmocka_unit_test(test_every_allocation_of_a_client_may_fail),
        cmocka_unit_test(test_every_allocation_of_the_dashboard_may_fail),
        cmocka_unit_test(test_every_allocation_of_a_runner_may_fail),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
