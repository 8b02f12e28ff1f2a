/* test_misuse.c - wrong arguments of public functions are answered by INVALID; no Redis is needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "seriatim.h"

#define NOWHERE "unix:///nowhere"

static seriatim_link *link;
static seriatim_client *client;
static size_t queue;

static int make_client(void **state)
{
    seriatim_queue_settings settings;
    seriatim_error error;
    (void)state;
    seriatim_queue_settings_init(&settings);
    settings.name = "Q";
    settings.name_len = 1;
    assert_int_equal(seriatim_link_new(NULL, NOWHERE, &link, &error), SERIATIM_OK);
    client = seriatim_link_client(link);
    return seriatim_client_queue(client, &settings, &queue);
}

static int free_client(void **state)
{
    (void)state;
    seriatim_link_free(link);
    return 0;
}

static void refused(int status, const char *message)
{
    assert_string_equal(status == SERIATIM_INVALID ? seriatim_client_error(client)->message : "not refused", message);
}

/* ---- Operations ------------------------------------------------------------------------------ */

static int begin_query(size_t of, int kind, const seriatim_text *ids, size_t count)
{
    seriatim_query query;
    seriatim_query_init(&query, kind);
    query.ids = ids;
    query.id_count = count;
    return seriatim_query_begin(client, of, &query);
}

static int begin_pop(size_t of)
{
    seriatim_pop pop;
    seriatim_pop_init(&pop);
    pop.queues = &of;
    pop.queue_count = 1;
    return seriatim_pop_begin(client, &pop);
}

static void test_an_operation_of_one_queue_refuses_the_number_of_no_queue(void **state)
{
    static const struct {
        int kind;
        seriatim_text text;
    } actions[] = {
        {SERIATIM_PAUSE, {NULL, 0}},  {SERIATIM_DELETE, {"a", 1}},
        {SERIATIM_RESHARD, {"5", 1}}, {SERIATIM_DELETE_ALL_FAILED_JOBS, {NULL, 0}},
        {SERIATIM_CANCEL, {"a", 1}},  {SERIATIM_DELETE_QUEUE, {NULL, 0}},
    };
    const seriatim_text id = {"a", 1};
    char told[80];
    size_t i;
    int kind;
    (void)state;
    snprintf(told, sizeof told, "there is no queue with the number %lu", (unsigned long)SERIATIM_NO_QUEUE);
    refused(seriatim_metrics_begin(client, SERIATIM_NO_QUEUE), told);
    refused(seriatim_layout_begin(client, SERIATIM_NO_QUEUE), told);
    refused(seriatim_explain_begin(client, SERIATIM_NO_QUEUE, "a", 1), told);
    refused(seriatim_push_begin(client, SERIATIM_NO_QUEUE), told);
    refused(begin_pop(SERIATIM_NO_QUEUE), told);
    for (kind = 0; kind < SERIATIM_QUERIES_COUNT; kind++)
        refused(begin_query(SERIATIM_NO_QUEUE, kind, &id, kind == SERIATIM_FETCH || kind == SERIATIM_MORGUE_FETCH),
                told);
    for (i = 0; i < sizeof actions / sizeof *actions; i++)
        refused(seriatim_action_begin(client, SERIATIM_NO_QUEUE, actions[i].kind, &actions[i].text,
                                      actions[i].text.data != NULL),
                told);
    assert_int_equal(seriatim_pipeline_begin(client), SERIATIM_OK);
    refused(seriatim_pipeline_push(client, SERIATIM_NO_QUEUE), told);
    assert_int_equal(seriatim_check_begin(client, SERIATIM_NO_QUEUE, 0), SERIATIM_OK);
}

/* ---- Texts and lists without a pointer ------------------------------------------------------- */

static void test_an_action_refuses_texts_that_are_missing(void **state)
{
    static const seriatim_text none[2] = {{NULL, 3}, {NULL, 3}}, id_alone[2] = {{"a", 1}, {NULL, 3}};
    static const char shards[] = "shards must be a whole number from 1 to 4096, not \"\"";
    static const char force[] = "force must be the name of the queue that is to be deleted";
    (void)state;
    refused(seriatim_action_begin(client, queue, SERIATIM_DELETE, NULL, 3), "ids are missing");
    refused(seriatim_action_begin(client, queue, SERIATIM_DELETE, none, 1), "ids[0] must be 1 to 1024 bytes, not 3");
    refused(seriatim_action_begin(client, queue, SERIATIM_CANCEL, NULL, 1), "a handle is to be given");
    refused(seriatim_action_begin(client, queue, SERIATIM_RESCHEDULE, NULL, 2), "a handle and a time is to be given");
    refused(seriatim_action_begin(client, queue, SERIATIM_RESCHEDULE, none, 2), "at must be a finite number");
    refused(seriatim_action_begin(client, queue, SERIATIM_RESHARD, NULL, 1), shards);
    refused(seriatim_action_begin(client, queue, SERIATIM_RESHARD, none, 1), shards);
    refused(seriatim_action_begin(client, queue, SERIATIM_DELETE_QUEUE, NULL, 1), force);
    refused(seriatim_action_begin(client, queue, SERIATIM_DELETE_QUEUE, none, 1), force);
    refused(seriatim_action_begin(client, queue, SERIATIM_DROP_PAYLOAD, NULL, 2),
            "an id and one of its payloads are to be given");
    assert_int_equal(seriatim_action_begin(client, queue, SERIATIM_DROP_PAYLOAD, id_alone, 2), SERIATIM_OK);
}

/* With them the caller meant chosen ids, and not the whole queue. */
static void test_an_action_on_a_whole_queue_refuses_texts(void **state)
{
    const seriatim_text id = {"a", 1};
    (void)state;
    refused(seriatim_action_begin(client, queue, SERIATIM_PAUSE, NULL, 3), "pause takes no texts, not 3");
    refused(seriatim_action_begin(client, queue, SERIATIM_MORGUE_DELETE_ALL_JOBS, NULL, 1),
            "morgue_delete_all_jobs takes no texts, not 1");
    refused(seriatim_action_begin(client, queue, SERIATIM_DELETE_ALL_FAILED_JOBS, &id, 1),
            "delete_all_failed_jobs takes no texts, not 1");
    assert_int_equal(seriatim_action_begin(client, queue, SERIATIM_PAUSE, &id, 0), SERIATIM_OK);
}

static void test_a_query_and_a_command_to_a_node_refuse_texts_that_are_missing(void **state)
{
    (void)state;
    refused(begin_query(queue, SERIATIM_FETCH, NULL, 3), "ids are missing");
    refused(seriatim_order_begin(client, NULL, 4, SERIATIM_ORDER_QUIET), "the id of the node is missing");
    assert_null(seriatim_command_text(NULL));
    assert_int_equal(seriatim_link_progress(link, 0, NULL, 5, -1), 0);
}

static void test_a_push_refuses_texts_that_are_missing(void **state)
{
    seriatim_job job;
    (void)state;
    seriatim_job_init(&job);
    job.id = "a";
    job.id_len = 1;
    job.context_len = 4;
    assert_int_equal(seriatim_push_begin(client, queue), SERIATIM_OK);
    refused(seriatim_push_job(client, &job), "jobs[0]: context is missing");
    assert_int_equal(seriatim_push_begin(client, queue), SERIATIM_OK);
    refused(seriatim_push_outbox(client, NULL), "the name of an outbox must be 1 to 64 letters, digits, '-' or '_'");
}

static void test_a_call_of_a_set_refuses_texts_and_members_that_are_missing(void **state)
{
    static const seriatim_ick_member unset = {NULL, 4, 1};
    const seriatim_text text = {NULL, 4};
    seriatim_ick ick;
    (void)state;
    memset(&ick, 0, sizeof ick);
    assert_int_equal(seriatim_ick_begin(client), SERIATIM_OK);
    refused(seriatim_ick_add(client, &ick, NULL, 3), "ickadd: members are missing");
    refused(seriatim_ick_send(client), "there are no calls of two-phase commit sets to send");
    assert_int_equal(seriatim_ick_begin(client), SERIATIM_OK);
    refused(seriatim_ick_commit(client, &ick, NULL, 3), "ickcommit: members are missing");
    assert_int_equal(seriatim_ick_begin(client), SERIATIM_OK);
    refused(seriatim_ick_exchange(client, &ick, 5, 0, NULL, 3), "ickexchange: members are missing");
    assert_int_equal(seriatim_ick_begin(client), SERIATIM_OK);
    refused(seriatim_ick_add(client, &ick, &unset, 1), "ickadd: member 1 is missing");
    assert_int_equal(seriatim_ick_begin(client), SERIATIM_OK);
    refused(seriatim_ick_import(client, &ick, text), "import: the key is missing");
    ick.name = text;
    assert_int_equal(seriatim_ick_begin(client), SERIATIM_OK);
    refused(seriatim_ick_stats(client, &ick), "ickstats: the name is missing");
}

static void test_a_request_refuses_lists_that_are_missing(void **state)
{
    seriatim_web_settings settings;
    seriatim_web_request request;
    (void)state;
    memset(&settings, 0, sizeof settings);
    memset(&request, 0, sizeof request);
    settings.host_count = 1;
    refused(seriatim_web_begin(client, &settings, &request), "hosts are missing");
    settings.host_count = 0;
    settings.worker_count = 1;
    refused(seriatim_web_begin(client, &settings, &request), "workers are missing");
}

static void test_a_request_ignores_the_length_of_a_text_that_is_missing(void **state)
{
    static const char *const methods[] = {"GET", "POST"}, *const paths[] = {NULL, "/", "/api/web/Q/park",
                                                                            "/api/v1/consume/pop"};
    const seriatim_text missing = {NULL, 9};
    const seriatim_web_worker worker = {{NULL, 9}, {NULL, 9}};
    seriatim_web_settings settings;
    seriatim_web_request request;
    size_t i;
    int status;
    (void)state;
    memset(&settings, 0, sizeof settings);
    settings.workers = &worker;
    settings.worker_count = 1;
    settings.consume = 1;
    for (i = 0; i < 8; i++) {
        const char *path = paths[i / 2];
        memset(&request, 0, sizeof request);
        request.prefix = request.query = request.host = request.origin = missing;
        request.sec_fetch_site = request.content_type = request.authorization = request.accept = missing;
        request.accept_encoding = request.body = request.path = missing;
        request.role = SERIATIM_WEB_ADMIN;
        request.method = methods[i % 2];
        if (path) {
            request.path.data = path;
            request.path.len = strlen(path);
        }
        assert_int_equal(seriatim_web_begin(client, &settings, &request), SERIATIM_OK);
        status = seriatim_web_answer(client, SERIATIM_OK, NULL)->status;
        assert_true(i == 0 || i == 2 ? status == 200 : status >= 400 && status < 500);
    }
    request.method = "GET";
    request.path.data = "/api/web/Q/range_by_id"; /* which looks at the workers */
    request.path.len = strlen(request.path.data);
    assert_int_equal(seriatim_web_begin(client, &settings, &request), SERIATIM_OK);
}

static void test_a_sentinel_that_failed_without_a_reason_has_one(void **state)
{
    seriatim_sentinel *sentinel;
    seriatim_address where;
    seriatim_error error;
    (void)state;
    assert_int_equal(seriatim_sentinel_new(NULL, "redis+sentinel://h:1/m", &sentinel, &error), SERIATIM_OK);
    seriatim_sentinel_begin(sentinel);
    assert_int_equal(seriatim_sentinel_next(sentinel, &where), SERIATIM_OK);
    seriatim_sentinel_failed(sentinel, NULL);
    assert_int_equal(seriatim_sentinel_next(sentinel, &where), SERIATIM_IO);
    assert_non_null(strstr(seriatim_sentinel_error(sentinel)->message, "h:1: it cannot be asked"));
    seriatim_sentinel_free(sentinel);
}

/* ---- Runners --------------------------------------------------------------------------------- */

static seriatim_runner *new_runner(void)
{
    seriatim_node_settings node;
    seriatim_queue_settings settings;
    seriatim_runner *runner;
    seriatim_error error;
    size_t worker;
    memset(&node, 0, sizeof node);
    node.id = "n1";
    node.lease_ms = 10000;
    node.poll_ms = 1000;
    node.threads = 1;
    seriatim_queue_settings_init(&settings);
    settings.name = "Q";
    settings.name_len = 1;
    assert_int_equal(seriatim_runner_new(&node, NULL, &runner, &error), SERIATIM_INVALID);
    assert_string_equal(error.message, "the URL is missing");
    assert_int_equal(seriatim_runner_new(&node, NOWHERE, &runner, &error), SERIATIM_OK);
    assert_int_equal(seriatim_runner_worker(runner, &settings, &worker, &error), SERIATIM_OK);
    return runner;
}

static void has_no_group(seriatim_runner *runner, size_t group)
{
    const seriatim_shard shard = {0, 0};
    seriatim_candidate candidate;
    seriatim_delivery *delivery;
    seriatim_waiter *waiter;
    assert_int_equal(seriatim_runner_take(runner, group, &delivery), SERIATIM_INVALID);
    assert_int_equal(seriatim_runner_take_from(runner, group, shard, &delivery), SERIATIM_INVALID);
    assert_int_equal(seriatim_runner_settle_and_take(runner, NULL, group, &delivery), SERIATIM_INVALID);
    assert_int_equal(seriatim_runner_candidates(runner, group, &candidate, 1), 0);
    assert_int_equal(seriatim_runner_fd(runner, group), -1);
    assert_int_equal(seriatim_runner_wait_begin(runner, group, &waiter), -1);
    seriatim_runner_wait_end(runner, group, waiter);
    seriatim_runner_wait(runner, group, -1);
    seriatim_runner_clear(runner, group);
}

static void test_a_runner_that_is_not_started_has_no_group(void **state)
{
    seriatim_runner *runner = new_runner();
    seriatim_event event;
    char unfinished[128];
    (void)state;
    has_no_group(runner, 0);
    assert_int_equal(seriatim_runner_stats_now(runner).shards, 0);
    assert_int_equal(seriatim_runner_unfinished(runner, unfinished, sizeof unfinished), 0);
    assert_int_equal(seriatim_runner_event(runner, &event), SERIATIM_AGAIN);
    assert_int_equal(seriatim_runner_asked(runner), SERIATIM_ORDER_NONE);
    assert_int_equal(seriatim_runner_settle(runner, NULL), SERIATIM_OK);
    seriatim_runner_pulse(runner);
    seriatim_runner_wake_all(runner);
    seriatim_runner_free(runner);
}

static void test_a_runner_whose_start_failed_has_no_group(void **state)
{
    seriatim_runner *runner = new_runner();
    struct rlimit before, none = {0, 0};
    seriatim_delivery *delivery;
    seriatim_error error;
    int status;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    status = seriatim_runner_start(runner, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, SERIATIM_IO);
    has_no_group(runner, 0);
    assert_int_equal(seriatim_runner_start(runner, &error), SERIATIM_OK);
    assert_int_equal(seriatim_runner_take(runner, 0, &delivery), SERIATIM_AGAIN);
    seriatim_runner_free(runner);
}

static void test_a_runner_refuses_the_number_of_a_group_that_it_does_not_have(void **state)
{
    seriatim_runner *runner = new_runner();
    const seriatim_shard shard = {0, 0};
    seriatim_delivery *delivery;
    seriatim_error error;
    size_t group;
    (void)state;
    assert_int_equal(seriatim_runner_group(runner, SERIATIM_LAG, NULL, 2, &group, &error), SERIATIM_INVALID);
    assert_string_equal(error.message, "shards are missing");
    assert_int_equal(seriatim_runner_start(runner, &error), SERIATIM_OK);
    assert_int_equal(seriatim_runner_take(runner, 0, &delivery), SERIATIM_AGAIN);
    has_no_group(runner, 1);
    has_no_group(runner, 7);
    assert_int_equal(seriatim_runner_group(runner, SERIATIM_LAG, &shard, 1, &group, &error), SERIATIM_INVALID);
    assert_string_equal(error.message, "groups are made before the runner is started");
    seriatim_runner_free(runner);
}

#define CLIENT_TEST(name) cmocka_unit_test_setup_teardown(name, make_client, free_client)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLIENT_TEST(test_an_operation_of_one_queue_refuses_the_number_of_no_queue),
        CLIENT_TEST(test_an_action_refuses_texts_that_are_missing),
        CLIENT_TEST(test_an_action_on_a_whole_queue_refuses_texts),
        CLIENT_TEST(test_a_query_and_a_command_to_a_node_refuse_texts_that_are_missing),
        CLIENT_TEST(test_a_push_refuses_texts_that_are_missing),
        CLIENT_TEST(test_a_call_of_a_set_refuses_texts_and_members_that_are_missing),
        CLIENT_TEST(test_a_request_refuses_lists_that_are_missing),
        CLIENT_TEST(test_a_request_ignores_the_length_of_a_text_that_is_missing),
        cmocka_unit_test(test_a_sentinel_that_failed_without_a_reason_has_one),
        cmocka_unit_test(test_a_runner_that_is_not_started_has_no_group),
        cmocka_unit_test(test_a_runner_whose_start_failed_has_no_group),
        cmocka_unit_test(test_a_runner_refuses_the_number_of_a_group_that_it_does_not_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
