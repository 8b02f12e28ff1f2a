/*
 * test_allocation.c - the n-th allocation fails, for every n, under every public function of a client; nothing leaks,
 * nothing hangs, and the status says so. A function of seriatim.h that no program test_allocation*.c calls fails the
 * test.
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seriatim.h"
#include "server.h"
#include "allocation.h"
#include "imported.h"

/* ---- Scenarios of a client ----------------------------------------------------------------- */

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

/* As the relay of an outbox pushes. */
static int push_numbered(seriatim_client *c, size_t queue)
{
    seriatim_job job;
    int status = seriatim_push_begin(c, queue);
    if (status == SERIATIM_OK)
        status = seriatim_push_outbox(c, "o");
    seriatim_job_init(&job);
    job.id = "numbered";
    job.id_len = 8;
    job.number = 1;
    if (status == SERIATIM_OK)
        status = seriatim_push_job(c, &job);
    return status == SERIATIM_OK ? seriatim_push_send(c) : status;
}

/* Two pushes in one operation; the second one's job is turned away, and both have handles. */
static int push_two(seriatim_client *c, size_t queue)
{
    int i, status = seriatim_pipeline_begin(c);
    for (i = 0; i < 2 && status == SERIATIM_OK; i++) {
        seriatim_job job;
        seriatim_job_init(&job);
        job.id = "a";
        job.id_len = 1;
        job.on_waiting = i ? "reject" : NULL;
        status = seriatim_pipeline_push(c, queue);
        if (status == SERIATIM_OK)
            status = seriatim_push_want_handles(c);
        if (status == SERIATIM_OK)
            status = seriatim_push_job(c, &job);
    }
    return status == SERIATIM_OK ? seriatim_pipeline_send(c) : status;
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
    static const int64_t weight = 1;
    seriatim_pop settings;
    seriatim_pop_init(&settings);
    settings.queues = &queue;
    settings.queue_count = 1;
    settings.weights = &weight;
    settings.wait = 0.01;
    return seriatim_pop_begin(c, &settings);
}

/* Hands back what was popped, if anything was. */
static int hand_back(seriatim_client *c)
{
    static const seriatim_popped_outcome release = {SERIATIM_POPPED_RELEASE, 0, {NULL, 0}, NULL, 0};
    const seriatim_popped *p = seriatim_pop_result(c);
    char token[256], bytes[SERIATIM_TOKEN];
    seriatim_text kept = {token, 0};
    seriatim_token_parts parts;
    if (!p)
        return SERIATIM_OK;
    kept.len = p->token.len < sizeof token ? p->token.len : 0;
    memcpy(token, p->token.data, kept.len);
    return seriatim_token_read(kept, bytes, &parts) == SERIATIM_OK ? seriatim_popped_begin(c, kept, &release)
                                                                   : SERIATIM_INVALID;
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
                               named[] = {{"a", 1}, {"{\"some\":\"payload\"}", 18}}, shards[] = {{"3", 1}};
    const seriatim_text record[] = {{"a", 1}, {IMPORTED("w"), sizeof IMPORTED("w") - 1}};
    const seriatim_text handle[] = {some_handle(), {"2000000000", 10}};
#define X(number, name, takes, role) takes,
    static const enum {
        NOTHING,
        IDS,
        PAYLOAD,
        HANDLE,
        HANDLE_AT,
        RECORD,
        SHARDS,
        QUEUE
    } takes[] = {SERIATIM_ACTIONS(X)};
#undef X
    const seriatim_text *const texts[] = {NULL, ids, named, handle, handle, record, shards, NULL};
    static const size_t counts[] = {0, 3, 2, 1, 2, 2, 1, 0};
    return seriatim_action_begin(c, queue, kind, texts[takes[kind]], counts[takes[kind]]);
}

#define ACTIONS SERIATIM_DELETE_QUEUE /* the last one, which succeeds only once, is left out */

#define QUERIES SERIATIM_QUERIES_COUNT

#define OPERATIONS (ACTIONS + QUERIES + 15)

#define PUSH_NUMBERED (QUERIES + 13)

#define POP (QUERIES + 9) /* what is popped is handed back */

static int begin(seriatim_link *link, size_t queue, int number)
{
    seriatim_client *c = seriatim_link_client(link);
    if (number < QUERIES)
        return query(c, queue, number);
    number -= QUERIES;
    if (number < 7) /* those that leave something for the next */
        return number == 0   ? push_thirty(c, queue)
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
    if (number < 5)
        return number == 0   ? seriatim_health_begin(c)
               : number == 1 ? seriatim_layout_begin(c, queue)
               : number == 2 ? push_two(c, queue)
               : number == 3 ? push_numbered(c, queue)
                             : seriatim_order_begin(c, "n1", 2, SERIATIM_ORDER_STOP);
    return act(c, queue, number - 5);
}

static void read_all(seriatim_client *c, size_t queue)
{
    size_t count;
    seriatim_push_counts counts;
    seriatim_error error;
    (void)seriatim_query_result(c, &count);
    (void)seriatim_push_result(c);
    (void)seriatim_push_refused(c, &count);
    (void)seriatim_push_handles(c, &count);
    (void)seriatim_pipeline_result(c, 0, &counts, &error);
    (void)seriatim_pipeline_outcome(c, 0, 0);
    (void)seriatim_pipeline_handles(c, 0, &count);
    (void)seriatim_metrics_total(c);
    (void)seriatim_metrics_shards(c, &count);
    (void)seriatim_metrics_resharding(c);
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

static int operate(int number)
{
    seriatim_options options = {&failing_allocator, NULL, "a-name", 0, "REDIS_URL"};
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
        status = drive_failing(link);
    if (status == SERIATIM_OK && number == POP)
        status = hand_back(c);
    if (status == SERIATIM_OK)
        status = drive_failing(link);
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
    seriatim_options options = {&failing_allocator, "another", "a-name", 0, NULL};
    seriatim_queue_settings settings = settings_of_queue();
    seriatim_client *c;
    seriatim_turns *turns;
    size_t queue;
    int status = seriatim_client_new(&options, &c, NULL);
    (void)number;
    if (status != SERIATIM_OK)
        return status;
    turns = seriatim_turns_new(&failing_allocator);
    seriatim_client_share_turns(c, turns);
    status = turns ? seriatim_client_queue(c, &settings, &queue) : SERIATIM_NOMEM;
    if (status == SERIATIM_OK)
        status = seriatim_layout_begin(c, queue);
    seriatim_client_free(c);
    seriatim_turns_free(turns);
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
    seriatim_options options = {&failing_allocator, NULL, NULL, 0, NULL};
    const seriatim_ick ick = {{"K", 1}, {"me", 2}, 5, 0};
    seriatim_link *link;
    size_t count;
    int status = seriatim_link_new(&options, server.url, &link, NULL);
    (void)number;
    if (status != SERIATIM_OK)
        return status;
    status = call_ick(seriatim_link_client(link), &ick);
    if (status == SERIATIM_OK)
        status = drive_failing(link);
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
    int status = seriatim_sentinel_new(&failing_allocator, "redis+sentinel://a,b:7000/m", &s, NULL);
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
        seriatim_sentinel_served(s);
    }
    (void)seriatim_sentinel_error(s);
    seriatim_sentinel_free(s);
    return status;
}

/* ---- The n-th allocation ------------------------------------------------------------------- */

static void test_every_allocation_of_a_client_may_fail(void **state)
{
    int number;
    (void)state;
    fail_each_allocation("client", client_alone, 0, MOST);
    fail_each_allocation("sentinel", ask_sentinels, 0, MOST);
    REDIS("SET old ick.v1");
    REDIS("ZADD old/ick/{old}/pset 1 c 2 d");
    fail_each_allocation("trip", trip, 0, MOST);
    fill_queue();
    /* Redis must know its script: a push whose script cannot be sent for lack of memory has an unknown outcome. */
    assert_int_equal(operate(PUSH_NUMBERED), SERIATIM_OK);
    for (number = 0; number < OPERATIONS; number++) {
        fill_queue();
        fail_each_allocation("operation", operate, number, MOST);
    }
}

/* ---- Is everything here? -------------------------------------------------------------------- */

/* These have no allocator, and need none. */
static const char *const allocate_nothing[] = {
    "seriatim_status_name", "seriatim_status_text",
    "seriatim_version",     "seriatim_default_allocator",
    "seriatim_back_off",    "seriatim_back_off_of_events",
    "seriatim_split",       "seriatim_shard_of",
    "seriatim_printable",   "seriatim_command_text",
    "seriatim_web_redact",  "seriatim_web_load_error"}; /* the last two: types of the host's */

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

/* All that these programs hold, in one text. */
static char *read_sources(void)
{
    static const char *const names[] = {"allocation.c", "test_allocation.c", "test_allocation_web.c",
                                        "test_allocation_runner.c"};
    char *all = calloc(1, 1 << 20), path[512];
    size_t i;
    assert_non_null(all);
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        char *one;
        snprintf(path, sizeof path, "%s/core/test/%s", SERIATIM_SOURCE_DIR, names[i]);
        one = read_source(path);
        assert_true(strlen(all) + strlen(one) < 1 << 20);
        strcat(all, one);
        free(one);
    }
    return all;
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
    char *sources = read_sources(), *at;
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
        if (!is_called(sources, name))
            fail_msg("%s is called in no program test_allocation*.c", name);
    }
    assert_true(count > 70);
    free(header);
    free(sources);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_public_function_is_called_here),
        cmocka_unit_test(test_every_allocation_of_a_client_may_fail),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
