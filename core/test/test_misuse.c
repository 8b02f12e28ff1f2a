/* test_misuse.c - wrong arguments of public functions are answered by INVALID; no Redis is needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

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

#define CLIENT_TEST(name) cmocka_unit_test_setup_teardown(name, make_client, free_client)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLIENT_TEST(test_an_operation_of_one_queue_refuses_the_number_of_no_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
