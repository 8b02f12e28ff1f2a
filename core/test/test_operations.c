/* test_operations.c - every operation without memory, and answers that no script gives, against a real redis-server. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "operators.h"

typedef struct failing {
    long left;
} failing;

static void *failing_alloc(void *user, void *ptr, size_t old_size, size_t new_size)
{
    failing *memory = user;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return memory->left-- > 0 ? realloc(ptr, new_size) : NULL;
}

#define OPERATIONS 17

static int begin_number(seriatim_client *c, size_t queue, int number)
{
    seriatim_query query;
    seriatim_text ids[2];
    ids[0] = text("a");
    ids[1] = text("hot");
    switch (number) {
    case 0:
        return seriatim_metrics_begin(c, queue);
    case 1:
        return seriatim_explain_begin(c, queue, "a", 1);
    case 2:
        return seriatim_check_begin(c, queue, 1);
    case 3:
        return seriatim_nodes_begin(c);
    case 4:
        return seriatim_action_begin(c, queue, SERIATIM_PARK, ids, 2);
    case 5:
        return seriatim_action_begin(c, queue, SERIATIM_MORGUE_QUEUE_UP_ALL_JOBS, NULL, 0);
    case 6:
    case 7:
        seriatim_query_init(&query, number == 6 ? SERIATIM_FETCH : SERIATIM_MORGUE_FETCH);
        query.ids = ids;
        query.id_count = 2;
        return seriatim_query_begin(c, queue, &query);
    case 8:
        return seriatim_queues_begin(c);
    case 9:
        return seriatim_health_begin(c);
    case 10:
        return seriatim_order_begin(c, "n1", 2, SERIATIM_ORDER_QUIET);
    default:
        seriatim_query_init(&query, (const int[]){SERIATIM_RANGE_BY_ID, SERIATIM_RANGE_BY_PERFORM_IN,
                                                  SERIATIM_RANGE_BY_RETRY_COUNT, SERIATIM_MORGUE_RANGE_BY_ID,
                                                  SERIATIM_PROCESSING_DATA, SERIATIM_PARKED}[number - 11]);
        query.reverse = number % 2;
        return seriatim_query_begin(c, queue, &query);
    }
}

static void test_every_allocation_of_an_operation_may_fail(void **state)
{
    fixture f = open_queue(2, "merge");
    seriatim_options options = {NULL, NULL, NULL, 0, NULL};
    failing memory = {0};
    seriatim_allocator allocator = {failing_alloc, NULL};
    seriatim_error error;
    int number;
    (void)state;
    fill(&f);
    push_many(&f, "hot", 0, 300);
    allocator.user = &memory;
    options.allocator = &allocator;
    for (number = 0; number < OPERATIONS; number++) {
        long n;
        int status = SERIATIM_NOMEM;
        for (n = 0; status != SERIATIM_OK; n++) {
            seriatim_link *link;
            size_t queue;
            memory.left = 1000000;
            assert_int_equal(seriatim_link_new(&options, server.url, &link, &error), SERIATIM_OK);
            queue = add_queue(seriatim_link_client(link), "Q", 1, 2, "merge");
            memory.left = n;
            status = begin_number(seriatim_link_client(link), queue, number);
            if (status == SERIATIM_OK)
                status = drive(link);
            memory.left = 1000000;
            if (status != SERIATIM_OK && status != SERIATIM_NOMEM)
                fail_msg("operation %d, allocation %ld: %s", number, n,
                         seriatim_client_error(seriatim_link_client(link))->message);
            seriatim_link_free(link);
            assert_true(n < 3000);
        }
    }
    close_queue(&f);
}

/* Answers that no script gives: an error, never more. */
static void test_answers_of_no_script_end_in_an_error(void **state)
{
    static const char *const answers[] = {
        "+OK\r\n",
        ":7\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "*0\r\n",
        "$0\r\n\r\n",
        "*1\r\n:1\r\n",
        "*2\r\n:1\r\n$1\r\nx\r\n",
        "*2\r\n:1\r\n:1\r\n",
        "*3\r\n$1\r\n0\r\n$-1\r\n:1\r\n",
        "*3\r\n:5\r\n:9\r\n:1\r\n",
        "*1\r\n*1\r\n*1\r\n:1\r\n",
        "*2\r\n$1\r\n0\r\n*1\r\n$5\r\nabcde\r\n",
        "*4\r\n$1\r\n0\r\n:1\r\n*3\r\n:1\r\n:1\r\n:1\r\n*0\r\n",
        "*4\r\n$1\r\n0\r\n:1\r\n*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n*0\r\n",
        "*7\r\n:1\r\n:1\r\n$1\r\na\r\n$0\r\n\r\n:0\r\n:1\r\n$1\r\nx\r\n",
        "*7\r\n:1\r\n:9\r\n$1\r\na\r\n$0\r\n\r\n:0\r\n:1\r\n$1\r\nx\r\n",
        "*2\r\n$1\r\n0\r\n*1\r\n:1\r\n",
        "*2\r\n$1\r\n7\r\n*1\r\n$17\r\nseriatim:{}:layout\r\n",
        "*2\r\n*0\r\n*0\r\n",
        "$14\r\n\naof_enabled:1\r\n",
        "*10\r\n:1\r\n:1\r\n:1\r\n:1\r\n$2\r\nn1\r\n$1\r\n0\r\n:1\r\n$1\r\nx\r\n$0\r\n\r\n$0\r\n\r\n",
    };
    int number;
    size_t i;
    (void)state;
    for (number = 0; number < OPERATIONS; number++) {
        for (i = 0; i < sizeof answers / sizeof *answers; i++) {
            seriatim_client *c = NULL;
            seriatim_error error;
            size_t queue, n;
            assert_int_equal(seriatim_client_new(NULL, &c, &error), SERIATIM_OK);
            queue = add_queue(c, "Q", 1, 1, "merge");
            srt_client_connected(c, NULL, NULL, 0);
            assert_int_equal(begin_number(c, queue, number), SERIATIM_OK);
            if (number != 3 && number != 8 && number != 9)
                srt_client_input(c, "$5\r\n1 1 3\r\n", 11, &error);
            for (n = 0; n < 50 && srt_client_waits(c); n++)
                srt_client_input(c, answers[i], strlen(answers[i]), &error);
            seriatim_client_free(c);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_of_an_operation_may_fail),
        cmocka_unit_test(test_answers_of_no_script_end_in_an_error),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
