/* test_queues.c - the list of queues, and health, against a real redis-server. */
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

static void make_queue(const fixture *f, const char *name, size_t len)
{
    done(f, seriatim_layout_begin(f->client, add_queue(f->client, name, len, 1, "merge")));
}

static void test_all_queues_are_listed(void **state)
{
    fixture f = open_queue(1, "merge");
    const seriatim_text *names;
    size_t count;
    (void)state;
    assert_string_equal(queues(&f), "");
    make_queue(&f, "Q/0}:jobs", 9);
    make_queue(&f, "\xc3\xa9", 2);
    make_queue(&f, "A::B", 4);
    make_queue(&f, "a b", 3);
    make_queue(&f, "%41", 3);
    make_queue(&f, "{Q*", 3);
    make_queue(&f, "Q", 1);
    push(&f, "x", "1", none);
    assert_string_equal(queues(&f), "%41 A::B Q Q/0}:jobs a b {Q* \xc3\xa9");
    make_queue(&f, "nul\0in", 6);
    assert_string_equal(queues(&f), "%41 A::B Q Q/0}:jobs a b nul {Q* \xc3\xa9");
    names = seriatim_queues_result(f.client, &count);
    assert_int_equal(names[5].len, 6);
    assert_memory_equal(names[5].data, "nul\0in", 6);
    done(&f, seriatim_metrics_begin(f.client, f.queue));
    assert_null(seriatim_queues_result(f.client, &count));
    assert_int_equal(count, 0);
    close_queue(&f);
}

/* Keys whose names look like a layout's key, but are not. */
static void test_the_list_of_queues_leaves_out_other_keys(void **state)
{
    static const char *const keys[] = {
        "seriatim:{}:layout",     "seriatim:{a b}:layout", "seriatim:{a%2Eb}:layout", "seriatim:{a%4}:layout",
        "seriatim:{a%2f}:layout", "seriatim:{Q/0}:layout", "seriatim:{/x}:layout",    "seriatim:{Q}x}:layout",
        "seriatim:{Q}:layout:",   "xseriatim:{Q}:layout",  "seriatimx:{Q}:layout",    "seriatim:{Q}:nolayout"};
    fixture f = open_queue(1, "merge");
    size_t i;
    (void)state;
    for (i = 0; i < sizeof keys / sizeof *keys; i++)
        REDIS("SET %s 1", keys[i]);
    push_many(&f, "}:layout", 0, 300);
    assert_string_equal(queues(&f), "Q");
    REDIS("DEL seriatim:{Q/0}:layout");
    close_queue(&f);
}

static void test_queues_are_found_among_many_keys(void **state)
{
    fixture f = open_queue(1, "merge");
    char name[16], want[4096] = "";
    int i;
    (void)state;
    REDIS("EVAL %s 0", "for i = 1, 5000 do redis.call('SET', 'other' .. i, '') end");
    for (i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "queue%03d", i);
        make_queue(&f, name, strlen(name));
        if (i)
            strcat(want, " ");
        strcat(want, name);
    }
    assert_string_equal(queues(&f), want);
    close_queue(&f);
}

/* SCAN may give a key more than once, in one answer or in two. */
static void test_queues_are_named_once(void **state)
{
    static const char *const answers[] = {
        "*2\r\n$1\r\n7\r\n*3\r\n$19\r\nseriatim:{b}:layout\r\n$19\r\nseriatim:{a}:layout\r\n$19\r\nseriatim:{b}:"
        "layout\r\n",
        "*2\r\n$1\r\n0\r\n*1\r\n$19\r\nseriatim:{a}:layout\r\n",
    };
    seriatim_client *c = NULL;
    seriatim_error error;
    const seriatim_text *names;
    size_t count, i;
    (void)state;
    assert_int_equal(seriatim_client_new(NULL, &c, &error), SERIATIM_OK);
    srt_client_connected(c, NULL, NULL, 0);
    assert_int_equal(seriatim_queues_begin(c), SERIATIM_OK);
    for (i = 0; i < 2; i++)
        assert_int_equal(srt_client_input(c, answers[i], strlen(answers[i]), &error), SERIATIM_OK);
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    names = seriatim_queues_result(c, &count);
    assert_int_equal(count, 2);
    assert_string_equal(names[0].data, "a");
    assert_string_equal(names[1].data, "b");
    seriatim_client_free(c);
}

static void test_queues_of_another_namespace_are_not_listed(void **state)
{
    static const char *const spaces[] = {"a*", "a*b", "a?", "[a]", "a"};
    seriatim_options options = {NULL, NULL, NULL, 0, NULL};
    seriatim_error error;
    fixture f;
    size_t i;
    (void)state;
    REDIS("FLUSHALL");
    for (i = 0; i < sizeof spaces / sizeof *spaces; i++) {
        options.ns = spaces[i];
        assert_int_equal(seriatim_link_new(&options, server.url, &f.link, &error), SERIATIM_OK);
        f.client = seriatim_link_client(f.link);
        make_queue(&f, spaces[i], strlen(spaces[i]));
        assert_string_equal(queues(&f), spaces[i]);
        seriatim_link_free(f.link);
    }
}

static const seriatim_health *health(const fixture *f)
{
    done(f, seriatim_health_begin(f->client));
    return seriatim_health_result(f->client);
}

/* Pages of 7 through an index of 90 ids that failed equally often; returns how many ids they show. */
static size_t count_by_pages(const fixture *f, int reverse)
{
    const seriatim_record *records;
    seriatim_query query;
    srt_target after = {NULL, 0, 0, 0};
    char last[SERIATIM_MAX_ID];
    size_t count, total = 0;
    seriatim_query_init(&query, SERIATIM_RANGE_BY_RETRY_COUNT);
    query.reverse = reverse;
    query.min = text("0");
    query.max = text("+inf");
    query.limit = 7;
    do {
        done(f, srt_query_begin(f->client, f->queue, &query, total ? &after : NULL, 0));
        records = seriatim_query_result(f->client, &count);
        if (count) {
            memcpy(last, records[count - 1].id, records[count - 1].id_len);
            after.id = last;
            after.len = records[count - 1].id_len;
        }
        total += count;
    } while (count && total < 1000);
    return total;
}

/* The pages of an index are in byte order, whatever the locale of Redis says (server.c gives it another collation). */
static void test_pages_are_in_byte_order(void **state)
{
    static const char *const kinds[] = {"User-%02d",           "order-%02d", "_job-%02d",
                                        "order-%02d-\xc3\xa4", "order_%02d", "order-%02d-"};
    fixture f = open_queue(1, "merge");
    char id[32];
    int i;
    (void)state;
    for (i = 0; i < 90; i++) {
        snprintf(id, sizeof id, kinds[i % 6], i / 6);
        push_failed(&f, id, "1", 0, 600);
    }
    assert_int_equal(count_by_pages(&f, 0), 90);
    assert_int_equal(count_by_pages(&f, 1), 90);
    close_queue(&f);
}

static void test_health_reports_how_redis_is_set_up(void **state)
{
    fixture f = open_queue(1, "merge");
    char command[160];
    (void)state;
    assert_string_equal(health(&f)->maxmemory_policy, "noeviction");
    assert_int_equal(health(&f)->append_only, 0);
    REDIS("CONFIG SET maxmemory-policy allkeys-lru");
    REDIS("CONFIG SET appendonly yes");
    assert_string_equal(health(&f)->maxmemory_policy, "allkeys-lru");
    assert_int_equal(health(&f)->append_only, 1);
    REDIS("CONFIG SET maxmemory-policy noeviction");
    REDIS("CONFIG SET appendonly no");
    done(&f, seriatim_queues_begin(f.client));
    assert_null(seriatim_health_result(f.client));
    snprintf(command, sizeof command, "rm -rf %s/*aof* %s/appendonlydir", server.folder, server.folder);
    assert_int_equal(system(command), 0);
    close_queue(&f);
}

/* Without the right to INFO the answer is "unknown"; without SCAN health has no answer. The link goes on. */
static void test_forbidden_commands_make_health_unknown(void **state)
{
    fixture f = open_queue(1, "merge"), limited = f;
    seriatim_error error;
    char url[160];
    (void)state;
    REDIS("ACL SETUSER limited on >secret ~* &* +@all -info -scan");
    snprintf(url, sizeof url, "unix://limited:secret@%s", server.socket);
    assert_int_equal(seriatim_link_new(NULL, url, &limited.link, &error), SERIATIM_OK);
    limited.client = seriatim_link_client(limited.link);
    limited.queue = add_queue(limited.client, "Q", 1, 1, "merge");
    assert_string_equal(health(&limited)->maxmemory_policy, "");
    assert_int_equal(health(&limited)->append_only, -1);
    assert_int_equal(seriatim_queues_begin(limited.client), SERIATIM_OK);
    assert_int_equal(drive(limited.link), SERIATIM_AUTH);
    assert_non_null(strstr(seriatim_client_error(limited.client)->message, "NOPERM"));
    push(&limited, "a", "1", none);
    assert_int_equal(metrics(&f).length, 1);
    seriatim_link_free(limited.link);
    REDIS("ACL DELUSER limited");
    close_queue(&f);
}

/* Redis refuses the first write of a script; before 7.2 it says ERR. */
static void test_a_user_who_may_only_read_is_told_so(void **state)
{
    fixture f = open_queue(1, "merge"), limited = f;
    seriatim_job job;
    seriatim_error error;
    char url[160];
    (void)state;
    REDIS("ACL SETUSER limited on >secret ~* &* +@all -@write +eval +evalsha");
    snprintf(url, sizeof url, "unix://limited:secret@%s", server.socket);
    assert_int_equal(seriatim_link_new(NULL, url, &limited.link, &error), SERIATIM_OK);
    limited.client = seriatim_link_client(limited.link);
    limited.queue = add_queue(limited.client, "Q", 1, 1, "merge");
    assert_int_equal(metrics(&limited).length, 0);
    seriatim_job_init(&job);
    job.id = "a";
    job.id_len = 1;
    assert_int_equal(seriatim_push_begin(limited.client, limited.queue), SERIATIM_OK);
    assert_int_equal(seriatim_push_job(limited.client, &job), SERIATIM_OK);
    assert_int_equal(seriatim_push_send(limited.client), SERIATIM_OK);
    assert_int_equal(drive(limited.link), SERIATIM_AUTH);
    assert_non_null(strstr(seriatim_client_error(limited.client)->message, "its user may not write"));
    seriatim_link_free(limited.link);
    REDIS("ACL DELUSER limited");
    close_queue(&f);
}

/* Redis-alikes that leave fields out, or a proxy that knows no INFO. */
static void test_health_reads_incomplete_answers(void **state)
{
    static const struct {
        const char *answer, *policy;
        int append_only;
    } cases[] = {
        {"$0\r\n\r\n", "", -1},
        {"-ERR unknown command 'INFO'\r\n", "", -1},
        {"$20\r\n# X\r\naof_enabled:1\r\n\r\n", "", 1},
        {"$17\r\n# X\r\naof_enabled:\r\n", "", -1},
        {"$18\r\n\nmaxmemory_policy:\r\n", "", -1},
        {"$28\r\n\nmaxmemory_policy:noeviction\r\n", "noeviction", -1},
        {"$24\r\nx_maxmemory_policy:abc\r\n\r\n", "", -1},
    };
    size_t i;
    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        seriatim_client *c = NULL;
        seriatim_error error;
        const seriatim_health *h;
        assert_int_equal(seriatim_client_new(NULL, &c, &error), SERIATIM_OK);
        srt_client_connected(c, NULL, NULL, 0);
        assert_int_equal(seriatim_health_begin(c), SERIATIM_OK);
        assert_int_equal(srt_client_input(c, cases[i].answer, strlen(cases[i].answer), &error), SERIATIM_OK);
        assert_int_equal(srt_client_status(c), SERIATIM_OK);
        h = seriatim_health_result(c);
        assert_non_null(h);
        assert_string_equal(h->maxmemory_policy, cases[i].policy);
        assert_int_equal(h->append_only, cases[i].append_only);
        seriatim_client_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_queues_are_listed),
        cmocka_unit_test(test_the_list_of_queues_leaves_out_other_keys),
        cmocka_unit_test(test_queues_are_found_among_many_keys),
        cmocka_unit_test(test_queues_of_another_namespace_are_not_listed),
        cmocka_unit_test(test_queues_are_named_once),
        cmocka_unit_test(test_pages_are_in_byte_order),
        cmocka_unit_test(test_health_reports_how_redis_is_set_up),
        cmocka_unit_test(test_forbidden_commands_make_health_unknown),
        cmocka_unit_test(test_a_user_who_may_only_read_is_told_so),
        cmocka_unit_test(test_health_reads_incomplete_answers),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
